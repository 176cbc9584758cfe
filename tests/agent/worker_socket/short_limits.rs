//! Orchestrators that allow little, and margins that are smaller than they should be: gone in time
//! all the same, with every job accounted for.

use std::time::Duration;

use crate::backend::{Behaviour, Endpoint};
use crate::stage::Stage;
use crate::support::wait::Stopwatch;

/// Takes a job, answers nothing, and neither SIGTERM nor anything that it is told ends it.
const STUCK: &str = "
note_signals(signal.SIGTERM)
link = Link()
link.ready()
link.job()
rest()";

/// How long the end of a PID namespace may take on a busy machine, behind the exit of its init: no
/// SIGKILL changes its status by then.
const TEARDOWN: Duration = Duration::from_secs(1);

/// How long it takes from the SIGTERM to the last words, which have to be before the limit; the end
/// follows.
#[track_caller]
fn gone_after(stage: &Stage, limit: u64, margin: &str) -> Duration {
    stage.enqueue([1]);
    let limit_text = format!("{limit}ms");
    let mut init = stage
        .worker(STUCK)
        .with_all(&[
            ("OJS_TERMINATION_GRACE_PERIOD", limit_text.as_str()),
            ("OJS_STOP_MARGIN", margin),
        ])
        .start();
    init.notes_line("job j1");
    let began = Stopwatch::start();
    init.stops();
    let took = began.real().saturating_sub(init.silent_for());
    let (gone, limit) = (began.elapsed(), Duration::from_millis(limit));
    assert!(init.log().contains("Worker stopped"), "{}", init.story());
    assert!(
        took < limit && gone < limit + TEARDOWN,
        "{took:?}, {gone:?}: {}",
        init.story()
    );
    if !margin.is_empty() {
        init.logs("is raised to ");
    }
    took
}

#[test]
fn without_any_margin_a_stuck_job_is_failed_and_the_init_is_gone_before_the_limit() {
    for (limit, margin) in [(3_000, "0s"), (4_000, "50ms"), (2_000, "")] {
        let stage = Stage::new();
        gone_after(&stage, limit, margin);
        assert_eq!(stage.failure("j1")["type"], "ShutdownError", "{limit} ms, {margin:?}");
    }
}

#[test]
fn a_backend_that_answers_nothing_leaves_the_slack_before_the_limit() {
    for (limit, margin, most) in [(3_000, "0s", 2_950), (5_000, "", 4_700)] {
        let stage = Stage::new();
        stage.backend.always(Endpoint::Nack, Behaviour::Hang);
        stage.backend.always(Endpoint::Deregister, Behaviour::Hang);
        let took = gone_after(&stage, limit, margin);
        assert!(took < Duration::from_millis(most), "{took:?} of {limit} ms, {margin:?}");
    }
}
