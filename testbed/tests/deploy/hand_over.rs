//! Updates and new secrets while 500 users are at it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use shared::token::{Keys, User};
use testbed::machine::Machine;
use testbed::{WorkerConfig, Workerd, origin, workerd};

use crate::load::{Load, Outcome};
use crate::stage::{INSTALL, deploy, machine};

const USERS: usize = 500;

fn token(secret: &str) -> String {
    let user = User {
        id: 1,
        username: "golden_ember_1".to_owned(),
    };
    let now_s = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs() as i64;
    Keys::new(secret.as_bytes()).sign(&user, now_s, now_s + 3_600)
}

/// Two programs that do the same and are not the same.
fn two_releases(machine: &Machine) {
    let binary = origin::binary("dev").unwrap();
    machine.put(&binary, "/root/origin-1");
    let dir = testbed::TempDir::new("release").unwrap();
    let second = dir.join("origin");
    fs::copy(&binary, &second).unwrap();
    let mut bytes = fs::read(&second).unwrap();
    bytes.push(b'\n');
    fs::write(&second, bytes).unwrap();
    machine.put(&second, "/root/origin-2");
}

fn load(address: &str, headers: Vec<(&'static str, String)>) -> Load {
    Load {
        address: address.parse().unwrap(),
        users: USERS,
        think_time: Duration::from_millis(1_000),
        headers,
    }
}

const ORIGIN: &str = "127.0.0.1:80";

fn headers(token: &str, key: &str) -> Vec<(&'static str, String)> {
    vec![
        ("authorization", format!("Bearer {token}")),
        ("x-edge-key", key.to_owned()),
    ]
}

fn setting(machine: &Machine, name: &str) -> String {
    machine.run(&format!("sed -n 's/^{name}=//p' /etc/onebox/origin.env"))
}

fn nobody_noticed(what: &str, outcome: &Outcome) {
    println!("{what}: {} answers", outcome.answered);
    assert_eq!(outcome.failures, Vec::<String>::new(), "{what}");
    assert!(outcome.answered > USERS, "{what}: {}", outcome.answered);
}

#[test]
fn on_sqlite_nobody_notices_an_update_a_rollback_or_a_new_secret() {
    nobody_notices("sqlite");
}

#[test]
fn on_postgresql_nobody_notices_an_update_a_rollback_or_a_new_secret() {
    nobody_notices("postgres");
}

fn nobody_notices(store: &str) {
    let Some(machine) = Machine::boot() else {
        return;
    };
    two_releases(&machine);
    machine.put(&deploy(""), "/root/onebox/deploy");
    machine.run(&format!(
        "{INSTALL} --store {store} --binary /root/origin-1"
    ));
    // The first key, before the edge is there: whoever has it is let in.
    machine.run("onebox rotate edge-key");
    let old_token = token(&setting(&machine, "JWT_SECRET"));
    let old_key = setting(&machine, "EDGE_KEY");

    let (releases, outcome) = machine.in_network(|| {
        load(ORIGIN, headers(&old_token, &old_key)).during(|| {
            sleep(Duration::from_secs(2));
            let first = machine.run("onebox version");
            machine.run("onebox update /root/origin-2");
            sleep(Duration::from_secs(3));
            let second = machine.run("onebox version");
            machine.run("onebox rollback");
            sleep(Duration::from_secs(3));
            let third = machine.run("onebox version");
            machine.run("onebox rotate jwt-secret && onebox rotate edge-key");
            sleep(Duration::from_secs(3));
            [first, second, third]
        })
    });
    assert_ne!(releases[0], releases[1]);
    assert_eq!(releases[0], releases[2]);
    nobody_noticed("two releases and two secrets", &outcome);
    assert!(outcome.answered > USERS * 5, "{} answers", outcome.answered);

    // The new ones are accepted beside the old ones, and afterwards instead of them.
    let status = |token: &str, key: &str| {
        machine.run(&format!(
            "curl -s -o /dev/null -w '%{{http_code}}' -X POST localhost/posts/2/like \
             -H 'Authorization: Bearer {token}' -H 'X-Edge-Key: {key}'"
        ))
    };
    let new_token = token(&setting(&machine, "JWT_SECRET"));
    let key = setting(&machine, "EDGE_KEY");
    assert_ne!(key, old_key);
    for (token, key) in [
        (&new_token, &key),
        (&new_token, &old_key),
        (&old_token, &key),
    ] {
        assert!(
            status(token, key).starts_with("20"),
            "{}",
            status(token, key)
        );
    }
    let (_, outcome) = machine.in_network(|| {
        load(ORIGIN, headers(&new_token, &key)).during(|| {
            sleep(Duration::from_secs(2));
            machine.run("onebox rotate --finish");
            sleep(Duration::from_secs(3));
        })
    });
    nobody_noticed("the end of the old secrets", &outcome);
    assert_eq!(status(&old_token, &key), "401");
    assert_eq!(status(&new_token, &old_key), "403");
    let get = |path: &str| {
        machine.run(&format!(
            "curl -s -o /dev/null -w '%{{http_code}}' localhost{path}"
        ))
    };
    assert_eq!([get("/health"), get("/feed")], ["200", "403"]);
}

/// As deploy/edge/README.md says to: the box first, then the edge place by place, and the old
/// secrets at last. Each edge here is what a place has at that time.
#[test]
fn through_the_edge_nobody_notices_new_secrets() {
    let Some(machine) = machine() else { return };
    machine.run(&format!("{INSTALL} --store sqlite --binary /root/origin"));
    machine.run("onebox rotate edge-key");
    let secrets = || ["JWT_SECRET", "EDGE_KEY"].map(|name| setting(&machine, name));
    let edge = |[secret, key]: &[String; 2], previous: Option<&str>| {
        let modules = workerd::edge_modules(&[]).unwrap();
        let mut config = WorkerConfig::new(&modules.path)
            .network(machine.network())
            .var("ORIGINS", format!("http://{ORIGIN}"))
            .var("CACHE", "isolate")
            .var("JWT_SECRET", secret)
            .var("EDGE_KEY", key);
        if let Some(previous) = previous {
            config = config.var("JWT_SECRET_PREVIOUS", previous);
        }
        Workerd::start(&config).unwrap()
    };
    let users = |edge: &Workerd, token: &str| {
        let authorization = ("authorization", format!("Bearer {token}"));
        load(&edge.address().to_string(), vec![authorization])
    };
    let a_while = || sleep(Duration::from_secs(3));

    machine.in_network(|| {
        let before = secrets();
        let old_token = token(&before[0]);
        let old_edge = edge(&before, None);
        let (after, outcome) = users(&old_edge, &old_token).during(|| {
            a_while();
            machine.run("onebox rotate jwt-secret && onebox rotate edge-key");
            a_while();
            let after = secrets();
            // Half of the places have the new secrets, half the old ones.
            let new_edge = edge(&after, Some(&before[0]));
            let (_, outcome) = users(&new_edge, &old_token).during(a_while);
            nobody_noticed("an edge that has both secrets, old tokens", &outcome);
            after
        });
        nobody_noticed("an edge that has the old secrets", &outcome);
        drop(old_edge);

        let new_token = token(&after[0]);
        let new_edge = edge(&after, Some(&before[0]));
        let last_edge = edge(&after, None);
        let (_, outcome) = users(&new_edge, &new_token).during(|| {
            a_while();
            machine.run("onebox rotate --finish");
            let (_, outcome) = users(&last_edge, &new_token).during(a_while);
            nobody_noticed("an edge that has the new secrets alone", &outcome);
        });
        nobody_noticed("an edge that has both secrets, new tokens", &outcome);

        let refused = last_edge
            .post("/posts/1/like", Some(&old_token), "")
            .unwrap();
        assert_eq!(refused.status, 401);
        let stale = edge(&before, None);
        assert_eq!(stale.get("/posts/1").unwrap().status, 403);
    });
}

#[test]
fn a_release_that_does_not_start_changes_nothing() {
    let Some(machine) = Machine::boot() else {
        return;
    };
    machine.put(&origin::binary("dev").unwrap(), "/root/origin-1");
    machine.put(&deploy(""), "/root/onebox/deploy");
    machine.run(&format!("{INSTALL} --store sqlite --binary /root/origin-1"));
    let before = machine.run("onebox version");
    machine
        .run("printf '#!/bin/sh\\n[ $1 = --version ]\\n' >/root/broken && chmod +x /root/broken");

    let (updated, said) = machine.attempt("onebox update /root/broken");
    assert!(!updated && said.contains("nothing has changed"), "{said}");
    assert_eq!(machine.run("onebox version"), before);
    machine.run("curl -sf localhost/feed");

    // A server whose event loops stand still is replaced.
    let pid = || machine.run("systemctl show -P MainPID onebox@1");
    machine.run("mkdir -p /run/systemd/system/onebox@1.service.d && \
        printf '[Service]\\nWatchdogSec=2\\n' >/run/systemd/system/onebox@1.service.d/quick.conf && \
        systemctl daemon-reload && onebox stop && onebox start");
    let stuck = pid();
    machine.run(&format!("kill -STOP {stuck}"));
    testbed::wait_until(
        "the watchdog to replace it",
        Duration::from_secs(20),
        || Ok(pid() != stuck && machine.attempt("curl -sf -m 1 localhost/feed").0),
    )
    .unwrap();
}
