//! What the answers of the backend say to a person, for the remarks that the machine makes about them.
//!
//! No decision hangs on it, so it goes past the machine: whatever that remarks while it is told of an answer, it remarks
//! about that answer.

use std::collections::BTreeMap;

use crate::lifecycle::api::{CallId, Event};
use crate::wire::backend::request::Words;

/// The words of answers on their way to the machine. There are never more than it waits for.
#[derive(Debug, Default)]
pub struct Answers {
    /// The words of answers that the machine has not been told of.
    heard: BTreeMap<CallId, Words>,
    /// The words of the answer that the machine is being told of.
    present: Words,
}

impl Answers {
    /// An answer came in; the machine is told of it in a moment.
    pub fn heard(&mut self, call: CallId, words: Words) {
        self.heard.insert(call, words);
    }

    /// The machine is told this now; nothing: what time it is.
    pub fn telling(&mut self, event: Option<&Event>) {
        let words = match event {
            Some(Event::BackendReplied(call, _)) => self.heard.remove(call),
            Some(_) | None => None,
        };
        self.present = words.unwrap_or_default();
    }

    /// What the present answer says of a job's state.
    pub fn state(&self) -> Option<&str> {
        self.present.state.as_deref()
    }

    /// What the present answer, or the request that had none, says about a failure.
    pub fn failure(&self) -> Option<&str> {
        self.present.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::api::{Failure, Reply};

    #[test]
    fn the_words_of_an_answer_count_while_the_machine_is_told_of_it_and_no_longer() {
        let mut answers = Answers::default();
        let words = |failure: &str| Words {
            failure: Some(failure.to_owned()),
            state: Some("discarded".to_owned()),
        };
        let event = |id| Event::BackendReplied(CallId(id), Reply::Failed(Failure::ServerError));
        answers.heard(CallId(1), words("status 500"));
        answers.heard(CallId(2), words("status 502"));
        assert_eq!((answers.failure(), answers.state()), (None, None));
        answers.telling(Some(&event(2)));
        assert_eq!(
            (answers.failure(), answers.state()),
            (Some("status 502"), Some("discarded"))
        );
        answers.telling(None);
        assert_eq!((answers.failure(), answers.state()), (None, None));
        answers.telling(Some(&event(2)));
        assert_eq!(answers.failure(), None, "one answer is told once");
        answers.telling(Some(&event(1)));
        answers.telling(Some(&Event::CredentialsChanged));
        assert_eq!(answers.failure(), None);
        assert!(answers.heard.is_empty());
    }
}
