use std::sync::Arc;
use std::time::Duration;

use super::*;
use ojs_lifecycle::api::{
    CancelReason, HolderId, JobActivity, JobEnd, JobId, JobPlace, JobStatus, ProcessId, Progress, Subject,
};
use ojs_lifecycle::view::job_list::MOST_JOBS_LISTED;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn job_with(id: &str, activity: JobActivity) -> JobStatus {
    JobStatus {
        subject: Arc::new(Subject {
            id: JobId(id.into()),
            kind: "email.send".into(),
            queue: "default".into(),
            attempt: Some(1),
            max_attempts: Some(3),
            trace: None,
        }),
        age: ms(1_023),
        place: JobPlace::Held(HolderId(1)),
        is_cancelled: false,
        ends_in: None,
        progress: Some((
            Progress {
                fraction: "0.42".into(),
                message: Some("page 42 of 100".into()),
                data: Some("secret-data".into()),
            },
            ms(5_200),
        )),
        activity,
        process: Some(ProcessId(5 << 32 | 7)),
        held_for: Some(ms(1_020)),
        times_out_in: Some(ms(28_980)),
    }
}

fn facts(mode: &str) -> InstanceInfo {
    InstanceInfo {
        mode: mode.to_owned(),
        kill_lead: ms(2_000),
        ..InstanceInfo::default()
    }
}

fn list(jobs: Vec<JobStatus>, not_shown: usize) -> JobList {
    JobList { jobs, not_shown }
}

#[test]
fn a_job_is_listed_with_its_state_its_holder_its_progress_and_its_timeout() {
    let line = encode(&list(vec![job_with("j1", JobActivity::Runs)], 0), &facts("socket"));
    let expected = concat!(
        r#"{"ok":true,"jobs":[{"id":"j1","type":"email.send","queue":"default","attempt":1,"age_ms":1023,"#,
        r#""place":"held","connection":1,"cancelled":false,"progress":0.42,"progress_message":"page 42 of 100","#,
        r#""progress_age_ms":5200,"max_attempts":3,"state":"runs","pid":7,"held_ms":1020,"timeout_in_ms":28980}],"#,
        r#""jobs_not_shown":0,"mode":"socket"}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(line).unwrap(), expected);
}

#[test]
fn a_job_that_is_told_to_stop_says_why_and_until_when() {
    let mut job = job_with("j1", JobActivity::Stops(CancelReason::Operator));
    job.ends_in = Some(ms(30_000));
    let reply = decode(&encode(&list(vec![job], 0), &facts("exec"))).unwrap();
    let told = &reply.jobs[0];
    assert_eq!(
        (told.state.as_str(), told.cancel_reason.as_deref(), told.ends_in_ms),
        ("is told to stop", Some("operator"), Some(28_000))
    );
    let decided = job_with("j2", JobActivity::Reports(JobEnd::Failed));
    let reply = decode(&encode(&list(vec![decided], 0), &facts("exec"))).unwrap();
    assert_eq!(reply.jobs[0].outcome.as_deref(), Some("failed"));
}

#[test]
fn a_thousand_jobs_with_usual_names_fit_and_of_longer_ones_the_newest_are_counted() {
    let id = "0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a01";
    let usual = list(vec![job_with(id, JobActivity::Runs); MOST_JOBS_LISTED], 9_000);
    let reply = decode(&encode(&usual, &facts("socket"))).unwrap();
    assert_eq!((reply.jobs.len(), reply.jobs_not_shown), (MOST_JOBS_LISTED, 9_000));
    let worst = "\u{1}".repeat(1_000);
    let hostile = list(vec![job_with(&worst, JobActivity::Runs); MOST_JOBS_LISTED], 9_000);
    let line = encode(&hostile, &facts("socket"));
    assert!(line.len() <= MAX_ANSWER + 1, "{}", line.len());
    let reply = decode(&line).unwrap();
    assert_eq!(count(reply.jobs.len()) + reply.jobs_not_shown, 10_000);
    assert!(reply.jobs_not_shown > 9_000);
}

#[test]
fn a_refusal_is_no_list() {
    assert_eq!(decode(br#"{"ok":false,"code":"unknown_request","message":"no"}"#), None);
    assert_eq!(decode(b"[]"), None);
}
