//! One worker, one backend, and what is asked of the worker: played once, and what came of it.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ojs_devserver::{Dialect, Event, JobSnapshot, JobState, Options, Server};

use crate::sdk::{Kind, Proof};
use crate::support::namespace::{spawn, spawn_as_pid_1};
use crate::support::sys::{self, Ended};
use crate::support::temp::TempDir;
use crate::support::under_test;
use crate::support::wait::{pause, wait_for, wait_until};

/// Longest start of a worker on a busy machine.
const START: Duration = Duration::from_secs(30);

/// How often workers beat and look for jobs here.
pub const HEARTBEAT: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(100);

/// From the claim of the last job to the first signal.
const CLAIMED: Duration = Duration::from_millis(300);

/// After a signal, until what it brings about is looked at.
const HEARD: Duration = Duration::from_millis(400);

/// The short grace period.
pub const SHORT_GRACE: Duration = Duration::from_millis(1500);

/// The orchestrator's time from the signal to the end, where the grace period is the short one.
pub const SHORT_LIMIT: Duration = Duration::from_secs(8);

/// No worker is there longer, in seconds, whatever becomes of who started it: it would ask whoever
/// gets the port next.
const LIFE_S: u32 = 90;

/// The token that the backend wants to see of whoever comes through ojs-init.
const TOKEN: &str = "the-token-of-the-backend";

/// A job that is there until it is cut off.
const LONG: u64 = 60_000;

/// The init between the worker and the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Front {
    /// Nobody.
    Without,
    /// ojs-init as PID 1, in mode gateway.
    Gateway,
}

/// The request to the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plan {
    /// SIGTERM, with two jobs that end within the grace period.
    Terminated,
    /// SIGINT in place of SIGTERM.
    Interrupted,
    /// SIGTERM, with a job that does not end, and a short grace period.
    CutOff,
    /// SIGTERM, with a job of 27 s, and no grace period set.
    Usual,
    /// SIGTSTP, with a job that ends soon; then SIGCONT.
    Quieted,
    /// SIGTERM twice, with a job that does not end.
    Twice,
    /// SIGTERM, with a job whose last act is to enqueue another one.
    Enqueues,
}

impl Plan {
    /// How long its jobs take, in milliseconds.
    fn jobs(self) -> &'static [u64] {
        match self {
            Self::Terminated | Self::Interrupted => &[1200, 2600],
            Self::CutOff | Self::Twice => &[LONG],
            Self::Usual => &[27_000],
            Self::Quieted | Self::Enqueues => &[1500],
        }
    }

    /// A job as the body of an enqueue.
    fn body(self, ms: u64) -> String {
        match self {
            Self::Enqueues => format!(r#"{{"type":"enqueue","args":[{ms},"sleep",10]}}"#),
            Self::Terminated | Self::Interrupted | Self::CutOff | Self::Usual | Self::Quieted | Self::Twice => {
                sleep(ms)
            }
        }
    }

    /// The grace period that is set.
    fn grace(self) -> Option<Duration> {
        match self {
            Self::Terminated | Self::Interrupted | Self::Quieted | Self::Twice | Self::Enqueues => {
                Some(Duration::from_secs(12))
            }
            Self::CutOff => Some(SHORT_GRACE),
            Self::Usual => None,
        }
    }

    /// The time that the orchestrator allows from the first signal to its SIGKILL.
    fn limit(self) -> Duration {
        match self {
            Self::Terminated | Self::Interrupted | Self::Quieted | Self::Twice | Self::Enqueues => {
                Duration::from_secs(20)
            }
            Self::CutOff => SHORT_LIMIT,
            Self::Usual => Duration::from_secs(40),
        }
    }
}

/// The course of a run. Times are milliseconds on the clock of the backend's record.
#[derive(Debug)]
pub struct Story {
    pub events: Vec<Event>,
    /// The jobs that were there at the start.
    pub jobs: Vec<JobSnapshot>,
    /// The job that came when the worker was to take no more.
    pub late: Option<JobSnapshot>,
    /// The notes of the worker.
    pub notes: String,
    pub log: String,
    /// When which signal was sent.
    pub signals: Vec<f64>,
    /// The worker was there at the last of these signals.
    pub was_there: bool,
    /// `None`: it had to be killed.
    pub ended: Option<(f64, Ended)>,
    /// Status of the readiness probe while running and while quiet; `None`: nobody answers.
    pub readiness: [Option<u16>; 2],
}

/// Plays it.
pub fn play(kind: Kind, front: Front, plan: Plan, dir: &Path) -> Story {
    let server = Server::start(Options {
        dialect: Dialect::Go,
        heartbeat_timeout: Duration::from_secs(600),
        // Alone half of them would get nothing: their SDKs have no option for it.
        token: (front == Front::Gateway).then(|| TOKEN.to_owned()),
        ..Options::default()
    })
    .unwrap();
    let dir = TempDir::new(dir.to_owned()).unwrap();
    let jobs: Vec<String> = plan.jobs().iter().map(|ms| plan.body(*ms)).collect();
    server.enqueue_all(jobs.iter().map(String::as_str)).unwrap();
    let command = command(kind, front, plan, &server, dir.path());
    let pid = match front {
        Front::Without => spawn(command),
        Front::Gateway => spawn_as_pid_1(command),
    };
    let mut run = Run {
        plan,
        server,
        dir,
        pid,
        signals: Vec::new(),
        was_there: false,
        ended: None,
        readiness: [None; 2],
        late: None,
    };
    run.go();
    run.story()
}

impl Story {
    /// How many jobs came over HTTP.
    pub fn enqueued(&self) -> usize {
        let is_taken = |event: &&Event| event.operation == "enqueue" && event.status.is_some_and(|status| status < 300);
        self.events.iter().filter(is_taken).count()
    }

    /// All of it, for who has to find out what went wrong.
    pub fn tell(&self) -> String {
        let event = |event: &Event| {
            let said = event.state.as_deref().unwrap_or_default();
            format!(
                "{:9.1} {} {:?} {said} {:?}",
                event.ms, event.operation, event.status, event.jobs
            )
        };
        let events: Vec<String> = self.events.iter().map(event).collect();
        let jobs = self.jobs.iter().chain(&self.late);
        let jobs: Vec<String> = jobs
            .map(|job| format!("{} {:?} {:?}", job.id, job.state, job.errors))
            .collect();
        format!(
            "signals at {:?}, ended {:?}, there at the last signal: {}, readiness {:?}\n{}\n{}\nnotes:\n{}\nlog:\n{}",
            self.signals,
            self.ended,
            self.was_there,
            self.readiness,
            events.join("\n"),
            jobs.join("\n"),
            self.notes,
            self.log
        )
    }
}

/// Whether the worker runs a job that comes straight from a backend, in an answer of the
/// specification's type.
pub fn reads_the_type_of_the_specification(kind: Kind, dir: &Path) -> bool {
    let server = Server::start(Options::default()).unwrap();
    let dir = TempDir::new(dir.to_owned()).unwrap();
    let job = server.enqueue(&sleep(10)).unwrap();
    let mut command = command(kind, Front::Without, Plan::Terminated, &server, dir.path());
    command.env_remove("SDK_TAKES_ANY_TYPE");
    let pid = spawn(command);
    // A worker that has seen the job is done with it soon; one that has not asks for another one.
    let is_settled = |server: &Server| {
        let events = server.events();
        let gave = events
            .iter()
            .position(|event| event.operation == "fetch" && event.jobs.contains(&job));
        gave.is_some_and(|gave| events[gave + 1..].iter().any(|event| event.operation == "fetch"))
    };
    assert!(server.wait(START, is_settled), "it does not ask twice");
    let is_taken = wait_until(HEARD, || {
        let journal = std::fs::read_to_string(dir.path().join("journal")).unwrap_or_default();
        journal.contains(" took ")
    });
    let _ = sys::send(pid, libc::SIGKILL);
    let _ = sys::reap(pid, true);
    is_taken
}

/// The body of an enqueue.
pub fn sleep(ms: u64) -> String {
    format!(r#"{{"type":"sleep","args":[{ms}]}}"#)
}

/// How ojs-init knows the worker of this kind in this plan: each proof meets each plan.
/// `SDK_PROOF=uid` sets one for all.
fn proof(kind: Kind, plan: Plan) -> Proof {
    match std::env::var("SDK_PROOF") {
        Ok(name) => Proof::named(&name),
        Err(_) => Proof::ALL[(kind as usize + plan as usize) % Proof::ALL.len()],
    }
}

/// The command of the worker, as it is started for this plan.
pub fn command(kind: Kind, front: Front, plan: Plan, server: &Server, dir: &Path) -> Command {
    let mut words = kind.command();
    if front == Front::Gateway {
        let prefix = proof(kind, plan).prefix().iter().map(|&word| word.to_owned());
        words.splice(0..0, prefix.chain([under_test::init(), "--".to_owned()]));
    }
    let mut command = Command::new(words.remove(0));
    let millis = |duration: Duration| duration.as_millis().to_string();
    command
        .args(words)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("OJS_URL", server.url())
        .env("SDK_DIRECTORY", dir)
        .env("SDK_LIFE_S", LIFE_S.to_string())
        .env("SDK_POLL_MS", millis(POLL))
        .env("SDK_HEARTBEAT_MS", millis(HEARTBEAT))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(dir.join("log")).unwrap());
    match front {
        Front::Without => {
            // Otherwise it would get no job, which has a test of its own.
            command.env("SDK_TAKES_ANY_TYPE", "1");
            if let Some(grace) = plan.grace() {
                command.env("SDK_GRACE_MS", millis(grace));
            }
        }
        Front::Gateway => {
            let ms = |duration| format!("{}ms", millis(duration));
            command
                .env("OJS_MODE", "gateway")
                .env("OJS_AUTH_TOKEN", TOKEN)
                .env("OJS_RUNTIME_DIR", dir.join("run"))
                .env("OJS_HEALTH_LISTEN", "127.0.0.1:0")
                .env("OJS_HEARTBEAT_INTERVAL", ms(HEARTBEAT))
                .env("OJS_TERMINATION_GRACE_PERIOD", ms(plan.limit()))
                .env("OJS_LOG_FORMAT", "text");
            proof(kind, plan).tell(&mut command);
            if let Some(grace) = plan.grace() {
                command.env("OJS_SHUTDOWN_GRACE_PERIOD", ms(grace));
            }
        }
    }
    command
}

struct Run {
    plan: Plan,
    server: Server,
    dir: TempDir,
    pid: i32,
    signals: Vec<f64>,
    was_there: bool,
    ended: Option<(f64, Ended)>,
    readiness: [Option<u16>; 2],
    late: Option<String>,
}

impl Run {
    fn go(&mut self) {
        let count = self.plan.jobs().len();
        let is_claimed = |server: &Server| server.count(JobState::Active) == count;
        let is_taken = self.server.wait(START, is_claimed) && wait_until(START, || self.notes().contains(" took "));
        if is_taken {
            pause(CLAIMED);
            match self.plan {
                Plan::Terminated => self.end_with(libc::SIGTERM),
                Plan::Interrupted => self.end_with(libc::SIGINT),
                Plan::CutOff | Plan::Usual | Plan::Enqueues => self.signal(libc::SIGTERM),
                Plan::Quieted => self.quiet(),
                Plan::Twice => {
                    self.signal(libc::SIGTERM);
                    pause(HEARD);
                    self.signal(libc::SIGTERM);
                }
            }
            self.wait_for_the_end();
        }
        if self.ended.is_none() {
            let _ = sys::send(self.pid, libc::SIGKILL);
            let _ = sys::reap(self.pid, true);
        }
    }

    fn signal(&mut self, signal: i32) {
        self.was_there = self.ended().is_none();
        // Before it: whoever is busy may see what comes of it first.
        self.signals.push(self.server.now_ms());
        if self.was_there {
            let _ = sys::send(self.pid, signal);
        }
    }

    fn ended(&mut self) -> Option<(f64, Ended)> {
        if self.ended.is_none() {
            let ended = sys::reap(self.pid, false).ok().flatten();
            self.ended = ended.map(|ended| (self.server.now_ms(), ended));
        }
        self.ended
    }

    fn enqueue_late(&mut self) {
        self.late = Some(self.server.enqueue(&sleep(10)).unwrap());
    }

    fn end_with(&mut self, signal: i32) {
        self.signal(signal);
        // A FETCH of just before may be on its way.
        pause(HEARD);
        self.enqueue_late();
    }

    fn quiet(&mut self) {
        self.readiness[0] = self.readiness(200);
        self.signal(libc::SIGTSTP);
        pause(HEARD);
        self.enqueue_late();
        self.readiness[1] = self.readiness(503);
        let is_done = |server: &Server| server.count(JobState::Completed) == 1;
        self.server.wait(Duration::from_secs(4), is_done);
        pause(HEARD);
        self.signal(libc::SIGCONT);
        let is_all_done = |server: &Server| server.count(JobState::Completed) == 2;
        self.server.wait(Duration::from_secs(4), is_all_done);
        let _ = sys::send(self.pid, libc::SIGTERM);
    }

    /// The status of the readiness probe, once it is the wanted one, or after a while.
    fn readiness(&self, wanted: u16) -> Option<u16> {
        let log = self.log();
        let (_, rest) = log.split_once("listening for probes on ")?;
        let address: SocketAddr = rest.lines().next()?.parse().ok()?;
        let mut status = None;
        wait_until(Duration::from_secs(3), || {
            status = probe(address);
            status == Some(wanted)
        });
        status
    }

    fn wait_for_the_end(&mut self) {
        let patience = match self.plan {
            Plan::Terminated | Plan::Interrupted | Plan::Enqueues => Duration::from_secs(10),
            Plan::CutOff => SHORT_LIMIT,
            Plan::Usual => Duration::from_secs(34),
            Plan::Quieted | Plan::Twice => Duration::from_secs(5),
        };
        wait_for(patience, || self.ended());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn notes(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("journal")).unwrap_or_default()
    }

    fn story(self) -> Story {
        let late = self.late.as_ref().and_then(|id| self.server.job(id));
        let mut jobs = self.server.jobs();
        jobs.truncate(self.plan.jobs().len());
        Story {
            events: self.server.events(),
            jobs,
            late,
            notes: self.notes(),
            log: self.log(),
            signals: self.signals,
            was_there: self.was_there,
            ended: self.ended,
            readiness: self.readiness,
        }
    }
}

fn probe(address: SocketAddr) -> Option<u16> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.get(9..12)?.parse().ok()
}
