//! The memory gate. While the container uses more than a share of its memory limit, no FETCH goes
//! out. The jobs that are here go on, and so does everything else.

use std::time::Duration;

use crate::api::{LinkNotice, LinkTimer};
use crate::backend::link::{Context, Link};

/// So far below the share at which the gate closes it opens again, in points: a gate that opens at
/// once would let in the job that closes it.
const REOPENS_BELOW: u8 = 5;

/// How often a closed gate may open. Less often would be time without jobs, more often a line of
/// the log for each breath of a job.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The share at which a gate that closes above this one opens again, in percent.
fn reopens_at(most: u8) -> u8 {
    most.saturating_sub(REOPENS_BELOW)
}

impl Link {
    /// So much of the memory is taken now, in percent.
    pub(crate) fn memory_is_taken(&mut self, taken: u8, cx: &Context) {
        let Some(most) = cx.options.memory_gate else { return };
        self.memory_gate.taken = Some(taken);
        if !cx.is_terminating() && !self.memory_gate.is_closed && taken > most {
            self.memory_gate.is_closed = true;
            self.notify(LinkNotice::MemoryGateClosed {
                taken,
                most,
                reopens_at: reopens_at(most),
            });
            self.timers.arm(LinkTimer::MemoryGate, cx.now.after(LOOK_AGAIN_AFTER));
        }
    }

    /// The gate was closed for a while. That this is due makes the shell look at the memory before
    /// it says so.
    pub(crate) fn look_at_memory_gate(&mut self, cx: &Context) {
        let (Some(most), Some(taken)) = (cx.options.memory_gate, self.memory_gate.taken) else {
            return;
        };
        if cx.is_terminating() {
            // Nobody is asked for jobs any more.
        } else if taken <= reopens_at(most) {
            self.memory_gate.is_closed = false;
            self.notify(LinkNotice::MemoryGateOpened { taken });
        } else {
            self.timers.arm(LinkTimer::MemoryGate, cx.now.after(LOOK_AGAIN_AFTER));
        }
    }
}
