use std::sync::Arc;

use super::*;
use crate::operator::control::NoRequest;
use crate::operator::shown::encode;
use crate::operator::status_reply::{decode_health, decode_report, printable};
use ojs_lifecycle::api::{
    BackendStatus, CancelReason, Failure, HolderId, HolderState, HolderStatus, JobId, Phase, ProcessId, Progress,
    Reason as Why, RecycleReason, ShownToOperator, Snapshot, Subject, Trouble, Unhealthy, WorkerId, WorkerState,
    WorkerStatus,
};
use ojs_lifecycle::view::status::{MOST_HOLDERS_SHOWN, MOST_JOBS_SHOWN, MOST_TYPES_SHOWN};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn shown_job(id: &str, kind: &str, queue: &str) -> JobStatus {
    JobStatus {
        subject: Arc::new(Subject {
            id: JobId(id.into()),
            kind: kind.into(),
            queue: queue.into(),
            attempt: Some(2),
            max_attempts: None,
            trace: None,
        }),
        age: ms(1_500),
        place: JobPlace::Held(HolderId(3)),
        is_cancelled: true,
        ends_in: Some(ms(3_200)),
        progress: Some((
            Progress {
                fraction: "0.5".into(),
                message: Some("secret-message".into()),
                data: None,
            },
            ms(700),
        )),
        activity: JobActivity::Stops(CancelReason::Timeout),
        process: Some(ProcessId(5 << 32 | 78)),
        held_for: Some(ms(1_400)),
        times_out_in: None,
    }
}

fn shown_holder(number: u64) -> HolderStatus {
    HolderStatus {
        holder: HolderId(number),
        process: Some(ProcessId(5 << 32 | 78)),
        jobs: 2,
        concurrency: Some(7),
        state: HolderState::GivenUp,
    }
}

/// A status in the stop phase, with every possible field.
fn everything() -> Status {
    Status {
        snapshot: Snapshot {
            phase: Phase::Stop,
            state: WorkerState::Terminate,
            concurrency: 10,
            active: 3,
            waiting: 1,
            held_back: 6,
            held: 1,
            unanswered: 0,
            dropped: 2,
            past_their_time: 0,
            reporting: 1,
            oldest_since: None,
            ready_holders: 1,
            capacity: 7,
            free_credit: 0,
            memory_taken: Some(91),
            memory_gate_is_closed: true,
            streams: 2,
            telling_streams: 0,
            deaf_streams: 0,
            worker_is_alive: true,
            heartbeat_interval: ms(5_000),
            drain_since: None,
            cut_off: 4,
            exit_by: None,
            deadlines: 5,
        },
        causes: vec![NotRunningBecause::End(Why::Sigterm)],
        terminating_for: Some(ms(26_000)),
        left: Some(ms(4_000)),
        left_of: Some(ms(5_000)),
        given_back: vec![("secret.type".into(), 37)],
        queues: None,
        refused_queues: vec!["secret-refused".into()],
        is_uncapped: true,
        most_asked: Some(25),
        jobs: vec![shown_job("secret-id", "secret.type", "secret-queue")],
        not_shown: 2,
        ending: Some(FinalStep::Exit(75)),
        worker: WorkerStatus {
            process: Some(ProcessId(5 << 32 | 77)),
            up: ms(9_000),
            ended: Some(Ended::Signalled(Signal::KILL)),
            restarts: 6,
            recycling: Some((RecycleReason::Jobs(50), ms(3_000))),
            starts_in: Some(ms(800)),
            holders: 2,
            most_loaded: vec![shown_holder(3)],
        },
        backend: BackendStatus {
            worker: Some(WorkerId("secret-worker".into())),
            heartbeat_age: Some(ms(700)),
            is_unreachable: true,
            trouble: Some(Trouble {
                failure: Failure::Unauthorized,
                failed: 0,
                lasted: ms(180_000),
                waiting: 1,
                lapses_in: Some(ms(59_000)),
                is_from_the_start: false,
            }),
            requests: 3,
        },
    }
}

fn facts() -> InstanceInfo {
    InstanceInfo {
        pid: 1,
        program: "secret-program".to_owned(),
        mode: "gateway".to_owned(),
        kill_lead: Duration::ZERO,
        url: "http://secret-host/".to_owned(),
        queues: vec!["secret-queue".to_owned()],
        labels: vec!["secret-label".to_owned()],
        caller_proof: Some("secret-proof"),
        backend_error: Some("secret-words".to_owned()),
        worker_jobs: 9,
        usage: Some(WorkerUsage {
            memory_bytes: 50_000_000,
            cpu: ms(12_340),
            processes: 3,
        }),
        timers: 3,
    }
}

fn text(status: Status, facts: &InstanceInfo) -> String {
    let line = encode(&ShownToOperator::Status(Box::new(status)), facts, ms(60_000), 12);
    String::from_utf8(line).unwrap()
}

#[test]
fn every_name_of_an_answer_is_where_the_page_says() {
    let text = text(everything(), &facts());
    let expected = concat!(
        r#"{"ok":true,"version":"VERSION","pid":1,"up_ms":60000,"state":"terminate","phase":"stop","#,
        r#""reasons":["sigterm"],"terminating_for_ms":26000,"left_ms":4000,"left_of_ms":5000,"ending":"exit","#,
        r#""exit_status":75,"concurrency":10,"uncapped":true,"most_asked":25,"active":3,"waiting":1,"held":1,"reporting":1,"held_back":6,"dropped":2,"#,
        r#""given_back":[{"type":"secret.type","times":37}],"cut_off":4,"#,
        r#""jobs":[{"id":"secret-id","type":"secret.type","queue":"secret-queue","attempt":2,"age_ms":1500,"#,
        r#""place":"held","connection":3,"cancelled":true,"ends_in_ms":3200,"progress":0.5,"progress_message":"secret-message","#,
        r#""progress_age_ms":700,"state":"is told to stop","cancel_reason":"timeout","pid":78,"held_ms":1400}],"jobs_not_shown":2,"#,
        r#""connections":[{"connection":3,"pid":78,"jobs":2,"concurrency":7,"state":"given up"}],"connections_not_shown":1,"queues":["secret-queue"],"queues_refused":["secret-refused"],"#,
        r#""labels":["secret-label"],"memory_taken_percent":91,"memory_gate":"closed","mode":"gateway","caller_proof":"secret-proof","worker":{"program":"secret-program","pid":77,"up_ms":9000,"#,
        r#""last_end":"killed by SIGKILL","restarts":6,"recycling":"max_jobs","recycling_for_ms":3000,"starts_in_ms":800,"connections":2,"ready":1,"capacity":7,"jobs":9,"#,
        r#""processes":3,"memory_bytes":50000000,"cpu_ms":12340},"#,
        r#""backend":{"url":"http://secret-host/","worker_id":"secret-worker","reachable":false,"#,
        r#""heartbeat_age_ms":700,"heartbeat_interval_ms":5000,"requests":3,"streams":2,"trouble":{"kind":"unauthorized","#,
        r#""state":"refuses the credentials","error":"secret-words","lasted_ms":180000,"waiting_outcomes":1,"#,
        r#""lapses_ms":59000}},"timers":8,"log_records_dropped":12}"#,
        "\n"
    );
    assert_eq!(text, expected.replace("VERSION", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_connection_of_an_unknown_process_has_no_pid_and_without_a_ready_no_concurrency() {
    let states = [
        (HolderState::NotReady, "not ready"),
        (HolderState::Ready, "ready"),
        (HolderState::Asking, "asking"),
        (HolderState::Paused, "paused"),
        (HolderState::Alone, "alone"),
        (HolderState::Closed, "closed"),
    ];
    for (state, word) in states {
        let mut status = everything();
        status.worker.most_loaded = vec![HolderStatus {
            process: None,
            concurrency: None,
            state,
            ..shown_holder(9)
        }];
        let expected = format!(r#""connections":[{{"connection":9,"jobs":2,"state":"{word}"}}],"#);
        let text = text(status, &facts());
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn an_answer_is_read_as_it_was_written() {
    let text = text(everything(), &facts());
    let read = decode_report(text.trim_end().as_bytes()).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text.trim_end());
    // A reply without fields decodes to unknown values.
    let empty = decode_report(br#"{"ok":true,"new":{"x":[1]},"jobs":[{"new":1}],"worker":{}}"#).unwrap();
    assert_eq!((empty.jobs.len(), empty.pid, empty.worker.pid), (1, 0, None));
    let strange = [br#"{"ok":1}"#.as_slice(), br#"{"ok":true,"phase":7,"healthy":"x"}"#];
    for line in [&encode_refusal()[..], b"", b"[]", b"{}", b"\xff"]
        .into_iter()
        .chain(strange)
    {
        assert_eq!((decode_report(line), decode_health(line)), (None, None));
    }
}

fn encode_refusal() -> Vec<u8> {
    crate::operator::control::encode_refusal(&NoRequest::too_long())
}

#[test]
fn a_health_answer_says_why_not() {
    let health = Health {
        state: WorkerState::Running,
        troubles: vec![Unhealthy::WorkerNotRunning, Unhealthy::NoHeartbeat],
        backend: everything().backend.trouble,
    };
    let line = encode(&ShownToOperator::Health(Probe::Ready, health), &facts(), ms(1), 0);
    let text = String::from_utf8(line.clone()).unwrap();
    assert!(
        text.starts_with(
            r#"{"ok":true,"probe":"ready","healthy":false,"state":"running","reasons":[{"code":"worker_not_running""#
        ),
        "{text}"
    );
    let read = decode_health(&line).unwrap();
    assert!(!read.healthy);
    assert_eq!(read.reasons.len(), 2);
    assert!(
        read.reasons[1].message.ends_with("yet: the backend refuses the credentials for 3 min (secret-words); 1 outcome waits; reservations lapse in 59 s"),
        "{read:?}"
    );
    let good = Health {
        state: WorkerState::Quiet,
        troubles: Vec::new(),
        backend: None,
    };
    let line = encode(&ShownToOperator::Health(Probe::Live, good), &facts(), ms(1), 0);
    assert!(decode_health(&line).unwrap().healthy);
}

#[test]
fn the_longest_answer_keeps_its_bound() {
    let worst = "\u{1}".repeat(1000);
    let names = || vec![worst.clone(); 1000];
    let mut status = everything();
    status.jobs = vec![shown_job(&worst, &worst, &worst); MOST_JOBS_SHOWN];
    for job in &mut status.jobs {
        job.age = Duration::MAX;
        job.place = JobPlace::Held(HolderId(u64::MAX));
        let mut subject = (*job.subject).clone();
        subject.attempt = Some(u64::MAX);
        subject.max_attempts = Some(u64::MAX);
        job.subject = Arc::new(subject);
        job.progress = Some((
            Progress {
                fraction: "0.5".into(),
                message: Some(worst.as_str().into()),
                data: None,
            },
            Duration::MAX,
        ));
        job.activity = JobActivity::Stops(CancelReason::Cancelled);
        job.process = Some(ProcessId(u64::MAX));
        job.held_for = Some(Duration::MAX);
        job.times_out_in = Some(Duration::MAX);
    }
    status.worker.holders = usize::MAX;
    status.worker.most_loaded = vec![
        HolderStatus {
            process: Some(ProcessId(u64::MAX)),
            jobs: usize::MAX,
            concurrency: Some(u32::MAX),
            state: HolderState::NotReady,
            ..shown_holder(u64::MAX)
        };
        MOST_HOLDERS_SHOWN
    ];
    status.refused_queues = vec![worst.as_str().into(); 1000];
    status.given_back = vec![(worst.as_str().into(), u32::MAX); MOST_TYPES_SHOWN];
    status.backend.worker = Some(WorkerId(worst.as_str().into()));
    let facts = InstanceInfo {
        pid: u32::MAX,
        program: worst.clone(),
        url: worst.clone(),
        queues: names(),
        labels: names(),
        mode: "gateway".to_owned(),
        kill_lead: Duration::ZERO,
        caller_proof: Some("uid and bearer"),
        backend_error: Some(worst.clone()),
        worker_jobs: u64::MAX,
        usage: Some(WorkerUsage {
            memory_bytes: u64::MAX,
            cpu: Duration::MAX,
            processes: usize::MAX,
        }),
        timers: usize::MAX / 2,
    };
    let text = text(status, &facts);
    assert!(text.len() <= MAX_ANSWER + 1, "{}", text.len());
    // The limit is not much more than needed.
    assert!(text.len() > MAX_ANSWER / 2, "{}", text.len());
}

#[test]
fn a_job_with_a_process_of_its_own_is_shown_with_the_time_until_its_sigkill() {
    let with_a_lead = |lead| InstanceInfo {
        kill_lead: ms(lead),
        ..facts()
    };
    assert!(text(everything(), &with_a_lead(2_000)).contains(r#""ends_in_ms":1200,"#));
    assert!(text(everything(), &with_a_lead(4_000)).contains(r#""ends_in_ms":0,"#));
}

#[test]
fn whoever_reaches_the_port_is_told_no_name() {
    let body = serde_json::to_string(&public(&everything())).unwrap();
    assert!(!body.contains("secret"), "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let expected = serde_json::json!({
        "state": "terminate", "phase": "stop", "reasons": ["sigterm"],
        "terminating_for_ms": 26_000, "left_ms": 4_000, "left_of_ms": 5_000,
        "concurrency": 10, "uncapped": true, "most_asked": 25, "active": 3, "waiting": 1, "held": 1, "reporting": 1,
        "held_back": 6, "cut_off": 4,
        "oldest_job_age_ms": 1_500, "memory_taken_percent": 91, "memory_gate": "closed",
        "worker": {
            "running": true, "up_ms": 9_000, "restarts": 6, "recycling": "max_jobs", "starts_in_ms": 800, "connections": 2, "ready": 1, "capacity": 7,
        },
        "backend": {
            "reachable": false, "heartbeat_age_ms": 700, "heartbeat_interval_ms": 5_000, "requests": 3,
            "streams": 2,
            "trouble": {
                "kind": "unauthorized", "state": "refuses the credentials", "lasted_ms": 180_000, "waiting_outcomes": 1,
                "lapses_ms": 59_000,
            },
        },
    });
    assert_eq!(body, expected);
}

#[test]
fn json_on_a_terminal_is_the_same_json_without_what_a_terminal_acts_on() {
    let json = "{\"a\":\r\n\t\"\u{9b}2J\u{7f}é\"}\u{1b}";
    assert_eq!(printable(json), r#"{"a":"\u009b2J\u007fé"}"#);
}
