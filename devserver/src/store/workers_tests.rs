//! The rules about workers; the names end with the backend obligations that they play.

use super::Store;
use super::job::{Directive, End, JobState};
use super::tests::{SILENCE, VISIBILITY, secs, store};
use super::worker::Heartbeat;
use crate::refusal::RefusalKind;

#[test]
fn a_beat_makes_the_reservation_begin_anew_in_its_full_length_b_04() {
    let mut store = store();
    store.put(secs(0), "j", r#","visibility_timeout":40"#).unwrap();
    store.take(secs(0), "a");
    assert_eq!(store.beats(secs(25), "a", &["j", "unknown"]).extended, ["j".into()]);
    store.tick(secs(50));
    store.beats(secs(50), "a", &[]);
    store.tick(secs(64));
    assert_eq!(store.is("j"), JobState::Active);
    store.tick(secs(65));
    assert_eq!(store.is("j"), JobState::Available);
}

#[test]
fn a_beat_extends_no_job_of_another_worker_and_none_that_is_over() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "a");
    assert!(store.beats(secs(1), "b", &["j"]).extended.is_empty());
    store.cancel(secs(2), "j").unwrap();
    assert!(store.beats(secs(3), "a", &["j"]).extended.is_empty());
}

#[test]
fn a_silent_worker_is_dead_and_its_jobs_are_recovered_b_08() {
    let mut store = store();
    store.put(secs(0), "j", r#","visibility_timeout":1000"#).unwrap();
    store.take(secs(0), "a");
    store.beats(secs(10), "a", &["j"]);
    store.tick(secs(39));
    assert_eq!(store.is("j"), JobState::Active, "a brief delay kills nobody");
    let occurred = store.tick(secs(40));
    assert_eq!(occurred[0].what, "worker_death");
    assert_eq!(
        (store.is("j"), store.job("j").unwrap().attempt),
        (JobState::Available, 2)
    );
    assert_eq!(store.errors("j"), ["worker_death"]);
    assert!(store.workers().is_empty());
    assert!(store.ack(secs(41), "j", Some("a"), None).is_err());
}

#[test]
fn a_worker_that_only_fetches_is_dead_as_well_b_08() {
    let mut store = store();
    store.put(secs(0), "j", r#","visibility_timeout":1000"#).unwrap();
    store.take(secs(0), "a");
    store.take(secs(20), "a");
    store.tick(SILENCE);
    assert_eq!(store.is("j"), JobState::Available);
}

#[test]
fn a_quiet_worker_gets_no_job_whoever_said_it_b_02() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.beats(secs(0), "told", &[]);
    store.direct("told", Directive::Quiet).unwrap();
    assert_eq!(store.beats(secs(1), "told", &[]).directive, Directive::Quiet);
    assert!(store.take(secs(1), "told").is_empty());
    let says = Heartbeat {
        worker: "says".into(),
        reported: Some(Directive::Quiet),
        ..Heartbeat::default()
    };
    assert_eq!(store.heartbeat(secs(1), &says).unwrap().directive, Directive::Run);
    assert!(store.take(secs(1), "says").is_empty());
    store.direct("told", Directive::Run).unwrap();
    assert_eq!(store.take(secs(2), "told"), ["j"]);
}

#[test]
fn nobody_comes_back_from_terminate() {
    let mut store = store();
    store.beats(secs(0), "w", &[]);
    store.direct("w", Directive::Terminate).unwrap();
    assert_eq!(
        store.direct("w", Directive::Run).unwrap_err().kind,
        RefusalKind::Conflict
    );
    assert_eq!(
        store.direct("nobody", Directive::Quiet).unwrap_err().kind,
        RefusalKind::NotFound
    );
}

#[test]
fn a_test_directive_of_a_job_is_told_to_who_has_it() {
    let mut store = store();
    store
        .put(secs(0), "j", r#","meta":{"test_directive":"terminate"}"#)
        .unwrap();
    store.take(secs(0), "w");
    assert_eq!(store.beats(secs(1), "w", &[]).directive, Directive::Run);
    assert_eq!(store.beats(secs(1), "w", &["j"]).directive, Directive::Terminate);
}

#[test]
fn progress_only_grows_counts_as_a_beat_and_is_whole_in_the_end() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "w");
    let fraction = |store: &Store| store.job("j").unwrap().progress.as_ref().unwrap().fraction;
    store.report_progress(secs(20), "j", Some(0.5), None).unwrap();
    store.report_progress(secs(21), "j", Some(0.4), None).unwrap();
    assert_eq!(fraction(&store), Some(0.5));
    store.tick(secs(50));
    assert_eq!(store.is("j"), JobState::Active, "the worker's clock began anew");
    store.ack(secs(50), "j", None, None).unwrap();
    assert_eq!(fraction(&store), Some(1.0));
    store.report_progress(secs(51), "j", Some(0.1), None).unwrap();
    assert_eq!(fraction(&store), Some(1.0));
}

#[test]
fn who_says_goodbye_is_forgotten_and_its_jobs_stay_reserved() {
    let mut store = store();
    store.put(secs(0), "j", "").unwrap();
    store.take(secs(0), "w");
    store.deregister("w").unwrap();
    assert_eq!(store.deregister("w").unwrap_err().kind, RefusalKind::NotFound);
    store.tick(SILENCE);
    assert_eq!(store.is("j"), JobState::Active);
    store.tick(VISIBILITY);
    assert_eq!(
        store.job("j").unwrap().deliveries[0].end,
        Some((VISIBILITY, End::VisibilityTimeout))
    );
}
