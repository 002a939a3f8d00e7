//! `origin seed` as someone at a terminal meets it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use shared::token::{Keys, User};
use testbed::{
    Postgres, TempDir,
    process::{Process, Signal},
    wait_until,
};

const SECRET: &str = "a secret of this test";
const FULL_SHA256: &str = "738d11ab3164c13177e347f75038d1e80b43c64e754544a42d1c32bd8d7bcf1d";
/// Long enough for a full build on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_origin"));
    command.arg("seed").args(arguments).env_clear();
    command
}

fn seed(arguments: &[&str]) -> Output {
    command(arguments)
        .env("JWT_SECRET", SECRET)
        .output()
        .unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = seed(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the one line that says why.
#[track_caller]
fn fails(arguments: &[&str]) -> String {
    let output = seed(arguments);
    assert!(!output.status.success(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    stderr.lines().last().unwrap().to_owned()
}

fn sqlite_url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn likes_in(path: &Path) -> i64 {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    database
        .query_row("SELECT count(*) FROM likes", (), |row| row.get(0))
        .unwrap()
}

/// What is in the folder apart from the test's own lock.
fn names_in(folder: &TempDir) -> Vec<String> {
    let names = fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

/// Starts a build long enough to meet it at this step.
fn start_until(arguments: &[&str], step: &str) -> Process {
    let mut command = command(arguments);
    command.args(["--users", "20000", "--posts", "150000"]);
    let mut process = Process::start("origin seed", command).unwrap();
    let line = format!("seed: {step}");
    wait_until(step, LIMIT, || {
        assert_eq!(process.has_exited(), None, "{}", process.log().text());
        Ok(process.log().text().contains(&line))
    })
    .unwrap();
    process
}

mod sqlite {
    use super::*;

    #[test]
    fn a_full_dataset_has_the_published_content_hash() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("feed.db");
        let stdout = succeeds(&["--to", &sqlite_url(&path), "--verify"]);
        assert_eq!(stdout, format!("content sha256 {FULL_SHA256}\n"));
        assert_eq!(names_in(&folder), ["feed.db"]);
        assert_eq!(likes_in(&path), 2_016_005);
    }

    #[test]
    fn the_file_has_the_challenges_schema_in_wal_mode_with_statistics() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("feed.db");
        succeeds(&["--to", &sqlite_url(&path), "--scale", "small"]);
        let database = Connection::open(&path).unwrap();
        let text = |sql: &str| {
            database
                .query_row(sql, (), |row| row.get::<_, String>(0))
                .unwrap()
        };
        assert_eq!(text("PRAGMA journal_mode"), "wal");
        assert_eq!(text("PRAGMA integrity_check"), "ok");
        assert_eq!(
            text(
                "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema ORDER BY name)"
            ),
            "likes likes_post_id_idx posts posts_created_at_id_idx posts_user_id_idx \
             sqlite_autoindex_likes_1 sqlite_autoindex_users_1 sqlite_stat1 users"
        );
        let free: i64 = database
            .query_row("PRAGMA freelist_count", (), |row| row.get(0))
            .unwrap();
        assert_eq!(free, 0, "vacuumed");
        let broken = database
            .prepare("PRAGMA foreign_key_check")
            .unwrap()
            .query_map((), |_| Ok(()))
            .unwrap()
            .count();
        assert_eq!(broken, 0);
        let analyzed: i64 = database
            .query_row("SELECT count(*) FROM sqlite_stat1", (), |row| row.get(0))
            .unwrap();
        assert_eq!(analyzed, 5, "one line for each index");
    }

    #[test]
    fn rows_are_replaced_only_when_asked() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("feed.db");
        let url = sqlite_url(&path);
        succeeds(&["--to", &url, "--users", "10", "--posts", "20"]);
        let before = fs::read(&path).unwrap();

        let why = fails(&["--to", &url, "--users", "10", "--posts", "30"]);
        assert!(
            why.contains("already holds rows") && why.contains("--replace"),
            "{why}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);

        succeeds(&[
            "--to",
            &url,
            "--users",
            "10",
            "--posts",
            "30",
            "--replace",
            "--verify",
        ]);
        assert_eq!(names_in(&folder), ["feed.db"]);
    }

    #[test]
    fn a_database_in_use_is_not_replaced() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("feed.db");
        let url = sqlite_url(&path);
        succeeds(&["--to", &url, "--scale", "small"]);
        let server = Connection::open(&path).unwrap();
        server
            .execute("DELETE FROM likes WHERE post_id = 1", ())
            .unwrap();

        let why = fails(&["--to", &url, "--scale", "small", "--replace"]);
        assert!(why.contains("in use"), "{why}");

        // Its log holds a change that the new database must not inherit.
        drop(server);
        succeeds(&["--to", &url, "--scale", "small", "--replace", "--verify"]);
    }

    #[test]
    fn what_is_not_ours_is_never_replaced() {
        let folder = TempDir::new("seed").unwrap();
        let text = folder.join("notes.txt");
        fs::write(
            &text,
            "not a database, and longer than the head of one: ".repeat(20),
        )
        .unwrap();
        let other = folder.join("other.db");
        Connection::open(&other)
            .unwrap()
            .execute_batch("CREATE TABLE accounts (id)")
            .unwrap();

        for path in [&text, &other] {
            let before = fs::read(path).unwrap();
            let why = fails(&["--to", &sqlite_url(path), "--scale", "small", "--replace"]);
            assert!(why.contains("something else"), "{why}");
            assert_eq!(fs::read(path).unwrap(), before);
        }
        let missing = folder.join("no-such-folder/feed.db");
        let why = fails(&["--to", &sqlite_url(&missing), "--scale", "small"]);
        assert!(why.contains("No such file or directory"), "{why}");
        assert_eq!(names_in(&folder), ["notes.txt", "other.db"]);
    }

    #[test]
    fn verify_notices_a_single_changed_row() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("feed.db");
        let url = sqlite_url(&path);
        succeeds(&["--to", &url, "--scale", "small"]);
        succeeds(&["--to", &url, "--scale", "small", "--verify"]);
        let database = Connection::open(&path).unwrap();
        database
            .execute("UPDATE posts SET body = body || '.' WHERE id = 2500", ())
            .unwrap();
        drop(database);
        let why = fails(&["--to", &url, "--scale", "small", "--verify"]);
        assert!(why.contains("content sha256 is"), "{why}");
    }

    #[test]
    fn an_interruption_leaves_nothing() {
        for (step, signal) in [
            ("likes", Signal::INT),
            ("indexes", Signal::TERM),
            ("vacuum", Signal::HUP),
        ] {
            let folder = TempDir::new("seed").unwrap();
            let mut process = start_until(&["--to", &sqlite_url(&folder.join("feed.db"))], step);
            process.signal(signal).unwrap();
            assert!(!process.wait(LIMIT).unwrap().success());
            let said = process.log().text();
            assert!(said.contains("interrupted"), "{said}");
            assert_eq!(names_in(&folder), [""; 0], "after {signal:?} at {step}");
        }
    }

    #[test]
    fn an_interrupted_replacement_leaves_what_was_there() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("feed.db");
        let url = sqlite_url(&path);
        succeeds(&["--to", &url, "--scale", "small"]);
        let before = fs::read(&path).unwrap();
        let mut process = start_until(&["--to", &url, "--replace"], "likes");
        process.signal(Signal::INT).unwrap();
        assert!(!process.wait(LIMIT).unwrap().success());
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(names_in(&folder), ["feed.db"]);
    }

    #[test]
    fn what_a_killed_run_leaves_is_no_database_and_the_next_run_removes_it() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("feed.db");
        let url = sqlite_url(&path);
        start_until(&["--to", &url], "likes").kill();
        assert!(!path.exists());
        succeeds(&["--to", &url, "--scale", "small", "--verify"]);
        assert_eq!(names_in(&folder), ["feed.db"]);
    }

    #[test]
    fn two_runs_for_one_target_do_not_mix() {
        let folder = TempDir::new("seed").unwrap();
        let url = sqlite_url(&folder.join("feed.db"));
        let _first = start_until(&["--to", &url], "posts");
        let why = fails(&["--to", &url, "--scale", "small"]);
        assert!(why.contains("another process"), "{why}");
    }

    #[test]
    fn a_disk_that_is_full_leaves_nothing() {
        let folder = TempDir::new("seed").unwrap();
        let url = sqlite_url(&folder.join("feed.db"));
        // A limit on the size of files, in blocks of 512 bytes, stands in for the end of a disk.
        let limited = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" seed --scale small --to \"$1\"";
        let output = Command::new("sh")
            .args(["-c", limited, env!("CARGO_BIN_EXE_origin"), &url])
            .output()
            .unwrap();
        assert!(!output.status.success(), "{output:?}");
        assert_eq!(names_in(&folder), [""; 0], "{output:?}");
    }
}

mod postgres {
    use super::*;

    fn counts(server: &Postgres) -> String {
        let sql = "SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM posts), \
                   (SELECT count(*) FROM likes)";
        server.query(sql).unwrap()
    }

    #[test]
    fn a_full_dataset_has_the_published_content_hash() {
        let server = Postgres::start().unwrap();
        let stdout = succeeds(&["--to", &server.url(), "--verify"]);
        assert_eq!(stdout, format!("content sha256 {FULL_SHA256}\n"));
        assert_eq!(counts(&server), "50000|500000|2016005");
    }

    #[test]
    fn what_is_kept_twice_agrees() {
        let server = Postgres::start().unwrap();
        succeeds(&["--to", &server.url(), "--scale", "small"]);
        for wrong in [
            "SELECT count(*) FROM posts JOIN users ON users.id = user_id WHERE author <> username",
            "SELECT count(*) FROM posts WHERE like_count <> \
             (SELECT count(*) FROM likes WHERE post_id = posts.id)",
        ] {
            assert_eq!(server.query(wrong).unwrap(), "0", "{wrong}");
        }
        server
            .query("UPDATE users SET username = 'renamed' WHERE id = 1")
            .unwrap();
        let authors = "SELECT DISTINCT author FROM posts WHERE user_id = 1";
        assert_eq!(server.query(authors).unwrap(), "renamed");
    }

    #[test]
    fn the_next_post_comes_after_the_last() {
        let server = Postgres::start().unwrap();
        succeeds(&["--to", &server.url(), "--scale", "small"]);
        let insert = "INSERT INTO posts (user_id, author, body) \
                      SELECT id, username, 'Hi' FROM users WHERE id = 7 RETURNING id";
        assert_eq!(server.query(insert).unwrap(), "5001");
    }

    #[test]
    fn rows_are_replaced_only_when_asked() {
        let server = Postgres::start().unwrap();
        let url = server.url();
        succeeds(&["--to", &url, "--users", "10", "--posts", "20"]);
        let constraints = "SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint";
        let before = server.query(constraints).unwrap();
        let why = fails(&["--to", &url, "--users", "10", "--posts", "30"]);
        assert!(
            why.contains("already holds rows") && why.contains("--replace"),
            "{why}"
        );
        assert!(!why.contains(testbed::postgres::PASSWORD), "{why}");
        succeeds(&[
            "--to",
            &url,
            "--users",
            "10",
            "--posts",
            "30",
            "--replace",
            "--verify",
        ]);
        assert_eq!(server.query("SELECT count(*) FROM posts").unwrap(), "30");
        assert_eq!(server.query(constraints).unwrap(), before);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let server = Postgres::start().unwrap();
        server.query("CREATE TABLE users (name text)").unwrap();
        let why = fails(&["--to", &server.url(), "--scale", "small", "--replace"]);
        assert!(why.contains("something else"), "{why}");
        let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
        assert_eq!(server.query(tables).unwrap(), "1");
    }

    #[test]
    fn an_interruption_or_a_kill_leaves_what_was_there() {
        let server = Postgres::start().unwrap();
        let url = server.url();
        succeeds(&["--to", &url, "--users", "10", "--posts", "20"]);
        let before = counts(&server);
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            let mut process = start_until(&["--to", &url, "--replace"], "likes");
            process.signal(signal).unwrap();
            assert!(!process.wait(LIMIT).unwrap().success());
            assert_eq!(counts(&server), before, "after {signal:?}");
        }
        succeeds(&["--to", &url, "--users", "10", "--posts", "20", "--verify"]);
    }

    #[test]
    fn a_server_that_is_not_there_is_one_line_without_the_password() {
        let port = testbed::free_port();
        let why = fails(&["--to", &format!("postgres://me:hush@127.0.0.1:{port}/feed")]);
        assert!(
            why.contains(&format!("127.0.0.1:{port}/feed")) && !why.contains("hush"),
            "{why}"
        );
    }
}

mod tokens {
    use super::*;

    #[test]
    fn are_those_of_the_first_users_and_readable_by_their_owner_only() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("tokens.json");
        fs::write(&path, "an earlier file").unwrap();
        succeeds(&["--scale", "full", "--tokens", path.to_str().unwrap()]);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(names_in(&folder), ["tokens.json"]);

        let tokens: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let tokens = tokens.as_array().unwrap();
        assert_eq!(tokens.len(), 20_000);
        assert_eq!(tokens[19_999]["username"], "tiny_willow_20000");
        let keys = Keys::new(SECRET.as_bytes());
        let now_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
        let ten_years_on_ms = now_ms + 3_650 * 86_400_000;
        for (at, entry) in tokens.iter().enumerate().step_by(1_999) {
            let header = format!("Bearer {}", entry["token"].as_str().unwrap());
            let username = entry["username"].as_str().unwrap().to_owned();
            let user = User {
                id: at as i64 + 1,
                username,
            };
            assert_eq!(entry["id"], user.id);
            assert_eq!(
                keys.authenticate(Some(header.as_bytes()), now_ms),
                Ok(user.clone())
            );
            let almost = keys.authenticate(Some(header.as_bytes()), ten_years_on_ms - 600_000);
            assert_eq!(almost, Ok(user), "good for 3,650 days");
            assert!(
                keys.authenticate(Some(header.as_bytes()), ten_years_on_ms + 1_000)
                    .is_err()
            );
        }
    }

    #[test]
    fn need_a_secret() {
        let folder = TempDir::new("seed").unwrap();
        let path = folder.join("tokens.json");
        let output = command(&["--tokens", path.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("JWT_SECRET"));
        assert_eq!(names_in(&folder), [""; 0]);
    }
}

#[test]
fn an_unreadable_url_is_refused_without_being_shown() {
    for url in [
        "feed.db",
        "mysql://me:hush@db/feed",
        "postgres://me:hush@db:x/feed",
    ] {
        let why = fails(&["--to", url]);
        assert!(!why.contains("hush"), "{why}");
    }
}
