//! A process in a strange state, also one of another job, holds up no other job's end.

use std::time::Duration;

use serde_json::json;

use super::leftovers::DAEMON;
use super::{enqueue, handler, runner};
use crate::backend::Outcome;
use crate::stage::{PATIENCE, Stage};
use crate::support::proc;
use crate::support::wait::{now, wait_until};

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
