//! The token file: who a load generator may act as.

use std::{
    env,
    fs::{self, File},
    io::{BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use shared::token::{Keys, User};

use super::{Error, dataset::Dataset};

const USERS_MAX: usize = 20_000;
const TTL_S: i64 = 3_650 * 86_400;

/// Writes a JSON array of the first users, each with a token, and returns how many they are.
pub fn write(path: &Path, dataset: &Dataset) -> Result<usize, Error> {
    // From the environment only: an argument would show in the list of processes.
    let secret = env::var("JWT_SECRET")
        .ok()
        .filter(|secret| !secret.is_empty());
    let keys = Keys::new(secret.ok_or(Error::NoSecret)?.as_bytes());
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_secs() as i64);

    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".writing");
    let temporary = Path::new(&temporary);
    let written = write_to(temporary, dataset, &keys, now_s);
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    let count = written.map_err(|error| Error::io(temporary, error))?;
    fs::rename(temporary, path).map_err(|error| Error::io(path, error))?;
    Ok(count)
}

fn write_to(path: &Path, dataset: &Dataset, keys: &Keys, now_s: i64) -> std::io::Result<usize> {
    #[derive(serde::Serialize)]
    struct Entry {
        id: i64,
        username: String,
        token: String,
    }
    // A leftover may be readable by others, and an existing file keeps its mode.
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut out = BufWriter::new(file);
    let mut count = 0;
    for user in dataset.users().take(USERS_MAX) {
        let user = User {
            id: user.id.into(),
            username: user.username,
        };
        let token = keys.sign(&user, now_s, now_s + TTL_S);
        out.write_all(if count == 0 { b"[" } else { b",\n" })?;
        serde_json::to_writer(
            &mut out,
            &Entry {
                id: user.id,
                username: user.username,
                token,
            },
        )?;
        count += 1;
    }
    out.write_all(b"]\n")?;
    out.into_inner()?.sync_all()?;
    Ok(count)
}
