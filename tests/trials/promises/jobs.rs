//! The fate of each job: one outcome, in one place, and none of it in silence.

use std::collections::BTreeSet;

use ojs_devserver::{Dialect, End, Event};
use serde_json::Value;

use super::{Hand, Judge, Measured, Verdict, arrived, broken, in_millis};
use crate::course::is_ours;
use crate::ends::is_whole;
use crate::gateway;
use crate::journal::Word;
use crate::kinds::{Behaviour, Ending, Weather};
use crate::worker::{result, signed as signed_by};

impl Judge<'_> {
    pub(super) fn one_outcome_each(&self, measured: &mut Measured) -> Verdict {
        let hands: Vec<Hand<'_>> = self.hands().collect();
        hands.iter().flat_map(|hand| self.outcome(hand, measured)).collect()
    }

    fn outcome(&self, hand: &Hand<'_>, measured: &mut Measured) -> Verdict {
        let id = &hand.job.id;
        let is_acked = hand.word(Word::Acked).is_some();
        match hand.end() {
            Some(End::Acked) if !self.is_the_workers_result(hand) => {
                let result = hand.job.result.as_deref().map(|result| &result[..result.len().min(80)]);
                broken("no ACK without the worker's", format!("{id}: {result:?}"))
            }
            Some(End::Failed) if is_acked => broken(
                "nothing finished is reported failed",
                format!("{id}: {:?}", hand.error()),
            ),
            Some(End::Requeued) if is_acked => broken("nothing finished is given back", id.clone()),
            Some(End::Requeued)
                if !self.plan.requeues
                    && hand.took.is_some()
                    && hand.word(Word::Releasing).is_none()
                    && self.plan.behaviour != Behaviour::Hangs =>
            {
                broken("only what was not begun is given back", id.clone())
            }
            Some(End::Requeued) if self.plan.is_last_attempt => broken("no requeue discards a job", id.clone()),
            Some(End::Acked | End::Failed | End::Requeued | End::Cancelled) => Vec::new(),
            Some(End::VisibilityTimeout) => self.left_to_lapse(hand, measured),
            Some(End::WorkerDeath) => broken("one outcome each", format!("{id}: the backend gave the worker up")),
            None => self.left_to_lapse(hand, measured),
        }
    }

    /// Only the worker that has the job knows what its result is; one that is too large may be left
    /// out.
    fn is_the_workers_result(&self, hand: &Hand<'_>) -> bool {
        let expected = if self.plan.behaviour.is_sdk() {
            gateway::result(self.plan, hand.plan)
        } else {
            let signed = hand.worker.filter(|_| !self.plan.behaviour.is_exec());
            let name = signed.map_or_else(|| hand.job.id.clone(), |worker| signed_by(&hand.job.id, worker));
            result(&name, hand.plan.is_large).into()
        };
        match hand.job.result.as_deref() {
            Some(result) => serde_json::from_str::<Value>(result).is_ok_and(|result| result == expected),
            None => hand.plan.is_large && self.plan.weather == Weather::Limit,
        }
    }

    /// Nobody told the backend what became of it.
    fn left_to_lapse(&self, hand: &Hand<'_>, measured: &mut Measured) -> Verdict {
        let id = &hand.job.id;
        let end = self.story.ended.map_or(f64::MAX, |(end, _)| end);
        let came_after_the_end = hand.at > end - 5.0;
        if self.ends.is_abandoned() || self.heard_of(hand).is_none() || came_after_the_end {
            return Vec::new();
        }
        if self.is_kept_from_discarding(hand) || self.is_overtaken(hand) {
            return Vec::new();
        }
        measured.left_to_lapse += 1;
        if self.is_logged(id, "no time was left to see the end") || self.is_logged(id, "the kernel holds the process") {
            return broken("a killed process is seen to end", id.clone());
        }
        if self.is_slowed_down(hand) {
            return Vec::new();
        }
        if self.plan.weather.is_reliable() {
            return broken("one outcome each", format!("{id} has none though the backend answers"));
        }
        if self.is_to_be_run_again(hand) {
            return broken("a job that is delivered again is run or handed back", id.clone());
        }
        let is_named = self.is_said_to_lapse(hand);
        // While its FAIL or requeue may have been carried out no heartbeat keeps it.
        let is_about = |event: &Event| event.jobs.contains(id) || event.request.contains(id.as_str());
        let is_of_it = |event: &&&Event| event.operation == "nack" && is_about(event);
        let mut nacks = self.requests.iter().filter(is_of_it);
        let is_in_doubt = nacks.any(|event| arrived(event) >= hand.at && !is_whole(event));
        let was_lost = hand.end_ms().filter(|lapse| *lapse < end && !is_in_doubt);
        let is_named = is_named || is_in_doubt && hand.end_ms().is_some();
        if let Some(lapse) = was_lost.filter(|_| !is_named) {
            return broken(
                "heartbeats keep what is held",
                format!("{id} was lost at {lapse:.0} ms"),
            );
        }
        if is_named {
            Vec::new()
        } else {
            broken("what has no outcome is in the log", id.clone())
        }
    }

    /// The report of its outcome had arrived, and the backend's delay would have ended after the
    /// end. The log has to say that the job is left.
    fn is_slowed_down(&self, hand: &Hand<'_>) -> bool {
        let id = &hand.job.id;
        let is_about = |event: &Event| event.jobs.contains(id) || event.request.contains(id.as_str());
        let is_report = |event: &&&Event| ["ack", "nack"].contains(&event.operation) && is_about(event);
        let is_held = |event: &Event| event.fault == Some("delay") && event.took_ms.is_none();
        self.is_said_to_lapse(hand) && self.requests.iter().filter(is_report).any(|event| is_held(event))
    }

    pub(super) fn is_said_to_lapse(&self, hand: &Hand<'_>) -> bool {
        self.is_logged(&hand.job.id, "Job left to its visibility timeout")
    }

    /// The job should go back, and that would discard it, or the backend knows of no giving back.
    pub(super) fn is_kept_from_discarding(&self, hand: &Hand<'_>) -> bool {
        let is_innocent = self.plan.behaviour == Behaviour::Hangs;
        let is_to_go_back =
            self.plan.requeues || is_innocent || hand.took.is_none() || hand.word(Word::Releasing).is_some();
        let answers = [Word::Acked, Word::Failed];
        let is_unanswered = answers.iter().all(|word| hand.word(*word).is_none());
        let cannot_go_back = self.plan.is_last_attempt || self.plan.dialect == Dialect::Strict;
        cannot_go_back && is_to_go_back && is_unanswered && self.is_said_to_lapse(hand)
    }

    /// A FAIL or a requeue that may have been carried out is sent again only after a look at the
    /// job, and one that was only after another delivery.
    pub(super) fn no_blind_repeat(&self) -> Verdict {
        let mut verdict = Vec::new();
        for job in &self.story.jobs {
            let mut before: Option<&Event> = None;
            let is_about = |event: &&&Event| event.jobs.contains(&job.id) || event.request.contains(&job.id);
            for event in self.requests.iter().filter(is_about) {
                match event.operation {
                    // One that was accepted stays accepted.
                    "info" if is_whole(event) => before = before.filter(|before| is_whole(before)),
                    "nack" => {
                        let from = before.map(super::arrived);
                        let ours = job.deliveries.iter().filter(|it| is_ours(it.worker.as_deref()));
                        let mut given = ours.map(|delivery| in_millis(delivery.at));
                        let is_new = from.is_some_and(|from| given.any(|at| at >= from && at <= event.ms));
                        let is_clear = before.is_none_or(is_declined);
                        if !is_clear && !is_new {
                            verdict.extend(broken("no blind repeat of a FAIL", job.id.clone()));
                        }
                        before = Some(event);
                    }
                    _ => {}
                }
            }
        }
        verdict
    }

    pub(super) fn nothing_runs_twice(&self) -> Verdict {
        let mut verdict = Vec::new();
        for job in self.story.overlaps.iter().filter(|job| !self.may_have_a_daemon(job)) {
            verdict.extend(broken(
                "nothing runs in two places",
                format!("{job} was given away too early"),
            ));
        }
        let overlaps = self.story.notes.iter().filter(|note| note.word == Word::Overlap);
        for note in overlaps.filter(|note| !self.may_have_a_daemon(&note.job)) {
            verdict.extend(broken(
                "nothing runs in two places",
                format!("{} was taken too early", note.job),
            ));
        }
        for job in &self.story.outlived {
            verdict.extend(broken(
                "no process outlives its job",
                format!("the backend had the ACK of {job} while a process of it was left"),
            ));
        }
        if self.story.left_behind {
            verdict.extend(broken(
                "no process is left",
                "a process of the worker outlived the init",
            ));
        }
        verdict
    }

    /// Whether a daemon may go on with this job: docs/recycling.md has what has left the process
    /// group of the old one of two workers as a limit.
    fn may_have_a_daemon(&self, job: &str) -> bool {
        let mut hands = self.hands().filter(|hand| hand.job.id == job);
        self.plan.behaviour == Behaviour::Forks && hands.any(|hand| self.is_cut_off_beside_the_next(&hand))
    }

    pub(super) fn never_too_many(&self) -> Verdict {
        let most = usize::try_from(self.plan.concurrency).unwrap();
        // Where it hears of all that it claims, the backend can count; else it says itself what it
        // has.
        let claimed = self.story.most_active;
        // Jobs that the worker gives back may be held beside the others; the log says from when on
        // some are.
        let jobs = self.story.jobs.iter().zip(&self.plan.jobs);
        let released = jobs.filter(|(_, plan)| self.are_held() && plan.ending == Ending::Release);
        let released: BTreeSet<&str> = released.map(|(job, _)| job.id.as_str()).collect();
        let said = self.requests.iter().filter(|event| event.operation == "heartbeat");
        let takes_a_place = |id: &&String| !released.contains(id.as_str());
        let said = said.map(|event| event.jobs.iter().filter(takes_a_place).count());
        let said = said.max().unwrap_or(0);
        let claimed_at_most = most + released.len();
        // A job that must not be discarded, or cannot be given back, stays claimed without being
        // anybody's.
        let can_go_back = !self.plan.is_last_attempt && self.plan.dialect != Dialect::Strict;
        let hears_all = self.plan.weather.is_reliable() && can_go_back;
        if said > most || (hears_all && claimed > claimed_at_most) {
            return broken(
                "never more jobs than the concurrency",
                format!("{said} said, {claimed} claimed"),
            );
        }
        Vec::new()
    }

    /// Whether some job was held before it went back.
    fn are_held(&self) -> bool {
        self.story.log.contains("each is held here before it goes back")
    }
}

/// Whether the answer says that it was not carried out, and arrived, its head at least.
fn is_declined(event: &Event) -> bool {
    // Of a job that is not there it says nothing when the backend's store is away, or what is
    // before it has no such path.
    let is_no = |status: u16| (300..500).contains(&status) && status != 404 || status == 503;
    let is_of_a_proxy = event.fault == Some("page");
    event.took_ms.is_some() && (event.status.is_some_and(is_no) || is_of_a_proxy)
}
