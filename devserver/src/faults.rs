//! What a real network and a real backend do wrong, on demand.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::json::Object;
use crate::operation::Operation;
use crate::store::job::Moment;
use crate::store::refusal::{Kind, Refusal};

/// Most faults that are switched on at once.
const MAX_RULES: usize = 100;

/// Longest that a fault can be switched on for, or an answer be delayed.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The name of the fault by which an answer gets lost.
pub(crate) const LOSE_REPLY: &str = "lose_reply";

/// The names of all faults of requests.
pub(crate) const FAULT_NAMES: [&str; 6] = ["hang", "close", "delay", "status", LOSE_REPLY, "truncate"];

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
    /// It is carried out, and the answer breaks off in the middle of its body.
    Truncate,
}

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
            Self::Truncate => "truncate",
        }
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

/// What somebody asks for at `/dev/faults`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A fault of requests.
    Rule(FaultRule),
    /// Nobody can connect for this long.
    Refuse(Duration),
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

    /// What happens to a request to this operation. Of several the one that was switched on first.
    pub fn take(&mut self, now: Moment, operation: Operation) -> Option<Fault> {
        self.drop_old(now);
        self.active.values_mut().find_map(|active| active.take(operation))
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
    fn take(&mut self, operation: Operation) -> Option<Fault> {
        if self.rule.operation.is_some_and(|meant| meant != operation) {
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

/// Reads an order.
pub(crate) fn read(body: &Object) -> Result<Order, Refusal> {
    const NAMES: &str = "refuse, hang, close, delay, status, lose_reply or truncate";
    let name = body
        .text("fault")?
        .ok_or_else(|| Refusal::field("fault", &format!("given: {NAMES}")))?;
    let lasts = duration(body, "for_ms")?;
    let fault = match name.as_str() {
        "refuse" => {
            let lasts = lasts.ok_or_else(|| {
                Refusal::field(
                    "for_ms",
                    "given for refuse: when nobody can connect, nobody can switch it off",
                )
            })?;
            return Ok(Order::Refuse(lasts));
        }
        "hang" => Fault::Hang,
        "close" => Fault::Close,
        "delay" => {
            let delay = duration(body, "delay_ms")?;
            Fault::Delay(delay.ok_or_else(|| Refusal::field("delay_ms", "given for delay, in milliseconds"))?)
        }
        "status" => Fault::Status {
            status: status(body)?,
            retry_after: retry_after(body)?,
        },
        LOSE_REPLY => Fault::LoseReply,
        "truncate" => Fault::Truncate,
        _ => return Err(Refusal::field("fault", NAMES)),
    };
    Ok(Order::Rule(FaultRule {
        fault,
        operation: operation(body)?,
        every: body.get("every", "a whole number, 1 or more")?.unwrap_or(1).max(1),
        times: body.get("times", "a whole number, 1 or more")?,
        lasts,
    }))
}

fn operation(body: &Object) -> Result<Option<Operation>, Refusal> {
    match body.text("operation")?.as_deref() {
        None | Some("all") => Ok(None),
        Some(name) => Operation::named(name).map(Some).ok_or_else(|| {
            let names: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
            Refusal::field("operation", &format!("all or one of {}", names.join(", ")))
        }),
    }
}

fn status(body: &Object) -> Result<u16, Refusal> {
    let status: Option<u16> = body.get("status", "an HTTP status")?;
    let status = status.filter(|status| (200..=599).contains(status));
    status.ok_or_else(|| Refusal::field("status", "given for the fault status, from 200 to 599"))
}

/// Any spelling at all, so long as a header can hold it.
fn retry_after(body: &Object) -> Result<Option<String>, Refusal> {
    let Some(given) = body.raw("retry_after") else {
        return Ok(None);
    };
    let text = body
        .text("retry_after")
        .ok()
        .flatten()
        .unwrap_or_else(|| given.get().to_owned());
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        Ok(Some(text))
    } else {
        Err(Refusal::field("retry_after", "something that a header can hold"))
    }
}

fn duration(body: &Object, name: &str) -> Result<Option<Duration>, Refusal> {
    let millis: Option<u64> = body.get(name, "milliseconds")?;
    let given = millis.map(Duration::from_millis);
    match given.filter(|given| *given > LONGEST) {
        None => Ok(given),
        Some(_) => Err(Refusal::field(name, "at most a day")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(rule: FaultRule, requests: usize) -> Vec<bool> {
        let mut faults = Faults::default();
        faults.add(Duration::ZERO, rule).unwrap();
        (0..requests)
            .map(|_| faults.take(Duration::ZERO, Operation::Ack).is_some())
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
            Fault::Truncate,
        ];
        assert_eq!(all.map(|fault| fault.name()), FAULT_NAMES);
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
        assert!(faults.take(Duration::from_millis(999), Operation::Ack).is_some());
        assert!(faults.take(Duration::from_secs(1), Operation::Ack).is_none());
    }

    #[test]
    fn an_order_that_makes_no_sense_is_refused_by_name() {
        for (text, part) in [
            (r#"{}"#, "'fault'"),
            (r#"{"fault":"explode"}"#, "lose_reply"),
            (r#"{"fault":"refuse"}"#, "'for_ms'"),
            (r#"{"fault":"delay"}"#, "'delay_ms'"),
            (r#"{"fault":"status"}"#, "'status'"),
            (r#"{"fault":"status","status":99}"#, "'status'"),
            (r#"{"fault":"hang","operation":"sneeze"}"#, "heartbeat"),
            (r#"{"fault":"hang","for_ms":99999999999}"#, "a day"),
            (
                r#"{"fault":"status","status":503,"retry_after":"a\nb"}"#,
                "'retry_after'",
            ),
        ] {
            let message = read(&Object::read(text.as_bytes()).unwrap()).unwrap_err().message;
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
