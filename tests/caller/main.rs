//! Processes that the gateway takes for the worker, and others. They are the worker itself, what it
//! left behind, another user, and another process of the same user. They run in this PID namespace
//! and in another one, where we may look into `/proc` and where we may not.
//!
//! Each asks from a process of its own, because what it may see depends on its namespace,
//! capabilities and seccomp filter: this program once more, with one test that is otherwise left
//! out.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot get at its answer has failed, and it starts real processes"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/wait.rs"]
mod wait;

use std::io::{self, BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ojs_init::config::GatewayAllow;
use ojs_init::daemon::gateway::caller::{Admission, Callers};
use ojs_os::init::become_subreaper;
use ojs_os::process;
use ojs_values::signal::Signal;

const PATIENCE: Duration = Duration::from_secs(20);

/// Connects to the port `$1`, and stays until the other side closes.
const CONNECTS: &str = "exec 3<>/dev/tcp/127.0.0.1/$1; read line <&3";

const STAYS_AWAY: &str = "sleep 60";

/// Runs it in a process whose parents have ended.
const LEAVES_SOMEBODY: &str = "(bash -c 'exec 3<>/dev/tcp/127.0.0.1/$0; read line <&3' $1 &) & sleep 60";

const NOBODY: u32 = 65_534;

/// Asks about one connection. What it does is in its environment.
#[test]
#[ignore = "the other tests start it"]
fn asks() {
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    let allow = match said("ALLOW").as_str() {
        "uid" => GatewayAllow::Uid,
        "any" => GatewayAllow::Any,
        _ => GatewayAllow::Worker,
    };
    become_subreaper().unwrap();
    // A process that waits for its words does not wait for ever.
    nix::unistd::alarm::set(PATIENCE.as_secs() as u32);
    if said("NO_SOCK_DIAG") == "yes" {
        // SAFETY: numbers only.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG) };
        let error = io::Error::last_os_error().raw_os_error();
        assert_eq!((socket, error), (-1, Some(libc::EPROTONOSUPPORT)));
    }
    let uid = said("WORKER_UID").parse().unwrap_or(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap();
    let mut worker = Command::new("bash");
    worker.args(["-c", &said("WORKER"), "worker", &here.port().to_string()]);
    if uid != 0 {
        worker.uid(uid).gid(uid);
    }
    let mut worker = worker.spawn().unwrap();
    let mut callers = Callers::new(allow, uid).unwrap();
    let pid = process::children().unwrap().into_iter().next().unwrap();
    if said("STARTED") != "no" {
        let _short = (said("SHORT") == "at the start").then(Shortage::begin);
        callers.worker_started(pid, None);
    }
    println!("\nPROOF {}", callers.proof().words());
    println!("PORT {}", here.port());
    let (server, peer) = listener.accept().unwrap();
    let _short = (said("SHORT") == "at the look-up").then(Shortage::begin);
    let mut admission = callers.admit(peer, server.local_addr().unwrap());
    while let Admission::Sought(_) = admission {
        if let Some((_, found)) = callers.search().pop() {
            admission = found;
        }
    }
    match admission {
        Admission::Taken(Some(watch)) if watch.pid() == pid => println!("SAYS the worker"),
        Admission::Taken(Some(_)) => println!("SAYS another process of the worker"),
        Admission::Taken(None) => println!("SAYS somebody"),
        Admission::AsksForBearer => println!("SAYS who knows the bearer"),
        Admission::Sought(_) => println!("SAYS nothing"),
        Admission::Refused(refusal) => println!("SAYS no: {refusal}"),
    }
    for descendant in process::descendants(100).unwrap() {
        let _ = process::signal(descendant, Signal::KILL);
    }
    worker.wait().unwrap();
}

/// There is no descriptor to be had as long as this lives.
struct Shortage(libc::rlimit);

impl Shortage {
    fn begin() -> Self {
        let mut usual = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the structures are valid to write to and to read.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut usual);
            let none = libc::rlimit { rlim_cur: 0, ..usual };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none), 0);
        }
        Self(usual)
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        // SAFETY: the structure is valid to read.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const self.0) };
    }
}

/// A process that asks.
struct Asker {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Asker {
    /// The init is started by this command, whose worker is this script.
    fn start(mut command: Command, worker: &str, variables: &[(&str, &str)]) -> Self {
        command.args(["--exact", "asks", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("WORKER", worker).envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The rest of the next line that begins with this.
    fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "it said nothing of {start}"
            );
            if let Some(rest) = line.trim_end().strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    /// By what callers are known, and what it says of the one that comes.
    fn says(mut self) -> [String; 2] {
        let proof = self.line("PROOF");
        [proof, self.line("SAYS")]
    }

    /// Asks about somebody whom `connect` has come to its port.
    fn says_of(mut self, connect: impl FnOnce(u16) -> Caller) -> [String; 2] {
        let proof = self.line("PROOF");
        let _caller = connect(self.line("PORT").parse().unwrap());
        [proof, self.line("SAYS")]
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let is_over = wait::wait_until(PATIENCE, || self.child.try_wait().unwrap().is_some());
        if !is_over {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Somebody who has connected, until it is dropped.
enum Caller {
    Here { _stream: TcpStream },
    Process(Child),
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// We, who are no child of who asks.
fn ourselves(port: u16) -> Caller {
    Caller::Here {
        _stream: TcpStream::connect(("127.0.0.1", port)).unwrap(),
    }
}

/// A process of this user.
fn process_of(uid: u32) -> impl FnOnce(u16) -> Caller {
    move |port| {
        let mut command = Command::new("bash");
        command.args(["-c", CONNECTS, "stranger", &port.to_string()]);
        Caller::Process(command.uid(uid).gid(uid).spawn().unwrap())
    }
}

fn itself() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

/// Asks in a PID namespace of its own, with a `/proc` that shows that one.
fn in_own_namespace() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount-proc", "--fork", "--kill-child"]);
    command.arg(std::env::current_exe().unwrap());
    command
}

/// As root that lacks this capability, which is how Docker starts a container.
fn without_ptrace() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]);
    command.arg(std::env::current_exe().unwrap());
    command
}

/// Where the kernel, or what stands for it, knows no sock_diag.
fn without_sock_diag() -> Command {
    let mut command = itself();
    command.env("NO_SOCK_DIAG", "yes");
    // SAFETY: system calls alone, on memory of its own.
    unsafe { command.pre_exec(refuse_sock_diag) };
    command
}

/// From now on a socket of AF_NETLINK is EPROTONOSUPPORT.
fn refuse_sock_diag() -> io::Result<()> {
    const NUMBER_AT: u32 = 0;
    const FIRST_ARGUMENT_AT: u32 = 16;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let is = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(load, 0, 0, NUMBER_AT),
        step(is, 0, 3, libc::SYS_socket as u32),
        step(load, 0, 0, FIRST_ARGUMENT_AT),
        step(is, 0, 1, libc::AF_NETLINK as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program is valid for as long as the call lasts.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    if results == [0, 0] {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

const AS_NOBODY: &[(&str, &str)] = &[("WORKER_UID", "65534")];

#[test]
fn the_worker_and_what_it_left_behind_are_known_by_their_process() {
    for command in [itself, in_own_namespace, without_sock_diag] {
        let says = Asker::start(command(), CONNECTS, &[]).says();
        assert_eq!(says, ["process", "the worker"]);
        let says = Asker::start(command(), LEAVES_SOMEBODY, &[]).says();
        assert_eq!(says, ["process", "another process of the worker"]);
    }
    let says = Asker::start(itself(), CONNECTS, AS_NOBODY).says();
    assert_eq!(says, ["process", "the worker"], "with CAP_SYS_PTRACE we may look");
}

#[test]
fn another_user_is_refused_wherever_we_may_look() {
    for command in [itself, in_own_namespace, without_sock_diag] {
        let says = Asker::start(command(), STAYS_AWAY, &[]).says_of(process_of(NOBODY));
        assert_eq!(says, ["process", "no: it belongs to user 65534"]);
    }
    let says = Asker::start(without_ptrace(), STAYS_AWAY, AS_NOBODY).says_of(ourselves);
    assert_eq!(says, ["uid and bearer", "no: it belongs to user 0"]);
    let says = Asker::start(itself(), STAYS_AWAY, &[("ALLOW", "uid")]).says_of(process_of(NOBODY));
    assert_eq!(says, ["uid", "no: it belongs to user 65534"]);
}

#[test]
fn the_same_user_in_another_process_is_refused_in_this_pid_namespace_and_from_another() {
    for command in [itself, in_own_namespace, without_sock_diag] {
        let says = Asker::start(command(), STAYS_AWAY, &[]).says_of(ourselves);
        assert_eq!(says, ["process", "no: its process is not the worker's"]);
    }
    let says = Asker::start(in_own_namespace(), STAYS_AWAY, AS_NOBODY).says_of(process_of(NOBODY));
    assert_eq!(says, ["process", "no: its process is not the worker's"]);
}

#[test]
fn root_without_cap_sys_ptrace_asks_a_worker_of_another_user_for_the_bearer() {
    let says = Asker::start(without_ptrace(), CONNECTS, AS_NOBODY).says();
    assert_eq!(says, ["uid and bearer", "who knows the bearer"]);
    // Its neighbour looks the same up to here.
    let says = Asker::start(without_ptrace(), STAYS_AWAY, AS_NOBODY).says_of(process_of(NOBODY));
    assert_eq!(says, ["uid and bearer", "who knows the bearer"]);
    let says = Asker::start(without_ptrace(), CONNECTS, &[]).says();
    assert_eq!(
        says,
        ["process", "the worker"],
        "a worker of our own user we may look into"
    );
}

#[test]
fn who_allows_more_gets_more_and_the_process_where_it_can_be_found() {
    let says = Asker::start(itself(), STAYS_AWAY, &[("ALLOW", "uid")]).says_of(ourselves);
    assert_eq!(says, ["uid", "somebody"]);
    let says = Asker::start(itself(), CONNECTS, &[("ALLOW", "uid")]).says();
    assert_eq!(says, ["uid", "the worker"]);
    let says = Asker::start(itself(), STAYS_AWAY, &[("ALLOW", "any")]).says_of(process_of(NOBODY));
    assert_eq!(says, ["none", "somebody"]);
    let says = Asker::start(itself(), CONNECTS, &[("ALLOW", "any")]).says();
    assert_eq!(says, ["none", "the worker"]);
}

#[test]
fn a_look_that_fails_for_want_of_descriptors_does_not_say_that_we_may_not_look() {
    let says = Asker::start(itself(), CONNECTS, &[("SHORT", "at the start")]).says();
    assert_eq!(says, ["process", "the worker"]);
    let says = Asker::start(itself(), CONNECTS, &[("SHORT", "at the look-up")]).says();
    assert_eq!(says, ["process", "who knows the bearer"]);
}

#[test]
fn before_a_worker_runs_everybody_is_refused() {
    for command in [itself, without_ptrace] {
        let says = Asker::start(command(), CONNECTS, &[("STARTED", "no")]).says();
        assert_eq!(says[1], "no: no worker runs yet");
    }
}
