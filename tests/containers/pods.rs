//! The kubelet and a pod: hook, SIGTERM, SIGKILL, and probes in between.

use std::time::Duration;

use ojs_devserver::{Fault, FaultRule, JobState};

use crate::container::{KILLED, Start, TELLING, become_state, busy_with, enqueue, settled_after, was_cut_off};
use crate::kubelet::{Pod, Probe, Spec, Terminated};
use crate::signals::checked;
use crate::{PATIENCE, in_full, looks_until, measured};

/// Every test of this file.
pub const ALL: [(&str, fn()); 7] = [
    (
        "a_worker_without_a_connection_fails_its_liveness_probe_after_60_s_and_the_next_container_does_its_job",
        disconnected,
    ),
    (
        "the_specification_s_pod_has_the_drain_that_it_promises_with_a_hook_that_sends_sigtstp",
        specification,
    ),
    (
        "the_kubelet_s_default_of_30_s_does_not_kill_a_worker_with_a_stuck_job",
        by_default,
    ),
    (
        "the_kubelet_s_default_of_30_s_does_not_kill_a_worker_whose_backend_no_longer_answers",
        unanswered,
    ),
    (
        "a_hook_does_not_make_the_kubelet_kill_a_worker_with_a_stuck_job",
        with_a_hook,
    ),
    ("the_website_s_pod_drains_25_s_of_its_30_s", website),
    (
        "a_hook_that_waits_for_idleness_ends_a_pod_as_soon_as_its_job_is_done",
        until_idle,
    ),
];

/// The pod of the Graceful Shutdown Specification, 8.1.
const SPECIFICATION: &str = include_str!("specifications/pod.yaml");

/// The website's.
const WEBSITE: &str = include_str!("specifications/website-pod.yaml");

/// The text of a manifest after this, to the end of the line or to a comment.
fn said<'a>(manifest: &'a str, name: &str) -> &'a str {
    let (_, rest) = manifest.split_once(name).unwrap();
    let line = rest.lines().next().unwrap();
    line.split("  #").next().unwrap().trim()
}

/// A list of words in a manifest.
fn words(manifest: &str, name: &str) -> Vec<String> {
    serde_json::from_str(said(manifest, name)).unwrap()
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.trim_matches(['"', 's']).parse().unwrap())
}

/// The grace period of a manifest; without one Kubernetes' own.
fn grace(manifest: &str) -> Duration {
    seconds(said(manifest, "terminationGracePeriodSeconds:"))
}

/// Nobody had to kill it, and it had the time that it was to have.
fn ended_well(terminated: &Terminated, worker: &crate::container::Container, grace: Duration) {
    assert_ne!(terminated.status, KILLED, "{terminated:?}: {}", worker.log());
    assert_eq!(terminated.status, 0, "{terminated:?}: {}", worker.log());
    assert!(terminated.took < grace, "{terminated:?}: {}", worker.log());
}

/// Between a signal and the first probe that hears of it, at most.
const HEARD: Duration = Duration::from_secs(1);

/// The time that the engine may take until a hook has begun: it starts two processes for that.
const EXEC: Duration = Duration::from_secs(3);

/// Before the end is seen a probe may already have found nobody.
const GOING: Duration = Duration::from_millis(500);

/// From the first step of the end on nobody was told that it is healthy, and never that it is dead.
/// Nor were two probes in a row left without an answer until it had ended. A kubelet takes three
/// for death; one of them a machine may lose that stands still for a second.
fn probed_well(terminated: &Terminated) {
    let is_answered = |probe: &Probe| probe.health.is_some() && probe.live.is_some();
    let probes = &terminated.probes;
    let answered = probes.iter().rposition(is_answered).map_or(0, |last| last + 1);
    let (before, after) = probes.split_at(answered);
    let quiet = before.iter().position(|probe| probe.health == Some(503));
    let quiet = &before[quiet.unwrap_or_else(|| panic!("{terminated:?}"))..];
    let settled = terminated.hook.map_or(terminated.sigterm + HEARD, |_| EXEC + HEARD);
    assert!(quiet[0].at < settled, "quiet from {:?} on: {terminated:?}", quiet[0].at);
    let is_dead = before.iter().any(|probe| probe.live == Some(503));
    let is_silent = before.windows(2).any(|probes| !probes.iter().any(is_answered));
    assert!(!is_dead && !is_silent, "{terminated:?}");
    let is_quiet = |probe: &Probe| probe.health.is_none_or(|status| status == 503);
    assert!(quiet.iter().all(is_quiet), "{terminated:?}");
    let is_early = |probe: &Probe| probe.at + GOING < terminated.took;
    assert!(!after.iter().any(is_early), "no answer: {terminated:?}");
}

/// The specification's pod to the letter. What is scaled down unless all is wanted: 80 s become 8,
/// and so 90 become 18.
fn specification() {
    let mut drain = seconds(said(SPECIFICATION, "value:"));
    let mut grace = grace(SPECIFICATION);
    assert_eq!((drain.as_secs(), grace.as_secs()), (80, 90));
    if !in_full() {
        (drain, grace) = (Duration::from_secs(8), Duration::from_secs(18));
    }
    let hook = said(SPECIFICATION, "exec:\n                command:");
    let spec = Spec {
        grace,
        pre_stop: Some(serde_json::from_str(hook).unwrap()),
    };
    let pod = Pod::new();
    let command = words(SPECIFICATION, "command:");
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let worker = pod
        .worker()
        .with("OJS_SHUTDOWN_GRACE_PERIOD", &format!("{}s", drain.as_secs()))
        .with("DEAF", "1")
        .option(&format!("--entrypoint={}", command[0]))
        .start();
    assert!(
        looks_until(PATIENCE, || pod.probe("/readyz") == Some(200)),
        "{}",
        worker.log()
    );
    assert_eq!(pod.probe("/healthz"), Some(200));
    // The hook takes 5 s before SIGTERM, and the last job nearly all that is left.
    let long = (grace - Duration::from_secs(6)).as_secs_f64();
    let jobs = busy_with(&pod.server, &worker, &[("stuck", 0.0), ("obeys", 0.0), ("sleep", long)]);
    let from = pod.server.now_ms();
    let terminated = pod.terminate(&worker, &spec);
    let had = settled_after(&pod.server, from, &jobs[1], "nack");
    measured(
        &format!("GS 8.1: grace period {drain:?}, limit {grace:?}, hook TSTP and 5 s, a stuck job"),
        &format!(
            "SIGTERM after {:.2?}, jobs cut off after {had:.2?}: a drain of {:.2?}; gone after {:.2?}, status {}",
            terminated.sigterm,
            had.saturating_sub(terminated.sigterm),
            terminated.took,
            terminated.status
        ),
    );
    ended_well(&terminated, &worker, grace);
    probed_well(&terminated);
    assert_eq!(terminated.hook, Some(0));
    // All that fits: the drain from SIGTERM on, but never into the 5 s that the stop phase needs.
    let promised = drain.min(grace - Duration::from_secs(5) - terminated.sigterm);
    let drained = had.saturating_sub(terminated.sigterm);
    assert!(drained + TELLING > promised, "{drained:?} instead of {promised:?}");
    was_cut_off(&pod.server, &worker, &jobs[0]);
    assert_eq!(
        pod.server.job(&jobs[2]).unwrap().state,
        JobState::Completed,
        "{}",
        worker.log()
    );
    assert!(pod.message().starts_with("SIGTERM: out of time"), "{}", pod.message());
}

/// A pod with nothing set and a stuck job is ended.
fn stuck_for_30_s(what: &str, spec: &Spec, start: impl FnOnce(Start) -> Start, before: impl FnOnce(&Pod)) -> Duration {
    let pod = Pod::new();
    let worker = start(pod.worker().with("DEAF", "1")).start();
    let jobs = busy_with(&pod.server, &worker, &[("stuck", 0.0), ("sleep", 4.0)]);
    before(&pod);
    let terminated = pod.terminate(&worker, spec);
    measured(
        &format!("{what}, limit {:?}, a stuck job", spec.grace),
        &format!(
            "SIGTERM after {:.2} s, gone after {:.2?}, status {}",
            terminated.sigterm.as_secs_f64(),
            terminated.took,
            terminated.status
        ),
    );
    ended_well(&terminated, &worker, spec.grace);
    probed_well(&terminated);
    assert_eq!(terminated.hook.unwrap_or(0), 0, "{terminated:?}");
    let message = pod.message();
    assert!(
        message.contains("1 job cut off") && message.contains(&jobs[0]),
        "{message}"
    );
    terminated.took
}

const KUBERNETES: Duration = Duration::from_secs(30);

fn by_default() {
    let spec = Spec {
        grace: KUBERNETES,
        pre_stop: None,
    };
    let took = stuck_for_30_s("Kubernetes, no hook", &spec, |start| start, |_| ());
    assert!(took > Duration::from_secs(25), "{took:?}");
}

fn unanswered() {
    let spec = Spec {
        grace: KUBERNETES,
        pre_stop: None,
    };
    let hang = |pod: &Pod| {
        pod.server.fault(FaultRule::on_all(Fault::Hang)).unwrap();
    };
    stuck_for_30_s(
        "Kubernetes, no hook, a backend that does not answer",
        &spec,
        |start| start,
        hang,
    );
}

fn with_a_hook() {
    let spec = Spec {
        grace: KUBERNETES,
        pre_stop: Some(["/ojs-init", "prestop"].map(str::to_owned).to_vec()),
    };
    let took = stuck_for_30_s("Kubernetes, hook ojs-init prestop", &spec, |start| start, |_| ());
    assert!(took > Duration::from_secs(25), "{took:?}");
}

fn website() {
    let spec = Spec {
        grace: grace(WEBSITE),
        pre_stop: None,
    };
    let set = said(WEBSITE, "value:").trim_matches('"');
    let start = |start: Start| start.with("OJS_GRACE_PERIOD", set);
    let hang = |pod: &Pod| {
        pod.server.fault(FaultRule::on_all(Fault::Hang)).unwrap();
    };
    let took = stuck_for_30_s("website's pod, a backend that does not answer", &spec, start, hang);
    assert!(took > seconds(set), "{took:?}");
}

fn until_idle() {
    let spec = Spec {
        grace: KUBERNETES,
        pre_stop: Some(["/ojs-init", "prestop", "--until-idle"].map(str::to_owned).to_vec()),
    };
    let pod = Pod::new();
    let worker = pod.worker().start();
    let job = &busy_with(&pod.server, &worker, &[("sleep", 3.0)])[0];
    let terminated = pod.terminate(&worker, &spec);
    ended_well(&terminated, &worker, Duration::from_secs(15));
    probed_well(&terminated);
    assert_eq!(terminated.hook, Some(0));
    assert_eq!(pod.server.job(job).unwrap().times_acked, 1);
    assert!(pod.message().starts_with("SIGTERM: drained"), "{}", pod.message());
}

/// How long a worker may be without a connection.
const NO_CONNECTION: Duration = Duration::from_secs(60);

fn disconnected() {
    let pod = Pod::new();
    let start = checked(pod.worker(), "/ojs-init health live");
    let worker = start.words(&["python3", "leaver.py"]).start();
    worker.logs("takes up to 1 job");
    worker.health_becomes("healthy");
    assert!(
        looks_until(PATIENCE, || pod.probe("/readyz") == Some(503)),
        "{}",
        worker.log()
    );
    assert_eq!(pod.probe("/livez"), Some(200));
    let fails = || pod.probe("/livez") == Some(503);
    assert!(looks_until(NO_CONNECTION + PATIENCE, fails), "{}", worker.log());
    worker.health_becomes("unhealthy");
    // The readiness probe of the specification's manifest says nothing of it.
    assert_eq!(pod.probe("/healthz"), Some(200));
    enqueue(&pod.server, "sleep", 0.1);
    let spec = Spec {
        grace: KUBERNETES,
        pre_stop: None,
    };
    let terminated = pod.terminate(&worker, &spec);
    ended_well(&terminated, &worker, Duration::from_secs(10));
    let _next = pod.worker().start();
    become_state(&pod.server, JobState::Completed, 1);
}
