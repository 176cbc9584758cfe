//! The worker's grants and messages, and that its answers count.

use ojs_devserver::{Dialect, End, Event};

use super::{Hand, Judge, Verdict, arrived, broken};
use crate::ends::{NOISE, SLACK, is_whole};
use crate::journal::{Note, Word};
use crate::kinds::{Behaviour, Ending, Program, Weather};
use crate::plan::Plan;
use crate::sdk::Kind;

/// From a `cancel` to the SIGKILL, in milliseconds, of a worker that surely hears of it in between.
const HEARS_WITHIN: f64 = NOISE;

/// When the handler of this job ends by itself, unless that depends on the deadline.
fn due(hand: &Hand<'_>) -> Option<f64> {
    let is_timed = !hand.plan.at_deadline && hand.plan.ending != Ending::Never;
    hand.took.filter(|_| is_timed).map(|took| took + hand.plan.ms as f64)
}

impl Judge<'_> {
    /// A FAIL or a release that is in the socket is what the backend gets.
    pub(super) fn the_workers_answer_decides(&self) -> Verdict {
        const PROMISE: &str = "the worker's answer decides";
        let mut verdict = Vec::new();
        for hand in self.hands().filter(|_| !self.ends.is_abandoned()) {
            let id = &hand.job.id;
            let failed = hand.word(Word::Failed).is_some();
            // The note that is written during a SIGKILL may not be written.
            let released = hand
                .word(Word::Releasing)
                .is_some_and(|ms| ms < self.granted_to(&hand) - SLACK && !self.plan.behaviour.may_end_first());
            let is_as_it_says = match hand.end() {
                // The backend forgets the oldest errors first.
                Some(End::Failed) if failed => hand.is_failed_as_told() || hand.error().is_none(),
                Some(End::Failed) => !released,
                Some(End::Requeued) => !failed,
                Some(End::Acked) => !failed && !released,
                // A job without an outcome is judged elsewhere.
                Some(End::VisibilityTimeout | End::WorkerDeath | End::Cancelled) | None => true,
            };
            if !is_as_it_says {
                let says = if failed { "failed" } else { "released" };
                verdict.extend(broken(
                    PROMISE,
                    format!("{says} {id}: {:?} {:?}", hand.end(), hand.error()),
                ));
            }
        }
        verdict
    }

    /// Nothing is cut off before the deadline unless somebody forces it; who works gets to its end.
    pub(super) fn the_drain_is_granted(&self) -> Verdict {
        const PROMISE: &str = "the drain is granted";
        let granted = self.granted();
        let mut verdict = Vec::new();
        for hand in self.hands() {
            let id = &hand.job.id;
            let is_early = hand.end_ms().is_some_and(|end| end < granted - SLACK);
            if is_early && self.is_cut_off(&hand) {
                let early = granted - hand.end_ms().unwrap_or(granted);
                verdict.extend(broken(PROMISE, format!("{id} was cut off {early:.0} ms too early")));
            }
            let is_death = hand.error().is_some_and(|error| error.contains("worker_death"));
            if is_death && hand.end() == Some(End::Failed) && self.plan.behaviour == Behaviour::Hangs {
                verdict.extend(broken("the innocent are given back", id.clone()));
            } else if is_death && hand.end() == Some(End::Failed) && !self.plan.behaviour.may_end_first() {
                verdict.extend(broken(PROMISE, format!("{id}: the worker was ended while it worked")));
            }
            if let Some(due) = self.due(&hand)
                && !is_as_planned(&hand, self.plan)
            {
                let spare = granted - due;
                let how = format!("{id} was done {spare:.0} ms before its end: {:?}", hand.end());
                verdict.extend(broken(PROMISE, how));
            }
        }
        let is_early = |end: f64| end < granted - SLACK && !self.plan.behaviour.may_end_first();
        if let Some((end, _)) = self.story.ended.filter(|(end, _)| is_early(*end)) {
            // A recycling leaves a job alone that would be discarded.
            let is_left = |hand: &Hand<'_>| !self.recyclings.is_empty() && self.is_kept_from_discarding(hand);
            let is_unanswered = |hand: &Hand<'_>| {
                let words = [Word::Acked, Word::Failed, Word::Releasing];
                hand.took.is_some()
                    && !is_left(hand)
                    && hand.delivery.end.is_none()
                    && words.iter().all(|word| hand.word(*word).is_none())
            };
            // Python notes no answer.
            let is_noted = self.plan.behaviour != Behaviour::Python;
            if let Some(hand) = self.hands().find(|hand| is_noted && is_unanswered(hand)) {
                let early = granted - end;
                verdict.extend(broken(
                    PROMISE,
                    format!("{} runs, exit {early:.0} ms early", hand.job.id),
                ));
            }
        }
        verdict
    }

    /// When the worker will have answered it by itself, if that is well within what is granted and
    /// the backend hears it.
    fn due(&self, hand: &Hand<'_>) -> Option<f64> {
        let works = match self.plan.behaviour {
            Behaviour::Good
            | Behaviour::Python
            | Behaviour::Floods
            | Behaviour::Deaf
            | Behaviour::Forks
            | Behaviour::Sdk(_)
            | Behaviour::Exec(
                Program::Good
                | Program::Ignores
                | Program::Leaves
                | Program::Daemons
                | Program::Floods
                | Program::Closes,
            ) => true,
            Behaviour::Ignores
            | Behaviour::Stops
            | Behaviour::Crashes
            | Behaviour::Closes
            | Behaviour::LastWords
            | Behaviour::Prefork
            | Behaviour::Hangs
            | Behaviour::Exec(Program::Stops | Program::Crashes | Program::Kills) => false,
        };
        let due = due(hand)?;
        let is_in_time = due + 2.0 * NOISE < self.granted_to(hand) && self.plan.weather.is_reliable();
        (works && is_in_time).then_some(due)
    }

    /// With a grace for it, and without a force, each handler that is left hears `cancel`.
    pub(super) fn each_is_told_to_cancel(&self) -> Verdict {
        const PROMISE: &str = "each job that is left is told cancel";
        let reads = match self.plan.behaviour {
            Behaviour::Good
            | Behaviour::Python
            | Behaviour::Ignores
            | Behaviour::Forks
            | Behaviour::Floods
            | Behaviour::LastWords
            | Behaviour::Prefork
            | Behaviour::Exec(
                Program::Good
                | Program::Ignores
                | Program::Leaves
                | Program::Daemons
                | Program::Floods
                | Program::Closes,
            ) => true,
            Behaviour::Stops
            | Behaviour::Crashes
            | Behaviour::Closes
            | Behaviour::Deaf
            | Behaviour::Hangs
            | Behaviour::Sdk(_)
            | Behaviour::Exec(Program::Stops | Program::Crashes | Program::Kills) => false,
        };
        // The stop phase has no more for it.
        let most = (self.plan.margin.saturating_sub(self.plan.slack())).mul_f64(1.0 / 4.5);
        let cancel_grace = self.millis(self.plan.cancel_grace.min(most));
        if !reads || self.may_be_forced() || cancel_grace <= HEARS_WITHIN {
            return Vec::new();
        }
        // One that ends by itself just then may not hear it any more.
        let is_over = |hand: &Hand<'_>| due(hand).is_some_and(|due| (due - self.granted_to(hand)).abs() < NOISE);
        let is_untold = |hand: &Hand<'_>| {
            !is_over(hand)
                && (self.is_cut_off(hand) || self.is_failed_by_recycling(hand))
                && hand.took.is_some()
                && hand.word(Word::Cancelled).is_none()
        };
        let untold = self.hands().filter(is_untold);
        untold.flat_map(|hand| broken(PROMISE, hand.job.id.clone())).collect()
    }

    /// Where no job is left well before the deadline, the worker's own process gets SIGTERM and not
    /// only SIGKILL.
    pub(super) fn the_worker_is_asked_to_end(&self) -> Verdict {
        const PROMISE: &str = "a worker that lived gets SIGTERM";
        // Python's client may end by itself as soon as it is told terminate.
        let lives = !self.plan.behaviour.may_end_first() && self.plan.behaviour != Behaviour::Python;
        let asked = self.ends.asked.unwrap_or(f64::MAX);
        let is_of_jobs = |event: &&&Event| ["ack", "nack", "info", "fetch"].contains(&event.operation);
        // A request without an answer may be made again, or be waited for.
        let is_waited_for =
            |event: &&Event| !is_whole(event) && (arrived(event) > asked - SLACK || event.took_ms.is_none());
        let requests: Vec<&Event> = self.requests.iter().filter(is_of_jobs).copied().collect();
        // The drain never got there where connections had stopped: it waits for the FETCH as long
        // as it may.
        let waits_for_fetch =
            self.plan.weather == Weather::Frozen && self.story.log.contains("a FETCH was not answered");
        let last = requests.iter().map(|event| event.ms).fold(asked, f64::max);
        let is_settled = |hand: &Hand<'_>| {
            let is_over = matches!(hand.end(), Some(End::Acked | End::Failed | End::Requeued));
            // A recycling that cuts a job off without a cancel grace sends SIGKILL right behind
            // SIGTERM, also where the job has just ended.
            let is_in_time = hand.end_ms().is_some_and(|end| end + NOISE < self.granted_to(hand));
            is_over && is_in_time && !self.is_cut_off(hand)
        };
        // An SDK that has not asked for a job yet is still loading what it needs, and does not
        // listen to signals.
        let is_up = !self.plan.behaviour.is_sdk()
            || requests
                .iter()
                .any(|event| event.operation == "fetch" && event.ms < asked);
        let has_drained = last + NOISE < self.granted()
            && !requests.iter().any(is_waited_for)
            && !waits_for_fetch
            && self.hands().all(|hand| is_settled(&hand));
        let notes = |word| self.story.notes.iter().filter(move |note| note.word == word);
        // Of several that were recycled each counts, and only where it was up by then.
        let is_recycled = !self.recyclings.is_empty();
        let counts = |note: &Note| !is_recycled || note.ms + NOISE < asked && self.is_one_process();
        let most = if is_recycled { usize::MAX } else { 1 };
        let workers: Vec<&Note> = notes(Word::Started).take(most).filter(|note| counts(note)).collect();
        // One that knows nothing of SIGTERM dies of it.
        let has_died = self.plan.behaviour == Behaviour::Sdk(Kind::Rust)
            && self.story.log.contains("the worker ended: killed by SIGTERM");
        let is_asked = |worker: &Note| has_died || notes(Word::Terminated).any(|note| note.job == worker.job);
        if !lives || !is_up || !has_drained || self.ends.is_abandoned() {
            return Vec::new();
        }
        let mut unasked = workers.into_iter().filter(|worker| !is_asked(worker));
        unasked.next().map_or_else(Vec::new, |worker| {
            let how = format!("process {} did not, the last outcome was at {last:.0} ms", worker.job);
            broken(PROMISE, how)
        })
    }
}

/// Whether it ended as the worker was told to end it.
fn is_as_planned(hand: &Hand<'_>, plan: &Plan) -> bool {
    // A job that is given back with one attempt, or to a backend that knows of no giving back, is
    // left alone.
    let can_go_back = !plan.is_last_attempt && plan.dialect != Dialect::Strict;
    // The Python worker of the trials releases nothing, and the SDKs have no word for it.
    let releases = plan.behaviour != Behaviour::Python && !plan.behaviour.is_sdk();
    match hand.plan.ending {
        Ending::Fail => hand.is_failed_as_told() || (hand.end() == Some(End::Failed) && hand.error().is_none()),
        Ending::Release if releases => !can_go_back || hand.end() == Some(End::Requeued),
        Ending::Ack | Ending::Release => hand.end() == Some(End::Acked),
        Ending::Never => true,
    }
}
