//! Mode exec: any program is a worker. What a job's process finds, what its end means, what becomes
//! of what it leaves, and what programs that do everything wrong can do to others: nothing.

mod arguments;
mod conversation;
mod ends;
mod environment;
mod examples;
mod held_up;
mod hostile;
mod large;
mod leftovers;
mod outcomes;
mod privacy;
mod recycling;
mod shutdown;
mod starts;
mod surroundings;
mod turns;

use serde_json::Value;

use crate::stage::{Init, PATIENCE, Stage, Start};
use crate::support::proc;
use crate::support::wait::wait_until;

/// The init in mode exec, with a handler that is this shell script.
fn handler<'a>(stage: &'a Stage, script: &str) -> Start<'a> {
    program(stage, &["sh", "-c", script])
}

/// Starts the init with a handler in Python.
fn python<'a>(stage: &'a Stage, script: &str) -> Start<'a> {
    program(stage, &["python3", "-S", "-E", "-c", script])
}

/// Starts the init with any program.
fn program<'a>(stage: &'a Stage, words: &[&str]) -> Start<'a> {
    stage.command(words).with("OJS_MODE", "exec")
}

/// A configuration file of this test.
fn configured<'a>(stage: &Stage, start: Start<'a>, toml: &str) -> Start<'a> {
    let path = stage.at("ojs-init.toml");
    std::fs::write(&path, toml).unwrap();
    start.with("OJS_INIT_CONFIG", path)
}

/// Execs the words behind its first argument where the kernel lacks the system call with that
/// number.
const WITHOUT: &str = "
import ctypes, os, struct, sys
ENOSYS, REFUSE, ALLOW = 38, 0x50000, 0x7fff0000
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
lines = [(LOAD, 0, 0, 0), (IF_EQUAL, 0, 1, int(sys.argv[1])), (RETURN, 0, 0, REFUSE | ENOSYS), (RETURN, 0, 0, ALLOW)]
lines = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
class Filter(ctypes.Structure):
    _fields_ = [('count', ctypes.c_ushort), ('lines', ctypes.c_void_p)]
PR_SET_SECCOMP, MODE_FILTER = 22, 2
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(Filter(4, ctypes.addressof(lines)))) == 0, ctypes.get_errno()
os.execvp(sys.argv[2], sys.argv[2:])";

/// A program that execs the init where the kernel lacks this system call, one of those that have
/// the same number everywhere.
fn without(call: &str) -> [&'static str; 6] {
    let number = match call {
        "pidfd_open" => "434",
        "close_range" => "436",
        other => panic!("the number of {other}?"),
    };
    ["python3", "-S", "-E", "-c", WITHOUT, number]
}

/// As a user who is nobody else on this machine.
fn as_user<'a>(start: Start<'a>, user: &str) -> Start<'a> {
    start.through(&[
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ])
}

/// Makes a job with these arguments available.
fn enqueue(stage: &Stage, id: &str, kind: &str, args: &Value, more: &str) {
    let envelope = format!(
        r#"{{"id":"{id}","type":"{kind}","queue":"default","args":{args},"attempt":0,"max_attempts":5{more}}}"#
    );
    stage.backend.enqueue(&envelope);
}

/// The process that starts the jobs.
fn runner(init: &mut Init) -> i32 {
    wait_until(PATIENCE, || proc::children(init.pid).len() == 1);
    let children = proc::children(init.pid);
    assert_eq!(children.len(), 1, "{}", init.story());
    children[0]
}

/// Waits until nobody is left but the init and its runner.
fn nobody_is_left(init: &mut Init) {
    let runner = runner(init);
    let are_gone = || proc::descendants(init.pid).iter().all(|pid| *pid == runner);
    let gone = wait_until(PATIENCE, are_gone);
    let left: Vec<_> = proc::descendants(init.pid).into_iter().map(proc::image).collect();
    assert!(gone, "{left:?}: {}", init.story());
}
