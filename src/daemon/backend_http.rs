//! One request to the backend and its answer, over a connection that is kept.
//!
//! Nothing here logs a header or a body: the one holds the token, the other the arguments of jobs.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::http::{self, Response};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, AsSendBody, Body, SendBody};

use super::backend_lanes::{LaneError, LaneSettings};
use super::lane_pool::{Job, Work};
use super::resolver::WithDeadline;
use crate::config::{Backend, Header, Secret};
use crate::lifecycle::effect::Call;
use crate::lifecycle::event::{Failure, Reply};
use crate::lifecycle::time::Moment;
use crate::os::clock;
use crate::wire::backend::{self, Answered, CONTENT_TYPE, Method, OJS_VERSION, Request};

/// Most bytes of an answer that we read, where nothing asks for more.
const USUAL_BODY_BYTES: u64 = 4 << 20;

/// Most bytes of an answer that we ever read. Jobs that are beyond it lapse.
const MOST_BODY_BYTES: u64 = 256 << 20;

/// What an answer may hold for each job besides its envelope, in bytes.
const BYTES_AROUND_ENVELOPE: u64 = 64 << 10;

/// Largest token file, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;

/// Largest PEM file, in bytes: a bundle of every public root is a quarter of it.
const MAX_PEM_FILE_BYTES: u64 = 1 << 20;

/// Buffers of a connection, in bytes each. Answers have small headers; bodies only pass through.
const BUFFER_BYTES: usize = 32 << 10;

/// Longest wait for anything, so that no sum of times overflows.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What all lanes share.
#[derive(Debug)]
pub(super) struct Target {
    settings: LaneSettings,
    base: String,
    tls: TlsConfig,
}

impl Target {
    /// Reads the files that TLS needs.
    pub(super) fn new(settings: LaneSettings) -> Result<Self, LaneError> {
        let url = settings.backend.url.as_ref();
        let base = url.ok_or_else(|| LaneError("backend.url is not set".to_owned()))?;
        Ok(Self {
            base: base.as_str().to_owned(),
            tls: tls(&settings.backend)?,
            settings,
        })
    }
}

fn tls(backend: &Backend) -> Result<TlsConfig, LaneError> {
    let mut tls = TlsConfig::builder();
    if let Some(path) = &backend.ca_file {
        let (certificates, _) = pem("backend.ca_file", path)?;
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
    }
    if let (Some(cert_file), Some(key_file)) = (&backend.cert_file, &backend.key_file) {
        let (chain, _) = pem("backend.cert_file", cert_file)?;
        let (_, key) = pem("backend.key_file", key_file)?;
        let key = key.ok_or_else(|| missing("backend.key_file", key_file, "private key"))?;
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(tls.build())
}

/// The certificates and the first key of a PEM file. A file for certificates must have one.
fn pem(setting: &str, path: &Path) -> Result<(Vec<Certificate<'static>>, Option<PrivateKey<'static>>), LaneError> {
    let text = read_bounded(path, MAX_PEM_FILE_BYTES).map_err(|error| unreadable(setting, path, &error.to_string()))?;
    let (mut certificates, mut key) = (Vec::new(), None);
    for item in parse_pem(&text) {
        match item.map_err(|error| unreadable(setting, path, &error.to_string()))? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            PemItem::PrivateKey(private) => key = key.or(Some(private)),
            _ => {}
        }
    }
    if certificates.is_empty() && !setting.ends_with("key_file") {
        return Err(missing(setting, path, "certificate"));
    }
    Ok((certificates, key))
}

fn unreadable(setting: &str, path: &Path, error: &str) -> LaneError {
    LaneError(format!("{setting} = {}: cannot be read: {error}", path.display()))
}

fn missing(setting: &str, path: &Path, what: &str) -> LaneError {
    LaneError(format!("{setting} = {}: holds no {what} in PEM form", path.display()))
}

fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The work of one lane thread.
pub(super) struct Http {
    target: Arc<Target>,
    agent: Agent,
}

impl Http {
    pub(super) fn new(target: Arc<Target>) -> Self {
        let config = Agent::config_builder()
            .tls_config(target.tls.clone())
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
        let connector = ureq::unversioned::transport::DefaultConnector::default();
        let agent = Agent::with_parts(config, connector, WithDeadline);
        Self { target, agent }
    }

    fn exchange(&self, job: &Job, request: &Request) -> Result<Received, Trouble> {
        let trouble = |error: &dyn std::fmt::Display, failure| Trouble {
            text: error.to_string(),
            failure,
        };
        let head = self.head(request).map_err(|error| trouble(&error, Failure::NotSent))?;
        // Last, because reading the token takes time too.
        let left = left(job);
        if left.is_zero() {
            return Err(trouble(&"its time was over before it could be sent", Failure::NotSent));
        }
        let is_begun = Cell::new(false);
        let answered = match &request.body {
            Some(body) => {
                let mut body = Watched {
                    rest: body,
                    is_begun: &is_begun,
                };
                self.run(head.map(|()| SendBody::from_reader(&mut body)), left)
            }
            None => self.run(head, left),
        };
        let response = answered.map_err(|error| {
            let is_sent = match &request.body {
                Some(_) => is_begun.get(),
                None => !is_before_connection(&error),
            };
            let failure = if is_sent { Failure::Unanswered } else { Failure::NotSent };
            trouble(&error, failure)
        })?;
        Ok(received(
            response,
            body_limit(&job.call, self.target.settings.max_frame),
        ))
    }

    fn run(&self, request: http::Request<impl AsSendBody>, left: Duration) -> Result<Response<Body>, ureq::Error> {
        let limited = self.agent.configure_request(request).timeout_global(Some(left));
        self.agent.run(limited.build())
    }

    /// Method, URL and headers. What the user set goes before what we would say, but for the token and the request's id.
    fn head(&self, request: &Request) -> Result<http::Request<()>, String> {
        let method = match request.method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Delete => http::Method::DELETE,
        };
        let backend = &self.target.settings.backend;
        let token = token(backend)?;
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
        if let Some(token) = &token {
            head = head.header("Authorization", format!("Bearer {}", token.reveal()));
        }
        let is_ours = |header: &&Header| {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            is("X-Request-Id") || (is("Authorization") && token.is_some())
        };
        for header in backend.headers.iter().filter(|header| !is_ours(header)) {
            head = head.header(&header.name, &header.value);
        }
        head.body(())
            .map_err(|error| format!("the request cannot be made: {error}"))
    }
}

fn names(headers: &[Header], name: &str) -> bool {
    headers.iter().any(|header| header.name.eq_ignore_ascii_case(name))
}

impl Work for Http {
    fn carry_out(&mut self, job: &Job) -> Reply {
        let request = backend::request(&job.call, &self.target.settings.identity);
        match self.exchange(job, &request) {
            Ok(received) => {
                log::debug!("backend: {} {}: {}", request.method, request.path, received.status);
                let answered = Answered {
                    status: received.status,
                    retry_after: received.retry_after.as_deref(),
                    body: &received.body,
                };
                let answer = backend::read(&job.call, answered);
                if let Some(remark) = answer.remark {
                    log::warn!("backend: {remark}");
                }
                answer.reply
            }
            Err(trouble) => {
                log::debug!("backend: {} {}: {}", request.method, request.path, trouble.text);
                Reply::Failed(trouble.failure)
            }
        }
    }
}

fn left(job: &Job) -> Duration {
    job.give_up.from_now(Moment::new(clock::monotonic())).min(LONGEST_WAIT)
}

/// The bearer token, from its file each time: secrets rotate.
fn token(backend: &Backend) -> Result<Option<Secret>, String> {
    let Some(path) = &backend.auth_token_file else {
        return Ok(backend.auth_token.clone());
    };
    let problem = |what: &str| {
        let text = format!("backend.auth_token_file = {}: {what}", path.display());
        log::warn!("{text}");
        text
    };
    let bytes =
        read_bounded(path, MAX_TOKEN_FILE_BYTES).map_err(|error| problem(&format!("cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let token = Secret::parse(text.trim()).ok_or_else(|| problem("holds nothing that fits into a header"))?;
    Ok(Some(token))
}

/// A request's body that remembers whether anybody began to read it: until then the backend cannot have got the request.
struct Watched<'a> {
    rest: &'a [u8],
    is_begun: &'a Cell<bool>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_begun.set(true);
        self.rest.read(buffer)
    }
}

/// Why there is no answer.
struct Trouble {
    /// For the log; never holds a header or a body.
    text: String,
    failure: Failure,
}

/// Whether there was no connection yet; for requests without a body.
fn is_before_connection(error: &ureq::Error) -> bool {
    matches!(
        error,
        ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect)
    ) || matches!(error, ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// What came back.
struct Received {
    status: u16,
    retry_after: Option<String>,
    /// As much as came, at most the limit.
    body: Vec<u8>,
}

fn received(mut response: Response<Body>, limit: u64) -> Received {
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    if let Err(error) = response.body_mut().as_reader().take(limit).read_to_end(&mut body) {
        log::debug!("backend: an answer broke off after {} bytes: {error}", body.len());
    }
    Received {
        status: response.status().as_u16(),
        retry_after,
        body,
    }
}

/// Most bytes of an answer to this call.
fn body_limit(call: &Call, max_frame: u64) -> u64 {
    let jobs = match call {
        Call::Fetch { count, .. } => u64::from(*count),
        Call::Look { .. } => 1,
        Call::Register { .. }
        | Call::Heartbeat { .. }
        | Call::Ack { .. }
        | Call::Fail { .. }
        | Call::Requeue { .. }
        | Call::Progress { .. }
        | Call::Checkpoint { .. }
        | Call::Manifest
        | Call::Deregister { .. } => 0,
    };
    max_frame
        .saturating_add(BYTES_AROUND_ENVELOPE)
        .saturating_mul(jobs)
        .clamp(USUAL_BODY_BYTES, MOST_BODY_BYTES)
}
