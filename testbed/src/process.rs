//! Child processes that never outlive their owner, and what they cost.

mod admission;
mod log;
mod usage;

pub use admission::admit_first;
pub use log::Log;
pub use usage::{
    CpuTime, Memory, Stat, all, allowed_cores, command_line, cpu_time, cpu_time_of,
    cpu_time_of_ended_children, cpu_time_of_tree, memory, parent, pin, pin_this_process, tree,
};

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process as sys;
pub use rustix::process::Signal;

use crate::error::Context;
use crate::{Error, Result, net};

/// What is done to a server's command before it is run.
pub type Prepare<'a> = &'a dyn Fn(&mut Command) -> Result<()>;
pub const AS_IT_IS: Prepare<'static> = &|_| Ok(());

/// A running child. Its output is kept in [`Log`]; dropping the value kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: Log,
}

impl Process {
    /// Starts `command` with its output kept.
    pub fn start(name: &str, command: Command) -> Result<Self> {
        Self::start_with(name, command, Signal::KILL)
    }

    /// The same; `death_signal` is what the kernel sends the child should this process die.
    pub fn start_with(name: &str, mut command: Command, death_signal: Signal) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on a terminal goes to the foreground group: the owner gets it and
            // decides in which order its children stop.
            .process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child =
            spawn(command, death_signal).context(|| format!("cannot start {name} ({program})"))?;
        let log = Log::default();
        log.follow(child.stdout.take().expect("stdout is piped"));
        log.follow(child.stderr.take().expect("stderr is piped"));
        let name = name.to_owned();
        Ok(Process { child, name, log })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn has_exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = sys::Pid::from_child(&self.child);
        sys::kill_process(pid, signal).context(|| format!("cannot signal {}", self.name))
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let mut status = None;
        net::wait_until(&format!("{} to exit", self.name), limit, || {
            status =
                (self.child.try_wait()).context(|| format!("cannot wait for {}", self.name))?;
            Ok(status.is_some())
        })?;
        self.log.drain();
        status.ok_or_else(|| Error::new(format!("{} did not exit", self.name)))
    }

    /// With it what it has started, unless that made a group of its own: a killed Nginx would
    /// leave its workers behind.
    pub fn kill(&mut self) {
        let _ = sys::kill_process_group(sys::Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        self.log.drain();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_exited().is_none() {
            self.kill();
        }
    }
}

/// Starts a child that gets `death_signal` when this process dies, however it dies.
///
/// The kernel ties that signal to the *thread* that forked, not to its process; a test's
/// thread ends long before what it started may have to. So one thread, which lives as long
/// as the process does, forks for all.
pub fn spawn(mut command: Command, death_signal: Signal) -> io::Result<Child> {
    let owner = sys::getpid();
    let prepare = move || {
        sys::set_parent_process_death_signal(Some(death_signal))?;
        if sys::getppid() != Some(owner) {
            // The owner died before the line above could take effect.
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and touches no memory
    // but its own copy of two integers.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(prepare);
    }

    type Job = (Command, mpsc::SyncSender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("spawner".into())
            .spawn(move || {
                for (mut command, reply) in queue {
                    let _ = reply.send(command.spawn());
                }
            })
            .expect("cannot start a thread");
        jobs
    });
    let (reply, answer) = mpsc::sync_channel(1);
    spawner.send((command, reply)).expect("the spawner is gone");
    answer.recv().expect("the spawner is gone")
}

/// Runs a program to its end and returns what it printed; a failure carries its stderr.
pub fn run(mut command: Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = spawn(command, Signal::KILL)
        .and_then(Child::wait_with_output)
        .context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(format!(
            "{program} failed ({}): {}",
            output.status,
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
