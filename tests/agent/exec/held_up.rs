//! A process in a strange state, also one of another job, holds up no other job's end.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::leftovers::DAEMON;
use super::{Init, enqueue, handler, runner};
use crate::backend::Outcome;
use crate::stage::{PATIENCE, Stage};
use crate::support::namespace::spawn;
use crate::support::wait::{now, wait_until};
use crate::support::{proc, sys};

/// How long what a job left behind is looked for at the most. Whoever waits that long in vain is
/// held up.
const CLEARING_LIMIT: Duration = Duration::from_secs(1);

/// Helpers of each script besides [`DAEMON`].
const WORDS: &str = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
notes = os.environ['NOTES']
def state(pid):
    return open('/proc/%s/stat' % pid).read().rsplit(')', 1)[1].split()[0]
def touch(name):
    open(notes + '.new', 'w').write(str(os.getpid()))
    os.rename(notes + '.new', notes + name)
def until(condition):
    while not condition():
        time.sleep(0.005)
";

/// Jobs that do nothing beside one that does this, until the others are done: at the moment at
/// which that one is done nobody is left.
fn hold_up_nobody(script: &str) {
    let stage = Stage::new();
    enqueue(&stage, "long", "long", &json!([]), "");
    let script = format!("{DAEMON}{WORDS}{script}\nuntil(lambda: os.path.exists(notes + '.go'))");
    let mut init = handler(
        &stage,
        r#"[ $OJS_JOB_TYPE = short ] && exit 0; exec python3 -S -E -c "$LONG""#,
    )
    .with("LONG", script)
    .start();
    let is_there = || stage.at("init.notes.begun").exists();
    assert!(wait_until(PATIENCE, is_there), "{}", init.story());
    // A delay that is the init's comes each time; a busy machine makes single jobs late.
    let quickest = (0..5)
        .map(|number| {
            let began = now();
            let id = format!("short{number}");
            enqueue(&stage, &id, "short", &json!([]), "");
            stage.becomes(&id, &[Outcome::Acked(None)]);
            began.elapsed()
        })
        .min();
    println!("the quickest took {quickest:?}");
    assert!(
        quickest.is_some_and(|took| took < CLEARING_LIMIT / 2),
        "{quickest:?}: {}",
        init.story()
    );
    assert_eq!(stage.outcomes("long"), [], "it runs beside them");
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    stage.becomes("long", &[Outcome::Acked(None)]);
    let runner = runner(&mut init);
    let left: Vec<i32> = proc::descendants(init.pid)
        .into_iter()
        .filter(|pid| *pid != runner)
        .collect();
    assert!(left.is_empty(), "{left:?}: {}", init.story());
    init.stops();
}

#[test]
fn a_process_whose_first_thread_has_ended_holds_up_no_other_job_and_is_ended_with_its_own() {
    hold_up_nobody(
        "
import threading
def headless():
    def other():
        until(lambda: state('self') == 'Z')
        touch('.begun')
        time.sleep(300)
    threading.Thread(target=other).start()
    # The system call that ends one thread.
    libc.syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
daemon(headless)",
    );
}

#[test]
fn an_end_that_a_tracer_does_not_let_go_of_holds_up_no_other_job() {
    hold_up_nobody(
        "
def traced():
    touch('.traced')
    time.sleep(300)
daemon(traced)
until(lambda: os.path.exists(notes + '.traced'))
pid = int(open(notes + '.traced').read())
SEIZE = 0x4206
assert libc.ptrace(SEIZE, pid, None, None) == 0, ctypes.get_errno()
os.kill(pid, signal.SIGKILL)
until(lambda: state(pid) == 'Z')
touch('.begun')",
    );
}

/// The end of a job by itself, when it is traced.
const ENDS: &str = "until(lambda: os.path.exists(notes + '.traced'))";

/// A job that does this, and ends while another process traces it. The kernel shows the end to that
/// process first, and only then to the runner. Returns the tracer, which has the end and waits for
/// `.go`.
fn is_traced_at_its_end(stage: &Stage, does: &str, options: &str, more: &[(&str, &str)]) -> (Init, i32) {
    enqueue(stage, "traced", "traced", &json!([]), options);
    let tracer = format!(
        "{DAEMON}{WORDS}
pid = int(sys.argv[1])
SEIZE = 0x4206
assert libc.ptrace(SEIZE, pid, None, None) == 0, ctypes.get_errno()
touch('.traced')
until(lambda: state(pid) == 'Z')
touch('.ended')
# If the test fails, its end waits for this one.
last = time.monotonic() + 20
until(lambda: os.path.exists(notes + '.go') or time.monotonic() > last)"
    );
    // A signal, as of a child that ends, would stop it for its tracer.
    let traced = format!("{DAEMON}{WORDS}\ntouch('.pid')\n{does}");
    let script = r#"[ $OJS_JOB_TYPE = short ] && exit 0; exec python3 -S -E -c "$TRACED""#;
    let init = handler(stage, script).with("TRACED", traced).with_all(more).start();
    let is_there = |name: &str| {
        stage
            .at(&format!("init.notes.{name}"))
            .metadata()
            .is_ok_and(|found| found.len() > 0)
    };
    assert!(wait_until(PATIENCE, || is_there("pid")), "{}", init.story());
    let inner = std::fs::read_to_string(stage.at("init.notes.pid")).unwrap();
    let pid = init.outer_pid(inner.trim()).to_string();
    let mut command = Command::new("python3");
    command
        .args(["-S", "-E", "-c", &tracer, &pid])
        .env("NOTES", stage.at("init.notes"));
    let tracer = spawn(command);
    assert!(wait_until(PATIENCE, || is_there("ended")), "{}", init.story());
    // Behind its outcome the runner has seen the end of the other one.
    enqueue(stage, "short", "short", &json!([]), "");
    stage.becomes("short", &[Outcome::Acked(None)]);
    (init, tracer)
}

#[test]
fn a_job_whose_end_a_tracer_does_not_let_go_of_succeeds_when_it_does() {
    let stage = Stage::new();
    let (mut init, tracer) = is_traced_at_its_end(&stage, ENDS, "", &[]);
    assert_eq!(stage.outcomes("traced"), [], "{}", init.story());
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    stage.becomes("traced", &[Outcome::Acked(None)]);
    sys::reap(tracer, true).unwrap();
    init.stops();
}

#[test]
fn a_job_whose_end_a_tracer_does_not_let_go_of_fails_when_its_time_is_over_and_the_runner_lives_on() {
    fails_when_its_time_is_over(ENDS);
}

#[test]
fn a_job_that_is_killed_while_a_tracer_does_not_let_go_of_its_end_fails_by_why_it_was_killed() {
    let error = fails_when_its_time_is_over("print('at work', file=sys.stderr, flush=True); time.sleep(300)");
    assert_eq!(error["details"]["stderr"], "at work\n", "{error}");
}

fn fails_when_its_time_is_over(does: &str) -> Value {
    let stage = Stage::new();
    let patience = [("OJS_TIMEOUT_GRACE", "10s")];
    let (mut init, tracer) = is_traced_at_its_end(&stage, does, r#","timeout_ms":3000"#, &patience);
    let before = runner(&mut init);
    let error = stage.failure("traced");
    assert_eq!(error["code"], "timeout", "{}", init.story());
    assert_eq!(runner(&mut init), before, "{}", init.story());
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    sys::reap(tracer, true).unwrap();
    init.stops();
    error
}
