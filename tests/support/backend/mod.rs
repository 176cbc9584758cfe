//! A backend in the test's own process: jobs in memory, HTTP/1.1 on a port of 127.0.0.1, and a
//! switch for everything that a real one does wrong.
//!
//! A test fills it with [`Backend::enqueue`], breaks it with [`Backend::always`] and
//! [`Backend::once`], waits with [`Backend::wait_for`] and looks at [`Backend::records`] and
//! [`Backend::outcomes`]. It speaks like the Go backends.

mod http;
mod jobs;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::wait;
pub use http::Request;
use http::Response;
use jobs::Jobs;
pub use jobs::Outcome;

/// One thing that a worker can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    Register,
    Deregister,
    Heartbeat,
    Fetch,
    Ack,
    Nack,
    Job,
    Progress,
    Checkpoint,
    /// A path that no backend has.
    Other,
}

/// Reactions of an endpoint to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// The usual one.
    Normal,
    /// Nothing at all, and no answer.
    Hang,
    /// The usual one, and an answer when [`Backend::answer_held`] says so.
    Held,
    /// As normal, but this much later.
    Delay(Duration),
    /// Nothing, and an answer of this status with this body and these headers.
    Answer(u16, String, Vec<(&'static str, String)>),
    /// The usual one, but the answer breaks off in the middle of its body.
    Truncate,
    /// The usual one, but the connection is closed instead of an answer.
    LoseReply,
    /// Nothing, and the connection is closed instead of an answer.
    Close,
}

impl Behaviour {
    /// This status and nothing else.
    pub fn status(status: u16) -> Self {
        Self::Answer(status, String::new(), Vec::new())
    }

    /// 200 with this body, whatever it is.
    pub fn body(body: impl Into<String>) -> Self {
        Self::Answer(200, body.into(), Vec::new())
    }
}

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Record {
    /// When it was read to its end.
    pub at: Instant,
    /// The operation that it asks for.
    pub endpoint: Endpoint,
    /// Which connection it came on, from 1.
    pub connection: u64,
    /// The whole of it.
    pub request: Request,
}

impl Record {
    /// The id of the job that it is about.
    pub fn job(&self) -> Option<String> {
        let in_path = Some(job_in(&self.request.path)).filter(|id| !id.is_empty());
        in_path.map(str::to_owned).or_else(|| self.text("job_id"))
    }

    /// A field of the body that is a string.
    pub fn text(&self, field: &str) -> Option<String> {
        Some(self.json().get(field)?.as_str()?.to_owned())
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.request.body).unwrap_or_default()
    }
}

/// A running backend; dropping it closes its connections and ends its threads.
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Jobs,
    records: Vec<Record>,
    always: BTreeMap<Endpoint, Behaviour>,
    once: BTreeMap<Endpoint, VecDeque<Behaviour>>,
    /// `state` and `directive` of the answer to a heartbeat.
    directive: (String, String),
    connections: u64,
    open: Vec<TcpStream>,
    /// How often held answers were let go.
    let_go: u64,
    is_listening: bool,
    is_over: bool,
}

impl Backend {
    /// Starts one on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let backend = Self {
            address: listener.local_addr().unwrap(),
            shared: Arc::default(),
        };
        backend.direct("active", "continue");
        backend.listen(listener);
        backend
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a job available, exactly as it is spelled; it must be JSON with an id.
    pub fn enqueue(&self, envelope: &str) {
        self.lock().jobs.enqueue(envelope);
    }

    /// Cancels a job, active or not.
    pub fn cancel(&self, job: &str) {
        self.lock().jobs.cancel(job);
    }

    /// From here on a job is reserved for this long after its hand-out, and after each heartbeat of
    /// its worker that names it; then it is available again.
    pub fn reserve_for(&self, reservation: Duration) {
        self.lock().jobs.reserve_for(reservation);
    }

    /// From here on so many jobs are active at most, whatever the workers ask for.
    pub fn limit_active(&self, most: usize) {
        self.lock().jobs.limit_active(most);
    }

    /// Makes a job that failed available again, as another attempt.
    pub fn retry(&self, job: &str) {
        self.lock().jobs.retry(job);
    }

    /// From here on the endpoint behaves like this.
    pub fn always(&self, endpoint: Endpoint, behaviour: Behaviour) {
        self.lock().always.insert(endpoint, behaviour);
        self.shared.changed.notify_all();
    }

    /// The next request to the endpoint that has no other such order gets this.
    pub fn once(&self, endpoint: Endpoint, behaviour: Behaviour) {
        self.lock().once.entry(endpoint).or_default().push_back(behaviour);
    }

    /// Lets every answer go that is held.
    pub fn answer_held(&self) {
        self.lock().let_go += 1;
        self.shared.changed.notify_all();
    }

    /// How often a job was handed out.
    pub fn handed_out(&self, job: &str) -> usize {
        self.lock().jobs.handed_out(job)
    }

    /// Sets the answer to heartbeats from here on.
    pub fn direct(&self, state: &str, directive: &str) {
        self.lock().directive = (state.to_owned(), directive.to_owned());
    }

    /// Every request so far.
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.clone()
    }

    /// Every request so far to this endpoint.
    pub fn records_of(&self, endpoint: Endpoint) -> Vec<Record> {
        let of_it = |record: &Record| record.endpoint == endpoint;
        self.records().into_iter().filter(of_it).collect()
    }

    /// Waits until the requests so far satisfy somebody; panics with them when `patience` is over
    /// first.
    pub fn wait_for(&self, what: &str, patience: Duration, condition: impl Fn(&[Record]) -> bool) {
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.lock(), patience, |state| !condition(&state.records));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_late = timeout.timed_out() && !condition(&state.records);
        assert!(!is_late, "{what}: not within {patience:?}: {:#?}", state.records);
    }

    /// Waits for that many requests to an endpoint.
    pub fn wait_for_count(&self, endpoint: Endpoint, count: usize, patience: Duration) {
        let what = format!("{count} requests to {endpoint:?}");
        self.wait_for(&what, patience, |records| {
            records.iter().filter(|record| record.endpoint == endpoint).count() >= count
        });
    }

    /// The outcomes of each job so far, in the order in which they were said.
    pub fn outcomes(&self) -> BTreeMap<String, Vec<Outcome>> {
        self.lock().jobs.outcomes()
    }

    /// Panics unless each job that was handed out has exactly one outcome since then; those that
    /// came back have one for each time.
    pub fn assert_one_outcome_each(&self) {
        let wrong = self.lock().jobs.without_exactly_one_outcome();
        assert!(wrong.is_empty(), "hand-outs and outcomes of jobs: {wrong:#?}");
    }

    /// Most jobs that were ever active at the same time.
    pub fn most_active(&self) -> usize {
        self.lock().jobs.most_active()
    }

    /// Closes the port and every connection: from here on connections are refused.
    pub fn refuse_connections(&self) {
        self.lock().is_listening = false;
        self.drop_connections();
        // The listening thread looks when somebody comes.
        let _ = TcpStream::connect(self.address);
        let gone = wait::wait_until(Duration::from_secs(20), || TcpStream::connect(self.address).is_err());
        assert!(gone, "the port stays open");
    }

    /// Opens the port again.
    pub fn accept_connections(&self) {
        let bound = wait::wait_for(Duration::from_secs(20), || TcpListener::bind(self.address).ok());
        self.listen(bound.unwrap());
    }

    /// Closes every connection that is open, as a restart or an impatient proxy does.
    pub fn drop_connections(&self) {
        for stream in self.lock().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    fn listen(&self, listener: TcpListener) {
        self.lock().is_listening = true;
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut state = shared.lock();
                if !state.is_listening {
                    return;
                }
                let Ok(stream) = stream else { continue };
                state.connections += 1;
                let number = state.connections;
                state.open.extend(stream.try_clone());
                let shared = Arc::clone(&shared);
                // A connection that breaks is the other side's business.
                thread::spawn(move || shared.serve(stream, number).ok());
            }
        });
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.is_over = true;
        state.is_listening = false;
        drop(state);
        self.shared.changed.notify_all();
        self.drop_connections();
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One connection, request after request.
    fn serve(&self, stream: TcpStream, connection: u64) -> io::Result<()> {
        let mut channel = http::Channel::new(stream);
        while let Some(request) = channel.read()? {
            let endpoint = endpoint(&request);
            let (behaviour, before) = self.record(endpoint, connection, &request);
            match behaviour {
                Behaviour::Normal => channel.write(&self.answer(endpoint, &request))?,
                Behaviour::Held => {
                    let answer = self.answer(endpoint, &request);
                    let is_held = |state: &mut State| !state.is_over && state.let_go == before;
                    drop(self.changed.wait_while(self.lock(), is_held));
                    channel.write(&answer)?;
                }
                Behaviour::Delay(delay) => {
                    wait::pause(delay);
                    channel.write(&self.answer(endpoint, &request))?;
                }
                Behaviour::Answer(status, body, headers) => channel.write(&Response { status, body, headers })?,
                Behaviour::Truncate => return channel.write_half(&self.answer(endpoint, &request)),
                Behaviour::LoseReply => {
                    self.answer(endpoint, &request);
                    return channel.close();
                }
                Behaviour::Close => return channel.close(),
                Behaviour::Hang => {
                    let state = self.lock();
                    drop(self.changed.wait_while(state, |state| !state.is_over));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The reaction to the request, and how often held answers were let go before it: whoever has
    /// seen it may let it go at once.
    fn record(&self, endpoint: Endpoint, connection: u64, request: &Request) -> (Behaviour, u64) {
        let mut state = self.lock();
        state.records.push(Record {
            at: wait::now(),
            endpoint,
            connection,
            request: request.clone(),
        });
        let once = state.once.get_mut(&endpoint).and_then(VecDeque::pop_front);
        let behaviour = once.or_else(|| state.always.get(&endpoint).cloned());
        self.changed.notify_all();
        (behaviour.unwrap_or(Behaviour::Normal), state.let_go)
    }

    fn answer(&self, endpoint: Endpoint, request: &Request) -> Response {
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut state = self.lock();
        let (job_state, directive) = state.directive.clone();
        let answer = match endpoint {
            Endpoint::Register | Endpoint::Deregister => Response::ok(r#"{"ok":true}"#.to_owned()),
            Endpoint::Heartbeat => state.jobs.heartbeat(&body, &job_state, &directive),
            Endpoint::Fetch => state.jobs.fetch(&body),
            Endpoint::Ack => state.jobs.ack(&body),
            Endpoint::Nack => state.jobs.nack(&body),
            Endpoint::Job => state.jobs.show(job_in(&request.path)),
            Endpoint::Progress => Response::ok("{}".to_owned()),
            Endpoint::Checkpoint => state.jobs.checkpoint(job_in(&request.path), &body),
            Endpoint::Other => Response::error(404, "not_found", "null"),
        };
        self.changed.notify_all();
        answer
    }
}

/// The id in a path below `jobs`; empty in any other.
fn job_in(path: &str) -> &str {
    let below = path.strip_prefix("/ojs/v1/jobs/").unwrap_or_default();
    below.split('/').next().unwrap_or_default()
}

fn endpoint(request: &Request) -> Endpoint {
    let below = request.path.strip_prefix("/ojs/v1/").unwrap_or_default();
    match (request.method.as_str(), below) {
        ("POST", "workers/register") => Endpoint::Register,
        ("POST", "workers/deregister") => Endpoint::Deregister,
        ("POST", "workers/heartbeat") => Endpoint::Heartbeat,
        ("POST", "workers/fetch") => Endpoint::Fetch,
        ("POST", "workers/ack") => Endpoint::Ack,
        ("POST", "workers/nack") => Endpoint::Nack,
        ("PUT", path) if path.starts_with("jobs/") && path.ends_with("/progress") => Endpoint::Progress,
        ("POST", path) if path.starts_with("jobs/") && path.ends_with("/checkpoint") => Endpoint::Checkpoint,
        ("GET", path) if path.starts_with("jobs/") => Endpoint::Job,
        _ => Endpoint::Other,
    }
}
