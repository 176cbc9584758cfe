//! What a real network and a real backend do wrong, on demand.

mod order;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub(crate) use order::{Order, read};

use crate::operation::Operation;
use crate::store::job::Moment;
use crate::store::refusal::{Kind, Refusal};

/// Most faults that are switched on at once.
const MAX_RULES: usize = 100;

/// Longest that a fault can be switched on for, or an answer be delayed.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The name of the fault by which an answer gets lost.
pub(crate) const LOSE_REPLY: &str = "lose_reply";

/// The name of the fault by which an answer comes late to what was done at once.
pub(crate) const LATE_REPLY: &str = "late_reply";

/// The names of all faults of requests.
pub(crate) const FAULT_NAMES: [&str; 12] = [
    "hang",
    "close",
    "delay",
    "status",
    LOSE_REPLY,
    LATE_REPLY,
    "truncate",
    "page",
    "redirect",
    "store_away",
    "limit",
    "overtaken",
];

/// Those that answer instead of what was asked, whatever the status says.
pub(crate) const ANSWERED_INSTEAD: [&str; 4] = ["status", "page", "redirect", "store_away"];

/// A public backend, in whose words the server speaks while its store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// ACK, FAIL, giving back and a look at a job: 404, as if there were no such job. FETCH: 500.
    Postgres,
    /// As Postgres, but FETCH finds no jobs, and every answer is slow, that to a heartbeat slowest.
    Nats,
    /// ACK and a look at a job: 500. FAIL and giving back: 404. FETCH finds no jobs.
    Redis,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Nats, Self::Redis];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Nats => "nats",
            Self::Redis => "redis",
        }
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is never answered, and not carried out; the connection stays open.
    Hang,
    /// The connection is closed, and it is not carried out.
    Close,
    /// It is carried out this much later.
    Delay(Duration),
    /// It is not carried out, and answered with this.
    Status {
        /// The HTTP status.
        status: u16,
        /// The header Retry-After, spelled like this.
        retry_after: Option<String>,
    },
    /// It is carried out, and the connection is closed instead of an answer.
    LoseReply,
    /// It is carried out at once, and answered this much later: what follows from it comes before its answer.
    LateReply(Duration),
    /// It is carried out, and the answer breaks off in the middle of its body.
    Truncate,
    /// It is not carried out, and answered 200 with a page of HTML: a proxy, a portal, somebody else's web site.
    Page,
    /// It is not carried out, and answered with this status (301, 302, 303, 307 or 308) and another place to ask at.
    Redirect(u16),
    /// It is not carried out, because the store behind the HTTP server is away; what a public backend says then.
    StoreAway {
        /// Which one.
        backend: Backend,
        /// How late it says so; a heartbeat is answered [`HEARTBEAT_DELAYS`] times as late.
        delay: Duration,
    },
    /// An ACK that is too large for the store together with its job is refused each time; what is smaller is let through.
    Limit {
        /// Most bytes of the job and the ACK's body together.
        bytes: u64,
        /// 500, as nats says it, or 400, as the others do.
        status: u16,
    },
    /// An ACK comes too late: the job's reservation ran out just now, and another worker has done it already. 409.
    Overtaken {
        /// Whether the answer says that it is completed.
        tells_state: bool,
    },
}

/// How many times the delay of other answers a heartbeat's takes while the store is away.
pub const HEARTBEAT_DELAYS: u32 = 6;

impl Fault {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hang => "hang",
            Self::Close => "close",
            Self::Delay(_) => "delay",
            Self::Status { .. } => "status",
            Self::LoseReply => LOSE_REPLY,
            Self::LateReply(_) => LATE_REPLY,
            Self::Truncate => "truncate",
            Self::Page => "page",
            Self::Redirect(_) => "redirect",
            Self::StoreAway { .. } => "store_away",
            Self::Limit { .. } => "limit",
            Self::Overtaken { .. } => "overtaken",
        }
    }

    /// Whether there are requests to this operation that it means.
    pub(crate) fn can_meet(&self, operation: Operation) -> bool {
        match self {
            Self::Limit { .. } | Self::Overtaken { .. } => operation == Operation::Ack,
            Self::Hang
            | Self::Close
            | Self::Delay(_)
            | Self::Status { .. }
            | Self::LoseReply
            | Self::LateReply(_)
            | Self::Truncate
            | Self::Page
            | Self::Redirect(_)
            | Self::StoreAway { .. } => true,
        }
    }

    /// Whether it means a request that puts so many bytes into the store.
    fn meets(&self, operation: Operation, stored: u64) -> bool {
        let is_small = matches!(self, Self::Limit { bytes, .. } if stored <= *bytes);
        self.can_meet(operation) && !is_small
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault and whom it meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// What happens.
    pub fault: Fault,
    /// To which requests; `None`: to all, except those to `/dev`.
    pub operation: Option<Operation>,
    /// To every how many-th of them; 1: to each.
    pub every: u32,
    /// How often at most; `None`: as long as it is switched on.
    pub times: Option<u32>,
    /// For how long; `None`: until it is switched off.
    pub lasts: Option<Duration>,
}

impl FaultRule {
    /// This fault, for every request to the operation, until it is switched off.
    #[must_use]
    pub fn on(operation: Operation, fault: Fault) -> Self {
        Self {
            fault,
            operation: Some(operation),
            every: 1,
            times: None,
            lasts: None,
        }
    }

    /// This fault, for every request, until it is switched off.
    #[must_use]
    pub fn on_all(fault: Fault) -> Self {
        Self {
            operation: None,
            ..Self::on(Operation::Other, fault)
        }
    }

    /// Only for every `n`-th request.
    #[must_use]
    pub fn every(self, n: u32) -> Self {
        Self {
            every: n.max(1),
            ..self
        }
    }

    /// At most `n` times.
    #[must_use]
    pub fn times(self, n: u32) -> Self {
        Self { times: Some(n), ..self }
    }

    /// For this long.
    #[must_use]
    pub fn lasting(self, time: Duration) -> Self {
        Self {
            lasts: Some(time),
            ..self
        }
    }
}

/// The faults that are switched on.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    active: BTreeMap<u64, Active>,
    next: u64,
}

/// A fault that is switched on.
#[derive(Debug)]
pub(crate) struct Active {
    pub rule: FaultRule,
    until: Option<Moment>,
    seen: u32,
    pub hits: u32,
}

impl Faults {
    /// Switches a fault on; gives the number by which it can be switched off.
    pub fn add(&mut self, now: Moment, rule: FaultRule) -> Result<u64, Refusal> {
        self.drop_old(now);
        if self.active.len() >= MAX_RULES {
            return Err(Refusal::new(
                Kind::Full,
                format!("{MAX_RULES} faults are switched on already: clear some"),
            ));
        }
        self.next += 1;
        let until = rule.lasts.map(|lasts| now + lasts.min(LONGEST));
        self.active.insert(
            self.next,
            Active {
                rule,
                until,
                seen: 0,
                hits: 0,
            },
        );
        Ok(self.next)
    }

    /// Switches a fault off; whether it was on.
    pub fn remove(&mut self, number: u64) -> bool {
        self.active.remove(&number).is_some()
    }

    /// Switches all off.
    pub fn clear(&mut self) {
        self.active.clear();
    }

    /// None is switched on.
    pub fn are_off(&self) -> bool {
        self.active.is_empty()
    }

    /// What happens to a request to this operation that puts so many bytes into the store (of an ACK: those of its body
    /// and of its job). Of several the one that was switched on first.
    pub fn take(&mut self, now: Moment, operation: Operation, stored: u64) -> Option<Fault> {
        self.drop_old(now);
        self.active
            .values_mut()
            .find_map(|active| active.take(operation, stored))
    }

    /// Those that are switched on, by number.
    pub fn active(&mut self, now: Moment) -> &BTreeMap<u64, Active> {
        self.drop_old(now);
        &self.active
    }

    fn drop_old(&mut self, now: Moment) {
        self.active.retain(|_, active| {
            let is_over = active.until.is_some_and(|until| until <= now);
            let is_used_up = active.rule.times.is_some_and(|times| active.hits >= times);
            !is_over && !is_used_up
        });
    }
}

impl Active {
    fn take(&mut self, operation: Operation, stored: u64) -> Option<Fault> {
        let is_another = self.rule.operation.is_some_and(|meant| meant != operation);
        if is_another || !self.rule.fault.meets(operation, stored) {
            return None;
        }
        self.seen = self.seen.wrapping_add(1);
        if !self.seen.is_multiple_of(self.rule.every) {
            return None;
        }
        self.hits += 1;
        Some(self.rule.fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(rule: FaultRule, requests: usize) -> Vec<bool> {
        let mut faults = Faults::default();
        faults.add(Duration::ZERO, rule).unwrap();
        (0..requests)
            .map(|_| faults.take(Duration::ZERO, Operation::Ack, 0).is_some())
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
    fn the_list_of_names_has_every_fault() {
        let status = Fault::Status {
            status: 503,
            retry_after: None,
        };
        let delay = Fault::Delay(Duration::ZERO);
        let all = [
            Fault::Hang,
            Fault::Close,
            delay,
            status,
            Fault::LoseReply,
            Fault::LateReply(Duration::ZERO),
            Fault::Truncate,
            Fault::Page,
            Fault::Redirect(301),
            Fault::StoreAway {
                backend: Backend::Nats,
                delay: Duration::ZERO,
            },
            Fault::Limit { bytes: 1, status: 500 },
            Fault::Overtaken { tells_state: true },
        ];
        assert_eq!(all.map(|fault| fault.name()), FAULT_NAMES);
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
        let mut met = |operation, stored| faults.take(Duration::ZERO, operation, stored).unwrap().name();
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
        assert!(faults.take(Duration::from_millis(999), Operation::Ack, 0).is_some());
        assert!(faults.take(Duration::from_secs(1), Operation::Ack, 0).is_none());
    }
}
