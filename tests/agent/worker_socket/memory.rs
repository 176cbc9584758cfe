//! Memory that many jobs took of the init for a moment belongs to the worker again.

use crate::stage::{Init, PATIENCE, Stage};
use crate::support::proc;
use crate::support::under_test;
use crate::support::wait::wait_until;

/// Most memory that stays with the init a moment after a burst, in KiB. An idle init has 150, and
/// small pieces of the 4 MiB for small blocks stay: 0.6 MiB, and 1 MiB beside other tests.
const MOST_LEFT_KIB: u64 = 3 << 9;

/// Bursts one after the other: none may leave more than the one before.
const BURSTS: u32 = 2;

/// Its memory that is no file's, in KiB.
fn anonymous_kib(init: &Init) -> u64 {
    proc::memory_kib(init.pid, "Anonymous").unwrap()
}

/// Bursts of so many jobs with so many bytes each, which a worker leaves unread, and then answers.
fn gives_back(jobs: u32, bytes: u32) {
    // The binary that users have. Another C library keeps what it likes.
    if !under_test::is_static() {
        return;
    }
    let stage = Stage::new();
    let script = format!(
        r#"
link = Link()
link.ready({jobs})
for burst in range({BURSTS}):
    while len(orders()) == burst:
        time.sleep(0.01)
    for _ in range({jobs}):
        link.ack(link.until("job")["job"]["id"])
rest()"#
    );
    let mut init = stage
        .worker(&script)
        .with("OJS_LOG_LEVEL", "warn")
        .with("OJS_CONCURRENCY", jobs.to_string())
        .start();
    init.notes_line("ready");
    let idle = anonymous_kib(&init);
    let padding = "x".repeat(usize::try_from(bytes).unwrap());
    for burst in 0..BURSTS {
        for number in burst * jobs..(burst + 1) * jobs {
            let more = format!(r#","meta":{{"padding":"{padding}"}}"#);
            stage.backend.enqueue(&crate::stage::job(number, &more));
        }
        let held = u64::from(jobs) * u64::from(bytes) / 1024;
        let is_held = wait_until(PATIENCE * 3, || anonymous_kib(&init) > held);
        assert!(is_held, "{} KiB: {}", anonymous_kib(&init), init.story());
        init.order("go on");
        stage.wait_for_outcomes_for(PATIENCE * 3);
        let mut left = 0;
        let is_given_back = wait_until(PATIENCE, || {
            left = anonymous_kib(&init);
            left < MOST_LEFT_KIB
        });
        println!("{jobs} times {bytes}: {left} KiB are left of burst {burst}, {idle} KiB were there before");
        assert!(is_given_back, "{left} KiB are left: {}", init.story());
    }
    init.stops();
}

#[test]
fn what_a_burst_of_small_envelopes_took_is_given_back() {
    gives_back(4_000, 1_000);
}

#[test]
fn what_a_burst_of_envelopes_of_16_kb_took_is_given_back() {
    gives_back(3_000, 16_000);
}

#[test]
fn what_a_burst_of_envelopes_of_60_kb_took_is_given_back() {
    gives_back(800, 60_000);
}
