use super::*;

#[test]
fn a_cluster_answers_and_leaves_nothing() {
    let server = Postgres::start().unwrap();
    assert_eq!(server.query("SELECT 1, 'two'").unwrap(), "1|two");
    let (folder, pid) = (server.dir.path().to_owned(), server.pid().unwrap());
    assert!(folder.exists());
    drop(server);
    assert!(!folder.exists());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_created_database_is_reached_by_its_url() {
    let server = Postgres::start().unwrap();
    for url in [
        server.create_database("feed").unwrap(),
        server.socket_url("feed"),
    ] {
        let mut psql = server.programs.psql();
        psql.args([
            "-X",
            "-A",
            "-t",
            "-d",
            &url,
            "-c",
            "SELECT current_database()",
        ]);
        assert_eq!(process::run(psql).unwrap(), "feed\n");
    }
    let error = server.create_database("feed").unwrap_err();
    assert!(error.to_string().contains("already exists"), "{error}");
}

#[test]
fn committed_rows_survive_every_kind_of_stop() {
    let options = Options {
        fsync: true,
        ..Options::default()
    };
    let mut server = Postgres::start_with(options).unwrap();
    assert_eq!(server.query("SHOW fsync").unwrap(), "on");
    server.query("CREATE TABLE kept (how text)").unwrap();
    let url = server.url();
    for how in [Stop::Fast, Stop::Immediate, Stop::Kill] {
        server
            .query(&format!("INSERT INTO kept VALUES ('{how:?}')"))
            .unwrap();
        server.stop(how).unwrap();
        assert!(server.query("SELECT 1").is_err());
        server.start_again().unwrap();
    }
    assert_eq!(
        server.query("SELECT how FROM kept").unwrap(),
        "Fast\nImmediate\nKill"
    );
    assert_eq!(server.url(), url);
}

#[test]
fn processes_are_told_apart() {
    let server = Postgres::start().unwrap();
    let mut psql = server.programs.psql();
    psql.args(["-X", "-d", &server.url(), "-c", "SELECT pg_sleep(600)"]);
    let _client = Process::start("psql", psql).unwrap();
    let kinds = || -> Vec<Kind> { server.processes().iter().map(|(kind, _)| *kind).collect() };
    let limit = Duration::from_secs(10);
    net::wait_until("a backend", limit, || Ok(kinds().contains(&Kind::Backend))).unwrap();
    for kind in [
        Kind::Postmaster,
        Kind::Checkpointer,
        Kind::BackgroundWriter,
        Kind::WalWriter,
    ] {
        let count = kinds().iter().filter(|k| **k == kind).count();
        assert_eq!(count, 1, "{kind:?}");
    }
}

#[test]
fn the_work_of_a_connection_that_has_closed_is_counted() {
    let server = Postgres::start().unwrap();
    let before = server.cpu_time();
    server
        .query("SELECT count(*) FROM generate_series(1, 1000000)")
        .unwrap();
    let used = (server.cpu_time() - before).total();
    assert!(used >= Duration::from_millis(30), "{used:?}");
}

#[test]
fn settings_are_the_callers() {
    let settings = vec![("max_connections".into(), "17".into())];
    let server = Postgres::start_with(Options {
        settings,
        ..Options::default()
    })
    .unwrap();
    assert_eq!(server.query("SHOW max_connections").unwrap(), "17");
}

#[test]
fn a_stopped_cluster_can_be_the_beginning_of_another() {
    let mut first = Postgres::start().unwrap();
    first
        .query("CREATE TABLE kept AS SELECT 42 AS answer")
        .unwrap();
    first.stop(Stop::Fast).unwrap();
    let from = Some(first.data_folder());
    let second = Postgres::start_with(Options {
        from,
        ..Options::default()
    })
    .unwrap();
    assert_eq!(second.query("SELECT answer FROM kept").unwrap(), "42");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let settings = vec![("shared_buffers".into(), "nonsense".into())];
    let error = Postgres::start_with(Options {
        settings,
        ..Options::default()
    })
    .unwrap_err();
    assert!(error.to_string().contains("shared_buffers"), "{error}");
}

#[test]
fn a_taken_port_is_given_up_for_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = Postgres::create(Options::default()).unwrap();
    server.port = taken.local_addr().unwrap().port();
    let error = server.start_again().unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
}

#[test]
fn a_replica_streams_pauses_freezes_and_can_be_promoted() {
    let primary = Postgres::start().unwrap();
    let mut replica = primary.start_replica(&[]).unwrap();
    let rows = |server: &Postgres| server.query("SELECT count(*) FROM streamed").unwrap();
    let insert = || primary.query("INSERT INTO streamed VALUES (1)").unwrap();
    primary.query("CREATE TABLE streamed (i int)").unwrap();
    insert();
    primary.wait_for_replay(&replica).unwrap();
    assert_eq!(rows(&replica), "1");
    let refused = replica.query("INSERT INTO streamed VALUES (2)");
    assert!(refused.unwrap_err().to_string().contains("read-only"));

    replica.pause_replay().unwrap();
    insert();
    assert_eq!((rows(&primary), rows(&replica)), ("2".into(), "1".into()));
    replica.resume_replay().unwrap();
    primary.wait_for_replay(&replica).unwrap();
    assert_eq!(rows(&replica), "2");

    replica.stop(Stop::Kill).unwrap();
    insert();
    replica.start_again().unwrap();
    primary.wait_for_replay(&replica).unwrap();
    assert_eq!(rows(&replica), "3");

    replica.freeze();
    insert();
    replica.thaw();
    primary.wait_for_replay(&replica).unwrap();

    replica.promote().unwrap();
    replica.query("INSERT INTO streamed VALUES (5)").unwrap();
    assert_eq!((rows(&primary), rows(&replica)), ("4".into(), "5".into()));
}

/// The server runs as another user where this process is root; the kernel's death signal must
/// have survived that change.
#[test]
fn the_server_dies_with_a_killed_owner() {
    if let Ok(file) = std::env::var("TESTBED_OWNER_WRITES_PIDS") {
        let server = Postgres::start().unwrap();
        let pids: Vec<String> = (server.processes().iter())
            .map(|(_, pid)| pid.to_string())
            .collect();
        fs::write(&file, pids.join("\n") + "\nend").unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }
    let dir = TempDir::new("owner").unwrap();
    let file = dir.join("pids");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "postgres::tests::the_server_dies_with_a_killed_owner",
        ])
        .env("TESTBED_OWNER_WRITES_PIDS", &file)
        .env("TMPDIR", dir.path());
    let mut owner = Process::start("owner", command).unwrap();
    let read = || fs::read_to_string(&file).unwrap_or_default();
    let limit = Duration::from_secs(60);
    net::wait_until("the server's pids", limit, || Ok(read().ends_with("end"))).unwrap();
    let pids: Vec<u32> = read()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    assert!(pids.len() >= 4 && pids.iter().all(|pid| is_alive(*pid)));

    owner.kill();
    let are_gone = || Ok(!pids.iter().any(|pid| is_alive(*pid)));
    net::wait_until("the server to die", limit, are_gone).unwrap();
}

/// A dead process that nobody has waited for yet is not alive.
fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
