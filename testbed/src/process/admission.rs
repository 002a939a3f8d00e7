//! A child that is held back, a process already but not yet its program.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::error::Context;

/// A child that nobody answers, since its owner died, gives up after this.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Has `admit` see the process that `command` starts before its program begins, to confine it,
/// say. It begins only if the answer is true.
///
/// `admit` must start nothing with [`super::spawn`], which is waiting for the same process.
pub fn admit_first(
    command: &mut Command,
    admit: impl FnOnce(u32) -> bool + Send + 'static,
) -> Result<()> {
    let pair = UnixStream::pair();
    let (mut inside, mut outside) = pair.context(|| "cannot make a pair of sockets".into())?;
    let limit = inside.set_read_timeout(Some(ANSWER_LIMIT));
    limit.context(|| "cannot limit a wait".into())?;

    let wait_to_be_let_in = move || {
        inside.write_all(&std::process::id().to_ne_bytes())?;
        let mut answer = [0];
        inside.read_exact(&mut answer)?;
        match answer {
            [1] => Ok(()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    };
    // SAFETY: between fork and exec the closure makes three system calls on memory of its own.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(wait_to_be_let_in);
    }
    std::thread::spawn(move || {
        let mut pid = [0; 4];
        // The end of the stream: the command is gone and was never run.
        if outside.read_exact(&mut pid).is_ok() {
            let is_admitted = admit(u32::from_ne_bytes(pid));
            let _ = outside.write_all(&[u8::from(is_admitted)]);
        }
    });
    Ok(())
}
