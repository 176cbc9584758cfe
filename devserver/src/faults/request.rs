//! The body of a request to `/dev/faults`.

use std::time::Duration;

use super::fault::{Backend, FAULT_NAMES, Fault, FaultRule, LATE_REPLY, LONGEST, LOSE_REPLY, StreamFault};
use crate::json::Object;
use crate::operation::Operation;
use crate::refusal::Refusal;

/// The statuses that redirect a client, with the old request or with another one.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Requests at `/dev/faults`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FaultRequest {
    /// A fault of requests, to be switched on.
    Rule(FaultRule),
    /// The port is to be closed for this long.
    Refuse(Duration),
}

impl FaultRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    ///
    /// A field is wrong; the refusal names it.
    pub(crate) fn read(body: &Object) -> Result<Self, Refusal> {
        let name = body
            .text("fault")?
            .ok_or_else(|| Refusal::field("fault", &format!("given: {}", known_faults())))?;
        let lasts = duration(body, "for_ms")?;
        let fault = match name.as_str() {
            "refuse" => {
                let lasts = lasts.ok_or_else(|| {
                    Refusal::field(
                        "for_ms",
                        "given for refuse: when nobody can connect, nobody can switch it off",
                    )
                })?;
                return Ok(Self::Refuse(lasts));
            }
            "hang" => Fault::Hang,
            "close" => Fault::Close,
            "delay" => Fault::Delay(delay(body, "delay")?),
            LATE_REPLY => Fault::LateReply(delay(body, LATE_REPLY)?),
            "status" => Fault::Status {
                status: status(body)?,
                retry_after: retry_after(body)?,
            },
            LOSE_REPLY => Fault::LoseReply,
            "truncate" => Fault::Truncate,
            "page" => Fault::Page,
            "redirect" => Fault::Redirect(one_of(body, "status", &REDIRECTS, "301, 302, 303, 307 or 308")?),
            "store_away" => Fault::StoreAway {
                backend: backend(body)?,
                delay: duration(body, "delay_ms")?.unwrap_or_default(),
            },
            "limit" => Fault::Limit {
                bytes: body.get("bytes", "a whole number")?.ok_or_else(|| {
                    Refusal::field("bytes", "given for the fault limit: most bytes of the ACK and its job")
                })?,
                status: one_of(body, "status", &[500, 400], "500 or 400")?,
            },
            "overtaken" => Fault::Overtaken {
                tells_state: body.get("tells_state", "true or false")?.unwrap_or(true),
            },
            "stream_silent" => Fault::Stream(StreamFault::Silent),
            "stream_hangs" => Fault::Stream(StreamFault::Hangs),
            "stream_ends" => Fault::Stream(StreamFault::Ends),
            "stream_lies" => Fault::Stream(StreamFault::Lies),
            "stream_floods" => Fault::Stream(StreamFault::Floods),
            "stream_without_comments" => Fault::Stream(StreamFault::WithoutComments),
            _ => return Err(Refusal::field("fault", &known_faults())),
        };
        let operation = operation(body)?;
        if operation.is_some_and(|operation| !fault.can_meet(operation)) {
            return Err(Refusal::field(
                "operation",
                &format!(
                    "{} (or all) for the fault {fault}",
                    fault.only().map_or("", Operation::name)
                ),
            ));
        }
        Ok(Self::Rule(FaultRule {
            fault,
            operation,
            every: body.get("every", "a whole number, 1 or more")?.unwrap_or(1).max(1),
            times: body.get("times", "a whole number, 1 or more")?,
            lasts,
        }))
    }
}

/// All faults, for people.
fn known_faults() -> String {
    let mut names = vec!["refuse"];
    names.extend(FAULT_NAMES);
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
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

/// The named status, or the first of the known ones.
fn one_of(body: &Object, name: &str, known: &[u16], list: &str) -> Result<u16, Refusal> {
    let given: Option<u16> = body.get(name, list)?;
    let found = given.or(known.first().copied()).filter(|given| known.contains(given));
    found.ok_or_else(|| Refusal::field(name, list))
}

fn backend(body: &Object) -> Result<Backend, Refusal> {
    let name = body.text("backend")?;
    let found = Backend::ALL
        .into_iter()
        .find(|backend| Some(backend.name()) == name.as_deref());
    found.ok_or_else(|| Refusal::field("backend", "given for the fault store_away: postgres, nats or redis"))
}

fn delay(body: &Object, fault: &str) -> Result<Duration, Refusal> {
    let delay = duration(body, "delay_ms")?;
    delay.ok_or_else(|| Refusal::field("delay_ms", &format!("given for {fault}, in milliseconds")))
}

fn status(body: &Object) -> Result<u16, Refusal> {
    let status: Option<u16> = body.get("status", "an HTTP status")?;
    let status = status.filter(|status| (200..=599).contains(status));
    status.ok_or_else(|| Refusal::field("status", "given for the fault status, from 200 to 599"))
}

/// The value of Retry-After: any text that a header can hold.
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

    #[test]
    fn an_order_that_makes_no_sense_is_refused_by_name() {
        for (text, part) in [
            (r#"{}"#, "'fault'"),
            (r#"{"fault":"explode"}"#, "lose_reply"),
            (r#"{"fault":"refuse"}"#, "'for_ms'"),
            (r#"{"fault":"delay"}"#, "'delay_ms'"),
            (r#"{"fault":"late_reply"}"#, "'delay_ms'"),
            (r#"{"fault":"redirect","status":304}"#, "'status'"),
            (r#"{"fault":"store_away"}"#, "postgres"),
            (r#"{"fault":"limit"}"#, "'bytes'"),
            (r#"{"fault":"limit","bytes":9,"status":404}"#, "'status'"),
            (r#"{"fault":"overtaken","operation":"nack"}"#, "'operation'"),
            (r#"{"fault":"stream_ends","operation":"ack"}"#, "events (or all)"),
            (r#"{"fault":"status"}"#, "'status'"),
            (r#"{"fault":"status","status":99}"#, "'status'"),
            (r#"{"fault":"hang","operation":"sneeze"}"#, "heartbeat"),
            (r#"{"fault":"hang","for_ms":99999999999}"#, "a day"),
            (
                r#"{"fault":"status","status":503,"retry_after":"a\nb"}"#,
                "'retry_after'",
            ),
        ] {
            let message = FaultRequest::read(&Object::read(text.as_bytes()).unwrap())
                .unwrap_err()
                .message;
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
