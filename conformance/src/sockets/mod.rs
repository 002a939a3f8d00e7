//! What the server makes of bytes that no polite client sends, or sends like that: at the socket, without any HTTP library.
//! An HTTP front that is not ours (a CDN) answers these its own way: leave the group out there.

mod framing;
mod limits;
mod pieces;
mod refused;

use crate::check::{Check, Group};
use crate::expect::{self, Verdict};
use crate::http::{Connection, Request};
use crate::json::{self, Post};
use crate::probe::Probe;
use std::time::Duration;

/// How long a server that refused a connection may take to close it. It may linger, so that the client gets to read.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

pub fn checks() -> Vec<Check> {
    let mut checks = pieces::checks();
    checks.extend(framing::checks());
    checks.extend(refused::checks());
    checks.extend(limits::checks());
    checks
}

fn check(name: &str, run: fn(&Probe) -> Verdict) -> Check {
    Check::new(Group::Sockets, name, run)
}

/// A create as raw bytes: its head up to the empty line, left open for more headers.
fn create_head(probe: &Probe) -> String {
    let (host, token) = (&probe.base.authority, probe.signer.user_1());
    format!("POST /posts HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n")
}

fn get(probe: &Probe, target: &str) -> Vec<u8> {
    Request::get(target).bytes(&probe.base)
}

/// The connection still serves.
fn serves_on(probe: &Probe, connection: &mut Connection) -> Verdict {
    connection.send(get(probe, "/posts/1"))?;
    expect::post(&connection.receive("GET")?, 1)
}

fn created_on(probe: &Probe, connection: &mut Connection, text: &str) -> Result<Post, String> {
    let post = expect::created(&connection.receive("POST")?, text)?;
    expect::equal("the post read back", probe.post(post.id)?, post.clone())?;
    Ok(post)
}

/// One of these statuses with a JSON error, and the end of the connection; a connection that just ends will do
/// where `may_say_nothing`.
fn expect_refused(connection: &mut Connection, statuses: &[u16], may_say_nothing: bool) -> Verdict {
    let response = match connection.receive("GET") {
        Ok(response) => response,
        Err(e) if may_say_nothing && e.starts_with("connection") => return Ok(()),
        Err(e) => return Err(e),
    };
    expect::that(statuses.contains(&response.status), || {
        format!("expected one of {statuses:?}, got {response}")
    })?;
    expect::json_type(&response)?;
    json::expect_shape(&response.text(), json::ERROR)?;
    connection.expect_close(CLOSE_WITHIN)
}
