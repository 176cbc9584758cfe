//! The command line, as people and scripts use it.

#![allow(clippy::unwrap_used, reason = "what cannot be had fails the test")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

use common::{Bench, PATIENCE, plain};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ojs_devserver::JobState;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ojs-devserver"));
    command
        .env_remove("OJS_URL")
        .env_remove("OJS_AUTH_TOKEN")
        .stdin(Stdio::null());
    command
}

#[allow(clippy::disallowed_methods, reason = "a test starts and waits as it likes")]
fn output(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (
        status.success(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

/// A command about a running server.
fn told(bench: &Bench, args: &[&str]) -> (bool, String, String) {
    output(program().args(args).env("OJS_URL", bench.server.url()))
}

/// A program that is ended when the test is over.
struct Running(Child);

impl Running {
    #[allow(clippy::disallowed_methods, reason = "a test starts and waits as it likes")]
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    #[allow(clippy::disallowed_methods, reason = "a test starts and waits as it likes")]
    fn stop(mut self, signal: Signal) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
        let status = self.0.wait().unwrap();
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    /// Its output, line by line, as it comes.
    fn lines(&mut self) -> mpsc::Receiver<String> {
        let (send, receive) = mpsc::channel();
        let out = BufReader::new(self.0.stdout.take().unwrap());
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        receive
    }
}

impl Drop for Running {
    #[allow(clippy::disallowed_methods, reason = "a test starts and waits as it likes")]
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file that is not there yet, in a folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ojs-devserver-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn it_serves_says_what_it_is_and_ends_with_0_on_a_stop_signal() {
    let folder = Folder::new("serve");
    for (args, signal) in [(&["serve"][..], Signal::SIGTERM), (&[][..], Signal::SIGINT)] {
        let file = folder.0.join("url");
        let running = Running::start(
            program()
                .args(args)
                .args(["--listen", "127.0.0.1:0", "--port-file"])
                .arg(&file),
        );
        let bench = plain();
        assert!(bench.server.wait(PATIENCE, |_| file.exists()), "the port file comes");
        let url = fs::read_to_string(&file).unwrap();
        let address = url.trim_end().strip_prefix("http://").unwrap();
        assert!(TcpStream::connect(address).is_ok(), "who reads the file can connect");
        let (status, said) = running.stop(signal);
        assert_eq!(status, Some(0), "{signal}: {said}");
        assert!(
            said.contains("development tool") && said.contains(url.trim_end()),
            "{said}"
        );
        assert!(!file.exists(), "the file goes with the server");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is left");
    }
}

#[test]
fn help_says_that_it_is_not_for_production() {
    let (is_ok, help, _) = output(program().arg("--help"));
    assert!(is_ok && help.contains("NOT for production"), "{help}");
    for command in ["serve", "enqueue", "jobs", "job", "workers", "cancel"] {
        assert!(help.contains(command), "{command}");
    }
}

#[test]
fn a_remote_address_and_other_nonsense_are_refused_with_what_would_do() {
    for (args, part) in [
        (&["--listen", "0.0.0.0:0"][..], "--allow-remote"),
        (&["--listen", "localhost"][..], "--listen"),
        (&["--dialect", "klingon"][..], "spec, go, integer, strict"),
        (&["--visibility-timeout", "soon"][..], "250ms"),
        (&["--heartbeat-timeout", "0"][..], "1ms"),
        (&["--max-jobs", "0"][..], "1 to 10000000"),
    ] {
        let (is_ok, _, said) = output(program().args(args));
        assert!(!is_ok && said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn jobs_are_enqueued_by_the_hundred_and_listed() {
    let bench = plain();
    let (is_ok, said, _) = told(
        &bench,
        &[
            "enqueue",
            "email.send",
            r#"["a@b.c"]"#,
            "--count",
            "2500",
            "--queue",
            "mail",
        ],
    );
    assert!(is_ok && said.contains("2500 jobs"), "{said}");
    assert_eq!(bench.server.jobs().len(), 2_500);
    let (is_ok, list, _) = told(&bench, &["jobs", "--limit", "3", "--queue", "mail"]);
    assert!(is_ok && list.contains("available 2500"), "{list}");
    assert_eq!(list.lines().filter(|line| line.contains("email.send")).count(), 3);
}

#[test]
fn one_job_is_enqueued_shown_and_cancelled() {
    let bench = plain();
    let options = r#"{"retry":{"max_attempts":9},"priority":4}"#;
    let (_, id, _) = told(&bench, &["enqueue", "a.b", "[1.50]", "--options", options]);
    let id = id.trim_end();
    let (_, shown, _) = told(&bench, &["job", id]);
    for part in [
        "args: [1.50]",
        "priority: 4",
        "max_attempts: 9",
        r#"state: "available""#,
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let (_, line, _) = told(&bench, &["job", id, "--json"]);
    let job: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&job["id"], &job["priority"]), (&id.into(), &4.into()), "{line}");
    assert!(line.contains("[1.50]") && line.lines().count() == 1, "{line}");
    assert_eq!(told(&bench, &["cancel", id]).1, format!("{id} is cancelled\n"));
    assert_eq!(bench.server.job(id).unwrap().state, JobState::Cancelled);
    let (is_ok, _, said) = told(&bench, &["cancel", id]);
    assert!(!is_ok && said.contains("is cancelled"), "{said}");
    assert!(told(&bench, &["job", "nobody"]).2.contains("there is no job 'nobody'"));
}

#[test]
fn workers_are_listed() {
    let bench = plain();
    bench.worker(
        "register",
        r#"{"worker_id":"w-1","hostname":"here","queues":["a","b"]}"#,
    );
    let (_, list, _) = told(&bench, &["workers"]);
    assert!(
        list.contains("w-1") && list.contains("here") && list.contains("a,b"),
        "{list}"
    );
}

#[test]
fn arguments_that_are_no_json_array_are_answered_with_one() {
    let bench = plain();
    for wrong in ["a@b.c", r#""a@b.c""#] {
        let (is_ok, _, said) = told(&bench, &["enqueue", "email.send", wrong]);
        assert!(!is_ok && said.contains(r#"'["a@b.c"]'"#), "{said}");
    }
    let (_, _, said) = told(&bench, &["enqueue", "Email", "[]"]);
    assert!(said.contains("'type'"), "{said}");
}

#[test]
fn a_server_that_is_not_there_is_named_with_how_to_start_one() {
    let (is_ok, _, said) = output(program().args(["jobs", "--url", "http://127.0.0.1:1"]));
    assert!(
        !is_ok && said.contains("http://127.0.0.1:1") && said.contains("start one"),
        "{said}"
    );
    let (is_ok, _, said) = output(program().args(["jobs", "--url", "ftp://x"]));
    assert!(!is_ok && said.contains("http://127.0.0.1:8080"), "{said}");
}

#[test]
fn a_missing_token_is_asked_for() {
    let options = ojs_devserver::Options {
        token: Some("secret".into()),
        ..Default::default()
    };
    let bench = common::bench(options);
    assert!(told(&bench, &["jobs"]).2.contains("--token"));
    assert!(told(&bench, &["jobs", "--token", "secret"]).0);
}

#[test]
fn a_watched_list_tells_each_change_when_nobody_looks_at_a_terminal() {
    let bench = plain();
    bench.put_job("first", "");
    let mut running = Running::start(program().args(["jobs", "--watch"]).env("OJS_URL", bench.server.url()));
    let lines = running.lines();
    assert_eq!(lines.recv_timeout(PATIENCE).unwrap(), "first t default available 0");
    bench.fetch("w");
    assert_eq!(lines.recv_timeout(PATIENCE).unwrap(), "first t default active 1 w");
    bench.put_job("second", "");
    assert_eq!(lines.recv_timeout(PATIENCE).unwrap(), "second t default available 0");
}

/// Requests of a worker at its end.
fn shut_down(bench: &Bench) {
    bench.put_job("j", "");
    bench.fetch("w-1");
    bench.worker(
        "heartbeat",
        r#"{"worker_id":"w-1","state":"quiet","active_jobs":["j"]}"#,
    );
    bench.worker("ack", r#"{"job_id":"j","worker_id":"w-1"}"#);
    bench.worker("deregister", r#"{"worker_id":"w-1"}"#);
}

#[test]
fn a_timeline_of_a_running_server_is_drawn_and_saved_and_drawn_again() {
    let bench = plain();
    shut_down(&bench);
    let folder = Folder::new("timeline");
    let file = folder.0.join("record").display().to_string();
    let (is_ok, drawn, said) = told(&bench, &["timeline", "--mark", "0.5=SIGTERM", "--save", &file]);
    assert!(is_ok, "{said}");
    for part in ["SIGTERM", "first heartbeat that says quiet", " deregister"] {
        assert!(drawn.contains(part), "{part} in {drawn}");
    }
    assert!(drawn.lines().all(|line| line.chars().count() <= 80) && !drawn.contains('\u{1b}'));
    let wrote = format!("wrote {file}\n");
    let again = output(program().args(["timeline", "--input", &file]));
    assert_eq!(
        again.1,
        drawn.strip_prefix(&wrote).unwrap(),
        "the file has the marks too"
    );
    let input = fs::File::open(&file).unwrap();
    let piped = output(
        program()
            .args(["timeline", "--input", "-", "--worker", "w-1"])
            .stdin(input),
    );
    assert!(piped.1.contains("4 events, 1 worker, 1 job"), "{}", piped.1);
}

#[test]
fn a_timeline_is_written_as_svg() {
    let bench = plain();
    shut_down(&bench);
    let folder = Folder::new("svg");
    let file = folder.0.join("picture.svg");
    let (is_ok, said, _) = told(&bench, &["timeline", "--svg", &file.display().to_string()]);
    assert!(is_ok && said == format!("wrote {}\n", file.display()), "{said}");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<svg "));
}

#[test]
fn a_timeline_that_cannot_be_drawn_says_why() {
    let bench = plain();
    shut_down(&bench);
    for (args, part) in [
        (&["--worker", "w-2"][..], "it has w-1"),
        (&["--from", "9", "--to", "8"][..], "--from 9"),
        (&["--mark", "SIGTERM"][..], "1234.5=SIGTERM"),
        (&["--from", "soon"][..], "1234.5"),
        (&["--input", "/nowhere/at/all"][..], "cannot read /nowhere/at/all"),
        (
            &["--input", "/dev/null", "--svg", "/nowhere/at/all"][..],
            "cannot write /nowhere/at/all",
        ),
    ] {
        let args: Vec<&str> = std::iter::once("timeline").chain(args.iter().copied()).collect();
        let (is_ok, _, said) = told(&bench, &args);
        assert!(!is_ok && said.contains(part), "{args:?}: {said}");
    }
}
