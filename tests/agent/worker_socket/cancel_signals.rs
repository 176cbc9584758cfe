//! SIGURG with a cancel: programs with one thread are woken up by it, whatever their handler waits
//! for.

use crate::backend::Outcome;
use crate::stage::{PATIENCE, Stage, job, never};
use crate::support::wait::wait_until;

/// A handler that sleeps, in a program with one thread: it reads nothing until the signal of this
/// number has ended its sleep.
const SLEEPER: &str = "
class Woken(Exception):
    pass

signals = 0

def wake(*_):
    global signals
    signals += 1
    note('woken', signals)
    if signals == WAKES_AT:
        readable = select.select([link.socket], [], [], 0)[0]
        note('told' if readable else 'not told')
        raise Woken

def sleep_in_handler(held):
    try:
        time.sleep(600)
    except Woken:
        cancel = link.until('cancel')
        note('stops', cancel['job_id'], cancel['reason'])
    return held

signal.signal(signal.SIGURG, wake)
";

fn sleeper(wakes_at: u32, script: &str) -> String {
    format!("WAKES_AT = {wakes_at}\n{SLEEPER}\n{script}")
}

#[test]
fn a_handler_that_sleeps_is_woken_up_when_its_timeout_is_over_and_its_process_goes_on() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    stage.enqueue([2]);
    let script = sleeper(
        1,
        "
link = Link()
link.ready(cancel_signal=True)
held = sleep_in_handler(link.job())
link.say('fail', job_id=held, error={'message': 'woken up', 'code': 'timeout', 'retryable': True})
link.work()",
    );
    let mut init = stage.worker(&script).start();
    init.notes_line("stops j1 timeout");
    let error = stage.failure("j1");
    assert_eq!(error["message"], "woken up", "{error}");
    stage.becomes("j2", &[Outcome::Acked(None)]);
    assert!(init.notes().contains(&"told".to_owned()), "{:?}", init.notes());
    init.stops();
}

#[test]
fn a_handler_that_sleeps_is_woken_up_at_the_deadline_of_a_shutdown() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = sleeper(
        1,
        "
link = Link()
link.ready(cancel_signal=True)
held = sleep_in_handler(link.job())
link.say('release', job_id=held, reason='shutdown')
rest()",
    );
    let mut init = stage.worker(&script).with("OJS_GRACE_PERIOD", "100ms").start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Requeued], "{}", init.story());
}

#[test]
fn the_signal_comes_again_until_the_job_is_answered_and_then_no_more() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    let script = sleeper(
        2,
        "
link = Link()
link.ready(cancel_signal=True)
link.ack(sleep_in_handler(link.job()))
link.work()",
    );
    let mut init = stage.worker(&script).start();
    init.logs("Job completed successfully");
    assert!(init.notes().contains(&"woken 2".to_owned()), "{:?}", init.notes());
    never("a signal came after the answer", || {
        let log = init.log();
        log.rfind("SIGURG") > log.find("Job completed successfully")
    });
    init.stops();
}

#[test]
fn only_the_process_of_the_connection_that_asked_for_it_is_woken_up() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    let script = sleeper(
        2,
        "
def serve():
    global link
    link = Link()
    link.ready(cancel_signal=True)
    link.ack(sleep_in_handler(link.job()))
    link.work()

def other():
    link = Link()
    link.ready(0, cancel_signal=True)
    link.work()

child(serve)
note_signals(signal.SIGURG)
child(other)
rest()",
    );
    let mut init = stage.worker(&script).start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    let urgent = format!("signal {}", libc::SIGURG);
    assert!(!init.notes().contains(&urgent), "{:?}", init.notes());
    init.stops();
}

#[test]
fn without_the_field_no_signal_comes_with_a_cancel() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    let script = "
note_signals(signal.SIGURG)
link = Link()
link.ready()
link.job()
link.note_all()";
    let mut init = stage.worker(script).start();
    init.notes_line("cancel timeout j1");
    let urgent = format!("signal {}", libc::SIGURG);
    never("a SIGURG came that nobody asked for", || init.notes().contains(&urgent));
}

#[test]
fn a_process_without_a_handler_for_the_signal_is_not_touched_by_it() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    let script = "
link = Link()
link.ready(cancel_signal=True)
held = link.job()
note('cancelled', link.until('cancel')['job_id'])
while 'answer' not in orders():
    time.sleep(0.01)
link.ack(held)
link.work()";
    let mut init = stage.worker(script).start();
    init.notes_line("cancelled j1");
    let signals = || init.log().matches("SIGURG").count();
    wait_until(PATIENCE, || signals() >= 3);
    init.order("answer");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}
