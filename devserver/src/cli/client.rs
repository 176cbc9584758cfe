//! How the commands speak with a backend.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use ureq::Agent;
use ureq::http::Uri;

use super::backend::BackendArgs;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a server is looked for that may only just be being started, and the pause before the
/// next time.
const STARTS_TRIED: u32 = 20;
const START_PAUSE: Duration = Duration::from_millis(100);

/// Largest answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// Characters that stand in a path as they are.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A backend that can be asked.
pub(super) struct Client {
    agent: Agent,
    base: String,
    token: Option<String>,
}

#[derive(Deserialize)]
struct BackendError {
    error: BackendErrorFields,
}

#[derive(Deserialize)]
struct BackendErrorFields {
    message: String,
}

impl Client {
    /// A client of the backend at this URL.
    ///
    /// # Errors
    ///
    /// The text is no URL that can be used.
    pub fn new(backend: &BackendArgs) -> Result<Self, String> {
        let base = backend.url.trim_end_matches('/');
        let uri: Result<Uri, _> = base.parse();
        let is_http = uri.is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some());
        if !is_http {
            return Err(format!(
                "'{base}' is no URL of a development server: it looks like http://127.0.0.1:8080"
            ));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        Ok(Self {
            agent: Agent::new_with_config(config),
            base: base.to_owned(),
            token: backend.token.clone(),
        })
    }

    /// Waits for a server that is only just being started, if nothing listens there yet: at most
    /// two seconds.
    pub fn wait_for_start(&self) {
        for _ in 0..STARTS_TRIED {
            match self.agent.get(format!("{}/ojs/v1/health", self.base)).call() {
                Err(ureq::Error::Io(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                    wait_before_the_next_look()
                }
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Sends a GET; gives the body of the answer.
    pub fn get(&self, path: &str) -> Result<String, String> {
        let request = self.agent.get(format!("{}{path}", self.base));
        self.read(path, self.with_token(request).call())
    }

    /// Sends a DELETE; gives the body of the answer.
    pub fn delete(&self, path: &str) -> Result<String, String> {
        let request = self.agent.delete(format!("{}{path}", self.base));
        self.read(path, self.with_token(request).call())
    }

    /// Sends a POST; gives the body of the answer.
    pub fn post(&self, path: &str, body: &str) -> Result<String, String> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let request = request.content_type("application/openjobspec+json");
        self.read(path, self.with_token(request).send(body))
    }

    fn with_token<T>(&self, request: ureq::RequestBuilder<T>) -> ureq::RequestBuilder<T> {
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn read(
        &self,
        path: &str,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String, String> {
        let base = &self.base;
        let mut answer = answer.map_err(|error| {
            format!("cannot reach {base}: {error}; start one with `ojs-devserver`, or name it with --url or OJS_URL")
        })?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string();
        let body = body.map_err(|error| format!("the answer of {base} breaks off: {error}"))?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let said = serde_json::from_str::<BackendError>(&body).map(|body| body.error.message);
        Err(match (status, said) {
            (401 | 403, Ok(message)) => format!("{message}; give it with --token or OJS_AUTH_TOKEN"),
            (_, Ok(message)) => message,
            (_, Err(_)) => format!("{base}{path} answered {status}; is there a development server?"),
        })
    }
}

#[allow(clippy::disallowed_methods, reason = "a tool for people that waits for a server")]
fn wait_before_the_next_look() {
    thread::sleep(START_PAUSE);
}

/// The text as one segment of a path.
pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Reads the body of an answer.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| format!("the answer is not what a development server says: {error}"))
}
