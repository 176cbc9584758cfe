//! Processes that may connect, the place of the socket, and what is left of it afterwards.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::wait_until;

/// The worker makes its socket reachable for everybody, as a mistake of an operator would; then a
/// stranger connects.
const STRANGER: &str = "
path = os.environ['OJS_SOCKET']
parent = os.path.dirname(path)
for _ in range(2):
    os.chmod(parent, 0o711)
    parent = os.path.dirname(parent)
os.chmod(path, 0o666)
def stranger():
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
    link = Link()
    line = link.line()
    note('stranger', 'refused' if line is None else json.loads(line)['type'])
child(stranger)
link = Link()
link.ready()
link.work()";

#[test]
fn another_user_is_refused_whatever_the_modes_of_the_files_say() {
    let stage = Stage::new();
    let mut init = stage.worker(STRANGER).start();
    assert_eq!(init.noted("stranger"), "refused");
    init.logs("user 54321 is not allowed");
    stage.enqueue([1]);
    stage.wait_for_outcomes();
    init.stops();
}

#[test]
fn a_user_that_is_listed_may_connect() {
    let stage = Stage::new();
    let mut init = stage.worker(STRANGER).with("OJS_SOCKET_USERS", "54320,54321").start();
    assert_eq!(init.noted("stranger"), "hello");
    init.stops();
}

#[test]
fn the_worker_of_another_user_owns_its_socket_and_nobody_else_gets_at_it() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
note('socket', os.environ['OJS_SOCKET'])
note('user', os.getuid(), os.getgid(), len(os.getgroups()))
link = Link()
link.ready()
link.work()";
    let mut init = stage.worker(script).with("OJS_USER", "54322:54323").start();
    stage.wait_for_outcomes();
    assert!(init.noted("user").starts_with("54322 54323"));
    let socket = PathBuf::from(init.noted("socket"));
    let found = std::fs::metadata(&socket).unwrap();
    assert_eq!((found.uid(), found.permissions().mode() & 0o777), (54322, 0o600));
    let home = std::fs::metadata(socket.parent().unwrap()).unwrap();
    assert_eq!((home.uid(), home.permissions().mode() & 0o777), (0, 0o711));
    init.stops();
    assert!(!socket.parent().unwrap().exists());
}

#[test]
fn without_any_privilege_the_worker_gets_its_jobs_and_cannot_look_into_the_init() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
for name in ['environ', 'mem', 'maps']:
    try:
        open('/proc/1/' + name, 'rb').read(1)
        note('readable', name)
    except PermissionError:
        note('closed', name)
link = Link()
link.ready()
link.work()";
    let mut init = stage
        .worker(script)
        .through(&[
            "setpriv",
            "--reuid=54321",
            "--regid=54321",
            "--clear-groups",
            "--no-new-privs",
            "--inh-caps=-all",
        ])
        .with("OJS_AUTH_TOKEN", "sekrit")
        .start();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    let notes = init.notes();
    for name in ["environ", "mem", "maps"] {
        assert!(notes.contains(&format!("closed {name}")), "{notes:?}");
    }
    init.stops();
}

#[test]
fn nothing_is_left_in_the_runtime_directory_however_the_init_exits() {
    for (script, status) in [("Link().ready(); rest()", 0), ("os._exit(4)", 4)] {
        let stage = Stage::new();
        let mut init = stage.worker(script).start();
        if status == 0 {
            init.notes_line("ready");
            init.signal(libc::SIGTERM);
        }
        init.ends_with(status);
        assert_eq!(sockets(&stage.at("run")), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_a_killed_instance_left_is_removed_by_the_next() {
    let stage = Stage::new();
    let script = "note('socket', os.environ['OJS_SOCKET']); Link().ready(); rest()";
    let mut first = stage.worker(script).named("first").start();
    first.notes_line("ready");
    let left = PathBuf::from(first.noted("socket"));
    first.signal(libc::SIGKILL);
    assert!(wait_until(PATIENCE, || !first.is_running()));
    assert!(left.exists());
    let mut second = stage.worker(script).named("second").start();
    second.notes_line("ready");
    assert!(!left.parent().unwrap().exists(), "{}", left.display());
    second.stops();
}

#[test]
fn two_instances_side_by_side_leave_each_other_alone() {
    let stage = Stage::new();
    let script = "note('socket', os.environ['OJS_SOCKET']); link = Link(); link.ready(); link.work()";
    let mut first = stage.worker(script).named("first").start();
    let mut second = stage.worker(script).named("second").start();
    first.notes_line("ready");
    second.notes_line("ready");
    assert_ne!(first.noted("socket"), second.noted("socket"));
    stage.enqueue(0..20);
    stage.wait_for_outcomes();
    first.stops();
    assert!(PathBuf::from(second.noted("socket")).exists());
    stage.enqueue(20..30);
    stage.wait_for_outcomes();
    second.stops();
    let left = stage.backend.records_of(Endpoint::Deregister);
    let left: BTreeSet<Option<String>> = left.iter().map(|record| record.text("worker_id")).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_runtime_directory_whose_path_is_too_long_is_an_error_that_says_so() {
    let stage = Stage::new();
    let long = stage.at(&"d".repeat(120)).display().to_string();
    let mut init = stage.worker("note('started')").with("OJS_RUNTIME_DIR", &long).start();
    assert!(wait_until(PATIENCE, || !init.is_running()));
    let log = init.log();
    assert!(
        log.contains(&long) && log.contains("OJS_RUNTIME_DIR") && log.contains("bytes, and the path of a socket"),
        "{log}"
    );
    assert!(init.notes().is_empty());
}

#[test]
fn the_worker_inherits_nothing_of_ours_but_the_way_to_its_socket() {
    let stage = Stage::new();
    let script = "
for fd in os.listdir('/proc/self/fd'):
    try:
        note('descriptor', os.readlink('/proc/self/fd/' + fd))
    except FileNotFoundError:
        pass
note('blocked', [line.split()[1] for line in open('/proc/self/status') if line.startswith('SigBlk')][0])
note('variables', sorted(name for name in os.environ if name not in ('LC_CTYPE',)))
Link().ready()
rest()";
    let mut init = stage.worker(script).start();
    init.notes_line("ready");
    // The process that started us may have left it some.
    let run = stage.at("run").display().to_string();
    let notes = init.notes();
    let ours = |line: &&String| line.contains("anon_inode") || line.contains("socket:") || line.contains(&run);
    let found: Vec<&String> = notes
        .iter()
        .filter(|line| line.starts_with("descriptor"))
        .filter(ours)
        .collect();
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(init.noted("blocked"), "0000000000000000");
    let variables = init.noted("variables");
    assert!(
        variables.contains("OJS_SOCKET") && variables.contains("OJS_URL"),
        "{variables}"
    );
    init.stops();
}

/// Every socket below a directory.
fn sockets(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { sockets(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}
