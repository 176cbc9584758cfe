//! The faults of the backend in a trial, from some moment on, and their end.

use std::time::Duration;

use ojs_devserver::{Fault, FaultRule, Operation, Server};

use super::kinds::Weather;
use super::plan::{LIMIT_BYTES, Plan};

/// How late an answer comes for which nobody waits any more: longer than any stop phase.
const TOO_LATE: Duration = Duration::from_secs(6);

/// How late it is said that a job failed or was given back, where that is late.
const LATE: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(400),
];

/// The operations that one trouble meets alone; without heartbeats jobs would be lost by right.
const TROUBLED: [Operation; 4] = [Operation::Ack, Operation::Nack, Operation::Fetch, Operation::Info];

/// The operations whose every second request hangs while all others are answered.
const MUTE: [Operation; 5] = [
    Operation::Ack,
    Operation::Nack,
    Operation::Fetch,
    Operation::Info,
    Operation::Heartbeat,
];

/// How late an answer comes that may still be waited for, or not any more.
const RATHER_LATE: Duration = Duration::from_millis(1_200);

/// The place of that number in a list of so many.
fn of(number: u64, count: usize) -> usize {
    usize::try_from(number).unwrap() % count
}

/// Whether one ACK has no answer, and whatever comes after it has.
pub fn is_one_ack_mute(plan: &Plan) -> bool {
    plan.weather == Weather::Mute && plan.variant.is_multiple_of(2)
}

/// Of one operation every second request hangs, or a single ACK does.
fn mute(plan: &Plan) -> FaultRule {
    if is_one_ack_mute(plan) {
        return FaultRule::on(Operation::Ack, Fault::Hang).times(1);
    }
    let variant = plan.variant / 2;
    let fault = match variant / 5 % 4 {
        0 => Fault::Hang,
        1 => Fault::LateReply(TOO_LATE),
        2 => Fault::LateReply(RATHER_LATE),
        _ => Fault::Delay(RATHER_LATE),
    };
    FaultRule::on(MUTE[of(variant, MUTE.len())], fault).every(2)
}

/// The weather begins.
pub fn begin(server: &Server, plan: &Plan) {
    let rule = |fault| drop(server.fault(FaultRule::on_all(fault)));
    let every = |n, fault| drop(server.fault(FaultRule::on_all(fault).every(n)));
    let only = |operation, fault| drop(server.fault(FaultRule::on(operation, fault)));
    let status = |status, retry_after: Option<&str>| Fault::Status {
        status,
        retry_after: retry_after.map(str::to_owned),
    };
    let variant = plan.variant;
    if plan.weather.replaces_delays() {
        // Of two faults the one that was switched on first counts.
        server.clear_faults();
    }
    match plan.weather {
        Weather::Fine => {}
        Weather::Slow => rule(Fault::Delay(Duration::from_millis(100))),
        Weather::Errors => every(2, status(500, None)),
        Weather::Lost => every(2, Fault::LoseReply),
        Weather::Resets => every(2, Fault::Close),
        Weather::Hangs => every(3, Fault::Hang),
        Weather::Truncates => every(2, Fault::Truncate),
        Weather::Busy => every(2, status(429, Some("0.1"))),
        Weather::Refuses => drop(server.refuse_connections()),
        Weather::Silent => rule(Fault::Hang),
        Weather::Gone => match variant % 3 {
            0 => drop(server.refuse_connections()),
            1 => rule(Fault::Hang),
            _ => rule(Fault::Delay(TOO_LATE)),
        },
        Weather::Late => only(Operation::Nack, Fault::LateReply(LATE[of(variant, LATE.len())])),
        Weather::Pages if variant.is_multiple_of(2) => every(2, Fault::Page),
        Weather::Pages => only(TROUBLED[of(variant / 2, TROUBLED.len())], Fault::Page),
        Weather::Store => {
            let (backend, delay) = plan.store();
            rule(Fault::StoreAway { backend, delay });
        }
        Weather::Limit => rule(Fault::Limit {
            bytes: LIMIT_BYTES,
            status: if variant.is_multiple_of(2) { 500 } else { 400 },
        }),
        Weather::Sick => {
            let fault = match variant / 4 % 4 {
                0 => Fault::Redirect(301),
                1 => Fault::Redirect(307),
                2 => status(500, None),
                _ => status(503, None),
            };
            only(TROUBLED[of(variant, TROUBLED.len())], fault);
        }
        Weather::Frozen => server.freeze_connections((!variant.is_multiple_of(2)).then_some(plan.lasts)),
        Weather::Mute => drop(server.fault(mute(plan))),
        Weather::Rival => drop(
            server.fault(
                FaultRule::on_all(Fault::Overtaken {
                    tells_state: variant.is_multiple_of(2),
                })
                .every(2),
            ),
        ),
    }
}

/// Ends the weather, where it ends.
pub fn end(server: &Server, plan: &Plan) {
    match plan.weather {
        Weather::Refuses => drop(server.accept_connections()),
        Weather::Silent | Weather::Pages | Weather::Store | Weather::Sick => server.clear_faults(),
        // A connection that was opened since stops as well.
        Weather::Frozen if (plan.variant / 2).is_multiple_of(3) => server.freeze_connections(None),
        _ => {}
    }
}
