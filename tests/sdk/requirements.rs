//! The nine requirements of the graceful shutdown specification, each as what has to be seen from
//! outside: by the backend, by who waits for the process, by who reads its log and probes it.

use ojs_devserver::{Event, JobSnapshot, JobState};

use crate::run::{HEARTBEAT, Plan, SHORT_GRACE, SHORT_LIMIT, Story};
use crate::support::sys::Ended;

/// The time that a busy machine may add, in milliseconds.
const NOISE: f64 = 400.0;

/// Longest pause of the heartbeats in the drain, in milliseconds.
const PAUSE: f64 = HEARTBEAT.as_millis() as f64 * 4.0 + NOISE;

/// Longest from a second SIGTERM to the end, in milliseconds: a second for the handlers, and the
/// last words.
const FORCED: f64 = 4000.0;

/// One thing that has to be so.
#[derive(Debug)]
pub struct Check {
    pub plan: Plan,
    /// As a sentence.
    pub says: &'static str,
    pub holds: fn(&Story) -> bool,
}

/// A requirement of the specification.
#[derive(Debug)]
pub struct Requirement {
    pub id: &'static str,
    pub says: &'static str,
    pub checks: &'static [Check],
}

const fn check(plan: Plan, says: &'static str, holds: fn(&Story) -> bool) -> Check {
    Check { plan, says, holds }
}

/// All of them, in the specification's order.
pub const ALL: [Requirement; 9] = [
    Requirement {
        id: "GS-001",
        says: "SIGTERM: quiet, drain, stop",
        checks: &[
            check(Plan::Terminated, "takes no job after the signal", takes_no_more),
            check(Plan::Terminated, "tells the backend that it is quiet", says_quiet),
            check(Plan::Terminated, "gets its jobs done, once each", gets_done),
            check(Plan::Terminated, "says terminate at last", says_terminate),
            check(Plan::Terminated, "exits with status 0", exits_well),
        ],
    },
    Requirement {
        id: "GS-002",
        says: "SIGINT: the same",
        checks: &[
            check(Plan::Interrupted, "takes no job after the signal", takes_no_more),
            check(Plan::Interrupted, "tells the backend that it is quiet", says_quiet),
            check(Plan::Interrupted, "gets its jobs done, once each", gets_done),
            check(Plan::Interrupted, "says terminate at last", says_terminate),
            check(Plan::Interrupted, "exits with status 0", exits_well),
        ],
    },
    Requirement {
        id: "GS-003",
        says: "a grace period that can be set, else 30 s",
        checks: &[
            check(
                Plan::CutOff,
                "waits as long as it was told, and no longer",
                keeps_its_grace,
            ),
            check(Plan::Usual, "lets a job of 27 s end where nothing is set", gets_done),
        ],
    },
    Requirement {
        id: "GS-004",
        says: "heartbeats in the drain",
        checks: &[
            check(Plan::Terminated, "beats until its last job is done", beats_in_the_drain),
            check(Plan::Terminated, "names its jobs in them", names_its_jobs),
        ],
    },
    Requirement {
        id: "GS-005",
        says: "FAIL with ShutdownError at its end",
        checks: &[
            check(Plan::CutOff, "fails the job that is left", fails_what_is_left),
            check(Plan::CutOff, "as ShutdownError, to be tried again", is_a_shutdown_error),
            check(Plan::CutOff, "says terminate at last", says_terminate),
            check(Plan::CutOff, "is gone in time", is_gone_in_time),
        ],
    },
    Requirement {
        id: "GS-R001",
        says: "SIGTSTP: quiet without an end",
        checks: &[
            check(Plan::Quieted, "tells the backend that it is quiet", says_quiet),
            check(Plan::Quieted, "gets its job done and takes no other", goes_on_in_quiet),
            check(Plan::Quieted, "takes jobs again after SIGCONT, from quiet", resumes),
        ],
    },
    Requirement {
        id: "GS-R002",
        says: "a second SIGTERM forces the end",
        checks: &[
            check(Plan::Twice, "is there after the first one", |story| story.was_there),
            check(Plan::Twice, "is gone soon after the second one", is_gone_soon),
            check(Plan::Twice, "fails the job that is left", gives_it_up),
        ],
    },
    Requirement {
        id: "GS-R003",
        says: "the log says how many jobs remain",
        checks: &[
            check(Plan::Terminated, "at the start of the drain", |story| {
                logs_count(story, 2)
            }),
            check(Plan::Terminated, "when a job is done", |story| logs_count(story, 1)),
        ],
    },
    Requirement {
        id: "GS-R004",
        says: "not ready while quiet",
        checks: &[
            check(Plan::Quieted, "is ready while it runs", |story| {
                story.readiness[0] == Some(200)
            }),
            check(Plan::Quieted, "is not while it is quiet", |story| {
                story.readiness[1] == Some(503)
            }),
        ],
    },
];

/// When it was first asked, in milliseconds.
fn t0(story: &Story) -> f64 {
    story.signals.first().copied().unwrap_or(f64::MAX)
}

fn ms(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The heartbeats that the backend took, from the first signal on.
fn beats(story: &Story) -> impl DoubleEndedIterator<Item = &Event> {
    let is_taken =
        |event: &&Event| event.operation == "heartbeat" && event.status == Some(200) && event.ms >= t0(story);
    story.events.iter().filter(is_taken)
}

fn takes_no_more(story: &Story) -> bool {
    story.late.as_ref().is_some_and(|job| job.times_delivered == 0)
}

fn says_quiet(story: &Story) -> bool {
    let until = story.signals.get(1).copied().unwrap_or(f64::MAX);
    beats(story).any(|beat| beat.state.as_deref() == Some("quiet") && beat.ms < until)
}

fn says_terminate(story: &Story) -> bool {
    let last = beats(story).next_back();
    last.is_some_and(|beat| beat.state.as_deref() == Some("terminate"))
}

fn is_done_once(job: &JobSnapshot) -> bool {
    job.state == JobState::Completed && job.times_acked == 1 && job.times_delivered == 1
}

/// Each job has been run once and acknowledged once.
pub fn gets_done(story: &Story) -> bool {
    story.jobs.iter().all(is_done_once)
}

fn exits_well(story: &Story) -> bool {
    matches!(story.ended, Some((_, Ended::Code(0))))
}

fn keeps_its_grace(story: &Story) -> bool {
    let [from, until] = [SHORT_GRACE, SHORT_LIMIT].map(|duration| t0(story) + ms(duration));
    story.ended.is_some_and(|(at, _)| (from - NOISE..until).contains(&at))
}

/// When the last ACK of the drain came; not a number if there was none.
fn drained(story: &Story) -> f64 {
    let acks = story
        .events
        .iter()
        .filter(|event| event.operation == "ack" && event.ms > t0(story));
    acks.map(|ack| ack.ms).fold(f64::NAN, f64::max)
}

fn beats_in_the_drain(story: &Story) -> bool {
    let end = drained(story);
    let mut moments = vec![t0(story)];
    moments.extend(beats(story).map(|beat| beat.ms).filter(|at| *at < end));
    moments.push(end);
    moments.len() > 3 && moments.windows(2).all(|pair| pair[1] - pair[0] <= PAUSE)
}

fn names_its_jobs(story: &Story) -> bool {
    // One may have been on its way at the signal.
    let drain = t0(story) + NOISE..drained(story) - NOISE;
    let mut beats = beats(story).filter(|beat| drain.contains(&beat.ms)).peekable();
    beats.peek().is_some() && beats.all(|beat| story.jobs.iter().any(|job| beat.jobs.contains(&job.id)))
}

/// When the job was failed, if the backend took that.
fn failed(story: &Story) -> Option<f64> {
    let job = &story.jobs.first()?.id;
    let is_fail = |event: &&Event| event.operation == "nack" && event.status == Some(200) && event.jobs.contains(job);
    story.events.iter().find(is_fail).map(|event| event.ms)
}

fn fails_what_is_left(story: &Story) -> bool {
    let [from, until] = [SHORT_GRACE, SHORT_LIMIT].map(|duration| t0(story) + ms(duration));
    failed(story).is_some_and(|at| (from - NOISE..until).contains(&at))
}

fn is_a_shutdown_error(story: &Story) -> bool {
    story.jobs.iter().all(|job| {
        let is_named = job.errors.last().is_some_and(|error| error.contains("ShutdownError"));
        is_named && [JobState::Retryable, JobState::Available].contains(&job.state)
    })
}

fn is_gone_in_time(story: &Story) -> bool {
    story.ended.is_some_and(|(at, _)| at < t0(story) + ms(SHORT_LIMIT))
}

fn goes_on_in_quiet(story: &Story) -> bool {
    let Some(&continued) = story.signals.get(1) else {
        return false;
    };
    let mut acks = story.events.iter().filter(|event| event.operation == "ack");
    let is_done = gets_done(story) && acks.next().is_some_and(|ack| ack.ms < continued);
    is_done && late_delivery(story).is_none_or(|at| at >= continued)
}

fn late_delivery(story: &Story) -> Option<f64> {
    let late = story.late.as_ref()?;
    let is_of_it = |event: &&Event| event.operation == "fetch" && event.jobs.contains(&late.id);
    story.events.iter().find(is_of_it).map(|event| event.ms)
}

fn resumes(story: &Story) -> bool {
    let is_later = late_delivery(story).is_some_and(|at| story.signals.get(1).is_some_and(|&again| at >= again));
    is_later && goes_on_in_quiet(story)
}

fn is_gone_soon(story: &Story) -> bool {
    let second = story.signals.get(1).copied().unwrap_or_default();
    story.was_there && story.ended.is_some_and(|(at, _)| at < second + FORCED)
}

fn gives_it_up(story: &Story) -> bool {
    let second = story.signals.get(1).copied().unwrap_or_default();
    failed(story).is_some_and(|at| (second - NOISE..second + FORCED).contains(&at)) && is_a_shutdown_error(story)
}

/// A line of the log says that so many jobs are left.
fn logs_count(story: &Story, count: usize) -> bool {
    let (one, other) = (format!(" {count} job"), format!(" {count} active job"));
    let is_about_it = |line: &str| line.contains(&one) || line.contains(&other);
    story.log.lines().any(is_about_it)
}
