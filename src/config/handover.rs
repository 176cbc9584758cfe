//! Settings of the programs of ojs-init that PID 1 starts as the worker. These are the runner of
//! mode exec and the keeper of copies. PID 1 passes the settings as one text in a variable, and the
//! program reads them into equal sections.

use std::collections::BTreeMap;

use super::key::{Row, Scope};
use super::keys::{
    CONCURRENCY, KEYS, LEFTOVERS, LOG_FORMAT, LOG_LEVEL, MAX_FRAME, ON_TERMINATE, PROCESS_GROUP, PROCESSES, RESTART,
    TIMEOUT_GRACE,
};
use super::sections::{Config, Exec, Log, Worker};
use super::settings::Settings;
use super::source::Source;
use super::values::enums::Mode;
use ojs_lifecycle::api::Leftovers;
use ojs_values::signal::Signal;

/// The variable of the runner's environment that has them. Jobs do not see it, and there is no
/// secret in it.
pub const RUNNER_VARIABLE: &str = "OJS_INIT_RUNNER";

/// A program of ojs-init that PID 1 starts as the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnProgram {
    /// Runs a process for each job (mode exec).
    Runner,
    /// Runs several copies of COMMAND (`worker.processes`).
    Copies,
}

impl OwnProgram {
    /// Its subcommand.
    pub fn word(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Copies => "copies",
        }
    }
}

/// The default of `signals.on_terminate` for the keeper of copies, which learns from it that the
/// drain begins. A process without a handler ignores it.
pub const TERMINATE_SIGNAL: Signal = Signal::URG;

impl Config {
    /// The program of ojs-init that PID 1 starts as the worker; none: COMMAND itself is the worker.
    pub fn own_program(&self) -> Option<OwnProgram> {
        match self.mode {
            Mode::Exec => Some(OwnProgram::Runner),
            Mode::Socket | Mode::Gateway => (self.worker.processes > 1).then_some(OwnProgram::Copies),
            Mode::None => None,
        }
    }
}

/// How the runner starts jobs, and the meaning of their ends. The command for jobs without a route
/// is not in it. PID 1 passes it as arguments, because its bytes need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerSettings {
    pub exec: Exec,
    pub worker: Worker,
    pub log: Log,
    /// Also send the worker's signals to its children (`-g`).
    pub process_group: bool,
    /// The signal that copies get when the drain begins.
    pub on_terminate: Option<Signal>,
    /// The outcome of a job that ends because it was cancelled.
    pub leftovers: Leftovers,
}

impl RunnerSettings {
    /// The settings of the runner, as they are written into the variable.
    ///
    /// # Errors
    /// The runner would read a value differently; the text names its key. That is a bug of
    /// ojs-init. It has to show here, at the start and in `config check`, and not in each runner.
    pub fn encode(settings: &Settings) -> Result<String, String> {
        let mut all = BTreeMap::new();
        for setting in settings.iter().filter(|setting| is_needed(setting.key)) {
            let (label, texts) = (setting.key.label(), setting.value.texts());
            // A key that is set to nothing keeps its default.
            if texts.is_empty() {
                continue;
            }
            let read = (setting.key.values.read)(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            if !read.is_ok_and(|value| value.equals(&*setting.value)) {
                return Err(format!("{label} = {} would be read differently", setting.value.shown()));
            }
            all.insert(label, texts);
        }
        serde_json::to_string(&all).map_err(|error| error.to_string())
    }

    /// Reads the settings from the variable.
    ///
    /// # Errors
    /// The text is malformed, because a program other than PID 1 has written it.
    pub fn decode(json: &str) -> Result<Self, String> {
        let texts: BTreeMap<String, Vec<String>> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let mut settings = Settings::default();
        for (label, texts) in &texts {
            let key = KEYS.iter().copied().find(|key| is_needed(key) && key.label() == label);
            let key = key.ok_or_else(|| format!("{label} is not for the runner"))?;
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let offered = settings.offer(key, &texts, Source::Environment(RUNNER_VARIABLE));
            offered.map_err(|error| error.to_string())?;
        }
        Ok(Self {
            exec: Exec::of(&settings),
            worker: Worker::of(&settings),
            log: Log::of(&settings),
            process_group: settings.value(&PROCESS_GROUP),
            on_terminate: settings.value(&ON_TERMINATE),
            leftovers: settings.value(&LEFTOVERS),
        })
    }

    /// Memory of a job with all its processes, in bytes, above which it is ended. PID 1 has made
    /// bytes of a share.
    pub fn max_memory(&self) -> Option<u64> {
        self.exec.max_memory?.bytes(|| None)
    }
}

fn is_needed(key: &Row) -> bool {
    let shared: [&Row; 10] = [
        &CONCURRENCY,
        &TIMEOUT_GRACE,
        &MAX_FRAME,
        &PROCESSES,
        &RESTART,
        &ON_TERMINATE,
        &LEFTOVERS,
        &PROCESS_GROUP,
        &LOG_FORMAT,
        &LOG_LEVEL,
    ];
    key.scope == Scope::Exec || shared.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::EXEC_MAX_MEMORY;
    use crate::config::values::duration::Bytes;
    use crate::config::values::limits::MemoryLimit;

    fn set(values: &[(&str, &[&str])]) -> Settings {
        let mut settings = Settings::default();
        for (label, texts) in values {
            let key = KEYS.iter().copied().find(|key| key.label() == *label).unwrap();
            settings.offer(key, texts, Source::Default).unwrap();
        }
        settings
    }

    #[test]
    fn the_runner_reads_what_pid_1_has() {
        let settings = set(&[
            ("exec.routes", &["video.*\0/bin/ffmpeg\0a b\0", "a\0x,y=z"]),
            ("exec.input", &["argv"]),
            ("exec.output", &["log"]),
            ("exec.output_limit", &["1000001"]),
            ("exec.directory", &["/work, of=all"]),
            ("exec.timeout", &["1m1.5s"]),
            ("exec.leftovers", &["keep"]),
            ("exec.exit", &["2=discard", "76=later:5s", "SIGXCPU=retry"]),
            ("exec.redact", &["*_TOKEN", "URL"]),
            ("exec.max_memory", &["1048577"]),
            ("exec.nice", &["-5"]),
            ("exec.rlimits", &["nofile=1024:unlimited", "as=1GiB"]),
            ("exec.users", &["80000-80009"]),
            ("worker.concurrency", &["7"]),
            ("worker.timeout_grace", &["250ms"]),
            ("worker.max_frame", &["65537"]),
            ("log.format", &["json"]),
            ("log.level", &["info,gateway=debug"]),
            ("worker.queues", &["not", "for", "it"]),
        ]);
        let read = RunnerSettings::decode(&RunnerSettings::encode(&settings).unwrap()).unwrap();
        assert_eq!(read.exec, Exec::of(&settings));
        assert_eq!(read.log, Log::of(&settings));
        assert_eq!(read.max_memory(), Some(1_048_577));
        let worker = Worker::of(&settings);
        let of = |worker: &Worker| (worker.concurrency, worker.timeout_grace, worker.max_frame);
        assert_eq!(of(&read.worker), of(&worker));
        assert_ne!(read.worker.queues, worker.queues);
    }

    #[test]
    fn each_key_of_mode_exec_survives_as_its_example() {
        for key in KEYS.iter().copied().filter(|key| is_needed(key)) {
            let mut texts = Vec::new();
            key.notation.form.split(key.notation.example, &mut texts);
            let settings = set(&[(key.label(), &texts)]);
            let read = RunnerSettings::decode(&RunnerSettings::encode(&settings).unwrap()).unwrap();
            assert_eq!(
                (read.exec, read.log),
                (Exec::of(&settings), Log::of(&settings)),
                "{}",
                key.label()
            );
        }
    }

    #[test]
    fn values_that_are_spelled_unusually_survive() {
        for (label, texts) in [
            ("exec.rlimits", &[][..]),
            ("exec.routes", &[]),
            ("exec.exit", &[]),
            (
                "exec.exit",
                &[
                    "RTMIN+3=discard",
                    "rtmax-1=retry",
                    "64=ack",
                    "iot=release",
                    "3=later:1500ms",
                ],
            ),
            ("exec.redact", &[]),
            ("exec.redact", &["off"]),
            ("exec.redact", &["DB,URL", "A,", "*,B*"]),
            ("exec.directory", &["a,b=c"]),
            ("exec.max_memory", &["1MiB"]),
            ("exec.rlimits", &["nice=0", "core=unlimited"]),
            ("log.level", &["warn,gateway=trace,backend=error"]),
        ] {
            let settings = set(&[(label, texts)]);
            let read = RunnerSettings::decode(&RunnerSettings::encode(&settings).unwrap()).unwrap();
            let expected = (Exec::of(&settings), Log::of(&settings));
            assert_eq!((read.exec, read.log), expected, "{label} {texts:?}");
        }
    }

    #[test]
    fn a_value_that_would_be_read_differently_is_refused_with_its_key() {
        let mut settings = Settings::default();
        let too_small = Some(MemoryLimit::Bytes(Bytes(1)));
        settings.replace(&EXEC_MAX_MEMORY, too_small, Source::Default);
        let refused = RunnerSettings::encode(&settings).unwrap_err();
        assert!(refused.contains("exec.max_memory"), "{refused}");
    }

    #[test]
    fn what_is_not_for_the_runner_is_refused() {
        for json in ["", "{", r#"{"exec.input":["none"]"#, r#"{"backend.url":["http://b"]}"#] {
            assert!(RunnerSettings::decode(json).is_err(), "{json}");
        }
        assert!(RunnerSettings::decode(r#"{"exec.input":["nonsense"]}"#).is_err());
    }
}
