//! The lifecycle's words, as answers to the requests that wait for them. The lifecycle has decided
//! them, and `wire::gateway` writes their bytes.

use std::collections::VecDeque;

use log::debug;

use crate::daemon::backend::outcome::OutcomeReply;
use crate::daemon::gateway::book::LinkId;
use crate::daemon::gateway::link::{Asked, Filled, LinkStage, Pulling};
use crate::daemon::gateway::{Gateway, InterfaceTurn};
use ojs_lifecycle::api::{
    About, ErrorCode, Event, FromWorker, GivenJob, HolderId, JobId, PullId, ToWorker, Trace, WorkerState,
};
use ojs_os::clock;
use ojs_wire::gateway::{self as wire, AnswerForm};

impl Gateway {
    /// Answers a request for jobs. The jobs go back if its client is gone. `context` is that of the
    /// only job's span, if it has one.
    pub fn answer_pull(
        &mut self,
        holder: HolderId,
        pull: PullId,
        jobs: &[GivenJob],
        context: Option<&Trace>,
        events: &mut VecDeque<Event>,
    ) {
        let asked = Pulling { holder, pull };
        let waits = |stage: &LinkStage| matches!(stage, LinkStage::Asked(Asked::Jobs(waiting)) if *waiting == asked);
        let id = self.book.take_pull(pull).unwrap_or_default();
        self.enqueue(id);
        let Some(link) = self.links.get_mut(&id).filter(|link| waits(&link.stage)) else {
            return give_back(holder, pull, jobs, events);
        };
        // A client that left in this very turn must not receive jobs.
        link.look_again();
        let is_gone = link.is_deaf || link.fill(&mut self.buffer) == Filled::End;
        link.say(&wire::fetched(if is_gone { &[] } else { jobs }, context, link.form));
        link.stage = LinkStage::Answering(Some(asked).filter(|_| !jobs.is_empty() && !is_gone));
        if is_gone {
            give_back(holder, pull, jobs, events);
        }
    }

    /// Answers the requests that wait for this message. A client that uses HTTP receives nothing
    /// unasked.
    pub fn tell(&mut self, holder: HolderId, word: &ToWorker, turn: &mut InterfaceTurn<'_>) {
        match word {
            ToWorker::Ok { job, about, is_settled } => {
                // Only an ACK settles the state of the job here; for other outcomes the backend
                // alone decides.
                let is_done = *is_settled && *about == About::Ack;
                self.outcome_was_taken(job, is_done.then_some("completed"), turn.answer);
            }
            ToWorker::Error {
                code,
                message,
                job: Some(job),
            } => self.outcome_was_refused(job, *code, message, turn),
            ToWorker::Error { message, job: None, .. } => debug!("holder {holder}: {message}"),
            ToWorker::Hello { .. }
            | ToWorker::Job(_)
            | ToWorker::Lifecycle { .. }
            | ToWorker::Cancel { .. }
            | ToWorker::Ping { .. } => {}
        }
    }

    /// Answers the oldest heartbeat of a holder that waits for that.
    pub fn hear_beat(&mut self, holder: HolderId, state: WorkerState, jobs: &[JobId]) {
        if let Some(id) = self.book.take_beat(holder) {
            self.answer_beat(id, state, jobs);
        }
    }

    /// Answers the requests that wait for the outcome of this job: with `own`, if that is the
    /// backend's answer about this job, or else with an answer by ojs-init. `state` is the state of
    /// the job afterwards, if it is known.
    pub(super) fn outcome_was_taken(&mut self, job: &JobId, state: Option<&str>, own: Option<&OutcomeReply>) {
        let own = own.filter(|own| own.is_success());
        self.answer_outcome(job, own, |form| wire::outcome(job, state, form));
    }

    pub(super) fn outcome_was_refused(
        &mut self,
        job: &JobId,
        code: ErrorCode,
        message: &str,
        turn: &mut InterfaceTurn<'_>,
    ) {
        let own = turn.answer.filter(|own| !own.is_success());
        self.answer_outcome(job, own, |form| wire::outcome_not_taken(code, message, form));
    }

    fn answer_outcome(&mut self, job: &JobId, own: Option<&OutcomeReply>, ours: impl Fn(AnswerForm) -> Vec<u8>) {
        let own = own.filter(|own| own.job == *job);
        for id in self.book.take_outcome(job) {
            let Some(form) = self.form_of(id, job) else { continue };
            let answer = own.map_or_else(|| ours(form), |own| wire::handed_on(own.status, &own.body, form));
            self.answer(id, &answer);
        }
    }

    /// How a connection is answered that still waits for the answer about this job.
    fn form_of(&self, id: LinkId, job: &JobId) -> Option<AnswerForm> {
        let link = self.links.get(&id)?;
        let waits = matches!(&link.stage, LinkStage::Asked(Asked::Outcome(asked)) if asked == job);
        waits.then_some(link.form)
    }

    pub(super) fn answer_beat(&mut self, id: LinkId, state: WorkerState, jobs: &[JobId]) {
        let Some(link) = self.links.get(&id) else { return };
        if matches!(link.stage, LinkStage::Asked(Asked::Beat)) {
            let time = clock::wall().to_string();
            let bytes = wire::beat(state, jobs, &time, link.form);
            self.answer(id, &bytes);
        }
    }
}

fn give_back(holder: HolderId, pull: PullId, jobs: &[GivenJob], events: &mut VecDeque<Event>) {
    if !jobs.is_empty() {
        events.push_back(Event::Said(holder, FromWorker::WantsNoMore { pull }));
    }
}
