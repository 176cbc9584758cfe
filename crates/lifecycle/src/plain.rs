//! The plain init (mode none). ojs-init forwards signals to the child and exits with its status.
//! With a limit it enforces the end.
//!
//! ```text
//!            stop signal           deadline             all reaped, or given up
//!   Running -------------> Stopping -------> Killing -------------------------> Gone
//!      |                      |                 ^                                ^
//!      | child ended          | child ended     | deadline                       |
//!      +-----> ChildGone <----+                 |                                |
//!                  |--------> Leftovers --------+                                |
//!                  |  some       |                                               |
//!                  +-------------+-----------------------------------------------+
//!                     no descendant is left
//! ```
//!
//! Without a limit only Running and Gone exist, because ojs-init exits when the child ends.
//!
//! SIGTERM goes to direct children only, so a supervisor among the leftovers ends its own children
//! in its own order. ojs-init adopts the processes that it leaves behind, and sends them SIGTERM
//! then.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::api::{Budget, KILL_RESCAN_AFTER, Moment, RESCAN_AFTER};
use crate::timers::Timers;
use ojs_values::exit::{Ended, RemapExit};
use ojs_values::signal::Signal;

/// Time for SIGKILLed processes to be reaped, at most half of the time left until the
/// orchestrator's own SIGKILL.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(1);

/// Usual number of orders in the queue. Allocated at the start, because the exit would first have
/// to read the allocator's code again.
const USUAL_EFFECTS: usize = 4;

/// How this init was configured.
#[derive(Debug, Clone, Default)]
pub struct PlainOptions {
    /// Signals to replace before they are forwarded; none drops them (`-r`).
    pub rewrite: BTreeMap<Signal, Option<Signal>>,
    /// Forward to the child's whole process group (`-g`).
    pub process_group: bool,
    /// Statuses of the child that become 0 (`-e`).
    pub remap_exit: RemapExit,
    /// How long a stop may last. Without a budget ojs-init waits for ever.
    pub budget: Option<Budget>,
}

/// Facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainEvent {
    /// A process sent ojs-init this signal; never SIGCHLD.
    SignalArrived(Signal),
    ChildEnded(Ended),
    /// Every ended child was reaped. `children_left` states whether ojs-init still has children,
    /// adopted ones included.
    Reaped {
        children_left: bool,
    },
}

/// The timers. If two are due at one moment, the one listed first here is handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlainTimer {
    /// When ojs-init stops waiting for processes that SIGKILL did not end.
    GiveUp,
    /// When the time of the child after a stop request ends.
    Deadline,
    /// When ojs-init looks for descendants that it adopted since the last look.
    Rescan,
}

/// The receiver of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalTarget {
    Child,
    Group,
}

/// Orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainEffect {
    Send(Signal, SignalTarget),
    /// SIGTERM and SIGCONT to each child that has not received them yet.
    TerminateLeftovers,
    /// SIGKILL to the child's group, and to every other process of ojs-init: the whole namespace if
    /// it is PID 1, otherwise its children.
    KillEverything,
    /// Write a line of the log.
    Notify(PlainNotice),
    /// End with this status. Nothing follows.
    Exit(u8),
}

/// Facts for the log; the shell finds the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainNotice {
    /// A stop signal started the clock.
    StopAsked(Signal, Duration),
    Dropped(Signal),
    /// The child ended, and its leftovers get this long.
    LeftoversFound(Duration),
    DeadlineReached,
    /// SIGKILLed processes still exist, because the kernel holds them. ojs-init exits without them.
    GaveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlainPhase {
    /// The child runs.
    Running,
    /// A stop signal was forwarded; the deadline is set.
    Stopping,
    /// The child was reaped. Whether it left descendants is not known yet.
    ChildGone,
    /// The child left processes behind, which have until the deadline.
    Leftovers,
    /// SIGKILL was sent.
    Killing,
    /// Exit was ordered.
    Gone,
}

/// The machine. One event or timeout at a time, then drain the effects.
#[derive(Debug)]
pub struct PlainInit {
    options: PlainOptions,
    phase: PlainPhase,
    ended: Option<Ended>,
    timers: Timers<PlainTimer>,
    effects: VecDeque<PlainEffect>,
}

impl PlainInit {
    /// An init whose child has just started.
    pub fn new(options: PlainOptions) -> Self {
        Self {
            options,
            phase: PlainPhase::Running,
            ended: None,
            timers: Timers::default(),
            effects: VecDeque::with_capacity(USUAL_EFFECTS),
        }
    }

    /// Handles one fact.
    pub fn handle(&mut self, event: PlainEvent, now: Moment) {
        match event {
            PlainEvent::SignalArrived(signal) => self.signal(signal, now),
            PlainEvent::ChildEnded(ended) => self.child_ended(ended),
            PlainEvent::Reaped { children_left } => self.reaped(children_left, now),
        }
    }

    /// Acts on every timer that is due.
    pub fn handle_timeout(&mut self, now: Moment) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                PlainTimer::Deadline => self.deadline(now),
                PlainTimer::Rescan => self.rescan(),
                PlainTimer::GiveUp => self.give_up(),
            }
        }
    }

    /// The next order, until there is none.
    pub fn poll_effect(&mut self) -> Option<PlainEffect> {
        self.effects.pop_front()
    }

    /// When to call `handle_timeout`, and why.
    pub fn poll_timeout(&self) -> Option<(Moment, PlainTimer)> {
        self.timers.next()
    }

    fn signal(&mut self, arrived: Signal, now: Moment) {
        let Some(signal) = self.options.rewrite.get(&arrived).copied().unwrap_or(Some(arrived)) else {
            self.notify(PlainNotice::Dropped(arrived));
            return;
        };
        // Either side of a rewrite may be the request to stop. The orchestrator's clock runs from
        // the signal that it sent, and the child may know the request by the rewritten signal.
        let is_stop = asks_to_stop(arrived) || asks_to_stop(signal);
        match self.phase {
            PlainPhase::Running => {
                self.forward(signal);
                if is_stop {
                    self.start_clock(arrived, now);
                }
            }
            // The clock runs already; a repeated request is the child's to understand.
            PlainPhase::Stopping => self.forward(signal),
            // No child is left that could get the signal, but the orchestrator's clock may start
            // here.
            PlainPhase::ChildGone | PlainPhase::Leftovers => {
                if is_stop && let Some(budget) = self.options.budget {
                    self.timers.arm_at_latest(PlainTimer::Deadline, now.after(budget.drain));
                }
            }
            // SIGKILL was sent, or the end is reached, so no signal changes anything.
            PlainPhase::Killing | PlainPhase::Gone => {}
        }
    }

    fn forward(&mut self, signal: Signal) {
        let target = if self.options.process_group {
            SignalTarget::Group
        } else {
            SignalTarget::Child
        };
        self.effects.push_back(PlainEffect::Send(signal, target));
    }

    /// With a limit: the child has until the deadline from here on, and gets SIGCONT in case it is
    /// stopped.
    fn start_clock(&mut self, arrived: Signal, now: Moment) {
        if let Some(budget) = self.options.budget {
            self.forward(Signal::CONT);
            self.timers.arm(PlainTimer::Deadline, now.after(budget.drain));
            self.phase = PlainPhase::Stopping;
            self.notify(PlainNotice::StopAsked(arrived, budget.drain));
        }
    }

    fn child_ended(&mut self, ended: Ended) {
        match self.phase {
            PlainPhase::Running | PlainPhase::Stopping => {
                self.ended = Some(ended);
                self.phase = PlainPhase::ChildGone;
                if self.options.budget.is_none() {
                    self.exit();
                }
            }
            PlainPhase::Killing => self.ended = Some(ended),
            // The child ends once.
            PlainPhase::ChildGone | PlainPhase::Leftovers | PlainPhase::Gone => {}
        }
    }

    fn reaped(&mut self, children_left: bool, now: Moment) {
        match self.phase {
            PlainPhase::ChildGone if children_left => self.attend_leftovers(now),
            // The ended processes may have had children, which ojs-init has adopted now.
            PlainPhase::Leftovers if children_left => {
                self.timers.arm_at_latest(PlainTimer::Rescan, now.after(RESCAN_AFTER))
            }
            PlainPhase::Killing if children_left => self
                .timers
                .arm_at_latest(PlainTimer::Rescan, now.after(KILL_RESCAN_AFTER)),
            PlainPhase::ChildGone | PlainPhase::Leftovers | PlainPhase::Killing => self.exit(),
            PlainPhase::Running | PlainPhase::Stopping | PlainPhase::Gone => {}
        }
    }

    /// Sends the leftovers SIGTERM. They have the rest of the time, or all of it if no stop was
    /// requested.
    fn attend_leftovers(&mut self, now: Moment) {
        let drain = self.options.budget.map_or(Duration::ZERO, |budget| budget.drain);
        self.timers.arm_at_latest(PlainTimer::Deadline, now.after(drain));
        self.phase = PlainPhase::Leftovers;
        let left = self
            .timers
            .deadline_of(PlainTimer::Deadline)
            .map_or(drain, |due| due.remaining(now));
        self.notify(PlainNotice::LeftoversFound(left));
        self.effects.push_back(PlainEffect::TerminateLeftovers);
    }

    fn rescan(&mut self) {
        match self.phase {
            PlainPhase::Leftovers => self.effects.push_back(PlainEffect::TerminateLeftovers),
            PlainPhase::Killing => self.effects.push_back(PlainEffect::KillEverything),
            // Only the phases Leftovers and Killing look again.
            PlainPhase::Running | PlainPhase::Stopping | PlainPhase::ChildGone | PlainPhase::Gone => {}
        }
    }

    fn deadline(&mut self, now: Moment) {
        match self.phase {
            PlainPhase::Stopping | PlainPhase::ChildGone | PlainPhase::Leftovers => {
                self.phase = PlainPhase::Killing;
                self.notify(PlainNotice::DeadlineReached);
                self.effects.push_back(PlainEffect::KillEverything);
                let margin = self
                    .options
                    .budget
                    .map_or(Duration::ZERO, |budget| budget.limit.saturating_sub(budget.drain));
                self.timers
                    .arm(PlainTimer::GiveUp, now.after(GIVE_UP_AFTER.min(margin / 2)));
            }
            // These phases have no deadline.
            PlainPhase::Running | PlainPhase::Killing | PlainPhase::Gone => {}
        }
    }

    fn give_up(&mut self) {
        self.notify(PlainNotice::GaveUp);
        self.exit();
    }

    fn exit(&mut self) {
        self.phase = PlainPhase::Gone;
        self.timers.clear();
        let status = self.options.remap_exit.apply(self.ended.unwrap_or(Ended::UNREAPED));
        self.effects.push_back(PlainEffect::Exit(status));
    }

    fn notify(&mut self, notice: PlainNotice) {
        self.effects.push_back(PlainEffect::Notify(notice));
    }
}

/// The signals by which orchestrators ask a container to end: SIGTERM, and the usual values of
/// STOPSIGNAL in images.
fn asks_to_stop(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT].contains(&signal)
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
