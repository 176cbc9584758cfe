//! Holders that ask for jobs: which pulls get an empty reply, and the one reply to each.

use crate::api::ids::{HolderId, PullId, Text};
use crate::api::{Effect, GivenJob, MAX_CONCURRENCY, Queues, Wants, WorkerTimer};
use crate::worker::holder::Holder;
use crate::worker::pulls::Pull;
use crate::worker::workers::{Context, Workers};
use crate::worker::workers_said::Said;

/// Most queues that a pull, and so a FETCH for pulls, names. Of a longer list, other queues are
/// named with the next pull.
const MOST_QUEUES: usize = 64;

/// The first queues of a list, this many, are named in every pull.
const QUEUES_WITHOUT_TURNS: usize = MOST_QUEUES / 2;

impl Workers {
    /// Enters a pull of a holder. If no job can be given to the pull, it gets an empty reply at
    /// once. Returns whether the pull waits.
    pub(crate) fn wants(&mut self, id: HolderId, wants: Wants, cx: &Context) -> bool {
        let Wants {
            pull,
            count,
            queues,
            within,
        } = wants;
        let Some(is_there) = self.holders.get(id).map(Holder::is_there) else {
            return false;
        };
        if self.pulls.get(pull).is_some() {
            return false;
        }
        // The concurrency bounds each FETCH (`Lifecycle::room`), not the wish of a pull.
        let left = usize::try_from(count.min(MAX_CONCURRENCY)).unwrap_or(usize::MAX);
        if is_there {
            self.timers.cancel(WorkerTimer::Ready);
            self.next_may_be_ready(id, cx);
            self.said_ready(cx);
            self.say(Said::JobsAskedFor(left + self.pulls.wanted()));
        }
        let queues = self.queues_to_take(id, queues, cx);
        if is_there {
            self.holders
                .change(id, |holder| holder.asked_queues.add(queues.as_deref()));
        }
        let is_restricted = queues.as_ref().is_some_and(Vec::is_empty);
        let is_in_vain = !is_there || is_restricted || !self.may_get_jobs(cx) || left == 0;
        let holder = id;
        self.pulls.add(pull, Pull { holder, left, queues });
        if is_in_vain {
            self.answer_pull(pull, Vec::new());
        } else {
            self.timers.arm(WorkerTimer::Pull(pull), cx.now.after(within));
        }
        !is_in_vain
    }

    /// Whether new jobs may arrive: they may be given out, and there is memory for them.
    fn may_get_jobs(&self, cx: &Context) -> bool {
        self.are_taking_jobs(cx.phase) && !cx.gate_is_closed
    }

    /// The queues from which the FETCH for this pull takes jobs. A pull without queues means the
    /// configured ones. If the pull names too many, each pull of the holder selects other ones.
    fn queues_to_take(&mut self, id: HolderId, named: Option<Vec<Text>>, cx: &Context) -> Option<Vec<Text>> {
        let Some(mut named) = named else {
            return match &cx.options.queues {
                Queues::Only(taken) => Some(taken.clone()),
                Queues::Configured | Queues::AsAsked => None,
            };
        };
        match &cx.options.queues {
            Queues::Configured => {}
            Queues::Only(taken) => {
                for refused in named.extract_if(.., |queue| !taken.contains(queue)) {
                    self.queue_is_refused(refused, cx);
                }
            }
            Queues::AsAsked => self.say(Said::QueuesAskedFor(named.clone())),
        }
        if named.len() <= MOST_QUEUES {
            return Some(named);
        }
        let turn = self.holders.change(id, |holder| {
            holder.queue_turns = holder.queue_turns.wrapping_add(1);
            holder.queue_turns
        });
        Some(in_turn(named, turn.unwrap_or_default()))
    }

    /// Answers the pulls of a FETCH that has returned with no further jobs.
    pub(crate) fn answer_asked_pulls(&mut self) {
        while let Some(pull) = self.pulls.first_asked() {
            self.answer_pull(pull, Vec::new());
        }
    }

    /// Answers the pull. The rest of its credit lapses.
    pub(crate) fn answer_pull(&mut self, id: PullId, jobs: Vec<GivenJob>) {
        let Some(pull) = self.pulls.take(id) else { return };
        self.timers.cancel(WorkerTimer::Pull(id));
        self.recycling.was_given(jobs.len());
        let holder = pull.holder;
        self.order(Effect::AnswerPull { holder, pull: id, jobs });
    }

    /// Answers all pulls with an empty reply if no job can be given out: outside the phase running,
    /// without a worker, or without memory for more jobs.
    pub(crate) fn end_pulls(&mut self, cx: &Context) {
        if self.may_get_jobs(cx) {
            return;
        }
        let waiting: Vec<PullId> = self.pulls.iter().map(|(id, _)| id).collect();
        for pull in waiting {
            self.answer_pull(pull, Vec::new());
        }
    }

    /// Answers the pulls of a holder that gets no more jobs with an empty reply.
    pub(crate) fn end_pulls_of(&mut self, holder: HolderId) {
        for pull in self.pulls.of(holder) {
            self.answer_pull(pull, Vec::new());
        }
    }

    /// Removes a pull whose client has left. Returns whether the pull had no reply yet.
    pub(crate) fn wants_no_more(&mut self, holder: HolderId, id: PullId) -> bool {
        let is_theirs = self.pulls.get(id).is_some_and(|pull| pull.holder == holder);
        if is_theirs {
            self.pulls.take(id);
            self.timers.cancel(WorkerTimer::Pull(id));
        }
        is_theirs
    }

    /// Removes the pulls of a holder that has left, without replies.
    pub(super) fn forget_pulls(&mut self, holder: HolderId) {
        for pull in self.pulls.of(holder) {
            self.pulls.take(pull);
            self.timers.cancel(WorkerTimer::Pull(pull));
        }
    }
}

/// Selects the queues of a FETCH from a longer list: the first ones, and as many of the others in
/// turn as there is room for. The order stays.
fn in_turn(named: Vec<Text>, turn: usize) -> Vec<Text> {
    let others = named.len().saturating_sub(QUEUES_WITHOUT_TURNS).max(1);
    let room = MOST_QUEUES - QUEUES_WITHOUT_TURNS;
    let first = turn.wrapping_mul(room) % others;
    let is_due = |at: usize| {
        let among_others = at.checked_sub(QUEUES_WITHOUT_TURNS);
        among_others.is_none_or(|at| (at + others - first) % others < room)
    };
    let due = named.into_iter().enumerate().filter(|(at, _)| is_due(*at));
    due.map(|(_, queue)| queue).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn of_many_queues_the_first_are_always_asked_for_and_the_others_in_turn_in_the_order_that_they_were_named_in() {
        for count in [65_usize, 100, 256] {
            let named: Vec<Text> = (0..count).map(|number| format!("{number:03}").into()).collect();
            let rounds = count.div_ceil(MOST_QUEUES - QUEUES_WITHOUT_TURNS);
            let mut seen = BTreeSet::new();
            for turn in 7..7 + rounds {
                let due = in_turn(named.clone(), turn);
                assert_eq!(due.len(), MOST_QUEUES);
                assert!(due.is_sorted(), "{due:?}");
                assert!(due.starts_with(&named[..QUEUES_WITHOUT_TURNS]), "{due:?}");
                seen.extend(due);
            }
            assert_eq!(seen.len(), count);
        }
    }
}
