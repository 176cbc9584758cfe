//! One request to the backend and its answer, over a connection that is kept.
//!
//! Nothing here logs a header or a body: the one holds the token, the other the arguments of jobs.

use std::cell::Cell;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use ureq::http::{self, HeaderValue, Response};
use ureq::{Agent, AsSendBody, Body, SendBody};

use crate::config::{Header, Secret};
use crate::daemon::backend::connect::{Connect, Course};
use crate::daemon::backend::connect_words::{is_before_end_of_request, is_hang_up, reason, wants_tls};
use crate::daemon::backend::pool::{Heard, Ticket, Work};
use crate::daemon::backend::resolver::WithDeadline;
use crate::daemon::backend::settings::{LaneError, LaneSettings};
use crate::daemon::backend::tls;
use crate::daemon::backend::tls_words;
use crate::daemon::backend::token::{NoToken, TokenSource};
use crate::daemon::log::throttle::Throttle;
use crate::lifecycle::api::{AnswerSize, Call, Failure, Moment, Reply};
use crate::os::clock;
use crate::wire::backend::request::{self, Answer, Answered, CONTENT_TYPE, HttpRequest, Method, OJS_VERSION, Words};

/// Most bytes of an answer that we read, where nothing asks for more.
const USUAL_BODY_BYTES: u64 = 4 << 20;

/// Most bytes of an answer to a report that we read: its status says nearly all.
const REPORT_BODY_BYTES: u64 = 64 << 10;

/// Most bytes of an answer that we ever read. Jobs that are beyond it lapse.
const MOST_BODY_BYTES: u64 = 256 << 20;

/// What an answer may hold for each job besides its envelope, in bytes.
const BYTES_AROUND_ENVELOPE: u64 = 64 << 10;

/// Buffers of a connection, in bytes each. Answers have small headers; bodies only pass through.
const BUFFER_BYTES: usize = 32 << 10;

/// Longest address that is shown of where a redirect leads, in bytes.
const MOST_LOCATION_BYTES: usize = 200;

/// Longest wait for anything, so that no sum of times overflows.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What all lanes share.
#[derive(Debug)]
pub(in crate::daemon) struct BackendTarget {
    settings: LaneSettings,
    base: String,
    tls: Option<Arc<ClientConfig>>,
    token: TokenSource,
    complaints: Mutex<Throttle>,
}

impl BackendTarget {
    /// Reads the files that TLS needs.
    pub(in crate::daemon) fn new(settings: LaneSettings) -> Result<Self, LaneError> {
        let url = settings.backend.url.as_ref();
        let base = url.ok_or_else(|| LaneError("backend.url is not set".to_owned()))?;
        Ok(Self {
            base: base.as_str().to_owned(),
            tls: tls::config(&settings.backend)?,
            token: TokenSource::new(&settings.backend),
            complaints: Mutex::default(),
            settings,
        })
    }

    /// Says why there was no answer: for all lanes together one line in ten seconds.
    fn warn_throttled(&self, text: &str) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        complaints.warn(format_args!("backend {}: {text}", self.base));
    }
}

/// The work of one lane thread.
pub(in crate::daemon) struct Http {
    target: Arc<BackendTarget>,
    agent: Agent,
    course: Arc<Course>,
}

impl Http {
    pub(in crate::daemon) fn new(target: Arc<BackendTarget>) -> Self {
        let config = Agent::config_builder()
            // The backend is configured; no other variable may send our token elsewhere.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("ojs-init/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(target.settings.backend.connect_timeout))
            .max_response_header_size(BUFFER_BYTES)
            .input_buffer_size(BUFFER_BYTES)
            .output_buffer_size(BUFFER_BYTES)
            .max_idle_connections(1)
            .build();
        let course = Arc::new(Course::default());
        let connect = Connect::new(target.tls.clone(), Arc::clone(&course));
        Self {
            target,
            agent: Agent::with_parts(config, connect, WithDeadline),
            course,
        }
    }

    /// A backend may close a kept connection just when we use it again. Then a fresh one gets the request, if that can do
    /// no harm.
    fn exchange(&self, job: &Ticket, request: &HttpRequest) -> Result<Received, Trouble> {
        self.attempt(job, request).or_else(|trouble| {
            let is_harmless = trouble.failure == Failure::NotSent || job.call.endpoint().may_come_twice();
            if !(trouble.is_stale && is_harmless) {
                return Err(trouble);
            }
            log::debug!("backend: the kept connection was closed: {}", trouble.text);
            let first_was_sent = trouble.failure != Failure::NotSent;
            self.attempt(job, request).map(|received| Received {
                was_sent_twice: first_was_sent,
                ..received
            })
        })
    }

    fn attempt(&self, job: &Ticket, request: &HttpRequest) -> Result<Received, Trouble> {
        let unsent = |text: &str, failure| Trouble {
            text: text.to_owned(),
            failure,
            is_stale: false,
        };
        let not_sent = |text: &str| unsent(text, Failure::NotSent);
        let token = self.target.token.now();
        let token = token.map_err(|NoToken| unsent("there is no token for it", Failure::NoCredentials))?;
        let head = self.head(request, token.as_ref());
        let head = head.map_err(|error| not_sent(&format!("the request cannot be made: {error}")))?;
        // Last, because reading the token takes time too.
        let left = left(job);
        if left.is_zero() {
            return Err(not_sent("its time was over before it could be sent"));
        }
        let is_whole = Cell::new(false);
        let answered = match &request.body {
            Some(body) => {
                let mut body = SentBody {
                    rest: body,
                    is_whole: &is_whole,
                };
                self.run(head.map(|()| SendBody::from_reader(&mut body)), left)
            }
            None => self.run(head, left),
        };
        let is_whole = request.body.is_none() || is_whole.get();
        let response = answered.map_err(|error| self.trouble(&error, is_whole))?;
        Ok(received(
            response,
            body_limit(&job.call, self.target.settings.max_frame),
        ))
    }

    fn run(&self, request: http::Request<impl AsSendBody>, left: Duration) -> Result<Response<Body>, ureq::Error> {
        self.course.begin();
        let limited = self.agent.configure_request(request).timeout_global(Some(left));
        let answer = self.agent.run(limited.build());
        self.course.has_head();
        answer
    }

    /// What to do about such an answer, for the person who reads of it.
    fn advice(&self, reply: &Reply, received: &Received) -> String {
        let setting = &self.target.settings.url_setting;
        if self.target.tls.is_none() && wants_tls(received.status, &received.body) {
            return format!("; what listens there wants TLS: write https in {setting}");
        }
        match reply {
            Reply::Failed(Failure::Redirected) => {
                let location = received.location.as_deref();
                let to = location.and_then(shown).map_or(String::new(), |to| format!(" to {to}"));
                format!(", a redirect{to}, which is not followed; check the scheme and the path of {setting}")
            }
            Reply::Failed(Failure::NotFromBackend) => format!("; check {setting}, and what is in front of the backend"),
            Reply::Failed(_)
            | Reply::Registered { .. }
            | Reply::HeartbeatOk { .. }
            | Reply::Fetched(_)
            | Reply::Accepted
            | Reply::JobSeen(_)
            | Reply::Manifest(_) => String::new(),
        }
    }

    /// Why there is no answer to a request; `is_whole`: all of its body was taken from us.
    fn trouble(&self, error: &ureq::Error, is_whole: bool) -> Trouble {
        let refusal = tls_words::refusal(error, &self.target.settings.backend);
        let is_refused = refusal.as_ref().is_some_and(|refusal| refusal.is_certain) || self.course.has_no_connection();
        let is_sent = is_whole && !is_refused && !is_before_end_of_request(error);
        let is_new = self.course.is_on_new_connection();
        let is_https = self.target.tls.is_some();
        Trouble {
            text: refusal.map_or_else(|| reason(error, is_https, is_new), |refusal| refusal.text),
            failure: if is_sent { Failure::Unanswered } else { Failure::NotSent },
            is_stale: is_hang_up(error) && !is_new,
        }
    }

    /// Method, URL and headers. What the user set goes before what we would say, but for the token and the request's id.
    fn head(&self, request: &HttpRequest, token: Option<&Secret>) -> Result<http::Request<()>, http::Error> {
        let method = match request.method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Delete => http::Method::DELETE,
        };
        let backend = &self.target.settings.backend;
        let mut head = http::Request::builder()
            .method(method)
            .uri(format!("{}{}", self.target.base, request.path))
            .header("Accept", CONTENT_TYPE)
            .header("X-Request-Id", uuid::Uuid::now_v7().to_string());
        if let Some(body) = &request.body {
            head = head
                .header("Content-Type", CONTENT_TYPE)
                .header("Content-Length", body.len());
        }
        if !names(&backend.headers, "OJS-Version") {
            head = head.header("OJS-Version", OJS_VERSION);
        }
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))?;
            // No log of any library shows it.
            value.set_sensitive(true);
            head = head.header("Authorization", value);
        }
        let is_ours = |header: &&Header| {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            is("X-Request-Id") || (is("Authorization") && token.is_some())
        };
        for header in backend.headers.iter().filter(|header| !is_ours(header)) {
            let mut value = HeaderValue::try_from(&header.value)?;
            value.set_sensitive(true);
            head = head.header(&header.name, value);
        }
        head.body(())
    }
}

fn names(headers: &[Header], name: &str) -> bool {
    headers.iter().any(|header| header.name.eq_ignore_ascii_case(name))
}

impl Work for Http {
    fn carry_out(&mut self, job: &Ticket) -> (Reply, Heard) {
        let request = request::request(&job.call, &self.target.settings.identity);
        match self.exchange(job, &request) {
            Ok(received) => {
                let answered = Answered {
                    status: received.status,
                    retry_after: received.retry_after.as_deref(),
                    now: clock::since_1970(),
                    body: &received.body,
                    is_whole: received.is_whole,
                    was_sent_twice: received.was_sent_twice,
                };
                let Answer { reply, remark, words } = request::read(&job.call, answered);
                let words = words.and(&self.advice(&reply, &received));
                let status = format!("status {}", received.status);
                let says = words.failure.as_ref().unwrap_or(&status);
                log::debug!("backend: {} {}: {says}", request.method, request.path);
                if let Some(remark) = remark {
                    self.target.warn_throttled(&remark);
                }
                let status = Some(received.status);
                (reply, Heard { status, words })
            }
            Err(trouble) => {
                log::debug!("backend: {} {}: {}", request.method, request.path, trouble.text);
                let failure = Some(trouble.text).filter(|_| trouble.failure != Failure::NoCredentials);
                let words = Words {
                    failure,
                    ..Words::default()
                };
                (Reply::Failed(trouble.failure), Heard { status: None, words })
            }
        }
    }
}

/// Where a redirect leads, as far as a log may show it: what follows a `?` may be a secret, and so may a name before an `@`.
fn shown(location: &str) -> Option<String> {
    let path = location.split(['?', '#']).next().unwrap_or_default();
    let is_fit = !path.is_empty() && path.len() <= MOST_LOCATION_BYTES && !path.contains('@');
    is_fit.then(|| path.to_owned())
}

fn left(job: &Ticket) -> Duration {
    job.give_up.remaining(Moment::new(clock::monotonic())).min(LONGEST_WAIT)
}

/// A request's body that remembers whether all of it was taken: until then the backend cannot have got the request.
struct SentBody<'a> {
    rest: &'a [u8],
    is_whole: &'a Cell<bool>,
}

impl Read for SentBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(buffer)?;
        self.is_whole.set(self.rest.is_empty());
        Ok(count)
    }
}

/// Why there is no answer.
struct Trouble {
    /// For the log; never holds a header or a body.
    text: String,
    failure: Failure,
    /// The other side hung up on a connection that had served an earlier request.
    is_stale: bool,
}

/// An answer, as it came.
struct Received {
    status: u16,
    retry_after: Option<String>,
    location: Option<String>,
    /// The body, as much of it as came, at most the limit.
    body: Vec<u8>,
    /// Whether that is the whole body.
    is_whole: bool,
    was_sent_twice: bool,
}

fn received(mut response: Response<Body>, limit: u64) -> Received {
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let (retry_after, location) = (header("retry-after"), header("location"));
    let mut body = Vec::new();
    let end = response.body_mut().as_reader().take(limit).read_to_end(&mut body);
    if let Err(error) = &end {
        log::debug!("backend: an answer broke off after {} bytes: {error}", body.len());
    }
    let is_cut = u64::try_from(body.len()).is_ok_and(|length| length >= limit);
    Received {
        status: response.status().as_u16(),
        retry_after,
        location,
        body,
        is_whole: end.is_ok() && !is_cut,
        was_sent_twice: false,
    }
}

/// How many jobs an answer to this call may have: a look has the one that it is about.
fn most_jobs(call: &Call) -> u64 {
    if let Call::Fetch { count, .. } = call {
        u64::from(*count)
    } else {
        1
    }
}

/// Most bytes of an answer to this call.
fn body_limit(call: &Call, max_frame: u64) -> u64 {
    let jobs = match call.endpoint().answer() {
        AnswerSize::Jobs => most_jobs(call),
        AnswerSize::Fields => return USUAL_BODY_BYTES,
        // What the body of a refusal says.
        AnswerSize::Nothing => return REPORT_BODY_BYTES,
    };
    max_frame
        .saturating_add(BYTES_AROUND_ENVELOPE)
        .saturating_mul(jobs)
        .clamp(USUAL_BODY_BYTES, MOST_BODY_BYTES)
}
