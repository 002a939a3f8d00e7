//! `origin dev`: a feed to try things on, from nothing.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use shared::token::{Keys, User};

use crate::config::{Config, Secret};
use crate::seed::{self, Scale};
use crate::serve::serve;
use crate::store::target::Target;
use crate::token::sign_for_ms;

#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// Where the database and the secret are kept
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
}

pub fn run(args: DevArgs) -> Result<(), Box<dyn std::error::Error>> {
    let env = |name: &str| std::env::var(name).ok();
    for name in ["DATABASE_URL", "SQLITE_PATH"] {
        if env(name).is_some_and(|value| !value.is_empty()) {
            return Err(format!(
                "{name} is set, but `origin dev` serves its own database: use `origin serve`"
            )
            .into());
        }
    }
    fs::create_dir_all(&args.data)
        .map_err(|fault| format!("cannot create {}: {fault}", args.data.display()))?;
    let secret = kept_secret(&args.data.join("jwt-secret"))?;
    let path = args.data.join("feed.db");
    let config = Config::read_for_dev(env, Target::Sqlite(path.clone()), secret)?;
    if seed::create_sqlite_if_absent(&path, Scale::SMALL)? {
        eprintln!("created {} with a small dataset", path.display());
    }

    let user = User {
        id: 1,
        username: "golden_ember_1".to_owned(),
    };
    let keys = Keys::new(config.jwt_secret.expose());
    let token = sign_for_ms(&keys, &user, 30 * 24 * 3_600_000);
    serve(config, |address| {
        println!("{}", welcome(&format!("http://{address}"), &token))
    })?;
    Ok(())
}

fn welcome(url: &str, token: &str) -> String {
    format!(
        "
{url}

  token of user 1 (golden_ember_1), good for 30 days:
  {token}

  curl {url}/feed
  curl {url}/posts/1
  curl -X POST {url}/posts/1/like -H 'Authorization: Bearer {token}'
  curl -X POST {url}/posts -H 'Authorization: Bearer {token}' -d '{{\"body\":\"Hello\"}}'

Ctrl-C stops it."
    )
}

/// The secret of an earlier run, or a new random one that the next run finds.
fn kept_secret(path: &Path) -> Result<Secret, String> {
    let explain = |fault: io::Error| format!("{}: {fault}", path.display());
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => return Ok(Secret::new(text.trim().to_owned())),
        Ok(_) => {
            return Err(format!(
                "{} is empty: remove it to get a new secret",
                path.display()
            ));
        }
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {}
        Err(fault) => return Err(explain(fault)),
    }
    let mut random = [0u8; 32];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(explain)?;
    let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(explain)?;
    file.write_all(secret.as_bytes()).map_err(explain)?;
    Ok(Secret::new(secret))
}
