//! The program of a job in mode exec: this program once more. It misbehaves as it is told.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise, sigaction};
use nix::unistd::{ForkResult, Pid, fork, getppid, setsid};
use serde_json::Value;

use super::journal::{Journal, Word};
use super::kinds::Program;
use super::worker::{BEHAVIOUR, DIRECTORY, LIFE, idle, result, variable};
use crate::support::sys;
use crate::support::wait::{now, pause};

/// As `release` is said.
const RELEASE: i32 = 75;

/// Between two looks at the time.
const LOOK: Duration = Duration::from_millis(2);

/// How often a flood's lines are said, on each of its ways: 2 MiB of them.
const FLOOD_WAVES: usize = 512;

/// Lines of a wave on standard error. They fit a pipe that is read slowly, so that between two
/// waves SIGTERM is seen in time.
const WAVE_LINES: usize = 90;

/// When a program that misbehaves does so, after its begin.
const ACT_AFTER: Duration = Duration::from_millis(30);

static TERMINATED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_terminate(_: i32) {
    TERMINATED.store(true, Ordering::Relaxed);
}

/// The orders of this process.
struct Handler {
    program: Program,
    journal: Journal,
    id: String,
    due: Option<Instant>,
    ending: String,
    is_large: bool,
    /// When it does what it does.
    act: Option<Instant>,
    is_told: bool,
    /// Of a flood, still to come.
    waves: usize,
}

/// Runs the job. It ends without destructors: they would give back locks that a process which is
/// left still has.
pub fn main() -> ! {
    nix::unistd::alarm::set(LIFE);
    // Each job may have a user of its own, and the next attempt another one.
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let action = SigAction::new(SigHandler::Handler(on_terminate), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler stores one flag.
    unsafe { sigaction(Signal::SIGTERM, &action) }.unwrap();
    let program = Program::named(&variable(BEHAVIOUR)).unwrap();
    let journal = Journal::new(Path::new(&variable(DIRECTORY)));
    let id = variable("OJS_JOB_ID");
    let Some(lock) = journal.run(&id) else {
        journal.note(Word::Overlap, &id);
        sys::leave(RELEASE);
    };
    let alive = journal.live();
    journal.note(Word::Took, &id);
    let mut envelope = String::new();
    std::io::stdin().read_to_string(&mut envelope).unwrap();
    let envelope: Value = serde_json::from_str(&envelope).unwrap();
    assert_eq!(envelope["id"], id.as_str());
    let how = &envelope["args"][0];
    let began = now();
    let ms = how["ms"].as_u64().unwrap_or(0);
    let ending = how["end"].as_str().unwrap_or("ack").to_owned();
    // One in three of those that misbehave.
    let acts = acts(&id);
    let handler = Handler {
        program,
        journal,
        due: (ending != "never").then(|| began + Duration::from_millis(ms)),
        ending,
        is_large: how["large"] == true,
        act: acts.then(|| began + ACT_AFTER),
        id,
        is_told: false,
        waves: 0,
    };
    if program == Program::Leaves || program == Program::Daemons {
        keep(&lock);
        leave_something(program);
    }
    let status = handler.run();
    drop((lock, alive));
    sys::leave(status)
}

fn acts(id: &str) -> bool {
    id.bytes().last().unwrap_or(0).is_multiple_of(3)
}

impl Handler {
    fn run(mut self) -> i32 {
        loop {
            if TERMINATED.swap(false, Ordering::Relaxed) && !self.is_told {
                self.is_told = true;
                self.journal.note(Word::Cancelled, &self.id);
                if let Some(status) = self.cancelled() {
                    return status;
                }
            }
            if self.act.is_some_and(|act| act <= now()) {
                self.act = None;
                self.act();
            }
            if self.due.is_some_and(|due| due <= now()) {
                let ending = self.ending.clone();
                return self.end(&ending);
            }
            match self.waves.checked_sub(1) {
                Some(left) => {
                    self.waves = left;
                    flood();
                }
                None => pause(LOOK),
            }
        }
    }

    /// With what it ends, if it does: one in three does not look.
    fn cancelled(&self) -> Option<i32> {
        if self.program == Program::Ignores {
            return None;
        }
        match self.id.bytes().last().unwrap_or(0) % 3 {
            0 => None,
            1 => Some(self.end("ack")),
            _ => Some(self.end("fail")),
        }
    }

    fn end(&self, ending: &str) -> i32 {
        match ending {
            "fail" => {
                let _ = std::io::stderr().write_all(b"as told\n");
                1
            }
            "release" => {
                self.journal.note(Word::Releasing, &self.id);
                RELEASE
            }
            _ => {
                // A program that has closed its output has none.
                let result = Value::from(result(&self.id, self.is_large)).to_string();
                let _ = std::io::stdout().write_all(result.as_bytes());
                let _ = std::io::stdout().flush();
                0
            }
        }
    }

    fn act(&mut self) {
        match self.program {
            Program::Good | Program::Ignores | Program::Leaves | Program::Daemons => {}
            Program::Stops => drop(raise(Signal::SIGSTOP)),
            Program::Crashes => {
                let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
                // SAFETY: the default is the kernel's own.
                let _ = unsafe { sigaction(Signal::SIGSEGV, &default) };
                let _ = raise(Signal::SIGSEGV);
            }
            Program::Closes => self.close_everything(),
            Program::Floods => self.waves = FLOOD_WAVES,
            // A user of a slot may not.
            Program::Kills if kill(getppid(), None).is_err() => {}
            Program::Kills => {
                self.journal.note_process(Word::Acting);
                let _ = kill(getppid(), Signal::SIGKILL);
            }
        }
    }

    /// Says what it has to say first: nothing can be said afterwards.
    fn close_everything(&mut self) {
        if self.ending == "ack" {
            let _ = self.end("ack");
        }
        for descriptor in 0..=3 {
            sys::close(descriptor);
        }
    }
}

/// A process that is left has the job's lock, too, also one that has executed another program.
fn keep(lock: &File) {
    let lock = lock.as_fd();
    let flags = nix::fcntl::FdFlag::empty();
    let kept = nix::fcntl::fcntl(lock, nix::fcntl::FcntlArg::F_SETFD(flags));
    assert!(kept.is_ok(), "{}", lock.as_raw_fd());
}

/// A process in the background; or one in a session of its own, its parent gone, deaf to SIGTERM,
/// and where jobs have users without anything by which it could be told whose it is.
fn leave_something(program: Program) {
    // SAFETY: this process has one thread.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        if program == Program::Leaves {
            idle()
        }
        let _ = setsid();
        let _ = sys::set_ignored(libc::SIGTERM, true);
        // SAFETY: as above.
        if let Ok(ForkResult::Child) = unsafe { fork() } {
            if nix::unistd::getuid().is_root() {
                idle()
            }
            let _ = Command::new("/bin/sleep").arg(LIFE.to_string()).env_clear().exec();
        }
        sys::leave(0)
    }
    // The child has to have got that far: a process that is not born yet is no leftover.
    pause(LOOK);
    let _ = Pid::this();
}

/// A wave of lines on each way that there is.
fn flood() {
    let lines = "a line of a flood, and another one behind it\n".repeat(WAVE_LINES);
    let _ = std::io::stderr().write_all(lines.as_bytes());
    // SAFETY: the number is the job's own for this.
    let job = unsafe { std::os::fd::BorrowedFd::borrow_raw(3) };
    let Ok(job) = job.try_clone_to_owned() else { return };
    let _ = File::from(job).write_all("heartbeat\nprogress 0.5 half of it\nnonsense\n".repeat(4).as_bytes());
}
