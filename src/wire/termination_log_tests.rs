use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::exit::Ended;
use crate::lifecycle::effect::CancelReason;
use crate::lifecycle::ending::Tally;
use crate::lifecycle::event::Subject;
use crate::lifecycle::ids::JobId;

/// A shutdown that cut these jobs off.
fn cut_off(names: &[&str]) -> Account {
    let names: BTreeSet<JobId> = names.iter().map(|name| JobId((*name).into())).collect();
    Account {
        cause: Cause::Asked(Reason::Sigterm),
        worker: Some(Ended::Signalled(Signal::KILL).into()),
        took: Duration::from_millis(29_140),
        status: Some(9),
        is_abandoned: false,
        unreported: 0,
        cut_off: names.len(),
        tally: Tally {
            stop: Some((Duration::from_secs(25), false)),
            names,
            ..Tally::default()
        },
    }
}

fn drained() -> Account {
    Account {
        worker: Some(Ended::Exited(0).into()),
        status: Some(0),
        tally: Tally::default(),
        ..cut_off(&[])
    }
}

/// The lines after `cut off:`.
fn named(text: &str) -> Vec<&str> {
    text.lines().skip_while(|line| *line != "cut off:").skip(1).collect()
}

#[test]
fn the_first_line_alone_says_how_it_ended() {
    let first = |account: &Account| text(account).lines().next().unwrap_or_default().to_owned();
    assert_eq!(first(&drained()), "SIGTERM: drained; exit status 0 after 29.1 s");
    assert_eq!(
        first(&cut_off(&["a", "b"])),
        "SIGTERM: out of time after 25 s, 2 jobs cut off; exit status 9 after 29.1 s"
    );
    let mut too_often = drained();
    too_often.cause = Cause::WorkerEnded;
    too_often.worker = Some(Ended::Exited(7).into());
    too_often.status = Some(7);
    too_often.took = Duration::ZERO;
    too_often.tally.has_ended_too_often = true;
    assert_eq!(
        first(&too_often),
        "the worker ended by itself too often to be started again: exit status 7; exit status 7"
    );
}

#[test]
fn every_name_is_there_where_all_of_them_fit() {
    let text = text(&cut_off(&["job-a", "job-b", "job-c"]));
    assert_eq!(named(&text), ["job-a", "job-b", "job-c"]);
}

#[test]
fn names_that_do_not_fit_are_left_out_and_that_is_said() {
    let names: Vec<String> = (0..200)
        .map(|number| format!("0192f7a1-9b52-7c11-8d{number:018}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = text(&cut_off(&names));
    let named = named(&text);
    assert!(
        text.len() <= MOST_BYTES && text.len() > MOST_BYTES - 60,
        "{}",
        text.len()
    );
    assert_eq!(named.last(), Some(&"truncated"));
    assert_eq!(named[..named.len() - 1], names[..named.len() - 1]);
    assert!(
        text.starts_with("SIGTERM: out of time after 25 s, 200 jobs cut off;"),
        "{text}"
    );
}

#[test]
fn a_worker_that_was_ended_is_called_that_with_the_job_that_is_the_cause_and_those_that_were_left() {
    let subject = Subject {
        id: JobId("0192\u{1b}[2J".into()),
        kind: "report".into(),
        queue: "q".into(),
        attempt: None,
        max_attempts: None,
        trace: None,
    };
    let mut account = drained();
    account.cause = Cause::WorkerWasEnded;
    account.status = Some(1);
    account.took = Duration::ZERO;
    account.tally.ended_for = Some(EndCause::Hung {
        job: subject.into(),
        told: CancelReason::Timeout,
        grace: Duration::from_secs(30),
    });
    account.tally.left = 1;
    account.tally.left_names = BTreeSet::from([JobId("good".into())]);
    assert_eq!(
        text(&account),
        "the worker was ended: job 0192\\u{1b}[2J (report) ran 30 s past its timeout; exit status 1\n\
         the worker: exit status 0\n\
         1 job left to the visibility timeout\n\
         left to the visibility timeout:\n\
         good\n"
    );
    account.cause = Cause::Asked(Reason::Sigterm);
    let text = text(&account);
    assert!(text.contains("\na process was ended: job 0192"), "{text}");
}

#[test]
fn one_long_name_does_not_push_out_the_others() {
    let long = "x".repeat(3000);
    let text = text(&cut_off(&[&long, "a", "y", "z"]));
    assert_eq!(named(&text), ["a", &format!("{}...", "x".repeat(97)), "y", "z"]);
}

#[test]
fn no_name_breaks_a_line_or_reaches_a_terminal() {
    let text = text(&cut_off(&["a\nexit status 0", "b\u{1b}[2J", "c\u{202e}d", "grün"]));
    assert_eq!(
        named(&text),
        [r"a\nexit status 0", r"b\u{1b}[2J", r"c\u{202e}d", "grün"]
    );
}

#[test]
fn a_message_of_any_length_is_one_line() {
    let text = not_started(&"no\n".repeat(5000), 2);
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.len() <= MOST_BYTES && text.ends_with("...; exit status 2\n"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn whatever_the_names_are_it_fits_and_begins_with_how_it_ended(
        names in prop::collection::vec(any::<String>(), 0..300),
        left in prop::collection::vec(any::<String>(), 0..600),
        is_over in any::<bool>(),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut account = cut_off(&names);
        account.status = account.status.filter(|_| is_over);
        account.tally.left = left.len();
        let left = left.iter().map(|name| JobId(name.as_str().into()));
        account.tally.left_names = left.take(MOST_LEFT_NAMES).collect();
        let all = account.tally.names.len() + account.tally.left_names.len();
        let headings = usize::from(!account.tally.names.is_empty()) + usize::from(!account.tally.left_names.is_empty());
        let text = text(&account);
        prop_assert!(text.len() <= MOST_BYTES, "{}", text.len());
        prop_assert!(text.starts_with("SIGTERM: ") && text.ends_with('\n'));
        let is_heading = |line: &&str| line.ends_with("cut off:") || *line == "left to the visibility timeout:";
        let shown = text.lines().skip_while(|line| !is_heading(line)).count();
        prop_assert!(shown == all + headings || text.ends_with("\ntruncated\n"), "{}", text);
    }
}
