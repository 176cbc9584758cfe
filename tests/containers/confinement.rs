//! Containers that may less than usual, and containers that are not alone.

use std::time::Duration;

use ojs_devserver::{JobState, Options, Server};

use crate::container::{Start, become_state, busy_with, enqueue, errors, was_cut_off};
use crate::support::proc;
use crate::{PATIENCE, images, looks_until};

/// Every test of this file.
pub const ALL: [(&str, fn()); 8] = [
    (
        "a_worker_of_nobody_without_capabilities_on_a_read_only_root_does_its_jobs_and_stops",
        confined,
    ),
    ("a_worker_below_dockers_own_init_drains_as_well", below_an_init),
    (
        "a_bystander_in_a_shared_pid_namespace_survives_the_stop_phase",
        shared_namespace,
    ),
    (
        "a_worker_that_the_kernel_killed_for_its_memory_ends_the_container_with_137",
        out_of_memory,
    ),
    (
        "a_worker_that_the_kernel_killed_for_its_memory_is_started_again",
        out_of_memory_and_back,
    ),
    ("the_plain_init_passes_the_status_of_its_command_on", plain),
    (
        "a_file_at_its_usual_place_configures_the_worker_and_a_wrong_one_is_named",
        usual_file,
    ),
    (
        "the_seccomp_profile_refuses_root_with_sys_admin_what_reaches_into_others_and_the_kernel",
        profile,
    ),
];

/// Memory of a container that is to run out of it.
const MEMORY: [&str; 2] = ["--memory=96m", "--memory-swap=96m"];

fn confined() {
    let server = Server::start(Options::default()).unwrap();
    let worker = Start::worker(&server)
        .option("--user=65534")
        .option("--read-only")
        .option("--cap-drop=ALL")
        .option("--security-opt=no-new-privileges")
        .with("DEAF", "1")
        .start();
    let jobs = busy_with(&server, &worker, &[("sleep", 1.0), ("stuck", 0.0)]);
    let status = worker.exec(&["/ojs-init", "status"]);
    assert!(status.status.success(), "{status:?}");
    let ended = worker.stop(&[]);
    assert_eq!(ended.status, 0, "{}", worker.log());
    assert_eq!(server.job(&jobs[0]).unwrap().times_acked, 1);
    was_cut_off(&server, &worker, &jobs[1]);
}

fn below_an_init() {
    let server = Server::start(Options::default()).unwrap();
    let worker = Start::worker(&server).option("--init").with("DEAF", "1").start();
    let jobs = busy_with(&server, &worker, &[("sleep", 2.0), ("stuck", 0.0)]);
    let ended = worker.stop(&[]);
    assert_eq!(ended.status, 0, "{}", worker.log());
    assert!(worker.log().contains("not PID 1"), "{}", worker.log());
    assert_eq!(server.job(&jobs[0]).unwrap().times_acked, 1);
    was_cut_off(&server, &worker, &jobs[1]);
}

fn shared_namespace() {
    let server = Server::start(Options::default()).unwrap();
    let neighbour = Start::of(images::PYTHON_BASE)
        .option("--network=none")
        .words(&["sh", "-c", "sleep 300 & sleep 301"])
        .start();
    let bystanders = || proc::descendants(neighbour.pid());
    assert!(looks_until(PATIENCE, || bystanders().len() == 2), "{:?}", bystanders());
    let before = bystanders();
    let worker = Start::worker(&server)
        .option(&format!("--pid=container:{}", neighbour.name))
        // As the neighbour, whom it could kill.
        .option("--user=0")
        .with("DEAF", "1")
        .start();
    let job = &busy_with(&server, &worker, &[("stuck", 0.0)])[0];
    let ours = proc::descendants(worker.pid());
    assert!(!ours.is_empty());
    let ended = worker.stop(&[]);
    assert_eq!(ended.status, 0, "{}", worker.log());
    was_cut_off(&server, &worker, job);
    assert!(neighbour.is_running());
    assert_eq!(bystanders(), before, "the bystanders");
    let left: Vec<&i32> = ours.iter().filter(|pid| proc::lives(**pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn with_little_memory(server: &Server) -> Start {
    let start = Start::worker(server);
    MEMORY.iter().fold(start, |start, option| start.option(option))
}

/// A backend for a container that may get nowhere for a while: heartbeats that are late lose it no
/// job.
fn patient() -> Server {
    Server::start(Options {
        heartbeat_timeout: Duration::from_secs(600),
        ..Options::default()
    })
    .unwrap()
}

fn out_of_memory() {
    let server = patient();
    let start = with_little_memory(&server);
    let worker = start.start();
    // Once is enough.
    let job = server
        .enqueue(r#"{"type":"grow","args":[0],"retry":{"max_attempts":1}}"#)
        .unwrap();
    let ended = worker.ends(PATIENCE);
    assert_eq!(ended.status, 137, "{}", worker.log());
    assert!(worker.log().contains("killed by SIGKILL"), "{}", worker.log());
    assert_eq!(errors(&server, &job).len(), 1, "{:?}", server.job(&job));
    // The worker ended as it does when nothing is wrong: the backend knows that nobody is there any
    // more.
    assert!(server.workers().is_empty(), "{:?}", server.workers());
}

fn out_of_memory_and_back() {
    let server = patient();
    let start = with_little_memory(&server);
    let worker = start.with("OJS_RESTART", "on-failure").start();
    server
        .enqueue(r#"{"type":"grow","args":[0],"retry":{"max_attempts":1}}"#)
        .unwrap();
    become_state(&server, JobState::Discarded, 1);
    enqueue(&server, "sleep", 0.1);
    become_state(&server, JobState::Completed, 1);
    assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());
}

fn plain() {
    let exit = |words: &[&str]| {
        let image = Start::of(images::PYTHON)
            .option("--network=none")
            .option("--entrypoint=/ojs-init");
        let container = image.words(&[&["--no-agent", "--"], words].concat()).start();
        container.ends(PATIENCE).status
    };
    assert_eq!(exit(&["sh", "-c", "exit 7"]), 7);
    assert_eq!(exit(&["sh", "-c", "kill -KILL $$"]), 137);
    assert_eq!(exit(&["/does-not-exist"]), 127);
}

fn usual_file() {
    let server = Server::start(Options::default()).unwrap();
    let file = images::shared("settings").join("ojs-init.toml");
    let start = || Start::worker(&server).option(&format!("--volume={}:/etc/ojs-init.toml:ro", file.display()));
    std::fs::write(&file, "[worker]\nlabels = [\"from-the-file\"]\n").unwrap();
    let worker = start().start();
    let shown = worker.exec(&["/ojs-init", "config", "show"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let row = shown.lines().find(|line| line.contains("from-the-file"));
    assert!(row.is_some_and(|row| row.contains("/etc/ojs-init.toml")), "{shown}");
    assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());

    std::fs::write(&file, "[worker]\nlabel = 1\n").unwrap();
    let wrong = start().start();
    assert_eq!(wrong.ends(PATIENCE).status, 2);
    let log = wrong.log();
    assert!(log.contains("/etc/ojs-init.toml") && log.contains("label"), "{log}");
}

/// Makes each call with arguments that harm nobody, and prints those that are not permitted. The
/// numbers are those of x86_64.
const FORBIDDEN_CALLS: &str = "
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
DETACH, NEWUTS, NEWUSER = 17, 0x04000000, 0x10000000
calls = {
    'ptrace': (101, DETACH), 'process_vm_readv': (310, 1), 'pidfd_getfd': (438, 0), 'unshare': (272, NEWUTS),
    'clone': (56, NEWUSER | 17), 'setns': (308, 0), 'mount': (165, 0), 'io_uring_setup': (425, 0), 'bpf': (321, 0),
    'perf_event_open': (298, 0), 'userfaultfd': (323, 0), 'keyctl': (250, 0),
}
refused = []
for name, (number, argument) in calls.items():
    ctypes.set_errno(0)
    result = libc.syscall(number, argument, 0, 0, 0, 0)
    if result == 0 and name == 'clone':
        os._exit(0)
    if result == -1 and ctypes.get_errno() == errno.EPERM:
        refused.append(name)
for family in ('AF_ALG', 'AF_PACKET', 'AF_VSOCK'):
    try:
        socket.socket(getattr(socket, family), socket.SOCK_RAW).close()
    except PermissionError:
        refused.append(family)
    except OSError:
        pass
print(*refused)";

fn profile() {
    let refused = |start: Start| {
        let container = start
            .option("--network=none")
            .option("--user=0")
            .option("--cap-add=SYS_ADMIN")
            .option("--cap-add=SYS_PTRACE")
            .option("--entrypoint=python3")
            .words(&["-c", FORBIDDEN_CALLS])
            .start();
        assert_eq!(container.ends(PATIENCE).status, 0, "{}", container.log());
        container.log().trim().to_owned()
    };
    assert_eq!(
        refused(Start::of(images::PYTHON)),
        "ptrace process_vm_readv pidfd_getfd unshare clone setns mount io_uring_setup bpf perf_event_open userfaultfd keyctl \
         AF_ALG AF_PACKET AF_VSOCK"
    );
    let unconfined = refused(Start::of(images::PYTHON).with_profile("unconfined"));
    for name in ["ptrace", "unshare", "AF_PACKET"] {
        assert!(
            !unconfined.split(' ').any(|it| it == name),
            "{name} fails without the profile as well: {unconfined}"
        );
    }
}
