//! The turns of the loop in which spans go to the collector.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use log::error;
use mio::Events;

use crate::daemon::event_loop::{EventLoop, now};
use crate::daemon::tokens::TokenOwner;

impl EventLoop {
    /// Sends spans after all that jobs need. A panic costs the spans and nothing else.
    pub(super) fn serve_collector(&mut self) {
        let Self {
            traces,
            poll,
            polled_at,
            ..
        } = self;
        let Some(exporter) = traces else { return };
        let turn = AssertUnwindSafe(|| exporter.turn(poll.registry(), now(), *polled_at));
        if panic::catch_unwind(turn).is_err() {
            error!("internal error in the traces: no further spans are recorded");
            *traces = None;
        }
    }

    /// The machine has ordered the exit: the last spans get a short time.
    pub(super) fn send_last_spans(&mut self, ready: &mut Events) {
        let left = self.exit_by().map(|limit| limit.remaining(now()));
        let Some(until) = self.traces.as_ref().and_then(|traces| traces.begin_end(left, now())) else {
            return self.traces.iter_mut().for_each(|traces| traces.end());
        };
        while now() < until {
            self.traces.iter_mut().for_each(|traces| traces.hurry(now()));
            self.serve_collector();
            let Some(traces) = self.traces.as_ref().filter(|traces| traces.has_spans()) else {
                break;
            };
            let due = traces.next_deadline().map_or(until, |due| due.min(until));
            let wait = if traces.sender.has_more() {
                Duration::ZERO
            } else {
                due.remaining(now())
            };
            if self.ask_kernel(ready, Some(wait)).is_err() {
                ready.clear();
            }
            for event in &*ready {
                if let TokenOwner::Collector(slot) = TokenOwner::of(event.token()) {
                    self.traces
                        .iter_mut()
                        .for_each(|traces| traces.sender.is_ready(slot, event));
                }
            }
        }
        self.traces.iter_mut().for_each(|traces| traces.end());
    }
}
