//! The records about jobs, in the words of OJS logging 6.1. Ids and types appear, arguments and
//! results never.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use log::Level;

use crate::config::most_alike;
use crate::daemon::log::record::{LogRecord, NAME_BYTES};
use crate::daemon::log::throttle::Throttle;
use crate::daemon::log::words::{named, warn};
use ojs_lifecycle::api::ids::Text;
use ojs_lifecycle::api::{
    CancelReason, Death, DropCause, FIRST_HOLD, Failure, HolderId, JobError, JobNotice, LONGEST_HOLD, Outcome, Subject,
};
use ojs_values::text::clipped;
use ojs_wire::backend::request::{DEFAULT_ERROR_CODE, Words};
use ojs_wire::text::{milliseconds, seconds};

/// Most types that are kept apart if no connection accepts them.
const MOST_TYPES: usize = 64;

/// Most types that a record about a job without a handler lists.
const LISTED_TYPES: usize = 8;

/// The consequence of a lost checkpoint.
const BEGINS_BEFORE: &str = "another attempt begins at the one before";
const MAY_BEGIN_BEFORE: &str = "another attempt may begin at the one before";

const RUNS_ALONE: &str = "Job runs alone in its process, which crashed the last time";
const ADOPTED: &str = "Job delivered again; its handler goes on with the new reservation";
const REPLACED: &str = "Job delivered again while it waits for a worker; the new delivery counts";
const DONE_TWICE: &str = "Job was done twice: another worker had completed it before the only ACK of ojs-init, which counts as \
                          lost; raise worker.visibility_timeout if outages or slow heartbeats let reservations lapse";
const NAMED_AGAIN: &str = "Job is named again in the worker's heartbeats: ojs-init keeps its reservation again";
const RESULT_DROPPED: &str = "Job's result is not taken by the backend: ACK without it";

/// Makes the records about jobs.
#[derive(Debug, Default)]
pub struct JobNarrator {
    /// By type, because jobs that no connection accepts arrive in crowds.
    unhandled: BTreeMap<String, Throttle>,
    /// By message, because a handler may send many checkpoints of which none is saved.
    unsaved: BTreeMap<&'static str, Throttle>,
    /// By type: jobs that are given back again and again.
    given_back: BTreeMap<String, Throttle>,
    completed: u64,
}

impl JobNarrator {
    /// Jobs that were completed since the start.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// The record of a notice, unless there was one like it a moment ago.
    pub fn record(&mut self, notice: &JobNotice, words: &Words, now: Duration) -> Option<LogRecord> {
        let said = words.failure.as_deref();
        Some(match notice {
            JobNotice::OutcomeSent { .. } => return None,
            JobNotice::JobsDied { death, jobs } => died(death, jobs),
            JobNotice::Claimed(job) => note(Level::Debug, job, Some("active"), "Job fetched by worker"),
            JobNotice::RunsAlone(job) => note(Level::Info, job, Some("active"), RUNS_ALONE),
            JobNotice::HandedOver(job, connection) => handed_over(job, *connection),
            JobNotice::Settled { job, outcome, took } => self.settled(job, outcome, *took, words.state.as_deref()),
            JobNotice::GivenBackAgain {
                job,
                times,
                is_of_type,
                is_held,
            } => return self.given_back_again(job, *times, (*is_of_type, *is_held), now),
            JobNotice::Abandoned(job, why) => abandoned(job, why),
            JobNotice::Void(job, why) => void(job, why),
            JobNotice::Adopted(job) => note(Level::Warn, job, Some("active"), ADOPTED),
            JobNotice::Replaced(job) => note(Level::Warn, job, Some("active"), REPLACED),
            JobNotice::ReservationLost(job, reason) => reservation_lost(job, *reason, words),
            JobNotice::Unanswered(job, reason) => unanswered(job, *reason),
            JobNotice::DoneTwice(job) => note(Level::Warn, job, None, &format!("{DONE_TWICE}{}", in_parentheses(said))),
            JobNotice::CancelledByOperator { job, has_handler } => cancelled_by_operator(job, *has_handler),
            JobNotice::TimedOut(job, elapsed) => timed_out(job, *elapsed),
            JobNotice::TimeoutPassed(job, elapsed) => timeout_passed(job, *elapsed),
            JobNotice::Dropped(job, why) => dropped(job, *why),
            JobNotice::NamedAgain(job) => note(Level::Info, job, Some("active"), NAMED_AGAIN),
            JobNotice::AnswerMended(job, why) => {
                let message = format!("Job's answer cannot be read, it counts without the broken part: {why}");
                note(Level::Error, job, None, &message)
            }
            JobNotice::ResultDropped(job) => note(Level::Warn, job, None, RESULT_DROPPED),
            JobNotice::CheckpointNotSaved(job, failure) => self.checkpoint_not_saved(job, *failure, said, now),
            JobNotice::CheckpointTooLarge { job, is_saved } => self.checkpoint_too_large(job, *is_saved, now),
            JobNotice::NoHandler { job, waits, taken } => return self.no_handler(job, *waits, taken, now),
        })
    }

    /// The backend has received its outcome. `state` is the job's new state by the answer.
    fn settled(&mut self, job: &Subject, outcome: &Outcome, took: Option<Duration>, state: Option<&str>) -> LogRecord {
        let note = match outcome {
            Outcome::Acked { .. } => {
                self.completed += 1;
                note(Level::Info, job, Some("completed"), "Job completed successfully")
            }
            Outcome::Requeued { .. } => given_back(job, state),
            Outcome::Failed { error } => failed(job, error, state),
        };
        note.with_any("duration_ms", took.map(milliseconds))
    }

    /// A checkpoint of it is lost. `said` is the answer's text about that, if there was one.
    fn checkpoint_not_saved(
        &mut self,
        job: &Subject,
        failure: Failure,
        said: Option<&str>,
        now: Duration,
    ) -> LogRecord {
        let (what, follows) = if failure == Failure::Unsupported {
            (
                "is not saved, the backend saves none",
                "another attempt begins anew; ojs-init asks again in ten minutes",
            )
        } else if failure == Failure::Unanswered {
            ("may not be saved, the backend did not answer in time", MAY_BEGIN_BEFORE)
        } else if failure == Failure::NotSent {
            ("is not saved, the backend could not be reached", BEGINS_BEFORE)
        } else if failure.may_pass() {
            ("is not taken by the backend", BEGINS_BEFORE)
        } else {
            ("is refused by the backend", BEGINS_BEFORE)
        };
        self.about_checkpoint(job, what, &format!("{follows}{}", in_parentheses(said)), now)
    }

    /// The job with its checkpoint fits into no frame.
    fn checkpoint_too_large(&mut self, job: &Subject, is_saved: bool, now: Duration) -> LogRecord {
        let (what, follows) = if is_saved {
            (
                "is too large for worker.max_frame beside its job",
                "the worker gets the job without it, and begins anew",
            )
        } else {
            (
                "is not saved, it is too large for worker.max_frame beside its job",
                BEGINS_BEFORE,
            )
        };
        self.about_checkpoint(job, what, follows, now)
    }

    /// The checkpoints in between are no warnings, but level debug shows their jobs.
    fn about_checkpoint(&mut self, job: &Subject, what: &'static str, follows: &str, now: Duration) -> LogRecord {
        let (level, more) = match self.unsaved.entry(what).or_default().is_due_at(now) {
            Some(more) => (Level::Warn, more),
            None => (Level::Debug, String::new()),
        };
        note(
            level,
            job,
            Some("active"),
            &format!("Job's checkpoint {what}: {follows}{more}"),
        )
    }

    /// The job is given back, as this one or others of its type (`is_of_type`) repeatedly were
    /// before. One line for each type at a time.
    fn given_back_again(
        &mut self,
        job: &Subject,
        times: u32,
        (is_of_type, is_held): (bool, bool),
        now: Duration,
    ) -> Option<LogRecord> {
        let kind = clipped(&job.kind, NAME_BYTES);
        let more = of_type(&mut self.given_back, &kind).is_due_at(now)?;
        let what = if is_of_type {
            format!("Jobs of type {kind} are given back again and again, {times} times so far")
        } else {
            format!("Job is given back again and again, {times} times so far")
        };
        let follows = if is_held {
            let (first, longest) = (seconds(FIRST_HOLD), seconds(LONGEST_HOLD));
            format!(
                "each is held here before it goes back, {first} at first and {longest} at most, and other jobs go on"
            )
        } else {
            "it was never started; the backend sends more jobs than FETCH asks for, or the worker lowers what it takes"
                .to_owned()
        };
        Some(note(Level::Warn, job, None, &format!("{what}: {follows}{more}")))
    }

    /// No connection accepts its type: one line for each type at a time. Its failure in the end is
    /// reported like that of any other job.
    fn no_handler(
        &mut self,
        job: &Subject,
        waits: Option<Duration>,
        taken: &[Text],
        now: Duration,
    ) -> Option<LogRecord> {
        let kind = clipped(&job.kind, NAME_BYTES);
        let more = of_type(&mut self.unhandled, &kind).is_due_at(now)?;
        let waits = waits.map_or_else(
            || "it holds the last free place, and is failed, retryable".to_owned(),
            |time| format!("it waits {} for one that may still come", seconds(time)),
        );
        let taken = types_taken(&kind, taken);
        let message = format!("Job of a type that no connection takes, {kind}: {waits}{taken}{more}");
        Some(note(Level::Warn, job, None, &message))
    }
}

/// A process ended while it held these.
fn died(death: &Death, jobs: &[Arc<Subject>]) -> LogRecord {
    let names = named(jobs.iter().map(|job| (&*job.id.0, &*job.kind)), jobs.len());
    warn(format_args!("{death}: {names}")).with("active_jobs", jobs.len())
}

/// The job was given to a worker.
fn handed_over(job: &Subject, connection: HolderId) -> LogRecord {
    note(Level::Debug, job, Some("active"), "Job given to the worker").with("connection", connection.0)
}

/// The backend receives no outcome of it.
fn abandoned(job: &Subject, why: &str) -> LogRecord {
    note(
        Level::Warn,
        job,
        None,
        &format!("Job left to its visibility timeout: {why}"),
    )
}

/// A delivery of it was useless.
fn void(job: &Subject, why: &str) -> LogRecord {
    note(
        Level::Info,
        job,
        None,
        &format!("Job delivered again for nothing: {why}"),
    )
}

/// ojs-init no longer holds the job. `words` are those of the answer that ended it, if one did: it
/// may refuse the outcome because the job was cancelled.
fn reservation_lost(job: &Subject, reason: CancelReason, words: &Words) -> LogRecord {
    let is_cancelled = reason == CancelReason::Cancelled || words.state.as_deref() == Some("cancelled");
    if is_cancelled {
        return note(Level::Info, job, Some("cancelled"), "Job cancelled");
    }
    let said = in_parentheses(words.failure.as_deref());
    let message = format!("Job lost: its reservation is over, and its outcome is not reported{said}");
    note(Level::Warn, job, None, &message)
}

/// Its handler was asked to stop, and does not.
fn unanswered(job: &Subject, reason: CancelReason) -> LogRecord {
    match reason {
        CancelReason::Cancelled => note(
            Level::Warn,
            job,
            Some("cancelled"),
            "Job was cancelled, and its handler has not answered the cancel in time; it holds its place in the worker",
        ),
        CancelReason::Operator | CancelReason::Lost | CancelReason::Shutdown | CancelReason::Timeout => {
            let message =
                "Job was lost, and its handler has not answered the cancel in time; it holds its place in the worker";
            note(Level::Warn, job, None, message)
        }
    }
}

/// An operator cancelled it on the control socket.
fn cancelled_by_operator(job: &Subject, has_handler: bool) -> LogRecord {
    let message = if has_handler {
        "Job cancelled by an operator; its handler is told to stop"
    } else {
        "Job cancelled by an operator before it was started"
    };
    note(Level::Info, job, Some("active"), message)
}

/// Its own timeout has passed.
fn timed_out(job: &Subject, elapsed: Option<Duration>) -> LogRecord {
    let after = elapsed.map(|elapsed| format!(" after {:.1}s", elapsed.as_secs_f64()));
    let message = format!(
        "Job execution timed out{}; its handler is told to stop",
        after.unwrap_or_default()
    );
    let record = note(Level::Error, job, Some("active"), &message);
    record.with_any("duration_ms", elapsed.map(milliseconds))
}

/// Its own timeout has passed, and ojs-init does nothing about it.
fn timeout_passed(job: &Subject, elapsed: Option<Duration>) -> LogRecord {
    let after = elapsed.map(|elapsed| format!(" after {:.1}s", elapsed.as_secs_f64()));
    let message = format!(
        "Job goes on although its timeout is over{}; gateway.enforce_timeouts would end its process",
        after.unwrap_or_default()
    );
    let record = note(Level::Warn, job, Some("active"), &message);
    record.with_any("duration_ms", elapsed.map(milliseconds))
}

/// Nothing shows that the worker still has it, so its reservation runs out.
fn dropped(job: &Subject, why: DropCause) -> LogRecord {
    let message = match why {
        DropCause::NotNamed => {
            "Job is not named any more in the worker's heartbeats: its reservation is left to run out; a shutdown still waits for it"
        }
        DropCause::Silent => {
            "Job is with a worker that has sent nothing for as long as the job may take: its reservation is left to run out; a shutdown still waits for it"
        }
    };
    note(Level::Warn, job, None, message)
}

/// The types that the worker accepts, and the one that may have been meant.
fn types_taken(kind: &str, taken: &[Text]) -> String {
    if taken.is_empty() {
        return String::new();
    }
    let names: Vec<String> = taken.iter().map(|name| clipped(name, NAME_BYTES)).collect();
    let meant = most_alike(kind, names.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |name| format!("; did you mean {name}?"));
    let listed = names.iter().take(LISTED_TYPES).map(String::as_str).collect::<Vec<_>>();
    let more = if names.len() > LISTED_TYPES { " ..." } else { "" };
    format!("; the worker takes {}{more}{meant}", listed.join(", "))
}

/// The throttle of this type. Types beyond the bound share one.
fn of_type<'a>(all: &'a mut BTreeMap<String, Throttle>, kind: &str) -> &'a mut Throttle {
    let is_known = all.contains_key(kind) || all.len() < MOST_TYPES;
    all.entry(if is_known { kind.to_owned() } else { String::new() })
        .or_default()
}

/// The states of a job (OJS core 4) that a FAIL or a requeue can lead to.
const STATES: [&str; 7] = [
    "retryable",
    "available",
    "scheduled",
    "pending",
    "discarded",
    "cancelled",
    "completed",
];

/// Which of them it is, and whether there will be another attempt.
fn known(state: Option<&str>) -> (Option<&'static str>, bool) {
    let known = STATES.into_iter().find(|known| Some(*known) == state);
    let another = ["retryable", "available", "scheduled", "pending"];
    (known, known.is_some_and(|known| another.contains(&known)))
}

/// The record of a failure. The backend decides the next state, so the record has only the
/// backend's word.
fn failed(job: &Subject, error: &JobError, state: Option<&str>) -> LogRecord {
    let note = match known(state) {
        (known @ Some("discarded"), _) => note(Level::Error, job, known, &format!("Job discarded{}", attempts(job))),
        (known, true) => note(Level::Warn, job, known, "Job failed, will retry"),
        (known, false) => note(Level::Warn, job, known, &format!("Job failed{}", called(state))),
    };
    let mut names = [&error.kind, &error.code].into_iter().flatten();
    let name = names.find(|name| !name.is_empty());
    note.error(name.map_or(DEFAULT_ERROR_CODE, |name| name), &error.message)
}

fn given_back(job: &Subject, state: Option<&str>) -> LogRecord {
    match (known(state).0, state) {
        (known @ Some("discarded"), _) => note(Level::Error, job, known, "Job discarded when it was given back"),
        (known, None | Some("available")) => note(Level::Info, job, known, "Job given back to its queue"),
        (known, Some(_)) => note(Level::Info, job, known, &format!("Job given back{}", called(state))),
    }
}

fn in_parentheses(said: Option<&str>) -> String {
    said.map_or(String::new(), |said| format!(" ({said})"))
}

/// A state that is no usual one, in the backend's word.
fn called(state: Option<&str>) -> String {
    state.map_or(String::new(), |state| format!("; the backend calls it {state}"))
}

/// How many there were is certain only where none is left, and of the first.
fn attempts(job: &Subject) -> String {
    let attempts = match (job.attempt, job.max_attempts) {
        (Some(0), _) => Some(1),
        (Some(attempt), Some(most)) if attempt == most => Some(most),
        (Some(_) | None, _) => None,
    };
    match attempts {
        None => String::new(),
        Some(1) => " after 1 attempt".to_owned(),
        Some(attempts) => format!(" after {attempts} attempts"),
    }
}

fn note(level: Level, job: &Subject, state: Option<&'static str>, message: &str) -> LogRecord {
    LogRecord::new(level, message).of_job(job, state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_that_are_taken_are_listed_with_the_one_that_was_meant() {
        let taken: Vec<Text> = vec!["email.send".into(), "report.build".into()];
        let said = types_taken("emial.send", &taken);
        assert_eq!(
            said,
            "; the worker takes email.send, report.build; did you mean email.send?"
        );
        assert_eq!(
            types_taken("video", &taken),
            "; the worker takes email.send, report.build"
        );
        assert_eq!(types_taken("video", &[]), "");
        let many: Vec<Text> = (0..20).map(|number| format!("t{number:02}").into()).collect();
        let said = types_taken("video", &many);
        assert_eq!(said, "; the worker takes t00, t01, t02, t03, t04, t05, t06, t07 ...");
    }
}
