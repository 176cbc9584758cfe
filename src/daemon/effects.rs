//! One order of the lifecycle, one call.

use std::time::Duration;

use log::{debug, warn};
use uuid::Uuid;

use crate::daemon::descendants;
use crate::daemon::event_loop::{EventLoop, Worker, now};
use crate::daemon::log::narrate::Narrator;
use crate::daemon::start::{self, NotStartedNow};
use ojs_lifecycle::api::{ClientId, Effect, Event, HolderId, NotStarted, ShownToOperator, ToWorker, WorkerId};
use ojs_os::cgroup::OomKills;
use ojs_os::{image, init, process};
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;
use ojs_wire::operator::status_line;
use ojs_wire::termination_log;

impl EventLoop {
    /// Does what the machine ordered. Returns the exit status when that was the last order.
    pub(super) fn perform(&mut self) -> Option<Exit> {
        while let Some(effect) = self.machine.poll_effect() {
            self.metrics.observe(&effect);
            match effect {
                Effect::StartWorker => self.start_worker(),
                Effect::SignalWorker(signal) => self.signal_worker(signal),
                Effect::SignalProcess(process, signal) => self.workers.signal(process, signal),
                Effect::TerminateDescendants => self.descendants.terminate(),
                Effect::KillDescendants => descendants::kill_children(),
                Effect::KillEverything => self.kill_everything(),
                Effect::Tell(holder, word) => self.tell(holder, &word),
                Effect::AnswerBeat { holder, state, jobs } => {
                    self.with_gateway(|gateway, _| gateway.hear_beat(holder, state, &jobs));
                }
                Effect::AnswerPull { holder, pull, jobs } => {
                    self.with_gateway(|gateway, turn| gateway.answer_pull(holder, pull, &jobs, turn.events));
                }
                Effect::ReadToEnd(holder) if self.gateway.is_some() => {
                    self.with_gateway(|gateway, turn| gateway.read_to_end(holder, turn.now));
                }
                Effect::ReadToEnd(connection) => self.workers.read_to_end(connection),
                Effect::Close(connection, why) => self.close(connection, why),
                Effect::CallBackend {
                    id,
                    call,
                    give_up,
                    is_again,
                } => {
                    Narrator::calling(&call);
                    self.backend.send(id, call, give_up, is_again);
                }
                Effect::AbandonCall(call) => self.backend.abandon(call),
                Effect::Answer(client, answer) => self.control.answer(client, &answer, &mut self.inbox),
                Effect::Show(client, shown) => self.show(client, &shown),
                Effect::DropClient(client) => self.control.drop_client(client),
                Effect::Notify(notice) => self.narrator.narrate(&notice, &self.heard.words),
                Effect::WriteTerminationLog(account) => {
                    let words = self.narrator.backend_error();
                    self.termination_log
                        .write(termination_log::text(&account, words.as_deref()));
                }
                Effect::Exit(status) => return Some(Exit::Status(status)),
            }
        }
        None
    }

    /// In mode gateway every holder is the gateway's, else every one is the worker socket's.
    fn tell(&mut self, holder: HolderId, word: &ToWorker) {
        if self.gateway.is_some() {
            self.with_gateway(|gateway, turn| gateway.tell(holder, word, turn));
        } else {
            let registry = self.poll.registry();
            self.workers.tell(holder, word, registry, &mut self.inbox);
        }
    }

    fn start_worker(&mut self) {
        self.oom_kills.iter_mut().for_each(OomKills::begin);
        let event = match start::try_spawn(&self.plan, &self.program) {
            Ok(pid) => {
                let process = self.workers.started(pid, self.poll.registry());
                self.worker = Some(Worker { pid, process });
                self.metrics.worker_started();
                let worker = WorkerId(Uuid::now_v7().to_string().into());
                if let Some(gateway) = &mut self.gateway {
                    gateway.worker_started(pid, self.workers.watch_of(process).as_ref(), &worker);
                    self.facts.caller_proof = Some(gateway.caller_proof());
                }
                if let Some(act) = self.on_first_start.take() {
                    act();
                    image::let_go_of_pages();
                }
                // A child that changed its user shared our memory until then, and the kernel made
                // it readable again.
                if let Err(error) = init::forbid_dumps() {
                    debug!("PR_SET_DUMPABLE: {error}");
                }
                self.narrator.worker_started(pid, &worker);
                Event::WorkerStarted { process, worker }
            }
            Err(NotStartedNow::Shortage(error)) => {
                debug!("no process to be had: {error}");
                self.narrator.no_process_yet(start::reason(&error));
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

    fn signal_worker(&mut self, signal: Signal) {
        let Some(worker) = self.worker else { return };
        self.window.passed_on(signal);
        let result = if self.process_group {
            process::signal_group(worker.pid, signal)
        } else {
            process::signal(worker.pid, signal)
        };
        match result {
            Ok(()) => debug!("{signal} to the worker"),
            Err(error) => warn!("cannot send {signal} to the worker: {error}"),
        }
    }

    fn show(&mut self, client: ClientId, shown: &ShownToOperator) {
        let up = self.started_at.elapsed(now());
        self.facts.backend_error = self.narrator.backend_error();
        let line = status_line::encode(shown, &self.facts, up, self.log.dropped());
        self.control.write(client, &line, &mut self.inbox);
    }

    fn close(&mut self, connection: HolderId, why: &str) {
        if self.gateway.is_some() {
            debug!("holder {connection}: let go: {why}");
            return self.with_gateway(|gateway, turn| gateway.close(connection, turn));
        }
        warn!("connection {connection}: closed by us: {why}");
        let registry = self.poll.registry();
        self.workers.close(connection, registry, &mut self.inbox);
    }

    /// The time to the orchestrator's limit, in a shutdown that has one.
    pub(super) fn time_to_limit(&self) -> Option<Duration> {
        Some(self.machine.snapshot().exit_by?.remaining(now()))
    }

    /// SIGKILL to the worker, unless it was reaped, and to everything else that is ours.
    pub(super) fn kill_everything(&self) {
        if let Some(worker) = self.worker {
            descendants::kill_group(worker.pid);
        }
        descendants::kill_everybody();
    }
}
