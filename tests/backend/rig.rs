//! A loop of its own for the requests to a backend, with their answers at hand; one call of each
//! kind; and what was logged meanwhile.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use ojs_init::config::{self, Environment, Flags};
use ojs_init::daemon::backend::client::{Backend, BackendSays, Heard};
use ojs_init::daemon::backend::settings::BackendSettings;
use ojs_init::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::{
    Call, CallId, Failure, Farewell, FetchForm, HeartbeatForm, JobError, JobId, Moment, Outcome, Progress, Reply,
    StreamNews, Takes, WorkerId, WorkerState,
};
use ojs_os::clock;
use ojs_wire::backend::request::Identity;

use crate::backend::{self, Endpoint};
use crate::support::wait;

/// Longest that any step of a test may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for an answer, short enough to wait for its absence.
pub const SHORT: Duration = Duration::from_millis(300);

/// How late a busy machine may make an answer.
pub const SLACK: Duration = Duration::from_secs(3);

pub const TOKEN: &str = "hunter2-token";

pub fn settings(url: &str) -> BackendSettings {
    let variables = [
        format!("OJS_URL={url}"),
        format!("OJS_AUTH_TOKEN={TOKEN}"),
        "OJS_INIT_HEADERS=X-OJS-Tenant: acme\nX-Api-Key: hunter2-key".to_owned(),
    ];
    let environment = Environment::from_entries(variables.iter().map(String::as_bytes));
    BackendSettings {
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

/// Words to the loop of a rig.
enum Told {
    Send(CallId, Call, Moment, bool),
    Abandon(CallId),
    /// The loop stands still, after a turn, until the other end is dropped.
    StandStill(Receiver<()>),
}

/// A loop and its answers. It ends when it is dropped.
pub struct Rig {
    pub answers: Receiver<(u64, Reply, Instant)>,
    /// News of streams.
    pub news: Receiver<(u64, StreamNews)>,
    heard: Receiver<Heard>,
    sent: u64,
    told: Option<Sender<Told>>,
    waker: Arc<Waker>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Tokens of the poll that stand for no part of the product in this loop.
const TOLD: Token = Token(usize::MAX / 2);

/// As the loop of the agent does it: what the kernel tells, a turn, what is asked, a turn.
struct Loop {
    poll: Poll,
    backend: Backend,
    told: Receiver<Told>,
    sender: Sender<(u64, Reply, Instant)>,
    listener: Sender<Heard>,
    news: Sender<(u64, StreamNews)>,
    held_by: Option<Receiver<()>>,
    polled_at: Moment,
}

impl Loop {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            let now = Moment::new(clock::monotonic());
            let timeout = self.backend.next_deadline().map(|due| due.remaining(now));
            let timeout = if self.backend.has_more() {
                Some(Duration::ZERO)
            } else {
                timeout
            };
            self.polled_at = now;
            if let Err(error) = self.poll.poll(&mut events, timeout) {
                assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
                continue;
            }
            let mut is_told = false;
            for event in &events {
                is_told |= event.token() == TOLD;
                if let TokenOwner::Backend(slot) = TokenOwner::of(event.token()) {
                    self.backend.is_ready(slot, event);
                }
            }
            self.turn();
            // Only now: then everything is known that was so before the test told us.
            if is_told && !self.listen() {
                return;
            }
            self.turn();
            if let Some(held_by) = self.held_by.take() {
                let _ = held_by.recv();
            }
        }
    }

    /// Does what the test wants; false: it wants nothing any more.
    fn listen(&mut self) -> bool {
        loop {
            match self.told.try_recv() {
                Ok(Told::Send(id, call, give_up, is_again)) => self.backend.send(id, call, give_up, is_again),
                Ok(Told::Abandon(id)) => self.backend.abandon(id),
                Ok(Told::StandStill(held_by)) => self.held_by = Some(held_by),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn turn(&mut self) {
        let Self {
            poll,
            backend,
            sender,
            listener,
            news,
            polled_at,
            ..
        } = self;
        // A test that is over needs no answers.
        backend.turn(
            poll.registry(),
            Moment::new(clock::monotonic()),
            *polled_at,
            |id, says| match says {
                BackendSays::Answer(reply, heard) => {
                    let _ = listener.send(heard);
                    let _ = sender.send((id.0, reply, wait::now()));
                }
                BackendSays::News(told) => {
                    let _ = news.send((id.0, told));
                }
            },
        );
    }
}

impl Rig {
    pub fn new(settings: BackendSettings) -> Self {
        record_log();
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), TOLD).unwrap());
        let backend = Backend::start(settings, Arc::clone(&waker)).unwrap();
        let (sender, answers) = channel();
        let (listener, heard) = channel();
        let (news, told_by_streams) = channel();
        let (teller, told) = channel();
        let looping = Loop {
            poll,
            backend,
            told,
            sender,
            listener,
            news,
            held_by: None,
            polled_at: Moment::new(clock::monotonic()),
        };
        Self {
            answers,
            news: told_by_streams,
            heard,
            sent: 0,
            told: Some(teller),
            waker,
            thread: Some(thread::spawn(move || looping.run())),
        }
    }

    pub fn of(backend: &backend::Backend) -> Self {
        Self::new(settings(&backend.url()))
    }

    pub fn send(&mut self, call: Call, patience: Duration) -> u64 {
        self.send_one(call, Moment::new(clock::monotonic()).after(patience), false)
    }

    /// Sends the call so many times; nobody waits for any of them longer than for another.
    pub fn send_many(&mut self, count: usize, call: &Call, patience: Duration) {
        let give_up = Moment::new(clock::monotonic()).after(patience);
        for _ in 0..count {
            self.send_one(call.clone(), give_up, false);
        }
    }

    /// Sends the call once more, while the first one hangs.
    pub fn send_again(&mut self, call: Call) -> u64 {
        self.send_one(call, Moment::new(clock::monotonic()).after(PATIENCE), true)
    }

    fn send_one(&mut self, call: Call, give_up: Moment, is_again: bool) -> u64 {
        self.sent += 1;
        self.tell(Told::Send(CallId(self.sent), call, give_up, is_again));
        self.sent
    }

    /// Nobody waits for this answer any more.
    pub fn abandon(&self, id: u64) {
        self.tell(Told::Abandon(CallId(id)));
    }

    /// The loop makes no turn any more until what this returns is dropped.
    pub fn stand_still(&self) -> Sender<()> {
        let (holder, held_by) = channel();
        self.tell(Told::StandStill(held_by));
        holder
    }

    fn tell(&self, told: Told) {
        self.told.as_ref().unwrap().send(told).unwrap();
        self.waker.wake().unwrap();
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

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.told.take());
        let _ = self.waker.wake();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking(), "the loop panicked");
    }
}

/// The error of a start; none if it works.
pub fn start_error(settings: BackendSettings) -> Option<String> {
    let poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), TOLD).unwrap();
    let error = Backend::start(settings, Arc::new(waker)).err();
    error.map(|error| error.to_string())
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
        queues: None,
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
        takes: Takes::default(),
        form: HeartbeatForm::Full,
    }
}

pub fn ack(id: &str) -> Call {
    Call::Report {
        worker: worker(),
        job: job(id),
        outcome: Outcome::Acked {
            result: Some(r#"{"secret":"result"}"#.into()),
        },
        is_bare: false,
    }
}

/// An ACK with a result of about so many bytes.
pub fn large_ack(bytes: usize) -> Call {
    Call::Report {
        worker: worker(),
        job: job("a"),
        outcome: Outcome::Acked {
            result: Some(format!("\"{}\"", "x".repeat(bytes)).into()),
        },
        is_bare: false,
    }
}

pub fn fail(id: &str) -> Call {
    Call::Report {
        worker: worker(),
        job: job(id),
        outcome: Outcome::Failed {
            error: JobError::new("it broke"),
        },
        is_bare: false,
    }
}

pub fn requeue(id: &str) -> Call {
    Call::Report {
        worker: worker(),
        job: job(id),
        outcome: Outcome::Requeued {
            reason: "surplus".into(),
            after: Duration::ZERO,
        },
        is_bare: false,
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
    Call::Register {
        worker: worker(),
        takes: Takes::default(),
    }
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

/// Whether there is a line with all these words, from this byte of the log on; other tests log too.
/// What a request met is told at level debug here: the lifecycle decides what of it is worth a
/// warning.
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

/// The part of the log since then.
pub fn logged_since(since: usize) -> String {
    LOG.lock().unwrap()[since..].to_owned()
}

/// Everything that we logged in this process. What dependencies log, the token among it, is dropped
/// by `daemon::log`.
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
