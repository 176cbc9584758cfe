//! The termination log from outside: the real binary as PID 1 of its own PID namespace writes it,
//! or leaves it alone.
//!
//! Needs root (PID namespaces) and python3.
#![allow(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::backend::{Behaviour, Endpoint};
use crate::stage::{Init, PATIENCE, Stage, Start};
use crate::support::wait::wait_until;
use crate::support::{proc, under_test};

/// Most bytes that Kubernetes reads.
const MOST_BYTES: usize = 4096;

/// A worker that takes so many jobs and answers none.
fn holds(jobs: usize) -> String {
    format!(
        "link = Link(); link.ready({jobs}); [link.job() for _ in range({jobs})]; note('has all'); link.note_all(); rest()"
    )
}

/// A worker that acks a job when it is ordered to, and ends when it is asked to.
const OBEYS: &str = "link = Link(); link.ready(2); link.obey()";

/// The file that the orchestrator has made, with this in it.
fn prepared(stage: &Stage, text: &str) -> PathBuf {
    let path = stage.at("termination-log");
    fs::write(&path, text).unwrap();
    path
}

fn told<'a>(start: Start<'a>, path: &Path) -> Start<'a> {
    start.with("OJS_TERMINATION_LOG", path)
}

/// Waits until this is in the file.
#[track_caller]
fn reads(init: &Init, path: &Path, words: &str) -> String {
    let text = || fs::read_to_string(path).unwrap();
    assert!(
        wait_until(PATIENCE, || text().contains(words)),
        "{}: {}",
        text(),
        init.story()
    );
    text()
}

fn complaints(init: &Init) -> Vec<String> {
    let mut all = init.complaints();
    all.retain(|line| line.contains("termination log") || line.contains("termination_log"));
    all
}

#[test]
fn a_drain_that_ends_well_is_told_at_the_end() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let path = prepared(&stage, "");
    let mut init = told(stage.worker(OBEYS), &path).start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    init.order("ack j1");
    init.ends_with(0);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("SIGTERM: drained; exit status 0"), "{text}");
    assert!(text.ends_with("\njobs from then on: 1 done\n"), "{text}");
}

#[test]
fn it_is_written_as_the_stop_phase_begins_and_again_at_the_end() {
    let stage = Stage::new();
    stage.enqueue([1]);
    stage.backend.always(Endpoint::Nack, Behaviour::Hang);
    let path = prepared(&stage, "");
    let mut init = told(stage.worker(&holds(1)), &path)
        .with_all(&[("OJS_GRACE_PERIOD", "100ms"), ("OJS_INTERRUPTED_EXIT", "9")])
        .start();
    init.notes_line("has all");
    init.signal(libc::SIGTERM);
    let text = reads(&init, &path, "still to come");
    assert!(
        text.starts_with("SIGTERM: out of time after 0.1 s, 1 job about to be cut off; "),
        "{text}"
    );
    assert!(text.ends_with("\nabout to be cut off:\nj1 t\n"), "{text}");
    init.ends_with(9);
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("SIGTERM: out of time after 0.1 s, 1 job cut off; exit status 9; the shutdown took "),
        "{text}"
    );
    assert!(
        text.contains("\n1 job left to the visibility timeout\ncut off:\nj1 t\n"),
        "{text}"
    );
}

#[test]
fn what_was_known_as_the_stop_phase_began_is_there_when_a_sigkill_ends_it() {
    let stage = Stage::new();
    stage.enqueue([1]);
    stage.backend.always(Endpoint::Nack, Behaviour::Hang);
    let path = prepared(&stage, "");
    let mut init = told(stage.worker(&holds(1)), &path)
        .with("OJS_GRACE_PERIOD", "0s")
        .start();
    init.notes_line("has all");
    init.signal(libc::SIGTERM);
    reads(&init, &path, "still to come");
    init.signal(libc::SIGKILL);
    assert!(wait_until(PATIENCE, || !init.is_running()));
    reads(&init, &path, "about to be cut off:\nj1 t\n");
}

#[test]
fn a_fetch_that_was_given_up_is_mentioned() {
    let stage = Stage::new();
    let path = prepared(&stage, "");
    stage.backend.always(Endpoint::Fetch, Behaviour::Hang);
    let mut init = told(stage.worker(OBEYS), &path)
        .with("OJS_REQUEST_TIMEOUT", "1s")
        .start();
    stage.backend.wait_for_count(Endpoint::Fetch, 1, PATIENCE);
    init.stops();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.ends_with("a FETCH was not answered: jobs that it claimed are left to the visibility timeout\n"),
        "{text}"
    );
}

#[test]
fn the_longest_text_is_cut_where_kubernetes_would_cut_it_and_says_so() {
    let stage = Stage::new();
    for number in 0..60 {
        let id = format!("{number:02}{}", "x".repeat(1000));
        stage.backend.enqueue(&format!(
            r#"{{"id":"{id}","type":"t","queue":"default","args":[],"attempt":0}}"#
        ));
    }
    let path = prepared(&stage, "");
    let mut init = told(stage.worker(&holds(60)), &path)
        .with_all(&[("OJS_GRACE_PERIOD", "0s"), ("OJS_CONCURRENCY", "60")])
        .start();
    init.notes_line("has all");
    init.stops();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.len() <= MOST_BYTES && text.len() > MOST_BYTES - 110,
        "{}",
        text.len()
    );
    assert!(
        text.starts_with("SIGTERM: out of time after 0 s, 60 jobs cut off; exit status 0"),
        "{text}"
    );
    assert!(text.ends_with("...\ntruncated\n"), "{text}");
}

#[test]
fn a_name_with_control_characters_stays_on_its_line() {
    let stage = Stage::new();
    stage
        .backend
        .enqueue(r#"{"id":"a\nb\u001b[2J","type":"t","queue":"default","args":[],"attempt":0}"#);
    let path = prepared(&stage, "");
    let mut init = told(stage.worker(&holds(1)), &path)
        .with("OJS_GRACE_PERIOD", "0s")
        .start();
    init.notes_line("has all");
    init.stops();
    reads(&init, &path, "\ncut off:\na\\nb\\u{1b}[2J t\n");
}

#[test]
fn an_older_and_longer_text_is_gone() {
    let stage = Stage::new();
    let path = prepared(&stage, &"what somebody else wrote\n".repeat(1000));
    let mut init = told(stage.worker(OBEYS), &path).start();
    init.notes_line("ready");
    init.stops();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("SIGTERM: drained;") && !text.contains("somebody"),
        "{text}"
    );
}

#[test]
fn a_worker_that_ends_by_itself_is_told_of() {
    let stage = Stage::new();
    let path = prepared(&stage, "");
    let mut init = told(stage.worker("link = Link(); link.ready(); die(signal.SIGSEGV)"), &path).start();
    init.ends_with(139);
    let text = reads(&init, &path, " after its start: killed by SIGSEGV; exit status 139");
    assert!(text.starts_with("the worker ended by itself "), "{text}");
}

#[test]
fn a_command_that_cannot_be_started_is_told_of() {
    let stage = Stage::new();
    let path = prepared(&stage, "");
    for (command, status, words) in [
        ("/no/such/program", 127, "no such file"),
        ("/etc", 126, "not an executable file"),
    ] {
        let mut init = told(stage.command(&[command]), &path).start();
        init.ends_with(status);
        reads(
            &init,
            &path,
            &format!("the worker could not be started: cannot execute \"{command}\": {words}"),
        );
        reads(&init, &path, &format!("; exit status {status}\n"));
    }
}

#[test]
fn what_stands_against_the_start_is_told() {
    let stage = Stage::new();
    let path = prepared(&stage, "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut init = told(stage.worker(OBEYS), &path)
        .with("OJS_HEALTH_LISTEN", &address)
        .start();
    init.ends_with(2);
    let text = reads(&init, &path, "; exit status 2\n");
    assert!(text.starts_with("not started: ") && text.contains(&address), "{text}");
}

#[test]
fn a_wrong_command_line_is_told_without_the_usage() {
    let stage = Stage::new();
    let path = prepared(&stage, "");
    let mut init = told(stage.command::<&str>(&[]), &path).start();
    init.ends_with(2);
    let text = reads(&init, &path, "; exit status 2\n");
    assert_eq!(text, "not started: there is no COMMAND to supervise; exit status 2\n");
}

#[test]
fn a_mistake_in_the_configuration_is_told_wherever_the_file_is_named() {
    let stage = Stage::new();
    let path = prepared(&stage, "");
    let file = stage.at("ojs-init.toml");
    std::fs::write(
        &file,
        format!("paths.termination_log = {:?}\n", path.display().to_string()),
    )
    .unwrap();
    let first = "not started: worker.concurrency = \"many\" (environment OJS_CONCURRENCY)";
    for (name, value) in [("OJS_TERMINATION_LOG", &path), ("OJS_INIT_CONFIG", &file)] {
        std::fs::write(&path, "").unwrap();
        let mut init = stage
            .worker(OBEYS)
            .with("OJS_CONCURRENCY", "many")
            .with(name, value)
            .start();
        init.ends_with(2);
        let text = reads(&init, &path, "; exit status 2\n");
        assert!(text.starts_with(first), "{name}: {text}");
    }
}

#[test]
fn a_place_that_cannot_be_written_keeps_no_mistake_from_being_reported() {
    let stage = Stage::new();
    let fifo = stage.at("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let link = stage.at("link");
    std::os::unix::fs::symlink(prepared(&stage, "old"), &link).unwrap();
    for place in [fifo, link, stage.at("missing"), stage.at("run")] {
        let mut init = told(stage.worker(OBEYS), &place)
            .with("OJS_CONCURRENCY", "many")
            .start();
        init.ends_with(2);
        assert!(init.log().contains("worker.concurrency"), "{}", init.log());
    }
    assert!(!stage.at("missing").exists());
    assert_eq!(std::fs::read_to_string(stage.at("link")).unwrap(), "old");
}

#[test]
fn a_file_that_is_not_there_is_not_created() {
    let stage = Stage::new();
    let path = stage.at("none");
    let mut init = told(stage.worker(OBEYS), &path).start();
    init.notes_line("ready");
    assert_eq!(complaints(&init).len(), 1, "{:?}", init.complaints());
    init.stops();
    assert!(!path.exists());
    assert_eq!(complaints(&init).len(), 1, "{:?}", init.complaints());
}

#[test]
fn nothing_but_a_regular_file_is_written_to_and_one_warning_says_so() {
    let stage = Stage::new();
    let victim = prepared(&stage, "of somebody else");
    symlink(&victim, stage.at("link")).unwrap();
    fs::create_dir(stage.at("directory")).unwrap();
    mkfifo(&stage.at("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
    for (name, why) in [
        ("link", "it is a symbolic link"),
        ("directory", "it is not a regular file"),
        ("fifo", "it is not a regular file"),
    ] {
        let mut init = told(stage.worker(OBEYS), &stage.at(name)).named(name).start();
        init.notes_line("ready");
        init.stops();
        let complaints = complaints(&init);
        assert!(
            complaints.len() == 1 && complaints[0].contains(why),
            "{name}: {complaints:?}"
        );
    }
    assert_eq!(fs::read_to_string(victim).unwrap(), "of somebody else");
}

#[test]
fn a_fifo_with_a_reader_gets_nothing() {
    let stage = Stage::new();
    let path = stage.at("fifo");
    mkfifo(&path, Mode::from_bits_truncate(0o666)).unwrap();
    // Reader and writer: it can be opened, and read, without waiting for anybody.
    let mut both = fs::File::options();
    let mut both = both
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .unwrap();
    let mut init = told(stage.worker(OBEYS), &path).start();
    init.notes_line("ready");
    let complaints = complaints(&init);
    assert!(
        complaints.len() == 1 && complaints[0].contains("it is not a regular file"),
        "{complaints:?}"
    );
    init.stops();
    assert!(both.read(&mut [0; 10]).is_err(), "something was written");
}

#[test]
fn a_file_that_takes_nothing_is_warned_of_once_and_the_end_is_as_usual() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = told(stage.worker(&holds(1)), Path::new("/proc/version"))
        .with("OJS_GRACE_PERIOD", "0s")
        .start();
    init.notes_line("has all");
    assert!(complaints(&init).is_empty(), "{:?}", init.complaints());
    init.stops();
    let complaints = complaints(&init);
    assert!(
        complaints.len() == 1 && complaints[0].contains("cannot write"),
        "{complaints:?}"
    );
}

#[test]
fn the_worker_does_not_get_the_open_file() {
    let stage = Stage::new();
    let path = prepared(&stage, "");
    let mut init = told(stage.worker(OBEYS), &path).start();
    init.notes_line("ready");
    let is_open = |pid: i32| proc::descriptors(pid).values().any(|open| *open == path);
    assert!(is_open(init.pid));
    assert!(!is_open(proc::children(init.pid)[0]));
    init.stops();
}

#[test]
fn without_the_agent_and_when_it_is_off_nothing_is_written() {
    let stage = Stage::new();
    let path = prepared(&stage, "the worker's own");
    let mut init = told(stage.command(&["sh", "-c", "exit 3"]), &path)
        .with("OJS_MODE", "none")
        .start();
    init.ends_with(3);
    let mut init = stage
        .worker(OBEYS)
        .with("OJS_TERMINATION_LOG", "off")
        .named("off")
        .start();
    init.notes_line("ready");
    init.stops();
    assert!(complaints(&init).is_empty(), "{:?}", init.complaints());
    assert_eq!(fs::read_to_string(&path).unwrap(), "the worker's own");
}

#[test]
fn config_check_warns_of_a_file_that_cannot_be_used() {
    let stage = Stage::new();
    let check = |path: &Path| {
        let mut command = Command::new(under_test::init());
        command
            .args(["config", "check"])
            .env_clear()
            .env("OJS_URL", "http://backend")
            .env("OJS_HEALTH_LISTEN", "off")
            .env("OJS_TERMINATION_GRACE_PERIOD", "30s")
            .env("OJS_RUNTIME_DIR", stage.at("run"));
        let output = command.env("OJS_TERMINATION_LOG", path).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let usable = prepared(&stage, "as it was");
    assert_eq!(check(&usable), "configuration is valid\n");
    assert_eq!(fs::read_to_string(usable).unwrap(), "as it was");
    let missing = check(&stage.at("none"));
    assert!(
        missing.contains("warning: paths.termination_log = ") && missing.contains("No such file"),
        "{missing}"
    );
}
