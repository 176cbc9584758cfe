//! The variables that a job finds in its environment, beside those of the runner itself.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::config::RUNNER_VARIABLE;
use ojs_wire::runner::frames::JobFacts;

/// Most bytes of a variable that may be large. The kernel accepts 128 KiB for one; standard input
/// has no such limit.
const MOST_VALUE_BYTES: usize = 100 << 10;

/// The descriptor on which a job reports its progress.
pub const JOB_DESCRIPTOR: &str = "3";

/// Variables that every job gets anew. A job without a value for one of them does not inherit the
/// runner's either.
const OF_A_JOB: [&str; 12] = [
    "OJS_JOB_ID",
    "OJS_JOB_TYPE",
    "OJS_JOB_QUEUE",
    "OJS_JOB_ATTEMPT",
    "OJS_JOB_MAX_ATTEMPTS",
    "OJS_JOB_DEADLINE",
    "OJS_JOB_ARGS",
    "OJS_JOB_CHECKPOINT",
    "OJS_JOB_FD",
    "OJS_INIT",
    "TRACEPARENT",
    "TMPDIR",
];

/// Variables that are the runner's alone. Sockets that were handed to the container (`LISTEN_FDS`)
/// are not handed on to jobs.
const OF_THE_RUNNER: [&str; 5] = [
    RUNNER_VARIABLE,
    "OJS_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// Facts for a job besides those in its envelope.
#[derive(Debug, Clone, Copy)]
pub struct JobExtras<'a> {
    /// When its time ends (RFC 3339).
    pub deadline: Option<&'a str>,
    /// JSON.
    pub checkpoint: Option<&'a str>,
    /// Its own directory for temporary files.
    pub temporary: Option<&'a Path>,
    /// The path of ojs-init.
    pub program: Option<&'a OsStr>,
}

/// The variables of a job: those it gets, and those it does not inherit.
#[derive(Debug, PartialEq, Eq)]
pub struct JobVariables {
    pub set: Vec<(&'static str, OsString)>,
    pub remove: Vec<&'static str>,
}

/// The variables for this job.
pub fn variables(job: &JobFacts<'_>, extras: &JobExtras<'_>) -> JobVariables {
    let short = |value: Option<&str>| {
        let value = value.filter(|value| value.len() <= MOST_VALUE_BYTES);
        value.map(OsString::from)
    };
    let number = |value: Option<u64>| value.map(|number| number.to_string().into());
    let values: [Option<OsString>; OF_A_JOB.len()] = [
        short(Some(&job.id)),
        short(Some(&job.kind)),
        short(Some(&job.queue)),
        number(job.attempt),
        number(job.max_attempts),
        short(extras.deadline),
        short(job.args),
        short(extras.checkpoint),
        short(Some(JOB_DESCRIPTOR)),
        extras.program.map(OsString::from),
        short(job.traceparent.as_deref()),
        extras.temporary.map(OsString::from),
    ];
    let mut set = Vec::with_capacity(OF_A_JOB.len());
    let mut remove = OF_THE_RUNNER.to_vec();
    for (name, value) in OF_A_JOB.into_iter().zip(values) {
        match value {
            Some(value) => set.push((name, value)),
            // If a directory could not be made, the shared one is better than none.
            None if name == "TMPDIR" => {}
            None => remove.push(name),
        }
    }
    JobVariables { set, remove }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: JobExtras<'_> = JobExtras {
        deadline: None,
        checkpoint: None,
        temporary: None,
        program: None,
    };

    fn value<'a>(variables: &'a JobVariables, name: &str) -> Option<&'a str> {
        let found = variables.set.iter().find(|(set, _)| *set == name);
        found.map(|(_, value)| value.to_str().unwrap())
    }

    #[test]
    fn a_job_finds_what_its_envelope_says() {
        let job = JobFacts {
            id: "a".to_owned(),
            kind: "video.encode".to_owned(),
            queue: "media".to_owned(),
            attempt: Some(2),
            max_attempts: Some(5),
            timeout: None,
            args: Some("[1]"),
            traceparent: Some("00-ab".to_owned()),
        };
        let extras = JobExtras {
            deadline: Some("2026-01-01T00:00:00Z"),
            checkpoint: Some("{\"page\":7}"),
            temporary: Some(Path::new("/tmp/x")),
            program: Some(OsStr::new("/ojs-init")),
        };
        let variables = variables(&job, &extras);
        for (name, expected) in [
            ("OJS_JOB_ID", "a"),
            ("OJS_JOB_TYPE", "video.encode"),
            ("OJS_JOB_QUEUE", "media"),
            ("OJS_JOB_ATTEMPT", "2"),
            ("OJS_JOB_MAX_ATTEMPTS", "5"),
            ("OJS_JOB_DEADLINE", "2026-01-01T00:00:00Z"),
            ("OJS_JOB_ARGS", "[1]"),
            ("OJS_JOB_CHECKPOINT", "{\"page\":7}"),
            ("OJS_JOB_FD", "3"),
            ("OJS_INIT", "/ojs-init"),
            ("TRACEPARENT", "00-ab"),
            ("TMPDIR", "/tmp/x"),
        ] {
            assert_eq!(value(&variables, name), Some(expected), "{name}");
        }
        assert_eq!(variables.remove, OF_THE_RUNNER);
    }

    #[test]
    fn what_a_job_does_not_have_it_does_not_inherit() {
        let variables = variables(&JobFacts::default(), &NOWHERE);
        for name in ["OJS_JOB_ATTEMPT", "OJS_JOB_DEADLINE", "OJS_JOB_ARGS", "TRACEPARENT"] {
            assert!(
                value(&variables, name).is_none() && variables.remove.contains(&name),
                "{name}"
            );
        }
        assert!(!variables.remove.contains(&"TMPDIR"));
        assert!(variables.remove.contains(&"OJS_SOCKET") && variables.remove.contains(&"OJS_INIT_RUNNER"));
    }

    #[test]
    fn what_is_too_large_for_a_variable_is_left_out() {
        let args = "1".repeat(MOST_VALUE_BYTES + 1);
        let job = JobFacts {
            args: Some(&args),
            ..JobFacts::default()
        };
        assert_eq!(value(&variables(&job, &NOWHERE), "OJS_JOB_ARGS"), None);
        let (within, _) = args.split_at(MOST_VALUE_BYTES);
        let job = JobFacts {
            args: Some(within),
            ..JobFacts::default()
        };
        assert_eq!(value(&variables(&job, &NOWHERE), "OJS_JOB_ARGS"), Some(within));
    }
}
