use std::fs;
use std::path::Path;

use proptest::prelude::*;
use unicode_width::UnicodeWidthChar;

use super::*;
use crate::operator::status_reply::{BackendReport, ConnectionReport, ReturnsReport, TroubleReport, WorkerReport};

const NORMAL: Screen = Screen {
    width: 80,
    height: 23,
    has_colour: false,
};

/// A worker in the middle of a usual day.
fn running() -> StatusReply {
    StatusReply {
        ok: true,
        version: "0.1.0".to_owned(),
        pid: 1,
        up_ms: 7_380_000,
        state: "running".to_owned(),
        phase: "running".to_owned(),
        concurrency: 10,
        active: 4,
        waiting: 1,
        held: 2,
        reporting: 1,
        jobs: vec![
            job(
                "0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a01",
                "report.render",
                3_725_000,
                Some(1),
            ),
            job("0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a02", "email.send", 12_300, Some(12)),
            placed("0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a03", "reporting"),
            placed("0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a04", "waiting"),
        ],
        connections: vec![connection(1, 1, Some(5), "ready"), connection(12, 1, Some(5), "ready")],
        queues: vec!["critical".to_owned(), "default".to_owned()],
        labels: vec!["blue".to_owned(), "eu-1".to_owned()],
        worker: WorkerReport {
            program: "python3".to_owned(),
            pid: Some(7),
            up_ms: Some(7_379_000),
            connections: 2,
            ready: 2,
            capacity: 10,
            jobs: 1_204,
            processes: Some(3),
            memory_bytes: Some(184_500_000),
            cpu_ms: Some(123_450),
            ..WorkerReport::default()
        },
        backend: BackendReport {
            url: Some("https://jobs.example.com/tenant-a".to_owned()),
            worker_id: Some("0192d3a0-11aa-7000-8000-000000000001".to_owned()),
            reachable: true,
            heartbeat_age_ms: Some(2_140),
            heartbeat_interval_ms: 5_000,
            requests: 1,
            streams: 1,
            trouble: None,
        },
        ..StatusReply::default()
    }
}

fn job(id: &str, kind: &str, age_ms: u64, connection: Option<u64>) -> JobReport {
    JobReport {
        id: id.to_owned(),
        kind: kind.to_owned(),
        age_ms,
        place: "held".to_owned(),
        connection,
        ..JobReport::default()
    }
}

fn connection(connection: u64, jobs: u64, concurrency: Option<u32>, state: &str) -> ConnectionReport {
    ConnectionReport {
        connection,
        pid: u32::try_from(connection + 22).ok(),
        jobs,
        concurrency,
        state: state.to_owned(),
    }
}

fn placed(id: &str, place: &str) -> JobReport {
    JobReport {
        place: place.to_owned(),
        ..job(id, "email.send", 900, None)
    }
}

fn quiet() -> StatusReply {
    let mut report = running();
    report.state = "quiet".to_owned();
    report.phase = "quiet".to_owned();
    report.reasons = vec!["server".to_owned(), "prestop".to_owned()];
    (report.left_ms, report.left_of_ms) = (Some(21_800), Some(25_000));
    report
}

fn draining() -> StatusReply {
    let mut report = running();
    report.state = "terminate".to_owned();
    report.phase = "drain".to_owned();
    report.reasons = vec!["sigterm".to_owned()];
    report.terminating_for_ms = Some(13_000);
    (report.left_ms, report.left_of_ms) = (Some(12_000), Some(25_000));
    report
}

fn stopping() -> StatusReply {
    let mut report = draining();
    report.phase = "stop".to_owned();
    report.terminating_for_ms = Some(26_000);
    (report.left_ms, report.left_of_ms) = (Some(900), Some(5_000));
    report.cut_off = 1;
    report.jobs[0].cancelled = true;
    report
}

fn without_worker() -> StatusReply {
    let mut report = running();
    report.jobs.clear();
    report.connections.clear();
    (report.active, report.held, report.waiting, report.reporting) = (0, 0, 0, 0);
    report.worker = WorkerReport {
        program: "python3".to_owned(),
        last_end: Some("killed by SIGSEGV".to_owned()),
        restarts: 3,
        starts_in_ms: Some(7_900),
        ..WorkerReport::default()
    };
    report
}

fn unreachable() -> StatusReply {
    let mut report = running();
    report.backend.reachable = false;
    report.backend.heartbeat_age_ms = Some(96_000);
    report.backend.trouble = Some(TroubleReport {
        kind: "not_sent".to_owned(),
        state: "is unreachable".to_owned(),
        error: Some("connection refused: nothing listens there".to_owned()),
        lasted_ms: 94_000,
        waiting_outcomes: 1,
        lapses_ms: Some(24_000),
    });
    report.log_records_dropped = 12;
    report
}

/// Never registered, in mode exec with a long path.
fn refused() -> StatusReply {
    let mut report = running();
    report.mode = "exec".to_owned();
    report.worker.program = "/opt/company/jobs/bin/render-all-the-reports, 12 routes".to_owned();
    report.worker.connections = 12;
    report.backend.heartbeat_age_ms = None;
    report.backend.trouble = Some(TroubleReport {
        kind: "unauthorized".to_owned(),
        state: "refuses the credentials".to_owned(),
        error: Some("status 403 forbidden: token expired".to_owned()),
        lasted_ms: 190_000,
        ..TroubleReport::default()
    });
    report.jobs[0].progress = Some(Fraction(0.42));
    report.jobs[0].progress_message = Some("page 42 of 100".to_owned());
    report.jobs[1].cancelled = true;
    report.jobs[1].ends_in_ms = Some(3_200);
    report
}

fn given_back() -> StatusReply {
    let mut report = running();
    report.held_back = 12;
    let returns = [("email.send", 37), ("report.render", 3)];
    let returns = returns.map(|(kind, times)| ReturnsReport {
        kind: kind.to_owned(),
        times,
    });
    report.given_back = returns.to_vec();
    report
        .jobs
        .push(placed("0192d3a8-5e0e-7a52-9c1b-3f2a6f1f0a05", "going back"));
    report
}

/// Mode gateway without a concurrency, with eight processes of an SDK.
fn gateway() -> StatusReply {
    let mut report = running();
    report.mode = "gateway".to_owned();
    report.caller_proof = Some("uid and bearer".to_owned());
    report.uncapped = true;
    report.queues_refused = vec!["emails".to_owned(), "reports".to_owned()];
    (report.concurrency, report.most_asked) = (32, Some(32));
    (report.active, report.held, report.waiting, report.reporting) = (14, 14, 0, 0);
    report.jobs_not_shown = 10;
    report.labels.clear();
    (report.worker.connections, report.worker.ready, report.worker.capacity) = (8, 6, 0);
    let jobs = [4, 3, 3, 2, 1, 1, 0, 0].into_iter();
    report.connections = (1..)
        .zip(jobs)
        .map(|(number, jobs)| connection(number, jobs, None, "ready"))
        .collect();
    report.connections[1].state = "given up".to_owned();
    report.connections[2].state = "alone".to_owned();
    report.connections[4].state = "asking".to_owned();
    report.connections[7].state = "not ready".to_owned();
    report.connections[7].pid = None;
    report
}

/// Mode gateway, before the worker has asked for a job.
fn not_asked() -> StatusReply {
    StatusReply {
        concurrency: 1,
        most_asked: None,
        queues: Vec::new(),
        queues_refused: Vec::new(),
        active: 0,
        held: 0,
        jobs: Vec::new(),
        jobs_not_shown: 0,
        connections: Vec::new(),
        worker: WorkerReport {
            connections: 0,
            ready: 0,
            ..gateway().worker
        },
        backend: BackendReport {
            worker_id: None,
            heartbeat_age_ms: None,
            ..gateway().backend
        },
        ..gateway()
    }
}

fn crowded() -> StatusReply {
    let mut report = running();
    report.concurrency = 200;
    report.active = 200;
    report.held = 200;
    report.jobs = (0..100)
        .map(|number| {
            job(
                &format!("0192d3a8-5e0e-7a52-9c1b-{number:012}"),
                "email.send",
                60_000,
                Some(1),
            )
        })
        .collect();
    report.jobs_not_shown = 100;
    report
}

/// Asserts that the lines equal `tests/screens/NAME.txt`; `UPDATE_GOLDEN=1` writes them.
fn assert_looks(name: &str, lines: &[String]) {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(format!("tests/screens/{name}.txt"));
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    assert_eq!(
        expected, text,
        "{name}; if it is meant: UPDATE_GOLDEN=1 cargo test --lib screen"
    );
}

#[test]
fn each_situation_looks_as_its_golden_file() {
    let situations = [
        ("running", running()),
        ("quiet", quiet()),
        ("draining", draining()),
        ("stop_phase", stopping()),
        ("no_worker", without_worker()),
        ("backend_unreachable", unreachable()),
        ("backend_refuses_us", refused()),
        ("given_back", given_back()),
        ("two_hundred_jobs", crowded()),
        ("gateway", gateway()),
        ("gateway_not_asked_yet", not_asked()),
        ("nothing_known", StatusReply::default()),
    ];
    for (name, report) in situations {
        assert_looks(name, &draw(&report, &NORMAL));
    }
    let narrow = Screen {
        width: 50,
        height: 14,
        ..NORMAL
    };
    assert_looks("narrow", &draw(&draining(), &narrow));
}

#[test]
fn a_worker_that_takes_fewer_jobs_than_are_allowed_is_full_at_its_own_number() {
    let mut report = running();
    report.worker.capacity = 4;
    let lines = draw(&report, &NORMAL);
    let jobs = lines.iter().find(|line| line.starts_with("jobs "));
    assert_eq!(
        jobs.map(String::as_str),
        Some("jobs      4 of 4 active (10 allowed): 2 with the worker, 1 waiting, 1 reporting")
    );
}

#[test]
fn past_a_timeout_the_screen_counts_to_the_end_of_the_process() {
    let mut report = running();
    report.jobs[0].ends_in_ms = Some(3_200);
    let text = draw(&report, &NORMAL).join("\n");
    assert!(text.contains("timed out, process ends in 3.2s"), "{text}");
}

#[test]
fn as_many_jobs_are_shown_as_fit_and_the_rest_is_counted() {
    for height in 0..130 {
        let screen = Screen { height, ..NORMAL };
        let lines = draw(&crowded(), &screen);
        assert!(lines.len() <= height, "{height}");
        let rows = lines.iter().filter(|line| line.starts_with("0192d3a8")).count();
        let said = lines
            .last()
            .and_then(|line| line.strip_prefix("... and ")?.strip_suffix(" more"));
        if rows > 0 {
            assert_eq!(said, Some((200 - rows).to_string().as_str()), "{height}");
        }
    }
    let lines = draw(&running(), &Screen { height: 16, ..NORMAL });
    assert_eq!(lines.len(), 16);
    assert!(lines.last().unwrap().ends_with("waiting"), "{lines:#?}");
}

#[test]
fn connections_leave_room_for_the_jobs() {
    let mut tables = 0;
    for height in 0..40 {
        let lines = draw(&gateway(), &Screen { height, ..NORMAL });
        let jobs = lines.iter().filter(|line| line.starts_with("0192d3a8")).count();
        if let Some(at) = lines.iter().position(|line| line.starts_with("CONN")) {
            let end = lines.iter().position(|line| line.starts_with("JOB ")).unwrap();
            assert!(jobs > 0 && end - at <= lines.len() - end + 1, "{lines:#?}");
            tables += 1;
        }
    }
    assert!(tables > 20, "{tables}");
}

#[test]
fn where_no_concurrency_is_set_the_jobs_are_of_no_number() {
    let mut report = gateway();
    report.worker.capacity = 4;
    (report.dropped, report.cut_off) = (12, 13);
    let lines = draw(&report, &NORMAL);
    let at = lines.iter().position(|line| line.starts_with("jobs ")).unwrap();
    let expected = [
        "jobs      14 active, no limit set: 14 with the worker, 0 waiting, 0 reporting",
        "          12 not named by the worker, 13 cut off",
    ];
    assert_eq!(lines[at..at + 2], expected);
}

#[test]
fn the_bar_is_full_at_first_and_empty_only_at_the_end() {
    let bar = |left_ms, left_of_ms| {
        let mut report = draining();
        (report.left_ms, report.left_of_ms) = (Some(left_ms), left_of_ms);
        let lines = draw(&report, &NORMAL);
        let line = lines.iter().find(|line| line.starts_with("left")).unwrap();
        line.chars().filter(|character| *character == '#').count()
    };
    assert_eq!(bar(25_000, Some(25_000)), BAR);
    assert_eq!(bar(12_500, Some(25_000)), BAR / 2);
    assert_eq!(bar(1, Some(25_000)), 1);
    assert_eq!(bar(0, Some(25_000)), 0);
    // More than the whole, and no whole at all.
    assert_eq!(bar(u64::MAX, Some(1)), BAR);
    assert_eq!((bar(3, None), bar(0, None)), (BAR, 0));
}

#[test]
fn a_time_is_as_short_as_it_can_be_read() {
    let times = [
        0,
        9_990,
        10_000,
        59_999,
        60_000,
        3_599_000,
        3_600_000,
        90_000_000,
        9_000_000_000,
    ];
    let texts = times.map(time);
    assert_eq!(
        texts,
        ["0.0s", "9.9s", "10s", "59s", "1m0s", "59m59s", "1h0m", "1d1h", "104d4h"]
    );
    assert_eq!([5_000, 5_500, 15_000].map(period), ["5s", "5.5s", "15s"]);
}

#[test]
fn the_last_line_says_how_it_ended_as_far_as_is_known() {
    let mut last = stopping();
    assert_eq!(
        farewell(Some(&last), false),
        "ojs-init has ended; when it was last heard of: stop, 4 jobs active, 1 job was cut off"
    );
    assert_eq!(
        farewell(Some(&last), true),
        "ojs-init ends everything in this container now, 4 jobs active"
    );
    last.exit_status = Some(75);
    last.cut_off = 4;
    assert_eq!(
        farewell(Some(&last), false),
        "ojs-init ends with status 75, 26s after the end began, 4 jobs were cut off"
    );
    assert_eq!(farewell(None, false), "ojs-init has ended");
}

/// The columns of a line on a terminal; colours use none.
fn columns(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').unwrap().1);
    let text: String = [first].into_iter().chain(rest).collect();
    text.chars()
        .map(|character| {
            assert!(!character.is_control(), "{line:?}");
            character.width().unwrap()
        })
        .sum()
}

#[test]
fn colours_change_nothing_but_the_colours() {
    let coloured = Screen {
        has_colour: true,
        ..NORMAL
    };
    for report in [
        running(),
        quiet(),
        draining(),
        stopping(),
        without_worker(),
        unreachable(),
        gateway(),
    ] {
        let (plain, colour) = (draw(&report, &NORMAL), draw(&report, &coloured));
        assert!(colour.iter().any(|line| line.contains('\x1b')));
        assert!(!plain.iter().any(|line| line.contains('\x1b')));
        let stripped = |line: &String| {
            let parts = line.split('\x1b').enumerate();
            parts
                .map(|(at, part)| if at == 0 { part } else { part.split_once('m').unwrap().1 })
                .collect::<String>()
        };
        assert_eq!(colour.iter().map(stripped).collect::<Vec<_>>(), plain);
    }
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_screen_whatever_the_names_are(
        names in prop::collection::vec("\\PC{0,60}|.{0,60}|[一-龥😀\u{202e}\u{301}\u{1b}]{0,50}", 8),
        width in 0..140_usize,
        height in 0..40_usize,
        has_colour in any::<bool>(),
    ) {
        let mut report = draining();
        report.jobs[0].id = names[0].clone();
        report.jobs[1].kind = names[1].clone();
        report.jobs[2].place = names[2].clone();
        (report.worker.program, report.worker.last_end) = (names[3].clone(), Some(names[4].clone()));
        report.backend.url = Some(names[5].clone());
        report.queues = vec![names[6].clone()];
        (report.version, report.state) = (names[7].clone(), names[2].clone());
        report.connections[0].state = names[3].clone();
        report.connections[1].jobs = u64::MAX;
        report.connections[1].state = names[4].clone();
        let lines = draw(&report, &Screen { width, height, has_colour });
        prop_assert!(lines.len() <= height);
        for line in lines {
            prop_assert!(columns(&line) <= width, "{line:?}");
        }
    }
}
