//! Ends, for the tests of what is said of them.

use super::*;

/// Why a worker was ended.
pub fn hung() -> EndCause {
    EndCause::Hung {
        job: job(3),
        told: CancelReason::Timeout,
        grace: Duration::from_secs(30),
    }
}

/// How a worker ended for want of memory.
pub fn out_of_memory() -> WorkerEnd {
    WorkerEnd {
        ended: Ended::Signalled(Signal::KILL),
        oom_kills: 1,
    }
}

/// An end, as far as the log tells of it.
fn account(cause: Cause, worker: Option<WorkerEnd>, status: u8) -> Account {
    Account {
        cause,
        worker,
        ran: None,
        took: Duration::ZERO,
        status: Some(status),
        is_abandoned: false,
        unreported: 0,
        cut_off: 0,
        tally: Tally::default(),
    }
}

/// Every end that has words of its own.
pub fn last_words() -> Vec<Account> {
    let asked = account(Cause::Asked(Reason::Sigterm), Some(Ended::Exited(0).into()), 0);
    vec![
        Account {
            cut_off: 1,
            ..asked.clone()
        },
        Account {
            is_abandoned: true,
            cut_off: 1,
            status: Some(143),
            ..asked.clone()
        },
        Account {
            tally: Tally {
                stop: Some((Duration::ZERO, true)),
                ..Tally::default()
            },
            ..asked.clone()
        },
        asked,
        account(Cause::WorkerEnded, Some(Ended::Exited(0).into()), 0),
        account(Cause::WorkerEnded, Some(Ended::Exited(1).into()), 1),
        account(Cause::WorkerEnded, Some(out_of_memory()), 137),
        account(Cause::WorkerEnded, Some(Ended::Signalled(Signal::KILL).into()), 137),
        account(Cause::WorkerEnded, None, 137),
        account(Cause::NotStarted(127), None, 127),
        account(Cause::AtOnce, None, 130),
        Account {
            tally: Tally {
                ended_for: Some(hung()),
                ..Tally::default()
            },
            ..account(Cause::WorkerWasEnded, Some(Ended::Exited(143).into()), 1)
        },
    ]
}

/// Connections that take fewer jobs than before.
pub fn lost(lost: Option<(ConnectionId, ProcessId)>, more: usize) -> CapacityNews {
    CapacityNews::Lost {
        lost,
        more,
        takes: 4,
        most: 6,
    }
}
