//! FETCH: how many jobs it asks for, in which form, and how often ojs-init sends it.

use std::mem;
use std::time::Duration;

use crate::api::{Call, Delivery, Failure, FetchForm, LinkNotice, LinkTimer, PullId, Text};
use crate::backend::fetch_pace::{MOST_ASKED_FOR, MOST_FETCHES, fewest_for_second, most_of_two};
use crate::backend::link::{Context, Link};
use crate::backend::purpose::{Purpose, SentFetch};
use crate::retry::state::RetryState;

/// How many jobs the holders want.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    /// Jobs that holders without pulls are ready for.
    pub(crate) pushed: usize,
    /// Jobs that the concurrency has room for, whichever holder would accept them.
    pub(crate) room: usize,
    /// How many jobs the holders accept together, within the concurrency.
    pub(crate) capacity: usize,
    /// How many jobs all pulls accept.
    pub(crate) pulled: usize,
    /// How many jobs the pulls accept that a FETCH for pulls alone serves next.
    pub(crate) of_next_pulls: usize,
    /// The queues that these pulls name; none: the configured queues.
    pub(crate) queues: Option<Vec<Text>>,
    /// The newest pull.
    pub(crate) newest_pull: Option<PullId>,
}

impl Link {
    /// Whether a FETCH may be sent, apart from the demand. Holders that ask for jobs themselves
    /// (`are_pulls_waiting`) have at most one FETCH in flight.
    pub(crate) fn may_fetch(&self, are_pulls_waiting: bool) -> bool {
        let most = if are_pulls_waiting { 1 } else { MOST_FETCHES };
        !self.is_kept_from_fetching() && self.fetches_on_their_way().0 < most
    }

    /// Sends a FETCH for the wanted jobs, if that is worth a request.
    pub(crate) fn fetch(&mut self, demand: Demand, cx: &Context) {
        let Some(mut fetch) = self.next_fetch(demand, cx) else {
            return;
        };
        let Ok(count @ 1..) = u32::try_from(fetch.count) else {
            return;
        };
        if fetch.is_second {
            self.session.fetch_pace.second_at = Some(cx.now);
        }
        fetch.is_woken = fetch.is_for_pushed && self.wake_ups.fetch_goes_out(cx.now);
        if fetch.is_woken {
            self.notify(LinkNotice::WokenUp);
        }
        self.session.sent_fetch_form = self.session.fetch_forms.next;
        let call = Call::Fetch {
            worker: fetch.worker.clone(),
            count,
            queues: fetch.queues.clone(),
            visibility: cx.options.visibility_timeout,
            form: self.session.fetch_forms.next,
        };
        self.call(call, Purpose::Fetch(fetch), cx.options.request_timeout, cx);
    }

    /// The FETCH that the demand calls for, if it is worth a request.
    fn next_fetch(&self, demand: Demand, cx: &Context) -> Option<SentFetch> {
        let worker = self.session.worker.clone()?;
        let (others, on_their_way) = self.fetches_on_their_way();
        let pushed = demand.pushed.saturating_sub(on_their_way);
        let is_for_pushed = pushed > 0 && !self.timers.is_armed(LinkTimer::Fetch);
        let is_one_of_two = is_for_pushed && demand.newest_pull.is_none() && self.is_second_fetch_worth_it(cx);
        if others >= if is_one_of_two { MOST_FETCHES } else { 1 } {
            return None;
        }
        let (queues, wanted) = if is_for_pushed {
            (None, pushed + demand.pulled)
        } else {
            (demand.queues, demand.of_next_pulls)
        };
        let free = wanted.min(demand.room.saturating_sub(on_their_way));
        if others > 0 && free < fewest_for_second(demand.capacity) {
            return None;
        }
        let most = if is_one_of_two {
            most_of_two(demand.capacity)
        } else {
            MOST_ASKED_FOR
        };
        Some(SentFetch {
            worker,
            at: cx.now,
            count: free.min(most),
            queues,
            pull: demand.newest_pull,
            is_woken: false,
            is_for_pushed,
            is_second: others > 0,
        })
    }

    /// Whether no FETCH may be sent, whatever room there is.
    fn is_kept_from_fetching(&self) -> bool {
        !self.session.is_registration_answered
            || self.session.heartbeats.resumed.is_some()
            || self.is_fetch_held_up()
            || self.timers.is_armed(LinkTimer::FetchReturned)
    }

    /// Whether a FETCH could be sent and answered, now or after the pause between two polls.
    pub(crate) fn is_able_to_fetch(&self) -> bool {
        !self.is_kept_from_fetching() && !self.is_in_outage()
    }

    /// Whether two FETCHes fetch jobs faster than one.
    fn is_second_fetch_worth_it(&self, cx: &Context) -> bool {
        self.session.fetch_pace.is_worth_second(cx.now) && self.session.fetch_forms.is_full_accepted()
    }

    pub(super) fn pause_fetch_for(&mut self, timer: LinkTimer, pause: Duration, cx: &Context) {
        if cx.is_terminating() {
            return;
        }
        let until = cx.now.after(pause);
        if self.timers.deadline_of(timer).is_none_or(|due| due < until) {
            self.timers.arm(timer, until);
        }
    }

    /// A FETCH was answered with these jobs, or with none.
    pub(crate) fn fetch_brought(&mut self, fetch: &SentFetch, deliveries: &[Delivery], capacity: usize, cx: &Context) {
        self.session.fetches = RetryState::default();
        self.session
            .fetch_pace
            .answered(fetch, deliveries.len(), capacity, cx.now);
        if !deliveries.is_empty() {
            self.listen_to_queues_of(deliveries, cx);
            self.store_was_seen(fetch.at);
        }
        self.judge_polls(fetch, deliveries, cx);
        if fetch.is_for_pushed {
            self.wake_ups.answered(fetch.at, fetch.is_woken, deliveries, cx.now);
            if !fetch.is_second && !self.is_fetching() {
                let is_any_left = self.wake_ups.is_any_left();
                self.poll_pace.brought(deliveries.len(), fetch.count, is_any_left);
            }
        }
        let form = self.session.sent_fetch_form;
        self.session.fetch_forms.accepted(form, true, cx.now);
        if mem::replace(&mut self.session.told_fetch_form, form) != form {
            self.notify(LinkNotice::FetchForm(form));
        }
    }

    /// ojs-init has accepted the jobs of a FETCH. `is_news`: some of them are new to ojs-init.
    pub(crate) fn fetch_is_done(&mut self, fetch: &SentFetch, is_news: bool, cx: &Context) {
        if fetch.is_for_pushed {
            if is_news {
                // The pause follows the other FETCH, which returned no job. This FETCH did return
                // one.
                self.timers.cancel(LinkTimer::Fetch);
            }
            if !is_news || self.has_brought_all(cx) {
                self.rest_until_next_poll(cx);
            }
        }
        if is_news && self.session.sent_fetch_form != FetchForm::Full {
            // The backend alone decides how long these jobs are reserved, until a heartbeat names
            // them.
            self.heartbeat_for_worker(cx);
        }
        self.is_known_now(&fetch.worker, cx);
    }

    /// A FETCH failed. Returns whether it is sent again in another form, without a pause.
    pub(crate) fn fetch_failed(&mut self, failure: Failure, cx: &Context) -> bool {
        self.session.fetch_pace.failed();
        self.wake_ups.fetch_failed();
        self.poll_pace.pause = None;
        let forms = &mut self.session.fetch_forms;
        // The refusal of another FETCH in the same form may have arrived first.
        let is_other_tried = forms.next != self.session.sent_fetch_form;
        if failure == Failure::Refused && (is_other_tried || forms.refused()) {
            return true;
        }
        if cx.is_terminating() {
            if matches!(failure, Failure::Unanswered | Failure::ServerError) {
                self.notify(LinkNotice::FetchAbandoned);
            }
            return false;
        }
        let before = self.session.fetches.add(failure, cx.now);
        let pause = self.draws.retry_pause(before, failure, cx.end.phase);
        self.timers.arm(LinkTimer::FetchAgain, cx.now.after(pause));
        self.call_failed("FETCH", failure, Some(pause));
        false
    }
}
