//! The cost of a job, by counts that are the same on a busy machine: system calls, by strace in one
//! real run, and threads.
//!
//! Needs root (PID namespaces), python3 and strace.

mod large;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use crate::stage::{Init, PATIENCE, Stage, root};
use crate::support::under_test;
use crate::support::wait::wait_until;
use crate::system_calls::{SystemCalls, tasks};

/// Jobs at once for which it is written down. One has nothing that chance could put together with
/// something else.
const AT_ONCE: [u32; 2] = [1, 10];

/// Lines that are not counted: the sum, and the calls by which threads wake each other. How many of
/// those there are depends on whether the log's thread sleeps already, and that on the machine.
const LEFT_OUT: [&str; 2] = ["total", "futex"];

/// Runs of which the middle one counts.
const RUNS: usize = 3;

/// Jobs that are counted, and those before them, which open what stays open.
const JOBS: u32 = 500;
const WARM_UP: u32 = 50;

/// How much more than what is written down a run may need, as a part of it: how many jobs one FETCH
/// brings and how many answers one wake-up finds is chance.
const TOLERANCE: f64 = 0.15;

/// Where it is written down what a job costs.
fn figures() -> PathBuf {
    root().join("tests/agent/cost/system_calls.txt")
}

const HEAD: &str = "\
# System calls of ojs-init for each job: the kind of binary, jobs at once, calls (futex left out). Small envelopes, http.
# Renewed with: UPDATE_GOLDEN=1 cargo test --locked --test agent cost::
# (and again with BINARY_UNDER_TEST for the static binary, which is what users have)
";

#[test]
fn a_job_costs_the_system_calls_that_are_written_down() {
    let kind = if under_test::is_static() { "static" } else { "dynamic" };
    let mut known = written_down();
    let is_renewed = std::env::var_os("UPDATE_GOLDEN").is_some();
    for at_once in AT_ONCE {
        let key = format!("{kind} {at_once}");
        let (each, counted) = usual_calls("127.0.0.1", at_once);
        if is_renewed {
            known.insert(key, each);
            continue;
        }
        let expected = known[&key];
        println!("{key} at once: {each:.1} system calls a job; {expected:.1} are written down");
        // A job is read and answered, on both sides.
        assert!(each > 3.0, "strace has seen only a part: {counted:#?}");
        assert!(
            each <= expected * (1.0 + TOLERANCE),
            "{each:.1} system calls a job, {at_once} at once, and {expected:.1} are written down in {}, which says how to \
             renew it: {counted:#?}",
            figures().display()
        );
    }
    if is_renewed {
        let mut text = HEAD.to_owned();
        for (key, each) in &known {
            writeln!(text, "{key} {each:.1}").unwrap();
        }
        std::fs::write(figures(), text).unwrap();
    }
}

#[test]
fn a_host_name_costs_no_more_than_an_address() {
    let [by_address, by_name] = ["127.0.0.1", "localhost"].map(|host| usual_calls(host, 1).0);
    assert!(
        by_name <= by_address * (1.0 + TOLERANCE),
        "{by_name:.1}, by address {by_address:.1}"
    );
}

#[test]
fn the_number_of_threads_is_the_same_for_one_job_at_once_and_for_a_hundred() {
    assert_eq!(most_threads(1), most_threads(100));
}

/// The figures, by the kind of binary and the jobs at once.
fn written_down() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(figures()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs
        .map(|(key, each)| (key.to_owned(), each.parse().unwrap()))
        .collect()
}

/// An init that has done its first jobs, for the stage's backend as it is reached there.
fn at_work(stage: &Stage, url: &str, concurrency: u32) -> Init {
    let init = stage
        .worker(&format!("link = Link(); link.ready({concurrency}); link.work()"))
        .with("OJS_URL", url)
        .with("OJS_CONCURRENCY", concurrency.to_string())
        .with("OJS_LOG_LEVEL", "info")
        .start();
    stage.enqueue(0..WARM_UP);
    stage.wait_for_outcomes();
    init
}

/// System calls for each job, in the middle one of some runs, and all of that run by name.
fn usual_calls(host: &str, at_once: u32) -> (f64, BTreeMap<String, u32>) {
    let mut runs: Vec<_> = (0..RUNS).map(|_| system_calls(host, at_once)).collect();
    runs.sort_by_key(|counted| counted.values().sum::<u32>());
    let middle = runs.swap_remove(RUNS / 2);
    let total: u32 = middle.values().sum();
    (f64::from(total) / f64::from(JOBS), middle)
}

/// The calls of the init while it has the jobs done, by name.
fn system_calls(host: &str, at_once: u32) -> BTreeMap<String, u32> {
    let stage = Stage::new();
    let url = format!("http://{host}:{}", stage.backend.address().port());
    let mut init = at_work(&stage, &url, at_once);
    let counting = SystemCalls::count(&init, &stage.at("strace"));
    stage.enqueue(WARM_UP..WARM_UP + JOBS);
    // Each call stops the init for strace, which has to get the processor: a busy machine makes
    // some seconds a minute.
    stage.wait_for_outcomes_for(PATIENCE * 6);
    let mut counted = counting.end();
    init.stops();
    counted.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    counted
}

/// The most threads that the init has while it has jobs done, so many at once.
fn most_threads(concurrency: u32) -> usize {
    let stage = Stage::new();
    let mut init = at_work(&stage, &stage.backend.url(), concurrency);
    stage.enqueue(WARM_UP..WARM_UP + JOBS);
    let mut most = 0;
    let are_done = wait_until(PATIENCE * 6, || {
        most = most.max(tasks(&init).len());
        stage.backend.outcomes().values().all(|outcomes| !outcomes.is_empty())
    });
    assert!(are_done, "{}", init.story());
    init.stops();
    most
}
