//! Ends of the worker that ojs-init caused: the worker ends with a process that ojs-init ended, or
//! just after it.

use crate::api::{EndCause, Moment, ProcessId, WorkerEnd};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// A process that was ended, as long as the end of the worker may be a consequence of that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Blame {
    pub(super) process: ProcessId,
    pub(super) cause: EndCause,
    /// How long the end of a worker that is another process counts as a consequence.
    pub(super) until: Moment,
}

impl Blame {
    /// Whether a worker that is the process `main`, and ended like this, was ended by ojs-init.
    pub(super) fn explains(&self, main: ProcessId, end: WorkerEnd, now: Moment) -> bool {
        // If memory ran out, the kernel is a better explanation than a child's end.
        let is_consequence = self.process == main || self.is_recent(now) && end.oom_kills == 0;
        // A worker that catches SIGTERM may end with a shell's status for it.
        let is_of_our_signal = end.ended.status() == Ended::Signalled(Signal::TERM).status()
            || end.ended == Ended::Signalled(Signal::KILL);
        match self.cause {
            // Most often the worker was ending by itself, and its own status gives the reason.
            EndCause::Disconnected => is_of_our_signal && is_consequence,
            EndCause::Hung { .. } | EndCause::Silent | EndCause::Deaf | EndCause::Garbled | EndCause::Recycled => {
                is_consequence
            }
            EndCause::Orphaned => false,
        }
    }

    /// Whether an end at this moment may still be a consequence.
    pub(super) fn is_recent(&self, now: Moment) -> bool {
        self.until > now
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn blame(cause: EndCause) -> Blame {
        Blame {
            process: ProcessId(7),
            cause,
            until: at(10),
        }
    }

    #[test]
    fn the_worker_that_was_ended_is_ended_by_us_however_late_and_with_whatever_status() {
        for ended in [Ended::Exited(0), Ended::Exited(3), Ended::Signalled(Signal::KILL)] {
            assert!(blame(EndCause::Silent).explains(ProcessId(7), ended.into(), at(60)));
        }
    }

    #[test]
    fn a_parent_that_ends_right_after_the_process_that_was_ended_is_ended_by_us_and_a_later_one_is_not() {
        let blame = blame(EndCause::Deaf);
        assert!(blame.explains(ProcessId(1), Ended::Exited(1).into(), at(9)));
        assert!(!blame.explains(ProcessId(1), Ended::Exited(1).into(), at(10)));
        let out_of_memory = WorkerEnd {
            ended: Ended::Signalled(Signal::KILL),
            oom_kills: 1,
        };
        assert!(!blame.explains(ProcessId(1), out_of_memory, at(9)));
    }

    #[test]
    fn a_worker_that_closed_its_connection_and_ends_with_a_status_of_its_own_ended_by_itself() {
        let blame = blame(EndCause::Disconnected);
        assert!(!blame.explains(ProcessId(7), Ended::Exited(3).into(), at(1)));
        assert!(!blame.explains(ProcessId(7), Ended::Signalled(Signal::HUP).into(), at(1)));
        assert!(blame.explains(ProcessId(7), Ended::Exited(143).into(), at(1)));
        assert!(blame.explains(ProcessId(7), Ended::Signalled(Signal::TERM).into(), at(1)));
    }
}
