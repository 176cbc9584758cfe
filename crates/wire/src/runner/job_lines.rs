//! The lines of a job to the runner, which a shell can write with `echo`.
//!
//! ```
//! use ojs_wire::runner::job_lines::{JobLine, decode};
//!
//! let half = JobLine::Progress { fraction: "0.5".to_owned(), message: Some("half of it") };
//! assert_eq!(decode(b"progress 0.5 half of it"), Ok(half));
//! assert_eq!(decode(b"checkpoint {\"page\":7}"), Ok(JobLine::Checkpoint { state: "{\"page\":7}" }));
//! assert_eq!(decode(b"heartbeat"), Ok(JobLine::Heartbeat));
//! ```

use std::str;

use crate::runner::frames::is_json;

/// A decoded line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobLine<'a> {
    /// How far it is.
    Progress {
        /// 0 to 1, as JSON.
        fraction: String,
        /// For a person.
        message: Option<&'a str>,
    },
    /// The point from which the next attempt continues.
    Checkpoint {
        /// JSON.
        state: &'a str,
    },
    /// The job is alive.
    Heartbeat,
}

/// Reads a job's line without its `\n`.
///
/// # Errors
///
/// The line is none of the three. The text names the accepted lines.
pub fn decode(line: &[u8]) -> Result<JobLine<'_>, &'static str> {
    let line = str::from_utf8(line).map_err(|_| "a line is UTF-8")?;
    let line = line.trim_matches([' ', '\t', '\r']);
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let rest = rest.trim_start_matches([' ', '\t']);
    match word {
        "progress" => progress(rest),
        "checkpoint" if is_json(rest) => Ok(JobLine::Checkpoint { state: rest }),
        "checkpoint" => Err("checkpoint takes one JSON document on one line"),
        "heartbeat" if rest.is_empty() => Ok(JobLine::Heartbeat),
        "heartbeat" => Err("heartbeat takes nothing"),
        _ => Err("a line is progress, checkpoint or heartbeat"),
    }
}

fn progress(rest: &str) -> Result<JobLine<'_>, &'static str> {
    let (number, message) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    let number: Option<f64> = number.parse().ok();
    let number = number.filter(|number| (0.0..=1.0).contains(number));
    let number = number.ok_or("progress takes a number from 0 to 1, then a text if there is one")?;
    let message = message.trim_start_matches([' ', '\t']);
    Ok(JobLine::Progress {
        // Rust's spelling of a number is JSON's; a shell's `.5` is not. And there is no minus
        // before a zero.
        fraction: number.abs().to_string(),
        message: Some(message).filter(|message| !message.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_shells_write_them_become_json() {
        for (number, json) in [
            ("0", "0"),
            ("1.0", "1"),
            (".5", "0.5"),
            ("1e-1", "0.1"),
            ("-0", "0"),
            ("+.25", "0.25"),
        ] {
            let line = format!("progress {number}");
            let expected = JobLine::Progress {
                fraction: json.to_owned(),
                message: None,
            };
            assert_eq!(decode(line.as_bytes()), Ok(expected), "{number}");
        }
    }

    #[test]
    fn spaces_around_the_parts_do_not_matter() {
        let expected = JobLine::Progress {
            fraction: "0.5".to_owned(),
            message: Some("a  b"),
        };
        assert_eq!(decode(b"  progress\t 0.5   a  b \r"), Ok(expected));
        assert_eq!(
            decode(b"checkpoint  [1, 2] "),
            Ok(JobLine::Checkpoint { state: "[1, 2]" })
        );
    }

    #[test]
    fn what_is_none_of_the_three_is_refused() {
        for line in [
            &b""[..],
            b"\xff",
            b"progress",
            b"progress half",
            b"progress 1.5",
            b"progress -1",
            b"progress NaN",
            b"progress 50%",
            b"checkpoint",
            b"checkpoint {",
            b"checkpoint {} {}",
            b"heartbeat now",
            b"heartbeats",
            b"stop",
        ] {
            assert!(decode(line).is_err(), "{line:?}");
        }
    }
}
