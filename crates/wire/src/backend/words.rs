//! The words of an answer for a person: its status, its error, and the state of the job.
//!
//! Reads only the fields of an error and `state`, never other parts of a body, which may hold
//! arguments of jobs.

use ojs_lifecycle::api::{Call, Endpoint};

use crate::backend::error::BackendError;
use crate::json::object::Object;
use ojs_values::text::clipped;

/// Most bytes of an error's `code`, or of a `state`, that are shown.
const NAME_BYTES: usize = 60;

/// Most bytes of an error's `message` that are shown.
const MESSAGE_BYTES: usize = 240;

/// The words of one answer. The code that logs them escapes them, because the backend wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The words of an answer that is no success: its status, and the error's code and message.
    pub failure: Option<String>,
    /// The state of a job after a FAIL or a requeue, or the one that is in the way of an outcome
    /// (409), in the backend's word: `retryable`, `discarded`, `cancelled`.
    pub state: Option<String>,
}

impl Words {
    /// The words of a success, whose body may be cut off: some backends send the whole job.
    pub(crate) fn of_success(call: &Call, body: &[u8]) -> Self {
        let tells_state = call.endpoint() == Endpoint::Nack;
        let text = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let fields = tells_state.then(|| Object::read_beginning(text, &["state", "job"]));
        let state = fields.and_then(|fields| state(&fields));
        Self { failure: None, state }
    }

    /// The words of a success whose body is not of OJS.
    pub(crate) fn of_foreign(status: u16) -> Self {
        Self {
            failure: Some(format!("status {status}, and the body is no JSON object")),
            state: None,
        }
    }

    /// The words of another answer.
    pub(crate) fn of_failure(status: u16, error: Option<&BackendError<'_>>) -> Self {
        let text = |key, most| Some(clipped(&error?.text(key)?, most));
        let code = text("code", NAME_BYTES).map_or(String::new(), |code| format!(" {code}"));
        let message = text("message", MESSAGE_BYTES).map_or(String::new(), |message| format!(": {message}"));
        Self {
            failure: Some(format!("status {status}{code}{message}")),
            state: error
                .filter(|_| status == 409)
                .and_then(BackendError::current_state)
                .map(|state| clipped(&state, NAME_BYTES)),
        }
    }

    /// Adds further words.
    pub fn and(mut self, more: &str) -> Self {
        if let Some(failure) = &mut self.failure {
            failure.push_str(more);
        }
        self
    }
}

/// The state beside the job, or in it.
fn state(fields: &Object<'_>) -> Option<String> {
    let inner = fields.object("job");
    let text = fields.text("state").or_else(|| inner?.text("state"));
    text.filter(|text| !text.is_empty())
        .map(|text| clipped(&text, NAME_BYTES))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ojs_lifecycle::api::Reply;

    use super::*;
    use crate::backend::reply::{HttpAnswer, read};
    use crate::test_support::{ack, fail, requeue_call};

    fn said(status: u16, body: &str) -> String {
        let error = BackendError::of(body.as_bytes());
        Words::of_failure(status, error.as_ref()).failure.unwrap()
    }

    #[test]
    fn a_failure_is_told_with_its_status_its_code_and_its_message_and_nothing_else_of_the_body() {
        let nested = r#"{"error":{"code":"not_found","message":"Job 'a' not found.","details":{"args":["secret"]}}}"#;
        assert_eq!(said(404, nested), "status 404 not_found: Job 'a' not found.");
        let flat = r#"{"code":"internal_error","args":"secret"}"#;
        assert_eq!(said(500, flat), "status 500 internal_error");
        for body in ["", "<html>secret</html>", r#"{"code":1,"message":["x"]}"#, "[]"] {
            assert_eq!(said(502, body), "status 502", "{body}");
        }
    }

    #[test]
    fn the_state_that_is_in_the_way_of_an_outcome_is_read_from_a_conflict() {
        let body = r#"{"error":{"code":"conflict","details":{"current_state":"cancelled"}}}"#;
        let error = BackendError::of(body.as_bytes());
        let state = |status| Words::of_failure(status, error.as_ref()).state;
        assert_eq!(state(409).as_deref(), Some("cancelled"));
        assert_eq!(state(404), None);
        assert_eq!(Words::of_failure(409, None).state, None);
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        let message = "ä".repeat(1000);
        let said = said(500, &format!(r#"{{"message":"{message}"}}"#));
        assert!(said.len() < 300 && said.ends_with("ä…"), "{said}");
    }

    #[test]
    fn what_a_job_became_is_read_from_the_answer_to_a_fail_or_a_requeue_alone() {
        let state = |call: &Call, body: &str| Words::of_success(call, body.as_bytes()).state;
        let body = r#"{"id":"j","state":"discarded"}"#;
        for call in [fail(false), requeue_call()] {
            assert_eq!(state(&call, body).as_deref(), Some("discarded"));
            assert_eq!(
                state(&call, r#"{"job":{"state":"available"}}"#).as_deref(),
                Some("available")
            );
            for silent in ["", "{}", r#"{"state":3}"#, r#"{"state":""}"#] {
                assert_eq!(state(&call, silent), None, "{silent}");
            }
        }
        assert_eq!(state(&ack(), body), None);
    }

    #[test]
    fn the_state_in_an_answer_to_a_fail_is_read_although_the_answer_is_cut_off() {
        let answered = HttpAnswer {
            status: 200,
            retry_after: None,
            now: Duration::ZERO,
            body: r#"{"id":"a","state":"discarded","args":["xxä"#.as_bytes(),
            is_whole: false,
            was_sent_twice: false,
        };
        let answer = read(&fail(false), answered);
        assert_eq!(answer.reply, Reply::Accepted);
        assert_eq!(answer.words.state.as_deref(), Some("discarded"));
    }
}
