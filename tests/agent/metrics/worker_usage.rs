//! The memory and the processor time of all processes of the worker, its age, and its jobs.

use super::scrape::value;
use super::{ANY_PORT, OBEYS, OFTEN};
use crate::operator::run;
use crate::probe_client::Probes;
use crate::stage::{Init, Stage};
use crate::support::proc;
use crate::support::sys::send;
use crate::support::wait::now;

const MEMORY: &str = "ojs_init_worker_memory_bytes";
const PROCESSES: &str = "ojs_init_worker_processes";
const CPU: &str = "ojs_init_worker_cpu_seconds_total";
const AGE: &str = "ojs_init_worker_age_seconds";
const JOBS: &str = "ojs_init_worker_jobs";

const MIB: f64 = 1_048_576.0;

/// A worker with 40 MiB, and two children that share these and have 20 MiB each.
const FORKS: &str = "
shared = bytearray(os.urandom(1 << 20) * 40)
def hold():
    own = bytearray(os.urandom(1 << 20) * 20)
    note('holds')
    rest()
for _ in range(2): child(hold)
link = Link()
link.ready(10)
link.obey()";

fn mebibytes(probes: Probes) -> f64 {
    value(&probes.scrape(), MEMORY).unwrap() / MIB
}

/// The init of this worker, after its children have their memory.
fn with_forks(stage: &Stage, pairs: &[(&str, &str)], through: &[&str]) -> (Init, Probes) {
    let start = stage.worker(FORKS).through(through).with_all(&[ANY_PORT, OFTEN]);
    let mut init = start.with_all(pairs).start();
    let probes = Probes::of(&mut init);
    init.notes_times("holds", 2);
    init.notes_line("ready");
    probes.counts(PROCESSES, 3.0);
    (init, probes)
}

#[test]
fn what_the_processes_of_a_worker_share_counts_once() {
    let stage = Stage::new();
    let (init, probes) = with_forks(&stage, &[], &[]);
    let taken = mebibytes(probes);
    assert!(
        (80.0..130.0).contains(&taken),
        "{taken} MiB; the resident pages are 180"
    );
    let status: serde_json::Value = serde_json::from_str(&run(&stage, &init, &["status", "--json"]).stdout).unwrap();
    let worker = &status["worker"];
    assert_eq!(worker["processes"], 3, "{worker}");
    assert!(
        (80.0..130.0).contains(&(worker["memory_bytes"].as_f64().unwrap() / MIB)),
        "{worker}"
    );
    assert!(worker["cpu_ms"].as_u64() > Some(0), "{worker}");
    let screen = run(&stage, &init, &["status"]).stdout;
    assert!(screen.contains(" MiB in 3 processes, cpu "), "{screen}");
    init.signal(libc::SIGKILL);
}

#[test]
fn where_the_kernel_does_not_show_what_is_shared_it_counts_for_each_process() {
    let stage = Stage::new();
    // As Docker starts a container. Linux lets the last two look as well.
    let blind = ["setpriv", "--bounding-set=-sys_ptrace,-sys_admin,-perfmon"];
    let (init, probes) = with_forks(&stage, &[("OJS_USER", "12345:12345")], &blind);
    let taken = mebibytes(probes);
    assert!(taken > 160.0, "{taken} MiB");
    init.signal(libc::SIGKILL);
}

#[test]
fn a_handler_that_computes_uses_processor_time_which_stays_when_its_process_is_gone() {
    let stage = Stage::new();
    let script = "
def burn():
    while time.process_time() < 0.2: pass
link = Link()
link.ready()
while True:
    job = link.job()
    os.waitpid(child(burn), 0)
    link.ack(job)";
    let mut init = stage.worker(script).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    init.notes_line("ready");
    // The start of an interpreter may take less than the smallest time that Linux counts (10 ms).
    probes.shows(CPU, |seconds| seconds >= 0.0);
    let before = value(&probes.scrape(), CPU).unwrap();
    stage.enqueue([1]);
    stage.wait_for_outcomes();
    probes.shows(CPU, |seconds| seconds > before + 0.15);
    probes.counts(PROCESSES, 1.0);
    init.stops();
}

#[test]
fn a_worker_that_was_started_again_is_young_and_has_had_no_job_and_the_processor_time_goes_on() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let restarts = ("OJS_RESTART", "always");
    let computes_first = format!("while time.process_time() < 0.1: pass\n{OBEYS}");
    let mut init = stage
        .worker(&computes_first)
        .with_all(&[ANY_PORT, OFTEN, restarts])
        .start();
    let probes = Probes::of(&mut init);
    probes.counts(JOBS, 2.0);
    for job in ["j1", "j2"] {
        init.order(&format!("ack {job}"));
    }
    stage.wait_for_outcomes();
    probes.shows(AGE, |age| age > 1.5);
    probes.shows(CPU, |seconds| seconds > 0.0);
    let used = value(&probes.scrape(), CPU).unwrap();
    let killed = now();
    send(proc::children(init.pid)[0], libc::SIGKILL).unwrap();
    init.notes_times("ready", 2);
    probes.shows(AGE, |age| age < killed.elapsed().as_secs_f64());
    assert_eq!(value(&probes.scrape(), JOBS), Some(0.0));
    probes.shows(CPU, |seconds| seconds >= used);
    probes.shows(MEMORY, |bytes| bytes > MIB);
    init.stops();
}

#[test]
fn in_mode_exec_the_process_of_a_job_counts_and_the_second_ojs_init_does_not() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "import os, time\nheld = bytearray(os.urandom(1 << 20) * 30)\ntime.sleep(60)";
    let command = ["python3", "-S", "-E", "-c", script];
    let start = stage.command(&command).with("OJS_MODE", "exec");
    let mut init = start.with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    probes.shows(MEMORY, |bytes| bytes > 30.0 * MIB);
    probes.counts(PROCESSES, 1.0);
    probes.counts(JOBS, 1.0);
    init.signal(libc::SIGKILL);
}
