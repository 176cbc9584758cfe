//! The end of a job: its last output, its leftover processes, and the report of its outcome.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use log::{Level, warn};
use ojs_values::small;

use crate::config::values::enums::ExecLeftovers;
use crate::daemon::log::record::LogRecord;
use crate::daemon::log::remedy::remedy;
use crate::daemon::log::sink;
use crate::runner::job::{JobNumber, RunningJob, Stage};
use crate::runner::leftovers::{self, ProcessMarks};
use crate::runner::outcome::{self, EndedFor, JobEnding, JobOutcome};
use crate::runner::state::{Runner, RunnerTimer};
use ojs_lifecycle::api::Moment;
use ojs_os::errno::is_shortage;
use ojs_os::process::Pid;
use ojs_os::reaper::{self, Usage};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;
use ojs_wire::text::milliseconds;

/// How long the leftovers of a job are looked for.
const CLEARING_LIMIT: Duration = Duration::from_secs(1);

/// The pause between the first two looks; each further one is twice as long.
const FIRST_PASS_PAUSE: Duration = Duration::from_millis(1);

/// Longest such pause.
const LONGEST_PASS_PAUSE: Duration = Duration::from_millis(50);

/// In the first looks, 15 ms together, a process without an environment may be about to execute a
/// program. Later it counts as one that has none.
const DOUBTFUL_PASSES: u32 = 4;

/// How long a job waits for an ending process that may belong to it. The children of that process
/// are adopted only after its end.
const ENDING_LIMIT: Duration = Duration::from_millis(100);

/// Most looks for processes that no job is known to have left, as long as none is started.
const MOST_STRAY_LOOKS: u32 = 20;

/// Most processes that one line of the log lists.
const LISTED_PIDS: usize = 10;

/// Of the time that a job's answer has, so much is kept back for the answer itself.
const ANSWER_TIME: Duration = Duration::from_millis(50);

impl Runner {
    /// The process of a job has ended. It is reaped last: until then no other process can have its
    /// number, nor its group's.
    pub fn process_ended(&mut self, number: JobNumber, now: Moment) {
        let Some(job) = self.jobs.get_mut(&number).filter(|job| !job.has_ended()) else {
            return;
        };
        if !job.process.has_ended() && job.stage != Stage::Killed {
            // Another process traces it (strace, gdb). The kernel withholds the end from the runner
            // until the tracer has seen it, and then sends a SIGCHLD. A SIGKILL does not wait for
            // that.
            job.is_withheld = true;
            self.has_unwatched = true;
            return;
        }
        job.streams
            .read_rest(&job.subject.id.0, &mut self.reader, &mut job.news);
        job.stage = Stage::Clearing { since: now, passes: 0 };
        self.clear(number, now);
    }

    /// Ends the leftovers of a job, then reports its outcome.
    pub fn clear(&mut self, number: JobNumber, now: Moment) {
        let has_user = match self.jobs.get(&number) {
            Some(job) if job.has_ended() => job.belongings.user.is_some(),
            Some(_) | None => return,
        };
        let keeps = match self.starter.settings.exec.leftovers {
            ExecLeftovers::Keep => !has_user,
            ExecLeftovers::End => false,
        };
        if keeps {
            return self.finish(number, now);
        }
        let mut strangers = match self.strangers() {
            Ok(strangers) => strangers,
            Err(error) => return self.clear_unlisted(number, &error, now),
        };
        // Skip ending processes that belonged to another job.
        strangers.retain(|pid| self.killed.get(pid).is_none_or(|of| *of == number));
        if strangers.is_empty() {
            return self.finish(number, now);
        }
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        let Stage::Clearing { passes, .. } = job.stage else {
            return;
        };
        let found = leftovers::end_marked(&strangers, &ProcessMarks::of(job));
        self.killed.extend(found.marked.iter().map(|pid| (*pid, number)));
        let left = self.killed.values().filter(|of| **of == number).count();
        let is_doubtful = found.has_doubts && passes < DOUBTFUL_PASSES;
        let is_awaited = self.is_awaited(&found.ending, now);
        if left == 0 && !is_doubtful && !is_awaited {
            return self.finish(number, now);
        }
        if self.looks_again(number, now) {
            return;
        }
        if left > 0
            && let Some(job) = self.jobs.get(&number)
        {
            let of_job = self.killed.iter().filter(|(_, of)| **of == number);
            warn!(
                "job {}: {left} of the processes that it left behind are still there after SIGKILL, pid {}; look for \
                 state D, or set exec.users",
                job.subject.id.0,
                pids(of_job.map(|(pid, _)| *pid))
            );
        }
        self.finish(number, now);
    }

    /// Ends the leftovers of a job that can be ended without a list of the runner's children. A
    /// signal to all processes of its user ends each of them, so one that was sent is enough.
    fn clear_unlisted(&mut self, number: JobNumber, no_list: &io::Error, now: Moment) {
        let Some(job) = self.jobs.get(&number) else {
            return;
        };
        let ended = leftovers::end_unlisted(&ProcessMarks::of(job));
        let is_over = ended.is_ok() && !is_shortage(no_list);
        if !is_over && self.looks_again(number, now) {
            return;
        }
        if let Err(error) = ended
            && let Some(job) = self.jobs.get(&number)
        {
            warn!(
                "job {}: the processes that it left behind cannot be ended: {error}; {}",
                job.subject.id.0,
                remedy(&error)
            );
        }
        self.finish(number, now);
    }

    /// Arranges the next look for the leftovers of a job. False if there is no time for it.
    fn looks_again(&mut self, number: JobNumber, now: Moment) -> bool {
        let Some(job) = self.jobs.get_mut(&number) else {
            return false;
        };
        let Stage::Clearing { since, passes } = job.stage else {
            return false;
        };
        let limit = since.after(CLEARING_LIMIT);
        let answer_by = job
            .answer_by
            .map(|by| Moment::new(by.remaining(Moment::new(ANSWER_TIME))));
        if now >= limit || answer_by.is_some_and(|by| now >= by) {
            return false;
        }
        job.stage = Stage::Clearing {
            since,
            passes: passes.saturating_add(1),
        };
        let factor = 1_u32.checked_shl(passes).unwrap_or(u32::MAX);
        let pause = FIRST_PASS_PAUSE.saturating_mul(factor).min(LONGEST_PASS_PAUSE);
        self.timers.arm(RunnerTimer::Pass(number), now.after(pause));
        true
    }

    /// Whether one of these is on its way out for less than [`ENDING_LIMIT`].
    fn is_awaited(&mut self, ending: &[Pid], now: Moment) -> bool {
        let mut is_awaited = false;
        for pid in ending {
            let since = *self.ending.entry(*pid).or_insert(now);
            is_awaited |= now < since.after(ENDING_LIMIT);
        }
        is_awaited
    }

    fn finish(&mut self, number: JobNumber, now: Moment) {
        let Some(mut job) = self.jobs.remove(&number) else {
            return;
        };
        self.disarm(number);
        let reaped = job.process.reap().ok().flatten();
        self.leaders.remove(&job.process.pid());
        // Only a SIGKILL does not wait until a tracer has seen the end.
        let (ended, usage) = reaped.unwrap_or((Ended::Signalled(Signal::KILL), Usage::default()));
        // A shell reports the signal that ended its command as a status from 128 on.
        let is_by_itself = job.cause.is_none() && matches!(ended, Ended::Exited(0..128));
        job.streams
            .take_last_line(is_by_itself, &job.subject.id.0, &mut job.news);
        let outcome = self.judge(&mut job, ended, usage);
        match outcome {
            JobOutcome::Fail(_) | JobOutcome::Release { .. } | JobOutcome::CutOff => {
                job.news.send_last(&job.subject.id.0, &mut self.connection);
            }
            JobOutcome::Ack { .. } => {}
        }
        log_end(&job, &outcome, ended, usage, now);
        self.by_id.remove(&*job.subject.id.0);
        self.has_cut_off |= matches!(outcome, JobOutcome::CutOff);
        self.tell(&job.subject.id.0, outcome);
        self.starter.give_back(job.belongings);
        self.end_strays(now);
    }

    fn judge(&mut self, job: &mut RunningJob, ended: Ended, usage: Usage) -> JobOutcome {
        if job.cause.is_none() && ended == Ended::Signalled(Signal::KILL) {
            // Limit: if the kernel killed a child of another job meanwhile, and a person killed
            // this job's process, the kernel is blamed. The counter names no process.
            let kills = self.starter.oom_kills.as_mut();
            let is_kernel = kills.is_some_and(|kills| kills.were_since(job.kills_before));
            job.cause = is_kernel.then_some(EndedFor::Kernel);
        }
        let (stderr, stderr_is_cut) = job.streams.stderr();
        let (stdout, stdout_is_cut) = job.streams.result();
        let ending = JobEnding {
            ended,
            cause: job.cause,
            usage,
            stdout,
            stdout_is_cut,
            stderr: &stderr,
            stderr_is_cut,
        };
        outcome::judge(&self.starter.settings, &ending, &self.reader.redaction)
    }

    /// The runner's living children that are no jobs' processes. Those that have ended are reaped.
    ///
    /// # Errors
    /// `/proc` does not list them.
    pub fn strangers(&mut self) -> io::Result<Vec<Pid>> {
        let (leaders, killed, ending) = (&self.leaders, &mut self.killed, &mut self.ending);
        // From then on another process may have the number.
        let is_reaped = |pid| {
            killed.remove(&pid);
            ending.remove(&pid);
        };
        let strangers = self.children.living_but(|pid| leaders.contains(&pid), is_reaped);
        self.has_looked = strangers.is_ok();
        let living: BTreeSet<Pid> = small::gather(strangers.iter().flatten().copied());
        if !self.killed.is_empty() || !self.ending.is_empty() {
            self.killed.retain(|pid, _| living.contains(pid));
            self.ending.retain(|pid, _| living.contains(pid));
        }
        strangers
    }

    /// True if there are processes to end when no job runs. True while jobs run.
    pub fn has_strays(&self) -> bool {
        let keeps = self.starter.settings.exec.leftovers == ExecLeftovers::Keep;
        !keeps && reaper::has_children()
    }

    /// If no job runs, the remaining processes belong to none.
    pub fn end_strays(&mut self, now: Moment) {
        if self.has_jobs() || !self.has_strays() {
            return;
        }
        let strays = match self.strangers() {
            Ok(strays) => strays,
            Err(error) if is_shortage(&error) => {
                self.timers.arm(RunnerTimer::Strays, now.after(LONGEST_PASS_PAUSE));
                return;
            }
            // Nothing can be found and ended. SIGCHLD reports the end of each process, which is
            // then reaped.
            Err(_) => return,
        };
        leftovers::end(&strays);
        self.stray_looks = if self.has_strays() { self.stray_looks + 1 } else { 0 };
        if self.stray_looks > MOST_STRAY_LOOKS {
            self.stray_looks = 0;
            warn!(
                "{} processes that jobs left behind cannot be ended, pid {}; look for state D, or add CAP_KILL",
                strays.len(),
                pids(strays.iter().copied())
            );
        } else if self.stray_looks > 0 {
            self.timers.arm(RunnerTimer::Strays, now.after(LONGEST_PASS_PAUSE));
        }
    }
}

/// The first of these processes, for a person.
fn pids(of: impl Iterator<Item = Pid>) -> String {
    let listed: Vec<String> = of.take(LISTED_PIDS).map(|pid| pid.to_string()).collect();
    listed.join(", ")
}

fn log_end(job: &RunningJob, outcome: &JobOutcome, ended: Ended, usage: Usage, now: Moment) {
    let outcome = outcome.name(job.cause);
    let message = format!(
        "process ended: {ended} ({outcome}), {} ms of processor time, {} KiB of memory",
        milliseconds(usage.cpu),
        usage.max_rss_bytes / 1024
    );
    let record = LogRecord::new(Level::Info, message)
        .of_job(&job.subject, None)
        .with("outcome", outcome);
    let record = match ended {
        Ended::Exited(status) => record.with("exit_status", u64::from(status)),
        Ended::Signalled(signal) => record.with("signal", signal.to_string().as_str()),
    };
    let record = record
        .with("duration_ms", milliseconds(job.started.elapsed(now)))
        .with("cpu_ms", milliseconds(usage.cpu))
        .with("max_rss_bytes", usage.max_rss_bytes);
    sink::say(&record);
}
