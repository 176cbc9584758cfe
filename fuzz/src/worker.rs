//! Frames of a worker.

use ojs_lifecycle::api::{ErrorCode, FromWorker};
use ojs_wire::frame::{Frame, FrameReader};
use ojs_wire::worker::{decode, too_long};
use serde_json::Value;

use super::pieces::same_in_any_pieces;

/// Longest line, in bytes: short, so that longer ones are found soon.
const MOST_LINE_BYTES: usize = 512;

/// A stream of a worker on the worker socket.
pub fn worker_frames(data: &[u8]) {
    let lines = same_in_any_pieces(data, |pieces| {
        let mut reader = FrameReader::new(MOST_LINE_BYTES);
        let mut lines = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while let Some(frame) = reader.next_frame(&mut rest) {
                lines.push(match frame {
                    Frame::Line(line) => (true, line.to_vec()),
                    Frame::TooLong(beginning) => (false, beginning.to_vec()),
                });
            }
            assert!(rest.is_empty() && reader.held() <= MOST_LINE_BYTES);
        }
        (lines, reader.unfinished().map(<[u8]>::to_vec))
    });
    for (is_whole, line) in lines.0 {
        assert!(line.len() <= MOST_LINE_BYTES);
        if is_whole {
            check(&line);
        } else {
            assert!(matches!(
                too_long(&line),
                FromWorker::Garbage {
                    code: ErrorCode::FrameTooLong,
                    ..
                }
            ));
        }
    }
}

/// Compares a line with what serde_json makes of it. serde_json refuses more: numbers beyond a
/// double, and depth.
fn check(line: &[u8]) {
    let said = decode(line);
    let Ok(Value::Object(fields)) = serde_json::from_slice(line) else {
        return;
    };
    let is = |name: &str, value: &str| fields.get(name).and_then(Value::as_str) == Some(value);
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if let Some(job) = said.answers() {
        assert_eq!(text("job_id"), Some(&*job.0));
    }
    match &said {
        FromWorker::Ack { result, .. } => {
            let result = result.as_ref().map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert!(is("type", "ack") && result.as_ref() == fields.get("result"));
        }
        FromWorker::Checkpoint { state, .. } => {
            assert_eq!(serde_json::from_str::<Value>(state).ok().as_ref(), fields.get("state"));
        }
        FromWorker::Fail { error, .. } => {
            for json in [&error.details, &error.backtrace].into_iter().flatten() {
                assert!(serde_json::from_str::<Value>(json).is_ok(), "{json}");
            }
            assert!(is("type", "fail"));
        }
        FromWorker::Release { .. } => assert!(is("type", "release")),
        FromWorker::Progress { progress, .. } => {
            let number: f64 = serde_json::from_str(&progress.fraction).unwrap();
            assert!((0.0..=1.0).contains(&number));
        }
        FromWorker::Garbage { code, answer, .. } => {
            assert_ne!(*code, ErrorCode::NotJson, "serde_json reads it");
            let answered = answer.as_ref().and_then(|answer| answer.answers().cloned());
            // Behind the broken part there may be another answer for the same job alone.
            assert!(answered.is_none_or(|job| text("job_id") == Some(&*job.0)));
        }
        FromWorker::Ready(_) => assert!(is("type", "ready")),
        FromWorker::Pong { id } => assert_eq!(fields.get("id").and_then(Value::as_u64), Some(*id)),
        FromWorker::Heartbeat { job } => assert_eq!(text("job_id"), Some(&*job.0)),
        FromWorker::Wants(_) | FromWorker::WantsNoMore { .. } | FromWorker::Beats { .. } => {
            unreachable!("no frame of the worker socket: {said:?}")
        }
    }
}
