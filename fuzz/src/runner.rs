//! The lines of a job, and what the runner tells PID 1 of them.

use ojs_lifecycle::api::FromWorker;
use ojs_wire::runner::frames;
use ojs_wire::runner::job_lines::{JobLine, decode};
use ojs_wire::worker;

/// A line on `OJS_JOB_FD`, or the output of a job.
pub fn job_lines(data: &[u8]) {
    let result = frames::result(data);
    if let Some(result) = &result {
        assert!(frames::is_json(result), "{result}");
    }
    let said = said(&frames::ack("j", result.as_deref()));
    let result = result.as_deref().map(one_line);
    assert!(matches!(said, FromWorker::Ack { result: read, .. } if read.as_deref() == result.as_deref()));
    for line in data.split(|byte| *byte == b'\n') {
        check(line);
    }
}

/// JSON as it stands in a frame, which a line break between two tokens would end.
fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// PID 1 has to understand what the runner makes of a line that it accepts.
fn check(line: &[u8]) {
    match decode(line) {
        Ok(JobLine::Progress { fraction, message }) => {
            let said = said(&frames::progress("j", &fraction, message));
            let FromWorker::Progress { progress, .. } = said else {
                panic!("{said:?}");
            };
            assert_eq!(
                (&*progress.fraction, progress.message.as_deref()),
                (fraction.as_str(), message)
            );
        }
        Ok(JobLine::Checkpoint { state }) => {
            let said = said(&frames::checkpoint("j", state));
            assert!(
                matches!(&said, FromWorker::Checkpoint { state: read, .. } if **read == *one_line(state.trim_ascii())),
                "{said:?}"
            );
        }
        Ok(JobLine::Heartbeat) | Err(_) => {}
    }
}

fn said(frame: &[u8]) -> FromWorker {
    let line = frame.strip_suffix(b"\n").unwrap();
    assert!(!line.contains(&b'\n'));
    worker::decode(line)
}
