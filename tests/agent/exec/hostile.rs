//! Programs that do everything wrong: their own jobs fail, and nothing else happens.

use std::time::Duration;

use serde_json::json;

use super::{as_user, enqueue, handler, nobody_is_left, python};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::wait_until;

#[test]
fn a_process_that_stops_itself_is_ended_when_its_time_is_over() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!([]), r#","timeout_ms":300"#);
    let mut init = handler(&stage, "kill -STOP $$")
        .with("OJS_TIMEOUT_GRACE", "10s")
        .start();
    let error = stage.failure("j1");
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("timeout"), &json!(true)),
        "{error}"
    );
    nobody_is_left(&mut init);
    init.stops();
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_when_its_grace_is_over_and_the_runner_lives_on() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!([]), r#","timeout_ms":300"#);
    let mut init = handler(&stage, "trap '' TERM; while :; do sleep 0.05; done")
        .with("OJS_TIMEOUT_GRACE", "10s")
        .start();
    stage.wait_for_more(Endpoint::Fetch, 1);
    let runner = super::runner(&mut init);
    assert_eq!(stage.failure("j1")["code"], "timeout");
    nobody_is_left(&mut init);
    assert_eq!(super::runner(&mut init), runner);
    init.stops();
}

#[test]
fn a_process_that_ends_at_the_sigterm_of_a_timeout_may_have_finished_and_is_not_given_back() {
    for (ending, is_done) in [("0", true), ("75", false), ("1", false)] {
        for (of_job, of_all) in [(r#","timeout_ms":300"#, ""), ("", "300ms")] {
            let stage = Stage::new();
            enqueue(&stage, "j1", "t", &json!([]), of_job);
            let script = format!("trap 'exit {ending}' TERM; while :; do sleep 0.02; done");
            let mut init = handler(&stage, &script).with("OJS_EXEC_TIMEOUT", of_all).start();
            assert!(
                wait_until(PATIENCE, || !stage.outcomes("j1").is_empty()),
                "{}",
                init.story()
            );
            if is_done {
                assert_eq!(stage.outcomes("j1")[0], Outcome::Acked(None));
            } else {
                let error = stage.failure("j1");
                assert_eq!(error["code"], "timeout", "{error}");
                assert_eq!(error["retryable"], true, "{error}");
            }
            init.stops();
        }
    }
}

#[test]
fn a_job_without_a_timeout_of_its_own_has_the_one_that_is_set() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, "sleep 300").with("OJS_EXEC_TIMEOUT", "300ms").start();
    let error = stage.failure("j1");
    assert_eq!(error["code"], "timeout", "{error}");
    init.logs("Job execution timed out after");
    nobody_is_left(&mut init);
    init.stops();
}

#[test]
fn a_process_that_closes_everything_still_has_an_end() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "import os, time; os.closerange(0, 256); time.sleep(0.3); os._exit(0)";
    let mut init = python(&stage, script).start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn nonsense_and_a_flood_on_the_jobs_own_descriptor_hold_up_nobody() {
    let stage = Stage::new();
    enqueue(&stage, "flood", "flood", &json!([]), "");
    enqueue(&stage, "j2", "t", &json!([]), "");
    let script = "import os
if os.environ['OJS_JOB_TYPE'] == 'flood':
    os.write(3, b'\\xff\\0 nonsense\\nprogress\\nprogress two\\ncheckpoint {\\ncheckpoint [\\n\\n')
    os.write(3, b'x' * 300000)
    for _ in range(20000): os.write(3, b'heartbeat\\n')";
    let mut init = python(&stage, script).with("OJS_LOG_LEVEL", "info").start();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("flood"), [Outcome::Acked(None)]);
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_fork_bomb_in_its_limits_takes_its_own_job_and_the_next_one_runs() {
    let stage = Stage::new();
    // The bomb is over after so many seconds, whatever becomes of its limit.
    let bomb = "import os, resource, sys, time
end = time.monotonic() + 20
if resource.getrlimit(resource.RLIMIT_NPROC)[0] > 100: sys.exit(9)
if os.environ['OJS_JOB_TYPE'] == 'bomb':
    for _ in range(4):
        try: is_bomb = os.fork() == 0
        except OSError: break # those before it were quicker
        if is_bomb:
            while time.monotonic() < end:
                try: os.fork()
                except OSError: time.sleep(1)
            os._exit(0)
    while time.monotonic() < end:
        try:
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
        except OSError:
            break
print('\"through\"')";
    enqueue(&stage, "j1", "bomb", &json!([]), "");
    // Only those who are not root have a limit, and it is one for the user: the init is the first
    // to meet it.
    let start = python(&stage, bomb).through(&["prlimit", "--nproc=40:40"]);
    let mut init = as_user(start, "64731").start();
    stage.wait_for_outcomes_for(Duration::from_secs(60));
    assert_eq!(
        stage.outcomes("j1"),
        [Outcome::Acked(Some(json!("through")))],
        "{}",
        init.story()
    );
    enqueue(&stage, "j2", "t", &json!([]), "");
    stage.becomes("j2", &[Outcome::Acked(Some(json!("through")))]);
    nobody_is_left(&mut init);
    let beats = stage.count(Endpoint::Heartbeat);
    assert!(beats > 0);
    init.stops();
}

#[test]
fn a_job_that_takes_more_memory_than_it_may_is_ended_and_the_others_are_not() {
    let stage = Stage::new();
    enqueue(&stage, "big", "big", &json!([]), "");
    enqueue(&stage, "small", "t", &json!([]), "");
    let script = "import os, time
if os.environ['OJS_JOB_TYPE'] == 'big':
    kept = []
    for _ in range(40):
        kept.append(b'x' * (8 << 20)); time.sleep(0.05)
    time.sleep(300)";
    let mut init = python(&stage, script).with("OJS_EXEC_MAX_MEMORY", "100MiB").start();
    stage.becomes("small", &[Outcome::Acked(None)]);
    let error = stage.failure("big");
    assert_eq!(
        (&error["type"], &error["retryable"]),
        (&json!("out_of_memory"), &json!(true)),
        "{error}"
    );
    nobody_is_left(&mut init);
    init.stops();
}

/// A job of a parent with 60 MiB and four forks, which share them, or each have as many of their
/// own. Forks that share them end by themselves after some looks at their memory.
fn forks(has_own: bool) -> String {
    format!(
        "import os, time
kept = b'x' * (60 << 20)
for _ in range(4):
    if os.fork() == 0:
        own = b'y' * (60 << 20) if {has_own} else b''
        time.sleep({seconds})
        os._exit(0)
for _ in range(4):
    os.wait()",
        has_own = if has_own { "True" } else { "False" },
        seconds = if has_own { 60.0 } else { 1.7 }
    )
}

#[test]
fn memory_that_the_forks_of_a_job_share_counts_once_for_its_limit() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = python(&stage, &forks(false))
        .with("OJS_EXEC_MAX_MEMORY", "150MiB")
        .start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn memory_that_each_fork_of_a_job_has_for_itself_adds_up_for_its_limit() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = python(&stage, &forks(true))
        .with("OJS_EXEC_MAX_MEMORY", "150MiB")
        .start();
    assert_eq!(stage.failure("j1")["type"], "out_of_memory", "{}", init.story());
    nobody_is_left(&mut init);
    init.stops();
}
