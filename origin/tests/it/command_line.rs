//! What someone at a terminal, or a service manager, is told.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use shared::token::Keys;
use testbed::dataset::Sqlite;
use testbed::process::{Process, Signal};
use testbed::{OriginConfig, TempDir, free_port};

use crate::support::{BINARY, PATIENCE, origin_on, serving, small_dataset};

/// Runs to the end, which must be a failure, explained in one line.
#[track_caller]
fn fails(mut command: Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(!status.success(), "{said}");
    assert!(stdout.is_empty());
    let line = said.trim_end();
    assert!(
        line.starts_with("origin: ") && !line.contains('\n'),
        "{said:?}"
    );
    line.to_owned()
}

#[track_caller]
fn fails_because(config: &OriginConfig, reason: &str) {
    let line = fails(config.command());
    assert!(line.contains(reason), "{line}");
}

fn on_file(path: &Path) -> OriginConfig {
    OriginConfig::new(BINARY, &format!("sqlite:{}", path.display())).env("PORT", free_port())
}

fn on(dataset: &Sqlite) -> OriginConfig {
    serving(dataset).env("PORT", free_port())
}

#[test]
fn what_is_not_set_is_named() {
    let dataset = small_dataset();
    fails_because(
        &on(&dataset).without_env("JWT_SECRET"),
        "JWT_SECRET is not set",
    );
    fails_because(&on(&dataset).env("JWT_SECRET", ""), "JWT_SECRET is not set");
    fails_because(
        &on(&dataset).without_env("DATABASE_URL"),
        "set DATABASE_URL",
    );
    fails_because(&on(&dataset).env("SQLITE_PATH", "x.db"), "two stores");
    fails_because(&on(&dataset).env("PORT", "http"), "PORT is \"http\"");
    fails_because(
        &on(&dataset).env("DATABASE_URL", "mysql://me:hush@db/x"),
        "DATABASE_URL",
    );
}

#[test]
fn a_port_in_use_is_said_so_however_many_workers_listen() {
    let dataset = small_dataset();
    for workers in ["1", "2"] {
        let running = origin_on(&dataset, &[("WORKERS", workers)]);
        for other in ["1", "2"] {
            let config = on(&dataset)
                .env("PORT", running.port())
                .env("WORKERS", other);
            fails_because(
                &config,
                &format!("port {} of 127.0.0.1 is in use", running.port()),
            );
        }
        assert_eq!(running.get("/feed").unwrap().status, 200);
    }
}

#[test]
fn a_port_of_the_metrics_in_use_is_said_so() {
    let dataset = small_dataset();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails_because(
        &on(&dataset).env("METRICS_ADDR", &address),
        &format!("METRICS_ADDR {address}"),
    );
}

#[test]
fn a_database_that_is_none_is_refused_and_nothing_is_created() {
    let dir = TempDir::new("origin").unwrap();
    let files = || {
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let absent = dir.join("absent.db");
    let (text, empty, foreign) = (dir.join("text"), dir.join("empty"), dir.join("foreign"));
    fs::write(&text, "this is no database\n".repeat(1_000)).unwrap();
    fs::write(&empty, "").unwrap();
    let tables = "CREATE TABLE users (id INTEGER PRIMARY KEY); CREATE TABLE posts (id INTEGER)";
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection.execute_batch(tables).unwrap();
    connection.close().unwrap();
    let before = files();

    fails_because(&on_file(&absent), "no database at");
    fails_because(&on_file(&dir.join("no/folder/x.db")), "no database at");
    fails_because(&on_file(dir.path()), "cannot open the database");
    fails_because(&on_file(&text), "not a SQLite database");
    fails_because(&on_file(&empty), "no table `users`");
    fails_because(&on_file(&foreign), "no column `username`");
    assert_eq!(files(), before);
}

#[test]
fn a_truncated_database_is_refused() {
    let dataset = small_dataset();
    let path = dataset.path();
    let bytes = fs::metadata(&path).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for left in [bytes / 2, 4_096, 50] {
        file.set_len(left).unwrap();
        fails_because(&on(&dataset), "cannot open the database");
    }
}

#[test]
fn a_read_only_database_is_refused() {
    let dataset = small_dataset();
    let path = dataset.path();
    let folder = path.parent().unwrap();
    let set_read_only = |path: &Path, read_only: bool| {
        let mut permissions = fs::metadata(path).unwrap().permissions();
        permissions.set_readonly(read_only);
        fs::set_permissions(path, permissions).unwrap();
    };
    let config = on(&dataset);
    let serve = config.command();
    // Root may write what is read-only, so it runs without that privilege.
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", "-dac_override,-dac_read_search", "--"])
        .arg(serve.get_program())
        .args(serve.get_args())
        .env_clear()
        .envs(
            serve
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    set_read_only(&path, true);
    set_read_only(folder, true);
    let line = fails(if rustix::process::geteuid().is_root() {
        command
    } else {
        serve
    });
    set_read_only(folder, false);
    assert!(line.contains("read-only"), "{line}");
}

#[test]
fn a_token_is_good_for_its_user_until_its_time() {
    let token = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        command.arg("token").args(arguments).env_clear();
        command.env("JWT_SECRET", "a secret");
        command
    };
    let arguments = ["--user", "7", "--username", "golden_ember_7", "--ttl", "2h"];
    let printed = testbed::process::run(token(&arguments)).unwrap();
    let authorization = format!("Bearer {}", printed.trim_end());
    let keys = Keys::new(b"a secret");
    let now_ms = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis() as i64;
    let user_at = |ms| keys.authenticate(Some(authorization.as_bytes()), ms);
    let user = user_at(now_ms).unwrap();
    assert_eq!((user.id, user.username.as_str()), (7, "golden_ember_7"));
    assert!(user_at(now_ms + 115 * 60_000).is_ok());
    assert!(user_at(now_ms + 121 * 60_000).is_err());

    let mut without_secret = token(&arguments);
    without_secret.env_remove("JWT_SECRET");
    assert!(fails(without_secret).contains("JWT_SECRET"));
}

#[test]
fn dev_prints_commands_that_work() {
    let dir = TempDir::new("dev").unwrap();
    let start = || {
        let mut command = Command::new(BINARY);
        let port = free_port().to_string();
        command.args(["dev", "--data"]).arg(dir.join("data"));
        command.env_clear().env("PORT", port);
        let process = Process::start("origin dev", command).unwrap();
        process.log().wait_for("Ctrl-C stops it", PATIENCE).unwrap();
        process
    };
    let run = |line: &str| {
        let script = format!("{line} -s -o /dev/null -w '%{{http_code}}'");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{script}: {said} (is curl installed?)"
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let curl_lines = |process: &Process| -> Vec<String> {
        let lines = process.log().lines();
        lines
            .into_iter()
            .filter(|line| line.trim_start().starts_with("curl "))
            .collect()
    };

    let mut first = start();
    let lines = curl_lines(&first);
    let statuses: Vec<String> = lines.iter().map(|line| run(line)).collect();
    assert_eq!(statuses, ["200", "200", "201", "201"], "{lines:?}");
    first.signal(Signal::INT).unwrap();
    assert!(first.wait(PATIENCE).unwrap().success());

    // The second time it is the same feed and the same secret.
    let second = start();
    let like = curl_lines(&second)
        .into_iter()
        .find(|line| line.contains("/like"))
        .unwrap();
    assert_eq!(run(&like), "200", "liked already");
}
