use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use ojs_lifecycle::api::{CancelReason, Failure, ShutdownCounts, Subject, Trouble};

/// A shutdown that cut these jobs off.
fn cut_off(names: &[&str]) -> EndReport {
    let names: BTreeMap<JobId, Text> = names.iter().map(|name| (JobId((*name).into()), "".into())).collect();
    EndReport {
        cause: EndedBy::Asked(Reason::Sigterm),
        worker: Some(Ended::Signalled(Signal::KILL).into()),
        ran: Some(Duration::from_secs(11_530)),
        took: Duration::from_millis(29_140),
        status: Some(9),
        is_abandoned: false,
        unreported: 0,
        cut_off: names.len(),
        backend: None,
        tally: ShutdownCounts {
            stop: Some((Duration::from_secs(25), false)),
            names,
            ..ShutdownCounts::default()
        },
    }
}

fn drained() -> EndReport {
    EndReport {
        worker: Some(Ended::Exited(0).into()),
        status: Some(0),
        tally: ShutdownCounts::default(),
        ..cut_off(&[])
    }
}

/// The lines after `cut off:`.
fn named(text: &str) -> Vec<&str> {
    text.lines().skip_while(|line| *line != "cut off:").skip(1).collect()
}

#[test]
fn the_first_line_alone_says_how_it_ended() {
    let first = |account: &EndReport| text(account, None, None).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        first(&drained()),
        "SIGTERM: drained; exit status 0; the shutdown took 29.1 s"
    );
    assert_eq!(
        first(&cut_off(&["a", "b"])),
        "SIGTERM: out of time after 25 s, 2 jobs cut off; exit status 9; the shutdown took 29.1 s"
    );
    let mut too_often = drained();
    too_often.cause = EndedBy::WorkerEnded;
    too_often.worker = Some(Ended::Exited(7).into());
    too_often.status = Some(7);
    too_often.took = Duration::ZERO;
    too_often.tally.has_ended_too_often = true;
    too_often.ran = Some(Duration::from_millis(230));
    assert_eq!(
        first(&too_often),
        "the worker ended by itself too often to be started again, this time 0.2 s after its start: exit status 7"
    );
}

#[test]
fn a_worker_that_could_not_be_started_is_told_as_the_log_tells_it() {
    let account = EndReport {
        cause: EndedBy::NotStarted(127),
        worker: None,
        status: Some(127),
        took: Duration::ZERO,
        ..drained()
    };
    let why = "cannot execute \"./nope\": no such file";
    assert_eq!(
        text(&account, None, Some(why)),
        format!("the worker could not be started: {why}; exit status 127\n")
    );
    assert_eq!(
        text(&account, None, None),
        "the worker could not be started: it was not found; exit status 127\n"
    );
}

#[test]
fn the_end_of_a_worker_is_told_once_and_what_is_told_is_how_long_it_ran() {
    let first = |worker: Ended, status: u8, took: u64| {
        let account = EndReport {
            cause: EndedBy::WorkerEnded,
            worker: Some(worker.into()),
            status: Some(status),
            took: Duration::from_millis(took),
            ..drained()
        };
        text(&account, None, None)
    };
    let began = "the worker ended by itself 3 h 12 min after its start:";
    assert_eq!(first(Ended::Exited(1), 1, 3), format!("{began} exit status 1\n"));
    assert_eq!(
        first(Ended::Signalled(Signal::KILL), 137, 250),
        format!("{began} killed by SIGKILL; exit status 137; the shutdown took 0.3 s\n")
    );
    assert_eq!(
        first(Ended::Exited(143), 0, 0),
        format!("{began} exit status 143, made 0 by -e\n")
    );
}

#[test]
fn what_became_of_the_jobs_that_were_cut_off_is_told_apart_from_all_others() {
    let mut account = cut_off(&["a", "b"]);
    account.tally.cut_off_handed_back = 2;
    account.tally.handed_back = 1;
    account.tally.done = 3;
    let text = text(&account, None, None);
    assert!(
        text.contains("\njobs that were cut off: 2 handed back\nother jobs from then on: 3 done, 1 handed back\n"),
        "{text}"
    );
}

#[test]
fn types_are_there_where_there_is_room_for_all_of_them() {
    let with_types = |count: usize| {
        let mut account = cut_off(&[]);
        let job = |number| {
            (
                JobId(format!("0192f7a1-9b52-7c11-8d{number:018}").into()),
                "report.make".into(),
            )
        };
        account.tally.names = (0..count).map(job).collect();
        account.cut_off = count;
        text(&account, None, None)
    };
    assert!(with_types(50).ends_with(" report.make\n"));
    let ids_alone = with_types(90);
    assert!(
        !ids_alone.contains("report.make") && !ids_alone.contains("truncated"),
        "{ids_alone}"
    );
    assert!(with_types(200).ends_with("\ntruncated\n"));
}

#[test]
fn every_name_is_there_where_all_of_them_fit() {
    let text = text(&cut_off(&["job-a", "job-b", "job-c"]), None, None);
    assert_eq!(named(&text), ["job-a", "job-b", "job-c"]);
}

#[test]
fn names_that_do_not_fit_are_left_out_and_that_is_said() {
    let names: Vec<String> = (0..200)
        .map(|number| format!("0192f7a1-9b52-7c11-8d{number:018}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = text(&cut_off(&names), None, None);
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
    account.cause = EndedBy::WorkerWasEnded;
    account.status = Some(1);
    account.took = Duration::ZERO;
    account.tally.ended_for = Some(EndCause::Hung {
        job: subject.into(),
        told: CancelReason::Timeout,
        grace: Duration::from_secs(30),
    });
    account.tally.left = 1;
    account.tally.left_names = BTreeMap::from([(JobId("good".into()), "mail".into())]);
    assert_eq!(
        text(&account, None, None),
        "the worker was ended: job 0192\\u{1b}[2J (report) ran 30 s past its timeout; exit status 1\n\
         the worker: exit status 0, 3 h 12 min after its start\n\
         1 job left to the visibility timeout\n\
         left to the visibility timeout:\n\
         good mail\n"
    );
    account.cause = EndedBy::Asked(Reason::Sigterm);
    let text = text(&account, None, None);
    assert!(text.contains("\na process was ended: job 0192"), "{text}");
}

#[test]
fn one_long_name_does_not_push_out_the_others() {
    let long = "x".repeat(3000);
    let text = text(&cut_off(&[&long, "a", "y", "z"]), None, None);
    assert_eq!(named(&text), ["a", &format!("{}...", "x".repeat(97)), "y", "z"]);
}

#[test]
fn no_name_breaks_a_line_or_reaches_a_terminal() {
    let text = text(
        &cut_off(&["a\nexit status 0", "b\u{1b}[2J", "c\u{202e}d", "grün"]),
        None,
        None,
    );
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
        account.tally.left_names = left.take(MOST_LEFT_NAMES).map(|name| (name, "".into())).collect();
        let all = account.tally.names.len() + account.tally.left_names.len();
        let headings = usize::from(!account.tally.names.is_empty()) + usize::from(!account.tally.left_names.is_empty());
        let text = text(&account, None, None);
        prop_assert!(text.len() <= MOST_BYTES, "{}", text.len());
        prop_assert!(text.starts_with("SIGTERM: ") && text.ends_with('\n'));
        let is_heading = |line: &&str| line.ends_with("cut off:") || *line == "left to the visibility timeout:";
        let shown = text.lines().skip_while(|line| !is_heading(line)).count();
        prop_assert!(shown == all + headings || text.ends_with("\ntruncated\n"), "{}", text);
    }
}

#[test]
fn the_jobs_that_a_worker_held_when_it_ended_are_named_with_their_types() {
    let account = EndReport {
        cause: EndedBy::WorkerEnded,
        worker: Some(Ended::Signalled(Signal::from_number(11).unwrap_or(Signal::KILL)).into()),
        status: Some(139),
        tally: ShutdownCounts {
            failed: 2,
            died: 2,
            died_names: [("a", "segv"), ("b", "mail")]
                .map(|(name, kind)| (JobId(name.into()), kind.into()))
                .into(),
            ..ShutdownCounts::default()
        },
        ..drained()
    };
    let text = text(&account, None, None);
    assert!(
        text.ends_with("jobs from then on: 2 failed\nheld by the worker when it ended:\na segv\nb mail\n"),
        "{text}"
    );
}

#[test]
fn a_worker_that_never_registered_says_so_and_why() {
    let account = EndReport {
        backend: Some(Trouble {
            failure: Failure::Unauthorized,
            failed: 0,
            lasted: Duration::from_secs(190),
            waiting: 0,
            lapses_in: None,
            is_from_the_start: true,
        }),
        ..drained()
    };
    assert_eq!(
        text(&account, Some("status 403 forbidden"), None).lines().nth(1),
        Some("the worker: exit status 0, 3 h 12 min after its start")
    );
    assert_eq!(
        text(&account, Some("status 403 forbidden"), None).lines().nth(2),
        Some("never registered: the backend refuses the credentials for 3 min 10 s (status 403 forbidden)")
    );
}
