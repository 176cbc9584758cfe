//! The events of the walk through the end, and the answers of the other parts.

use crate::api::Directive;
use crate::shutdown::ending::Facts;
use ojs_values::signal::Signal;

/// How the jobs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Jobs {
    None,
    Asked,
    Claimed,
    Held,
}

/// How the worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Alive,
    Ending,
    Over,
}

/// How the link to the backend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Link {
    Unknown,
    Registering,
    Known,
    Beating,
    SayingLast,
    Deregistering,
}

/// The answers of the other parts at one moment. The next answers may be anything, because the walk
/// remembers none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Others {
    jobs: Jobs,
    worker: Worker,
    link: Link,
    operators_wait: bool,
}

const JOBS: [Jobs; 4] = [Jobs::None, Jobs::Asked, Jobs::Claimed, Jobs::Held];
const WORKERS: [Worker; 3] = [Worker::Alive, Worker::Ending, Worker::Over];
const LINKS: [Link; 6] = [
    Link::Unknown,
    Link::Registering,
    Link::Known,
    Link::Beating,
    Link::SayingLast,
    Link::Deregistering,
];

impl Others {
    /// Every answer. A request to end reads few of the answers, so it meets fewer of them.
    pub(super) fn all(event: Event) -> Vec<Self> {
        let is_request = !matches!(
            event,
            Event::Advance | Event::TimeComes | Event::EndIfIdle | Event::FoundNoJob
        );
        let jobs = if is_request { &JOBS[3..] } else { &JOBS[..] };
        let workers = if is_request { &WORKERS[..1] } else { &WORKERS[..] };
        let links = if is_request { &LINKS[..3] } else { &LINKS[..] };
        let operators = if is_request { &[false][..] } else { &[false, true] };
        let mut all = Vec::new();
        for (jobs, worker) in pairs(jobs, workers) {
            for (link, operators_wait) in pairs(links, operators) {
                all.push(Self {
                    jobs,
                    worker,
                    link,
                    operators_wait,
                });
            }
        }
        all
    }

    pub(super) fn facts(self) -> Facts {
        let has_jobs = matches!(self.jobs, Jobs::Claimed | Jobs::Held);
        Facts {
            unfinished: usize::from(has_jobs),
            has_jobs,
            has_held_jobs: self.jobs == Jobs::Held,
            has_nothing_to_do: !has_jobs,
            is_fetching: self.jobs == Jobs::Asked,
            is_looking_for_jobs: self.worker == Worker::Alive,
            is_recycling: false,
            worker_is_alive: self.worker == Worker::Alive,
            worker_is_over: self.worker == Worker::Over,
            worker_was_just_ended: false,
            operators_have_left: !self.operators_wait,
            is_known: !matches!(self.link, Link::Unknown | Link::Registering),
            owes_farewell: matches!(self.link, Link::Known | Link::Beating | Link::SayingLast),
            heartbeats: usize::from(self.link == Link::Beating),
            is_saying_last: self.link == Link::SayingLast,
            is_registering: self.link == Link::Registering,
            is_deregistering: self.link == Link::Deregistering,
        }
    }
}

fn pairs<A: Copy, B: Copy>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    a.iter().flat_map(|a| b.iter().map(|b| (*a, *b))).collect()
}

/// The events. `Left` bounds how often each kind may happen on one way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    Signal(Signal),
    ServerSays(Directive),
    Prestop,
    Stop,
    WorkerLost,
    LastHeartbeatAnswered,
    FoundNoJob,
    /// A little more than 100 ms pass, so a further signal is a separate request.
    TimePasses,
    /// To the next timer of the end.
    TimeComes,
    EndIfIdle,
    Advance,
}

/// How often each may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) term: u8,
    pub(super) tstp: u8,
    pub(super) cont: u8,
    pub(super) server: u8,
    pub(super) prestop: u8,
    pub(super) stop: u8,
    pub(super) lost: u8,
    pub(super) answers: u8,
    pub(super) empty: u8,
    pub(super) pauses: u8,
}

pub(super) const NOTHING: Left = Left {
    term: 0,
    tstp: 0,
    cont: 0,
    server: 0,
    prestop: 0,
    stop: 0,
    lost: 0,
    answers: 1,
    empty: 0,
    pauses: 0,
};
