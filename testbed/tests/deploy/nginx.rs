//! The micro-cache: the real Nginx with the droplet's configuration, in front of an origin that
//! counts.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use testbed::machine::path_with_sbin;
use testbed::scripted_origin::{Mood, ScriptedOrigin};
use testbed::{Server, TempDir, http, process};

use crate::stage::{deploy, has};

struct Stage {
    nginx: Server,
    origin: ScriptedOrigin,
    _dir: TempDir,
}

/// The droplet's files, with nothing changed but where they listen, ask and write.
fn stage() -> Option<Stage> {
    stage_with("onebox-readers.conf", |text, port| {
        listening(text, 80, port)
    })
}

/// The same lines, listening here alone.
fn listening(text: &str, port: u16, instead: u16) -> String {
    text.replace(
        &format!("listen {port} "),
        &format!("listen 127.0.0.1:{instead} "),
    )
    .replace(
        &format!("listen [::]:{port} "),
        &format!("listen [::1]:{instead} "),
    )
}

fn stage_with(clients: &str, adapt_clients: impl Fn(&str, u16) -> String) -> Option<Stage> {
    if !has("nginx") {
        return None;
    }
    let origin = ScriptedOrigin::start().unwrap();
    let dir = TempDir::new("nginx").unwrap();
    let path = dir.path().display().to_string();
    let adapt = |file: &str, changes: &[(&str, &str)]| {
        let mut text = fs::read_to_string(deploy("droplet/nginx").join(file)).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{file} has no {from:?}");
            text = text.replace(from, to);
        }
        fs::write(dir.join(file), text).unwrap();
    };
    let user = if rustix::process::geteuid().is_root() {
        "user www-data;"
    } else {
        ""
    };
    let command = |port: u16| {
        adapt(
            "nginx.conf",
            &[
                ("user www-data;", user),
                ("/run/nginx.pid", &format!("{path}/nginx.pid")),
                ("include /etc/nginx/modules-enabled/*.conf;", ""),
                ("/var/log/nginx/error.log", "stderr"),
                // What this machine's limits allow.
                ("worker_rlimit_nofile 131072;", ""),
                ("worker_connections 65536;", "worker_connections 1024;"),
                ("/etc/nginx/conf.d/*.conf", &format!("{path}/onebox.conf")),
            ],
        );
        adapt(
            "onebox.conf",
            &[
                (
                    "127.0.0.1:3000",
                    origin.base_url().trim_start_matches("http://"),
                ),
                ("/var/cache/nginx/onebox", &format!("{path}/cache")),
            ],
        );
        adapt("onebox-server.conf", &[]);
        let text = fs::read_to_string(deploy("droplet/nginx").join(clients)).unwrap();
        fs::write(dir.join("onebox-clients.conf"), adapt_clients(&text, port)).unwrap();
        let nginx = |options: &[&str]| {
            let mut command = Command::new("nginx");
            command.env("PATH", path_with_sbin());
            command.args([
                "-e",
                "stderr",
                "-p",
                &path,
                "-c",
                &format!("{path}/nginx.conf"),
            ]);
            command.args(options);
            command
        };
        process::run(nginx(&["-t", "-q"]))?;
        Ok(nginx(&["-g", "daemon off;"]))
    };
    let nginx = Server::start("nginx", "/health", command).unwrap();
    Some(Stage {
        nginx,
        origin,
        _dir: dir,
    })
}

#[test]
fn the_origin_renders_one_feed_a_second_under_load() {
    let Some(Stage {
        nginx,
        origin,
        _dir,
    }) = stage()
    else {
        return;
    };
    let (answers, start) = (AtomicUsize::new(0), Instant::now());
    let lasting = Duration::from_secs(5);
    scope(|scope| {
        for reader in 0..8 {
            let (nginx, answers) = (&nginx, &answers);
            scope.spawn(move || {
                while start.elapsed() < lasting {
                    let answer = nginx.get(&format!("/feed?reader={reader}")).unwrap();
                    assert_eq!(answer.status, 200);
                    answers.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(5));
                }
            });
        }
    });
    let renders: usize = (0..8)
        .map(|reader| origin.hits(&format!("/feed?reader={reader}")))
        .sum();
    println!("{} answers, {renders} renders in 5 s", answers.into_inner());
    assert!((3..=6).contains(&renders), "{renders} renders");
}

#[test]
fn readers_of_a_cold_feed_wait_for_one_render() {
    let Some(Stage {
        nginx,
        origin,
        _dir,
    }) = stage()
    else {
        return;
    };
    origin.set(Mood::Slow(Duration::from_millis(500)));
    scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| assert_eq!(nginx.get("/feed").unwrap().status, 200));
        }
    });
    assert_eq!(origin.hits("/feed"), 1);
}

#[test]
fn an_expired_feed_is_served_while_the_next_is_fetched() {
    let Some(Stage {
        nginx,
        origin,
        _dir,
    }) = stage()
    else {
        return;
    };
    let first = nginx.get("/feed").unwrap().body;
    sleep(Duration::from_millis(2_100));
    origin.set(Mood::Slow(Duration::from_millis(800)));
    let asked = Instant::now();
    assert_eq!(nginx.get("/feed").unwrap().body, first);
    assert!(
        asked.elapsed() < Duration::from_millis(400),
        "{:?}",
        asked.elapsed()
    );
    sleep(Duration::from_millis(1_200));
    assert_ne!(nginx.get("/feed").unwrap().body, first);
}

#[test]
fn while_the_origin_is_down_the_feed_is_stale_and_the_rest_says_so() {
    let Some(Stage {
        nginx,
        origin,
        _dir,
    }) = stage()
    else {
        return;
    };
    let feed = nginx.get("/feed").unwrap();
    origin.stop();
    for _ in 0..5 {
        let stale = nginx.get("/feed").unwrap();
        assert_eq!((stale.status, &stale.body), (200, &feed.body));
        sleep(Duration::from_millis(400));
    }
    let post = nginx.get("/posts/1").unwrap();
    assert_eq!(
        (post.status, post.body.as_str()),
        (502, r#"{"error":"origin unreachable"}"#)
    );
    assert_eq!(post.header("content-type"), Some("application/json"));

    origin.resume().unwrap();
    testbed::wait_until("a new feed", Duration::from_secs(5), || {
        Ok(nginx.get("/feed")?.body != feed.body)
    })
    .unwrap();

    origin.set(Mood::Broken);
    sleep(Duration::from_millis(1_100));
    assert_eq!(nginx.get("/feed").unwrap().status, 200);
    // The origin's own errors pass as they are.
    assert_eq!(
        nginx.get("/posts/1").unwrap().body,
        r#"{"error":"internal server error"}"#
    );
}

#[test]
fn nothing_but_the_feed_is_kept_or_changed_on_the_way() {
    let Some(Stage {
        nginx,
        origin,
        _dir,
    }) = stage()
    else {
        return;
    };
    nginx.get("/feed").unwrap();
    for path in [
        "/posts/1",
        "/posts//like",
        "/%66eed",
        "/feed/",
        "//feed",
        "/nope",
    ] {
        for _ in 0..2 {
            nginx.get(path).unwrap();
        }
        assert_eq!(origin.hits(path), 2, "{path}");
    }
    let token = [("authorization", "Bearer t"), ("x-request", "kept")];
    http::request("POST", &nginx.url("/posts"), &token, r#"{"body":"x"}"#).unwrap();
    let arrived = &origin.arrived("POST", "/posts")[0];
    assert_eq!(arrived.headers["authorization"], "Bearer t");
    assert_eq!(arrived.headers["x-forwarded-for"], "127.0.0.1");
    assert_eq!(arrived.body, br#"{"body":"x"}"#);

    let long = "x".repeat(70_000);
    let refused = http::request("POST", &nginx.url("/posts"), &[], &long).unwrap();
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (413, r#"{"error":"request body too large"}"#)
    );
}

/// A certificate authority, or with `authority` a certificate that it signed.
fn certificate(dir: &TempDir, name: &str, authority: Option<&str>) {
    let file = |name: &str, kind: &str| dir.join(format!("{name}.{kind}"));
    let mut openssl = Command::new("openssl");
    openssl
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")])
        .arg("-keyout")
        .arg(file(name, "key"))
        .arg("-out")
        .arg(file(name, "pem"));
    if let Some(authority) = authority {
        openssl.arg("-CA").arg(file(authority, "pem"));
        openssl.arg("-CAkey").arg(file(authority, "key"));
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    }
    process::run(openssl).unwrap();
}

#[test]
fn with_tls_only_who_has_the_right_certificate_gets_in() {
    if !has("openssl") || !has("curl") {
        return;
    }
    let certificates = TempDir::new("certificates").unwrap();
    for (name, authority) in [
        ("origin", None),
        ("cloudflare-ca", None),
        ("edge", Some("cloudflare-ca")),
        ("other-ca", None),
        ("stranger", Some("other-ca")),
    ] {
        certificate(&certificates, name, authority);
    }
    let tls_port = testbed::free_port();
    let folder = certificates.path().display().to_string();
    let Some(Stage {
        nginx,
        origin,
        _dir,
    }) = stage_with("onebox-cloudflare.conf", |text, port| {
        let tls = listening(text, 443, tls_port).replace("/etc/onebox/tls", &folder);
        // Where this test asks whether it is up.
        format!("{tls}\nlisten 127.0.0.1:{port};\n")
    })
    else {
        return;
    };
    let status = |certificate: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-k", "-o", "/dev/null", "-w", "%{http_code}"]);
        curl.args(certificate);
        curl.arg(format!("https://127.0.0.1:{tls_port}/posts/1"));
        let output = curl.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let with = |name: &str| {
        let file = |kind: &str| format!("{folder}/{name}.{kind}");
        status(&["--cert", &file("pem"), "--key", &file("key")])
    };
    assert_eq!(with("edge"), "200");
    assert_eq!(origin.hits("/posts/1"), 1);
    assert_eq!(status(&[]), "400");
    assert_eq!(with("stranger"), "400");
    assert_eq!(origin.hits("/posts/1"), 1);
    drop(nginx);
}
