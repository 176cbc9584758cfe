//! Promises in every state and at every step (contract 13), judged by the events that the world
//! saw.

use ojs_lifecycle::api::{Call, Failure, HolderId, JobId, Moment, Outcome, Phase, ProcessId, PullId};
use ojs_values::signal::Signal;

use super::world::{Answer, Link, World};

/// How a job can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ack,
    Fail,
    Requeue,
}

/// A job that was delivered, as the world knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fate {
    /// The holder that was given it.
    pub holder: Option<HolderId>,
    /// In the answer to which request for jobs.
    pub pull: Option<PullId>,
    /// The holder's words about it.
    pub said: Option<Kind>,
    /// The last word to the backend.
    pub sent: Option<Kind>,
    /// The backend has certainly not carried that out, or a look showed that.
    pub may_repeat: bool,
    /// The backend never accepts the sent outcome: another one may follow.
    pub is_refused: bool,
    /// The backend has accepted it.
    pub is_accepted: bool,
    /// The log announces that it is left to its visibility timeout.
    pub is_let_go: bool,
}

impl Fate {
    /// Whether this connection has it and has not answered.
    pub fn is_held_by(&self, connection: HolderId) -> bool {
        self.holder == Some(connection) && self.said.is_none()
    }
}

impl World {
    /// Remembers the first promise that was broken.
    pub fn break_promise(&mut self, what: &str) {
        self.broken.get_or_insert_with(|| what.to_owned());
    }

    /// The machine gives a job to a worker.
    pub fn check_handover(&mut self, connection: HolderId, job: &JobId) {
        if self.machine.snapshot().phase != Phase::Running {
            self.break_promise("a job was handed out outside running");
        }
        match self.jobs.get_mut(job) {
            Some(fate) if fate.holder.is_none() && fate.sent.is_none() => fate.holder = Some(connection),
            Some(_) => self.break_promise("a job was handed out twice, or after its outcome was sent"),
            None => self.break_promise("a job that nobody delivered was handed out"),
        }
    }

    /// A process gets a signal: SIGURG only one that is there and has a job.
    pub fn check_signal(&mut self, process: ProcessId, signal: Signal) {
        let theirs = |(_, link): &(&HolderId, &Link)| link.process == process && !link.is_over;
        let has_a_job = |id: &HolderId| self.jobs.values().any(|fate| fate.is_held_by(*id));
        let is_alive = self.processes.get(&process).is_some_and(|process| process.is_alive);
        let is_at_work = self.links.iter().filter(theirs).any(|(id, _)| has_a_job(id));
        if signal == Signal::URG && !(is_alive && is_at_work) {
            self.break_promise("a SIGURG to a process that has nothing to stop");
        }
    }

    /// A request leaves.
    pub fn check_call(&mut self, call: &Call, give_up: Moment) {
        let seen = self.machine.snapshot();
        if seen.phase.is_terminating() && self.gone_by.is_some_and(|end| give_up > end) {
            self.break_promise("a request may outlast us");
        }
        match call {
            Call::Fetch { count, .. } => {
                if seen.phase != Phase::Running {
                    self.break_promise("a FETCH outside running");
                }
                if self.options.once && !self.jobs.is_empty() {
                    self.break_promise("a FETCH after the one job");
                }
                self.check_fetch(*count);
            }
            Call::Report { job, outcome, .. } => {
                let kind = match outcome {
                    Outcome::Acked { .. } => Kind::Ack,
                    Outcome::Failed { .. } => Kind::Fail,
                    Outcome::Requeued { .. } => Kind::Requeue,
                };
                self.check_outcome(job, kind);
            }
            Call::Register { .. } => {
                if seen.phase.is_terminating() {
                    self.break_promise("a registration in terminate");
                }
            }
            Call::Heartbeat { .. }
            | Call::GetJob { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. }
            | Call::Deregister { .. } => {}
        }
    }

    fn check_outcome(&mut self, job: &JobId, kind: Kind) {
        let Some(fate) = self.jobs.get(job).cloned() else {
            return self.break_promise("an outcome of a job that nobody delivered");
        };
        if fate.is_accepted {
            self.break_promise("an outcome after the backend had taken one");
        }
        if fate.said == Some(Kind::Ack) && kind != Kind::Ack && !fate.is_refused {
            self.break_promise("a job that finished is reported as something else");
        }
        if fate.said == Some(Kind::Requeue) && kind == Kind::Fail {
            self.break_promise("a job that nobody began is reported as failed");
        }
        match fate.sent {
            Some(sent) if sent != kind && !fate.is_refused => self.break_promise("two different outcomes"),
            Some(_) if kind != Kind::Ack && !fate.may_repeat => {
                self.break_promise("a FAIL or requeue was repeated that may have been carried out");
            }
            Some(_) | None => {}
        }
        let is_our_word = fate.said.is_none();
        if is_our_word && fate.holder.is_some_and(|holder| !self.is_gone(holder)) {
            self.break_promise("an outcome of ours while the holder may still work, or was not read to the end");
        }
        if is_our_word && kind == Kind::Ack {
            self.break_promise("an ACK that no worker gave");
        }
        if let Some(fate) = self.jobs.get_mut(job) {
            fate.sent = Some(kind);
            fate.may_repeat = false;
            fate.is_refused = false;
        }
    }

    /// An answer arrives.
    pub fn note_answer(&mut self, call: &Call, answer: Answer) {
        let (Call::Report { job, .. } | Call::GetJob { job }) = call else {
            return;
        };
        let Some(fate) = self.jobs.get_mut(job) else { return };
        match answer {
            Answer::Good => fate.is_accepted = true,
            Answer::StillOurs | Answer::Fails(Failure::NotSent) => fate.may_repeat = true,
            Answer::Fails(Failure::Refused) => {
                fate.is_refused = true;
                fate.may_repeat = true;
            }
            Answer::Jobs(_) | Answer::NoLongerOurs | Answer::Fails(_) => {}
        }
    }

    /// Terminate has no way back.
    pub fn check_phase(&mut self, was_terminating: bool) {
        if was_terminating && !self.machine.snapshot().phase.is_terminating() {
            self.break_promise("a way back from terminate");
        }
    }

    /// Promises in every state.
    pub fn check_state(&mut self) {
        let seen = self.machine.snapshot();
        if seen.active > usize::try_from(self.options.concurrency).unwrap_or(usize::MAX) {
            self.break_promise("more active jobs than the concurrency");
        }
        if self.exited.is_some() {
            return self.check_exit();
        }
        let of_the_living = self.pulls.values().filter(|(holder, _)| !self.is_gone(*holder));
        if seen.phase != Phase::Running && of_the_living.count() > 0 {
            self.break_promise("somebody waits for jobs outside running");
        }
        if self.gone_by.is_some_and(|end| self.now >= end) {
            self.break_promise("not gone at the limit");
        }
        if seen.phase.is_terminating() && self.machine.poll_timeout().is_none() {
            self.break_promise("in terminate with nothing to wait for");
        }
    }

    /// No job is lost without a word.
    fn check_exit(&mut self) {
        let is_told = |fate: &Fate| fate.is_accepted || fate.is_let_go || fate.sent.is_some();
        if !self.is_abandoned && !self.jobs.values().all(is_told) {
            self.break_promise("a job was lost without a word");
        }
    }
}
