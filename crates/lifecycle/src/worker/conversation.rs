//! The messages of a holder, and the pings that show whether it is still connected.

use std::time::Duration;

use crate::api::ids::{HolderId, JobId, ProcessId, Text, WorkerId};
use crate::api::{Effect, EndCause, ErrorCode, Manners, Ready, ToWorker, WorkerNotice, WorkerState, WorkerTimer};
use crate::worker::holder::Holder;
use crate::worker::workers::{Context, Workers};
use crate::worker::workers_said::Said;
use ojs_values::signal::Signal;

/// Malformed frames in a row that end the conversation.
const MALFORMED_LIMIT: u8 = 3;

/// Silence after which ojs-init sends a ping to a holder.
const PING_AFTER: Duration = Duration::from_secs(10);

/// Pings without an answer that make a holder unresponsive.
const PING_LIMIT: u8 = 3;

/// Time for a process to end by itself after it has closed a connection on which it holds jobs.
const HANG_UP_LEEWAY: Duration = Duration::from_millis(250);

/// Why ojs-init closes a holder that connects between two workers.
const NO_WORKER: &str = "nobody may connect while no worker runs";

/// Longest time for which a holder may leave a job unread that was written to it.
const STALL_LIMIT: Duration = Duration::from_secs(30);

impl Workers {
    /// Enters a holder that has connected. It is greeted with the worker's id, if there is a
    /// worker, and the state.
    pub(crate) fn came(
        &mut self,
        holder: HolderId,
        process: Option<ProcessId>,
        manners: Manners,
        greeting: (Option<WorkerId>, WorkerState),
        cx: &Context,
    ) {
        let is_of_unknown_process = process.is_none();
        // A descendant that is left of the worker may be behind a new connection.
        let of_the_worker = self.supervision.process();
        // A process that connects between two workers belongs to neither.
        let process = process.filter(|_| !self.supervision.awaits_the_next());
        let Some(process) = process.or(of_the_worker) else {
            return self.order(Effect::Close(holder, NO_WORKER));
        };
        self.holders.add(holder, process, manners);
        let is_kept = self.kept == Some(process);
        let is_left_behind = is_of_unknown_process && self.supervision.is_clearing();
        let is_given_up = is_left_behind || self.recycling.has_old() && self.holders.is_old(process);
        self.holders.change(holder, |holder| {
            holder.is_of_unknown_process = is_of_unknown_process;
            holder.is_kept = is_kept;
            holder.is_given_up = is_given_up;
        });
        match greeting {
            (Some(worker), state) => self.tell(holder, ToWorker::Hello { worker, state }, cx),
            // A process that is not the worker's, while there is no worker.
            (None, _) => self.give_up(holder, NO_WORKER, cx),
        }
    }

    /// Notes that a holder has sent a message or a part of one, so it is alive. A pong cannot
    /// overtake the frame that is being sent. Returns whether the holder is known.
    pub(crate) fn heard(&mut self, id: HolderId, cx: &Context) -> bool {
        let is_there = self.holders.change(id, |holder| {
            holder.pings = 0;
            holder.last_said = holder.is_known_by_words_alone().then_some(cx.now);
        });
        is_there.is_some()
    }

    /// The last message was valid.
    pub(crate) fn makes_sense(&mut self, id: HolderId) {
        self.holders.change(id, |holder| holder.malformed = 0);
    }

    /// Notes a holder's `ready` with its conditions. Returns whether the holder is known.
    pub(crate) fn ready(&mut self, id: HolderId, ready: Ready, cx: &Context) -> bool {
        let takes_jobs = ready.concurrency > 0;
        let notice = WorkerNotice::HolderReady {
            holder: id,
            concurrency: ready.concurrency,
            client: ready.client.clone(),
        };
        let Some((is_news, is_first)) = self.holders.is_ready(id, ready) else {
            return false;
        };
        if is_news {
            self.capacity_is_said(notice, is_first, cx);
        }
        self.timers.cancel(WorkerTimer::Ready);
        // While the next one pauses, the old one is the only one that takes jobs.
        if takes_jobs {
            self.next_may_be_ready(id, cx);
        }
        true
    }

    /// Notes that the worker accepts jobs.
    pub(crate) fn said_ready(&mut self, cx: &Context) {
        if !self.supervision.has_been_ready() {
            self.age_begins(cx);
        }
        self.supervision.said_ready(cx.now);
        self.next_is_ready(cx);
    }

    /// Handles input from the holder that is no message. It `counts` towards the end of the
    /// conversation unless it is about a job of the holder.
    pub(crate) fn invalid_message(
        &mut self,
        id: HolderId,
        why: (ErrorCode, &Text),
        job: Option<JobId>,
        counts: bool,
        cx: &Context,
    ) {
        let (code, message) = (why.0, why.1.clone());
        self.tell(id, ToWorker::Error { code, message, job }, cx);
        let malformed = self.holders.change(id, |holder| {
            if counts && code.is_malformed() && holder.manners.frame_limit.is_some() {
                holder.malformed = holder.malformed.saturating_add(1);
            }
            holder.malformed
        });
        if malformed == Some(MALFORMED_LIMIT) {
            // Such a process exits by itself, with any status, because its connection is closed.
            let holder = self.holders.get(id).filter(|holder| holder.held > 0);
            if let Some(process) = holder.map(|holder| holder.process) {
                self.end_process(process, EndCause::Garbled, cx);
            }
            self.give_up(id, "three malformed frames in a row", cx);
        }
    }

    /// Closes a holder's connection from ojs-init's side.
    fn give_up(&mut self, id: HolderId, why: &'static str, cx: &Context) {
        if let Some(holder) = self.holders.get(id)
            && !holder.is_closed
        {
            let (was_ready, process) = (holder.takes_jobs(), holder.process);
            self.holders.change(id, |holder| holder.is_given_up = true);
            self.forget_pulls(id);
            self.order(Effect::Close(id, why));
            if was_ready {
                self.capacity_is_lost(id, process, cx);
            }
        }
    }

    pub(super) fn close_all_holders(&mut self, cx: &Context) {
        let open: Vec<HolderId> = self.holders.iter().map(|(id, _)| id).collect();
        for holder in open {
            self.give_up(holder, "the worker that it belongs to is over", cx);
        }
    }

    /// Arms the timer of the next ping to a holder.
    pub(crate) fn expect_life(&mut self, id: HolderId, cx: &Context) {
        if let Some(holder) = self.holders.get(id)
            && holder.manners.answers_pings
            && holder.ready.is_some()
            && holder.is_there()
        {
            self.timers.arm(WorkerTimer::Ping(id), cx.now.after(PING_AFTER));
        }
    }

    pub(super) fn ping(&mut self, id: HolderId, cx: &Context) {
        let Some(holder) = self.holders.get(id) else { return };
        let pings = holder.pings;
        if !holder.answers_pings_now() {
            // The holder works and need not read meanwhile.
            self.holders.change(id, |holder| holder.pings = 0);
        } else if pings == PING_LIMIT {
            let process = holder.process;
            self.end_process(process, EndCause::Silent, cx);
            return;
        } else {
            self.holders.change(id, |holder| holder.pings = pings + 1);
            let number = u64::from(pings) + 1;
            self.tell(id, ToWorker::Ping { id: number }, cx);
        }
        self.expect_life(id, cx);
    }

    pub(crate) fn outbound(&mut self, id: HolderId, has_unread_output: bool, cx: &Context) {
        let hears = self.holders.change(id, |holder| {
            holder.has_unread_output = has_unread_output;
            holder.has_unread_job &= has_unread_output;
            holder.manners.hears
        });
        let Some(hears) = hears else { return };
        if has_unread_output && hears {
            self.timers
                .arm_at_latest(WorkerTimer::Stalled(id), cx.now.after(STALL_LIMIT));
        } else {
            self.timers.cancel(WorkerTimer::Stalled(id));
        }
    }

    /// While ojs-init reads nothing from the holder, it cannot know whether the holder works.
    pub(crate) fn reading_paused(&mut self, id: HolderId, is_reading_paused: bool, cx: &Context) {
        let hears = self.holders.change(id, |holder| {
            holder.is_reading_paused = is_reading_paused;
            holder.manners.hears
        });
        if is_reading_paused && hears == Some(true) {
            self.timers.arm(WorkerTimer::Stalled(id), cx.now.after(STALL_LIMIT));
        }
    }

    /// Ends the process of a holder that has not read its messages. A holder that works on a job
    /// need not read. A holder without other work must, and so must one whose messages ojs-init has
    /// not read until then.
    pub(super) fn stalled(&mut self, id: HolderId, cx: &Context) {
        let Some(holder) = self.holders.get(id) else { return };
        let works = !holder.is_reading_paused
            && holder.held > usize::from(holder.has_unread_job)
            && !holder.ready.as_ref().is_some_and(|ready| ready.ping);
        if works {
            self.timers.arm(WorkerTimer::Stalled(id), cx.now.after(STALL_LIMIT));
        } else {
            let process = holder.process;
            self.end_process(process, EndCause::Deaf, cx);
        }
    }

    /// Handles a closed connection. Returns the process behind it.
    pub(crate) fn hung_up(&mut self, id: HolderId, cx: &Context) -> Option<ProcessId> {
        self.timers.cancel(WorkerTimer::Ping(id));
        self.timers.cancel(WorkerTimer::Stalled(id));
        self.timers.cancel(WorkerTimer::CancelSignal(id));
        let holder = self.holders.get(id)?;
        let (was_ready, holds_none, process) = (holder.takes_jobs(), holder.held == 0, holder.process);
        // A holder that waits for replies may close a connection while its process goes on.
        let waits_for_answers = holder.manners.answer_within;
        self.holders.change(id, |holder| holder.is_closed = true);
        self.forget_pulls(id);
        if was_ready {
            self.capacity_is_lost(id, process, cx);
        }
        if holds_none {
            self.holders.forget(id);
        } else if !self.holders.is_gone(process) && waits_for_answers.is_none() {
            // Most often the process is ending: then its own status counts, not that of ojs-init's
            // SIGTERM.
            self.timers
                .arm_at_latest(WorkerTimer::HungUp(process), cx.now.after(HANG_UP_LEEWAY));
        }
        Some(process)
    }

    /// Restarts the time to send ready if the last ready holder has left.
    pub(crate) fn expect_ready(&mut self, cx: &Context) {
        if self.holders.ready() == 0 && self.supervision.is_alive() && !cx.is_terminating() {
            self.timers
                .arm_at_latest(WorkerTimer::Ready, cx.now.after(cx.options.ready_timeout));
        }
    }

    /// Asks a process to end, and enforces it. A stopped process is woken up for that.
    pub(crate) fn end_process(&mut self, id: ProcessId, cause: EndCause, cx: &Context) {
        let jobs = self.holders.jobs_of(id);
        let Some(process) = self.holders.process_mut(id) else {
            return;
        };
        if process.ending.is_some() || process.is_gone {
            return;
        }
        process.ending = Some(cause.clone());
        self.give_up_on(id, cx);
        self.blame(id, &cause, cx);
        self.notify(WorkerNotice::EndingProcess {
            process: id,
            cause,
            jobs,
        });
        let open = self.holders.of(id).filter(|(_, holder)| !holder.is_closed);
        let open = open.map(|(holder, _)| holder).collect();
        self.say(Said::Ending(open));
        self.order(Effect::SignalProcess(id, Signal::TERM));
        self.order(Effect::SignalProcess(id, Signal::CONT));
        self.timers
            .arm(WorkerTimer::KillProcess(id), cx.now.after(cx.options.cancel_grace));
    }

    pub(crate) fn kill_process(&mut self, id: ProcessId) {
        if self.holders.process(id).is_some_and(|process| !process.is_gone) {
            self.order(Effect::SignalProcess(id, Signal::KILL));
            self.holders.forget_process(id);
        }
    }

    /// A process gets no more jobs: none of its holders does.
    fn give_up_on(&mut self, id: ProcessId, cx: &Context) {
        let ready = self.holders.of(id).filter(|(_, holder)| holder.takes_jobs());
        let ready: Vec<HolderId> = ready.map(|(holder, _)| holder).collect();
        self.holders.give_up_on(id);
        for holder in ready {
            self.end_pulls_of(holder);
            self.capacity_is_lost(holder, id, cx);
        }
    }

    /// Handles the end of a process. All that it had written can be read now. If the worker's own
    /// process ends, one of its descendants may be behind a connection of an unknown process: such
    /// connections are read to the end when no descendant is left.
    pub(crate) fn process_gone(&mut self, id: ProcessId, cx: &Context) {
        self.timers.cancel(WorkerTimer::KillProcess(id));
        self.timers.cancel(WorkerTimer::HungUp(id));
        if self.holders.process(id).is_none() {
            return;
        }
        self.holders.process_is_gone(id);
        self.give_up_on(id, cx);
        let is_main = self.supervision.process() == Some(id);
        self.read_to_end(id, |holder| !(is_main && holder.is_of_unknown_process));
        self.holders.forget_process(id);
    }

    /// No descendant of the worker's ended process is left, so none is behind a connection whose
    /// process is unknown.
    pub(super) fn no_descendant_is_left(&mut self, main: ProcessId) {
        self.read_to_end(main, |holder| holder.is_of_unknown_process);
    }

    /// Orders the rest of the open connections of a process to be read, as far as they `end`.
    fn read_to_end(&mut self, id: ProcessId, ends: impl Fn(&Holder) -> bool) {
        let open = self
            .holders
            .of(id)
            .filter(|(_, holder)| !holder.is_closed && ends(holder));
        let open: Vec<HolderId> = open.map(|(id, _)| id).collect();
        for holder in open {
            self.timers.cancel(WorkerTimer::CancelSignal(holder));
            self.order(Effect::ReadToEnd(holder));
        }
    }
}
