//! The jobs' questions about the backend and the holders, answered by the parts that know.

use std::time::Duration;

use crate::api::ids::{CallId, Claim, HolderId, ProcessId, Text};
use crate::api::{BackendTraits, EndCause, FetchForm, Moment, OfPull};
use crate::backend::link::Link;
use crate::jobs::facts::{BackendFacts, Offered, OldestOf, Takers};
use crate::worker::holder::Holder;
use crate::worker::workers::Workers;

impl BackendFacts for Link {
    fn traits(&self) -> BackendTraits {
        self.session.traits
    }

    fn heartbeat_interval(&self) -> Duration {
        self.session.heartbeats.interval
    }

    fn store_seen(&self) -> Option<Moment> {
        self.session.store_seen
    }

    fn outcome_taken_at(&self) -> Option<Moment> {
        self.session.outcome_taken_at
    }

    fn is_told_visibility(&self) -> bool {
        self.session.sent_fetch_form == FetchForm::Full
    }

    fn reports_on_their_way(&self) -> usize {
        self.calls.reports()
    }

    fn checks_on_their_way(&self) -> usize {
        self.calls.checks()
    }

    fn newest_sending(&self, call: CallId) -> Option<Moment> {
        self.calls.newest_sending(call)
    }

    fn times_sent(&self, call: CallId) -> usize {
        self.calls.times_sent(call)
    }
}

impl Takers for Workers {
    fn answer_limit(&self, holder: HolderId) -> Option<Duration> {
        self.holders.get(holder)?.manners.answer_within
    }

    fn is_known_by_words_alone(&self, holder: HolderId) -> bool {
        self.holders.get(holder).is_some_and(Holder::is_known_by_words_alone)
    }

    fn last_said(&self, holder: HolderId) -> Option<Moment> {
        self.holders.get(holder)?.last_said
    }

    fn process_of(&self, holder: HolderId) -> Option<ProcessId> {
        self.holders.get(holder).map(|holder| holder.process)
    }

    fn is_at_work(&self, holder: HolderId) -> bool {
        let holder = self.holders.get(holder).filter(|holder| !holder.is_closed);
        let process = holder.and_then(|holder| self.holders.process(holder.process));
        process.is_some_and(|process| process.ending.is_none() && !process.is_gone)
    }

    fn is_open(&self, holder: HolderId) -> bool {
        self.holders.is_open(holder)
    }

    fn hears(&self, holder: HolderId) -> bool {
        self.holders.hears(holder)
    }

    fn is_stuck(&self, process: ProcessId) -> bool {
        self.holders.is_stuck(process)
    }

    fn overdue_of(&self, process: ProcessId) -> Option<HolderId> {
        self.holders.overdue_of(process)
    }

    fn ending(&self, process: ProcessId) -> Option<&EndCause> {
        self.holders.ending(process)
    }

    fn worker_ended_for(&self) -> Option<&EndCause> {
        self.supervision.ended_for.as_ref()
    }

    fn frame_limit(&self) -> Option<usize> {
        self.holders.frame_limit()
    }

    fn free(&self) -> usize {
        self.holders.free()
    }

    fn are_ready(&self) -> bool {
        self.holders.ready() > 0
    }

    fn pull(&self) -> bool {
        self.holders.pull()
    }

    fn want_jobs(&self) -> bool {
        self.pulls.wanted() > 0
    }

    fn take(&self, job: Offered) -> bool {
        self.holders.offers().take(&job.subject.kind, job.bytes)
    }

    fn types_taken(&self) -> Vec<Text> {
        self.holders.offers().types()
    }

    fn oldest_for_the_idle(&self, oldest: OldestOf) -> Option<Claim> {
        let idle = self.holders.offers().idle();
        idle.filter_map(|offer| oldest(offer.types.as_deref(), offer.frame_limit))
            .min()
    }

    fn choose(&self, job: Offered) -> Option<HolderId> {
        self.holders.offers().choose(&job.subject.kind, job.bytes)
    }

    fn ready_by(&self, timeout: Duration) -> Option<Moment> {
        let worker = &self.supervision;
        (!worker.has_been_ready()).then(|| worker.ready_by(timeout))
    }

    fn jobs_of(&self, process: ProcessId) -> usize {
        self.holders.jobs_of(process)
    }

    fn holders_of(&self, process: ProcessId) -> Vec<HolderId> {
        self.holders.of(process).map(|(id, _)| id).collect()
    }

    fn is_taken_in(&self, process: ProcessId, job: Offered) -> bool {
        self.takers_in(process, job.subject, job.bytes).next().is_some()
    }

    fn idle_in(&self, process: ProcessId, job: Offered) -> Option<HolderId> {
        Self::idle_in(self, process, job.subject, job.bytes)
    }

    fn pull_in(&self, process: ProcessId, job: Offered) -> Option<OfPull> {
        Self::pull_in(self, process, &job.subject.queue)
    }

    fn emptiest_taker(&self, job: Offered) -> Option<ProcessId> {
        Self::emptiest_taker(self, job.subject, job.bytes)
    }
}
