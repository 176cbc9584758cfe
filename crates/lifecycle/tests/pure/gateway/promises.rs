//! Promises, and the handlers' work on the jobs of these lives.

use std::time::Duration;

use ojs_lifecycle::api::ids::{CallId, HolderId, JobId, ProcessId};
use ojs_lifecycle::api::{Call, Event, Failure, JobNotice, Notice, Outcome, Phase, Reply};
use ojs_values::exit::Ended;

use super::backend::Stored;
use super::world::{ANSWER_WITHIN, Client, Item, Kind, MAIN, World};

impl World {
    pub fn breaks(&mut self, promise: &str, how: &str) {
        self.broken.get_or_insert_with(|| format!("{promise}: {how}"));
    }

    fn phase(&self) -> Phase {
        self.machine.snapshot().phase
    }

    /// Gives a job to a holder, and chooses its handler's acts.
    pub fn is_given(&mut self, holder: HolderId, job: JobId) {
        if self.phase() != Phase::Running {
            self.breaks("no job outside running", &job.to_string());
        }
        if self.is_worked_on(&job) {
            self.breaks("no job runs twice in one worker", &job.to_string());
        }
        self.released.remove(&job);
        self.let_go.remove(&job);
        if !self.clients[&holder].is_known && self.chance.one_in(3) {
            self.later(100, Item::OwnBeat(holder, job.clone()));
        }
        let longest = *self.chance.pick(&[300, 3_000, 30_000]);
        let after = 50 + self.chance.below(longest);
        let by = if self.chance.one_in(3) {
            HolderId(1 + self.chance.below(5))
        } else {
            holder
        };
        match self.chance.below(12) {
            0 => return self.later(1, Item::Answer(holder, job, Kind::Release)),
            // Dropped silently: no heartbeat names it.
            1 => return,
            2 => {
                self.later(after + 500, Item::Answer(by, job.clone(), Kind::Fail));
                self.seen[2] = true;
            }
            3 => self.later(after + 3_000, Item::Answer(by, job.clone(), Kind::Ack)),
            4 => {
                // The job is worked on for ever.
                self.clients.get_mut(&holder).unwrap().has.insert(job);
                return;
            }
            _ => {}
        }
        self.clients.get_mut(&holder).unwrap().has.insert(job.clone());
        let kind = if self.chance.one_in(5) { Kind::Fail } else { Kind::Ack };
        self.later(after, Item::Answer(by, job, kind));
    }

    fn is_worked_on(&self, job: &JobId) -> bool {
        let has = |(holder, client): (&HolderId, &Client)| client.has.contains(job) && self.is_there(*holder);
        self.clients.iter().any(has)
    }

    pub fn is_answered(&mut self, holder: HolderId, job: &JobId) {
        match self.waits.remove(job) {
            Some((who, since)) if who == holder => {
                self.seen[0] |= self.now.saturating_sub(since) >= Duration::from_secs(25);
                self.seen[1] |= self.phase().is_terminating();
            }
            other => self.breaks(
                "each outcome is answered once, to who told it",
                &format!("{job} to {holder}: {other:?}"),
            ),
        }
    }

    pub fn nobody_waits_too_long(&mut self) {
        let is_late = |since: &Duration, most: Duration| *since + most < self.now;
        let late = self.waits.iter().find(|(_, (_, since))| is_late(since, ANSWER_WITHIN));
        let late = late.map(|(job, (holder, since))| format!("{job} of {holder} since {since:?}"));
        if let Some(late) = late {
            self.breaks("an outcome is answered within its time", &late);
        }
        let in_end = self.waits.first_key_value().filter(|_| self.phase().is_terminating());
        if let Some(how) = in_end.map(|it| format!("{it:?}")) {
            self.breaks("in terminate an outcome is answered at once", &how);
        }
        let until = |until: &Duration| *until + Duration::from_millis(10) < self.now;
        let kept = self
            .pulls
            .iter()
            .find(|(_, (_, _, at))| until(at) || self.phase() != Phase::Running);
        if let Some(how) = kept.map(|it| format!("{it:?}")) {
            self.breaks("a pull is answered in time, and at once outside running", &how);
        }
    }

    pub fn noticed(&mut self, notice: &Notice) {
        if let Notice::Job(
            JobNotice::Abandoned(job, _) | JobNotice::Void(job, _) | JobNotice::ReservationLost(job, _),
        ) = notice
        {
            self.let_go.insert(job.id.clone());
        } else if let Notice::Job(JobNotice::Dropped(job, _)) = notice {
            self.let_go.insert(job.id.clone());
            self.seen[3] = true;
            if self.is_worked_on(&job.id) {
                self.breaks("no job is dropped whose worker names it", &job.id.to_string());
            }
        } else if let Notice::Job(JobNotice::Adopted(job)) = notice {
            self.seen[11] |= self.let_go.contains(&job.id);
        } else if let Notice::Job(JobNotice::NamedAgain(job)) = notice {
            self.let_go.remove(&job.id);
        }
    }

    /// The machine does not know the jobs that a FETCH without an answer has claimed.
    pub fn is_replied(&mut self, id: CallId, failed: Option<Reply>) {
        let Some((_, done)) = self.calls.remove(&id) else {
            return;
        };
        if let (Some(_), Some(Reply::Fetched(unseen))) = (&failed, &done) {
            let unseen = unseen.iter().map(|delivery| delivery.subject.id.clone());
            self.let_go.extend(unseen);
        }
        let reply = failed.or(done).unwrap_or(Reply::Failed(Failure::Unanswered));
        self.happen(Event::BackendReplied(id, reply));
    }

    /// A request leaves.
    pub fn send(&mut self, id: CallId, call: Call) {
        if let Call::Report { job, outcome, .. } = &call {
            self.check_outcome(&job.clone(), outcome);
        }
        self.calls.insert(id, (call, None));
        let at = u64::try_from(self.now.as_millis()).unwrap();
        let (from, to, is_done) = self.outage;
        let delay = 1 + self.chance.below(80);
        if (from..to).contains(&at) {
            let failure = if is_done { Failure::Unanswered } else { Failure::NotSent };
            if is_done && self.chance.one_in(2) {
                self.later(delay, Item::CarryOut(id));
            }
            self.later(delay + 20, Item::Reply(id, Some(Reply::Failed(failure))));
        } else {
            self.later(delay, Item::CarryOut(id));
            self.later(delay + 5, Item::Reply(id, None));
        }
    }

    fn check_outcome(&mut self, job: &JobId, outcome: &Outcome) {
        let name = match outcome {
            Outcome::Acked { .. } => "ack",
            Outcome::Failed { .. } => "fail",
            Outcome::Requeued { .. } => "requeue",
        };
        let delivery = self.backend.jobs.get(job).map_or(0, |job| job.delivered);
        let (told, _) = self.told.entry((job.clone(), delivery)).or_default();
        told.insert(name);
        let how = format!("{job}, delivery {delivery}: {told:?}");
        if told.len() > 1 && !self.let_go.contains(job) {
            self.breaks("one outcome for each delivery", &how);
        }
        if self.released.contains(job) {
            self.seen[4] = true;
            if name != "requeue" {
                self.breaks("what no client got goes back", &how);
            }
        }
    }

    /// Notes whether the backend accepted an outcome.
    pub fn note_taken(&mut self, id: CallId) {
        let Some((Call::Report { job, outcome, .. }, Some(Reply::Accepted))) = self.calls.get(&id) else {
            return;
        };
        let delivery = self.backend.jobs.get(job).map_or(0, |job| job.delivered);
        let (_, is_taken) = self.told.entry((job.clone(), delivery)).or_default();
        let how = format!("{job}, delivery {delivery}: {outcome:?}");
        if std::mem::replace(is_taken, true) {
            self.breaks("nothing is taken twice for one delivery", &how);
        }
    }

    pub fn is_asked_to_end(&mut self) {
        self.terms += 1;
        let seen = self.machine.snapshot();
        if self.terms > 1 {
            self.breaks("the worker gets one SIGTERM", "it got another one");
        }
        if seen.phase != Phase::Stop && seen.active > 0 {
            self.breaks("no SIGTERM before the last job is decided", &format!("{seen:?}"));
        }
        self.seen[7] |= seen.phase == Phase::Stop;
        if !self.chance.one_in(4) {
            let after = self.chance.below(400);
            self.later(after, Item::Die(MAIN, Ended::Exited(143)));
        }
    }

    pub fn die(&mut self, process: u64, ended: Ended) {
        if !self.alive.remove(&process) {
            return;
        }
        self.seen[6] |= process == 101;
        if process == MAIN {
            self.happen(Event::WorkerEnded(ended));
        } else {
            self.happen(Event::ProcessGone(ProcessId(process)));
        }
        let children_left = !self.alive.is_empty();
        self.happen(Event::Reaped { children_left });
        if process == MAIN {
            let gone: Vec<HolderId> = self
                .clients
                .iter()
                .filter(|(_, it)| !it.is_known)
                .map(|(id, _)| *id)
                .collect();
            self.story.push(format!("      holders of nobody known: {gone:?}"));
        }
    }

    /// After the exit each job has an outcome, or the backend can give it to another worker, or the
    /// log announced that it is left.
    pub fn nothing_is_lost(&mut self) {
        let is_lost = |(id, job): &(&JobId, &super::backend::Kept)| {
            matches!(job.state, Stored::Active(..)) && !self.let_go.contains(id)
        };
        let lost = self.backend.jobs.iter().find(is_lost);
        if let Some(how) = lost.map(|it| format!("{it:?}")) {
            self.breaks("no job is lost in silence", &how);
        }
    }
}
