//! A line that a job wrote, as a line of the log.

use std::fmt::Write;

use crate::config::LogFormat;
use crate::daemon::log::json_text::quote;
use crate::daemon::log::record::{NAME_BYTES, RECORD_BYTES};
use ojs_values::text::clipped;
use ojs_wire::text::is_terminal_control;

/// Bytes of a record in JSON beside the texts in it.
const FRAME_BYTES: usize = 256;

/// Most bytes of the job's text, as it is written.
const LINE_BYTES: usize = RECORD_BYTES - NAME_BYTES - FRAME_BYTES;

/// A line that a job wrote on this stream (`stderr`): behind the job's id, or as a separate record.
pub(super) fn line(format: LogFormat, at: jiff::Timestamp, job: &str, stream: &str, text: &str) -> String {
    match format {
        LogFormat::Text => format!(
            "[job {}] {}\n",
            shown(&clipped(job, NAME_BYTES)),
            clipped(&shown(text), LINE_BYTES)
        ),
        LogFormat::Json => json(at, job, stream, text),
    }
}

fn json(at: jiff::Timestamp, job: &str, stream: &str, text: &str) -> String {
    let mut line = String::with_capacity(FRAME_BYTES + text.len());
    // Writing to a text cannot fail.
    let _ = write!(
        line,
        r#"{{"timestamp":"{at:.3}","severity":"INFO","severity_number":9,"message":"#
    );
    quote(&mut line, text, LINE_BYTES);
    line.push_str(r#","category":"lifecycle","component":"worker","ojs":{"job_id":"#);
    quote(&mut line, job, NAME_BYTES);
    let _ = writeln!(line, r#"}},"attributes":{{"stream":"{stream}"}}}}"#);
    line
}

/// The text without any control character that a terminal acts on, except tabs. A job must not make
/// its line look like one of ojs-init.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '\t' && is_terminal_control(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    #[test]
    fn for_people_the_job_is_named_in_front() {
        let line = |text| line(LogFormat::Text, at(), "j1", "stderr", text);
        assert_eq!(line("a\tb"), "[job j1] a\tb\n");
        assert_eq!(line("\u{1b}[31mred"), "[job j1] \\u{1b}[31mred\n");
    }

    #[test]
    fn for_programs_the_job_is_a_field() {
        let line = line(LogFormat::Json, at(), "j\"1", "stderr", "a\"b");
        assert!(line.ends_with("}\n"));
        for part in [
            r#""message":"a\"b""#,
            r#""job_id":"j\"1""#,
            r#""stream":"stderr""#,
            r#""timestamp":"1970-01-01T00:00:00.000Z""#,
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn a_line_is_never_longer_than_a_record_and_of_the_usual_ones_nothing_is_cut() {
        for text in ["\u{1b}".repeat(3000), "x".repeat(3000), "\u{fffd}".repeat(3000)] {
            for format in [LogFormat::Json, LogFormat::Text] {
                let line = line(format, at(), &"i".repeat(1024), "stderr", &text);
                assert!(line.len() <= RECORD_BYTES, "{}", line.len());
            }
        }
        let text = "x".repeat(3000);
        assert!(line(LogFormat::Json, at(), "j", "stderr", &text).contains(&text));
        assert!(line(LogFormat::Text, at(), "j", "stderr", &text).contains(&text));
    }
}
