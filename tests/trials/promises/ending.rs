//! When it ends, what nobody asks for after that, and who is answered.

use super::{Judge, Measured, Verdict, arrived, broken};
use crate::asked::Commanded;
use crate::ends::{NOISE, is_whole};
use crate::kinds::{Occasion, Weather};
use crate::support::sys::Ended;

/// How long a control command may take to say what is said at once, in milliseconds.
const ANSWER: f64 = 1000.0;

impl Judge<'_> {
    pub(super) fn gone_before_the_limit(&self, measured: &mut Measured) -> Verdict {
        const PROMISE: &str = "gone before the limit";
        let Some((end, _)) = self.story.ended else {
            return broken(PROMISE, "it hangs");
        };
        let margin = self.millis(self.plan.margin);
        // Half of what is kept back is for a busy machine.
        let early = self.millis(self.plan.slack()) / 2.0;
        let ends = &self.ends;
        let mut verdict = Vec::new();
        measured.left = ends.limit.map(|limit| limit - end);
        if let Some(left) = measured.left.filter(|left| *left < early) {
            verdict.extend(broken(PROMISE, format!("{left:.0} ms before it")));
        }
        // Without the orchestrator's clock, and when it is forced, the margin still counts.
        let latest = [
            (ends.deadline.map(|end| end + margin), 0.0, "drain and margin"),
            (ends.forced.map(|end| end + margin), 0.0, "the margin of a forced end"),
            (ends.stops.get(2).copied(), NOISE, "the third signal"),
        ];
        for (latest, noise, what) in latest {
            if let Some(late) = latest.map(|latest| end - latest).filter(|late| *late > noise) {
                verdict.extend(broken(PROMISE, format!("{late:.0} ms after {what}")));
            }
        }
        verdict
    }

    pub(super) fn no_fetch_after_t0(&self) -> Verdict {
        const PROMISE: &str = "no FETCH after t0";
        let is_passed_on = self.plan.behaviour.is_sdk() && self.plan.occasion == Occasion::Timeout;
        let spans = [self.ends.quiet.map(|quiet| (quiet, f64::MAX)), self.ends.pause];
        let mut verdict = Vec::new();
        for (from, to) in spans.into_iter().flatten() {
            let fetches = self.requests.iter().filter(|event| event.operation == "fetch");
            let fetches = fetches.filter(|event| arrived(event) < to);
            let late: Vec<f64> = fetches
                .map(|event| arrived(event) - from)
                .filter(|after| *after > 1.0)
                .collect();
            // One may have been ordered before and be sent after.
            match late.as_slice() {
                [] => {}
                [one] if *one <= NOISE => {}
                // SDKs ask often, and who signals is a process of its own.
                late if is_passed_on && late.iter().all(|after| *after <= NOISE) => {}
                // A request that was sent on a connection that stopped is read when that goes on.
                [_] if self.plan.weather == Weather::Frozen => {}
                late => verdict.extend(broken(PROMISE, format!("{late:.0?} ms after it"))),
            }
        }
        verdict
    }

    /// See [`Measured::wound_up`].
    pub(super) fn wound_up(&self) -> Option<f64> {
        let ends = &self.ends;
        let (end, Ended::Code(0)) = self.story.ended? else {
            return None;
        };
        let answered = |names: &[&str]| {
            let of_names = self.requests.iter().filter(|event| names.contains(&event.operation));
            of_names.map(|event| event.ms).reduce(f64::max)
        };
        let last = answered(&["ack", "nack"])?;
        let is_in_the_drain = last > ends.t0? + self.millis(self.plan.term_delay) && last < ends.deadline?;
        let is_the_last = answered(&["fetch"]).is_none_or(|fetch| fetch < last);
        let is_left_alone = ends.stops.len() < 2 && self.story.asked.commands.is_empty();
        // From then on the backend was there, and answered at once.
        let mut later = self.requests.iter().filter(|event| event.ms >= last);
        let is_fine = later.all(|event| is_whole(event) && event.fault.is_none())
            && !matches!(self.plan.weather, Weather::Refuses | Weather::Silent | Weather::Gone);
        let is_measured = is_in_the_drain && is_the_last && is_left_alone && is_fine;
        (is_measured && self.plan.behaviour.ends_at_once()).then_some(end - last)
    }

    /// Everybody who asks gets an answer, also when the SIGKILL to everybody comes right after it.
    pub(super) fn operators_are_answered(&self) -> Verdict {
        const PROMISE: &str = "operators are answered";
        let end = self.story.ended.map_or(f64::MAX, |(ms, _)| ms);
        // The SIGKILL of the stop phase reaches everybody in the namespace, whoever has not been
        // heard yet included.
        let end = self.ends.deadline.map_or(end, |deadline| end.min(deadline));
        // A worker that has said goodbye is gone at once; a busy machine may tell us later.
        let end = self.last_of("deregister").map_or(end, |bye| end.min(bye));
        let drain = self.millis(self.plan.grace.min(self.plan.limit - self.plan.margin));
        let was_heard = self.story.log.contains("stop phase: forced") && self.ends.stops.len() < 2;
        // Nobody can be asked who is about to go for another reason, and a third signal waits for
        // nobody.
        let is_owed = |command: &&Commanded| {
            let is_first = self.story.asked.is_nothing_asked_before(command.began);
            let is_heard_stop = command.verb() == "stop" && was_heard;
            (is_first || is_heard_stop || command.began < end - NOISE)
                && !self.ends.is_abandoned()
                && !self.plan.behaviour.may_end_first()
        };
        // A worker that ends is not recycled, and who asks for that is told so, or goes with it.
        let is_answered = |command: &Commanded| {
            let is_refused = match command.came.ended {
                Some(Ended::Code(status)) => status == 1 && !command.came.complained.is_empty(),
                Some(Ended::Signal(signal)) => signal == libc::SIGKILL,
                None => false,
            };
            let may_be_refused =
                command.verb() == "recycle" && !self.story.asked.is_nothing_asked_before(command.ended);
            command.is_taken() && command.came.said.lines().count() == 1 || may_be_refused && is_refused
        };
        let mut verdict = Vec::new();
        for command in self.story.asked.commands.iter().filter(is_owed) {
            let most = match command.words {
                ["prestop", "--until-idle"] => drain,
                ["prestop", ..] => drain.min(300.0),
                _ => 0.0,
            };
            let took = command.ended - command.began;
            if !is_answered(command) || took > most + ANSWER {
                verdict.extend(broken(PROMISE, format!("{command:?}")));
            }
        }
        verdict
    }

    pub(super) fn calm_log(&self) -> Verdict {
        match self
            .story
            .log
            .lines()
            .find(|line| line.contains("panicked") || line.contains("a bug"))
        {
            Some(line) => broken("it never panics", line),
            None => Vec::new(),
        }
    }
}
