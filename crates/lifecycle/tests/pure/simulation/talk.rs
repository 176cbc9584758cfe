//! The reference for the requests to the backend: each request is checked against the allowed ones
//! when it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ojs_lifecycle::api::{
    Call, CallId, Failure, FinalState, JobId, JobState, Options, Outcome, Reply, WorkerId, WorkerState,
};

use super::absences::Absences;
use super::farewells::Farewells;
use super::fetches::Fetches;
use super::hedges::is_answer;
use super::ledger::{Claim, Ledger, broken};
use super::looks::shows_ours;
use super::outcomes::outcome_replied;
use super::plan::Answer;
use super::promise::{Broken, Kept, promise};

/// Time behind its limit after which a request counts as unanswered without a report.
const LEEWAY: Duration = Duration::from_millis(250);

/// Longest stall of the shell, and the most that it may add to a gap between heartbeats.
const SLACK: Duration = Duration::from_millis(60);

/// Most requests in flight.
const MOST_CALLS: usize = 60;

#[derive(Debug, Clone)]
pub struct Pending {
    pub call: Call,
    pub give_up: Duration,
    pub sent: Duration,
    /// The first request, if this one was sent beside it.
    pub first: Option<CallId>,
    /// The answers to other sends of this request, which decided nothing.
    pub refusals: Vec<Failure>,
    /// The request was to find out about a job whose outcome is decided.
    pub is_before_repeat: bool,
}

/// Facts about the world when a FAIL or requeue is ordered that no worker asked for.
#[derive(Debug, Clone, Copy)]
pub struct Holder {
    /// The process and, if it is the main one, its descendants are dead.
    pub is_dead: bool,
    /// All bytes that it wrote were read, or ojs-init gave up reading them.
    pub is_read: bool,
    /// The answer that it had written, if that could be read.
    pub wrote: Option<Answer>,
}

/// The record of the conversation.
#[derive(Debug)]
pub struct Talk {
    pub options: Options,
    pub calls: BTreeMap<CallId, Pending>,
    pub fetches: Fetches,
    worker: Option<WorkerId>,
    interval: Duration,
    /// Since when heartbeats have to be sent.
    beats_from: Option<Duration>,
    last_beat: Option<(WorkerState, usize)>,
    since_last_beat: Vec<Call>,
    known: BTreeMap<WorkerId, Duration>,
    farewells: Farewells,
    pub absences: Absences,
    /// A look at these jobs, since the last request of their outcome, does not forbid another one.
    pub cleared: BTreeSet<JobId>,
    /// The next request is sent for the second time.
    pub is_hedging: bool,
    /// When the backend last answered any request.
    pub answered_at: Option<Duration>,
}

impl Talk {
    pub fn new(options: Options) -> Self {
        Self {
            interval: options.heartbeat_interval,
            options,
            calls: BTreeMap::new(),
            fetches: Fetches::default(),
            worker: None,
            beats_from: None,
            last_beat: None,
            since_last_beat: Vec::new(),
            known: BTreeMap::new(),
            farewells: Farewells::default(),
            absences: Absences::default(),
            cleared: BTreeSet::new(),
            is_hedging: false,
            answered_at: None,
        }
    }

    /// Until then the one before it speaks, for the outcomes that it still has to deliver.
    pub fn started(&mut self, worker: &WorkerId) {
        self.worker = Some(worker.clone());
        self.beats_from = None;
    }

    /// Whether a heartbeat can be sent now, and the backend knows the worker.
    pub fn can_beat(&self) -> bool {
        let beats = self
            .calls
            .values()
            .filter(|pending| matches!(pending.call, Call::Heartbeat { .. }));
        let is_known = self
            .worker
            .as_ref()
            .is_some_and(|worker| self.known.contains_key(worker));
        is_known && self.beats_from.is_some() && beats.count() < 3
    }

    /// The backend has accepted a request; heartbeats that were not owed until then are owed from
    /// now on.
    fn is_known_now(&mut self, worker: &WorkerId, state: WorkerState, now: Duration) {
        let is_news = !self.known.contains_key(worker);
        self.known.entry(worker.clone()).or_insert(now);
        if is_news && state == WorkerState::Terminate && self.worker.as_ref() == Some(worker) {
            self.beats_from = self.beats_from.map(|_| now);
        }
    }

    /// After the backend has answered a registration heartbeats are sent, but not just for the end.
    fn registered(&mut self, worker: &WorkerId, reply: &Reply, state: WorkerState, now: Duration) {
        let is_current = self.worker.as_ref() == Some(worker);
        if let Reply::Registered {
            heartbeat_interval,
            longest_interval,
        } = reply
        {
            self.farewells.registered(worker);
            self.is_known_now(worker, state, now);
            let wanted = heartbeat_interval.filter(|_| !self.options.heartbeat_interval_is_fixed);
            let wanted = wanted.unwrap_or(self.options.heartbeat_interval);
            let bounds = [*longest_interval, Some(self.options.visibility_timeout / 3)];
            if is_current {
                self.interval = bounds.into_iter().flatten().fold(wanted, Duration::min);
                // A new interval counts from when it is known.
                self.beats_from = self.beats_from.map(|_| now);
            }
        } else if *reply != Reply::Failed(Failure::Unsupported) {
            return;
        }
        if is_current && state != WorkerState::Terminate {
            self.beats_from.get_or_insert(now);
        }
    }

    /// Requests without an answer in time.
    pub fn expire(&mut self, state: WorkerState, ledger: &mut Ledger, now: Duration) {
        let over = |(id, pending): (&CallId, &Pending)| (pending.give_up + LEEWAY <= now).then_some(*id);
        let over: Vec<CallId> = self.calls.iter().filter_map(over).collect();
        for id in over {
            self.replied(id, &Reply::Failed(Failure::Unanswered), state, ledger, now);
        }
    }

    /// The directive in a heartbeat's reply, if the machine still waits for that reply.
    pub fn replied(
        &mut self,
        id: CallId,
        reply: &Reply,
        state: WorkerState,
        ledger: &mut Ledger,
        now: Duration,
    ) -> Option<Reply> {
        let pending = self.calls.remove(&id)?;
        if is_answer(reply) {
            self.answered_at = Some(now);
        }
        let reply = &self.one_answer(id, &pending, reply)?;
        self.absences.replied(&pending.call, pending.sent, reply, now);
        self.fetches.answered(&pending, reply, state, now);
        ledger.is_looked_at = matches!(pending.call, Call::GetJob { .. }) && !pending.is_before_repeat;
        if let Call::GetJob { job } = &pending.call {
            self.looked(job, reply, ledger);
        }
        match &pending.call {
            Call::Register { worker, .. } => self.registered(worker, reply, state, now),
            Call::Heartbeat { worker, .. } => {
                if let Reply::HeartbeatOk { .. } = reply {
                    self.is_known_now(worker, state, now);
                    return Some(reply.clone());
                }
            }
            Call::Fetch { worker, .. } => {
                if let Reply::Fetched(deliveries) = reply {
                    let brought = |job: &JobId| deliveries.iter().any(|delivery| delivery.subject.id == *job);
                    self.cleared.retain(|job| !brought(job));
                    self.is_known_now(worker, state, now);
                    ledger.brought(deliveries, worker, state);
                }
            }
            Call::Report { job, outcome, .. } => {
                if let Some(claim) = ledger.find(job) {
                    outcome_replied(claim, outcome.is_ack(), reply);
                }
            }
            Call::GetJob { job } if pending.is_before_repeat => {
                if let (Some(claim), Reply::JobSeen(view)) = (ledger.find(job), reply) {
                    let is_ack = claim.answer == Some(Answer::Ack);
                    // Of an ACK in conflict a look shows that it got through.
                    claim.is_taken |= is_ack && view.state == JobState::Completed;
                    if shows_ours(claim, view) {
                        claim.needs_look = false;
                        claim.is_doubtful = false;
                    }
                }
            }
            Call::Deregister { worker, way } => self.farewells.answered(worker, *way, reply),
            Call::GetJob { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. } => {}
        }
        None
    }

    /// A request is made.
    #[expect(clippy::too_many_arguments, reason = "each is a fact about this moment")]
    pub fn ordered(
        &mut self,
        id: CallId,
        call: &Call,
        give_up: Duration,
        state: WorkerState,
        ledger: &mut Ledger,
        holder: Option<Holder>,
        now: Duration,
    ) -> Kept {
        if std::mem::take(&mut self.is_hedging) {
            return self.hedged(id, call, give_up, state, now);
        }
        let mut is_before_repeat = false;
        match call {
            Call::Register { .. } => {
                promise!(
                    "no registration in terminate",
                    state != WorkerState::Terminate,
                    "{call:?}"
                );
            }
            Call::Heartbeat {
                active, worker, state, ..
            } => {
                promise!(
                    "each speaks for itself",
                    self.worker.as_ref() == Some(worker),
                    "{call:?}"
                );
                self.beaten(*state, active, ledger, now)?;
            }
            Call::Fetch { count, .. } => self.fetched(*count, state, ledger)?,
            Call::Report {
                job, worker, outcome, ..
            } if outcome.is_ack() => {
                let claim = claimed(call, job, worker, ledger)?;
                promise!(
                    "an ACK is the worker's",
                    claim.answer == Some(Answer::Ack),
                    "{call:?}: {claim:?}"
                );
            }
            Call::Report { job, worker, .. } => {
                self.unrepeatable(call, job, worker, ledger, holder, now)?;
            }
            Call::GetJob { job } => is_before_repeat = self.looks(job, ledger, now),
            Call::Progress { .. } | Call::Checkpoint { .. } | Call::Manifest | Call::Listen { .. } => {}
            Call::Deregister { worker, way } => {
                self.farewells.said(worker, *way, now)?;
                promise!(
                    "a farewell from whom the backend knows",
                    self.known.contains_key(worker),
                    "{call:?}"
                );
                let has_open = ledger.open().any(|claim| claim.worker == *worker && !claim.is_lost);
                promise!("a farewell after the last outcome", !has_open, "{call:?}");
            }
        }
        if !matches!(call, Call::Heartbeat { .. }) {
            self.since_last_beat.push(call.clone());
        }
        let pending = Pending {
            call: call.clone(),
            give_up,
            sent: now,
            first: None,
            refusals: Vec::new(),
            is_before_repeat,
        };
        self.calls.insert(id, pending);
        promise!(
            "requests are bounded",
            self.calls.len() <= MOST_CALLS,
            "{} on their way",
            self.calls.len()
        );
        Ok(())
    }

    fn beaten(&mut self, state: WorkerState, active: &[JobId], ledger: &Ledger, now: Duration) -> Kept {
        let kept = ledger.open().filter(|claim| !claim.is_lost && !claim.is_doubtful);
        let kept: BTreeSet<&JobId> = kept.map(|claim| &claim.id).collect();
        let named: BTreeSet<&JobId> = active.iter().collect();
        promise!(
            "a beat names what is kept",
            kept == named,
            "named {named:?}, kept {kept:?}"
        );
        promise!("a beat names each once", named.len() == active.len(), "{active:?}");
        self.gap(state, now)?;
        self.beats_from = Some(now);
        self.last_beat = Some((state, active.len()));
        self.since_last_beat.clear();
        Ok(())
    }

    /// Whether the last heartbeat was one that may be the very last; which word it is, is a matter
    /// of configuration.
    fn has_said_last_word(&self) -> bool {
        let words: &[WorkerState] = match self.options.final_state {
            FinalState::Terminate => &[WorkerState::Terminate],
            FinalState::Terminated => &[WorkerState::Terminated],
            // The second is left out when the first has no answer.
            FinalState::Both => &[WorkerState::Terminate, WorkerState::Terminated],
        };
        self.last_beat
            .is_some_and(|(word, active)| words.contains(&word) && active == 0)
    }

    /// Checked at each heartbeat and at each step, because an overdue one may also never be sent.
    pub fn gap(&self, state: WorkerState, now: Duration) -> Kept {
        let has_said_farewell = self
            .worker
            .as_ref()
            .is_some_and(|worker| self.farewells.at(worker).is_some());
        let is_last = self.has_said_last_word();
        // A worker that the backend does not know needs no last heartbeat.
        let is_known = self
            .worker
            .as_ref()
            .is_some_and(|worker| self.known.contains_key(worker));
        if let Some(from) = self.beats_from
            && !has_said_farewell
            && !is_last
            && (is_known || state != WorkerState::Terminate)
        {
            let gap = now - from;
            let most = self.interval + LEEWAY + SLACK;
            promise!(
                "heartbeats at their interval",
                gap <= most,
                "none for {gap:?}, interval {:?}",
                self.interval
            );
        }
        Ok(())
    }

    /// A FAIL or a requeue: the job's holder must not be able to do anything more with the job.
    fn unrepeatable(
        &mut self,
        call: &Call,
        job: &JobId,
        worker: &WorkerId,
        ledger: &mut Ledger,
        holder: Option<Holder>,
        now: Duration,
    ) -> Kept {
        let is_fail = |outcome: &Outcome| matches!(outcome, Outcome::Failed { .. });
        let is_fail = matches!(call, Call::Report { outcome, .. } if is_fail(outcome));
        // An ACK that hangs is of an older claim, or this one is acked, which is looked at below.
        let is_same = |pending: &Pending| matches!(&pending.call, Call::Report { job: other, outcome, .. } if !outcome.is_ack() && other == job);
        let is_in_flight = self.calls.values().any(is_same);
        let is_cleared = self.cleared.remove(job) || !self.absences.may_be_elsewhere(job, now);
        let shown = ledger.shown.get(job).copied();
        let claim = claimed(call, job, worker, ledger)?;
        let is_first = !claim.is_decided && claim.holder.is_none();
        let given_back = "what came again is given back when it is seen to be ours";
        claim.is_seen(given_back, shown, is_first)?;
        promise!(
            "never two outcomes of a job at once",
            !is_in_flight,
            "{call:?}: {claim:?}"
        );
        promise!("no blind repeat", !claim.needs_look, "{call:?}: {claim:?}");
        promise!("no blind FAIL after the reservation", is_cleared, "{call:?}: {claim:?}");
        promise!("nothing for a lost reservation", !claim.is_lost, "{call:?}: {claim:?}");
        promise!(
            "a requeue does not discard",
            is_fail || !claim.is_last_attempt,
            "{call:?}: {claim:?}"
        );
        let wanted = if is_fail { Answer::Fail } else { Answer::Release };
        promise!(
            "a finished job is never reported failed",
            claim.answer.is_none_or(|answer| answer == wanted),
            "{call:?}: {claim:?}"
        );
        if claim.answer.is_none()
            && !claim.is_decided
            && let Some(holder) = holder
        {
            promise!(
                "an answer that can be read decides",
                holder.wrote.is_none(),
                "{call:?}: it wrote {holder:?}"
            );
            promise!(
                "no FAIL before the holder is gone",
                holder.is_dead || claim.is_orphan,
                "{call:?}: {claim:?}"
            );
            promise!(
                "no FAIL before everything is read",
                holder.is_read,
                "{call:?}: {claim:?}"
            );
        }
        if let Call::Report {
            outcome: Outcome::Failed { error },
            ..
        } = call
            && claim.answer.is_none()
            && claim.was_held_at_stop
            && !claim.may_be_decided
        {
            let is_named = error.kind == Some(self.options.shutdown_error_type.clone());
            promise!("a job that was cut off fails as such", is_named, "{call:?}: {claim:?}");
        }
        claim.is_decided = true;
        claim.is_doubtful = true;
        Ok(())
    }

    pub fn at_exit(&self) -> Kept {
        for (worker, since) in &self.known {
            let Some(farewell) = self.farewells.at(worker) else {
                return Err(broken("everybody known is deregistered", format!("not {worker}")));
            };
            let only_farewells = || {
                self.since_last_beat
                    .iter()
                    .all(|call| matches!(call, Call::Deregister { .. }))
            };
            if self.worker.as_ref() == Some(worker) && *since < farewell {
                let is_last = self.has_said_last_word() && only_farewells();
                promise!(
                    "the last beat has no jobs",
                    is_last,
                    "{:?}, then {:?}",
                    self.last_beat,
                    self.since_last_beat
                );
            }
        }
        Ok(())
    }
}

/// The claim that an outcome is about.
fn claimed<'a>(call: &Call, job: &JobId, worker: &WorkerId, ledger: &'a mut Ledger) -> Result<&'a mut Claim, Broken> {
    let Some(claim) = ledger.find(job) else {
        return Err(broken("an outcome is of a claim", format!("{call:?}")));
    };
    let is_the_claimers = claim.worker == *worker;
    promise!("an outcome is the claimer's", is_the_claimers, "{call:?}: {claim:?}");
    Ok(claim)
}
