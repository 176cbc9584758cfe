//! The system calls of ojs-init: by phase as docs/system-calls.md has them, and all of them allowed
//! by the seccomp profile that ships. A call that is not on the page fails its test.
//!
//! Needs root, python3, strace, and the static binary: the C library of another one makes others.

mod page;
mod profile;
mod strace;

use crate::backend::{Endpoint, Outcome};
use crate::probe_client::Probes;
use crate::stage::{PATIENCE, Stage, job};
use crate::support::under_test::is_static;
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

use page::{END, IDLE, JOB, RUN, START};
use strace::{Names, Recording};

/// Empty polls after which what has begun before them is over.
const POLLS: usize = 4;

/// A process that stays behind when its parent ends, and does not listen to SIGTERM.
const LEAVES_SOMEBODY: &str = "
def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
child(lambda: child(deaf, session=True))
";

/// Compares the phases of a mode with the page.
fn are_on_the_page(mode: &str, phases: &[char], run: fn() -> Vec<Names>) {
    if is_static() {
        page::holds(mode, phases, run);
    }
}

/// Lets the init poll for a while, and counts what follows as the next phase.
fn settle(stage: &Stage, recording: &mut Recording) {
    stage.wait_for_more(Endpoint::Fetch, POLLS);
    recording.next_phase();
}

#[test]
fn a_plain_init_asks_the_kernel_for_what_the_page_says() {
    are_on_the_page("none", &[START, IDLE, END], plain);
}

fn plain() -> Vec<Names> {
    let stage = Stage::new();
    let script = r#"trap 'exit 0' TERM
trap 'echo heard >>"$NOTES"' HUP
(trap '' TERM; exec setsid sleep 60) &
echo started >>"$NOTES"
(sleep 0.1 &)
sleep 0.3; echo idle >>"$NOTES"
while :; do sleep 0.1; done"#;
    let start = stage
        .command(&["sh", "-c", script])
        .with_all(&[("OJS_MODE", "none"), ("OJS_TERMINATION_GRACE_PERIOD", "8s")]);
    let (mut init, mut recording) = strace::start(&stage, start);
    init.notes_line("started");
    recording.next_phase();
    init.notes_line("idle");
    init.signal(libc::SIGHUP);
    init.notes_line("heard");
    recording.next_phase();
    init.signal(libc::SIGTERM);
    // Under strace a busy machine may let the child get to its end or not.
    assert!(wait_until(PATIENCE, || !init.is_running()), "{}", init.story());
    recording.end()
}

#[test]
fn mode_socket_asks_the_kernel_for_what_the_page_says() {
    are_on_the_page("socket", &[START, IDLE, JOB, END], socket);
}

fn socket() -> Vec<Names> {
    let stage = Stage::new();
    let (token, log) = (stage.at("token"), stage.at("termination-log"));
    std::fs::write(&token, "sekrit-4711").unwrap();
    std::fs::write(&log, "").unwrap();
    let url = format!("http://localhost:{}", stage.backend.address().port());
    let script = format!("link = Link(); link.ready(); {LEAVES_SOMEBODY}link.work()");
    let start = stage
        .worker(&script)
        .with_all(&[
            ("OJS_HEALTH_LISTEN", "127.0.0.1:0"),
            ("OJS_RESTART", "on-failure"),
            ("OJS_USER", "54322:54323"),
            ("OJS_TERMINATION_GRACE_PERIOD", "5s"),
        ])
        .with("OJS_URL", url)
        .with("OJS_AUTH_TOKEN_FILE", token.clone())
        .with("OJS_TERMINATION_LOG", log);
    let (mut init, mut recording) = strace::start(&stage, start);
    init.notes_line("ready");
    settle(&stage, &mut recording);
    let probes = Probes::of(&mut init);
    assert_eq!(probes.get("/metrics").status, 200);
    std::fs::write(&token, "sekrit-4712").unwrap();
    settle(&stage, &mut recording);
    stage.enqueue(1..20);
    let large = "x".repeat(1_000_000);
    stage
        .backend
        .enqueue(&job(20, &format!(r#","meta":{{"x":"{large}"}}"#)));
    stage.wait_for_outcomes_for(PATIENCE * 6);
    sys::send(proc::children(init.pid)[0], libc::SIGKILL).unwrap();
    init.notes_times("ready", 2);
    settle(&stage, &mut recording);
    init.stops();
    recording.end()
}

/// A worker that asks for jobs, acks each, and has one request passed on to the backend.
const WORKS_BY_HTTP: &str = r#"
link = Link()
note("asks")
link.ask(request("GET", "/ojs/v1/jobs/none"))
while True:
    jobs = json.loads(link.ask(fetch())[2]).get("jobs") or []
    for job in jobs:
        link.ask(post("ack", job_id=job["id"], result="x" * 100))
    if not jobs:
        time.sleep(0.05)
"#;

#[test]
fn mode_gateway_asks_the_kernel_for_what_the_page_says() {
    are_on_the_page("gateway", &[START, IDLE, JOB, END], gateway);
}

fn gateway() -> Vec<Names> {
    let stage = Stage::new();
    let start = crate::gateway::worker(&stage, WORKS_BY_HTTP);
    let (mut init, mut recording) = strace::start(&stage, start);
    init.notes_line("asks");
    settle(&stage, &mut recording);
    settle(&stage, &mut recording);
    stage.enqueue(1..10);
    stage.wait_for_outcomes_for(PATIENCE * 6);
    settle(&stage, &mut recording);
    init.stops();
    recording.end()
}

#[test]
fn mode_exec_asks_the_kernel_for_what_the_page_says() {
    are_on_the_page("exec", &[START, IDLE, JOB, END], exec);
}

fn exec() -> Vec<Names> {
    let stage = Stage::new();
    let script = r#"case $OJS_JOB_ID in
j9) trap '' TERM; sleep 60 ;;
*) read -r _; "$OJS_INIT" job progress 0.5; (setsid sleep 60 &); echo '{"done":1}'; echo said >&2 ;;
esac"#;
    let start = stage.command(&["sh", "-c", script]).with_all(&[
        ("OJS_MODE", "exec"),
        ("OJS_CONCURRENCY", "2"),
        ("OJS_EXEC_USERS", "81250-81259"),
        ("OJS_EXEC_MAX_MEMORY", "512MiB"),
        ("OJS_TERMINATION_GRACE_PERIOD", "5s"),
    ]);
    let config = stage.at("ojs-init.toml");
    std::fs::write(&config, "[exec.rlimits]\nnofile = 100\n").unwrap();
    let start = start.with("OJS_INIT_CONFIG", config);
    let (mut init, mut recording) = strace::start(&stage, start);
    stage.wait_for_more(Endpoint::Fetch, 1);
    settle(&stage, &mut recording);
    settle(&stage, &mut recording);
    stage.enqueue(1..3);
    // Each call of all processes stops for strace, which has to get the processor.
    stage.wait_for_outcomes_for(PATIENCE * 6);
    assert!(
        matches!(stage.outcomes("j1")[..], [Outcome::Acked(Some(_))]),
        "{}",
        init.story()
    );
    settle(&stage, &mut recording);
    stage.enqueue([9]);
    stage.wait_for_more(Endpoint::Fetch, POLLS);
    init.signal(libc::SIGTERM);
    init.signal_again(libc::SIGTERM);
    init.ends_with(0);
    recording.end()
}

#[test]
fn subcommands_ask_the_kernel_for_what_the_page_says() {
    are_on_the_page("subcommands", &[RUN], subcommands);
}

fn subcommands() -> Vec<Names> {
    let stage = Stage::new();
    let mut init = stage.worker("link = Link(); link.ready(); link.work()").start();
    init.notes_line("ready");
    stage.wait_for_more(Endpoint::Fetch, 1);
    let mut seen = Names::new();
    for words in [
        &["status"][..],
        &["status", "--json"],
        &["health", "live"],
        &["health", "ready"],
        &["quiet"],
        &["resume"],
        &["config", "show"],
        &["config", "check", "--", "sh"],
        &["prestop", "--for", "100ms"],
        &["terminate"],
    ] {
        seen.extend(strace::of_command(&stage, words));
    }
    init.ends_with(0);
    vec![seen]
}
