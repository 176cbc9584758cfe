//! Faults and events, which no real backend has.

use serde::Serialize;
use serde_json::json;

use crate::events::{Event, millis};
use crate::faults::FaultRequest;
use crate::http::call::{Call, Result};
use crate::http::reply::Reply;
use crate::refusal::{Refusal, RefusalKind};
use crate::state::Gate;

/// Most events in one answer, unless the request asks for fewer.
const MAX_EVENTS: u64 = 10_000;

/// Answers requests below `/dev`.
pub(super) fn answer(call: &mut Call<'_>) -> Result {
    let path: Vec<&str> = call.request.path.iter().skip(1).map(String::as_str).collect();
    match (call.request.method.as_str(), path.as_slice()) {
        ("GET", ["faults"]) => Ok(list(call)),
        ("POST", ["faults"]) => switch_on(call),
        ("DELETE", ["faults"]) => {
            call.state.faults.clear();
            Ok(Reply::ok(&json!({"cleared": true})))
        }
        ("DELETE", ["faults", number]) => {
            let is_gone = number.parse().is_ok_and(|number| call.state.faults.remove(number));
            if is_gone {
                return Ok(Reply::ok(&json!({"cleared": true})));
            }
            let message = format!("there is no fault {number}: it never was, ran out, or was cleared");
            Err(Refusal::new(RefusalKind::NotFound, message))
        }
        ("GET", ["events"]) => events(call),
        _ => Ok(call.request.nothing_there()),
    }
}

fn list(call: &mut Call<'_>) -> Reply {
    let active = call.state.faults.active(call.now).iter().map(|(number, active)| {
        json!({
            "id": number,
            "fault": active.rule.fault.name(),
            "operation": active.rule.operation.map_or("all", |operation| operation.name()),
            "every": active.rule.every,
            "times": active.rule.times,
            "hits": active.hits,
        })
    });
    Reply::ok(&json!({"faults": active.collect::<Vec<_>>()}))
}

fn switch_on(call: &mut Call<'_>) -> Result {
    match FaultRequest::read(&call.object()?)? {
        FaultRequest::Rule(rule) => {
            let number = call.state.faults.add(call.now, rule)?;
            Ok(Reply::with_status(201, &json!({"id": number})))
        }
        FaultRequest::Refuse(lasts) => {
            let _ = call.shared.gate.send(Gate::Closed {
                until: Some(call.now + lasts),
            });
            Ok(Reply::with_status(
                202,
                &json!({"refusing_for_ms": lasts.as_millis() as u64}),
            ))
        }
    }
}

#[derive(Serialize)]
struct EventsBody<'a> {
    events: Vec<&'a Event>,
    /// The value of `after` for the next request.
    last: u64,
    /// The time by the clock of the events.
    now_ms: f64,
    /// The wall clock at the start of that clock, RFC 3339 with nanoseconds: for comparison with
    /// other clocks.
    started_at: String,
}

fn events(call: &mut Call<'_>) -> Result {
    let after = call.request.number("after", 0)?;
    let limit = call.request.number("limit", MAX_EVENTS)?;
    let operation = call.request.parameter("operation");
    let worker = call.request.parameter("worker");
    let passes = |event: &&Event| {
        operation.is_none_or(|operation| event.operation == operation)
            && worker.is_none_or(|worker| event.worker.as_deref() == Some(worker))
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found: Vec<&Event> = call.state.events.after(after).filter(passes).take(limit).collect();
    let is_all = found.len() < limit;
    let newest = call.state.events.next_number().saturating_sub(1);
    let last = found
        .last()
        .map_or(newest, |event| if is_all { newest } else { event.number });
    Ok(Reply::ok(&EventsBody {
        events: found,
        last,
        now_ms: millis(call.now),
        started_at: format!("{:.9}", call.state.store.epoch()),
    }))
}
