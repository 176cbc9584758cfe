//! The control socket: requests of operators, and the answers that a subcommand shows.

use ojs_wire::operator::control::{decode_answer, decode_request, encode_refusal, encode_request};
use ojs_wire::operator::status_reply::{decode_health, decode_report, printable};
use ojs_wire::text::is_terminal_control;

/// A line of either side.
pub fn control(data: &[u8]) {
    match decode_request(data) {
        Ok(request) => {
            let line = encode_request(&request);
            assert_eq!(decode_request(line.strip_suffix(b"\n").unwrap()), Ok(request));
        }
        Err(refusal) => {
            let line = encode_refusal(&refusal);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert!(!decode_answer(&line).unwrap().is_ok);
        }
    }
    if let Some(answer) = decode_answer(data) {
        for shown in [&answer.message, &answer.phase] {
            assert!(!shown.chars().any(is_terminal_control), "{shown:?}");
        }
    }
    let _ = decode_report(data);
    let _ = decode_health(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let shown = printable(text);
        assert!(
            !shown
                .chars()
                .any(|letter| letter != '\n' && is_terminal_control(letter)),
            "{shown:?}"
        );
    }
}
