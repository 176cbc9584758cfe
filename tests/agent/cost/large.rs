//! The cost of a large job, by counts: pages of new memory, and the most memory at one time.

use crate::stage::{Init, PATIENCE, Stage};

/// Bytes of a large job.
const JOB_BYTES: usize = 1_000_000;

const PAGE_BYTES: usize = 4096;

/// Jobs that are counted, and those before them, which open what stays open.
const JOBS: usize = 40;
const WARM_UP: usize = 10;

/// Most memory of the init besides its jobs, in bytes.
const MOST_ELSE: u64 = 16 << 20;

/// Makes large jobs available.
fn enqueue_large(stage: &Stage, name: &str, count: usize) {
    for number in 0..count {
        let argument = "x".repeat(JOB_BYTES);
        stage.backend.enqueue(&format!(
            r#"{{"id":"{name}{number}","type":"t","args":["{argument}"]}}"#
        ));
    }
}

/// An init whose worker takes so many jobs at once.
fn start(stage: &Stage, concurrency: usize) -> Init {
    stage
        .worker(&format!("link = Link(); link.ready({concurrency}); link.work()"))
        .with("OJS_CONCURRENCY", concurrency.to_string())
        .with("OJS_LOG_LEVEL", "info")
        .start()
}

/// Pages that the kernel has given to the init so far.
fn new_pages(init: &Init) -> usize {
    const MINOR_FAULTS: usize = 7;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", init.pid)).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(MINOR_FAULTS).unwrap().parse().unwrap()
}

#[test]
fn a_large_job_is_in_memory_once_and_never_copied() {
    let stage = Stage::new();
    let mut init = start(&stage, 1);
    enqueue_large(&stage, "warm", WARM_UP);
    stage.wait_for_outcomes_for(PATIENCE * 6);
    let before = new_pages(&init);
    enqueue_large(&stage, "j", JOBS);
    stage.wait_for_outcomes_for(PATIENCE * 6);
    let each = (new_pages(&init) - before) / JOBS;
    let once = JOB_BYTES / PAGE_BYTES;
    println!("{each} pages of new memory a job; {once} have one job");
    // Its own memory is that of a job before it, so one copy would make as many as the job has.
    assert!(each < once / 2, "{each} pages of new memory a job: {}", init.story());
    init.stops();
}

#[test]
fn many_large_jobs_at_once_take_their_own_bytes_and_little_more() {
    let stage = Stage::new();
    enqueue_large(&stage, "j", JOBS);
    let mut init = start(&stage, JOBS);
    stage.wait_for_outcomes_for(PATIENCE * 6);
    let peak = init.memory_kib("VmHWM") * 1024;
    println!("{peak} bytes at the peak for {JOBS} jobs of {JOB_BYTES}");
    // A second copy of all of them would make twice as many.
    assert!(
        peak < (JOBS * JOB_BYTES) as u64 + MOST_ELSE,
        "{peak} bytes: {}",
        init.story()
    );
    init.stops();
}
