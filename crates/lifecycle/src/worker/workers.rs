//! The workers as one part of the machine: the worker process, the holders of jobs, and their
//! offers and requests.
//!
//! The part knows no other part. It knows how many jobs a holder has, and no job. It returns a list
//! of [`Said`]: orders for the shell and requests to the other parts, in the order in which the
//! router carries them out.

use crate::api::ids::{HolderId, ProcessId};
use crate::api::{Effect, EndCause, Moment, Options, Phase, Queues, ToWorker, WorkerNotice, WorkerTimer};
use crate::timers::Timers;
use crate::worker::capacity::Capacity;
use crate::worker::holders::Holders;
use crate::worker::pulls::Pulls;
use crate::worker::recycling_state::Recycling;
use crate::worker::supervision::Supervision;
use crate::worker::workers_said::Said;

/// The worker process and the holders of jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Workers {
    pub(crate) holders: Holders,
    pub(crate) pulls: Pulls,
    pub(super) capacity: Capacity,
    pub(crate) supervision: Supervision,
    pub(crate) recycling: Recycling,
    /// The process that is kept for one job. Its holders get no other.
    pub(super) kept: Option<ProcessId>,
    pub(crate) timers: Timers<WorkerTimer>,
    pub(crate) said: Vec<Said>,
}

/// The facts of a decision besides the state of the workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) phase: Phase,
    /// The end has sent SIGKILL to every process.
    pub(crate) has_killed: bool,
    /// The end waits for processes that got SIGKILL.
    pub(crate) is_killing: bool,
    /// No job may be fetched: there is no memory for more, or the worker is being recycled.
    pub(crate) gate_is_closed: bool,
    /// A job is not finished, whatever its place.
    pub(crate) has_jobs: bool,
    pub(crate) now: Moment,
}

impl Context<'_> {
    pub(super) fn is_terminating(&self) -> bool {
        self.phase.is_terminating()
    }

    /// The end asks the worker process to end, or has cut its jobs off.
    pub(super) fn is_ending_the_worker(&self) -> bool {
        matches!(self.phase, Phase::EndGame | Phase::Stop)
    }
}

impl Workers {
    pub(crate) fn new(now: Moment) -> Self {
        let mut workers = Self::default();
        workers.supervision.started_at = now;
        workers
    }
}

/// Questions of the other parts.
impl Workers {
    /// Whether new jobs may be given out. Not after the worker process ended, because its
    /// descendants are being ended too, and not to a worker that is about to be ended.
    pub(crate) fn are_taking_jobs(&self, phase: Phase) -> bool {
        phase == Phase::Running && self.supervision.is_alive() && !self.recycling.is_over_for_jobs()
    }
}

/// Timers.
impl Workers {
    /// Acts on a timer.
    pub(crate) fn due(&mut self, timer: WorkerTimer, cx: &Context) {
        match timer {
            WorkerTimer::KillDescendants => self.kill_descendants(),
            WorkerTimer::GiveUpOnDescendants => self.say(Said::DescendantsStay),
            WorkerTimer::Rescan => self.rescan(cx),
            WorkerTimer::Start => self.start_is_due(cx),
            WorkerTimer::Ready => self.notify(match cx.options.queues {
                Queues::Configured => WorkerNotice::NotReady,
                Queues::AsAsked | Queues::Only(_) => WorkerNotice::NothingAskedFor,
            }),
            WorkerTimer::MaxAge => self.is_of_age(cx),
            WorkerTimer::Recycle => self.recycle_is_due(cx),
            WorkerTimer::Capacity => self.tell_capacity(cx),
            WorkerTimer::Settled => self.has_settled(cx),
            WorkerTimer::HungUp(process) => self.end_process(process, EndCause::Disconnected, cx),
            WorkerTimer::KillProcess(process) => self.kill_process(process),
            WorkerTimer::Ping(holder) => self.ping(holder, cx),
            WorkerTimer::Stalled(holder) => self.stalled(holder, cx),
            WorkerTimer::CancelSignal(holder) => self.say(Said::SignalPauseIsOver(holder)),
            WorkerTimer::Pull(pull) => self.answer_pull(pull, Vec::new()),
            // This timer only expires: `start_next` checks whether it is armed.
            WorkerTimer::StartAnyway => {}
        }
    }
}

/// News of the jobs.
impl Workers {
    /// A job is written to this holder.
    pub(crate) fn give(&mut self, holder: HolderId, word: ToWorker, cx: &Context) {
        self.holders.serve(holder);
        self.recycling.was_given(1);
        self.order(Effect::Tell(holder, word));
        self.outbound(holder, true, cx);
    }

    /// Keeps a process for one job.
    pub(crate) fn keep(&mut self, process: ProcessId) {
        self.kept = Some(process);
        self.holders.keep(process, true);
    }

    /// The process that was kept for one job gets others again.
    pub(crate) fn keep_no_more(&mut self) {
        if let Some(process) = self.kept.take() {
            self.holders.keep(process, false);
        }
    }

    /// Whether this holder gets no jobs because its process is kept for one.
    pub(crate) fn is_kept(&self, holder: HolderId) -> bool {
        let process = self.holders.get(holder).map(|holder| holder.process);
        self.kept.is_some() && self.kept == process
    }

    /// Number of jobs that the process kept for one suspect could get.
    pub(crate) fn kept_room(&self) -> usize {
        self.kept.map_or(0, |process| self.holders.room_of(process))
    }
}

/// Orders to the shell and to the other parts.
impl Workers {
    pub(super) fn say(&mut self, said: Said) {
        self.said.push(said);
    }

    pub(super) fn order(&mut self, effect: Effect) {
        self.say(Said::Order(effect));
    }

    pub(super) fn notify(&mut self, notice: WorkerNotice) {
        self.say(Said::Notify(notice));
    }

    /// Sends a message to a holder that is still connected and wants it. A holder that does not
    /// receive other messages gets answers only. A cancel also wakes up the holder's process.
    pub(crate) fn tell(&mut self, holder: HolderId, word: ToWorker, cx: &Context) {
        let is_cancel = matches!(word, ToWorker::Cancel { .. });
        let is_wanted = match word {
            ToWorker::Ok { .. } => self.holders.wants_ok(holder),
            ToWorker::Error { .. } => true,
            ToWorker::Hello { .. }
            | ToWorker::Job(_)
            | ToWorker::Lifecycle { .. }
            | ToWorker::Cancel { .. }
            | ToWorker::Ping { .. } => self.holders.hears(holder),
        };
        if is_wanted && self.holders.is_open(holder) {
            self.order(Effect::Tell(holder, word));
        }
        if is_cancel {
            self.signal_cancel(holder, cx);
        }
    }

    /// Sends a message to every holder that is still connected.
    pub(crate) fn tell_all(&mut self, word: &ToWorker, cx: &Context) {
        let open: Vec<HolderId> = self.holders.iter().map(|(id, _)| id).collect();
        for holder in open {
            self.tell(holder, word.clone(), cx);
        }
    }
}
