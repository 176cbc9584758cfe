//! The loop of the agent: one event, then its effects from the lifecycle, then the next; then it
//! waits for an event or the next deadline. Its one blocking call is `epoll_wait`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use log::{debug, trace, warn};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};

use crate::daemon::backend::client::{Backend, BackendSays};
use crate::daemon::backend::outcome::Heard;
use crate::daemon::control::Control;
use crate::daemon::descendants::Descendants;
use crate::daemon::gateway::InterfaceTurn;
use crate::daemon::interface::Interface;
use crate::daemon::log::narrate::Narrator;
use crate::daemon::log::remedy::remedy;
use crate::daemon::log::sink::LogHandle;
use crate::daemon::log::termination::TerminationLog;
use crate::daemon::memory_watch::MemoryWatch;
use crate::daemon::probes::answers::ProbeContext;
use crate::daemon::probes::links::ProbeLinks;
use crate::daemon::tokens::TokenOwner;
use crate::daemon::traces::exporter::Exporter;
use crate::daemon::two_workers::{TwoWorkers, Worker};
use crate::daemon::window_signal::WindowSignal;
use crate::daemon::worker_usage::UsageReader;
use crate::daemon::workers::processes::Processes;
use ojs_lifecycle::api::{CallId, Event, Moment, Trace, WorkerEnd};
use ojs_lifecycle::machine::Lifecycle;
use ojs_lifecycle::view::metrics::Metrics;
use ojs_os::allocator;
use ojs_os::cgroup::OomKills;
use ojs_os::child::ChildPlan;
use ojs_os::clock;
use ojs_os::reaper::{self, Reaped};
use ojs_os::signal_fd::SignalFd;
use ojs_os::signals;
use ojs_values::exit::{Ended, Exit};
use ojs_values::signal::Signal;
use ojs_wire::operator::status_line::InstanceInfo;

/// Events read from the kernel at a time.
const EVENTS_PER_TURN: usize = 256;

/// Signals read in one turn: more than there are kinds of them.
const SIGNALS_PER_TURN: usize = 128;

/// Most processes reaped in one turn, because the other sources need their share even if orphans
/// die quickly.
const REAPS_PER_TURN: usize = 256;

/// Events that the machine handles before its due timers get their turn.
const EVENTS_BEFORE_TIMERS: usize = 256;

/// Memory that ojs-init needed before, but not for this long, returns to the kernel. In a series of
/// bursts the jobs of the next one still find it.
const CALM: Duration = Duration::from_millis(500);

/// The machine, and all that it acts on.
pub struct EventLoop {
    pub(super) machine: Lifecycle,
    pub(super) poll: Poll,
    pub(super) signals: SignalFd,
    /// The worker's processes.
    pub(super) processes: Processes,
    /// The interface of the worker's programs.
    pub(super) interface: Interface,
    pub(super) control: Control,
    pub(super) backend: Backend,
    /// The spans of jobs, if a collector is configured.
    pub(super) traces: Option<Box<Exporter>>,
    /// The connections of probes, unless health endpoints are off.
    pub(super) probes: Option<ProbeLinks>,
    /// The counters for the metrics.
    pub(super) metrics: Metrics,
    /// The memory and the processor time of the worker.
    pub(super) usage: UsageReader,
    pub(super) plan: ChildPlan,
    /// The program of the plan, for a message that it could not be started.
    pub(super) program: String,
    pub(super) worker: Option<Worker>,
    /// The next process of the worker, or its old one.
    pub(super) two: TwoWorkers,
    /// The kernel's count of processes that it ended because memory ran out, if there is one.
    pub(super) oom_kills: Option<OomKills>,
    /// The memory of this container, if a gate is configured.
    pub(super) memory: Option<MemoryWatch>,
    /// When ojs-init returns the memory that it does not need until then. `None`: there is little.
    pub(super) memory_look_at: Option<Moment>,
    pub(super) descendants: Descendants,
    /// Events that the machine has not handled yet. One turn reads a bounded number from outside,
    /// and each effect adds two at most. The next turn begins after all are handled.
    pub(super) inbox: VecDeque<Event>,
    /// Words of the backend that the machine has not handled yet, in their order. Its bound is one
    /// answer for each request, and the events that streams report in one turn.
    pub(super) answers: VecDeque<(CallId, BackendSays)>,
    /// The words of the answer that the machine handles now. Empty while it handles anything else.
    pub(super) heard: Heard,
    pub(super) narrator: Narrator,
    /// The log, which counts the records that it drops.
    pub(super) log: LogHandle,
    /// Facts about this instance for operators.
    pub(super) facts: InstanceInfo,
    pub(super) started_at: Moment,
    /// The start of the last poll: the loop knows every event that the kernel had by then.
    pub(super) polled_at: Moment,
    pub(super) termination_log: TerminationLog,
    pub(super) warn_on_reap: bool,
    pub(super) window: WindowSignal,
    pub(super) process_group: bool,
    /// There may be more to do without waiting.
    pub(super) has_more: bool,
    /// There may be more to reap.
    pub(super) reaps_again: bool,
    /// The descriptor of signals has unread ones: epoll reports it only once.
    pub(super) has_signals: bool,
}

impl EventLoop {
    /// Runs until the machine orders the exit.
    ///
    /// # Errors
    ///
    /// epoll or the signal descriptor failed, so the loop cannot wait any more.
    pub fn run(&mut self) -> io::Result<Exit> {
        let descriptor = self.signals.as_raw_fd();
        let token = TokenOwner::Signals.token();
        self.poll
            .registry()
            .register(&mut SourceFd(&descriptor), token, Interest::READABLE)?;
        let mut ready = Events::with_capacity(EVENTS_PER_TURN);
        // The program that exec'ed ojs-init may have left children that ended before ojs-init could
        // see it.
        self.reap();
        loop {
            self.serve_recycling();
            // This comes before the machine asks for jobs, which an event or a due timer can cause.
            self.look_at_memory_gate();
            if let Some(exit) = self.dispatch() {
                self.send_last_spans(&mut ready);
                return Ok(exit);
            }
            self.serve_backend();
            self.serve_collector();
            self.with_interface(Interface::send_answers);
            self.answer_probes();
            self.return_memory();
            self.wait(&mut ready)?;
            self.gather(&ready)?;
        }
    }

    /// One event, then its effects, then the next; due timers at the end, and now and then in
    /// between.
    fn dispatch(&mut self) -> Option<Exit> {
        let mut told = 0;
        loop {
            if let Some(exit) = self.perform() {
                return Some(exit);
            }
            // Answers do not count: a request whose answer is here must not time out first.
            let event = if told < EVENTS_BEFORE_TIMERS {
                self.next_event()
            } else {
                self.next_answer()
            };
            if let Some((event, heard)) = event {
                told += 1;
                self.heard = heard;
                self.machine.handle_one_of_several(event, now(), self.is_all_told());
            } else if !self.backend.is_behind() && self.machine.poll_timeout().is_some_and(|(due, _)| due <= now()) {
                self.heard = Heard::default();
                self.machine.handle_timeout(now());
            } else if self.is_all_told() {
                self.heard = Heard::default();
                return None;
            } else {
                told = 0;
            }
        }
    }

    /// The next event for the machine, with the words of the answer that it may be. Answers come
    /// last: a holder that has left must not get the jobs of one.
    fn next_event(&mut self) -> Option<(Event, Heard)> {
        let Some(event) = self.inbox.pop_front() else {
            return self.next_answer();
        };
        self.traces.iter_mut().for_each(|traces| traces.recorder.handles(None));
        Some((event, Heard::default()))
    }

    /// The next words of the backend, in the order in which they were received.
    fn next_answer(&mut self) -> Option<(Event, Heard)> {
        let (call, says) = self.answers.pop_front()?;
        let is_answer = matches!(says, BackendSays::Answer(..));
        self.traces
            .iter_mut()
            .for_each(|traces| traces.recorder.handles(is_answer.then_some(call)));
        Some(match says {
            BackendSays::Answer(reply, heard) => (Event::BackendReplied(call, reply), heard),
            BackendSays::News(news) => (Event::StreamSaid(call, news), Heard::default()),
        })
    }

    fn is_all_told(&self) -> bool {
        self.inbox.is_empty() && self.answers.is_empty()
    }

    /// Before each wait, so the machine has handled every event that came before the probe.
    fn answer_probes(&mut self) {
        if let Some(probes) = &mut self.probes {
            let mut sources = ProbeContext {
                machine: &self.machine,
                metrics: &self.metrics,
                usage: &mut self.usage,
                log: &self.log,
                spans: self.traces.as_ref().map(|traces| traces.counts()).unwrap_or_default(),
            };
            probes.turn(&mut sources, self.poll.registry(), now());
        }
    }

    fn wait(&mut self, ready: &mut Events) -> io::Result<()> {
        let deadline = self.next_deadline().map(|due| due.remaining(now()));
        // Asked here, because an effect may have made room for another connection, or ended one.
        let has_more = !self.is_all_told()
            || self.backend.has_more()
            || self.traces.as_ref().is_some_and(|traces| traces.sender.has_more())
            || self.interface.has_more()
            || self.control.has_more()
            || self.probes.as_ref().is_some_and(ProbeLinks::has_more);
        let timeout = if std::mem::take(&mut self.has_more) || has_more || signals::has_set_aside() {
            Some(Duration::ZERO)
        } else {
            deadline
        };
        self.ask_kernel(ready, timeout)
    }

    /// Polls. A stop of this process (SIGSTOP, a freezer) interrupts the poll, which then reports
    /// nothing. It is repeated, because the deadlines that passed meanwhile would otherwise discard
    /// answers that have arrived.
    pub(super) fn ask_kernel(&mut self, ready: &mut Events, mut timeout: Option<Duration>) -> io::Result<()> {
        loop {
            let polled_at = now();
            match self.poll.poll(ready, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => timeout = Some(Duration::ZERO),
                result => {
                    self.polled_at = polled_at;
                    return result;
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Moment> {
        let of_machine = self.machine.poll_timeout().map(|(due, timer)| {
            trace!("next deadline: {timer:?}");
            due
        });
        let deadlines = [
            of_machine,
            self.probes.as_ref().and_then(ProbeLinks::next_deadline),
            self.control.next_deadline(),
            self.processes.next_deadline(now()),
            self.backend.next_deadline(),
            self.interface.next_deadline(),
            self.memory_look_at,
            self.recycling_deadline(),
            self.traces.as_ref().and_then(|traces| traces.next_deadline()),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Collects events. The order of the sources has no meaning, because the machine does not rely
    /// on it.
    fn gather(&mut self, ready: &Events) -> io::Result<()> {
        for event in ready {
            match TokenOwner::of(event.token()) {
                TokenOwner::Signals => self.has_signals = true,
                // Asked each time, below.
                TokenOwner::Threads => {}
                TokenOwner::Backend(slot) => self.backend.is_ready(slot, event),
                TokenOwner::Tunnel(slot) => self.backend.tunnels.is_ready(slot, event),
                TokenOwner::Collector(slot) => {
                    self.traces
                        .iter_mut()
                        .for_each(|traces| traces.sender.is_ready(slot, event));
                }
                TokenOwner::Interface => self.interface.is_acceptable(),
                TokenOwner::Connection(id) => self.interface.is_ready(id, event, &mut self.inbox),
                TokenOwner::Process(number) => self.processes.look_at(number, &mut self.inbox),
                TokenOwner::ControlSocket => self.control.is_acceptable(),
                TokenOwner::Client(slot) => self.control.is_ready(slot, event),
                TokenOwner::ProbeListener => self.probes.iter_mut().for_each(ProbeLinks::is_acceptable),
                TokenOwner::Probe(slot) => self.probes.iter_mut().for_each(|probes| probes.is_ready(slot)),
                TokenOwner::Nothing => {}
            }
        }
        self.take_signals()?;
        self.serve_backend();
        self.processes.look_at_unwatchable(&mut self.inbox);
        self.with_interface(Interface::turn);
        self.control.turn(self.poll.registry(), &mut self.inbox, now());
        Ok(())
    }

    /// No descriptor reports a signal that was set aside while a thread was started.
    fn take_signals(&mut self) -> io::Result<()> {
        if !(std::mem::take(&mut self.has_signals) || self.reaps_again || signals::has_set_aside()) {
            return Ok(());
        }
        let mut children_ended = std::mem::take(&mut self.reaps_again);
        for _ in 0..SIGNALS_PER_TURN {
            match self.signals.take()? {
                Some(Signal::CHLD) => children_ended = true,
                Some(signal) => {
                    debug!("received {signal}");
                    self.inbox.push_back(Event::SignalArrived(signal));
                }
                None => {
                    if children_ended {
                        self.reap();
                    }
                    return Ok(());
                }
            }
        }
        self.has_signals = true;
        self.has_more = true;
        self.reap();
        Ok(())
    }

    /// Twice in each turn: answers are for the machine, and its next requests are sent before the
    /// loop waits.
    fn serve_backend(&mut self) {
        let Self {
            backend,
            poll,
            polled_at,
            metrics,
            traces,
            inbox,
            answers,
            ..
        } = self;
        backend.turn(poll.registry(), now(), *polled_at, |call, says| {
            if let BackendSays::Answer(reply, heard) = &says {
                metrics.answered(call, reply, heard.status, now());
                if let Some(traces) = traces {
                    traces.answered(call, reply, heard.status);
                }
            }
            answers.push_back((call, says));
        });
        if backend.take_token_change() {
            inbox.push_back(Event::CredentialsChanged);
        }
    }

    /// Runs `act` with the interface and the context that it needs.
    pub(super) fn with_interface(&mut self, act: impl FnOnce(&mut Interface, &mut InterfaceTurn<'_>)) {
        self.with_span(None, act);
    }

    /// As [`EventLoop::with_interface`], for a job whose span has this context.
    pub(super) fn with_span(
        &mut self,
        context: Option<Trace>,
        act: impl FnOnce(&mut Interface, &mut InterfaceTurn<'_>),
    ) {
        let mut turn = InterfaceTurn {
            machine: &self.machine,
            backend: &mut self.backend,
            processes: &mut self.processes,
            registry: self.poll.registry(),
            events: &mut self.inbox,
            answer: self.heard.outcome.as_ref(),
            context,
            now: now(),
        };
        act(&mut self.interface, &mut turn);
    }

    fn reap(&mut self) {
        if let Some(beside) = self.two.beside.filter(|beside| reaper::has_ended(beside.pid)) {
            // Before it is reaped, because its number and that of its group are its own until then.
            self.processes.ended(beside.process, &mut self.inbox);
        }
        for _ in 0..REAPS_PER_TURN {
            match reaper::reap_one() {
                Ok(Reaped::Process(pid, ended)) if self.worker.is_some_and(|worker| worker.pid == pid) => {
                    if let Some(worker) = self.worker.take() {
                        self.processes.worker_reaped(worker.process);
                    }
                    self.two.next_wanted = None;
                    self.look_at_memory(ended);
                    self.inbox.push_back(Event::WorkerEnded(ended));
                }
                Ok(Reaped::Process(pid, ended)) if self.two.beside.is_some_and(|beside| beside.pid == pid) => {
                    if let Some(beside) = self.two.beside.take() {
                        self.beside_is_reaped(beside, ended);
                    }
                }
                Ok(Reaped::Process(pid, ended)) => {
                    self.metrics.orphans_reaped += 1;
                    self.descendants.reaped(pid, ended, self.warn_on_reap);
                }
                Ok(Reaped::NoneReady) => return self.inbox.push_back(Event::Reaped { children_left: true }),
                Ok(Reaped::NoChildren) => return self.inbox.push_back(Event::Reaped { children_left: false }),
                Err(error) => {
                    return warn!(
                        "cannot reap: {error}; ended processes stay zombies until the next SIGCHLD; {}",
                        remedy(&error)
                    );
                }
            }
        }
        // One SIGCHLD stands for all of them.
        self.reaps_again = true;
        self.has_more = true;
    }
}

impl EventLoop {
    /// Puts the used share of memory before all other events of this turn.
    fn look_at_memory_gate(&mut self) {
        if let Some(taken) = self.memory.as_mut().and_then(|memory| memory.look(now())) {
            self.inbox.push_front(Event::MemoryTaken(taken));
        }
    }

    /// Returns the memory of a burst of jobs to the kernel after a while without another one.
    fn return_memory(&mut self) {
        let is_due = match self.memory_look_at {
            Some(at) => at <= now(),
            None => allocator::has_unneeded(),
        };
        if is_due {
            let has_unneeded = allocator::return_unneeded();
            self.memory_look_at = has_unneeded.then(|| now().after(CALM));
            if !has_unneeded {
                self.backend.shrink_buffers();
            }
        }
    }

    /// Reports whether the kernel may have ended the worker because memory ran out.
    fn look_at_memory(&mut self, ended: Ended) {
        if let kills @ 1.. = self.oom_kills_of(ended) {
            self.inbox.push_back(Event::MemoryRanOut(kills));
        }
    }

    /// How many processes the kernel has ended for lack of memory, if this end may be one of them.
    pub(super) fn oom_kills_of(&self, ended: Ended) -> u64 {
        let counter = self.oom_kills.as_ref().filter(|_| WorkerEnd::is_like_oom(ended));
        counter.map_or(0, OomKills::since)
    }
}

/// The time, for the machine.
pub fn now() -> Moment {
    Moment::new(clock::monotonic())
}
