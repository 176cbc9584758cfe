//! The requests on their way, with the purpose of each. Each kind is counted as requests come and
//! go, because thousands of jobs can mean thousands of requests, and every event asks for such a
//! count.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Call;
use crate::api::ids::CallId;
use crate::backend::purpose::{Purpose, Topic, WhenItHangs};

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Calls {
    all: BTreeMap<CallId, Purpose>,
    /// Those that may be sent twice.
    repeatable: BTreeMap<CallId, Call>,
    /// Those that are about no single job: a handful, however many jobs there are.
    general: BTreeSet<CallId>,
    /// Those that a report, or a delivery that came again, waits for.
    reports: usize,
    /// Looks at jobs that a heartbeat did not extend.
    checks: usize,
}

impl Calls {
    /// A request goes out, which may be sent twice.
    pub(super) fn insert_repeatable(&mut self, id: CallId, purpose: Purpose, call: Call) {
        self.repeatable.insert(id, call);
        self.insert(id, purpose);
    }

    /// A request goes out.
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

    /// The call was answered, or nobody waits for it any more.
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

    /// The purpose of a call.
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

    /// Whether it is on its way.
    pub(crate) fn contains_key(&self, call: &CallId) -> bool {
        self.all.contains_key(call)
    }

    /// All of them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &CallId> {
        self.all.keys()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The purposes of calls that are about no single job.
    pub(crate) fn general(&self) -> impl Iterator<Item = (CallId, &Purpose)> {
        self.general
            .iter()
            .filter_map(|call| Some((*call, self.all.get(call)?)))
    }

    /// Whether a request is on its way that is for this, and about no single job.
    pub(crate) fn is_any(&self, is: impl Fn(&Purpose) -> bool) -> bool {
        self.general().any(|(_, purpose)| is(purpose))
    }

    /// How many a report, or a delivery that came again, waits for.
    pub(crate) fn reports(&self) -> usize {
        self.reports
    }

    /// How many look at a job that a heartbeat did not extend.
    pub(crate) fn checks(&self) -> usize {
        self.checks
    }

    /// Whether what is counted is what there is.
    ///
    /// # Errors
    ///
    /// Compares the counts with the calls.
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
