//! The important moments of a shutdown: the marks, and the workers' reports of it.

use super::axis::{Axis, drawable};
use super::fit::{clean, tail};
use super::mark::Mark;
use super::story::{SeenHeartbeat, SeenWorker, Story, WorkerEnd};
use super::symbol::{Harm, ReportedState};

/// Letters that distinguish several workers.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The letter of the workers beyond these.
const NO_LETTER: char = '*';

/// The numbers of the moments.
pub(super) const NUMBERS: &str = "123456789abcdefghijklmnopqrstuvwxyz";

/// A moment that matters to a shutdown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyMoment {
    pub ms: f64,
    pub text: String,
    /// Whether it is a mark, from outside of the server.
    pub is_mark: bool,
}

/// The letter of a worker, by its place among the workers.
pub(super) fn letter(index: usize) -> char {
    LETTERS.chars().nth(index).unwrap_or(NO_LETTER)
}

/// The moments that matter, oldest first.
pub(super) fn moments(story: &Story, marks: &[Mark]) -> Vec<KeyMoment> {
    let mut moments: Vec<KeyMoment> = marks
        .iter()
        .map(|mark| KeyMoment {
            ms: drawable(mark.ms),
            text: clean(&mark.text),
            is_mark: true,
        })
        .collect();
    for (index, worker) in story.workers.iter().enumerate() {
        // The only one is not named again: names can be long, and the line is short.
        let whose = match letter(index) {
            _ if story.workers.len() == 1 => String::new(),
            NO_LETTER => format!("{}: ", tail(&clean(&worker.id), 12)),
            letter => format!("{letter}: "),
        };
        let theirs = worker_moments(worker).into_iter().map(|(ms, what)| KeyMoment {
            ms,
            text: format!("{whose}{what}"),
            is_mark: false,
        });
        moments.extend(theirs);
    }
    moments.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    moments
}

/// The moments that matter about a worker.
fn worker_moments(worker: &SeenWorker) -> Vec<(f64, String)> {
    let mut moments = Vec::new();
    let mut said = ReportedState::Running;
    let mut seen = Vec::new();
    for beat in &worker.heartbeats {
        if beat.state != said && beat.state != ReportedState::Other {
            let first = if seen.contains(&beat.state) { "" } else { "first " };
            moments.push((beat.ms, format!("{first}heartbeat that says {}", beat.state.word())));
            seen.push(beat.state);
            said = beat.state;
        }
    }
    let mut before = f64::NEG_INFINITY;
    for (ms, end) in &worker.ends {
        let of_this_life = |beat: &&SeenHeartbeat| beat.ms > before && beat.ms <= *ms;
        let last = worker.heartbeats.iter().rev().find(of_this_life);
        moments.extend(last.map(|beat| (beat.ms, format!("last heartbeat, says {}", beat.state.word()))));
        let what = match end {
            WorkerEnd::Deregistered => "deregister".to_owned(),
            WorkerEnd::DeclaredDead => "declared dead".to_owned(),
            WorkerEnd::DeregisterFailed(Harm::Status(status)) => format!("deregister, answered with {status}"),
            WorkerEnd::DeregisterFailed(_) => "deregister, no answer".to_owned(),
        };
        moments.push((*ms, what));
        before = *ms;
    }
    moments
}

/// As many of the moments on the axis as there are numbers: first the ones from outside.
pub(super) fn numbered(moments: Vec<KeyMoment>, axis: &Axis) -> (Vec<KeyMoment>, usize) {
    let mut seen: Vec<KeyMoment> = moments.into_iter().filter(|moment| axis.contains(moment.ms)).collect();
    let more = seen.len().saturating_sub(NUMBERS.len());
    seen.sort_by_key(|moment| !moment.is_mark);
    seen.truncate(NUMBERS.len());
    seen.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    (seen, more)
}
