//! Somebody who runs a subcommand, in the container or outside.
#![allow(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sched::{CloneFlags, setns};

use crate::stage::{Init, PATIENCE, Stage};
use crate::support::namespace::spawn_child;
use crate::support::under_test;
use crate::support::wait::{Stopwatch, wait_until};

/// A worker that takes one job at a time, acks none unless it is ordered to, and ends when it is
/// asked to.
pub const OBEYS: &str = "
link = Link()
link.ready(2)
link.obey()";

/// Where a subcommand runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the PID namespace, as an exec'ed hook: the SIGKILL to everybody reaches it.
    Inside,
    /// In ours.
    Outside,
}

/// A subcommand that runs.
pub struct Running {
    child: Child,
    began: Stopwatch,
}

/// The result of it.
#[derive(Debug)]
pub struct Came {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
    /// Less what the machine withheld: for what has to be over by some time.
    pub took_itself: Duration,
}

impl Came {
    /// The command was taken, and says so on one line.
    #[track_caller]
    pub fn says(&self, words: &str) {
        assert_eq!((self.status, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        assert!(self.stdout.contains(words), "{words:?}: {self:?}");
    }

    /// The command was not taken, with this status.
    #[track_caller]
    pub fn is_refused(&self, status: i32, words: &[&str]) {
        assert_eq!((self.status, self.stdout.as_str()), (Some(status), ""), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?}: {self:?}");
        }
    }
}

impl Running {
    /// Waits for its end.
    pub fn ends(mut self) -> Came {
        let mut status = None;
        let is_over = wait_until(PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let (took, took_itself) = (self.began.real(), self.began.elapsed());
        if !is_over {
            self.child.kill().unwrap();
        }
        let output = self.child.wait_with_output().unwrap();
        assert!(is_over, "still there: {output:?}");
        Came {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            took,
            took_itself,
        }
    }

    /// Ctrl-C.
    pub fn interrupt(&self) {
        crate::support::sys::send(self.child.id().try_into().unwrap(), libc::SIGINT).unwrap();
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

/// Starts a subcommand as this user.
pub fn start_as(stage: &Stage, init: &Init, place: Place, uid: u32, words: &[&str]) -> Running {
    let [stdout, stderr] = [Stdio::piped(), Stdio::piped()];
    start_with(stage, init, place, uid, words, [stdout, stderr])
}

/// Starts one, inside, whose output nobody reads: what it writes to is full.
pub fn start_unread(stage: &Stage, init: &Init, words: &[&str]) -> Running {
    let full = || {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        fill(&writer);
        // Open for as long as anybody writes.
        std::mem::forget(reader);
        Stdio::from(writer)
    };
    start_with(stage, init, Place::Inside, 0, words, [full(), full()])
}

/// Starts one, outside, that writes into a pipe of 4 KiB, whose other end is for who reads it when
/// he likes.
pub fn start_into_a_small_pipe(stage: &Stage, init: &Init, words: &[&str]) -> (Running, File) {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let output = [Stdio::from(writer), Stdio::piped()];
    (
        start_with(stage, init, Place::Outside, 0, words, output),
        File::from(reader),
    )
}

/// Writes until nothing more goes in.
fn fill(pipe: &OwnedFd) {
    let set = |flags| fcntl(pipe, FcntlArg::F_SETFL(flags)).unwrap();
    set(OFlag::O_NONBLOCK);
    while nix::unistd::write(pipe, &[b'x'; 4096]).is_ok() {}
    set(OFlag::empty());
}

fn start_with(stage: &Stage, init: &Init, place: Place, uid: u32, words: &[&str], output: [Stdio; 2]) -> Running {
    let [stdout, stderr] = output;
    let mut command = Command::new(under_test::init());
    command
        .args(words)
        .env_clear()
        .env("OJS_RUNTIME_DIR", stage.at("run"))
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    if uid != 0 {
        command.uid(uid).gid(uid);
    }
    let began = Stopwatch::start();
    let child = command_in(place, init, command);
    Running { child, began }
}

/// Starts a command there.
pub fn command_in(place: Place, init: &Init, command: Command) -> Child {
    let namespace = (place == Place::Inside).then(|| File::open(format!("/proc/{}/ns/pid", init.pid)).unwrap());
    let start = move || {
        if let Some(namespace) = namespace {
            setns(namespace, CloneFlags::CLONE_NEWPID).unwrap();
        }
        spawn_child(command)
    };
    std::thread::spawn(start).join().unwrap()
}

/// Starts one as the user that we are.
pub fn start(stage: &Stage, init: &Init, place: Place, words: &[&str]) -> Running {
    start_as(stage, init, place, 0, words)
}

/// Runs one to its end, inside.
pub fn run(stage: &Stage, init: &Init, words: &[&str]) -> Came {
    start(stage, init, Place::Inside, words).ends()
}

/// Waits for the control socket of the only instance.
pub fn socket(stage: &Stage) -> PathBuf {
    let home = stage.at("run").join("ojs-init-0");
    let mut found = None;
    let is_there = wait_until(PATIENCE, || {
        let entries = std::fs::read_dir(&home).into_iter().flatten().flatten();
        found = entries
            .map(|entry| entry.path().join("control.sock"))
            .find(|path| path.exists());
        found.is_some()
    });
    assert!(is_there, "no control socket in {}", home.display());
    found.unwrap()
}
