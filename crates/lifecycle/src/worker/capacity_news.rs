//! The log lines about a worker that accepts more or fewer jobs than before, or asks for more jobs
//! or other queues than the configuration allows.
//!
//! Capacity changes in crowds: a parent starts its processes one after the other, or loses them all
//! at once. The line is therefore written after a moment, and not again for a while. The last line
//! always has the number that counts.

use std::time::Duration;

use crate::api::{CapacityNews, HolderId, MAX_CONCURRENCY, ProcessId, Text, WorkerNotice, WorkerTimer};
use crate::worker::capacity::Capacity;
use crate::worker::workers::{Context, Workers};

/// Time after the `ready` of the last new holder until the set of holders counts as complete.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// Most holders whose `ready` is reported within that time; the others share one line.
const MOST_READY_LINES: u32 = 64;

/// Least time between two lines about the capacity.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Time between a change and its line. A holder that closes its connection is most often ending,
/// and other lines report that.
const TELL_AFTER: Duration = Duration::from_millis(500);

/// Most queues that are remembered because they were refused.
const MOST_REFUSED_QUEUES: usize = 100;

impl Workers {
    /// Resets the capacity, because another incarnation begins without a holder.
    pub(super) fn capacity_begins_anew(&mut self) {
        self.capacity = Capacity::default();
        self.timers.cancel(WorkerTimer::Capacity);
        self.timers.cancel(WorkerTimer::Settled);
    }

    /// Notes a holder's `ready` with new conditions.
    pub(super) fn capacity_is_said(&mut self, notice: WorkerNotice, is_first: bool, cx: &Context) {
        if is_first && !self.capacity.is_compared {
            self.timers.arm(WorkerTimer::Settled, cx.now.after(SETTLED_AFTER));
        }
        if self.capacity.ready_lines_until.is_none_or(|until| until <= cx.now) {
            self.capacity.ready_lines = 0;
            self.capacity.ready_lines_until = Some(cx.now.after(TELL_EVERY));
        }
        if self.capacity.ready_lines < MOST_READY_LINES {
            self.capacity.ready_lines += 1;
            self.notify(notice);
        } else {
            self.capacity.is_owed = true;
        }
        self.capacity_changed(cx);
    }

    /// Notes a holder that left or gets no more jobs.
    pub(super) fn capacity_is_lost(&mut self, holder: HolderId, process: ProcessId, cx: &Context) {
        match self.capacity.lost {
            None => self.capacity.lost = Some((holder, process)),
            Some(_) => self.capacity.more_lost += 1,
        }
        self.capacity_changed(cx);
    }

    /// Notes how many jobs the holders had and asked for at one time. If the concurrency allows
    /// fewer, the log gets one line a moment later, because many workers ask for their jobs one by
    /// one.
    pub(crate) fn were_asked_at_once(&mut self, at_once: usize, cx: &Context) {
        let asked = u64::try_from(at_once).unwrap_or(u64::MAX);
        self.capacity.most_asked = self.capacity.most_asked.max(asked);
        if self.asks_for_too_many(cx) && !self.capacity.is_compared {
            self.settles_later(cx);
        }
    }

    /// Notes that a holder asks for jobs of this queue, which the configuration does not have. The
    /// log gets one line for all such queues a moment later, because each process may name others.
    pub(super) fn queue_is_refused(&mut self, queue: Text, cx: &Context) {
        let refused = &mut self.capacity.refused_queues;
        if refused.len() >= MOST_REFUSED_QUEUES || refused.contains(&queue) {
            return;
        }
        refused.push(queue);
        if !self.capacity.refused_queues_are_told {
            self.settles_later(cx);
        }
    }

    /// Queues that the worker asked for and that the configuration does not have.
    pub(crate) fn refused_queues(&self) -> &[Text] {
        &self.capacity.refused_queues
    }

    fn settles_later(&mut self, cx: &Context) {
        self.timers
            .arm_at_latest(WorkerTimer::Settled, cx.now.after(SETTLED_AFTER));
    }

    /// Whether holders that name their queues ask for more jobs than the configuration allows.
    fn asks_for_too_many(&self, cx: &Context) -> bool {
        let allowed = cx.options.concurrency;
        let is_bounded = cx.options.queues.are_named_by_holders() && allowed < MAX_CONCURRENCY;
        is_bounded && self.capacity.most_asked > u64::from(allowed)
    }

    fn capacity_changed(&mut self, cx: &Context) {
        let all = self.holders.concurrency();
        self.capacity.most = self.capacity.most.max(all);
        self.capacity.most_since = self.capacity.most_since.max(all);
        if cx.is_terminating() {
            return;
        }
        let soon = cx.now.after(TELL_AFTER);
        let at = self.capacity.quiet_until.map_or(soon, |until| until.max(soon));
        self.timers.arm_at_latest(WorkerTimer::Capacity, at);
    }

    /// Logs the capacity. A change because of the worker's end is logged with that end.
    pub(super) fn tell_capacity(&mut self, cx: &Context) {
        let process = self.supervision.process().filter(|_| self.supervision.is_alive());
        let is_ending = |process| self.holders.ending(process).is_some();
        if cx.is_terminating() || process.is_none_or(is_ending) {
            return;
        }
        let all = self.holders.concurrency();
        let allowed = u64::from(cx.options.concurrency);
        let (takes, most) = (all.min(allowed), self.capacity.most.min(allowed));
        let lost = self.capacity.lost.take();
        let more = std::mem::take(&mut self.capacity.more_lost);
        let before = std::mem::replace(&mut self.capacity.compared, all);
        let most_since = std::mem::replace(&mut self.capacity.most_since, all);
        // A holder that is replaced before it leaves reduces nothing.
        if takes < most_since.min(allowed) {
            self.capacity.is_owed = true;
            self.notify(WorkerNotice::Capacity(CapacityNews::Lost {
                lost,
                more,
                takes,
                most,
            }));
        } else if all > before && std::mem::take(&mut self.capacity.is_owed) {
            self.capacity.is_owed = all < self.capacity.most;
            self.notify(WorkerNotice::Capacity(CapacityNews::Gained { takes, most }));
        } else {
            return;
        }
        self.capacity.quiet_until = Some(cx.now.after(TELL_EVERY));
    }

    /// Compares the worker's capacity with the configuration, because all expected holders have
    /// probably connected.
    pub(super) fn has_settled(&mut self, cx: &Context) {
        self.tell_refused_queues();
        self.compare_capacity(cx);
    }

    /// Logs the refused queues, once for each start of the worker.
    fn tell_refused_queues(&mut self) {
        let refused = &self.capacity.refused_queues;
        if !self.supervision.is_alive() || refused.is_empty() || self.capacity.refused_queues_are_told {
            return;
        }
        let refused = refused.clone();
        self.capacity.refused_queues_are_told = true;
        self.notify(WorkerNotice::QueuesRefused(refused));
    }

    /// Compares the two numbers, once. Holders that have left meanwhile count as well, and with
    /// `--once` the difference is intended.
    fn compare_capacity(&mut self, cx: &Context) {
        let (takes, allowed) = (self.capacity.most, cx.options.concurrency);
        let asks_for_too_many = self.asks_for_too_many(cx);
        if !self.supervision.is_alive() || takes == 0 && !asks_for_too_many || cx.options.once {
            return;
        }
        self.capacity.is_compared = true;
        if asks_for_too_many {
            let asked = self.capacity.most_asked;
            self.notify(WorkerNotice::Capacity(CapacityNews::TooManyAskedFor { asked, allowed }));
        } else if takes != u64::from(allowed) {
            self.notify(WorkerNotice::Capacity(CapacityNews::Differs { takes, allowed }));
        }
    }
}
