//! Ends and a heartbeat, for the tests of their records.

use super::*;
use ojs_lifecycle::api::{
    CapacityNews, Death, Departure, EndCause, Force, HolderId, ProcessId, RecycleReason, StillThere, Takes, Trouble,
};

/// Why a worker was ended.
pub fn hung() -> EndCause {
    EndCause::Hung {
        job: job(3),
        told: CancelReason::Timeout,
        grace: Duration::from_secs(30),
    }
}

/// A drain, from its beginning to its end.
pub fn drains(left: Duration) -> [Notice; 3] {
    let began = Notice::Ending(EndingNotice::DrainBegan {
        active: 2,
        reporting: 0,
        left,
    });
    let goes_on = Notice::Ending(EndingNotice::Draining {
        active: 1,
        reporting: 1,
        left,
    });
    [began, goes_on, Notice::Ending(EndingNotice::Drained)]
}

/// The memory gate closes, or opens.
pub fn memory_gate(closes: bool) -> Notice {
    if closes {
        Notice::Link(LinkNotice::MemoryGateClosed {
            taken: 91,
            most: 90,
            reopens_at: 85,
        })
    } else {
        Notice::Link(LinkNotice::MemoryGateOpened { taken: 85 })
    }
}

/// How a worker ended for want of memory.
pub fn out_of_memory() -> WorkerEnd {
    WorkerEnd {
        ended: Ended::Signalled(Signal::KILL),
        oom_kills: 1,
    }
}

/// The report of an end, as far as the log needs it.
fn account(cause: EndedBy, worker: Option<WorkerEnd>, status: u8) -> EndReport {
    EndReport {
        cause,
        worker,
        ran: None,
        took: Duration::ZERO,
        status: Some(status),
        is_abandoned: false,
        unreported: 0,
        cut_off: 0,
        tally: ShutdownCounts::default(),
        backend: None,
    }
}

/// Every end that has its own words.
pub fn last_words() -> Vec<EndReport> {
    let asked = account(EndedBy::Asked(Reason::Sigterm), Some(Ended::Exited(0).into()), 0);
    vec![
        EndReport {
            cut_off: 1,
            ..asked.clone()
        },
        EndReport {
            tally: ShutdownCounts {
                left: 2,
                ..ShutdownCounts::default()
            },
            ..asked.clone()
        },
        EndReport {
            is_abandoned: true,
            cut_off: 1,
            status: Some(143),
            ..asked.clone()
        },
        EndReport {
            tally: ShutdownCounts {
                stop: Some((Duration::ZERO, true)),
                ..ShutdownCounts::default()
            },
            ..asked.clone()
        },
        EndReport {
            backend: Some(Trouble {
                failure: Failure::Unauthorized,
                failed: 0,
                lasted: Duration::from_secs(60),
                waiting: 0,
                lapses_in: None,
                is_from_the_start: true,
            }),
            ..asked.clone()
        },
        asked,
        account(EndedBy::WorkerEnded, Some(Ended::Exited(0).into()), 0),
        account(EndedBy::WorkerEnded, Some(Ended::Exited(1).into()), 1),
        account(EndedBy::WorkerEnded, Some(out_of_memory()), 137),
        account(EndedBy::WorkerEnded, Some(Ended::Signalled(Signal::KILL).into()), 137),
        account(EndedBy::WorkerEnded, None, 137),
        EndReport {
            tally: with_one_that_died(),
            ..account(
                EndedBy::Asked(Reason::Sigterm),
                Some(Ended::Signalled(Signal::KILL).into()),
                137,
            )
        },
        EndReport {
            tally: with_one_that_died(),
            ..account(EndedBy::WorkerEnded, Some(Ended::Signalled(Signal::KILL).into()), 137)
        },
        account(EndedBy::NotStarted(127), None, 127),
        account(EndedBy::AtOnce, None, 130),
        EndReport {
            tally: ShutdownCounts {
                ended_for: Some(hung()),
                ..ShutdownCounts::default()
            },
            ..account(EndedBy::WorkerWasEnded, Some(Ended::Exited(143).into()), 1)
        },
    ]
}

fn with_one_that_died() -> ShutdownCounts {
    ShutdownCounts {
        died: 1,
        died_names: [(job(3).id.clone(), job(3).kind.clone())].into(),
        ..ShutdownCounts::default()
    }
}

/// A process that ended while it held a job.
fn died() -> Notice {
    Notice::Job(JobNotice::JobsDied {
        death: Death {
            departure: Departure::Worker(Ended::Signalled(Signal::KILL).into()),
            held: 1,
        },
        jobs: vec![job(3)],
    })
}

/// Connections that accept fewer jobs than before.
pub fn lost(lost: Option<(HolderId, ProcessId)>, more: usize) -> CapacityNews {
    CapacityNews::Lost {
        lost,
        more,
        takes: 4,
        most: 6,
    }
}

/// Each notice about a stop signal, once for each of its texts, and the one about the jobs of a
/// gone process.
pub fn stops() -> Vec<Notice> {
    let soon = Duration::from_secs(2);
    let force = |by, nth, after| Force { by, nth, after };
    let second = force(Reason::Sigterm, 2, Some((Reason::Sigterm, soon)));
    let other = force(Reason::Sigint, 2, Some((Reason::Sigterm, soon)));
    let third = force(Reason::Sigterm, 3, Some((Reason::Sigterm, soon)));
    let began = |held, forced| Notice::Ending(EndingNotice::StopBegan { held, forced });
    let at_once = |by| Notice::Ending(EndingNotice::EndingAtOnce { by, active: 1 });
    let gave_up = |why| Notice::Ending(EndingNotice::KillGaveUp { why, held: 1 });
    vec![
        Notice::Ending(EndingNotice::SameRequest(Reason::Sigterm, soon)),
        Notice::Ending(EndingNotice::SameRequest(Reason::Sigcont, soon)),
        began(0, None),
        began(1, None),
        began(0, Some(second)),
        began(1, Some(other)),
        began(1, Some(Force::BY_OPERATOR)),
        Notice::Ending(EndingNotice::GraceEnded { by: second, active: 1 }),
        at_once(third),
        at_once(force(Reason::Sigint, 1, None)),
        gave_up(StillThere::Held),
        gave_up(StillThere::NoTime(soon)),
        gave_up(StillThere::Overdue(soon)),
        died(),
    ]
}

/// A request that names no job.
pub fn heartbeat() -> Call {
    Call::Heartbeat {
        worker: WorkerId("w1".into()),
        state: WorkerState::Running,
        active: Vec::new(),
        visibility: Duration::from_secs(5),
        takes: Takes::default(),
        form: HeartbeatForm::Full,
    }
}

/// A job is given back.
pub fn requeued() -> Outcome {
    Outcome::Requeued {
        reason: "so".into(),
        after: Duration::ZERO,
    }
}

/// Notices of jobs that are given back again and again, each of another type, because a type has
/// its line once.
pub fn given_back_again() -> Vec<Notice> {
    let cases = [("v", true, true), ("w", false, true), ("x", false, false)];
    let notice = |(kind, is_of_type, is_held): (&str, bool, bool)| {
        Notice::Job(JobNotice::GivenBackAgain {
            job: Arc::new(Subject {
                kind: kind.into(),
                ..(*job(3)).clone()
            }),
            times: 3,
            is_of_type,
            is_held,
        })
    };
    cases.map(notice).to_vec()
}

/// A worker that is started again, and one that is recycled at its second attempt.
pub fn recyclings(soon: Duration) -> [Notice; 5] {
    let reason = RecycleReason::Jobs(50);
    [
        Notice::Worker(WorkerNotice::DescendantsLeft(soon)),
        Notice::Worker(WorkerNotice::RestartIn(soon)),
        Notice::Worker(WorkerNotice::Recycling {
            reason,
            held: 2,
            grace: soon,
        }),
        Notice::Worker(WorkerNotice::NextNotReady(soon)),
        Notice::Worker(WorkerNotice::Recycled { reason, took: soon }),
    ]
}
