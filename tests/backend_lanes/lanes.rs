//! Lanes with their answers at hand, one call of each kind, and what was logged meanwhile.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use ojs_init::config::{self, Environment, Flags};
use ojs_init::daemon::backend::lanes::{Heard, Lanes};
use ojs_init::daemon::backend::settings::LaneSettings;
use ojs_init::lifecycle::api::ids::{CallId, JobId, WorkerId};
use ojs_init::lifecycle::api::{
    Call, Failure, Farewell, FetchForm, HeartbeatForm, JobError, Moment, Progress, Reply, WorkerState,
};
use ojs_init::os::clock;
use ojs_init::wire::backend::request::Identity;

use crate::backend::{self, Endpoint};
use crate::support::wait;

/// Longest that any step of a test may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for an answer, short enough to wait for its absence.
pub const SHORT: Duration = Duration::from_millis(300);

/// How late a busy machine may make an answer.
pub const SLACK: Duration = Duration::from_secs(3);

pub const TOKEN: &str = "hunter2-token";

pub fn settings(url: &str) -> LaneSettings {
    let variables = [
        format!("OJS_URL={url}"),
        format!("OJS_AUTH_TOKEN={TOKEN}"),
        "OJS_INIT_HEADERS=X-OJS-Tenant: acme\nX-Api-Key: hunter2-key".to_owned(),
    ];
    let environment = Environment::from_entries(variables.iter().map(String::as_bytes));
    LaneSettings {
        backend: config::load(&Flags::default(), &environment).unwrap().backend,
        url_setting: format!("backend.url = {url} (OJS_URL)"),
        identity: Identity {
            hostname: "host".to_owned(),
            pid: 1,
            queues: vec!["default".to_owned()],
            concurrency: 4,
            labels: Vec::new(),
            started_at: "2026-01-02T03:04:05Z".to_owned(),
        },
        max_frame: 4 << 20,
    }
}

/// Lanes and their answers.
pub struct Rig {
    pub lanes: Lanes,
    pub answers: Receiver<(u64, Reply, Instant)>,
    heard: Receiver<Heard>,
    sent: u64,
}

impl Rig {
    pub fn new(settings: LaneSettings) -> Self {
        record_log();
        let (sender, answers) = channel();
        let (listener, heard) = channel();
        let answer = move |id: CallId, reply, words| {
            let _ = listener.send(words);
            // A test that is over needs no answers.
            let _ = sender.send((id.0, reply, wait::now()));
        };
        Self {
            lanes: Lanes::start(settings, answer).unwrap(),
            answers,
            heard,
            sent: 0,
        }
    }

    pub fn of(backend: &backend::Backend) -> Self {
        Self::new(settings(&backend.url()))
    }

    pub fn send(&mut self, call: Call, patience: Duration) -> u64 {
        self.sent += 1;
        let give_up = Moment::new(clock::monotonic()).after(patience);
        self.lanes.send(CallId(self.sent), call, give_up);
        self.sent
    }

    /// The next answer.
    pub fn next(&self) -> (u64, Reply) {
        let (id, reply, _) = self.answers.recv_timeout(PATIENCE).unwrap();
        (id, reply)
    }

    /// The answer to a call when nothing else is under way.
    pub fn ask(&mut self, call: Call) -> Reply {
        let id = self.send(call, PATIENCE);
        let (answered, reply) = self.next();
        assert_eq!(answered, id);
        reply
    }

    /// The same, with what it says to a person.
    pub fn hear(&mut self, call: Call) -> (Reply, Heard) {
        while self.heard.try_recv().is_ok() {}
        let reply = self.ask(call);
        (reply, self.heard.recv_timeout(PATIENCE).unwrap())
    }

    /// The answers to everything that was sent and not answered yet, by id.
    pub fn rest(&self, count: usize) -> BTreeMap<u64, Reply> {
        let answers: BTreeMap<u64, Reply> = (0..count).map(|_| self.next()).collect();
        assert_eq!(answers.len(), count, "a call was answered twice");
        assert!(self.answers.try_recv().is_err(), "more answers than calls");
        answers
    }
}

pub fn worker() -> WorkerId {
    WorkerId("w-1".into())
}

pub fn job(id: &str) -> JobId {
    JobId(id.into())
}

pub fn fetch(count: u32) -> Call {
    Call::Fetch {
        worker: worker(),
        count,
        visibility: Duration::from_secs(120),
        form: FetchForm::Full,
    }
}

pub fn beat() -> Call {
    Call::Heartbeat {
        worker: worker(),
        state: WorkerState::Running,
        active: vec![job("a")],
        visibility: Duration::from_secs(120),
        form: HeartbeatForm::Full,
    }
}

pub fn ack(id: &str) -> Call {
    Call::Ack {
        worker: worker(),
        job: job(id),
        result: Some(r#"{"secret":"result"}"#.into()),
        is_bare: false,
    }
}

/// An ACK with a result of about so many bytes.
pub fn large_ack(bytes: usize) -> Call {
    Call::Ack {
        worker: worker(),
        job: job("a"),
        result: Some(format!("\"{}\"", "x".repeat(bytes)).into()),
        is_bare: false,
    }
}

pub fn fail(id: &str) -> Call {
    Call::Fail {
        worker: worker(),
        job: job(id),
        error: JobError {
            code: None,
            kind: None,
            message: "it broke".into(),
            retryable: true,
            details: None,
            backtrace: None,
        },
        is_bare: false,
    }
}

pub fn requeue(id: &str) -> Call {
    Call::Requeue {
        worker: worker(),
        job: job(id),
        reason: "surplus".into(),
    }
}

pub fn look(id: &str) -> Call {
    Call::GetJob { job: job(id) }
}

pub fn progress(id: &str) -> Call {
    Call::Progress {
        job: job(id),
        progress: Progress {
            fraction: "0.5".into(),
            message: None,
            data: None,
        },
    }
}

pub fn checkpoint(id: &str) -> Call {
    Call::Checkpoint {
        job: job(id),
        state: "[1]".into(),
    }
}

pub fn register() -> Call {
    Call::Register { worker: worker() }
}

pub fn deregister() -> Call {
    Call::Deregister {
        worker: worker(),
        way: Farewell::Full,
    }
}

pub fn one_of_each() -> Vec<(Endpoint, Call)> {
    vec![
        (Endpoint::Register, register()),
        (Endpoint::Heartbeat, beat()),
        (Endpoint::Fetch, fetch(1)),
        (Endpoint::Ack, ack("a")),
        (Endpoint::Nack, fail("a")),
        (Endpoint::Nack, requeue("a")),
        (Endpoint::Job, look("a")),
        (Endpoint::Progress, progress("a")),
        (Endpoint::Checkpoint, checkpoint("a")),
        (Endpoint::Deregister, deregister()),
    ]
}

pub fn failed(failure: Failure) -> Reply {
    Reply::Failed(failure)
}

/// Whether there is a line with all these words, from this byte of the log on; other tests log too. What a request met is
/// told at level debug here: the lifecycle decides what of it is worth a warning.
pub fn is_logged(since: usize, words: &[&str]) -> bool {
    let log = LOG.lock().unwrap();
    log.lines()
        .filter(|line| words.iter().all(|word| line.contains(word)))
        .any(|line| line.as_ptr() as usize - log.as_ptr() as usize >= since)
}

/// How much was logged until now, in bytes.
pub fn logged() -> usize {
    LOG.lock().unwrap().len()
}

/// Everything that we logged in this process. What dependencies log, the token among it, is dropped by `daemon::log`.
pub static LOG: Mutex<String> = Mutex::new(String::new());

struct Recorder;

impl log::Log for Recorder {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("ojs_init")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut log = LOG.lock().unwrap();
            log.push_str(&format!("{} {}: {}\n", record.level(), record.target(), record.args()));
        }
    }

    fn flush(&self) {}
}

fn record_log() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        log::set_logger(&Recorder).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}
