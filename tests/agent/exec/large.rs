//! One message of the largest size that is allowed, and nothing else happening: it arrives at once,
//! in every direction.

use std::time::Duration;

use serde_json::json;

use super::{enqueue, handler};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::{Stopwatch, wait_until};

/// `exec.output_limit` by default.
const RESULT_BYTES: usize = 1 << 20;

/// `worker.max_frame` by default, less what a frame has besides its payload.
const FRAME_BYTES: usize = (4 << 20) - 1024;

/// A message that waits for something else to happen waits for the next ping: 10 s at least.
const AT_ONCE: Duration = Duration::from_secs(8);

/// Writes a result of as many bytes as its argument says, each of them its type.
const RESULT: &str = r#"[ "$OJS_JOB_TYPE" = sleep ] && exec sleep 300
head -c "$(tr -dc 0-9)" /dev/zero | tr '\0' "$OJS_JOB_TYPE""#;

fn result_of(kind: &str) -> Outcome {
    Outcome::Acked(Some(kind.repeat(RESULT_BYTES).into()))
}

/// Waits for this, which does not wait for the next ping.
fn happens_at_once(init: &Init, what: &str, mut has_happened: impl FnMut() -> bool) {
    let began = Stopwatch::start();
    assert!(wait_until(PATIENCE, &mut has_happened), "{what}: {}", init.story());
    let took = began.elapsed();
    assert!(took < AT_ONCE, "{what} took {took:?}: {}", init.story());
}

#[test]
fn a_result_of_the_largest_size_is_delivered_at_once() {
    let stage = Stage::new();
    let init = handler(&stage, RESULT).with("OJS_EXEC_INPUT", "args").start();
    // Each quotation mark is two bytes in JSON. The third comes beside a job that does nothing.
    for (id, kind) in [("plain", "a"), ("quotes", "\""), ("beside", "b")] {
        if id == "beside" {
            enqueue(&stage, "sleeper", "sleep", &json!([]), "");
            assert!(wait_until(PATIENCE, || stage.backend.handed_out("sleeper") == 1));
        }
        enqueue(&stage, id, &kind.replace('"', "\\\""), &json!([RESULT_BYTES]), "");
        happens_at_once(&init, id, || !stage.outcomes(id).is_empty());
        assert!(stage.outcomes(id) == [result_of(kind)], "{id}: {}", init.story());
    }
    assert!(stage.outcomes("sleeper").is_empty());
}

#[test]
fn a_large_result_of_a_job_that_has_ended_survives_a_sigterm() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "a", &json!([RESULT_BYTES]), "");
    let mut init = handler(&stage, RESULT)
        .with("OJS_EXEC_INPUT", "args")
        .with("OJS_SHUTDOWN_GRACE_PERIOD", "4s")
        .start();
    init.logs("process ended");
    init.stops();
    assert!(stage.outcomes("j1") == [result_of("a")], "{}", init.story());
}

#[test]
fn an_envelope_of_the_largest_size_arrives_whole() {
    let stage = Stage::new();
    let mut init = handler(&stage, "wc -c").start();
    let envelope = format!(r#"{{"id":"j1","type":"t","args":["{}"]}}"#, "x".repeat(FRAME_BYTES));
    stage.backend.enqueue(&envelope);
    assert!(
        wait_until(PATIENCE, || !stage.outcomes("j1").is_empty()),
        "{}",
        init.story()
    );
    let outcomes = stage.outcomes("j1");
    let [Outcome::Acked(Some(count))] = outcomes.as_slice() else {
        panic!("{outcomes:?}: {}", init.story())
    };
    assert!(
        count.as_u64().is_some_and(|count| count >= FRAME_BYTES as u64),
        "{count}"
    );
    init.stops();
}

#[test]
fn a_checkpoint_of_the_largest_size_is_saved_at_once() {
    let stage = Stage::new();
    // The frame of the next attempt has it twice, beside the rest of the envelope.
    const STATE_BYTES: usize = FRAME_BYTES / 2 - 1024;
    let script = format!(
        r#"{{ printf 'checkpoint "'; head -c {STATE_BYTES} /dev/zero | tr '\0' x; echo '"'; }} >&3
exec sleep 300"#
    );
    stage.enqueue([1]);
    let init = handler(&stage, &script).start();
    happens_at_once(&init, "saving it", || stage.count(Endpoint::Checkpoint) > 0);
    let saved = stage.backend.records_of(Endpoint::Checkpoint);
    assert!(
        saved[0].json()["state"]
            .as_str()
            .is_some_and(|state| state.len() == STATE_BYTES)
    );
}
