//! The origin under a service manager: passed sockets, readiness, watchdog, and a drain that
//! lets an update go by unseen.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::process::{self, Signal};
use testbed::{Result, TempDir, origin, wait_until};

/// An origin started the way systemd starts it.
struct Supervised {
    child: Child,
    told: UnixDatagram,
    _dir: TempDir,
}

impl Supervised {
    fn start(database: &Sqlite, socket: impl AsFd, env: &[(&str, &str)]) -> Result<Supervised> {
        let dir = TempDir::new("notify")?;
        let told = UnixDatagram::bind(dir.join("notify")).unwrap();
        told.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut command = Command::new("sh");
        // The shell becomes the origin, so its process id is the one that LISTEN_PID must name.
        let become_origin = r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve"#;
        command
            .args(["-c", become_origin])
            .arg(origin::binary("dev")?)
            .env_clear()
            .env("SQLITE_PATH", database.path())
            .env("JWT_SECRET", origin::SECRET)
            .env("NOTIFY_SOCKET", dir.join("notify"))
            .envs(env.iter().copied())
            .stdin(socket.as_fd().try_clone_to_owned().unwrap());
        let child = process::spawn(command, Signal::KILL).unwrap();
        let _dir = dir;
        Ok(Supervised { child, told, _dir })
    }

    /// The next message whose text holds `word`.
    fn awaits(&self, word: &str) {
        let mut message = [0; 512];
        loop {
            let length = self.told.recv(&mut message).expect(word);
            if String::from_utf8_lossy(&message[..length]).contains(word) {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn wait(&mut self) -> bool {
        let mut status = None;
        wait_until("the origin to exit", Duration::from_secs(15), || {
            status = self.child.try_wait().unwrap();
            Ok(status.is_some())
        })
        .unwrap();
        status.is_some_and(|status| status.success())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn database() -> Sqlite {
    let datasets = Datasets::new(origin::binary("dev").unwrap());
    datasets.sqlite(Scale::Small).unwrap()
}

/// One keep-alive connection.
struct Client(BufReader<TcpStream>);

impl Client {
    fn to(listener: &TcpListener) -> Client {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Client(BufReader::new(stream))
    }

    /// The head of the answer to a feed request.
    fn ask(&mut self) -> String {
        let request = b"GET /feed HTTP/1.1\r\nhost: test\r\n\r\n";
        self.0.get_mut().write_all(request).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "closed: {head:?}");
        }
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        head
    }

    fn is_closed(&mut self) -> bool {
        self.0.read(&mut [0]).unwrap() == 0
    }
}

#[test]
fn serves_from_the_socket_it_is_passed_whatever_the_number_of_workers() {
    let database = database();
    for workers in ["1", "4"] {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Supervised::start(&database, &socket, &[("WORKERS", workers)]).unwrap();
        origin.awaits("READY=1");
        for _ in 0..20 {
            Client::to(&socket).ask();
        }
    }
}

#[test]
fn clients_that_come_while_nobody_serves_wait_and_are_served() {
    let database = database();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut early = Client::to(&socket);
    let mut first = Supervised::start(&database, &socket, &[("WORKERS", "2")]).unwrap();
    early.ask();
    first.signal(Signal::TERM);
    assert!(first.wait());
    let mut between = Client::to(&socket);
    let _second = Supervised::start(&database, &socket, &[("WORKERS", "2")]).unwrap();
    between.ask();
}

#[test]
fn while_it_drains_an_idle_connection_may_ask_once_more() {
    let database = database();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut old = Supervised::start(&database, &socket, &[("DRAIN_MS", "4000")]).unwrap();
    let (mut asks, mut silent) = (Client::to(&socket), Client::to(&socket));
    assert!(!asks.ask().contains("connection: close"));
    silent.ask();
    let new = Supervised::start(&database, &socket, &[]).unwrap();
    new.awaits("READY=1");

    let begun = Instant::now();
    old.signal(Signal::TERM);
    old.awaits("STOPPING=1");
    assert!(asks.ask().contains("connection: close"));
    assert!(asks.is_closed());
    // A newcomer is the new server's, and stays. (One that the old server's loops took up just before
    // they heard of it is answered, and closed as well.)
    let mut newcomer = Client::to(&socket);
    wait_until(
        "the new server to take newcomers",
        Duration::from_secs(1),
        || {
            let closes = newcomer.ask().contains("connection: close");
            if closes {
                newcomer = Client::to(&socket);
            }
            Ok(!closes)
        },
    )
    .unwrap();
    assert!(silent.is_closed());
    assert!(old.wait());
    assert!(
        begun.elapsed() >= Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert!(!newcomer.ask().contains("connection: close"));
}

#[test]
fn it_stops_at_once_when_no_connection_is_left_to_wait_for() {
    let database = database();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut origin = Supervised::start(&database, &socket, &[("DRAIN_MS", "60000")]).unwrap();
    origin.awaits("READY=1");
    origin.signal(Signal::TERM);
    assert!(origin.wait());
}

#[test]
fn the_watchdog_hears_from_it() {
    let database = database();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = Supervised::start(&database, &socket, &[("WATCHDOG_USEC", "300000")]).unwrap();
    origin.awaits("READY=1");
    for _ in 0..3 {
        origin.awaits("WATCHDOG=1");
    }
}

#[test]
fn more_sockets_than_workers_is_a_mistake_that_is_named() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new("sh");
    let become_origin = r#"exec 3<&0 4<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=2 exec "$0" serve"#;
    command
        .args(["-c", become_origin])
        .arg(origin::binary("dev").unwrap())
        .env_clear()
        .env("SQLITE_PATH", database().path())
        .env("JWT_SECRET", origin::SECRET)
        .env("WORKERS", "1")
        .stdin(OwnedFd::from(socket));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("2 sockets for 1 workers"), "{said}");
}
