//! The memory gate. While the container uses more than a share of its memory limit, ojs-init sends
//! no FETCH. Running jobs and everything else continue.

use std::time::Duration;

use crate::api::{LinkNotice, LinkTimer};
use crate::backend::link::{Context, Link};

/// The gate opens again this many points below the share at which it closes. A gate that opened
/// earlier would accept the job that closes it.
const REOPENS_BELOW: u8 = 5;

/// How often a closed gate may open. A longer pause would waste time without jobs. A shorter one
/// would log a line for each small change of a job's memory.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The share at which a gate that closes above this one opens again, in percent.
fn reopens_at(most: u8) -> u8 {
    most.saturating_sub(REOPENS_BELOW)
}

impl Link {
    /// The container uses this share of its memory limit, in percent.
    pub(crate) fn memory_is_taken(&mut self, taken: u8, cx: &Context) {
        let Some(most) = cx.options.memory_gate else { return };
        self.memory_taken = Some(taken);
        if !cx.is_terminating() && !self.memory_gate_is_closed && taken > most {
            self.memory_gate_is_closed = true;
            self.notify(LinkNotice::MemoryGateClosed {
                taken,
                most,
                reopens_at: reopens_at(most),
            });
            self.timers.arm(LinkTimer::MemoryGate, cx.now.after(LOOK_AGAIN_AFTER));
        }
    }

    /// The gate was closed for a while. Because this timer is due, the shell reads the memory
    /// first.
    pub(crate) fn look_at_memory_gate(&mut self, cx: &Context) {
        let (Some(most), Some(taken)) = (cx.options.memory_gate, self.memory_taken) else {
            return;
        };
        if cx.is_terminating() {
            // ojs-init asks for no more jobs.
        } else if taken <= reopens_at(most) {
            self.memory_gate_is_closed = false;
            self.notify(LinkNotice::MemoryGateOpened { taken });
        } else {
            self.timers.arm(LinkTimer::MemoryGate, cx.now.after(LOOK_AGAIN_AFTER));
        }
    }
}
