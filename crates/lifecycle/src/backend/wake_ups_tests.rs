//! A worker learns from the events of streams and from its own FETCHes when to ask for a job.

use super::*;
use crate::api::{Reservation, Subject};

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(millis))
}

fn job(id: &str) -> JobId {
    JobId(id.into())
}

fn delivery(id: &str) -> Delivery {
    Delivery {
        has_crashed: false,
        subject: Subject {
            id: job(id),
            kind: "mail".into(),
            queue: "default".into(),
            attempt: None,
            max_attempts: None,
            trace: None,
        }
        .into(),
        envelope: "{}".into(),
        checkpoint: None,
        timeout: None,
        reservation: Reservation::default(),
        visibility: None,
        waited: None,
    }
}

/// A FETCH that a stream brought forward to this moment is answered at once.
fn woken(wake_ups: &mut WakeUps, millis: u64, jobs: &[Delivery]) {
    wake_ups.at = Some(at(millis));
    assert!(wake_ups.fetch_goes_out(at(millis)));
    wake_ups.answered(at(millis), true, jobs, at(millis));
}

/// A worker of a fleet. Streams reported a job at the start of each second, and another worker
/// fetched it at once.
fn in_a_fleet() -> WakeUps {
    let mut wake_ups = WakeUps::default();
    for second in 0..20 {
        wake_ups.told(Some(job("a")), at(second * 1_000));
        woken(&mut wake_ups, second * 1_000 + 2, &[]);
        wake_ups.taken(&job("a"), at(second * 1_000 + 5));
    }
    wake_ups
}

/// A little more than the delay of a FETCH that is sent at once in that fleet.
const AT_ONCE: Duration = Duration::from_millis(6);

/// Finds a job in each of these seconds, soon after a stream reported it.
fn finds(wake_ups: &mut WakeUps, seconds: std::ops::Range<u64>) {
    for second in seconds {
        wake_ups.told(Some(job("b")), at(second * 1_000));
        woken(wake_ups, second * 1_000 + 10, &[delivery("b")]);
    }
}

#[test]
fn jobs_that_are_taken_at_once_make_the_window_wider_and_jobs_that_nobody_takes_narrower() {
    let mut wake_ups = in_a_fleet();
    assert_eq!(wake_ups.window(), WIDEST);
    wake_ups.told(Some(job("b")), at(20_000));
    wake_ups.at = Some(at(30_000));
    wake_ups.taken(&job("b"), at(20_000).after(AT_ONCE + PATIENCE * 2));
    assert_eq!(wake_ups.window(), WIDEST / 8);
}

#[test]
fn jobs_that_are_taken_too_soon_and_too_late_in_turn_change_the_window_less_and_less() {
    let mut wake_ups = in_a_fleet();
    let late = [USUAL * 2, USUAL / 2].into_iter().cycle();
    let windows = late.take(4).map(|late| {
        wake_ups.told(Some(job("b")), at(20_000));
        wake_ups.at = Some(at(30_000));
        wake_ups.taken(&job("b"), at(20_000).after(AT_ONCE + late));
        wake_ups.window().as_secs()
    });
    assert_eq!(windows.collect::<Vec<_>>(), [400, 500, 444, 500]);
}

#[test]
fn news_may_take_longer_in_a_large_fleet() {
    for (window, is_too_soon) in [(8, false), (200, true)] {
        let mut wake_ups = in_a_fleet();
        wake_ups.window = Duration::from_secs(window);
        wake_ups.told(Some(job("b")), at(20_000));
        wake_ups.at = Some(at(30_000));
        wake_ups.taken(&job("b"), at(20_000).after(AT_ONCE + USUAL + LONGEST_NEWS / 2));
        assert_eq!(
            wake_ups.window() > Duration::from_secs(window),
            is_too_soon,
            "{window} s"
        );
    }
}

#[test]
fn the_window_is_as_wide_as_a_slow_backend_needs() {
    let mut wake_ups = WakeUps::default();
    wake_ups.told(Some(job("a")), at(0));
    assert!(!wake_ups.fetch_goes_out(at(0)));
    wake_ups.answered(at(0), false, &[delivery("a")], at(200));
    wake_ups.taken(&job("b"), at(0));
    let before = wake_ups.window();
    wake_ups.told(Some(job("b")), at(1_000));
    wake_ups.taken(&job("b"), at(1_000 + 101));
    assert_eq!(wake_ups.window(), before * 2);
}

#[test]
fn jobs_that_are_all_taken_late_are_taken_as_soon_as_can_be() {
    let mut wake_ups = WakeUps::default();
    for second in 0..10 {
        let told = at(second * 1_000);
        wake_ups.told(Some(job("a")), told);
        wake_ups.at = Some(told.after(USUAL * 10));
        wake_ups.taken(&job("a"), told.after(USUAL * 4));
    }
    assert!(wake_ups.window() >= NARROWEST * 512, "{:?}", wake_ups.window());
}

#[test]
fn a_fetch_in_vain_makes_the_window_wider_before_it_is_known_when_the_job_was_taken() {
    let mut wake_ups = in_a_fleet();
    wake_ups.set_window(NARROWEST);
    wake_ups.told(Some(job("b")), at(20_000));
    woken(&mut wake_ups, 20_001, &[]);
    assert_eq!(wake_ups.window(), NARROWEST * STEP_IN_VAIN);
}

#[test]
fn who_does_not_wait_is_not_the_reason_that_a_job_is_taken_late() {
    let mut wake_ups = in_a_fleet();
    wake_ups.told(Some(job("b")), at(20_000));
    wake_ups.taken(&job("b"), at(25_000));
    assert_eq!(wake_ups.window(), WIDEST);
}

#[test]
fn a_worker_that_finds_every_job_and_hears_of_nobody_becomes_as_quick_as_can_be() {
    let mut wake_ups = in_a_fleet();
    finds(&mut wake_ups, 700..704);
    assert_eq!(wake_ups.window(), NARROWEST);
}

#[test]
fn a_worker_that_may_be_alone_leaves_one_job_to_others_first() {
    let mut wake_ups = in_a_fleet();
    let mut jitter = Jitter::new(7);
    for (found, waits) in [(701, false), (702, false), (703, true), (704, false)] {
        finds(&mut wake_ups, found - 1..found);
        wake_ups.told(Some(job("c")), at(found * 1_000));
        let asks = wake_ups.bring_forward(at(900_000), &mut jitter, at(found * 1_000));
        assert_eq!(asks == Some(at(found * 1_000).after(PROBE)), waits, "{asks:?}");
        wake_ups.cancel();
        wake_ups.told.clear();
    }
}

#[test]
fn a_stream_that_is_slower_than_an_answer_tells_of_no_other_worker() {
    let mut wake_ups = in_a_fleet();
    woken(&mut wake_ups, 20_000, &[delivery("b")]);
    let heard = wake_ups.others_heard_at;
    for _ in 0..2 {
        wake_ups.told(Some(job("b")), at(20_001));
        assert!(!wake_ups.is_any_told());
        wake_ups.taken(&job("b"), at(20_002));
        assert_eq!(wake_ups.others_heard_at, heard);
        woken(&mut wake_ups, 20_003, &[delivery("b")]);
    }
    wake_ups.told(Some(job("b")), at(21_003));
    assert!(wake_ups.is_any_told(), "the job failed and is retried");
}

#[test]
fn a_worker_that_finds_every_job_for_a_while_leaves_the_next_one_to_others() {
    let mut wake_ups = in_a_fleet();
    wake_ups.set_window(NARROWEST);
    finds(&mut wake_ups, 20..24);
    assert!(wake_ups.window() >= NARROWEST * 16, "{:?}", wake_ups.window());
}

#[test]
fn a_job_that_we_are_told_to_have_taken_before_we_have_it_was_taken_by_nobody_else() {
    let mut wake_ups = WakeUps::default();
    wake_ups.told(Some(job("a")), at(0));
    wake_ups.at = Some(at(5));
    assert!(wake_ups.fetch_goes_out(at(5)));
    wake_ups.told(Some(job("b")), at(6));
    wake_ups.taken(&job("a"), at(7));
    wake_ups.taken(&job("b"), at(7));
    assert!(wake_ups.was_told(&job("b")));
    wake_ups.answered(at(5), true, &[delivery("a"), delivery("b")], at(8));
    assert_eq!((wake_ups.found_in_a_row, wake_ups.others_heard_at), (1, None));
}

#[test]
fn a_stream_that_opens_again_and_again_teaches_nothing_of_others() {
    let mut wake_ups = WakeUps::default();
    for second in 0..100 {
        wake_ups.opened();
        assert!(wake_ups.is_any_told());
        woken(&mut wake_ups, second * 1_000, &[]);
    }
    assert_eq!(wake_ups.window(), NARROWEST);
}

#[test]
fn a_fetch_that_no_stream_brought_forward_teaches_nothing_of_others() {
    let before = in_a_fleet();
    let mut wake_ups = before.clone();
    wake_ups.told(Some(job("b")), at(20_000));
    assert!(!wake_ups.fetch_goes_out(at(90_000)));
    wake_ups.answered(at(90_000), false, &[delivery("b")], at(90_000));
    assert_eq!(wake_ups.window(), before.window());
}

#[test]
fn jobs_that_were_told_of_and_neither_came_nor_were_taken_are_left() {
    let mut wake_ups = WakeUps::default();
    for id in ["a", "b", "c"] {
        wake_ups.told(Some(job(id)), at(0));
    }
    woken(&mut wake_ups, 10, &[delivery("a")]);
    assert!(wake_ups.is_any_left());
    wake_ups.taken(&job("b"), at(20));
    assert!(wake_ups.is_any_left());
    wake_ups.taken(&job("c"), at(30));
    assert!(!wake_ups.is_any_left());
}

#[test]
fn a_fetch_that_fails_leaves_its_jobs_to_the_next_one() {
    let mut wake_ups = WakeUps::default();
    wake_ups.told(Some(job("a")), at(0));
    assert!(!wake_ups.fetch_goes_out(at(10)));
    assert!(!wake_ups.is_any_told());
    wake_ups.fetch_failed();
    assert!(wake_ups.is_any_told() && wake_ups.was_told(&job("a")));
}

#[test]
fn more_jobs_than_are_kept_are_told_of_without_their_ids() {
    let mut wake_ups = WakeUps::default();
    for number in 0..MOST_TOLD * 2 {
        wake_ups.told(Some(job(&number.to_string())), at(0));
    }
    assert_eq!(wake_ups.told.len(), MOST_TOLD);
    assert!(wake_ups.was_told(&job("none of them")));
}

#[test]
fn where_takings_are_told_a_job_that_nobody_takes_is_asked_for_within_two_seconds() {
    let mut jitter = Jitter::new(7);
    for _ in 0..1_000 {
        let mut wake_ups = in_a_fleet();
        wake_ups.told(Some(job("b")), at(30_000));
        let asks = wake_ups.bring_forward(at(600_000), &mut jitter, at(30_000));
        assert!(asks.is_some_and(|asks| asks <= at(32_000)), "{asks:?}");
    }
}
