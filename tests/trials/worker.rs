//! The worker of a trial: this program once more, as the child of the init. It misbehaves as it is
//! told.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::unistd::{ForkResult, fork, setsid};
use serde_json::{Value, json};

use super::crash::{CRASH_STATUS, Crash};
use super::journal::{self, Journal, Word};
use super::kinds::Behaviour;
use super::plan::LARGE_BYTES;
use crate::support::sys;
use crate::support::wait::{now, pause};

/// The variables that tell it what to do.
pub const BEHAVIOUR: &str = "TRIAL_BEHAVIOUR";
pub const DIRECTORY: &str = "TRIAL_DIRECTORY";
pub const ACT_AFTER_MS: &str = "TRIAL_ACT_AFTER_MS";
pub const CONCURRENCY: &str = "OJS_CONCURRENCY";

/// Longest that it looks for nothing.
const TICK: Duration = Duration::from_millis(20);

/// No trial lasts longer: what the init forgot ends by itself.
pub const LIFE: u32 = 60;

/// Frames of a flood, in all: the machine has other trials to run.
const FLOOD: usize = 30_000;

/// Frames of a flood between two breaths.
const WAVE: usize = 200;

/// Frames of a worker that crashes, before its last one: together they still fit into the socket.
const LAST_FRAMES: usize = 6_000;

static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Where SIGTERM is noted.
static JOURNAL: AtomicI32 = AtomicI32::new(-1);

/// Notes it and goes on.
extern "C" fn on_terminate(_: i32) {
    TERMINATED.store(true, Ordering::Relaxed);
    journal::note_in_handler(JOURNAL.load(Ordering::Relaxed), Word::Terminated);
}

/// Notes it and ends, as without a handler.
extern "C" fn on_terminate_and_end(signal: i32) {
    on_terminate(signal);
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    if let Ok(signal) = Signal::try_from(signal) {
        // SAFETY: the default is the kernel's own. The signal is blocked until this handler has
        // returned.
        let _ = unsafe { sigaction(signal, &default) };
        let _ = raise(signal);
    }
}

/// A job in its hands.
struct Held {
    due: Option<Instant>,
    ending: String,
    lock: Option<Flock<File>>,
    process: Option<i32>,
    is_large: bool,
}

struct Worker {
    behaviour: Behaviour,
    journal: Journal,
    link: Arc<Mutex<UnixStream>>,
    frames: Receiver<Value>,
    held: BTreeMap<String, Held>,
    /// When the drain ends, once it is known.
    deadline: Option<Instant>,
    /// When it does what it does.
    act: Option<Instant>,
    act_after: Duration,
    is_gone: bool,
}

/// Runs the worker. It ends without destructors: they would give back locks that a process which is
/// left still has.
pub fn main() -> ! {
    let behaviour = Behaviour::named(&variable(BEHAVIOUR)).unwrap();
    let journal = Journal::new(Path::new(&variable(DIRECTORY)));
    JOURNAL.store(journal.open().into_raw_fd(), Ordering::Relaxed);
    let behaviour = if behaviour == Behaviour::Prefork {
        dispositions(Behaviour::Good);
        journal.note_process(Word::Started);
        prefork()
    } else {
        behaviour
    };
    nix::unistd::alarm::set(LIFE);
    let _alive = journal.live();
    dispositions(behaviour);
    journal.note_process(Word::Started);
    Worker::start(behaviour, journal).run()
}

pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Two processes that serve, below one that waits for them and takes no part.
fn prefork() -> Behaviour {
    nix::unistd::alarm::set(LIFE);
    for behaviour in [Behaviour::Good, Behaviour::Ignores] {
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork() }.unwrap() {
            return behaviour;
        }
    }
    loop {
        match nix::sys::wait::wait() {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => sys::leave(0),
        }
    }
}

/// SIGTERM is noted, whatever it does.
fn dispositions(behaviour: Behaviour) {
    let handler = match behaviour {
        Behaviour::Ignores | Behaviour::Closes | Behaviour::LastWords => SigHandler::Handler(on_terminate),
        Behaviour::Good
        | Behaviour::Python
        | Behaviour::Stops
        | Behaviour::Forks
        | Behaviour::Crashes
        | Behaviour::Floods
        | Behaviour::Deaf
        | Behaviour::Prefork
        | Behaviour::Hangs
        | Behaviour::Sdk(_)
        | Behaviour::Exec(_) => SigHandler::Handler(on_terminate_and_end),
    };
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handlers store one flag and make system calls alone.
    unsafe { sigaction(Signal::SIGTERM, &action) }.unwrap();
}

impl Worker {
    fn start(behaviour: Behaviour, journal: Journal) -> Self {
        let link = UnixStream::connect(variable("OJS_SOCKET")).unwrap();
        let reader = link.try_clone().unwrap();
        let (sender, frames) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines() {
                let Ok(line) = line else { return };
                let Ok(frame) = serde_json::from_str::<Value>(&line) else {
                    return;
                };
                let is_job = frame["type"] == "job";
                let _ = sender.send(frame);
                if is_job && behaviour == Behaviour::Deaf {
                    // The socket stays open, and fills.
                    loop {
                        pause(Duration::from_secs(1));
                    }
                }
            }
        });
        let act_after = Duration::from_millis(variable(ACT_AFTER_MS).parse().unwrap_or(0));
        let mut worker = Self {
            behaviour,
            journal,
            link: Arc::new(Mutex::new(link)),
            frames,
            held: BTreeMap::new(),
            deadline: None,
            act: None,
            act_after,
            is_gone: false,
        };
        let concurrency: u32 = variable(CONCURRENCY).parse().unwrap_or(1);
        worker.say(&json!({"type": "ready", "protocol": 1, "concurrency": concurrency, "client": "trial"}));
        if behaviour == Behaviour::Floods {
            worker.flood();
        }
        worker
    }

    /// Whether the frame is in the socket, whole.
    fn say(&mut self, frame: &Value) -> bool {
        let line = format!("{frame}\n");
        let said = self.link.lock().unwrap().write_all(line.as_bytes()).is_ok();
        self.is_gone |= !said;
        said
    }

    /// Unknown frames, and heartbeats for jobs that nobody holds, beside everything else.
    fn flood(&self) {
        let link = Arc::clone(&self.link);
        std::thread::spawn(move || {
            for wave in 0..FLOOD / WAVE {
                let frame = if wave % 2 == 0 {
                    "{\"type\":\"nonsense\"}\n"
                } else {
                    "{\"type\":\"heartbeat\",\"job_id\":\"no-such-job\"}\n"
                };
                let Ok(()) = link.lock().unwrap().write_all(frame.repeat(WAVE).as_bytes()) else {
                    return;
                };
                pause(Duration::from_millis(10));
            }
        });
    }

    fn run(mut self) -> ! {
        loop {
            match self.frames.recv_timeout(self.patience()) {
                Ok(frame) => self.hear(&frame),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.is_gone = true,
            }
            if self.behaviour == Behaviour::LastWords && TERMINATED.load(Ordering::Relaxed) {
                self.last_words();
            }
            self.finish_what_is_due();
            if self.act.is_some_and(|act| act <= now()) {
                self.act = None;
                self.act();
            }
            // A worker whose socket closes stops its handlers and exits.
            if self.is_gone {
                match self.behaviour {
                    Behaviour::Closes | Behaviour::LastWords | Behaviour::Ignores => pause(TICK),
                    _ => sys::leave(0),
                }
            }
        }
    }

    fn patience(&self) -> Duration {
        let dues = self.held.values().filter_map(|held| held.due);
        let first = dues.chain(self.act).min();
        let left = first.map_or(TICK, |first| first.saturating_duration_since(now()));
        left.min(TICK)
    }

    fn hear(&mut self, frame: &Value) {
        match frame["type"].as_str().unwrap_or_default() {
            "job" => self.take(&frame["job"]),
            "lifecycle" => {
                if let Some(left) = frame["remaining_ms"].as_u64() {
                    self.deadline = Some(now() + Duration::from_millis(left));
                    self.reckon();
                }
            }
            "cancel" => {
                let id = frame["job_id"].as_str().unwrap_or_default();
                if self.behaviour == Behaviour::Hangs && frame["reason"] == "timeout" && hangs(id) {
                    self.journal.note_process(Word::Acting);
                }
                if frame["reason"] == "shutdown" {
                    self.journal.note(Word::Cancelled, id);
                }
                self.cancelled(id);
            }
            _ => {}
        }
    }

    fn take(&mut self, job: &Value) {
        let id = job["id"].as_str().unwrap().to_owned();
        let Some(lock) = self.journal.run(&id) else {
            self.journal.note(Word::Overlap, &id);
            return;
        };
        self.journal.note(Word::Took, &id);
        let how = &job["args"][0];
        let ending = how["end"].as_str().unwrap_or("ack").to_owned();
        let ms = how["ms"].as_i64().unwrap_or(0);
        let hangs = self.behaviour == Behaviour::Hangs && hangs(&id);
        let is_endless = ending == "never" || self.behaviour == Behaviour::Ignores || hangs;
        let mut held = Held {
            due: None,
            ending: if how["at_deadline"] == true {
                format!("{ending} {ms}")
            } else {
                ending
            },
            lock: Some(lock),
            process: None,
            is_large: how["large"] == true,
        };
        if !is_endless && how["at_deadline"] != true {
            held.due = Some(now() + Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        }
        if self.behaviour == Behaviour::Forks {
            held.process = Some(job_process(self.held.is_empty()));
        }
        self.act.get_or_insert(now() + self.act_after);
        self.held.insert(id, held);
        self.reckon();
    }

    /// The jobs that end at the deadline, once it is known.
    fn reckon(&mut self) {
        let Some(deadline) = self.deadline else { return };
        for held in self.held.values_mut() {
            if let Some((ending, ms)) = held.ending.split_once(' ') {
                let ms: i64 = ms.parse().unwrap();
                let by = Duration::from_millis(ms.unsigned_abs());
                held.due = if ms < 0 {
                    deadline.checked_sub(by)
                } else {
                    Some(deadline + by)
                };
                held.ending = ending.to_owned();
            }
        }
    }

    fn finish_what_is_due(&mut self) {
        let now = now();
        let is_due = |held: &Held| held.due.is_some_and(|due| due <= now);
        let due: Vec<String> = self
            .held
            .iter()
            .filter(|(_, held)| is_due(held))
            .map(|(id, _)| id.clone())
            .collect();
        for id in due {
            let ending = self.held[&id].ending.clone();
            self.answer(&id, &ending);
        }
    }

    /// The work on it is over; then the answer; then the note that it is in the socket.
    fn answer(&mut self, id: &str, ending: &str) {
        let Some(mut held) = self.held.remove(id) else { return };
        if let Some(process) = held.process {
            let _ = sys::send(process, libc::SIGKILL);
            let _ = sys::reap(process, true);
        }
        drop(held.lock.take());
        let (frame, word) = match ending {
            "fail" => (
                json!({"type": "fail", "job_id": id, "error": {"message": "as told", "code": "told"}}),
                Some(Word::Failed),
            ),
            "release" => {
                self.journal.note(Word::Releasing, id);
                (json!({"type": "release", "job_id": id}), None)
            }
            _ => (
                json!({"type": "ack", "job_id": id, "result": result(&signed(id, nix::unistd::getpgrp().as_raw()), held.is_large)}),
                Some(Word::Acked),
            ),
        };
        if self.say(&frame)
            && let Some(word) = word
        {
            self.journal.note(word, id);
        }
    }

    fn cancelled(&mut self, id: &str) {
        match self.behaviour {
            Behaviour::Ignores | Behaviour::Closes | Behaviour::Stops | Behaviour::Deaf => {}
            Behaviour::LastWords => self.answer(id, "ack"),
            _ => {
                // One in three handlers does not look.
                let choice = id.bytes().last().unwrap_or(0) % 3;
                match choice {
                    _ if hangs(id) => {}
                    1 => self.answer(id, "ack"),
                    _ => self.answer(id, "fail"),
                }
            }
        }
    }

    /// ACKs for all, half a frame more, and no end.
    fn last_words(&mut self) {
        let held: Vec<String> = self.held.keys().cloned().collect();
        for (index, id) in held.iter().enumerate() {
            if index == 1 {
                // The job is not done, and the worker says only half of that.
                let half = format!("{{\"type\":\"ack\",\"job_id\":\"{id}\"");
                let _ = self.link.lock().unwrap().write_all(half.as_bytes());
                break;
            }
            self.answer(id, "ack");
        }
        loop {
            pause(Duration::from_secs(1));
        }
    }

    /// With an ACK behind a heap of frames that nobody can have read yet.
    fn crash(&mut self) {
        if let Some(id) = self.held.keys().next().cloned() {
            let heap = "{\"type\":\"nonsense\"}\n".repeat(LAST_FRAMES);
            let _ = self.link.lock().unwrap().write_all(heap.as_bytes());
            self.answer(&id, "ack");
        }
        match Crash::after(self.act_after) {
            Crash::Status => sys::leave(CRASH_STATUS),
            Crash::Killed => drop(raise(Signal::SIGKILL)),
            Crash::Fault => {
                let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
                // SAFETY: the default is the kernel's own. That of the standard library would go
                // on: nothing faults again.
                let _ = unsafe { sigaction(Signal::SIGSEGV, &default) };
                let _ = raise(Signal::SIGSEGV);
            }
        }
    }

    fn act(&mut self) {
        match self.behaviour {
            Behaviour::Stops => {
                let _ = raise(Signal::SIGSTOP);
            }
            Behaviour::Crashes => {
                self.journal.note_process(Word::Acting);
                self.crash();
            }
            Behaviour::Closes => {
                self.journal.note_process(Word::Acting);
                let _ = self.link.lock().unwrap().shutdown(Shutdown::Both);
                self.is_gone = true;
            }
            Behaviour::Good
            | Behaviour::Python
            | Behaviour::Ignores
            | Behaviour::Forks
            | Behaviour::Floods
            | Behaviour::Deaf
            | Behaviour::LastWords
            | Behaviour::Prefork
            | Behaviour::Hangs
            | Behaviour::Sdk(_)
            | Behaviour::Exec(_) => {}
        }
    }
}

/// Whether the handler of this job is the one of three that does not look.
fn hangs(id: &str) -> bool {
    id.bytes().last().unwrap_or(0).is_multiple_of(3)
}

/// The name of a job and of the worker that did it, as they stand in a result.
pub fn signed(id: &str, worker: i32) -> String {
    format!("{id}@{worker}")
}

/// The result of a job.
pub fn result(id: &str, is_large: bool) -> String {
    format!("{id}{}", "x".repeat(if is_large { LARGE_BYTES } else { 0 }))
}

/// A process that a job runs in; the first is a daemon besides: a session of its own, its parent
/// gone, deaf to SIGTERM.
fn job_process(is_daemon: bool) -> i32 {
    // SAFETY: the child only makes system calls: the other thread of this process may hold any
    // lock.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child.as_raw(),
        ForkResult::Child => {
            if is_daemon {
                let _ = setsid();
                let _ = sys::set_ignored(libc::SIGTERM, true);
                // SAFETY: as above.
                if let Ok(ForkResult::Child) = unsafe { fork() } {
                    idle()
                }
            }
            idle()
        }
    }
}

pub fn idle() -> ! {
    nix::unistd::alarm::set(LIFE);
    loop {
        nix::unistd::pause();
    }
}
