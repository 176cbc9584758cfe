//! The runner's settings: one JSON object in one variable of its environment. The command for jobs
//! without a route is not in it. It comes as arguments, whose bytes need not be UTF-8.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The variable of the runner's environment that has them. Jobs do not see it, and there is no
/// secret in it.
pub const VARIABLE: &str = "OJS_INIT_RUNNER";

/// How the runner starts jobs, and what their ends mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerSettings {
    /// Commands for some types of jobs. Of all that fit, the one with the longest pattern counts.
    pub routes: Vec<RouteSetting>,
    pub input: JobInput,
    pub output: JobOutput,
    /// Longest result of a job on its standard output, in bytes.
    pub output_limit: u64,
    /// Where jobs start; none: where the runner runs.
    pub directory: Option<PathBuf>,
    /// How long a job may run whose envelope does not say it, in milliseconds; none: as long as it
    /// likes.
    pub timeout_ms: Option<u64>,
    /// From the SIGTERM to a job whose time is over to its SIGKILL, in milliseconds.
    pub timeout_grace_ms: u64,
    pub leftovers: JobLeftovers,
    /// The meaning of a job's end, by exit status (`"75"`) or signal (`"SIGXCPU"`), defaults
    /// included. Any other end is [`ExitMeaning::Retry`].
    pub exits: BTreeMap<String, ExitMeaning>,
    /// Patterns of names (`*_TOKEN`) of variables whose values are struck from what is told of a
    /// failure.
    pub redact: Vec<String>,
    /// Memory of a job with all its processes, in bytes, above which it is ended.
    pub max_memory: Option<u64>,
    /// The niceness of jobs, -20 to 19.
    pub nice: Option<i32>,
    pub rlimits: Vec<RlimitSetting>,
    /// User ids for jobs: each that runs has one to itself.
    pub users: Option<UserRange>,
    /// Most jobs at once.
    pub concurrency: u32,
    /// Longest frame on the worker socket, in bytes, the `\n` not counted.
    pub max_frame: u64,
    pub log_format: RunnerLogFormat,
    /// The value of `log.level`.
    pub log_level: String,
}

/// A command for some types of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSetting {
    /// A type, or the beginning of some with a `*` behind it.
    pub pattern: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// The standard input of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobInput {
    /// The whole envelope.
    Envelope,
    /// Its `args` alone.
    Args,
    /// Nothing: the arguments are further words of its command.
    Argv,
    /// Nothing.
    None,
}

/// The use of a job's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobOutput {
    /// Its result.
    Result,
    /// Lines for the log; there is no result.
    Log,
}

/// The fate of processes that a job leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobLeftovers {
    /// The processes are ended before the job's outcome is reported.
    End,
    /// The processes stay.
    Keep,
}

/// The meaning of the end of a job's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitMeaning {
    /// The job is done.
    Ack,
    /// The job goes back after so many milliseconds, without a failure.
    Release { after_ms: u64 },
    /// The job failed, and may be tried again.
    Retry,
    /// The job failed, and is not tried again.
    Discard,
}

/// A resource limit of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RlimitSetting {
    /// As `setrlimit` knows it, in small letters and without its prefix (`nofile`).
    pub name: String,
    /// None: unlimited.
    pub soft: Option<u64>,
    /// None: unlimited.
    pub hard: Option<u64>,
}

/// User ids from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRange {
    pub first: u32,
    pub last: u32,
}

/// The shape of the runner's log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunnerLogFormat {
    Text,
    Json,
}

impl RunnerSettings {
    /// The settings as they are written into the variable.
    ///
    /// # Errors
    ///
    /// The directory's name is no UTF-8.
    pub fn encode(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The settings out of the variable.
    ///
    /// # Errors
    ///
    /// Something is missing or is not what it should be: somebody else than PID 1 has written this.
    pub fn decode(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> RunnerSettings {
        RunnerSettings {
            routes: vec![RouteSetting {
                pattern: "video.*".to_owned(),
                command: vec!["/bin/ffmpeg".to_owned(), "a b".to_owned()],
            }],
            input: JobInput::Envelope,
            output: JobOutput::Log,
            output_limit: 1 << 20,
            directory: Some(PathBuf::from("/work")),
            timeout_ms: Some(60_000),
            timeout_grace_ms: 30_000,
            leftovers: JobLeftovers::End,
            exits: BTreeMap::from([
                ("0".to_owned(), ExitMeaning::Ack),
                ("SIGXCPU".to_owned(), ExitMeaning::Discard),
            ]),
            redact: vec!["*_TOKEN".to_owned()],
            max_memory: None,
            nice: Some(-5),
            rlimits: vec![RlimitSetting {
                name: "nofile".to_owned(),
                soft: Some(1024),
                hard: None,
            }],
            users: Some(UserRange {
                first: 10_000,
                last: 10_009,
            }),
            concurrency: 10,
            max_frame: 4 << 20,
            log_format: RunnerLogFormat::Json,
            log_level: "info".to_owned(),
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let json = settings().encode().unwrap();
        assert_eq!(RunnerSettings::decode(&json).unwrap(), settings());
        assert!(json.contains(r#""SIGXCPU":"discard""#));
    }

    #[test]
    fn half_of_it_is_refused() {
        let json = settings().encode().unwrap();
        let (half, _) = json.split_at(json.len() / 2);
        assert!(RunnerSettings::decode(half).is_err());
        assert!(RunnerSettings::decode("{}").is_err());
    }
}
