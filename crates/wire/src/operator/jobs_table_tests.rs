use super::*;

fn job(id: &str, state: &str) -> JobReport {
    JobReport {
        id: id.to_owned(),
        kind: "email.send".to_owned(),
        queue: "default".to_owned(),
        attempt: Some(1),
        max_attempts: Some(3),
        age_ms: 3_723_000,
        state: state.to_owned(),
        ..JobReport::default()
    }
}

fn reply(jobs: Vec<JobReport>, mode: &str) -> JobsReply {
    JobsReply {
        ok: true,
        jobs,
        jobs_not_shown: 0,
        mode: mode.to_owned(),
    }
}

#[test]
fn each_job_has_a_row_and_below_it_what_is_known_of_its_handler() {
    let running = JobReport {
        connection: Some(1),
        pid: Some(23),
        held_ms: Some(3_661_000),
        timeout_in_ms: Some(200_000),
        progress: Some(Fraction(0.42)),
        progress_message: Some("page 42 of 100".to_owned()),
        progress_age_ms: Some(5_200),
        ..job("0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a01", "runs")
    };
    let waiting = JobReport {
        attempt: None,
        queue: String::new(),
        ..job("j2", "waits for a handler")
    };
    assert_eq!(
        table(&reply(vec![running, waiting], "socket")),
        [
            "JOB                                   TYPE         ATTEMPT      AGE  STATE",
            "0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a01  email.send    1 of 3     1h2m  runs",
            "    queue default, connection 1, pid 23, there for 1h1m, timeout in 3m20s, 42% page 42 of 100, 5.2s ago",
            "j2                                    email.send         -     1h2m  waits for a handler",
        ]
    );
}

#[test]
fn a_job_that_is_told_to_stop_shows_the_reason_and_the_end() {
    let stopping = JobReport {
        cancel_reason: Some("operator".to_owned()),
        ends_in_ms: Some(28_000),
        ..job("j1", "is told to stop")
    };
    let lines = |mode| table(&reply(vec![stopping.clone()], mode));
    assert!(lines("socket")[1].ends_with("is told to stop (operator), its process is ended in 28s"));
    assert!(lines("exec")[1].ends_with("is told to stop (operator), SIGKILL in 28s"));
}

#[test]
fn an_id_that_would_act_on_a_terminal_is_shown_without_that() {
    let lines = table(&reply(vec![job("j\u{1b}[2J\n\u{202e}1", "runs\u{7}")], "socket"));
    assert!(
        lines.iter().all(|line| !line.chars().any(char::is_control)),
        "{lines:?}"
    );
    assert!(!lines.concat().contains('\u{202e}'), "{lines:?}");
}

#[test]
fn no_job_and_more_jobs_than_fit_are_said_in_words() {
    assert_eq!(table(&reply(Vec::new(), "socket")), ["no job is active"]);
    let many = JobsReply {
        jobs_not_shown: 9_000,
        ..reply(vec![job("j1", "runs")], "socket")
    };
    assert_eq!(table(&many).last().unwrap(), "... and 9000 jobs more, newer than these");
}
