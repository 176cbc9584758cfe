//! Advances time to the next timer or the next event.

use ojs_lifecycle::api::ids::ClientId;
use ojs_lifecycle::api::{Event, Moment};
use ojs_lifecycle::machine::Lifecycle;

use super::promise::{Broken, Kept, promise};
use super::world::{World, since_start};

/// One fact in this many is passed as the last of several simultaneous ones.
const LAST_IN: u64 = 3;

/// A number that no client has.
const NOBODY: ClientId = ClientId(u64::MAX);

/// Simultaneous facts. The shell passes all but the last one as such; here turns decide which one
/// is the last.
#[derive(Debug, Default)]
pub struct Several {
    told: u64,
    /// More facts were announced.
    is_last_due: bool,
}

impl Several {
    pub fn tell(&mut self, machine: &mut Lifecycle, event: Event, now: Moment) {
        self.told += 1;
        self.is_last_due = !self.told.is_multiple_of(LAST_IN);
        machine.handle_one_of_several(event, now, !self.is_last_due);
    }

    /// Passes a last fact without a meaning if more were announced. Returns whether it did.
    pub fn end(&mut self, machine: &mut Lifecycle, now: Moment) -> bool {
        if self.is_last_due {
            machine.handle(Event::OperatorLeft(NOBODY), now);
        }
        std::mem::take(&mut self.is_last_due)
    }
}

impl World {
    pub fn step(&mut self) -> Kept {
        let deadline = self.machine.poll_timeout().map(|(due, _)| since_start(due));
        let first = self.queue.keys().next().map(|(at, _)| *at);
        let is_timer = match (deadline, first) {
            (Some(due), Some(at)) if self.plan.timers_first => due <= at,
            (Some(due), Some(at)) => due < at,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => {
                return Err(Broken {
                    promise: "gone in time",
                    detail: "nothing will ever happen again".to_owned(),
                });
            }
        };
        let next = if is_timer { deadline } else { first };
        if next.is_none_or(|at| at > self.now) && self.several.end(&mut self.machine, Moment::new(self.now)) {
            self.drain()?;
            return self.after();
        }
        if is_timer {
            self.now = self.now.max(deadline.unwrap_or_default());
            self.timeout()
        } else if let Some(((at, _), item)) = self.queue.pop_first() {
            self.now = self.now.max(at);
            self.happen(item)
        } else {
            Ok(())
        }
    }

    fn timeout(&mut self) -> Kept {
        let moment = Moment::new(self.now);
        if self.script.is_some() {
            let timers: Vec<String> = self
                .machine
                .poll_timeout()
                .iter()
                .map(|due| format!("{:?}", due.1))
                .collect();
            self.note(&format!("   due: {}", timers.join(", ")));
        }
        let state = self.course.state;
        self.talk.expire(state, &mut self.ledger, self.now);
        while self.machine.poll_timeout().is_some_and(|(due, _)| due <= moment) {
            self.machine.handle_timeout(moment);
            self.drain()?;
        }
        self.course.time_passed(self.now)?;
        let next = self.machine.poll_timeout().map(|(due, _)| since_start(due));
        promise!(
            "no livelock",
            next.is_none_or(|next| next > self.now),
            "due at {next:?} after the timeouts of {:?}",
            self.now
        );
        self.after()
    }
}
