//! Somebody who runs control commands beside the init: exec'ed into its container, or outside.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use crate::support::sys::{self, Ended};
use crate::support::under_test;
use crate::support::wait::wait_for;

/// The outcome of a command.
#[derive(Debug)]
pub struct Came {
    /// `None`: it could not be started, or did not end.
    pub ended: Option<Ended>,
    pub said: String,
    pub complained: String,
}

/// Runs it to its end, which may take so long; the name is for its files.
pub fn run(words: &[&str], dir: &Path, name: &str, inside: Option<i32>, patience: Duration) -> Came {
    let [said, complained] = ["said", "complained"].map(|kind| dir.join(format!("{name}-{kind}")));
    let mut command = Command::new(under_test::init());
    command
        .args(words)
        .env_clear()
        .env("OJS_RUNTIME_DIR", dir.join("run"))
        .stdin(Stdio::null())
        .stdout(File::create(&said).unwrap())
        .stderr(File::create(&complained).unwrap());
    let ended = start(command, inside).and_then(|pid| end(pid, patience));
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    Came {
        ended,
        said: text(said),
        complained: text(complained),
    }
}

/// Starts it, in the PID namespace of that process if there is one: the SIGKILL to everybody
/// reaches it there.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts the command"
)]
fn start(mut command: Command, inside: Option<i32>) -> Option<i32> {
    let start = move || {
        if let Some(pid) = inside {
            let namespace = File::open(format!("/proc/{pid}/ns/pid")).ok()?;
            setns(namespace, CloneFlags::CLONE_NEWPID).ok()?;
        }
        // A namespace whose first process has ended takes no other.
        let child = command.spawn().ok()?;
        Some(child.id().cast_signed())
    };
    std::thread::spawn(start).join().unwrap()
}

fn end(pid: i32, patience: Duration) -> Option<Ended> {
    let ended = wait_for(patience, || sys::reap(pid, false).unwrap());
    if ended.is_none() {
        let _ = sys::send(pid, libc::SIGKILL);
        let _ = sys::reap(pid, true);
    }
    ended
}
