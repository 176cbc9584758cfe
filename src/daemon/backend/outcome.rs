//! The meaning of an answer or a fault, for the lifecycle and for a person.
//!
//! Nothing here logs a header or a body, because they hold the token and the arguments of jobs.

use std::sync::Arc;

use crate::config::BackendUrl;
use crate::daemon::backend::answer::Received;
use crate::daemon::backend::fault::{Fault, refused_by_proxy, wants_tls};
use crate::daemon::backend::settings::BackendSettings;
use crate::daemon::log::throttle::Throttle;
use ojs_lifecycle::api::{Call, Failure, JobId, Reply};
use ojs_os::clock;
use ojs_wire::backend::request::{self, Answer, HttpAnswer, Words, is_object};

/// Longest target of a redirect that is shown, in bytes.
const MOST_LOCATION_BYTES: usize = 200;

/// The parts of an answer that decide nothing. They are for people, for metrics and for the SDK
/// that sent the ACK or the FAIL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The words of the answer.
    pub words: Words,
    /// The answer itself, if it is one to an ACK or a FAIL that can be handed on.
    pub outcome: Option<OutcomeReply>,
}

/// Longest answer to an outcome that is handed on, in bytes: as many as outcomes can be on their
/// way wait for the lifecycle.
const MOST_HANDED_ON_BYTES: usize = 16 << 10;

/// The backend's answer to an ACK or a FAIL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeReply {
    /// The job that the outcome is of.
    pub job: JobId,
    /// 2xx or 4xx.
    pub status: u16,
    /// A JSON object.
    pub body: Arc<[u8]>,
}

impl OutcomeReply {
    /// `None` if the answer is not to an outcome, or cannot be handed on whole.
    fn of(call: &Call, received: &Received) -> Option<Self> {
        let Call::Report { job, .. } = call else { return None };
        let (status, body) = (received.head.status, &received.body);
        let is_fit = matches!(status, 200..=299 | 400..=499) && received.is_whole && body.len() <= MOST_HANDED_ON_BYTES;
        (is_fit && is_object(body)).then(|| Self {
            job: job.clone(),
            status,
            body: body.as_slice().into(),
        })
    }

    /// Whether the backend has the outcome.
    pub fn is_success(&self) -> bool {
        self.status < 300
    }
}

/// Interprets answers.
#[derive(Debug)]
pub(in crate::daemon) struct Outcomes {
    settings: BackendSettings,
    complaints: Throttle,
}

impl Outcomes {
    /// Of this backend.
    pub(in crate::daemon) fn new(settings: BackendSettings) -> Self {
        Self {
            settings,
            complaints: Throttle::default(),
        }
    }

    /// The configuration.
    pub(in crate::daemon) fn settings(&self) -> &BackendSettings {
        &self.settings
    }

    /// The meaning of an answer.
    pub(in crate::daemon) fn of_answer(
        &mut self,
        call: &Call,
        mut received: Received,
        was_sent_twice: bool,
    ) -> (Reply, Heard) {
        let status = received.head.status;
        let body = std::mem::take(&mut received.body);
        let body = received.jobs.take().unwrap_or_else(|| body.into());
        let answer = request::read_jobs(call, status, body);
        let Answer { reply, oddity, words } = answer.unwrap_or_else(|body| {
            received.body = body;
            let answered = HttpAnswer {
                status,
                retry_after: received.head.retry_after.as_deref(),
                now: clock::since_1970(),
                body: &received.body,
                is_whole: received.is_whole,
                was_sent_twice,
            };
            request::read(call, answered)
        });
        let (reply, words) = match self.said_by_proxy(&received) {
            Some(text) => {
                let failure = Some(text);
                (of_proxy(reply, status), Words { failure, ..words })
            }
            None => {
                let advice = self.advice(&reply, &received);
                (reply, words.and(&advice))
            }
        };
        match &words.failure {
            Some(said) => self.debug(call, said),
            None => self.debug(call, &format_args!("status {status}")),
        }
        if let Some(oddity) = oddity {
            let url = self.settings.backend.url.as_ref().map_or("", BackendUrl::as_str);
            self.complaints.warn(format_args!("backend {url}: {oddity}"));
        }
        let status = Some(status);
        let outcome = OutcomeReply::of(call, &received);
        let heard = Heard { status, words, outcome };
        (reply, heard)
    }

    /// The words of a proxy that gets the whole request, instead of the backend's.
    fn said_by_proxy(&self, received: &Received) -> Option<String> {
        let backend = &self.settings.backend;
        let proxy = backend.proxy.as_ref().filter(|_| !backend.is_https())?;
        let status = received.head.status;
        let may_be_of_proxy = matches!(status, 403 | 407 | 502..=504) && !request::is_of_ojs(&received.body);
        may_be_of_proxy.then(|| {
            let text = refused_by_proxy(status, backend);
            format!("the proxy {}: {text}", proxy.place())
        })
    }

    /// The meaning of a missing answer. `is_new`: the connection had served no other request.
    pub(in crate::daemon) fn of_fault(
        &self,
        call: &Call,
        fault: &Fault,
        failure: Failure,
        is_new: bool,
    ) -> (Reply, Heard) {
        let text = self.reason(fault, is_new);
        self.debug(call, &text);
        let words = Words {
            failure: Some(text),
            ..Words::default()
        };
        let heard = Heard {
            words,
            ..Heard::default()
        };
        (Reply::Failed(failure), heard)
    }

    /// Why there is no answer, for a person.
    pub(in crate::daemon) fn reason(&self, fault: &Fault, is_new: bool) -> String {
        fault.reason(&self.settings.backend, is_new)
    }

    /// The meaning of a missing token. The reason is already in the log.
    pub(in crate::daemon) fn of_no_token(&self, call: &Call) -> (Reply, Heard) {
        self.debug(call, &"there is no token for it");
        (Reply::Failed(Failure::NoCredentials), Heard::default())
    }

    fn debug(&self, call: &Call, says: &dyn std::fmt::Display) {
        if log::log_enabled!(log::Level::Debug) {
            let request = request::request(call, &self.settings.identity);
            log::debug!("backend: {} {}: {says}", request.method, request.path);
        }
    }

    /// The advice about such an answer, for a person.
    fn advice(&self, reply: &Reply, received: &Received) -> String {
        let setting = &self.settings.url_setting;
        if !self.settings.backend.is_https() && wants_tls(received.head.status, &received.body) {
            return format!("; what listens there wants TLS: write https in {setting}");
        }
        match reply.failed() {
            Some(Failure::Redirected) => {
                let location = received.head.location.as_deref();
                let to = location.and_then(shown).map_or(String::new(), |to| format!(" to {to}"));
                format!(", a redirect{to}, which is not followed; check the scheme and the path of {setting}")
            }
            Some(Failure::NotFromBackend) => format!("; check {setting}, and what is in front of the backend"),
            Some(_) | None => String::new(),
        }
    }
}

/// The consequence of a proxy's answer. A proxy's refusal proves nothing about the backend.
fn of_proxy(reply: Reply, status: u16) -> Reply {
    if status == 403 {
        Reply::Failed(Failure::NotFromBackend)
    } else {
        reply
    }
}

/// The target of a redirect, as far as a log may show it. The part after a `?` may be a secret, and
/// so may a name before an `@`.
fn shown(location: &str) -> Option<String> {
    let path = location.split(['?', '#']).next().unwrap_or_default();
    let is_fit = !path.is_empty() && path.len() <= MOST_LOCATION_BYTES && !path.contains('@');
    is_fit.then(|| path.to_owned())
}
