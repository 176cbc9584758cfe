//! Every system call of an init from its exec on, by strace, with the phase in which it was made.
//! The calls of the programs that ojs-init starts are left out, from their exec on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::stage::{Init, PATIENCE, Stage, Start};
use crate::support::namespace::spawn;
use crate::support::wait::wait_until;
use crate::support::{proc, sys, under_test};

/// Waits until the test opens the gate, then becomes the words behind it.
const WAITS_AT_THE_GATE: &str = r#"read -r _ <"$0"; exec "$@""#;

/// strace writes pids as it sees them itself, whatever namespace the init is in.
const STRACE: &str = "strace -f -qq -s 0 --pidns-translation -o";

/// The names of system calls.
pub type Names = BTreeSet<String>;

/// An init that is recorded.
pub struct Recording {
    strace: i32,
    file: PathBuf,
    /// Where each phase but the first one begins in the file.
    phases: Vec<u64>,
}

/// Starts the init with strace beside it, which sees each of its calls from the exec on.
pub fn start(stage: &Stage, start: Start<'_>) -> (Init, Recording) {
    let (gate, file) = (stage.at("gate"), stage.at("strace"));
    mkfifo(&gate, Mode::S_IRWXU).unwrap();
    let init = start
        .through(&["sh", "-c", WAITS_AT_THE_GATE, gate.to_str().unwrap()])
        .start();
    let mut words = STRACE.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(&file).args(["-p", &init.pid.to_string()]);
    let strace = spawn(command);
    let is_traced = || proc::status_field(init.pid, "TracerPid").is_some_and(|tracer| tracer.trim() != "0");
    assert!(wait_until(PATIENCE, is_traced), "strace does not trace the init");
    // Opening fails as long as nobody reads.
    let opened = wait_until(PATIENCE, || {
        let gate = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&gate);
        gate.is_ok_and(|mut gate| gate.write_all(b"\n").is_ok())
    });
    assert!(opened, "nobody waits at the gate");
    let recording = Recording {
        strace,
        file,
        phases: Vec::new(),
    };
    (init, recording)
}

impl Recording {
    /// Begins the next phase.
    pub fn next_phase(&mut self) {
        self.phases.push(std::fs::metadata(&self.file).unwrap().len());
    }

    /// The calls of each phase, of an init that has ended.
    pub fn end(self) -> Vec<Names> {
        sys::reap(self.strace, true).unwrap();
        calls(&std::fs::read_to_string(self.file).unwrap(), &self.phases)
    }
}

/// The calls of a subcommand that runs until its end.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it waits for a process"
)]
pub fn of_command(stage: &Stage, words: &[&str]) -> Names {
    let file = stage.at("strace-command");
    let mut strace = STRACE.split(' ');
    let mut command = Command::new(strace.next().unwrap());
    command
        .args(strace)
        .arg(&file)
        .arg(under_test::init())
        .args(words)
        .env_clear()
        .env("OJS_RUNTIME_DIR", stage.at("run"))
        .env("OJS_URL", stage.backend.url());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    calls(&std::fs::read_to_string(file).unwrap(), &[]).remove(0)
}

/// A process as far as the lines of strace tell.
#[derive(Clone, Copy, Default)]
struct Process<'a> {
    /// Whether it is ojs-init: its program is, or it is a copy of a process that is.
    is_ours: bool,
    /// The program of an exec without a result so far.
    execs: Option<&'a str>,
}

/// The calls of ojs-init by phase. A phase begins at a byte of the text.
fn calls(text: &str, phases: &[u64]) -> Vec<Names> {
    let init = under_test::init();
    let parents = parents(text);
    let mut processes: BTreeMap<i32, Process<'_>> = BTreeMap::new();
    let mut found = vec![Names::new(); phases.len() + 1];
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let phase = phases.partition_point(|begin| *begin <= offset);
        offset += line.len() as u64;
        let Some((pid, call)) = line.trim_end().split_once(' ') else {
            continue;
        };
        let (pid, call) = (pid.parse().unwrap(), call.trim_start());
        let parent = parents.get(&pid).and_then(|parent| processes.get(parent)).copied();
        let inherited = Process {
            is_ours: parent.is_some_and(|parent| parent.is_ours),
            execs: None,
        };
        let process = processes.entry(pid).or_insert(inherited);
        let name = call.split_once('(').map_or("", |(name, _)| name);
        // strace makes up a name of this form for a process that is killed in a call.
        let is_name = !name.is_empty() && !name.starts_with("syscall_0x");
        let is_call = is_name && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_call && process.is_ours {
            found[phase].insert(name.to_owned());
        }
        if name.starts_with("exec") {
            process.execs = call.split('"').nth(1);
        }
        if is_exec_that_worked(call) {
            let program = process.execs.unwrap_or_default();
            process.is_ours = program == init || program == "/proc/self/exe";
            if process.is_ours {
                found[phase].insert("execve".to_owned());
            }
        }
    }
    found
}

/// Whether the line has the result of an exec, and it is that of one that worked.
fn is_exec_that_worked(call: &str) -> bool {
    let is_exec = call.starts_with("exec") || call.starts_with("<... exec");
    is_exec && call.rsplit_once(" = ").is_some_and(|(_, result)| result == "0")
}

/// The process that created each process or thread, by the result of its call.
fn parents(text: &str) -> BTreeMap<i32, i32> {
    let mut parents = BTreeMap::new();
    for line in text.lines() {
        let Some((pid, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start().trim_start_matches("<... ");
        if !["clone", "fork", "vfork"].iter().any(|name| call.starts_with(name)) {
            continue;
        }
        let Some((_, result)) = call.rsplit_once(" = ") else {
            continue;
        };
        // The pid that the init sees, and if it is another one, the pid that strace sees:
        // `7 /* 28224 in strace's PID NS */`.
        let seen = result.split_once("/* ").map_or(result, |(_, seen)| seen);
        if let Some(child) = seen.split(' ').next().and_then(|child| child.parse::<i32>().ok()) {
            parents.insert(child, pid.parse().unwrap());
        }
    }
    parents
}

#[test]
fn calls_are_those_of_ojs_init_and_its_copies_up_to_the_exec_of_another_program() {
    let init = under_test::init();
    let text = format!(
        "10 read(0,  <unfinished ...>
10 execve(\"{init}\", [...], 0x1 /* 3 vars */) = 0
10 getpid() = 1
10 clone(child_stack=0x1, flags=CLONE_VM|CLONE_VFORK|SIGCHLD <unfinished ...>
11 setpgid(0, 0) = 0
11 execve(\"/bin/sh\", [...], 0x1 /* 3 vars */ <unfinished ...>
10 <... clone resumed>) = 2 /* 11 in strace's PID NS */
11 <... execve resumed>) = 0
11 sleep_of_another_program() = 0
11 vfork( <unfinished ...>
12 close(3) = 0
11 <... vfork resumed>) = 3 /* 12 in strace's PID NS */
10 --- SIGCHLD {{si_signo=SIGCHLD}} ---
10 epoll_wait(3, [], 1, -1) = 0
"
    );
    let start_of_the_end = text.find("10 epoll_wait").unwrap() as u64;
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Names>();
    assert_eq!(
        calls(&text, &[start_of_the_end]),
        [names(&["clone", "execve", "getpid", "setpgid"]), names(&["epoll_wait"])]
    );
}
