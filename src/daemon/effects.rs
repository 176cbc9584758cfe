//! One order of the lifecycle, one call.

use log::{debug, warn};
use uuid::Uuid;

use crate::daemon::descendants;
use crate::daemon::event_loop::{EventLoop, now};
use crate::daemon::log::narrate::Narrator;
use crate::daemon::log::remedy::{remedy, remedy_of_signal};
use crate::daemon::probes::links::ProbeLinks;
use crate::daemon::start::{self, NotStartedNow};
use crate::daemon::two_workers::Worker;
use ojs_lifecycle::api::ids::ProcessId;
use ojs_lifecycle::api::{
    ClientId, Effect, Event, GivenJob, Moment, NotStarted, ShownToOperator, ToWorker, Trace, WorkerId,
};
use ojs_os::cgroup::OomKills;
use ojs_os::process::{self, Pid};
use ojs_os::{image, init};
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;
use ojs_wire::operator::shown;
use ojs_wire::termination_log;

impl EventLoop {
    /// Executes the effects of the machine. Returns the exit status if the last effect was the
    /// exit.
    pub(super) fn perform(&mut self) -> Option<Exit> {
        while let Some(effect) = self.machine.poll_effect() {
            self.metrics.observe(&effect);
            self.traces.iter_mut().for_each(|traces| traces.observe(&effect));
            match effect {
                Effect::StartWorker { keeps_name } => self.start_worker(keeps_name),
                Effect::StartNext => self.start_next(),
                Effect::TakeOver(process) => self.take_over(process),
                Effect::SignalWorker(signal) => self.signal_worker(signal),
                Effect::SignalProcess(process, signal) => self.signal_process(process, signal),
                Effect::TerminateDescendants => {
                    let processes = &self.processes;
                    self.descendants.terminate(|pid| processes.was_asked_to_end(pid));
                }
                Effect::KillDescendants => descendants::kill_children(),
                Effect::KillEverything => self.kill_everything(),
                Effect::Tell(holder, word) => {
                    let context = self.context_of_word(&word);
                    self.with_span(context, |interface, turn| interface.tell(holder, word, turn));
                }
                Effect::AnswerBeat { .. } | Effect::AnswerPull { .. } => {
                    let context = self.context_of_answer(&effect);
                    self.with_span(context, |interface, turn| interface.answer(&effect, turn));
                }
                Effect::ReadToEnd(holder) => {
                    self.with_interface(|interface, turn| interface.read_to_end(holder, turn));
                }
                Effect::Close(holder, why) => {
                    self.with_interface(|interface, turn| interface.close(holder, why, turn));
                }
                Effect::CallBackend {
                    id,
                    call,
                    give_up,
                    is_again,
                } => {
                    Narrator::calling(&call);
                    self.look_at_worker_memory(&call);
                    self.backend.send(id, call, give_up, is_again);
                }
                Effect::AbandonCall(call) => self.backend.abandon(call),
                Effect::Answer(client, answer) => self.control.answer(client, &answer, &mut self.inbox),
                Effect::Show(client, shown) => self.show(client, &shown),
                Effect::DropClient(client) => self.control.drop_client(client),
                Effect::Notify(notice) => self.narrator.narrate(&notice, &self.heard.words),
                Effect::WriteTerminationLog(account) => {
                    // An end at once has no time for the last spans.
                    if account.is_abandoned
                        && let Some(mut traces) = self.traces.take()
                    {
                        traces.end();
                    }
                    let words = self.narrator.backend_error();
                    let text = termination_log::text(&account, words.as_deref(), self.narrator.no_worker());
                    self.termination_log.write(text);
                }
                Effect::Exit(status) => return Some(Exit::Status(status)),
            }
        }
        None
    }

    /// The context of the job's span, if this gives a job to a worker.
    fn context_of_word(&self, word: &ToWorker) -> Option<Trace> {
        let traces = self.traces.as_ref()?;
        match word {
            ToWorker::Job(GivenJob { subject, .. }) => traces.recorder.context_of(&subject.id),
            ToWorker::Hello { .. }
            | ToWorker::Lifecycle { .. }
            | ToWorker::Cancel { .. }
            | ToWorker::Ok { .. }
            | ToWorker::Error { .. }
            | ToWorker::Ping { .. } => None,
        }
    }

    /// The context of the job's span, if this answer has one job. Several have no common context.
    fn context_of_answer(&self, answer: &Effect) -> Option<Trace> {
        let traces = self.traces.as_ref()?;
        if let Effect::AnswerPull { jobs, .. } = answer
            && let [job] = jobs.as_slice()
        {
            traces.recorder.context_of(&job.subject.id)
        } else {
            None
        }
    }

    fn start_worker(&mut self, keeps_name: bool) {
        self.oom_kills.iter_mut().for_each(OomKills::begin);
        self.two.next_wanted = None;
        self.descendants.worker_begins();
        let event = match self.spawn_worker() {
            Ok(pid) => {
                let process = self.processes.worker_started(pid, self.poll.registry());
                self.worker = Some(Worker { pid, process });
                self.metrics.worker_started(now(), keeps_name);
                self.usage.worker_started(pid);
                let name = self.two.name.take().filter(|_| keeps_name);
                let worker = name.unwrap_or_else(|| WorkerId(Uuid::now_v7().to_string().into()));
                self.two.name = Some(worker.clone());
                let watch = self.processes.watch_of(process);
                self.facts.caller_proof = self.interface.worker_started(pid, watch.as_ref(), &worker);
                self.log.stderr_is_shared();
                image::let_go_of_pages();
                self.narrator.worker_started(pid, &worker);
                Event::WorkerStarted { process, worker }
            }
            Err(NotStartedNow::Shortage(error)) => {
                debug!("no process to be had: {error}");
                self.narrator.no_process_yet(start::reason(&error), remedy(&error));
                let shortage = start::no_process(&self.program, &error);
                self.narrator.worker_not_started(shortage.message);
                Event::WorkerNotStarted(NotStarted::Shortage)
            }
            Err(NotStartedNow::Refused(refused)) => {
                let status = refused.exit.code();
                self.narrator.worker_not_started(refused.message);
                Event::WorkerNotStarted(NotStarted::Refused(status))
            }
        };
        self.inbox.push_back(event);
    }

    /// A process of the worker's program, in one attempt.
    pub(super) fn spawn_worker(&self) -> Result<Pid, NotStartedNow> {
        let result = start::try_spawn(&self.plan, &self.program);
        // A child that changes its user shares the memory of ojs-init until then, and the kernel
        // makes it readable again, even if the program cannot be run.
        if let Err(error) = init::forbid_dumps() {
            debug!("PR_SET_DUMPABLE: {error}");
        }
        result
    }

    fn signal_process(&mut self, process: ProcessId, signal: Signal) {
        // The old one of two worker processes is signalled as it was before. A signal that wakes up
        // a handler is for the process that has the connection.
        let beside = self.two.beside.filter(|beside| beside.process == process);
        let group = beside.filter(|_| self.process_group && signal != Signal::URG);
        if let Some(leader) = group {
            self.descendants.group_is_signalled(leader.pid, signal);
        }
        self.processes.signal(process, signal, group.is_some());
    }

    fn signal_worker(&mut self, signal: Signal) {
        let Some(worker) = self.worker else { return };
        self.window.passed_on(signal);
        let result = if self.process_group {
            self.descendants.group_is_signalled(worker.pid, signal);
            process::signal_group(worker.pid, signal)
        } else {
            process::signal(worker.pid, signal)
        };
        match result {
            Ok(()) => debug!("{signal} to the worker"),
            Err(error) => warn!(
                "cannot send {signal} to process {}, the worker: {error}; {}",
                worker.pid,
                remedy_of_signal(&error)
            ),
        }
    }

    fn show(&mut self, client: ClientId, view: &ShownToOperator) {
        let up = self.started_at.elapsed(now());
        self.facts.backend_error = self.narrator.backend_error();
        let of_probes = self.probes.as_ref().map_or(0, ProbeLinks::timers);
        self.facts.timers = self.backend.timers() + self.interface.timers() + of_probes;
        if let ShownToOperator::Status(status) = view {
            self.facts.worker_jobs = self.metrics.worker_jobs();
            self.facts.usage = self.usage.read(status.snapshot.heartbeat_interval, now());
        }
        let line = shown::encode(view, &self.facts, up, self.log.dropped());
        self.control.write(client, &line, &mut self.inbox);
    }

    /// The orchestrator's limit, in a shutdown that has one.
    pub(super) fn exit_by(&self) -> Option<Moment> {
        self.machine.snapshot().exit_by
    }

    /// SIGKILL to the worker, unless it was reaped, and to all other processes of ojs-init.
    pub(super) fn kill_everything(&self) {
        if let Some(worker) = self.worker {
            descendants::kill_group(worker.pid);
        }
        descendants::kill_everybody();
    }
}
