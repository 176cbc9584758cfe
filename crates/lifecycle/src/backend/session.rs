//! The session with the backend: what ojs-init knows about the backend, and the reverse. The
//! functions here are the changes and the questions with a rule behind them.

use std::collections::BTreeMap;
use std::mem;

use crate::api::{BackendTraits, Directive, FetchForm, Moment, Text, WorkerId};
use crate::backend::fetch_pace::FetchPace;
use crate::backend::forms::Forms;
use crate::backend::heartbeat_state::HeartbeatState;
use crate::retry::state::RetryState;

/// Most queues that a registration names.
const MOST_KNOWN_QUEUES: usize = 100;

/// Registration, traits, heartbeats, forms and retries: everything that lasts between requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct BackendSession {
    /// The worker's name; a new one for each incarnation.
    pub(crate) worker: Option<WorkerId>,
    /// Whether the backend has answered the registration, with success or not.
    pub(super) is_registration_answered: bool,
    /// Whether the backend has accepted any request of this incarnation. Only then does ojs-init
    /// report the end to it.
    pub(crate) is_known: bool,
    /// When ojs-init sends heartbeats, and in which form.
    pub(crate) heartbeats: HeartbeatState,
    /// The differences of this kind of backend.
    pub(crate) traits: BackendTraits,
    /// Whether the traits are settled: the backend has answered, or does not answer.
    pub(super) knows_traits: bool,
    /// How often the request for the traits failed.
    manifest_failures: u32,
    /// FETCHes in a row that failed.
    pub(super) fetches: RetryState,
    /// The form of a FETCH. Two FETCHes are in flight only in the full form, and ojs-init tries no
    /// other form before both are answered.
    pub(super) fetch_forms: Forms<FetchForm>,
    /// Form of the FETCH that was answered last, or is in flight.
    pub(crate) sent_fetch_form: FetchForm,
    /// Form of a FETCH in the last log line about it.
    pub(super) told_fetch_form: FetchForm,
    /// Whether a second FETCH is worth it.
    pub(super) fetch_pace: FetchPace,
    /// Registrations in a row that failed.
    pub(super) registrations: RetryState,
    /// The directive in the last heartbeat's reply.
    pub(super) last_directive: Option<Directive>,
    /// When the last request was sent that proved that the backend's store is up. The backend
    /// accepted an outcome, returned jobs or extended a reservation at that time or later.
    pub(crate) store_seen: Option<Moment>,
    /// When the backend last accepted an outcome.
    pub(crate) outcome_taken_at: Option<Moment>,
    /// The moment of the last early retry.
    pub(crate) retried_now_at: Option<Moment>,
    /// The present incarnation was deregistered. A late answer does not make it known again.
    pub(super) has_left: bool,
    /// The queues that holders of any incarnation have asked for, in the order of the first
    /// requests.
    pub(super) queues: Vec<Text>,
    /// How many of these queues the last registration named.
    pub(super) registered_queues: usize,
    /// Most jobs that holders had and asked for at one time.
    pub(super) most_at_once: u32,
    /// The backend has no registration.
    pub(super) has_no_registration: bool,
    /// Former incarnations that still have outcomes to deliver or requests to be answered, and
    /// whether the backend knows them.
    pub(super) retired: BTreeMap<WorkerId, bool>,
}

/// The worker's name and its registration.
impl BackendSession {
    /// Whether `worker` is the present incarnation.
    pub(crate) fn is(&self, worker: &WorkerId) -> bool {
        self.worker.as_ref() == Some(worker)
    }

    /// Another incarnation begins. The former one may still have outcomes to deliver.
    pub(super) fn begins(&mut self, worker: WorkerId) {
        if let Some(former) = self.worker.replace(worker) {
            self.retired.insert(former, self.is_known);
        }
        self.is_registration_answered = false;
        self.is_known = false;
        self.has_left = false;
        self.has_no_registration = false;
        self.registrations = RetryState::default();
    }

    /// Holders ask for jobs of this queue. Queues beyond `MOST_KNOWN_QUEUES` are not registered.
    pub(super) fn asked_for(&mut self, queue: &Text) {
        if self.queues.len() < MOST_KNOWN_QUEUES && !self.queues.contains(queue) {
            self.queues.push(queue.clone());
        }
    }

    /// Whether any queue is known.
    pub(super) fn knows_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Whether more queues are known than the last registration named, and the backend has a
    /// registration.
    pub(super) fn has_more_queues(&self) -> bool {
        !self.has_no_registration && self.queues.len() > self.registered_queues
    }

    /// The backend answered the registration, with success or not. Returns whether it had answered
    /// one before. The backend may be another one by now, or another version.
    pub(super) fn registration_answered(&mut self) -> bool {
        self.knows_traits = false;
        self.manifest_failures = 0;
        self.heartbeats.forms = Forms::default();
        self.fetch_forms = Forms::default();
        self.fetch_pace = FetchPace::default();
        mem::replace(&mut self.is_registration_answered, true)
    }

    /// The backend has accepted a request of this incarnation, which may be a former one by now.
    /// Returns whether it is the present one and was not known until now.
    pub(super) fn heard_of(&mut self, worker: &WorkerId) -> bool {
        if self.is(worker) {
            let was_known = mem::replace(&mut self.is_known, !self.has_left);
            return self.is_known && !was_known;
        }
        if let Some(is_known) = self.retired.get_mut(worker) {
            *is_known = true;
        }
        false
    }

    /// Whether `take_registered` would return any worker.
    pub(crate) fn has_registered(&self) -> bool {
        (self.worker.is_some() && self.is_known) || self.retired.values().any(|is_known| *is_known)
    }

    /// Returns every worker that the backend knows and that is not deregistered, and marks each as
    /// deregistered.
    pub(crate) fn take_registered(&mut self) -> Vec<WorkerId> {
        let former = self.retired.iter().filter(|(_, is_known)| **is_known);
        let mut all: Vec<WorkerId> = former.map(|(worker, _)| worker.clone()).collect();
        self.retired.retain(|_, is_known| !*is_known);
        if let Some(worker) = self.worker.clone()
            && mem::take(&mut self.is_known)
        {
            self.has_left = true;
            all.push(worker);
        }
        all
    }
}

/// The kind of the backend.
impl BackendSession {
    /// The request for the backend's kind failed. After `most` failures the backend counts as the
    /// usual kind.
    pub(super) fn traits_not_heard(&mut self, most: u32) {
        self.manifest_failures += 1;
        self.knows_traits = self.manifest_failures >= most;
    }
}
