//! The faults that are switched on, and which of them meets a request.

use std::collections::BTreeMap;

use super::fault::{Fault, FaultRule, LONGEST};
use crate::moment::Moment;
use crate::operation::Operation;
use crate::refusal::{Refusal, RefusalKind};

/// Most faults that are switched on at once.
const MAX_RULES: usize = 100;

/// The faults that are switched on.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    active: BTreeMap<u64, ActiveFault>,
    next_number: u64,
}

/// A fault that is switched on.
#[derive(Debug)]
pub(crate) struct ActiveFault {
    pub rule: FaultRule,
    until: Option<Moment>,
    requests_seen: u32,
    pub hits: u32,
}

impl Faults {
    /// Switches a fault on; gives the number by which it can be switched off.
    pub fn add(&mut self, now: Moment, rule: FaultRule) -> Result<u64, Refusal> {
        self.drop_ended(now);
        if self.active.len() >= MAX_RULES {
            return Err(Refusal::new(
                RefusalKind::Full,
                format!("{MAX_RULES} faults are switched on already: clear some"),
            ));
        }
        self.next_number += 1;
        let until = rule.lasts.map(|lasts| now + lasts.min(LONGEST));
        self.active.insert(
            self.next_number,
            ActiveFault {
                rule,
                until,
                requests_seen: 0,
                hits: 0,
            },
        );
        Ok(self.next_number)
    }

    /// Switches a fault off; whether it was on.
    pub fn remove(&mut self, number: u64) -> bool {
        self.active.remove(&number).is_some()
    }

    /// Switches all faults off.
    pub fn clear(&mut self) {
        self.active.clear();
    }

    /// Whether no fault is switched on.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// The fault for a request to this operation that puts this many bytes into the store (of an
    /// ACK: those of its body and of its job). Of several the one that was switched on first.
    pub fn fault_for(&mut self, now: Moment, operation: Operation, stored: u64) -> Option<Fault> {
        self.drop_ended(now);
        self.active
            .values_mut()
            .find_map(|active| active.meet(operation, stored))
    }

    /// The faults that are switched on, by number.
    pub fn active(&mut self, now: Moment) -> &BTreeMap<u64, ActiveFault> {
        self.drop_ended(now);
        &self.active
    }

    fn drop_ended(&mut self, now: Moment) {
        self.active.retain(|_, active| {
            let is_over = active.until.is_some_and(|until| until <= now);
            let is_used_up = active.rule.times.is_some_and(|times| active.hits >= times);
            !is_over && !is_used_up
        });
    }
}

impl ActiveFault {
    fn meet(&mut self, operation: Operation, stored: u64) -> Option<Fault> {
        let is_another = self.rule.operation.is_some_and(|meant| meant != operation);
        if is_another || !self.rule.fault.meets(operation, stored) {
            return None;
        }
        self.requests_seen = self.requests_seen.wrapping_add(1);
        if !self.requests_seen.is_multiple_of(self.rule.every) {
            return None;
        }
        self.hits += 1;
        Some(self.rule.fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn hits(rule: FaultRule, requests: usize) -> Vec<bool> {
        let mut faults = Faults::default();
        faults.add(Duration::ZERO, rule).unwrap();
        (0..requests)
            .map(|_| faults.fault_for(Duration::ZERO, Operation::Ack, 0).is_some())
            .collect()
    }

    #[test]
    fn a_fault_meets_every_nth_request_as_often_as_it_may() {
        let rule = FaultRule::on(Operation::Ack, Fault::Close).every(2).times(2);
        assert_eq!(hits(rule, 8), [false, true, false, true, false, false, false, false]);
    }

    #[test]
    fn a_fault_of_one_operation_leaves_the_others_alone() {
        assert_eq!(hits(FaultRule::on(Operation::Fetch, Fault::Close), 1), [false]);
        assert_eq!(hits(FaultRule::on_all(Fault::Close), 1), [true]);
    }

    #[test]
    fn a_limit_meets_what_is_larger_and_neither_the_rest_nor_what_is_no_ack() {
        let limit = Fault::Limit {
            bytes: 100,
            status: 500,
        };
        let mut faults = Faults::default();
        faults.add(Duration::ZERO, FaultRule::on_all(limit).times(1)).unwrap();
        faults.add(Duration::ZERO, FaultRule::on_all(Fault::Close)).unwrap();
        let mut met = |operation, stored| faults.fault_for(Duration::ZERO, operation, stored).unwrap().name();
        assert_eq!(met(Operation::Ack, 100), "close", "another fault gets its turn");
        assert_eq!(met(Operation::Nack, 101), "close");
        assert_eq!(met(Operation::Ack, 101), "limit");
    }

    #[test]
    fn a_fault_ends_with_its_time() {
        let mut faults = Faults::default();
        faults
            .add(
                Duration::ZERO,
                FaultRule::on_all(Fault::Hang).lasting(Duration::from_secs(1)),
            )
            .unwrap();
        assert!(
            faults
                .fault_for(Duration::from_millis(999), Operation::Ack, 0)
                .is_some()
        );
        assert!(faults.fault_for(Duration::from_secs(1), Operation::Ack, 0).is_none());
    }
}
