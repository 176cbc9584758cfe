//! Real processes: what they take is between two bounds that no double counting fits into.
#![allow(clippy::unwrap_used, reason = "a test without its processes has failed")]
#![allow(
    clippy::disallowed_methods,
    clippy::zombie_processes,
    reason = "children of the test, which it reaps itself"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;

const MIB: u64 = 1 << 20;

/// Defines `child(work)`, which forks, and `page_in(mib)`. The last line of the script is printed
/// after the script is done; the program ends with its standard input.
const HELPERS: &str = "
import os, sys, time
def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid
def page_in(mib):
    return bytearray(os.urandom(1 << 20) * mib)
def ready():
    print('ready', flush=True)
def wait():
    sys.stdin.read()
";

/// A process that runs the script, and says once that it is ready.
struct Python {
    child: Child,
}

impl Python {
    fn start(script: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-S", "-E", "-c", &format!("{HELPERS}{script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Self { child }
    }

    fn pid(&self) -> Pid {
        Pid::new(self.child.id().cast_signed())
    }

    /// The use of the processes below it.
    fn below(&self) -> WorkerUsage {
        below(self.pid(), None).unwrap()
    }

    fn ends(mut self) {
        let mut input = self.child.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        drop(input);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn what_forks_share_counts_once_and_what_each_has_counts_for_each() {
    // 40 MiB that a parent shares with its three children, two of which have 20 MiB each.
    let python = Python::start(
        "
def worker():
    shared = page_in(40)
    told, tells = os.pipe()
    def own():
        mine = page_in(20)
        os.write(tells, b'.')
        wait()
    def idle():
        os.write(tells, b'.')
        wait()
    for work in (own, own, idle): child(work)
    for _ in range(3): os.read(told, 1)
    ready()
    wait()
child(worker)
os.wait()",
    );
    let usage = python.below();
    assert_eq!(usage.processes, 4);
    let mib = usage.memory_bytes / MIB;
    assert!(
        (80..150).contains(&mib),
        "{mib} MiB; the resident pages add up to more than 200"
    );
    python.ends();
}

#[test]
fn a_single_process_counts_with_its_resident_pages() {
    let python = Python::start(
        "
def worker():
    mine = page_in(30)
    ready()
    wait()
child(worker)
os.wait()",
    );
    let usage = python.below();
    let mib = usage.memory_bytes / MIB;
    assert_eq!(usage.processes, 1);
    assert!((30..80).contains(&mib), "{mib} MiB");
    python.ends();
}

#[test]
fn the_processor_time_of_a_reaped_grandchild_stays_and_that_of_a_living_one_grows() {
    let python = Python::start(
        "
def burn(seconds):
    while time.process_time() < seconds: pass
def worker():
    pid = child(lambda: burn(0.3))
    os.waitpid(pid, 0)
    ready()
    while True: burn(10)
import signal
pid = child(worker)
wait()
os.kill(pid, signal.SIGKILL)
os.wait()",
    );
    let first = python.below();
    let at_least = Duration::from_millis(250);
    assert!(first.cpu >= at_least, "{first:?}");
    let more = std::iter::repeat_with(|| python.below()).find(|usage| usage.cpu >= first.cpu + at_least);
    assert_eq!(more.unwrap().processes, 1);
    python.ends();
}

#[test]
fn a_helper_counts_with_what_it_has_reaped_and_not_with_itself() {
    let python = Python::start(
        "
def helper():
    pid = child(wait)
    mine = page_in(60)
    ready()
    os.waitpid(pid, 0)
child(helper)
os.wait()",
    );
    let all = python.below();
    let processes = process_memory::visible(usize::MAX).unwrap();
    let parent = python.pid().number();
    let helper = processes.iter().find(|process| process.parent == parent).unwrap().pid;
    let without = below(python.pid(), Some(helper)).unwrap();
    assert_eq!((all.processes, without.processes), (2, 1));
    assert!(
        without.memory_bytes + 50 * MIB < all.memory_bytes,
        "{all:?} {without:?}"
    );
    assert!(without.cpu <= all.cpu, "{all:?} {without:?}");
    python.ends();
}

/// As when the kernel ends a group of processes during a look.
#[test]
fn a_process_that_has_ended_since_the_look_began_counts_with_nothing() {
    let mut python = Python::start("mine = page_in(30); ready(); wait()");
    let pid = python.pid();
    assert!(share(pid) > 20 * MIB);
    python.child.kill().unwrap();
    // Its output ends with it, before it is a zombie.
    let mut rest = Vec::new();
    python.child.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
    let is_counted = || share(pid) > 0;
    let looks = std::iter::repeat_with(is_counted).take(100_000);
    assert!(looks.into_iter().any(|is_counted| !is_counted));
    python.child.wait().unwrap();
    assert_eq!(share(pid), 0);
}

#[test]
fn a_family_that_makes_no_sense_ends_all_the_same() {
    let process = |pid, parent| ProcessMemory {
        pid: Pid::new(pid),
        parent,
        session: 0,
        pages: 0,
        own_ticks: 0,
        reaped_ticks: 0,
    };
    // Two processes, each of which is the parent of the other, and a stranger.
    let processes = [process(7, 8), process(8, 7), process(9, 1)];
    let family = family(&processes, Pid::new(7));
    assert!(family.iter().all(|process| process.pid != Pid::new(9)), "{family:?}");
}
