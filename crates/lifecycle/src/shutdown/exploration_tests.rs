//! Every end that the part `Ending` can reach, for all answers of the other parts and all requests
//! at any time.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the promises are about a few of the events and of what the end says"
)]

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::api::{Directive, EndingTimer, FinalState, Force, Moment, Options, Phase, Reason};
use crate::default_options;
use crate::part_walk::{Walk, walk};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::phase::Trigger;
use crate::shutdown::said::Said;
use crate::shutdown::steps::StopStep;
use crate::shutdown::walk_events_tests::{Event, Left, NOTHING, Others};
use ojs_values::signal::Signal;

/// The furthest stage of the end that was announced. It only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    Before,
    Terminating,
    Stopping,
    Cancelling,
    Asking,
    Killing,
    Reporting,
    Parting,
    LastWord,
    Deregistering,
    Exited,
}

#[derive(Debug, Clone)]
struct World {
    ending: Ending,
    options: Arc<Options>,
    left: Left,
    now: Moment,
    stage: Stage,
    /// When preStop hooks ran, and when SIGTSTPs arrived that count as hooks.
    hooks: Vec<Moment>,
    /// When the orchestrator sends its SIGKILL, once a SIGTERM arrived.
    limit: Option<Moment>,
    /// A second request, which does not wait for the deadline.
    is_forced: bool,
    t0: Option<Moment>,
}

/// More than any walk has.
const MOST_STATES: usize = 200_000;

const GRACE: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(9);
const MARGIN: Duration = Duration::from_secs(5);

impl World {
    fn new(left: Left, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = default_options::defaults();
        options.times.grace_period = GRACE;
        options.times.limit = Some(LIMIT);
        change(&mut options);
        Self {
            ending: Ending::default(),
            options: Arc::new(options),
            left,
            now: Moment::new(Duration::from_secs(100)),
            stage: Stage::Before,
            hooks: Vec::new(),
            limit: None,
            is_forced: false,
            t0: None,
        }
    }

    fn events(&self) -> Vec<Event> {
        let left = &self.left;
        // Before the last heartbeat there is no answer to it, and the link forgets the heartbeat
        // when it deregisters.
        let last_answers = if self.stage == Stage::LastWord { left.answers } else { 0 };
        let happens = [
            (left.term, Event::Signal(Signal::TERM)),
            (left.tstp, Event::Signal(Signal::TSTP)),
            (left.cont, Event::Signal(Signal::CONT)),
            (left.server, Event::ServerSays(Directive::Terminate)),
            (left.server, Event::ServerSays(Directive::Quiet)),
            (left.server, Event::ServerSays(Directive::Run)),
            (left.prestop, Event::Prestop),
            (left.stop, Event::Stop),
            (left.lost, Event::WorkerLost),
            (last_answers, Event::LastHeartbeatAnswered),
            (left.empty, Event::FoundNoJob),
            (left.pauses, Event::TimePasses),
        ];
        let mut events: Vec<Event> = happens
            .iter()
            .filter(|(left, _)| *left > 0)
            .map(|(_, event)| *event)
            .collect();
        if self.ending.timers.next().is_some() {
            events.push(Event::TimeComes);
        }
        if self.ending.may_end_by_itself(&self.options) {
            events.push(Event::EndIfIdle);
        }
        if self.ending.is_waiting_for_something() {
            events.push(Event::Advance);
        }
        events
    }

    fn decide(&mut self, event: Event, others: Others) {
        let options = Arc::clone(&self.options);
        let left = &mut self.left;
        match event {
            Event::TimePasses => self.now = self.now.after(Duration::from_millis(101)),
            Event::TimeComes => self.now = self.ending.timers.next().map_or(self.now, |(due, _)| due.max(self.now)),
            _ => {}
        }
        let cx = Context {
            options: &options,
            facts: others.facts(),
            now: self.now,
        };
        let ending = &mut self.ending;
        match event {
            Event::Signal(signal) => {
                match signal {
                    Signal::TERM => left.term -= 1,
                    Signal::TSTP => left.tstp -= 1,
                    _ => left.cont -= 1,
                }
                ending.signal_arrived(signal, &cx);
            }
            Event::ServerSays(directive) => {
                left.server -= 1;
                ending.directed(Some(directive), true, &cx);
            }
            Event::Prestop => {
                left.prestop -= 1;
                ending.prestop(&cx);
            }
            Event::Stop => {
                left.stop -= 1;
                ending.force(Force::BY_OPERATOR, &cx);
            }
            Event::WorkerLost => {
                left.lost -= 1;
                ending.go(Trigger::WorkerLost, Reason::Worker, &cx);
            }
            Event::LastHeartbeatAnswered => {
                left.answers -= 1;
                ending.last_heartbeat_answered(&cx);
            }
            Event::FoundNoJob => {
                left.empty -= 1;
                ending.found_no_job(cx.now, &cx);
            }
            Event::TimePasses => left.pauses -= 1,
            Event::TimeComes => {
                if let Some((_, timer)) = ending.timers.next() {
                    ending.timers.cancel(timer);
                    ending.due(timer, &cx);
                }
            }
            Event::EndIfIdle => ending.end_if_idle(&cx),
            Event::Advance => {
                ending.advance(&cx);
            }
        }
    }
}

/// The promises.
impl World {
    fn time_to_the_limit(&self) -> Duration {
        self.options.times.limit.unwrap_or(LIMIT)
    }

    /// Draws the test's own conclusions from an event, before the part decides.
    fn remember(&mut self, event: Event) {
        let is_ending = self.ending.phase.is_terminating();
        match event {
            Event::Signal(Signal::TERM) => {
                let limit = self.time_to_the_limit();
                let is_recent = |at: &&Moment| at.elapsed(self.now) < limit;
                let clock = self.hooks.iter().find(is_recent).copied().unwrap_or(self.now);
                self.limit.get_or_insert(clock.after(limit));
                self.is_forced |= is_ending;
            }
            Event::Signal(Signal::TSTP) if self.options.tstp_starts_clock && !is_ending => {
                self.hooks.push(self.now);
            }
            Event::Prestop if !is_ending => self.hooks.push(self.now),
            Event::Stop => self.is_forced = true,
            _ => {}
        }
    }

    /// The step of the end, and its deadline.
    fn step(&self) -> (StopStep, Option<Moment>) {
        let deadline = self.ending.timers.deadline_of(EndingTimer::Step);
        (self.ending.shutdown.step, deadline)
    }

    fn check(&mut self, said: &Said) -> Result<(), String> {
        let stage = match said {
            Said::TerminateBegins if self.t0.is_some() => return Err("the end begins twice".to_owned()),
            Said::TerminateBegins => {
                self.t0 = Some(self.now);
                Stage::Terminating
            }
            Said::Heartbeat | Said::QuietBegins | Said::Resumed(_) | Said::AskOnceMore { .. } if self.t0.is_some() => {
                return Err("there is a way back from terminate".to_owned());
            }
            Said::StopBegins(_) => {
                self.is_drain_granted()?;
                // In an end game the worker may have been asked already.
                self.stage.max(Stage::Stopping)
            }
            Said::CancelJobs(_) => Stage::Cancelling,
            Said::AskWorkerToEnd => Stage::Asking,
            Said::Kill => Stage::Killing,
            Said::Report => Stage::Reporting,
            Said::GiveUpOnOutcomes(_) => Stage::Parting,
            Said::SayLast(_) => Stage::LastWord,
            Said::Deregister => Stage::Deregistering,
            Said::Exit => {
                self.is_gone_in_time()?;
                let is_abandoned = self.ending.shutdown.abandoned_with.is_some();
                if self.stage < Stage::Deregistering && self.stage < Stage::Parting && !is_abandoned {
                    return Err("the exit comes before what has to be done".to_owned());
                }
                Stage::Exited
            }
            _ => return Ok(()),
        };
        if stage < self.stage || self.stage == Stage::Exited {
            return Err(format!("{stage:?} comes after {:?}", self.stage));
        }
        self.stage = stage;
        Ok(())
    }

    /// Without a second request jobs have the grace period, or the time that the orchestrator
    /// leaves of it.
    fn is_drain_granted(&self) -> Result<(), String> {
        // Without an orchestrator's clock its limit still bounds the drain.
        let t0 = self.t0.unwrap_or(self.now);
        let by_grace = t0.after(GRACE.min(self.time_to_the_limit().saturating_sub(MARGIN)));
        let by_limit = self
            .limit
            .map(|limit| self.now.after(limit.remaining(self.now).saturating_sub(MARGIN)));
        let deadline = by_limit.map_or(by_grace, |by_limit| by_limit.min(by_grace));
        if self.is_forced || self.now >= deadline {
            Ok(())
        } else {
            Err("the drain is cut short".to_owned())
        }
    }

    /// Before the orchestrator's SIGKILL, and never later than the grace period and the margin
    /// after the end began.
    fn is_gone_in_time(&self) -> Result<(), String> {
        let t0 = self.t0.unwrap_or(self.now);
        let by = self
            .limit
            .unwrap_or(t0.after(GRACE + MARGIN))
            .min(t0.after(GRACE + MARGIN));
        if self.now <= by {
            Ok(())
        } else {
            Err(format!("{:?} too late", by.elapsed(self.now)))
        }
    }
}

/// The options never change on a way.
impl Hash for World {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self {
            ending,
            left,
            now,
            stage,
            hooks,
            limit,
            is_forced,
            t0,
            options: _,
        } = self;
        (ending, left, now, stage, hooks, limit, is_forced, t0).hash(to);
    }
}

impl Walk for World {
    type Step = (Event, Others);

    fn steps(&self) -> Vec<Self::Step> {
        let every = |event: Event| Others::all(event).into_iter().map(move |others| (event, others));
        self.events().into_iter().flat_map(every).collect()
    }

    fn take(&mut self, (event, others): &Self::Step) -> Result<(), String> {
        self.remember(*event);
        let before = self.ending.phase;
        let step = self.step();
        self.decide(*event, *others);
        let all_said = std::mem::take(&mut self.ending.said);
        for said in &all_said {
            self.check(said)?;
        }
        let (after, is_farewell) = (self.step(), all_said.contains(&Said::Deregister));
        if after.0 == step.0 && after.1 > step.1 && step.1.is_some() && !is_farewell {
            return Err("a step gets more time".to_owned());
        }
        let phase = self.ending.phase;
        if before.is_terminating() && !phase.is_terminating() {
            return Err("there is a way back from terminate".to_owned());
        }
        if phase.is_terminating() && phase != Phase::Exited && self.ending.timers.next().is_none() {
            return Err("no timer leads to the exit".to_owned());
        }
        Ok(())
    }

    fn may_end(&self) -> bool {
        !self.ending.phase.is_terminating() || self.stage == Stage::Exited
    }
}

/// Walks, and shows how far: `-- --nocapture`.
#[allow(clippy::print_stdout, reason = "the number of states is half of the result")]
fn explore(name: &str, left: Left, change: impl FnOnce(&mut Options)) {
    println!(
        "{name}: {} states, all of them",
        walk(World::new(left, change), MOST_STATES)
    );
}

#[test]
fn two_sigterms_at_any_time() {
    let left = Left {
        term: 2,
        pauses: 1,
        ..NOTHING
    };
    explore("two SIGTERMs", left, |_| {});
}

#[test]
fn three_sigterms() {
    let left = Left { term: 3, ..NOTHING };
    explore("three SIGTERMs", left, |options| {
        options.cancel_grace = Duration::from_secs(2)
    });
}

#[test]
fn an_order_of_the_server_and_a_sigterm_that_comes_later() {
    let left = Left {
        term: 1,
        server: 1,
        ..NOTHING
    };
    // The orchestrator's limit leaves less than the grace period and the margin.
    explore("an order of the server", left, |options| {
        options.times.limit = Some(LIMIT - Duration::from_secs(1))
    });
}

#[test]
fn a_sigtstp_that_is_taken_back_or_not() {
    let left = Left {
        term: 1,
        tstp: 1,
        cont: 1,
        ..NOTHING
    };
    explore("a SIGTSTP", left, |options| options.tstp_starts_clock = true);
}

#[test]
fn a_prestop_hook_with_a_sigterm_or_without() {
    let left = Left {
        term: 1,
        prestop: 1,
        ..NOTHING
    };
    explore("a hook", left, |_| {});
}

#[test]
fn a_hook_before_a_sigterm_where_the_limit_is_shorter_than_grace_period_and_margin() {
    let left = Left {
        term: 1,
        prestop: 2,
        pauses: 1,
        answers: 0,
        ..NOTHING
    };
    explore("a hook and a short limit", left, |options| {
        options.times.limit = Some(LIMIT - Duration::from_secs(1))
    });
}

#[test]
fn a_worker_that_is_lost_and_a_stop() {
    let left = Left {
        lost: 1,
        stop: 1,
        pauses: 1,
        ..NOTHING
    };
    explore("a worker that is lost", left, |options| {
        options.final_state = FinalState::Both
    });
}

#[test]
fn a_delay_before_the_drain() {
    let left = Left {
        term: 2,
        pauses: 1,
        ..NOTHING
    };
    explore("a delay", left, |options| options.term_delay = Duration::from_secs(2));
}

#[test]
fn an_idle_end_beside_a_sigterm() {
    let left = Left {
        term: 1,
        empty: 1,
        ..NOTHING
    };
    explore("an idle end", left, |options| {
        options.exit_when_idle = Some(Duration::from_secs(1))
    });
}
