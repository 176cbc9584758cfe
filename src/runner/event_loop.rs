//! Turns of the runner: wait, read events, act on them, send reports.

use std::io;
use std::time::Duration;

use mio::Events;

use crate::runner::job::{JobNumber, RunningJob, Stage};
use crate::runner::leftovers::{self, ProcessMarks};
use crate::runner::outcome::EndedFor;
use crate::runner::state::{Runner, RunnerTimer, RunnerTokenOwner, now};
use crate::runner::streams::JobStream;
use ojs_lifecycle::api::Moment;
use ojs_os::clock;
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;

/// Most events of one wait.
const EVENTS: usize = 256;

/// How long a channel that brings much is left alone.
const CHANNEL_PAUSE: Duration = Duration::from_millis(10);

/// Between two looks at the jobs' memory.
const MEMORY_PAUSE: Duration = Duration::from_millis(500);

/// How long the runner kills processes at its own end.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Between two looks whether all processes are gone.
const END_PAUSE: Duration = Duration::from_millis(2);

/// The signals of a turn, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SignalsTaken {
    is_told_to_end: bool,
    has_child_ended: bool,
}

impl Runner {
    /// Runs jobs until PID 1 wants no more.
    ///
    /// # Errors
    ///
    /// The poll fails; none is known.
    pub fn run(mut self) -> io::Result<Exit> {
        let mut events = Events::with_capacity(EVENTS);
        let exit = loop {
            if let Some(exit) = self.exit {
                break exit;
            }
            let wait = self.time_to_wait(now());
            self.ask_kernel(&mut events, wait)?;
            for event in &events {
                let is_closed = event.is_read_closed() || event.is_error();
                self.note(RunnerTokenOwner::of(event.token()), is_closed);
            }
            self.turn(now())?;
        };
        self.end_everything();
        self.write_rest(&mut events);
        self.starter.temporary.end();
        Ok(exit)
    }

    /// Polls. A stop of this process interrupts the poll, which then reports nothing. The poll is
    /// repeated, because a job whose process ended meanwhile must not reach its timeout first.
    fn ask_kernel(&mut self, events: &mut Events, mut wait: Option<Duration>) -> io::Result<()> {
        loop {
            match self.poll.poll(events, wait) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => wait = Some(Duration::ZERO),
                result => return result,
            }
        }
    }

    /// Writes the bytes that PID 1 has not read yet, because the outcome of a finished job may be
    /// among them.
    fn write_rest(&mut self, events: &mut Events) {
        let give_up = now().after(END_LIMIT);
        while self.connection.needs_room() && now() < give_up {
            let wait = Some(give_up.remaining(now()));
            let is_lost = self.connection.flush().is_err() || self.watch_for_room().is_err();
            if is_lost || self.connection.needs_room() && self.ask_kernel(events, wait).is_err() {
                return;
            }
        }
    }

    fn note(&mut self, owner: RunnerTokenOwner, is_closed: bool) {
        match owner {
            RunnerTokenOwner::Signals => self.has_signals = true,
            RunnerTokenOwner::Connection => {
                self.hears = true;
                if is_closed {
                    self.connection.read_to_the_end();
                }
            }
            RunnerTokenOwner::End(number) => {
                self.ended.insert(number);
            }
            RunnerTokenOwner::Stream(number, stream) => {
                // An event may be older than the end of its job.
                if let Some(job) = self.jobs.get_mut(&number) {
                    job.streams.set_ready(stream);
                    self.readable.insert(number);
                }
            }
        }
    }

    fn turn(&mut self, now: Moment) -> io::Result<()> {
        let signals = self.take_signals()?;
        self.has_looked = false;
        for number in std::mem::take(&mut self.ended) {
            self.process_ended(number, now);
        }
        if signals.has_child_ended && !self.has_looked {
            // A leftover process has ended.
            let _ = self.strangers();
        }
        for number in std::mem::take(&mut self.readable) {
            self.read_job(number, now);
        }
        while let Some(timer) = self.timers.take_due(now) {
            self.fire(timer, now);
        }
        let is_closed = self.hears && self.listen(now);
        let is_closed = self.connection.flush().is_err() || is_closed;
        self.watch_for_room()?;
        if signals.is_told_to_end || is_closed {
            let is_clean = signals.is_told_to_end || !self.has_jobs();
            self.exit = Some(if is_clean { Exit::Success } else { Exit::Status(1) });
        } else if self.has_cut_off && !self.has_jobs() {
            self.exit = Some(Exit::Success);
        }
        Ok(())
    }

    /// Reads the signals of this turn.
    fn take_signals(&mut self) -> io::Result<SignalsTaken> {
        let (mut is_told_to_end, mut has_child_ended) = (false, false);
        if std::mem::take(&mut self.has_signals) {
            while let Some(signal) = self.signals.take()? {
                if signal == Signal::CHLD {
                    has_child_ended = true;
                } else {
                    is_told_to_end = true;
                }
            }
        }
        if has_child_ended && self.has_unwatched {
            let jobs = self.jobs.iter().filter(|(_, job)| !job.has_ended());
            let ended = jobs.filter(|(_, job)| job.process.has_ended());
            let ended: Vec<_> = ended.map(|(number, _)| *number).collect();
            self.ended.extend(ended);
        }
        Ok(SignalsTaken {
            is_told_to_end,
            has_child_ended,
        })
    }

    fn read_job(&mut self, number: JobNumber, now: Moment) {
        let Some(job) = self.jobs.get_mut(&number).filter(|job| !job.has_ended()) else {
            return;
        };
        let after = job
            .streams
            .read_some(&job.subject.id.0, &mut self.reader, &mut job.news);
        if after.has_more {
            self.readable.insert(number);
        }
        if after.channel_has_more {
            self.timers.arm(RunnerTimer::Channel(number), now.after(CHANNEL_PAUSE));
        }
        self.send_news(number, now);
    }

    fn fire(&mut self, timer: RunnerTimer, now: Moment) {
        match timer {
            RunnerTimer::Kill(number) => self.kill(number, now),
            RunnerTimer::Pass(number) => self.clear(number, now),
            RunnerTimer::News(number) => self.send_news(number, now),
            RunnerTimer::Channel(number) => {
                if let Some(job) = self.jobs.get_mut(&number) {
                    job.streams.set_ready(JobStream::Channel);
                    self.readable.insert(number);
                }
            }
            RunnerTimer::Start(number) => {
                if let Some(waiting) = self.waiting.remove(&number) {
                    self.try_again(number, waiting, now);
                }
            }
            RunnerTimer::Strays => self.end_strays(now),
            RunnerTimer::Memory => self.look_at_memory(now),
        }
    }

    /// Ends each job that uses more memory than allowed.
    fn look_at_memory(&mut self, now: Moment) {
        let Some(most) = self.starter.settings.max_memory() else {
            return;
        };
        let running = self.jobs.values().filter(|job| !job.has_ended());
        let leaders: Vec<_> = running.map(|job| job.process.pid()).collect();
        if leaders.is_empty() {
            return;
        }
        let above = self.memory.above(&leaders, most);
        let is_above = |job: &RunningJob| !job.has_ended() && above.contains(&job.process.pid());
        for job in self.jobs.values_mut().filter(|job| is_above(job)) {
            job.blame(EndedFor::Memory(most));
            job.process.kill();
            job.stage = Stage::Killed;
        }
        self.timers.arm(RunnerTimer::Memory, now.after(MEMORY_PAUSE));
    }

    fn kill(&mut self, number: JobNumber, now: Moment) {
        if let Some(job) = self.jobs.get_mut(&number).filter(|job| !job.has_ended()) {
            job.process.kill();
            job.stage = Stage::Killed;
            if job.is_withheld {
                self.process_ended(number, now);
            }
        }
    }

    /// Ends all jobs and whatever they have left, for a bounded time: PID 1 does the rest.
    fn end_everything(&mut self) {
        for job in self.jobs.values() {
            job.process.kill();
        }
        if self.jobs.is_empty() && !self.has_strays() {
            return;
        }
        let give_up = clock::monotonic().saturating_add(END_LIMIT);
        self.leaders.clear();
        loop {
            let strangers = self.strangers().unwrap_or_else(|_| {
                for job in self.jobs.values() {
                    let _ = leftovers::end_unlisted(&ProcessMarks::of(job));
                }
                Vec::new()
            });
            leftovers::end(&strangers);
            if strangers.is_empty() || clock::monotonic() >= give_up {
                return;
            }
            clock::pause(END_PAUSE);
        }
    }
}
