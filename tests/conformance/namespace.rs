//! Starting an init the way a case wants it, and following it to its end.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

use crate::case::{Ctx, Mode, Trouble, fail};
use crate::init::{Ask, Said};
use crate::probe::NOT_LAUNCHED;
use crate::support::pty::Terminal;
use crate::support::sys::{self, Ended};
use crate::support::trace::Trace;
use crate::support::wait::{wait_for, wait_until};
use crate::support::{proc, sys::HIGHEST_SIGNAL};

/// The caller's may name directories that are closed to the users some cases run as.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A start that is being put together.
#[derive(Debug)]
pub struct Launch<'a> {
    ctx: &'a Ctx,
    options: Vec<OsString>,
    command: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    steps: Vec<String>,
    before: Vec<OsString>,
    bare: bool,
    no_init: bool,
    under_parent: bool,
    in_background: bool,
    stdin: Stdio,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
}

impl<'a> Launch<'a> {
    /// The init alone, without a command.
    pub fn new(ctx: &'a Ctx) -> Self {
        Self {
            ctx,
            options: Vec::new(),
            command: Vec::new(),
            environment: BTreeMap::from([("PATH".into(), SEARCH_PATH.into())]),
            steps: Vec::new(),
            before: Vec::new(),
            bare: false,
            no_init: false,
            under_parent: false,
            in_background: false,
            stdin: Stdio::null(),
            stdout: None,
            stderr: None,
        }
    }

    /// Adds what says `ask`.
    pub fn say(&mut self, ask: Ask, said: Said) {
        self.bare |= ask == Ask::BareCommand;
        self.options.extend(said.arguments);
        for entry in said.environment {
            let (name, value) = entry.split_once('=').unwrap_or((&entry, ""));
            self.environment.insert(name.into(), value.into());
        }
    }

    /// More options of the init, word for word.
    pub fn options(mut self, words: &[&str]) -> Self {
        self.options.extend(words.iter().map(OsString::from));
        self
    }

    /// The command.
    pub fn command<S: AsRef<OsStr>>(mut self, words: &[S]) -> Self {
        self.command = words.iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// A shell script as the command.
    pub fn shell(self, script: &str) -> Self {
        self.command(&["sh", "-c", script])
    }

    /// An actor that logs to the file `log`.
    pub fn actor(self, options: &[&str]) -> Self {
        let words = self.ctx.probe("act", "log", options);
        self.command(&words)
    }

    /// A report to the file `report`.
    pub fn report(self, options: &[&str]) -> Self {
        let words = self.ctx.probe("report", "report", options);
        self.command(&words)
    }

    /// Sets a variable.
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Takes a variable away.
    pub fn without_variable(mut self, name: &str) -> Self {
        self.environment.remove(OsStr::new(name));
        self
    }

    /// A step of the launcher before the exec.
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// The init becomes the child of a process of its own, which `Running::pid` then names.
    pub fn under_parent(mut self) -> Self {
        self.under_parent = true;
        self
    }

    /// Behind a parent that leads the session and is in the foreground of the terminal; the init is
    /// not.
    pub fn in_background(mut self) -> Self {
        self.steps.extend(["parent".to_owned(), "background".to_owned()]);
        self.in_background = true;
        self
    }

    /// The exec waits until the process is traced.
    pub fn held(self) -> Self {
        let gate = self.ctx.at("gate");
        self.step(format!("hold={gate}"))
    }

    /// A program that execs the init, with its arguments.
    pub fn through(mut self, words: &[&str]) -> Self {
        self.before = words.iter().map(OsString::from).collect();
        self
    }

    /// The command alone, for comparison.
    pub fn without_init(mut self) -> Self {
        self.no_init = true;
        self
    }

    /// Standard input.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Standard output, instead of the file `stdout`.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// Standard error, instead of the file `stderr`.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// On a terminal, as the leader of its session.
    pub fn on_terminal(mut self) -> Result<(Self, Terminal), Trouble> {
        let (terminal, end) = Terminal::open()?;
        let again = |end: &OwnedFd| end.try_clone().map(Stdio::from);
        self.stdout = Some(again(&end)?);
        self.stderr = Some(again(&end)?);
        self.stdin = Stdio::from(end);
        Ok((self.step("terminal"), terminal))
    }

    /// Starts it.
    pub fn start(self) -> Result<Running<'a>, Trouble> {
        let ctx = self.ctx;
        let complaint = ctx.dir.join("complaint");
        let mut command = Command::new(&ctx.probe);
        command.arg("--launch").arg(&complaint);
        let own_namespace = ctx.mode == Mode::Pid1;
        if own_namespace {
            // Behind a parent of its own, only that parent's child may be the first of the
            // namespace.
            command.args(if self.under_parent {
                ["namespace", "parent", "pid1"].as_slice()
            } else {
                &["pid1"]
            });
        } else if self.under_parent {
            command.arg("parent");
        }
        command.args(&self.steps).arg("--").args(&self.before);
        if !self.no_init {
            command
                .arg(&ctx.init.program)
                .args(ctx.init.prefix(self.bare))
                .args(&self.options);
            if !self.bare && !self.command.is_empty() {
                command.arg("--");
            }
        }
        command
            .args(&self.command)
            .current_dir(&ctx.dir)
            .env_clear()
            .envs(&self.environment);
        let (name, value) = ctx.marker.split_once('=').unwrap_or((&ctx.marker, ""));
        command.env(name, value).stdin(self.stdin);
        command.stdout(self.stdout.map_or_else(|| output(ctx, "stdout"), Ok)?);
        command.stderr(self.stderr.map_or_else(|| output(ctx, "stderr"), Ok)?);
        let pid = spawn(command, own_namespace && !self.under_parent)?;
        Ok(Running {
            ctx,
            pid,
            behind_parent: self.under_parent || self.in_background,
            ended: None,
            complaint,
        })
    }
}

fn output(ctx: &Ctx, name: &str) -> Result<Stdio, Trouble> {
    Ok(File::create(ctx.dir.join(name))?.into())
}

/// Starts a process, in a new PID namespace if asked to: a thread's new namespace holds only the
/// thread's children.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the tests that starts an init"
)]
fn spawn(mut command: Command, own_namespace: bool) -> Result<i32, Trouble> {
    let mut start = move || -> Result<i32, Trouble> {
        if own_namespace {
            unshare(CloneFlags::CLONE_NEWPID).map_err(|error| {
                Trouble::Fail(format!(
                    "cannot make a PID namespace ({error}): needs root or user namespaces"
                ))
            })?;
        }
        Ok(command.spawn()?.id().cast_signed())
    };
    if !own_namespace {
        return start();
    }
    std::thread::spawn(start)
        .join()
        .unwrap_or_else(|_| fail("the thread that starts the init panicked"))
}

/// An init that runs, or has run.
#[derive(Debug)]
pub struct Running<'a> {
    ctx: &'a Ctx,
    /// The process that we started: the init, or the parent that the case asked for.
    pub pid: i32,
    behind_parent: bool,
    ended: Option<Ended>,
    complaint: PathBuf,
}

impl Running<'_> {
    /// The init's process id as we see it.
    pub fn init_pid(&self) -> Result<i32, Trouble> {
        if !self.behind_parent {
            return Ok(self.pid);
        }
        let found = wait_for(self.ctx.patience, || proc::children(self.pid).first().copied());
        found.ok_or_else(|| "the parent has no init".into())
    }

    /// Sends a signal to the init.
    pub fn signal(&self, signal: i32) -> Result<(), Trouble> {
        Ok(sys::send(self.init_pid()?, signal)?)
    }

    /// Sends a signal to the parent that the case asked for.
    pub fn signal_parent(&self, signal: i32) -> Result<(), Trouble> {
        Ok(sys::send(self.pid, signal)?)
    }

    /// Whether the init, or its parent, is still there.
    pub fn is_running(&mut self) -> Result<bool, Trouble> {
        if self.ended.is_none() {
            self.ended = sys::reap(self.pid, false)?;
        }
        Ok(self.ended.is_none())
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<Ended, Trouble> {
        let patience = self.ctx.patience;
        self.wait_at_most(patience)
    }

    /// Waits for its end that long.
    pub fn wait_at_most(&mut self, patience: std::time::Duration) -> Result<Ended, Trouble> {
        wait_until(patience, || !matches!(self.is_running(), Ok(true)));
        let Some(ended) = self.ended else {
            return fail(format!("hangs: still there after {:.1} s", patience.as_secs_f32()));
        };
        match std::fs::read_to_string(&self.complaint) {
            Ok(complaint) if ended == Ended::Code(NOT_LAUNCHED) => {
                fail(format!("the test could not start: {complaint}"))
            }
            _ => Ok(ended),
        }
    }

    /// Somebody else has seen it end.
    pub fn was_reaped(&mut self, ended: Ended) {
        self.ended = Some(ended);
    }

    /// Waits for its end without looking in between; when that was, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub fn wait_without_pause(&mut self) -> Result<u64, Trouble> {
        self.ended = sys::reap(self.pid, true)?;
        Ok(sys::monotonic_ns())
    }

    /// Waits for its end, which must be this exit status.
    pub fn ends_with(&mut self, status: i32) -> Result<(), Trouble> {
        match self.wait()? {
            Ended::Code(code) if code == status => Ok(()),
            Ended::Code(code) => fail(format!("exit status {code}, not {status}{}", self.excuse())),
            Ended::Signal(signal) => fail(format!(
                "killed by signal {signal} itself instead of exit status {status}{}",
                self.excuse()
            )),
        }
    }

    /// Its words, short, for a reason.
    fn excuse(&self) -> String {
        let said = self.stderr();
        let last = said.lines().next_back().unwrap_or_default();
        if last.is_empty() {
            String::new()
        } else {
            format!(" ({})", last.chars().take(100).collect::<String>())
        }
    }

    /// Traces the init from its exec on; it is killed when the body is done.
    pub fn trace<T>(&mut self, body: impl FnOnce(&mut Trace) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let mut trace = Trace::seize(self.pid)?;
        std::fs::write(self.ctx.at("gate"), "open")?;
        let result = body(&mut trace);
        self.ended = trace.finish();
        result
    }

    /// Waits for a file that a probe publishes, and reads it.
    pub fn file(&mut self, name: &str) -> Result<String, Trouble> {
        let path = self.ctx.dir.join(name);
        let patience = self.ctx.patience;
        wait_until(patience, || path.exists() || !matches!(self.is_running(), Ok(true)));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(_) if self.ended.is_some() => {
                let ended = self.wait()?;
                fail(format!(
                    "the init was gone ({ended:?}) before {name} was there{}",
                    self.excuse()
                ))
            }
            Err(_) => fail(format!(
                "the child did not get ready in {} s{}",
                patience.as_secs(),
                self.excuse()
            )),
        }
    }

    /// Waits until the probe that logs to this file is ready; the value is its process id as we see
    /// it.
    pub fn ready(&mut self, log: &str) -> Result<i32, Trouble> {
        let inner = self.file(&format!("{log}.ready"))?;
        let inner = inner
            .trim()
            .parse::<i32>()
            .map_err(|error| Trouble::Fail(error.to_string()))?;
        self.outer_pid(inner)
    }

    /// The process id as we see it of a process that calls itself `inner`.
    pub fn outer_pid(&self, inner: i32) -> Result<i32, Trouble> {
        let is_it = |pid: &i32| proc::inner_pid(*pid) == Some(inner);
        let near = proc::descendants(self.pid).into_iter().find(is_it);
        // A daemon of an init that adopts nobody is no descendant any more.
        let found = near.or_else(|| proc::with_environment(&self.ctx.marker).into_iter().find(is_it));
        found.ok_or_else(|| Trouble::Fail(format!("process {inner} of the namespace is not there")))
    }

    /// The signals that a probe has logged until now.
    pub fn logged(&self, log: &str) -> Vec<i32> {
        let text = std::fs::read_to_string(self.ctx.dir.join(log)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Waits until a probe has logged this many signals at least.
    pub fn logs(&mut self, log: &str, count: usize) -> Result<Vec<i32>, Trouble> {
        wait_until(self.ctx.patience, || self.logged(log).len() >= count);
        let logged = self.logged(log);
        if logged.len() >= count {
            Ok(logged)
        } else {
            fail(format!("{} of {count} signals reached the child", logged.len()))
        }
    }

    /// The standard error of the init and its child.
    pub fn stderr(&self) -> String {
        self.text("stderr")
    }

    /// The standard output of the init and its child.
    pub fn stdout(&self) -> String {
        self.text("stdout")
    }

    fn text(&self, name: &str) -> String {
        let bytes = std::fs::read(self.ctx.dir.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = sys::send(self.pid, libc::SIGKILL);
            let _ = sys::reap(self.pid, true);
        }
        sweep(&self.ctx.marker);
    }
}

/// Kills every process that carries the marker, until there is none.
pub fn sweep(marker: &str) {
    let gone = || {
        let left: Vec<i32> = proc::with_environment(marker)
            .into_iter()
            .filter(|&pid| proc::lives(pid))
            .collect();
        for &pid in &left {
            let _ = sys::send(pid, libc::SIGKILL);
        }
        left.is_empty()
    };
    wait_until(std::time::Duration::from_secs(5), gone);
}

/// Signals as a short text.
pub fn list(signals: &[i32]) -> String {
    let known = signals.iter().filter(|&&signal| (1..=HIGHEST_SIGNAL).contains(&signal));
    let words: Vec<String> = known.map(ToString::to_string).collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(" ")
    }
}

/// A copy of a program where every user may run it.
pub fn copy_for_all(from: &Path, to: &Path) -> Result<PathBuf, String> {
    let copied = std::fs::copy(from, to).and_then(|_| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(to, mode)
    });
    copied
        .map(|()| to.to_owned())
        .map_err(|error| format!("{}: {error}", from.display()))
}

/// Without root, a user namespace in which we are root; PID and mount namespaces need one or the
/// other.
///
/// To be called while the program has a single thread: the kernel wants it so.
pub fn become_root() -> Result<(), String> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    if user.is_root() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("user namespace: {error}");
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| {
        format!("cannot test an init as process 1: this needs root or unprivileged user namespaces ({error})")
    })?;
    std::fs::write("/proc/self/setgroups", "deny").map_err(failed)?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1")).map_err(failed)?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1")).map_err(failed)
}
