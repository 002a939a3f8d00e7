//! A server that answers as a test wants it to, and the bench program on it.
#![allow(dead_code, reason = "each test uses its part")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use bench::results::{Level, Results};
use testbed::TempDir;

/// How long an answer takes, asked at each request.
pub type Delay = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Serves the API's shape on a thread of its own, until the test's process ends.
pub fn serve(delay: Delay) -> SocketAddr {
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            let answer = move |method: Method, uri: Uri| {
                let delay = delay.clone();
                async move {
                    if uri.path() != "/health" {
                        tokio::time::sleep(delay()).await;
                    }
                    answer(&method, uri.path())
                }
            };
            axum::serve(listener, Router::new().fallback(answer))
                .await
                .unwrap();
        });
    });
    address.recv().unwrap()
}

fn answer(method: &Method, path: &str) -> (StatusCode, &'static str) {
    match (method.as_str(), path) {
        ("GET", "/feed") => (StatusCode::OK, r#"{"posts":[{"id":3},{"id":2},{"id":1}]}"#),
        ("GET", _) => (StatusCode::OK, "{}"),
        _ => (StatusCode::CREATED, "{}"),
    }
}

/// Whether there must be a box: where this user may make a control group. Said where there is none.
pub fn may_confine() -> bool {
    let may = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].iter().any(|root| {
        let group = Path::new(root).join(format!("onebox-test-{}", std::process::id()));
        std::fs::create_dir(&group).is_ok() && std::fs::remove_dir(&group).is_ok()
    });
    if !may {
        println!("not tested here: this user may not make a control group");
    }
    may
}

/// A folder with tokens that no one checks.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let folder = TempDir::new("bench-test").unwrap();
        let tokens = r#"[{"id":1,"username":"golden_ember_1","token":"a.b.c"}]"#;
        std::fs::write(folder.join("tokens.json"), tokens).unwrap();
        Bench { folder }
    }

    pub fn command(&self, name: &str, server: SocketAddr, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command
            .args([name, "--base-url", &format!("http://{server}"), "--tokens"])
            .arg(self.folder.join("tokens.json"))
            .arg("--json")
            .arg(self.results_file())
            .args(args);
        command
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn results_file(&self) -> PathBuf {
        self.folder.join("results.json")
    }

    pub fn results(&self) -> Results {
        Results::read(&self.results_file()).unwrap()
    }

    /// Runs a command that succeeds.
    pub fn run(&self, name: &str, server: SocketAddr, args: &[&str]) -> Results {
        let output = self.command(name, server, args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        self.results()
    }

    /// The same with one level.
    pub fn level(&self, server: SocketAddr, args: &[&str]) -> Level {
        let mut results = self.run("run", server, args);
        assert_eq!(results.levels.len(), 1);
        results.levels.remove(0)
    }
}

pub fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]]
        .map(String::from_utf8_lossy)
        .join("\n")
}

/// Slow from the moment on that more than `per_second` requests a second have come for a while.
pub fn slow_above(per_second: f64) -> Delay {
    /// Requests above the rate that go unnoticed.
    const BURST: f64 = 8.0;
    let bucket = Mutex::new((Instant::now(), 0.0));
    Arc::new(move || {
        let mut bucket = bucket.lock().unwrap();
        let drained = bucket.0.elapsed().as_secs_f64() * per_second;
        let filled: f64 = (bucket.1 - drained).max(0.0) + 1.0;
        *bucket = (Instant::now(), filled.min(2.0 * BURST));
        Duration::from_millis(if filled > BURST { 800 } else { 0 })
    })
}
