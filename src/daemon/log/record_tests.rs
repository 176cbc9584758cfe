//! How records are written.

use std::sync::Arc;

use ojs_lifecycle::api::JobId;

use super::*;

const AT: jiff::Timestamp = jiff::Timestamp::constant(1_771_192_800, 123_000_000);

const TRACE: Trace = Trace {
    is_sampled: true,
    trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
    span: 0xf067_aa0b_a902,
};

fn job(id: &str, kind: &str) -> Arc<Subject> {
    Arc::new(Subject {
        id: JobId(id.into()),
        kind: kind.into(),
        queue: "email".into(),
        attempt: Some(2),
        max_attempts: None,
        trace: Some(TRACE),
    })
}

fn record(message: &str) -> LogRecord {
    LogRecord::new(Level::Warn, message)
}

fn line(record: &LogRecord, format: LogFormat) -> String {
    record.line(format, AT, Some("w1"))
}

#[test]
fn a_record_has_the_fields_of_the_document_in_its_order() {
    let record = record("Job failed, will retry")
        .of_job(&job("j1", "email.send"), Some("retryable"))
        .error("ValueError", "no \"such\" address")
        .with("duration_ms", 12_u64)
        .with_any("signal", Some("SIGTERM"))
        .with_any("nothing", None::<u64>);
    assert_eq!(
        line(&record, LogFormat::Json),
        concat!(
            r#"{"timestamp":"2026-02-15T22:00:00.123Z","severity":"WARN","severity_number":13,"#,
            r#""message":"Job failed, will retry","category":"lifecycle","component":"worker","#,
            r#""ojs":{"job_id":"j1","job_type":"email.send","queue":"email","attempt":2,"state":"retryable","worker_id":"w1"},"#,
            r#""trace":{"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"0000f067aa0ba902"},"#,
            r#""error":{"type":"ValueError","message":"no \"such\" address"},"#,
            r#""attributes":{"duration_ms":12,"signal":"SIGTERM"}}"#,
            "\n"
        )
    );
}

#[test]
fn what_is_not_known_is_not_there() {
    let record = LogRecord {
        is_fatal: true,
        ..record("m")
    };
    assert_eq!(
        record.line(LogFormat::Json, AT, None),
        concat!(
            r#"{"timestamp":"2026-02-15T22:00:00.123Z","severity":"FATAL","severity_number":21,"message":"m","#,
            r#""category":"worker","component":"worker"}"#,
            "\n"
        )
    );
}

#[test]
fn for_a_person_there_is_the_time_the_job_and_the_error() {
    let failed = || record("Job failed, will retry").of_job(&job("j1", "email.send"), None);
    assert_eq!(
        line(&failed().error("ValueError", "no such address"), LogFormat::Text),
        "22:00:00.123Z ojs-init: warn: Job failed, will retry: ValueError: no such address [job j1, email.send, attempt \
         2]\n"
    );
    for (kind, message, told) in [
        ("PaymentError", "failed", "PaymentError: failed"),
        ("PaymentError", "", "PaymentError"),
        ("", "failed", "failed"),
    ] {
        assert_eq!(
            line(&failed().error(kind, message), LogFormat::Text),
            format!("22:00:00.123Z ojs-init: warn: Job failed, will retry: {told} [job j1, email.send, attempt 2]\n"),
            "a word of the message is not the error's"
        );
    }
    let record =
        record("heartbeat failed: it did not get to the backend").of_error("not_sent", "it did not get to the backend");
    assert_eq!(
        line(&record, LogFormat::Text),
        "22:00:00.123Z ojs-init: warn: heartbeat failed: it did not get to the backend\n"
    );
}

#[test]
fn a_line_stays_a_line_and_a_terminal_as_it_is() {
    let record = record("\u{7}\r\n").of_job(&job("a\nb\u{1b}[31m", "\u{9b}1m"), None);
    for format in [LogFormat::Text, LogFormat::Json] {
        let line = line(&record, format);
        let inner = line.strip_suffix('\n').unwrap_or_default();
        assert!(!inner.is_empty() && !inner.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn a_record_goes_through_a_pipe_in_one_piece_however_much_somebody_sends() {
    for c in ["x", "\u{1}", "\"", "€", "\u{1f4a9}"] {
        let long = c.repeat(1 << 20);
        let record = record(&long)
            .of_job(&job(&long, &long), Some("retryable"))
            .error(&long, &long)
            .with("one", long.as_str())
            .with("two", long.as_str())
            .with("three", long.as_str())
            .with("four", u64::MAX);
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = record.line(format, AT, Some(&long));
            assert!(line.len() <= RECORD_BYTES, "{c:?}: {} bytes as {format:?}", line.len());
            assert!(line.contains(CUT), "{c:?}");
        }
        let read: serde_json::Value =
            serde_json::from_str(&record.line(LogFormat::Json, AT, Some(&long))).unwrap_or_default();
        assert!(
            read.pointer("/attributes/four").is_some(),
            "a part that is too long takes no other part's room: {read}"
        );
    }
}

#[test]
fn what_fits_is_not_cut() {
    let (message, error) = ("m".repeat(MESSAGE_BYTES - 5), "e".repeat(ERROR_MESSAGE_BYTES - 5));
    let line = line(&record(&message).of_error("kind", &error), LogFormat::Json);
    assert!(line.contains(&message) && line.contains(&error) && !line.contains(CUT));
}
