//! The subcommand `job`, for the process of a job: one line on the channel that it was started with, or a look whether it
//! is to end. It asks no instance for anything.

use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use crate::cli::JobWord;
use crate::commands::common::{NOT_TAKEN, failed};
use crate::exit::Exit;
use crate::os::entry::Environ;
use crate::os::job_channel::JobChannel;
use crate::os::signals::SignalSet;
use crate::wire::runner::job_lines;

/// The variable that has the number of the channel's descriptor.
const CHANNEL_VARIABLE: &str = "OJS_JOB_FD";

/// Longest that a line may wait for room.
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// What `cancelled` says when the job may go on.
const NOT_CANCELLED: Exit = Exit::Status(1);

/// Says a word of a job to whoever runs it, on the channel that the environment names.
#[must_use]
pub fn tell(word: &JobWord, environ: &Environ) -> Exit {
    // Who waits here has to end when the job is asked to.
    SignalSet::inherited().set_as_mask();
    let line = match line(word) {
        Ok(line) => line,
        Err(message) => return failed(&message, Exit::Usage),
    };
    let channel = match open(environ.value(CHANNEL_VARIABLE)) {
        Ok(channel) => channel,
        Err(message) => return failed(&message, Exit::Usage),
    };
    let Some(line) = line else {
        return match channel.is_shut() {
            Ok(true) => Exit::Success,
            Ok(false) => NOT_CANCELLED,
            Err(error) => failed(&format!("cannot look at the job's channel: {error}"), Exit::Usage),
        };
    };
    match channel.send(line.as_bytes(), SEND_WITHIN) {
        Ok(()) => Exit::Success,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let limit = SEND_WITHIN.as_secs();
            failed(&format!("nobody has read the job's channel for {limit} s"), NOT_TAKEN)
        }
        Err(error) => failed(&format!("nobody reads the job's channel any more: {error}"), NOT_TAKEN),
    }
}

fn open(channel: Option<&OsStr>) -> Result<JobChannel, String> {
    let Some(channel) = channel.filter(|channel| !channel.is_empty()) else {
        return Err(format!(
            "not in a job: {CHANNEL_VARIABLE} is not set; `ojs-init job` is for the programs that mode exec starts"
        ));
    };
    let number = channel.to_str().and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|number| *number >= 0) else {
        return Err(format!(
            "{CHANNEL_VARIABLE}={}: not the number of a descriptor",
            channel.to_string_lossy()
        ));
    };
    JobChannel::open(number).map_err(|error| {
        format!(
            "{CHANNEL_VARIABLE}={number}: {error}; the program that calls `ojs-init job` has to leave descriptor {number} \
             open and as it is"
        )
    })
}

/// The line for this word; none for one that says nothing.
fn line(word: &JobWord) -> Result<Option<String>, String> {
    let line = match word {
        JobWord::Progress { fraction, message } => {
            let line = format!("progress {fraction} {}", on_one_line(message));
            // What is no number must not be taken for one with a part of the message.
            let is_one_word = !fraction.is_empty() && !fraction.contains(char::is_whitespace);
            checked(&line)
                .filter(|()| is_one_word)
                .ok_or_else(|| format!("progress {fraction:?}: not a number from 0 to 1, as 0.25"))?;
            line
        }
        JobWord::Checkpoint { state } => {
            // In JSON a line break stands only between its parts.
            let line = format!("checkpoint {}", on_one_line(state));
            let is_json = checked(&line).is_some();
            let json = is_json.then_some(line);
            json.ok_or_else(|| "checkpoint: not one JSON document; in a shell write '{\"page\":7}'".to_owned())?
        }
        JobWord::Heartbeat => "heartbeat".to_owned(),
        JobWord::Cancelled => return Ok(None),
    };
    Ok(Some(format!("{}\n", line.trim_end())))
}

/// Whether whoever runs the job will understand this line.
fn checked(line: &str) -> Option<()> {
    job_lines::decode(line.as_bytes()).ok().map(drop)
}

fn on_one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its line has failed")]
mod tests {
    use super::*;

    fn progress(fraction: &str, message: &str) -> Result<Option<String>, String> {
        let (fraction, message) = (fraction.to_owned(), message.to_owned());
        line(&JobWord::Progress { fraction, message })
    }

    fn checkpoint(state: &str) -> Result<Option<String>, String> {
        let state = state.to_owned();
        line(&JobWord::Checkpoint { state })
    }

    #[test]
    fn each_word_is_one_line_that_is_understood() {
        let some = |line: &str| Ok(Some(line.to_owned()));
        assert_eq!(progress("0.5", "half\nof it"), some("progress 0.5 half of it\n"));
        assert_eq!(progress(".5", ""), some("progress .5\n"));
        assert_eq!(
            checkpoint("{\n  \"page\": 7.10\n}\n"),
            some("checkpoint {   \"page\": 7.10 }\n")
        );
        assert_eq!(line(&JobWord::Heartbeat), some("heartbeat\n"));
        assert_eq!(line(&JobWord::Cancelled), Ok(None));
    }

    #[test]
    fn what_would_not_be_understood_is_not_written() {
        for fraction in ["", "half", "1.5", "-0.1", "50%", "NaN", "inf", "0.5 0.6", "\n0.5"] {
            assert!(progress(fraction, "1").unwrap_err().contains("0 to 1"), "{fraction:?}");
        }
        for state in ["", "{", "page", "{} {}", "{\"a\":\"\n"] {
            assert!(checkpoint(state).unwrap_err().contains("JSON"), "{state:?}");
        }
    }
}
