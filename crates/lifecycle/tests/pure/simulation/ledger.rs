//! The reference for jobs and connections: a list of claims, searched from its start each time.

use ojs_lifecycle::api::ids::{HolderId, JobId, ProcessId, Text, WorkerId};
use ojs_lifecycle::api::{Delivery, EndingNotice, Event, FromWorker, JobEnd, JobNotice, Notice, WorkerState};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::backend::{PADDING, serial_of};
use super::links::Link;
use super::looks::Shown;
use super::plan::Answer;
use super::promise::{Broken, Kept, promise};

/// One reservation of the worker.
#[derive(Debug, Clone)]
pub struct Claim {
    pub id: JobId,
    pub kind: Text,
    pub worker: WorkerId,
    /// Which reservation it is, truly; another one once the job was delivered again.
    pub serial: u64,
    pub is_last_attempt: bool,
    pub has_a_timeout: bool,
    pub holder: Option<HolderId>,
    /// Which of all job frames it was.
    pub frame: Option<u64>,
    /// The worker's word that counts.
    pub answer: Option<Answer>,
    pub is_open: bool,
    pub is_lost: bool,
    /// Its outcome was sent to the backend at least once.
    pub is_decided: bool,
    /// A FAIL or requeue is on its way, or may have been carried out.
    pub is_doubtful: bool,
    /// The report may only be repeated after a look.
    pub needs_look: bool,
    /// The backend has accepted its outcome.
    pub is_taken: bool,
    /// The worker received the refusal of its result.
    pub may_answer_again: bool,
    /// The shutdown may not be the reason for its cut: it timed out, or its holder hung up before.
    pub may_be_decided: bool,
    pub was_held_at_stop: bool,
    /// Its holder had ended, and was read, before the worker ended: it is decided, and only its
    /// checkpoint delays it.
    pub is_orphan: bool,
    /// The job was delivered before an earlier outcome of it was settled.
    pub is_again: bool,
    /// A look was sent after the end of its reservation. The machine may have decided to give it
    /// back or to fail it.
    pub is_in_question: bool,
}

impl Claim {
    /// The job is with a worker that has not answered.
    pub fn is_held(&self) -> bool {
        self.is_open && self.holder.is_some() && self.answer.is_none() && !self.is_decided
    }

    pub fn may_be_cut_off(&self) -> bool {
        self.was_held_at_stop && self.answer.is_none() && (!self.is_lost || self.is_decided || self.is_in_question)
    }

    pub fn is_waiting(&self) -> bool {
        self.is_open && self.holder.is_none() && !self.is_decided
    }
}

/// The record of all claims.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Jobs that were given back too often, and are held before they go back.
    pub braked: BTreeSet<JobId>,
    pub claims: Vec<Claim>,
    pub links: BTreeMap<HolderId, Link>,
    /// Processes with connections; true if they have ended.
    pub gone: BTreeMap<ProcessId, bool>,
    pub main: Option<ProcessId>,
    pub frames: u64,
    /// The result that the last look at each job could show: the reservation, if it had one, or
    /// nothing at all.
    pub shown: BTreeMap<JobId, Shown>,
    /// The machine receives the answer to a look now.
    pub is_looked_at: bool,
    /// The stop phase has begun.
    pub is_stopping: bool,
}

impl Ledger {
    pub fn open(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(|claim| claim.is_open)
    }

    /// The claim that an outcome or notice about this job concerns: the oldest.
    pub fn find(&mut self, id: &JobId) -> Option<&mut Claim> {
        self.claims.iter_mut().find(|claim| claim.is_open && claim.id == *id)
    }

    /// The claim whose reservation is called lost now: a look is about one that is not decided.
    pub fn find_lost(&mut self, id: &JobId) -> Option<&mut Claim> {
        let by_look = self.is_looked_at;
        let is_it = |claim: &&mut Claim| {
            claim.is_open
                && claim.id == *id
                && (!by_look || claim.is_in_question || claim.is_held() || claim.is_waiting())
        };
        self.claims.iter_mut().find(is_it)
    }

    pub fn event(&mut self, event: &Event, now: Duration) -> Kept {
        match event {
            Event::WorkerStarted { process, .. } => {
                self.main = Some(*process);
                self.gone.entry(*process).or_insert(false);
            }
            Event::NextStarted(_) | Event::NextNotStarted(_) => {}
            Event::WorkerEnded(_) => {
                for claim in &mut self.claims {
                    claim.is_decided |= claim.is_waiting();
                    let link = claim.holder.and_then(|holder| self.links.get(&holder));
                    let is_over = |link: &Link| link.is_hung_up && self.gone.get(&link.process) == Some(&true);
                    claim.is_orphan |=
                        claim.is_held() && link.is_some_and(is_over) && link.map(|it| it.process) != self.main;
                }
                if let Some(main) = self.main.take()
                    && let Some(gone) = self.gone.get_mut(&main)
                {
                    *gone = true;
                }
            }
            Event::HolderCame {
                holder: connection,
                process,
                ..
            } => {
                // A holder without a process of its own belongs to the worker.
                let Some(process) = process.or(self.main) else {
                    return Ok(());
                };
                self.gone.entry(process).or_insert(false);
                let link = Link {
                    process,
                    ready: None,
                    is_busy: false,
                    is_hung_up: false,
                    is_closing: false,
                    told: None,
                    cancelled: BTreeSet::new(),
                    timed_out: BTreeSet::new(),
                    pulls: BTreeMap::new(),
                };
                self.links.insert(*connection, link);
            }
            Event::Said(connection, said) => self.said(*connection, said, now),
            Event::OutboundFilled(connection) => self.busy(*connection, true),
            Event::OutboundEmptied(connection) => self.busy(*connection, false),
            Event::HungUp(connection) => self.hung_up(*connection),
            Event::ProcessGone(process) => {
                self.gone.insert(*process, true);
            }
            Event::SignalArrived(_)
            | Event::MemoryRanOut(_)
            | Event::ProcessIsOld(_)
            | Event::OperatorConnected(_)
            | Event::OperatorAsked(..)
            | Event::OperatorLeft(_)
            | Event::HeardPart(_)
            | Event::ReadingStopped(_)
            | Event::ReadingResumed(_)
            | Event::WorkerNotStarted(_)
            | Event::Reaped { .. }
            | Event::BackendReplied(..)
            | Event::StreamSaid(..)
            | Event::MemoryTaken(_)
            | Event::WorkerMemory(_)
            | Event::CredentialsChanged => {}
        }
        Ok(())
    }

    fn busy(&mut self, connection: HolderId, is_busy: bool) {
        if let Some(link) = self.links.get_mut(&connection) {
            link.is_busy = is_busy;
        }
    }

    pub fn hung_up(&mut self, connection: HolderId) {
        if let Some(link) = self.links.get_mut(&connection) {
            link.is_hung_up = true;
            link.pulls.clear();
        }
        for claim in &mut self.claims {
            // The outcome of a lost claim is not needed.
            claim.is_open &= !(claim.is_held() && claim.is_lost && claim.holder == Some(connection));
        }
    }

    fn said(&mut self, connection: HolderId, said: &FromWorker, now: Duration) {
        let (job, answer) = match said {
            FromWorker::Ready(ready) => {
                if let Some(link) = self.links.get_mut(&connection) {
                    link.ready = Some(ready.clone());
                }
                return;
            }
            FromWorker::Wants(wants) => {
                if let Some(link) = self.links.get_mut(&connection) {
                    let count = usize::try_from(wants.count).unwrap();
                    link.pulls.insert(wants.pull, (count, now + wants.within));
                }
                return;
            }
            FromWorker::WantsNoMore { pull } => {
                if let Some(link) = self.links.get_mut(&connection) {
                    link.pulls.remove(pull);
                }
                return;
            }
            FromWorker::Ack { job, .. } => (job, Answer::Ack),
            FromWorker::Fail { job, .. } => (job, Answer::Fail),
            FromWorker::Release { job, .. } => (job, Answer::Release),
            FromWorker::Progress { .. }
            | FromWorker::Checkpoint { .. }
            | FromWorker::Heartbeat { .. }
            | FromWorker::Beats { .. }
            | FromWorker::Pong { .. }
            | FromWorker::Garbage { .. } => return,
        };
        let theirs = |claim: &&mut Claim| claim.is_open && claim.id == *job && claim.holder == Some(connection);
        let Some(claim) = self.claims.iter_mut().find(theirs) else {
            return;
        };
        if claim.answer.is_none() || claim.may_answer_again {
            let link = self.links.get_mut(&connection);
            let has_timed_out = link.is_some_and(|link| link.timed_out.remove(job));
            // The next attempt would time out as well.
            claim.answer = Some(match answer {
                Answer::Release if has_timed_out => Answer::Fail,
                Answer::Ack | Answer::Fail | Answer::Release => answer,
            });
            claim.may_answer_again = false;
            claim.is_open = !claim.is_lost;
        }
    }

    /// The jobs of a FETCH.
    pub fn brought(&mut self, deliveries: &[Delivery], worker: &WorkerId, state: WorkerState) {
        let mut seen: Vec<&JobId> = Vec::new();
        for delivery in deliveries {
            if seen.contains(&&delivery.subject.id) {
                continue;
            }
            seen.push(&delivery.subject.id);
            let serial = serial_of(&delivery.reservation);
            let attempt = delivery.reservation.attempt.unwrap_or(0);
            let is_last_attempt = delivery.subject.max_attempts.is_some_and(|most| attempt >= most);
            let is_before = |claim: &Claim| claim.id == delivery.subject.id && !claim.is_held() && !claim.is_waiting();
            let is_again = self.open().any(is_before);
            self.claims.push(Claim {
                id: delivery.subject.id.clone(),
                kind: delivery.subject.kind.clone(),
                worker: worker.clone(),
                serial,
                is_last_attempt,
                has_a_timeout: delivery.timeout.is_some(),
                holder: None,
                frame: None,
                answer: None,
                is_open: true,
                is_lost: false,
                // No worker ever gets it: it is given back, or is too large.
                is_decided: state != WorkerState::Running || self.main.is_none() || delivery.envelope.len() > PADDING,
                is_doubtful: false,
                needs_look: false,
                is_taken: false,
                may_answer_again: false,
                may_be_decided: false,
                was_held_at_stop: false,
                is_orphan: false,
                is_again,
                is_in_question: false,
            });
        }
    }

    pub fn held_by(&self, connection: HolderId) -> usize {
        let held = |claim: &&Claim| claim.is_held() && claim.holder == Some(connection);
        self.claims.iter().filter(held).count()
    }

    /// Jobs in the buffer. A job that was delivered after an earlier claim of it is left out, and
    /// so is one that was looked at: the machine may already be giving it back.
    pub fn waiting(&self) -> usize {
        let is_first = |claim: &&Claim| claim.is_waiting() && !claim.is_again && !claim.is_in_question;
        self.claims.iter().filter(is_first).count()
    }

    /// Whether no job is left; a lost one may still be with its handler.
    pub fn is_idle(&self) -> bool {
        let is_over = |claim: &Claim| !claim.is_open && (!claim.is_lost || claim.answer.is_some());
        self.claims.iter().all(is_over)
    }

    /// Every open connection knows the state.
    pub fn is_told(&self, state: WorkerState) -> Kept {
        for (connection, link) in self
            .links
            .iter()
            .filter(|(_, link)| !link.is_hung_up && !link.is_closing)
        {
            promise!(
                "every connection is told the state",
                link.told == Some(state),
                "{connection} was told {:?}, it is {state:?}",
                link.told
            );
        }
        Ok(())
    }

    /// A job frame is written.
    pub fn hand_over(
        &mut self,
        connection: HolderId,
        envelope: &str,
        state: WorkerState,
        most: usize,
        is_pulled: bool,
    ) -> Kept {
        let id = JobId(envelope.split(' ').next().unwrap().into());
        let held = self.held_by(connection);
        let link = self.links.get(&connection).cloned();
        let is_gone = link.as_ref().and_then(|link| self.gone.get(&link.process).copied());
        let main = self.main;
        let frame = self.frames;
        let shown = self.shown.get(&id).copied();
        let before = self.places_taken(most, |claim| claim.holder.is_some());
        let (Some(link), Some(claim)) = (link, self.find(&id)) else {
            return Err(broken("jobs come from claims", format!("{id} on {connection}")));
        };
        promise!(
            "no job outside running",
            state == WorkerState::Running,
            "{id} in {state:?}"
        );
        promise!("jobs come from claims", claim.is_waiting(), "{id} is {claim:?}");
        promise!(
            "a job goes to an empty buffer",
            is_pulled || !link.is_busy,
            "{id} on {connection}"
        );
        promise!(
            "a job goes to an open connection",
            !link.is_hung_up && !link.is_closing,
            "{id} on {connection}"
        );
        promise!(
            "a job goes to a live process",
            is_gone == Some(false),
            "{id} on {connection}"
        );
        promise!(
            "a job goes to the worker that runs",
            main.is_some(),
            "{id} on {connection}"
        );
        if !is_pulled {
            link.takes(connection, claim, held)?;
        }
        promise!("the concurrency", before < most, "{before} of {most} are with workers");
        claim.is_seen("what came again is started when it is seen to be ours", shown, true)?;
        claim.holder = Some(connection);
        claim.frame = Some(frame);
        self.frames += 1;
        Ok(())
    }

    fn stop_began(&mut self) {
        self.is_stopping = true;
        for claim in &mut self.claims {
            claim.was_held_at_stop |= claim.is_held() && !claim.is_lost;
            // Its outcome may be decided already: the FAIL waits for the checkpoint, or for room.
            let link = claim.holder.and_then(|holder| self.links.get(&holder));
            claim.may_be_decided |= link.is_some_and(|link| link.is_hung_up);
        }
    }

    pub fn notice(&mut self, notice: &Notice) -> Kept {
        match notice {
            Notice::Job(notice) => self.about_job(notice),
            Notice::Ending(notice) => {
                self.about_ending(notice);
                Ok(())
            }
            Notice::Link(_) | Notice::Worker(_) | Notice::CallFailed { .. } => Ok(()),
        }
    }

    fn about_ending(&mut self, notice: &EndingNotice) {
        if let EndingNotice::StopBegan { .. } = notice {
            self.stop_began();
        } else if let EndingNotice::StateChanged { state, .. } = notice {
            // A waiting job is given back, now or when an earlier outcome of it is settled.
            let goes_back = |claim: &Claim| *state != WorkerState::Running && claim.is_waiting();
            self.claims.iter_mut().for_each(|it| it.is_decided |= goes_back(it));
        }
    }

    fn about_job(&mut self, notice: &JobNotice) -> Kept {
        match notice {
            JobNotice::OutcomeSent { job, .. } => self.outcome_sent(&job.id)?,
            JobNotice::Settled { job, outcome, .. } => self.settled(&job.id, outcome.end())?,
            JobNotice::Abandoned(job, why) => self.abandoned(&job.id, why)?,
            JobNotice::Void(job, _) => self.void(&job.id)?,
            JobNotice::Adopted(job) | JobNotice::Replaced(job) => self.adopted(&job.id)?,
            JobNotice::ReservationLost(job, _) | JobNotice::DoneTwice(job) => self.lost(&job.id)?,
            JobNotice::TimedOut(job, _) => self.find(&job.id).into_iter().for_each(|it| it.may_be_decided = true),
            JobNotice::CancelledByOperator { job, .. } => self.cancelled(&job.id),
            JobNotice::ResultDropped(job) => self.result_dropped(&job.id),
            JobNotice::RunsAlone(job) => self.runs_alone(&job.id)?,
            JobNotice::Unanswered(job, _) => self.unanswered(&job.id)?,
            JobNotice::GivenBackAgain { job, .. } => {
                self.braked.insert(job.id.clone());
            }
            JobNotice::TimeoutPassed(..)
            | JobNotice::AnswerMended(..)
            | JobNotice::Dropped(..)
            | JobNotice::NamedAgain(_)
            | JobNotice::CheckpointNotSaved(..)
            | JobNotice::CheckpointTooLarge { .. }
            | JobNotice::Claimed(_)
            | JobNotice::JobsDied { .. }
            | JobNotice::HandedOver(..)
            | JobNotice::NoHandler { .. } => {}
        }
        Ok(())
    }

    fn settled(&mut self, id: &JobId, end: JobEnd) -> Kept {
        let Some(claim) = self.find(id) else {
            return Err(broken("what is settled was claimed", format!("{id}")));
        };
        let is_taken = claim.is_taken;
        promise!("settled is what the backend took", is_taken, "{id} {end:?}: {claim:?}");
        let expected = match claim.answer {
            Some(Answer::Ack) => end == JobEnd::Acked,
            Some(Answer::Fail) => end == JobEnd::Failed,
            Some(Answer::Release) => end == JobEnd::Requeued,
            None => end != JobEnd::Acked,
        };
        promise!("the outcome is the worker's", expected, "{id} {end:?}: {claim:?}");
        claim.is_open = false;
        Ok(())
    }

    /// A look is answered. A job that the look showed as this worker's is an ordinary one.
    pub fn is_seen(&mut self, id: &JobId) {
        let shown = self.shown.get(id).copied();
        if let Some(claim) = self.find(id) {
            claim.is_again &= claim.is_seen("", shown, true).is_err();
        }
    }

    /// A job of the worker was delivered again: the claim now has the new reservation.
    fn adopted(&mut self, id: &JobId) -> Kept {
        let shown = self.shown.get(id).copied();
        let newest = self.claims.iter().rposition(|claim| claim.id == *id);
        let again = newest.map(|newest| self.claims.remove(newest));
        let is_here = |claim: &Claim| claim.answer.is_none() && !claim.is_decided && (claim.is_open || claim.is_lost);
        let of_it = |claim: &Claim| claim.id == *id && is_here(claim);
        let open = self.claims.iter().position(|claim| claim.is_open && of_it(claim));
        let here = open.or_else(|| self.claims.iter().rposition(of_it));
        let here = here.and_then(|here| self.claims.get_mut(here));
        let (Some(again), Some(here)) = (again, here) else {
            return Err(broken("what is adopted is here", format!("{id}")));
        };
        // A job that a look showed as this worker's is an ordinary one; so is its replacement.
        here.is_again &= here.is_seen("", shown, true).is_err();
        here.serial = again.serial;
        here.worker = again.worker;
        here.is_last_attempt = again.is_last_attempt;
        here.is_lost = false;
        here.is_open = true;
        here.was_held_at_stop |= self.is_stopping && here.is_held();
        Ok(())
    }
}

pub fn broken(promise: &'static str, detail: String) -> Broken {
    Broken { promise, detail }
}
