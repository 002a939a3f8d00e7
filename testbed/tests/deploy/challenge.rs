//! The challenge's folder: put together, built by its own script, started with the four variables.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use conformance::{Dataset, Options, Store};
use testbed::dataset::{Datasets, Scale};
use testbed::{Server, TempDir, cache, origin, process};

fn xtask(args: &[&str], dir: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--package", "xtask", "--target-dir"]);
    cargo
        .arg(cache::build_folder())
        .arg("--")
        .args(args)
        .arg(dir);
    cargo.current_dir(cache::workspace());
    cargo
}

/// Built outside this repository, whose settings cargo would read too, in less time than `build.sh`
/// alone takes: it runs as it is, but the compiler is told to hurry, and the last run's output is
/// where it looks for its own.
fn build(folder: &Path) -> cache::Kept {
    let kept = cache::folder("challenge", 2, |_| Ok(())).unwrap();
    let output = kept.path.join("target");
    fs::create_dir_all(&output).unwrap();
    std::os::unix::fs::symlink(&output, folder.join("target")).unwrap();
    let mut build = Command::new(folder.join("build.sh"));
    build
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("CARGO_TARGET_DIR");
    for (setting, value) in [
        ("LTO", "off"),
        ("OPT_LEVEL", "1"),
        ("CODEGEN_UNITS", "16"),
        ("DEBUG", "0"),
    ] {
        build.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    process::run(build).unwrap();
    kept
}

#[test]
fn it_is_complete_and_serves_with_four_variables_alone() {
    let dir = TempDir::new("challenge").unwrap();
    process::run(xtask(&["challenge-folder"], &dir.join("folder"))).unwrap();
    let names: BTreeSet<String> = (fs::read_dir(dir.join("folder")).unwrap().flatten())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let expected = [
        ".cargo",
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "build.sh",
        "install.sh",
        "origin",
        "shared",
        "start.sh",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());

    let folder = dir.join("folder");
    let _output = build(&folder);
    let datasets = Datasets::new(origin::binary("dev").unwrap());
    let database = datasets.sqlite(Scale::Full).unwrap();
    let command = |port: u16| {
        let mut start = Command::new(folder.join("start.sh"));
        start
            .env_clear()
            .env("SQLITE_PATH", database.path())
            .env("JWT_SECRET", origin::SECRET)
            .env("HOST", "127.0.0.1")
            .env("PORT", port.to_string());
        Ok(start)
    };
    let mut server = Server::start("start.sh", "/health", command).unwrap();
    let options = Options {
        base_url: server.base_url().parse().unwrap(),
        jwt_secret: origin::SECRET.to_owned(),
        store: Some(Store::Sqlite),
        dataset: Dataset::Full,
        only: None,
        skip: Vec::new(),
        skip_fresh_reads: false,
        head_timeout: std::time::Duration::from_secs(10),
        body_timeout: std::time::Duration::from_secs(30),
    };
    let mut said = Vec::new();
    let report = conformance::run(&options, &mut said);
    assert!(report.passed(), "{}", String::from_utf8_lossy(&said));

    // As many as this process may open; the challenge's 15,000 where the limit allows.
    let limit = process_file_limit().saturating_sub(500).min(15_000);
    let mut held: Vec<TcpStream> = (0..limit)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    // Each is answered while all the others are there.
    for connection in &mut held {
        let mut status = [0; 12];
        connection
            .write_all(b"GET /posts/1 HTTP/1.1\r\nHost: box\r\n\r\n")
            .and_then(|()| connection.read_exact(&mut status))
            .unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    println!("{} connections held", held.len());
    drop(held);
    assert!(server.terminate().unwrap().success());
}

fn process_file_limit() -> u64 {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(u64::MAX)
}
