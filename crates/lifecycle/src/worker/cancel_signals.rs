//! SIGURG with each cancel, for holders that asked for it. A program with one thread reads nothing
//! while its handler sleeps or waits, and a signal interrupts that.

use std::time::Duration;

use crate::api::ids::HolderId;
use crate::api::{Effect, WorkerTimer};
use crate::worker::workers::{Context, Workers};
use ojs_values::signal::Signal;

/// Time between the SIGURG of a cancel and the next one. A signal that arrives just before a system
/// call does not interrupt that call, so one signal is not enough.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The pauses double up to this one, because a handler may go on for as long as it likes.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Workers {
    /// Wakes up the process of a holder whose job was cancelled, if the holder asked for it.
    pub(super) fn signal_cancel(&mut self, id: HolderId, cx: &Context) {
        self.signal_after(id, FIRST_PAUSE, cx);
    }

    /// Sends the next signal after a pause, because the holder still has a cancelled job.
    pub(crate) fn signal_again(&mut self, id: HolderId, cx: &Context) {
        if let Some(holder) = self.holders.get(id) {
            let pause = holder.signal_pause.saturating_mul(2).min(LONGEST_PAUSE);
            self.signal_after(id, pause, cx);
        }
    }

    fn signal_after(&mut self, id: HolderId, pause: Duration, cx: &Context) {
        let Some(holder) = self.holders.get(id) else { return };
        let wants_it = holder.ready.as_ref().is_some_and(|ready| ready.cancel_signal);
        let process = holder.process;
        // If the holder's process is unknown, `process` is the worker's own, and may be another
        // process than the holder's.
        let is_its_own = !holder.is_of_unknown_process && !self.holders.is_gone(process);
        if wants_it && is_its_own && self.holders.is_open(id) && self.holders.hears(id) {
            self.order(Effect::SignalProcess(process, Signal::URG));
            self.holders.change(id, |holder| holder.signal_pause = pause);
            self.timers.arm(WorkerTimer::CancelSignal(id), cx.now.after(pause));
        }
    }
}
