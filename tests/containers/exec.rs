//! Mode exec in containers: the examples as their Dockerfiles make them, and memory that runs out.

use std::sync::LazyLock;
use std::time::Duration;

use ojs_devserver::{JobState, Options, Server};
use serde_json::{Value, json};

use crate::container::{Start, become_state};
use crate::{PATIENCE, engine, images, looks_until};

/// Every test of this file.
pub const ALL: [(&str, fn()); 5] = [
    ("the_examples_of_mode_exec_do_their_jobs_and_are_healthy", examples),
    (
        "a_stop_in_the_midst_of_a_job_that_saves_its_state_costs_none_of_its_work",
        stopped,
    ),
    (
        "a_job_over_its_limit_of_memory_is_ended_before_the_container_is",
        over_its_limit,
    ),
    (
        "a_share_of_the_memory_that_is_too_small_for_any_program_is_raised_and_that_is_told",
        small_share,
    ),
    (
        "a_job_that_the_kernel_ended_for_its_memory_fails_with_that_cause_and_the_next_one_runs",
        ended_by_the_kernel,
    ),
];

/// The images of the examples; made by who needs one first.
static EXAMPLES: LazyLock<[&str; 3]> = LazyLock::new(|| {
    const BASE: &str = "ojs-shell-base";
    images::import(engine(), &["shell"], BASE);
    images::example(engine(), "shell", &format!("SHELL_IMAGE={BASE}"));
    images::example(engine(), "media", &format!("SHELL_IMAGE={BASE}"));
    images::example(
        engine(),
        "python-exec",
        &format!("PYTHON_IMAGE={}", images::PYTHON_BASE),
    );
    ["ojs-worker-shell", "ojs-worker-media", "ojs-worker-python-exec"]
});

fn worker(image: &str, server: &Server) -> Start {
    Start::example(image, server).option("--tmpfs=/tmp")
}

fn examples() {
    let server = Server::start(Options::default()).unwrap();
    let jobs = [
        r#"{"type":"email.send","args":["a@b.c"]}"#,
        r#"{"type":"video.convert","args":["cat.mkv",2]}"#,
        r#"{"type":"report.build","args":["sales",3]}"#,
    ];
    for (done, (image, job)) in EXAMPLES.iter().zip(jobs).enumerate() {
        let worker = worker(image, &server).start();
        server.enqueue(job).unwrap();
        become_state(&server, JobState::Completed, done + 1);
        worker.health_becomes("healthy");
        assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());
    }
    assert!(looks_until(PATIENCE, || server.workers().is_empty()));
}

/// A job that is longer than the grace period, of an example that saves its state: stopped twice,
/// each piece is done once.
fn stopped() {
    let server = Server::start(Options::default()).unwrap();
    let pieces = 60;
    let job = format!(r#"{{"type":"video.convert","args":["cat.mkv",{pieces}]}}"#);
    let job = server.enqueue(&job).unwrap();
    let mut before = 0;
    for _ in 0..2 {
        let start = worker(EXAMPLES[1], &server).with("OJS_SHUTDOWN_GRACE_PERIOD", "1s");
        let container = start.start();
        let is_on = looks_until(PATIENCE, || saved(&server, &job) > before + 2);
        assert!(is_on, "{:?}\n{}", server.job(&job), container.log());
        assert_eq!(container.stop(&[]).status, 0, "{}", container.log());
        before = saved(&server, &job);
        let errors = server.job(&job).unwrap().errors;
        assert!(errors.is_empty(), "{errors:?}\n{}", container.log());
    }
    let container = worker(EXAMPLES[1], &server).start();
    become_state(&server, JobState::Completed, 1);
    let result = server.job(&job).unwrap().result.unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(
        result,
        json!({"pieces": pieces, "begun_at": before}),
        "{}",
        container.log()
    );
    assert_eq!(container.stop(&[]).status, 0, "{}", container.log());
}

/// How many pieces the job has saved.
fn saved(server: &Server, job: &str) -> u64 {
    let Some(text) = server.job(job).unwrap().checkpoint else {
        return 0;
    };
    let checkpoint: Value = serde_json::from_str(&text).unwrap();
    checkpoint["done"].as_u64().unwrap()
}

/// A handler in Python that keeps what it is asked to, for a second; `args` are its mebibytes.
const GROWS: &str = "import json, sys, time
kept = b'x' * (json.load(sys.stdin)['args'][0] << 20)
time.sleep(1)
print(len(kept))";

/// A container of 96 MiB whose jobs grow, and no swap.
fn with_little_memory() -> Start {
    Start::of(images::PYTHON)
        .option("--network=host")
        .option("--memory=96m")
        .option("--memory-swap=96m")
        .with("OJS_HEALTH_LISTEN", "off")
        .with("OJS_MODE", "exec")
        .words(&["python3", "-c", GROWS])
}

/// Heartbeats that are late lose no job: a container without memory may get nowhere for a while.
fn patient() -> Server {
    Server::start(Options {
        heartbeat_timeout: Duration::from_secs(600),
        ..Options::default()
    })
    .unwrap()
}

fn grow(server: &Server, mebibytes: u32) -> String {
    let job = format!(r#"{{"type":"grow","args":[{mebibytes}],"retry":{{"max_attempts":1}}}}"#);
    server.enqueue(&job).unwrap()
}

/// The second job is fine whatever became of the first one.
fn fails_alone(start: Start, mebibytes: u32) {
    let server = patient();
    let worker = start.with("OJS_URL", &server.url()).start();
    let large = grow(&server, mebibytes);
    become_state(&server, JobState::Discarded, 1);
    let errors = server.job(&large).unwrap().errors;
    let is_named = errors.len() == 1 && errors[0].contains(r#""code":"out_of_memory""#);
    assert!(is_named, "{errors:?}\n{}", worker.log());
    grow(&server, 1);
    become_state(&server, JobState::Completed, 1);
    assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());
}

fn over_its_limit() {
    fails_alone(with_little_memory().with("OJS_EXEC_MAX_MEMORY", "32MiB"), 48);
}

/// 1 % of the container's 96 MiB is less than any program needs.
fn small_share() {
    let server = patient();
    let start = with_little_memory().with("OJS_EXEC_MAX_MEMORY", "1%");
    let worker = start.with("OJS_URL", &server.url()).start();
    let job = grow(&server, 48);
    become_state(&server, JobState::Discarded, 1);
    let errors = server.job(&job).unwrap().errors;
    assert!(errors[0].contains(r#""code":"out_of_memory""#), "{errors:?}");
    let log = worker.log();
    assert!(log.contains("each job may take 1MiB"), "{log}");
    assert_eq!(worker.stop(&[]).status, 0, "{}", worker.log());
}

fn ended_by_the_kernel() {
    fails_alone(with_little_memory(), 200);
}
