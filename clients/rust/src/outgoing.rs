//! The one answer of each job.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use log::Level;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answers::Answer;
use crate::current;
use crate::error::{Error, Result, Retry, Verdict};
use crate::job::Job;
use crate::json::{self, MAX_DEPTH};
use crate::logging;
use crate::output::Output;
use crate::panics;
use crate::session::Session;
use crate::text::clean;

/// What the backend is told about an error.
#[derive(Serialize)]
pub(crate) struct Failure {
    pub(crate) message: String,
    code: String,
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) backtrace: Vec<String>,
}

/// A line about a job, with further members.
pub(crate) fn frame<'a>(kind: &str, raw_id: &str, members: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut line = format!("{{\"type\":\"{kind}\",\"job_id\":{raw_id}");
    for (name, value) in members {
        line.push_str(",\"");
        line.push_str(name);
        line.push_str("\":");
        line.push_str(value);
    }
    line.push_str("}\n");
    line.into_bytes()
}

/// A fail that no handler made.
pub(crate) fn failure(raw_id: &str, code: &str, message: &str, retryable: bool) -> Vec<u8> {
    let (message, code) = (message.to_owned(), code.to_owned());
    fail(raw_id, &Failure { message, code, kind: String::new(), retryable, details: None, backtrace: Vec::new() })
}

fn fail(raw_id: &str, failure: &Failure) -> Vec<u8> {
    let plain = r#"{"message":"the error cannot be reported","code":"handler_error","retryable":true}"#;
    let text = json::encode(failure, MAX_DEPTH - 1).unwrap_or_else(|_| plain.to_owned());
    frame("fail", raw_id, Some(("error", text.as_str())))
}

fn described(error: &Error) -> Failure {
    let kind = clean(error.kind(), 200);
    let message = if error.message().is_empty() { kind.clone() } else { error.message().to_owned() };
    Failure {
        message,
        code: error.code().to_owned(),
        kind,
        retryable: error.verdict() != Verdict::Discard,
        details: error.details(),
        backtrace: error.backtrace().to_vec(),
    }
}

/// What a handler ended with when its job had to end anyway: perhaps a mistake, which nobody would
/// hear of.
fn mention(job: &Job, error: &Error) {
    if !error.is_cancelled() {
        let message = "the job had to end; what its handler returned then changes nothing";
        logging::say(Level::Warn, Some(job), message, Some(&described(error)));
    }
}

impl Session {
    /// Runs the handler. The answer is given whatever it does, and not before it has ended.
    pub(crate) fn process(self: &Arc<Session>, job: &Job) {
        let guard = current::enter(job);
        let result = match job.cancel_reason() {
            // Even after its timeout: it was not processed.
            Some(reason) => Err(crate::error::Release::new(reason).into()),
            None => {
                if self.is_rehearsal {
                    self.pool.set_begun();
                }
                let caught = panic::catch_unwind(AssertUnwindSafe(|| self.registry.perform(job)));
                let place = panics::take();
                caught.unwrap_or_else(|thrown| {
                    let error = Error::panicked(&*thrown, place);
                    panics::drop_quietly(thrown);
                    Err(error)
                })
            }
        };
        let made = panic::catch_unwind(AssertUnwindSafe(|| self.answer_to(job, result)));
        let (answer, line) = made.unwrap_or_else(|_| {
            (Answer::Fail, failure(job.raw_id(), "handler_error", "the answer cannot be made", true))
        });
        job.let_go();
        drop(guard);
        self.answer(job, answer, line);
    }

    fn answer_to(&self, job: &Job, result: Result<Output>) -> (Answer, Vec<u8>) {
        let result = match (job.ended_between(), result) {
            // Between two rows or steps; the handler has made something else of that, but is not
            // through with them.
            (Some(ended), Ok(_)) => Err(ended),
            (Some(ended), Err(error)) if error.verdict() == Verdict::Failed => {
                if !error.is_same(&ended) {
                    mention(job, &error);
                }
                Err(ended)
            }
            (_, result) => result,
        };
        let mut error = match result {
            Ok(output) => return (Answer::Ack, self.ack(job, &output)),
            Err(error) => error,
        };
        job.save_before_end();
        let mut verdict = error.verdict();
        let cancelled = job.cancel_reason().filter(|_| verdict == Verdict::Failed && !error.is_panic());
        // It has given up because of the cancel.
        if cancelled.is_some() {
            mention(job, &error);
        }
        match cancelled.as_deref() {
            Some("timeout") => {
                let message = format!("the job took longer than it may: {error}");
                error = Retry::new(message).code("timeout").kind("Timeout").into();
                verdict = Verdict::Retry;
            }
            Some(reason) => {
                error = crate::error::Release::new(reason).into();
                verdict = Verdict::Release;
            }
            None => {}
        }
        if verdict == Verdict::Release {
            let reason = json::quoted(error.message());
            let reason = Some(("reason", reason.as_str())).filter(|_| !error.message().is_empty());
            let after = error.after_ms().map(|after| after.to_string());
            let after = after.as_deref().map(|after| ("after_ms", after));
            return (Answer::Release, frame("release", job.raw_id(), reason.into_iter().chain(after)));
        }
        (Answer::Fail, self.fail(job, &error))
    }

    fn ack(&self, job: &Job, output: &Output) -> Vec<u8> {
        let line = frame("ack", job.raw_id(), output.text().map(|text| ("result", text)));
        let most = self.max_frame();
        if line.len() - 1 <= most {
            return line;
        }
        // As ojs-init does when the backend refuses a result: the work is done, it must not be done
        // again.
        job.log(Level::Error, &format!("its result is dropped: {} bytes, over {most}", line.len() - 1));
        frame("ack", job.raw_id(), None)
    }

    fn fail(&self, job: &Job, error: &Error) -> Vec<u8> {
        let mut failure = described(error);
        if failure.details.as_ref().is_some_and(|details| json::encode(details, MAX_DEPTH - 2).is_err()) {
            job.log(Level::Warn, "the details of the error are nested too deeply and are left out");
            failure.details = None;
        }
        if !error.is_in_own_words() {
            let level = if failure.retryable && job.has_more_attempts() { Level::Warn } else { Level::Error };
            logging::say(level, Some(job), "the job failed", Some(&failure));
        }
        let line = fail(job.raw_id(), &failure);
        if line.len() - 1 <= self.max_frame() {
            return line;
        }
        job.log(Level::Error, &format!("details and backtrace are dropped: the report has {} bytes", line.len() - 1));
        (failure.details, failure.backtrace) = (None, Vec::new());
        failure.message = clean(&failure.message, 200);
        fail(job.raw_id(), &failure)
    }

    /// Forgets the job before its answer is written: the same id may come again right after it.
    pub(crate) fn answer(&self, job: &Job, answer: Answer, line: Vec<u8>) {
        let mut state = self.lock();
        job.set_over(self);
        state.held.remove(job.id());
        // Who sees that the job is not held any more sees that something is to be written.
        let queued = self.out.queue(line, false);
        if queued.is_ok() {
            state.answers.remember(job.id(), answer);
        }
        drop(state);
        if let Ok(queued) = queued {
            self.out.write(queued);
        }
        if self.is_ending() {
            self.bell.ring();
        }
    }
}
