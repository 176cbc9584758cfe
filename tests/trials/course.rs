//! The course of one trial: a backend, an init with a worker, and a witness start; then the end is
//! asked for, and each event is noted.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use ojs_devserver::{Dialect, Directive, Event, Fault, FaultRule, JobSnapshot, JobState, Operation, Options, Server};

use super::asked::{Asked, Commanded, Sent};
use super::ends::{is_stop, is_whole};
use super::journal::{Journal, Note, Word};
use super::kinds::{Behaviour, Occasion, Weather};
use super::names::AddressBook;
use super::operator;
use super::plan::{Ask, HEARTBEAT, JobPlan, Onset, Plan};
use super::recycles::{self, RECYCLE};
use super::{exec, gateway, launch, weather};
use crate::sdk::Kind;
use crate::support::namespace::{spawn, spawn_as_pid_1};
use crate::support::proc;
use crate::support::sys::{self, Ended};
use crate::support::temp::TempDir;
use crate::support::under_test;
use crate::support::wait::{pause, wait_for, wait_until};

/// The name of the witness at the backend.
pub const WITNESS: &str = "witness";

/// The name of the worker that did a job just before its ACK, at the backend.
pub const RIVAL: &str = "rival";

/// Whether a worker of that name is the init.
pub fn is_ours(worker: Option<&str>) -> bool {
    ![Some(WITNESS), Some(RIVAL)].contains(&worker)
}

/// How long an occasion is waited for; after that a trial goes on without it.
const OCCASION: Duration = Duration::from_millis(1500);

/// How much longer than the limit an init is waited for before it is said to hang.
const PATIENCE: Duration = Duration::from_secs(4);

/// Between two signals, in milliseconds. Two that come sooner may become one.
const APART_MS: f64 = 20.0;

/// Between two stop signals that are not one request, in milliseconds: sooner they would be.
pub const STOPS_APART_MS: f64 = 200.0;

/// How long the witness has a job.
const WITNESSED: Duration = Duration::from_millis(10);

/// The outcome of a trial.
#[derive(Debug)]
pub struct Story {
    pub events: Vec<Event>,
    /// When the record began: milliseconds of the day, as the log has it.
    pub began_of_day: f64,
    pub jobs: Vec<JobSnapshot>,
    pub notes: Vec<Note>,
    pub log: String,
    /// The termination log.
    pub termination: String,
    pub asked: Asked,
    /// `None`: it had to be killed.
    pub ended: Option<(f64, Ended)>,
    /// Jobs that the witness got while a worker still ran them.
    pub overlaps: Vec<String>,
    /// Jobs that the backend knew to be done while a process of them was left.
    pub outlived: Vec<String>,
    /// A process of the worker is left.
    pub left_behind: bool,
    /// Most jobs that it had at the backend at one time.
    pub most_active: usize,
}

struct Course<'a> {
    plan: &'a Plan,
    server: Server,
    journal: Journal,
    dir: TempDir,
    address_book: AddressBook,
    /// `CLOCK_MONOTONIC` at the start of the server, in nanoseconds.
    epoch: u64,
    /// The end was asked for.
    is_asked: AtomicBool,
}

/// The processes that were started.
#[derive(Debug, Clone, Copy)]
struct Started {
    init: i32,
    /// The process whose end is waited for: the init, or `timeout`, which ends with it.
    first: i32,
}

/// Something that is to happen at a given moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Ask(Ask),
    Begin,
    Stop,
}

/// Plays the trial.
pub fn play(plan: &Plan, dir: &Path) -> Story {
    let server = Server::start(Options {
        heartbeat_interval: HEARTBEAT,
        visibility_timeout: plan.visibility,
        dialect: plan.dialect,
        ..Options::default()
    })
    .unwrap();
    let epoch = sys::monotonic_ns() - u64::try_from(server.now().as_nanos()).unwrap();
    let dir = TempDir::new(dir.to_owned()).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let course = Course {
        plan,
        address_book: AddressBook::new(plan.host, server.address(), plan.number, dir.path()),
        server,
        journal: Journal::new(dir.path()),
        dir,
        epoch,
        is_asked: AtomicBool::new(false),
    };
    course.play()
}

impl Course<'_> {
    fn now(&self) -> f64 {
        self.server.now().as_secs_f64() * 1000.0
    }

    fn play(self) -> Story {
        self.enqueue();
        self.prepare();
        let started = self.launch();
        let ended = self.watch(started.first);
        let is_over = AtomicBool::new(false);
        let (asked, ended, overlaps, outlived) = std::thread::scope(|scope| {
            let witness = scope.spawn(|| self.witness(&is_over));
            let finds = scope.spawn(|| exec::find_what_is_left(self.plan, &self.server, &self.journal, &is_over));
            let (asked, ended) = self.end_it(started, &ended);
            self.clear();
            // A job that was given back is the witness's now.
            self.server.wait(Duration::from_millis(200), |server| {
                server.count(JobState::Available) + server.count(JobState::Retryable) == 0
            });
            is_over.store(true, Ordering::Relaxed);
            (asked, ended, witness.join().unwrap(), finds.join().unwrap())
        });
        let ours = |(worker, most): (String, usize)| is_ours(Some(&worker)).then_some(most);
        Story {
            events: self.server.events(),
            began_of_day: recycles::ms_of_day() - self.now(),
            jobs: self.server.jobs(),
            notes: self.journal.read(self.epoch),
            log: std::fs::read_to_string(self.at("log")).unwrap_or_default(),
            termination: std::fs::read_to_string(self.at("termination")).unwrap_or_default(),
            asked,
            ended,
            overlaps,
            outlived,
            left_behind: !self.journal.all_are_gone(),
            most_active: self
                .server
                .most_active()
                .into_iter()
                .filter_map(ours)
                .max()
                .unwrap_or(0),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn enqueue(&self) {
        let timeout = self.plan.job_timeout();
        let timeout = timeout.map_or_else(String::new, |timeout| {
            format!(r#","timeout_ms":{}"#, timeout.as_millis())
        });
        let told = |job: &JobPlan| {
            if self.plan.behaviour.is_sdk() {
                return gateway::told(self.plan, job);
            }
            if self.plan.behaviour.is_exec() {
                return exec::told(self.plan, job);
            }
            let (ms, at, end, large) = (job.ms, job.at_deadline, job.ending.name(), job.is_large);
            let args = format!(r#"[{{"ms":{ms},"at_deadline":{at},"end":"{end}","large":{large}}}]"#);
            ("t", args)
        };
        let job = |job: &JobPlan| {
            let (kind, args) = told(job);
            format!(
                r#"{{"type":"{kind}","args":{args}{timeout},"retry":{{"max_attempts":{},"initial_interval":"PT0.01S","backoff_strategy":"constant"}}}}"#,
                if self.plan.is_last_attempt { 1 } else { 50 }
            )
        };
        let jobs: Vec<String> = self.plan.jobs.iter().map(job).collect();
        self.server.enqueue_all(jobs.iter().map(String::as_str)).unwrap();
    }

    /// Makes what is there before the init.
    fn prepare(&self) {
        File::create(self.at("termination")).unwrap();
        let slow = |operation, ms| FaultRule::on(operation, Fault::Delay(Duration::from_millis(ms)));
        match self.plan.occasion {
            Occasion::Fetch => drop(self.server.fault(slow(Operation::Fetch, 250))),
            Occasion::Ack => drop(self.server.fault(slow(Operation::Ack, 250))),
            _ => {}
        }
        if let Onset::Start = self.plan.onset {
            weather::begin(&self.server, self.plan);
        }
    }

    fn clear(&self) {
        self.server.clear_faults();
        self.server.accept_connections();
    }

    fn launch(&self) -> Started {
        let mut command = launch::command(self.plan, self.address_book.url(), self.dir.path());
        self.address_book.show_to(&mut command);
        let first = if self.plan.is_pid_1 {
            spawn_as_pid_1(command)
        } else {
            spawn(command)
        };
        let is_init = |pid: &i32| proc::image(*pid).is_some_and(|image| image == Path::new(&under_test::init()));
        let below = || proc::children(first).into_iter().find(is_init);
        let init = match self.plan.first.first() {
            Some(Ask::Expiry(_)) => wait_for(self.occasion(), below).unwrap_or(first),
            Some(Ask::Signal(_) | Ask::Command(_)) | None => first,
        };
        Started { init, first }
    }

    /// Tells when it has ended, to the microsecond.
    fn watch(&self, pid: i32) -> Receiver<(f64, Ended)> {
        let (sender, receiver) = channel();
        let epoch = self.epoch;
        std::thread::spawn(move || {
            let ended = sys::reap(pid, true).unwrap().unwrap();
            let ms = sys::monotonic_ns().saturating_sub(epoch) as f64 / 1e6;
            let _ = sender.send((ms, ended));
        });
        receiver
    }

    /// Runs what was given away, as another worker would, and notes what somebody else still runs.
    fn witness(&self, is_over: &AtomicBool) -> Vec<String> {
        let mut overlaps = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            // There the init is to get again what it gave back.
            if self.plan.weather == Weather::Late && !self.is_asked.load(Ordering::Relaxed) {
                pause(WITNESSED);
                continue;
            }
            for job in self.server.take_over(WITNESS) {
                match self.journal.run(&job) {
                    Some(_running) => pause(WITNESSED),
                    None => overlaps.push(job.clone()),
                }
                let _ = self.server.acknowledge(WITNESS, &job);
            }
            pause(Duration::from_millis(5));
        }
        overlaps
    }

    /// Waits for the occasion, asks for the end, and waits for that.
    fn end_it(&self, started: Started, ended: &Receiver<(f64, Ended)>) -> (Asked, Option<(f64, Ended)>) {
        let plan = self.plan;
        // Before that a signal ends it, or is dropped by the kernel: it is PID 1.
        let blocks =
            || proc::signal_mask(started.init, "SigBlk").is_some_and(|mask| mask & sys::bit(libc::SIGTERM) != 0);
        wait_until(self.occasion(), blocks);
        self.wait_for_occasion();
        pause(plan.pause);
        let mut asked = Asked::default();
        self.recycle_before(started, &mut asked);
        match plan.occasion {
            Occasion::Quiet => {
                self.ask(started, Ask::Signal(libc::SIGTSTP), &mut asked);
                pause(plan.pause / 2);
                if plan.variant.is_multiple_of(3) && !plan.kubernetes {
                    self.ask(started, Ask::Signal(libc::SIGCONT), &mut asked);
                    pause(plan.pause / 4);
                }
                self.ask(started, Ask::Signal(plan.signal), &mut asked);
            }
            Occasion::Directive => asked.directed = self.direct(),
            _ => {
                for ask in &plan.first {
                    self.ask(started, *ask, &mut asked);
                }
            }
        }
        if !asked.for_the_end() {
            self.ask(started, Ask::Signal(plan.signal), &mut asked);
        }
        self.is_asked.store(true, Ordering::Relaxed);
        let t0 = self.now();
        for (at, act) in self.acts() {
            let left = Duration::from_secs_f64((t0 + at - self.now()).max(0.0) / 1000.0);
            match ended.recv_timeout(left) {
                Ok(ended) => return (asked, Some(ended)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            match act {
                Act::Ask(ask) => self.ask(started, ask, &mut asked),
                Act::Begin => weather::begin(&self.server, self.plan),
                Act::Stop => {
                    weather::end(&self.server, self.plan);
                    asked.cleared = Some(self.now());
                }
            }
        }
        let end = ended.recv_timeout(plan.limit + PATIENCE).ok();
        if end.is_none() {
            for pid in [started.init, started.first] {
                let _ = sys::send(pid, libc::SIGKILL);
            }
            let _ = ended.recv_timeout(PATIENCE);
        }
        (asked, end)
    }

    /// Has the worker recycled, as often as it is drawn, and lets it live.
    fn recycle_before(&self, started: Started, asked: &mut Asked) {
        let Some(recycles) = &self.plan.recycles else { return };
        for gap in &recycles.before {
            pause(*gap);
            self.ask(started, RECYCLE, asked);
        }
        pause(recycles.then);
    }

    fn ask(&self, started: Started, ask: Ask, asked: &mut Asked) {
        // After a busy machine has held us up, two may be due at once.
        let least = match ask {
            _ if self.plan.occasion == Occasion::Twin => 0.0,
            Ask::Signal(signal) if is_stop(signal) => STOPS_APART_MS,
            Ask::Signal(_) | Ask::Expiry(_) | Ask::Command(_) => APART_MS,
        };
        let apart = asked.sent.last().map_or(0.0, |last| last.ms + least - self.now());
        pause(Duration::from_secs_f64(apart.max(0.0) / 1000.0));
        let began = self.now();
        let mut send = |pid, sent, signal| {
            let _ = sys::send(pid, sent);
            let ms = self.now();
            asked.sent.push(Sent { began, ms, signal });
        };
        match ask {
            Ask::Signal(signal) => send(started.init, signal, signal),
            // As if its time were over.
            Ask::Expiry(signal) => send(started.first, libc::SIGALRM, signal),
            Ask::Command(words) => {
                let name = format!("command-{}", asked.commands.len());
                // A hook may also be executed from outside of the container.
                let inside = (self.plan.is_pid_1 && !self.plan.variant.is_multiple_of(8)).then_some(started.init);
                let came = operator::run(words, self.dir.path(), &name, inside, self.plan.limit + PATIENCE);
                asked.commands.push(Commanded {
                    words,
                    began,
                    ended: self.now(),
                    came,
                });
            }
        }
    }

    /// The acts after t0, and how many milliseconds after it.
    fn acts(&self) -> Vec<(f64, Act)> {
        let plan = self.plan;
        let mut acts: Vec<(f64, Act)> = plan.more.iter().map(|(at, ask)| (*at as f64, Act::Ask(*ask))).collect();
        let recycles = plan.recycles.iter().flat_map(|recycles| &recycles.after);
        acts.extend(recycles.map(|at| (*at as f64, Act::Ask(RECYCLE))));
        let lasts = plan.lasts.as_secs_f64() * 1000.0;
        let onset = match plan.onset {
            Onset::Start => 0.0,
            Onset::Around(ms) => ms.max(0) as f64,
        };
        if let Onset::Around(0..) = plan.onset {
            acts.push((onset, Act::Begin));
        }
        acts.push((onset + lasts, Act::Stop));
        acts.sort_by(|one, other| one.0.total_cmp(&other.0));
        acts
    }

    /// How long an occasion is waited for: a virtual machine takes its time to start.
    fn occasion(&self) -> Duration {
        let is_slow = self.plan.behaviour == Behaviour::Sdk(Kind::Java);
        if is_slow { 4 * OCCASION } else { OCCASION }
    }

    fn wait_for_occasion(&self) {
        let noted = |word| {
            let found = || self.journal.read(self.epoch).iter().any(|note| note.word == word);
            wait_until(self.occasion(), found);
        };
        match self.plan.occasion {
            Occasion::Start => {}
            Occasion::Ack if self.plan.behaviour.is_sdk() => noted(Word::Ended),
            Occasion::Ack if self.plan.behaviour.is_exec() => {
                self.server
                    .wait(self.occasion(), |server| server.count(JobState::Completed) > 0);
            }
            Occasion::Ack if self.plan.behaviour != Behaviour::Python => noted(Word::Acked),
            Occasion::Idle => {
                let count = self.plan.jobs.len();
                self.server
                    .wait(self.occasion(), |server| server.count(JobState::Completed) == count);
            }
            _ => noted(Word::Took),
        }
        if self.plan.behaviour == Behaviour::Hangs && (self.plan.variant / 2).is_multiple_of(2) {
            noted(Word::Acting);
        }
        if self.plan.weather == Weather::Late {
            let has_come_again = |server: &Server| server.jobs().iter().any(|job| job.times_delivered > 1);
            self.server.wait(self.occasion(), has_come_again);
        }
        // A weather that begins before the end is asked for.
        if let Onset::Around(ms @ ..0) = self.plan.onset {
            weather::begin(&self.server, self.plan);
            pause(Duration::from_millis(ms.unsigned_abs()));
        }
    }

    /// Has the backend say terminate, and waits until a worker that it is for has heard it; `None`:
    /// there is none, or it was replaced meanwhile.
    fn direct(&self) -> Option<f64> {
        let directed = self.now();
        let mut workers = self.server.workers();
        workers.retain(|worker| worker != WITNESS);
        for worker in &workers {
            let _ = self.server.direct(worker, Directive::Terminate);
        }
        workers.first()?;
        // Where heartbeats may not say a state, the second one after the answer counts.
        let is_mute = self.plan.dialect == Dialect::Strict;
        let is_for = |event: &Event| event.worker.as_ref().is_some_and(|worker| workers.contains(worker));
        let says = |event: &Event| matches!(event.state.as_deref(), Some("terminate" | "terminated"));
        let shows = |event: &Event| if is_mute { is_whole(event) } else { says(event) };
        let is_beat = |event: &Event| event.operation == "heartbeat" && event.ms > directed && is_for(event);
        let has_heard = |server: &Server| server.events().iter().any(|event| is_beat(event) && shows(event));
        self.server.wait(self.occasion(), has_heard).then_some(directed)
    }
}
