//! Updates and new secrets while 500 users are at it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use shared::token::{Keys, User};
use testbed::origin;

use crate::load::Load;
use crate::stage::deploy;
use testbed::machine::Machine;

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

fn load(headers: Vec<(&'static str, String)>) -> Load {
    let address = "127.0.0.1:80".parse().unwrap();
    Load {
        address,
        users: USERS,
        think_time: Duration::from_millis(1_000),
        headers,
    }
}

#[test]
fn neither_an_update_nor_a_rollback_nor_a_new_secret_fails_a_request() {
    let Some(machine) = Machine::boot() else {
        return;
    };
    two_releases(&machine);
    machine.put(&deploy(""), "/root/onebox/deploy");
    machine.run("/root/onebox/deploy/droplet/install.sh --store sqlite --binary /root/origin-1");
    let secret = machine.run("sed -n 's/^JWT_SECRET=//p' /etc/onebox/origin.env");
    // The first key, before the edge is there: whoever has it is let in.
    machine.run("onebox rotate edge-key");
    let key = machine.run("sed -n 's/^EDGE_KEY=//p' /etc/onebox/origin.env");
    let (old_token, old_key) = (token(&secret), key);
    let headers = |token: &str, key: &str| {
        vec![
            ("authorization", format!("Bearer {token}")),
            ("x-edge-key", key.to_owned()),
        ]
    };

    let (releases, outcome) = machine.in_network(|| {
        load(headers(&old_token, &old_key)).during(|| {
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
    println!(
        "{} users, 5 hand-overs: {} answers",
        USERS, outcome.answered
    );
    assert_eq!(outcome.failures, Vec::<String>::new());
    assert!(outcome.answered > USERS * 5, "{} answers", outcome.answered);

    // The new ones are accepted beside the old ones, and afterwards instead of them.
    let status = |token: &str, key: &str| {
        machine.run(&format!(
            "curl -s -o /dev/null -w '%{{http_code}}' -X POST localhost/posts/2/like \
             -H 'Authorization: Bearer {token}' -H 'X-Edge-Key: {key}'"
        ))
    };
    let secret = machine.run("sed -n 's/^JWT_SECRET=//p' /etc/onebox/origin.env");
    let key = machine.run("sed -n 's/^EDGE_KEY=//p' /etc/onebox/origin.env");
    let new_token = token(&secret);
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
        load(headers(&new_token, &key)).during(|| {
            sleep(Duration::from_secs(2));
            machine.run("onebox rotate --finish");
            sleep(Duration::from_secs(3));
        })
    });
    assert_eq!(outcome.failures, Vec::<String>::new());
    assert_eq!(status(&old_token, &key), "401");
    assert_eq!(status(&new_token, &old_key), "403");
    assert_eq!(
        machine.run("curl -s -o /dev/null -w '%{http_code}' localhost/health"),
        "200"
    );
    assert_eq!(
        machine.run("curl -s -o /dev/null -w '%{http_code}' localhost/feed"),
        "403"
    );
}

#[test]
fn a_release_that_does_not_start_changes_nothing() {
    let Some(machine) = Machine::boot() else {
        return;
    };
    machine.put(&origin::binary("dev").unwrap(), "/root/origin-1");
    machine.put(&deploy(""), "/root/onebox/deploy");
    machine.run("/root/onebox/deploy/droplet/install.sh --store sqlite --binary /root/origin-1");
    let before = machine.run("onebox version");
    machine
        .run("printf '#!/bin/sh\\n[ $1 = --version ]\\n' >/root/broken && chmod +x /root/broken");

    let (updated, said) = machine.attempt("onebox update /root/broken");
    assert!(!updated && said.contains("nothing has changed"), "{said}");
    assert_eq!(machine.run("onebox version"), before);
    machine.run("curl -sf localhost/feed");

    // A server whose event loops stand still is replaced.
    let pid = || machine.run("systemctl show -P MainPID onebox@1");
    let stuck = pid();
    machine.run("mkdir -p /run/systemd/system/onebox@1.service.d && \
        printf '[Service]\\nWatchdogSec=2\\n' >/run/systemd/system/onebox@1.service.d/quick.conf && \
        systemctl daemon-reload && onebox stop && onebox start");
    let stuck = if pid() == stuck { stuck } else { pid() };
    machine.run(&format!("kill -STOP {stuck}"));
    testbed::wait_until(
        "the watchdog to replace it",
        Duration::from_secs(20),
        || Ok(pid() != stuck && machine.attempt("curl -sf -m 1 localhost/feed").0),
    )
    .unwrap();
}
