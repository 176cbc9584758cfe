//! The plain init (mode none): signals go to the child, its status comes back, and with a limit the
//! end is enforced.
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
//! Without a limit only Running and Gone exist: the child's end is ours.
//!
//! SIGTERM goes to direct children only, so a supervisor among the leftovers ends its own children
//! in its own order. What it leaves behind becomes ours, and gets its SIGTERM then.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::api::{Budget, KILL_RESCAN_AFTER, Moment, RESCAN_AFTER};
use crate::timers::Timers;
use ojs_values::exit::{Ended, RemapExit};
use ojs_values::signal::Signal;

/// How long SIGKILLed processes get to be reaped, at most half of what is left until the
/// orchestrator's own SIGKILL.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(1);

/// How this init was configured.
#[derive(Debug, Clone, Default)]
pub struct PlainOptions {
    /// Signals to replace before they are forwarded; none drops them (`-r`).
    pub rewrite: BTreeMap<Signal, Option<Signal>>,
    /// Forward to the child's whole process group (`-g`).
    pub process_group: bool,
    /// Statuses of the child that become 0 (`-e`).
    pub remap_exit: RemapExit,
    /// How long a stop may take; without it we wait for ever.
    pub budget: Option<Budget>,
}

/// Facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainEvent {
    /// Somebody sent us this signal; never SIGCHLD.
    SignalArrived(Signal),
    ChildEnded(Ended),
    /// Everything that had ended was reaped. Says whether we still have children, adopted ones
    /// included.
    Reaped {
        children_left: bool,
    },
}

/// The timers. If two are due at the same moment, the one that comes first here goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlainTimer {
    /// When do we stop waiting for processes that SIGKILL did not end?
    GiveUp,
    /// When has the child had all the time that it gets after a stop was asked for?
    Deadline,
    /// When is it time to look for descendants that became ours since the last look?
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
    /// SIGTERM and SIGCONT to each child that has not had them yet.
    TerminateLeftovers,
    /// SIGKILL to the child's group, and to everything else that is ours: all of the namespace for
    /// PID 1, else our children.
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
    /// The child ended, others are still there and get this long.
    LeftoversFound(Duration),
    DeadlineReached,
    /// SIGKILLed processes are still there: the kernel holds them. We leave without them.
    GaveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlainPhase {
    /// The child runs.
    Running,
    /// A stop signal was forwarded; the deadline is set.
    Stopping,
    /// The child was reaped; whether it left anybody behind is not known yet.
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
    /// An init whose child was just started.
    #[must_use]
    pub fn new(options: PlainOptions) -> Self {
        Self {
            options,
            phase: PlainPhase::Running,
            ended: None,
            timers: Timers::default(),
            effects: VecDeque::new(),
        }
    }

    /// Takes in one fact.
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
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Moment, PlainTimer)> {
        self.timers.next()
    }

    fn signal(&mut self, arrived: Signal, now: Moment) {
        let Some(signal) = self.options.rewrite.get(&arrived).copied().unwrap_or(Some(arrived)) else {
            self.notify(PlainNotice::Dropped(arrived));
            return;
        };
        // Either side of a rewrite may be the request to stop: the orchestrator's clock runs from
        // what it sent, and what the child gets may be its own word for it.
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
            // Nobody left to forward to, but the orchestrator's clock may start here.
            PlainPhase::ChildGone | PlainPhase::Leftovers => {
                if is_stop && let Some(budget) = self.options.budget {
                    self.timers.arm_at_latest(PlainTimer::Deadline, now.after(budget.drain));
                }
            }
            // SIGKILL is on its way, or everything is over: no signal adds to that.
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

    /// With a limit: the child has until the deadline from here on, and is woken in case it is
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
            // The processes that ended may have had children, which are ours now.
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

    /// Sends the leftovers SIGTERM. They have the rest of the time, or all of it if nobody had
    /// asked for a stop.
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
            // Only those two look again.
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
            // No deadline is set in these.
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

/// The signals by which orchestrators ask a container to end: SIGTERM, and what images set as
/// STOPSIGNAL.
fn asks_to_stop(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT].contains(&signal)
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
