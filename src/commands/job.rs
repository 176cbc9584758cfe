//! The subcommand `job`, for the process of a job: one line on the channel that it was started
//! with, or a check whether it has to end. It sends no request to an instance.

use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use crate::cli::JobWord;
use crate::commands::common::{NOT_TAKEN, failed};
use ojs_os::entry::Environ;
use ojs_os::job_channel::JobChannel;
use ojs_os::signals::SignalSet;
use ojs_os::stdio::{read_input_from_its_beginning, write_output};
use ojs_values::exit::Exit;
use ojs_wire::runner::arguments::{self, Path};
use ojs_wire::runner::job_lines;

/// The variable that has the number of the channel's descriptor.
const CHANNEL_VARIABLE: &str = "OJS_JOB_FD";

/// The variable that has the arguments, unless they are too long for one.
const ARGS_VARIABLE: &str = "OJS_JOB_ARGS";

/// A variable that every job has.
const ID_VARIABLE: &str = "OJS_JOB_ID";

/// Most bytes of standard input that are looked through for an argument; no envelope is longer.
const MOST_INPUT_BYTES: u64 = 1 << 30;

/// When the job has no such argument.
const NO_ARGUMENT: Exit = Exit::Status(1);

/// Longest that a line may wait for room.
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// The exit status of `cancelled` if the job may continue.
const NOT_CANCELLED: Exit = Exit::Status(1);

/// Sends a message of a job to its runner, on the channel that the environment names.
pub fn tell(word: &JobWord, environ: &Environ) -> Exit {
    // A wait here has to end when the job is asked to end.
    SignalSet::inherited().set_as_mask();
    let line = match word {
        JobWord::Argument { path } => return argument(path, environ),
        JobWord::Cancelled => Ok(None),
        JobWord::Progress { fraction, message } => progress(fraction, message).map(Some),
        JobWord::Checkpoint { state } => checkpoint(state).map(Some),
        JobWord::Heartbeat => Ok(Some("heartbeat".to_owned())),
    };
    let line = match line {
        Ok(line) => line.map(|line| format!("{}\n", line.trim_end())),
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
        return Err(not_in_a_job(CHANNEL_VARIABLE));
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

fn progress(fraction: &str, message: &str) -> Result<String, String> {
    let line = format!("progress {fraction} {}", on_one_line(message));
    // A text that is no number must not be read as one with a part of the message.
    let is_one_word = !fraction.is_empty() && !fraction.contains(char::is_whitespace);
    checked(&line)
        .filter(|()| is_one_word)
        .map(|()| line)
        .ok_or_else(|| format!("progress {fraction:?}: not a number from 0 to 1, as 0.25"))
}

fn checkpoint(state: &str) -> Result<String, String> {
    // In JSON a line break stands only between its parts.
    let line = format!("checkpoint {}", on_one_line(state));
    let is_json = checked(&line).is_some();
    let json = is_json.then_some(line);
    json.ok_or_else(|| "checkpoint: not one JSON document; in a shell write '{\"page\":7}'".to_owned())
}

/// Prints one of the job's arguments.
fn argument(path: &str, environ: &Environ) -> Exit {
    let place: Path = match path.parse() {
        Ok(place) => place,
        Err(why) => {
            let message = format!("arg {path:?}: {why}; name its number and parts of it, as 0 or 1.path");
            return failed(&message, Exit::Usage);
        }
    };
    if environ.value(ID_VARIABLE).is_none() {
        return failed(&not_in_a_job(ID_VARIABLE), Exit::Usage);
    }
    let Some(args) = arguments_of_the_job(environ) else {
        let message = format!(
            "the job's arguments are too long for {ARGS_VARIABLE}, and standard input does not have them: leave it as it is, with \
             exec.input = \"envelope\" or \"args\""
        );
        return failed(&message, NO_ARGUMENT);
    };
    let Some(value) = place.find(&args) else {
        return failed(&format!("the job has no argument {path}"), NO_ARGUMENT);
    };
    match write_output(format!("{value}\n").as_bytes(), SEND_WITHIN) {
        Ok(()) => Exit::Success,
        Err(error) => failed(&format!("cannot write the argument: {error}"), NO_ARGUMENT),
    }
}

/// The arguments as JSON. They are in the environment, or on the job's standard input if they are
/// too long for it. The input is read from its start, even if some of it was read before.
fn arguments_of_the_job(environ: &Environ) -> Option<String> {
    if let Some(args) = environ.value(ARGS_VARIABLE) {
        return args.to_str().map(str::to_owned);
    }
    let input = read_input_from_its_beginning(MOST_INPUT_BYTES).ok()?;
    let input = String::from_utf8(input).ok()?;
    arguments::args_of(&input).map(str::to_owned)
}

fn not_in_a_job(variable: &str) -> String {
    format!("not in a job: {variable} is not set; `ojs-init job` is for the programs that mode exec starts")
}

/// Checks that the runner will understand this line.
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

    #[test]
    fn each_word_is_one_line_that_is_understood() {
        let some = |line: &str| Ok(line.to_owned());
        assert_eq!(progress("0.5", "half\nof it"), some("progress 0.5 half of it"));
        assert_eq!(progress(".5", ""), some("progress .5 "));
        assert_eq!(
            checkpoint("{\n  \"page\": 7.10\n}\n"),
            some("checkpoint {   \"page\": 7.10 } ")
        );
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
