//! The records of a drain.
#![allow(clippy::unwrap_used, reason = "a test whose record cannot be read has failed")]

use ojs_wire::backend::request::Words;
use std::time::Duration;

use super::tests::{narrator, read};
use ojs_lifecycle::api::{EndingNotice, Notice, Reason, WorkerState};

#[test]
fn a_drain_names_the_signal_that_began_it() {
    let mut narrator = narrator();
    let now = Duration::ZERO;
    let state = |state, reason| Notice::Ending(EndingNotice::StateChanged { state, reason });
    narrator
        .note(&state(WorkerState::Quiet, Reason::Sigtstp), &Words::default(), now)
        .unwrap();
    narrator
        .note(&state(WorkerState::Terminate, Reason::Sigint), &Words::default(), now)
        .unwrap();
    let drain = Notice::Ending(EndingNotice::Draining {
        active: 3,
        reporting: 0,
        left: now,
    });
    let record = read(&narrator.note(&drain, &Words::default(), now).unwrap());
    assert_eq!(record["attributes"]["signal"], "SIGINT");
    assert_eq!(record["attributes"]["active_jobs"], 3);
    assert_eq!(record["message"], "Worker draining, 3 jobs in progress; 0 s left");
}

#[test]
fn outcomes_that_alone_are_left_are_told_as_such() {
    let mut narrator = narrator();
    let left = Duration::from_secs(20);
    let drain = Notice::Ending(EndingNotice::Draining {
        active: 1,
        reporting: 1,
        left,
    });
    let record = read(&narrator.note(&drain, &Words::default(), Duration::ZERO).unwrap());
    assert_eq!(
        record["message"],
        "Worker draining, 1 outcome to be reported; 20 s left"
    );
    assert_eq!(record["attributes"]["active_jobs"], 1);
    assert_eq!(record["attributes"]["reporting_jobs"], 1);
}
