//! The requests in flight, with the purpose of each. Each kind has a running count, because every
//! event reads the counts and there may be thousands of requests.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Call;
use crate::api::ids::CallId;
use crate::backend::purpose::{Purpose, Topic, WhenItHangs};

/// The requests in flight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Calls {
    all: BTreeMap<CallId, Purpose>,
    /// Requests that may be sent twice.
    repeatable: BTreeMap<CallId, Call>,
    /// Requests that are about no single job: a handful, however many jobs there are.
    general: BTreeSet<CallId>,
    /// Number of requests that a report, or a repeated delivery, waits for.
    reports: usize,
    /// Number of requests that check a job that a heartbeat did not extend.
    checks: usize,
}

impl Calls {
    /// Adds a request that may be sent twice.
    pub(super) fn insert_repeatable(&mut self, id: CallId, purpose: Purpose, call: Call) {
        self.repeatable.insert(id, call);
        self.insert(id, purpose);
    }

    /// Adds a request.
    pub(crate) fn insert(&mut self, call: CallId, purpose: Purpose) {
        match purpose.topic() {
            Topic::General => {
                self.general.insert(call);
            }
            Topic::Report => self.reports += 1,
            Topic::Check => self.checks += 1,
            Topic::News => {}
        }
        self.all.insert(call, purpose);
    }

    /// Removes a call that was answered or that is no longer waited for.
    pub(crate) fn remove(&mut self, call: &CallId) -> Option<Purpose> {
        self.repeatable.remove(call);
        let purpose = self.all.remove(call)?;
        match purpose.topic() {
            Topic::General => {
                self.general.remove(call);
            }
            Topic::Report => self.reports -= 1,
            Topic::Check => self.checks -= 1,
            Topic::News => {}
        }
        Some(purpose)
    }

    pub(crate) fn get(&self, call: &CallId) -> Option<&Purpose> {
        self.all.get(call)
    }

    /// The request, if it may be sent twice.
    pub(super) fn repeatable(&self, call: &CallId) -> Option<&Call> {
        self.repeatable.get(call)
    }

    /// The rule for a call that hangs.
    pub(super) fn when_it_hangs(&self, call: &CallId) -> Option<WhenItHangs> {
        let purpose = self.all.get(call)?;
        Some(purpose.when_it_hangs(self.repeatable.contains_key(call)))
    }

    /// Whether the call is in flight.
    pub(crate) fn contains_key(&self, call: &CallId) -> bool {
        self.all.contains_key(call)
    }

    /// The numbers of all calls.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &CallId> {
        self.all.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The calls that are about no single job, with their purposes.
    pub(crate) fn general(&self) -> impl Iterator<Item = (CallId, &Purpose)> {
        self.general
            .iter()
            .filter_map(|call| Some((*call, self.all.get(call)?)))
    }

    /// Whether a request about no single job with such a purpose is in flight.
    pub(crate) fn is_any(&self, is: impl Fn(&Purpose) -> bool) -> bool {
        self.general().any(|(_, purpose)| is(purpose))
    }

    /// Number of requests that a report, or a repeated delivery, waits for.
    pub(crate) fn reports(&self) -> usize {
        self.reports
    }

    /// Number of requests that check a job that a heartbeat did not extend.
    pub(crate) fn checks(&self) -> usize {
        self.checks
    }

    /// Compares the counts with the calls.
    ///
    /// # Errors
    ///
    /// A count differs from the calls.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut right = Self::default();
        for (call, purpose) in &self.all {
            right.insert(*call, purpose.clone());
        }
        right.repeatable.clone_from(&self.repeatable);
        let is_repeatable_known = self.repeatable.keys().all(|call| self.all.contains_key(call));
        if *self == right && is_repeatable_known {
            Ok(())
        } else {
            Err("the requests that are on their way are counted wrongly".to_owned())
        }
    }
}
