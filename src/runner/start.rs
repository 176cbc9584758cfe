//! From a job's envelope to its process.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::fchown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;

use crate::config::RunnerSettings;
use crate::config::values::enums::ExecInput;
use crate::config::values::limits::Rlimits;
use crate::runner::environment::{self, JobExtras};
use crate::runner::job::{Belongings, JobNumber, RunningJob, Stage};
use crate::runner::news::UnsentNews;
use crate::runner::process::JobProcess;
use crate::runner::routes::{JobCommands, RouteCommand};
use crate::runner::streams::{JobStreams, OpenStreams, never_wait};
use crate::runner::temporary::TemporaryDirectories;
use crate::runner::users::Users;
use ojs_lifecycle::api::{JobId, Moment, Subject};
use ojs_os::cgroup::OomKills;
use ojs_os::child::{ChildPlan, SpawnError};
use ojs_os::clock;
use ojs_os::entry::Environ;
use ojs_os::errno::{is_shortage, meaning};
use ojs_os::init;
use ojs_os::job_child::{JobTraits, Limit};
use ojs_os::memfd;
use ojs_os::open_files::OpenFiles;
use ojs_os::process;
use ojs_os::program_file::ProgramFault;
use ojs_os::user::Credentials;
use ojs_values::exit::Exit;
use ojs_wire::runner::arguments;
use ojs_wire::runner::frames::{JobFacts, JobOrder};
use ojs_wire::runner::template;

/// Points that a job has more than the runner when the kernel chooses a process because memory ran
/// out.
const MORE_OOM_SCORE: i32 = 500;

/// Most points of a process.
const MOST_OOM_SCORE: i32 = 1000;

/// The meaning of E2BIG.
const TOO_LONG: &str = "its arguments and its environment together are too long for the kernel, which takes a quarter of the limit \
                        of the stack (ulimit -s); give a job its arguments on standard input (exec.input)";

/// The state that the start of a job needs.
#[derive(Debug)]
pub struct Starter {
    pub settings: RunnerSettings,
    pub routes: JobCommands,
    pub limits: Vec<Limit>,
    pub environ: Environ,
    /// The path of this program.
    pub program: Option<OsString>,
    pub temporary: TemporaryDirectories,
    pub users: Users,
    /// Input of jobs can be in memory files.
    pub has_memory_files: bool,
    pub oom_kills: Option<OomKills>,
    /// The `oom_score_adj` of jobs. `None`: it cannot be set.
    pub oom_score: Option<String>,
}

/// Why no process was started.
#[derive(Debug)]
pub enum ProcessNotStarted {
    /// No command accepts its type.
    NoHandler,
    /// The system has no process, descriptor or memory at the moment. Another attempt may succeed.
    Shortage(io::Error),
    /// The reason, for a person. Trying again does not help.
    Refused(String),
}

/// The runner's ends of a job's descriptors, and the job's ends.
struct Ends {
    ours: OpenStreams,
    /// Standard input, output and error, and the channel.
    theirs: [OwnedFd; 4],
}

impl Starter {
    /// Starts the process of a job.
    ///
    /// # Errors
    ///
    /// See [`ProcessNotStarted`]; a failed attempt leaves nothing behind.
    pub fn start(
        &mut self,
        number: JobNumber,
        order: &JobOrder,
        facts: &JobFacts<'_>,
        deadline: Option<&str>,
    ) -> Result<RunningJob, ProcessNotStarted> {
        let user = self.users.take().map_err(|()| {
            // More jobs than users: the configuration does not allow it.
            ProcessNotStarted::Refused("every user of exec.users has a job".to_owned())
        })?;
        let mut belongings = Belongings { temporary: None, user };
        match self.temporary.make(number, user) {
            Ok(temporary) => belongings.temporary = temporary,
            Err(error) => {
                self.give_back(belongings);
                return Err(ProcessNotStarted::Shortage(error));
            }
        }
        let kills_before = self.oom_kills.as_ref().map_or(0, OomKills::total);
        match self.start_with(order, facts, deadline, &belongings) {
            Ok((process, streams)) => Ok(RunningJob {
                subject: subject(facts),
                stage: Stage::Running,
                process,
                streams,
                news: UnsentNews::default(),
                cause: None,
                kills_before,
                is_withheld: false,
                answer_by: None,
                started: Moment::new(clock::monotonic()),
                belongings,
            }),
            Err(error) => {
                self.give_back(belongings);
                Err(error)
            }
        }
    }

    /// When the time of a job ends that is delivered now (RFC 3339); `None`: it has no timeout.
    pub fn deadline(&self, facts: &JobFacts<'_>) -> Option<String> {
        let timeout = facts.timeout.or(self.settings.exec.timeout)?;
        let deadline = clock::wall().checked_add(timeout).ok()?;
        Some(format!("{deadline:.3}"))
    }

    /// Frees the resources of an ended job.
    pub fn give_back(&mut self, belongings: Belongings) {
        if let Some(path) = belongings.temporary {
            self.temporary.remove(path);
        }
        if let Some(user) = belongings.user {
            self.users.give_back(user);
        }
    }

    fn start_with(
        &self,
        order: &JobOrder,
        facts: &JobFacts<'_>,
        deadline: Option<&str>,
        belongings: &Belongings,
    ) -> Result<(JobProcess, JobStreams), ProcessNotStarted> {
        let command = self.routes.find(&facts.kind).ok_or(ProcessNotStarted::NoHandler)?;
        let words = self.words(command, facts).map_err(ProcessNotStarted::Refused)?;
        let ends = self.ends(order, facts, belongings.user).map_err(|error| match error {
            error if is_shortage(&error) => ProcessNotStarted::Shortage(error),
            error => ProcessNotStarted::Refused(format!("its input and output cannot be made: {}", meaning(&error))),
        })?;
        let mut plan = self.plan(&words, order, facts, deadline, belongings)?;
        plan.job = Some(self.traits(ends.theirs)?);
        let directory = self.settings.exec.directory.as_deref();
        let started = plan.spawn();
        if belongings.user.is_some() {
            // A child that changes its user makes the memory that it shares until then readable to
            // others again. This call succeeded when the runner started.
            let _ = init::forbid_dumps();
        }
        let pid = started.map_err(|error| not_started(&words, error, &|| plan.trouble(directory)))?;
        let (exec, max_frame) = (&self.settings.exec, self.settings.worker.max_frame);
        let streams = JobStreams::new(ends.ours, exec.output, exec.output_limit, max_frame);
        // The kernel ends it first when memory runs out. Without the permission to write this it is
        // one among others.
        if let Some(score) = &self.oom_score {
            let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), score);
        }
        Ok((JobProcess::new(pid), streams))
    }

    /// The program and its arguments.
    fn words(&self, command: &RouteCommand, facts: &JobFacts<'_>) -> Result<Vec<OsString>, String> {
        let named = |why: String| format!("{why} ({}, job {})", command.name, facts.id);
        let mut words = command.template.fill(facts).map_err(named)?;
        if self.settings.exec.input == ExecInput::Argv {
            for (number, word) in arguments::words(facts.args.unwrap_or_default()).into_iter().enumerate() {
                template::check_word(&word).map_err(|why| named(format!("argument {number} {why}")))?;
                words.push(word.into());
            }
        }
        Ok(words)
    }

    fn traits(&self, descriptors: [OwnedFd; 4]) -> Result<JobTraits, ProcessNotStarted> {
        let exec = &self.settings.exec;
        let directory = exec.directory.as_deref();
        let directory = directory
            .map(|name| CString::new(name.as_os_str().as_bytes()))
            .transpose();
        Ok(JobTraits {
            descriptors,
            directory: directory.map_err(|_| ProcessNotStarted::Refused("a NUL byte in exec.directory".to_owned()))?,
            nice: exec.nice.map(|nice| nice.0),
            limits: self.limits.clone(),
        })
    }

    fn plan(
        &self,
        command: &[OsString],
        order: &JobOrder,
        facts: &JobFacts<'_>,
        deadline: Option<&str>,
        belongings: &Belongings,
    ) -> Result<ChildPlan, ProcessNotStarted> {
        let extras = JobExtras {
            deadline,
            checkpoint: order.checkpoint.as_deref(),
            temporary: belongings.temporary.as_deref(),
            program: self.program.as_deref(),
        };
        let variables = environment::variables(facts, &extras);
        let set: Vec<(&str, &OsStr)> = variables
            .set
            .iter()
            .map(|(name, value)| (*name, value.as_os_str()))
            .collect();
        let plan = ChildPlan::new(command, &self.environ);
        let plan = plan.and_then(|plan| plan.with_environment(&set, &variables.remove));
        let mut plan = plan
            .map_err(|_| ProcessNotStarted::Refused("a NUL byte in its id, type, queue or trace context".to_owned()))?;
        plan.credentials = belongings.user.map(|user| Credentials {
            uid: user,
            gid: user,
            groups: Vec::new(),
        });
        Ok(plan)
    }

    fn input(&self, name: &CStr, text: &str) -> io::Result<OwnedFd> {
        if self.has_memory_files {
            memfd::sealed(name, text.as_bytes())
        } else {
            self.temporary.file(text.as_bytes())
        }
    }

    fn ends(&self, order: &JobOrder, facts: &JobFacts<'_>, user: Option<u32>) -> io::Result<Ends> {
        let stdin = match self.settings.exec.input {
            ExecInput::Envelope => self.input(c"job", &order.envelope)?,
            ExecInput::Args => self.input(c"args", facts.args.unwrap_or("null"))?,
            ExecInput::Argv | ExecInput::Nothing => File::open("/dev/null")?.into(),
        };
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        if let Some(user) = user {
            // Opening /dev/stdout by its name needs permission once more. Without that the open
            // descriptor still works.
            let _ = fchown(&their_stdout, Some(user), Some(user));
            let _ = fchown(&their_stderr, Some(user), Some(user));
        }
        let (channel, their_channel) = UnixStream::pair()?;
        never_wait(&stdout)?;
        never_wait(&stderr)?;
        channel.set_nonblocking(true)?;
        Ok(Ends {
            ours: OpenStreams {
                stdout: Some(stdout),
                stderr: Some(stderr),
                channel: Some(channel),
            },
            theirs: [stdin, their_stdout.into(), their_stderr.into(), their_channel.into()],
        })
    }
}

/// Checks once whether input of jobs can be in memory files. A shortage at the moment does not
/// count as an error.
///
/// # Errors
///
/// Memory files are never available: a seccomp profile forbids them, or the kernel lacks them.
pub fn check_memory_files() -> io::Result<()> {
    match memfd::sealed(c"probe", b"") {
        Err(error) if !is_shortage(&error) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The `oom_score_adj` of jobs. `None`: `/proc` is missing, or the number of a job would name a
/// stranger there.
pub fn oom_score() -> Option<String> {
    process::check_proc().ok()?;
    let own = fs::read_to_string("/proc/self/oom_score_adj").ok()?;
    let own: i32 = own.trim().parse().ok()?;
    Some(own.saturating_add(MORE_OOM_SCORE).min(MOST_OOM_SCORE).to_string())
}

/// The limits of jobs: that of descriptors which the runner itself had before, then the configured
/// ones. The configuration uses equal names.
pub fn limits(open_files: Option<OpenFiles>, rlimits: &Rlimits) -> Vec<Limit> {
    let configured = rlimits.0.iter();
    let configured = configured.filter_map(|limit| Limit::named(limit.resource, limit.soft, limit.hard));
    open_files.map(Limit::from).into_iter().chain(configured).collect()
}

/// Checks that every command exists and may be executed, as a start in `directory` would find it.
///
/// # Errors
///
/// One does not or may not: the shell's exit status for that, and a text for a person.
pub fn check_commands(routes: &JobCommands, directory: Option<&Path>, environ: &Environ) -> Result<(), (Exit, String)> {
    for command in routes.commands() {
        let program = command.template.program();
        let plan = ChildPlan::new(std::slice::from_ref(&program), environ);
        let rehearsed = plan.map(|plan| plan.seen_from(directory).rehearse());
        let Ok(Err(SpawnError::Exec(error))) = rehearsed else {
            continue;
        };
        let (name, program) = (&command.name, program.to_string_lossy());
        let message = format!("{name}: cannot execute {program:?}: {}", meaning(&error));
        return Err((exit_of(&error), message));
    }
    Ok(())
}

/// The shell's exit status for a program that cannot be executed because of this error.
pub(super) fn exit_of(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::NotFound {
        Exit::NotFound
    } else {
        Exit::NotExecutable
    }
}

/// The job, for its log records.
fn subject(facts: &JobFacts<'_>) -> Subject {
    Subject {
        id: JobId(facts.id.as_str().into()),
        kind: facts.kind.as_str().into(),
        queue: facts.queue.as_str().into(),
        attempt: facts.attempt,
        max_attempts: None,
        trace: None,
    }
}

/// Why a program did not start, for the log.
pub(super) fn not_started(
    command: &[OsString],
    error: SpawnError,
    trouble: &dyn Fn() -> Option<ProgramFault>,
) -> ProcessNotStarted {
    let program = command
        .first()
        .map(|program| program.to_string_lossy())
        .unwrap_or_default();
    match error {
        SpawnError::NoProcess(error) if is_shortage(&error) => ProcessNotStarted::Shortage(error),
        SpawnError::NoProcess(error) => {
            ProcessNotStarted::Refused(format!("no process may be created: {}", meaning(&error)))
        }
        SpawnError::User { step, error } => ProcessNotStarted::Refused(format!("{step}: {}", meaning(&error))),
        SpawnError::Traits(error) => ProcessNotStarted::Refused(format!(
            "exec.directory, exec.nice or exec.rlimits: {}",
            meaning(&error)
        )),
        SpawnError::Exec(error) => {
            let why = match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOENT | Errno::ENOEXEC) => trouble().map(|trouble| trouble.words),
                Some(Errno::E2BIG) => Some(TOO_LONG.to_owned()),
                Some(_) | None => None,
            };
            let why = why.unwrap_or_else(|| meaning(&error));
            ProcessNotStarted::Refused(format!("cannot execute {program:?}: {why}"))
        }
    }
}
