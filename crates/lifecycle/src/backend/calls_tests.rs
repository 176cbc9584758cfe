#![allow(clippy::unwrap_used, reason = "a test without its request has failed")]

use super::*;

const FIRST: CallId = CallId(1);

const SECOND: CallId = CallId(2);

fn one() -> Calls {
    let mut calls = Calls::default();
    calls.insert(FIRST, Purpose::Manifest, Some(Call::Manifest), Moment::default());
    calls
}

fn two() -> Calls {
    let mut calls = one();
    calls.joins(FIRST, SECOND, Moment::default());
    calls
}

/// This answer decides, and these copies are still open.
fn decides(calls: &mut Calls, copy: CallId, reply: Reply) -> Option<(Reply, Vec<CallId>)> {
    let first = calls.first(copy);
    assert_eq!(first, FIRST);
    let reply = calls.decides(first, copy, reply)?;
    let open = calls.remove(first).unwrap().open().collect();
    assert_eq!(*calls, Calls::default());
    Some((reply, open))
}

#[test]
fn a_request_that_went_out_once_has_the_answer_that_it_gets() {
    let no = Reply::Failed(Failure::NotFound);
    assert_eq!(decides(&mut one(), FIRST, no.clone()), Some((no, vec![])));
    let conflict = Reply::Failed(Failure::Conflict { was_sent_twice: false });
    assert_eq!(decides(&mut one(), FIRST, conflict.clone()), Some((conflict, vec![])));
}

#[test]
fn a_good_answer_to_either_decides_at_once() {
    for (answered, open) in [(FIRST, SECOND), (SECOND, FIRST)] {
        let answer = decides(&mut two(), answered, Reply::Accepted);
        assert_eq!(answer, Some((Reply::Accepted, vec![open])));
    }
}

#[test]
fn that_the_job_is_completed_already_is_as_good_as_a_good_answer() {
    let completed = Reply::Failed(Failure::AlreadyCompleted);
    let answer = decides(&mut two(), SECOND, completed.clone());
    assert_eq!(answer, Some((completed, vec![FIRST])));
}

#[test]
fn a_bad_answer_waits_for_the_other_one_which_may_be_good() {
    for (answered, other) in [(FIRST, SECOND), (SECOND, FIRST)] {
        let mut calls = two();
        assert_eq!(decides(&mut calls, answered, Reply::Failed(Failure::NotFound)), None);
        assert_eq!(
            decides(&mut calls, other, Reply::Accepted),
            Some((Reply::Accepted, vec![]))
        );
    }
}

#[test]
fn of_two_bad_answers_the_backends_word_decides_before_silence_and_silence_before_what_was_never_sent() {
    let cases = [
        (Failure::NotFound, Failure::Unanswered, Failure::NotFound),
        (Failure::NotSent, Failure::Unanswered, Failure::Unanswered),
        (Failure::NotSent, Failure::Lost, Failure::Lost),
    ];
    for (one, other, decisive) in cases {
        for (one, other) in [(one, other), (other, one)] {
            let mut calls = two();
            assert_eq!(decides(&mut calls, FIRST, Reply::Failed(one)), None);
            let answer = decides(&mut calls, SECOND, Reply::Failed(other));
            assert_eq!(answer, Some((Reply::Failed(decisive), vec![])));
        }
    }
}

#[test]
fn a_conflict_may_be_with_the_other_copy() {
    let mut calls = two();
    let conflict = |was_sent_twice| Reply::Failed(Failure::Conflict { was_sent_twice });
    assert_eq!(decides(&mut calls, SECOND, Reply::Failed(Failure::Unanswered)), None);
    let answer = decides(&mut calls, FIRST, conflict(false));
    assert_eq!(answer, Some((conflict(true), vec![])));
}

#[test]
fn a_later_copy_that_is_answered_alone_leaves_the_first_one_open() {
    let mut calls = two();
    assert_eq!(calls.times_sent(FIRST), 2);
    assert_eq!(decides(&mut calls, SECOND, Reply::Failed(Failure::Unanswered)), None);
    calls.check().unwrap();
    assert_eq!(calls.get(FIRST).unwrap().open().collect::<Vec<_>>(), [FIRST]);
    assert_eq!(calls.first(SECOND), SECOND);
}
