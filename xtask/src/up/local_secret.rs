//! The secret that origin and edge share here: in `.dev.vars`, where wrangler looks for it too.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use testbed::cache::workspace;
use testbed::{Error, Result};

use super::dev_vars;

/// Reads it, or makes the file: with the secret of an origin that ran here without an edge, so that
/// its tokens stay good, or else a random one.
pub fn ensure() -> Result<String> {
    let path = dev_vars();
    let explain = |fault: io::Error| Error::new(format!("{}: {fault}", path.display()));
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text).ok_or_else(|| {
            Error::new(format!(
                "{} has no JWT_SECRET: see .dev.vars.example",
                path.display()
            ))
        }),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
            let earlier = fs::read_to_string(workspace().join("data/jwt-secret")).ok();
            let earlier = earlier.map(|text| text.trim().to_owned());
            let secret = match earlier.filter(|secret| is_plain(secret)) {
                Some(secret) => secret,
                None => random().map_err(explain)?,
            };
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(explain)?;
            writeln!(file, "JWT_SECRET={secret}").map_err(explain)?;
            println!("    created .dev.vars with a secret for origin and edge");
            Ok(secret)
        }
        Err(fault) => Err(explain(fault)),
    }
}

fn parse(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("JWT_SECRET"))
        .filter_map(|rest| rest.trim_start().strip_prefix('='))
        .map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
        .rfind(|value| !value.is_empty())
}

/// Needs no quotes in a file of variables.
fn is_plain(secret: &str) -> bool {
    !secret.is_empty()
        && secret
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_last_secret_counts_with_or_without_quotes() {
        let text = "# JWT_SECRET=no\nEDGE_KEY=x\nJWT_SECRET=a\n JWT_SECRET = \"b=c\" \n";
        assert_eq!(parse(text).as_deref(), Some("b=c"));
        assert_eq!(parse("JWT_SECRET_PREVIOUS=x\nJWT_SECRET="), None);
    }
}
