//! A Worker on plain workerd: the runtime that Cloudflare runs, without `wrangler dev` around it.

use std::fmt::Write;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Context;
use crate::{Error, Result, Server, TempDir, cache, process};

/// The compatibility date of wrangler.toml: the edge behaves here as it does there.
fn compatibility_date() -> Result<String> {
    let path = cache::workspace().join("wrangler.toml");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("compatibility_date = \""))
        .and_then(|rest| rest.strip_suffix('"'))
        .map(str::to_owned)
        .ok_or_else(|| Error::new("wrangler.toml has no compatibility_date"))
}

/// What to run. To a Worker a secret looks like any other variable.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    modules: PathBuf,
    vars: Vec<(String, String)>,
    network: Option<PathBuf>,
}

impl WorkerConfig {
    /// A Worker whose `index.js`, and `index_bg.wasm` where it has one, are in a folder.
    pub fn new(modules: impl AsRef<Path>) -> Self {
        WorkerConfig {
            modules: modules.as_ref().to_owned(),
            vars: Vec::new(),
            network: None,
        }
    }

    /// Runs another build of the Worker.
    pub fn modules(mut self, folder: impl AsRef<Path>) -> Self {
        self.modules = folder.as_ref().to_owned();
        self
    }

    /// Sets a variable; the last value given counts.
    pub fn var(mut self, name: &str, value: impl ToString) -> Self {
        self.vars.retain(|(set, _)| set != name);
        self.vars.push((name.to_owned(), value.to_string()));
        self
    }

    /// Runs it in a network namespace, where whoever starts it must be as well.
    pub fn network(mut self, file: impl AsRef<Path>) -> Self {
        self.network = Some(file.as_ref().to_owned());
        self
    }

    fn capnp(&self, port: u16) -> Result<String> {
        let mut modules = String::from(r#"(name = "index.js", esModule = embed "index.js")"#);
        if self.modules.join("index_bg.wasm").exists() {
            modules += r#", (name = "./index_bg.wasm", wasm = embed "index_bg.wasm")"#;
        }
        let mut bindings = String::new();
        for (name, value) in &self.vars {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(bindings, "(name = \"{name}\", text = \"{quoted}\"), ");
        }
        let date = compatibility_date()?;
        Ok(format!(
            r#"using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["private", "public"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:{port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [{modules}],
  compatibilityDate = "{date}",
  globalOutbound = "internet",
  bindings = [{bindings}],
);
"#
        ))
    }
}

/// A running workerd. Dropping it kills it.
#[derive(Debug)]
pub struct Workerd {
    server: Server,
    _folder: TempDir,
}

impl Workerd {
    /// Starts on a free port and waits for the Worker's first answer, whatever it is.
    pub fn start(config: &WorkerConfig) -> Result<Self> {
        let program = program()?;
        let folder = TempDir::new("workerd")?;
        for file in ["index.js", "index_bg.wasm"] {
            let from = config.modules.join(file);
            if from.exists() {
                fs::copy(&from, folder.path().join(file))
                    .context(|| format!("cannot copy {}", from.display()))?;
            }
        }
        let server = Server::start_answering("workerd", "/", |port| {
            let path = folder.path().join(format!("{port}.capnp"));
            fs::write(&path, config.capnp(port)?)
                .context(|| format!("cannot write {}", path.display()))?;
            let mut command = match &config.network {
                None => Command::new(&program),
                Some(network) => {
                    let mut nsenter = Command::new("/usr/bin/nsenter");
                    nsenter.arg(format!("--net={}", network.display()));
                    nsenter.arg(&program);
                    nsenter
                }
            };
            command.arg("serve").arg(&path).env_clear();
            Ok(command)
        })?;
        Ok(Workerd {
            server,
            _folder: folder,
        })
    }
}

impl Deref for Workerd {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Workerd {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}

/// The workerd that wrangler brings, itself and not npm's script around it.
fn program() -> Result<PathBuf> {
    let packages = cache::workspace().join("node_modules/@cloudflare");
    fs::read_dir(&packages)
        .ok()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/workerd")))
        .find(|program| program.exists())
        .ok_or_else(|| {
            Error::new("workerd is not installed: run `bash edge/setup/tools.sh` in the project")
        })
}

/// Builds an edge with a route that panics, for [`edge_modules`].
pub const PANIC_ROUTE: &[&str] = &["--features", "panic-route"];

/// The edge, built. Arguments go to cargo, as `--features panic-route`.
///
/// It is kept in the build folder and built again when its sources have changed.
pub fn edge_modules(cargo_args: &[&str]) -> Result<cache::Kept> {
    let root = cache::workspace();
    let sources = [
        "edge/src",
        "edge/Cargo.toml",
        "edge/setup",
        "shared/src",
        "shared/Cargo.toml",
        "Cargo.lock",
    ];
    let key = cache::key_of(&sources.map(|source| root.join(source)))?;
    let name = match cargo_args {
        [] => "edge".to_owned(),
        args => format!("edge-{}", args.join("-").replace(['-', ' '], "")),
    };
    cache::folder(&name, key, |folder| {
        let mut build = Command::new("bash");
        build
            .arg(root.join("edge/setup/build.sh"))
            .args(cargo_args)
            .env("OUT", folder)
            .env("CARGO_TARGET_DIR", cache::build_folder());
        process::run(build).map(drop)
    })
}
