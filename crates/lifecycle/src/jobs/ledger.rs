//! All claimed jobs that are not finished, and the holder of each.
//!
//! Only the job stores its place. The lists follow from the job, and `check` compares them.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::ids::{CallId, Claim, HolderId, JobId, Text, WorkerId};
use crate::api::{Delivery, Moment};
use crate::groups::Groups;
use crate::jobs::job::{Again, Grant, Hold, Job, LookStep, News, Place, Report, Suspicion};
use crate::jobs::marks::{List, Marks};
use crate::jobs::stages::ReportStage;
use crate::jobs::waiting::WaitingJobs;

/// All claimed jobs that are not finished.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// Each in a box: claims grow, so half of each node of the tree is free.
    jobs: BTreeMap<Claim, Box<Job>>,
    /// Oldest first.
    by_id: BTreeMap<JobId, Vec<Claim>>,
    /// Number of jobs claimed for each incarnation.
    by_worker: BTreeMap<WorkerId, usize>,
    waiting: WaitingJobs,
    lists: Groups<List, Claim>,
    next: u64,
}

impl Ledger {
    /// Enters a job. It waits, behind an earlier claim on that job if there is one.
    pub(super) fn add(&mut self, delivery: Delivery, worker: WorkerId, now: Moment, grant: Grant) -> Claim {
        self.next += 1;
        let claim = Claim(self.next);
        let claims = self.by_id.entry(delivery.subject.id.clone()).or_default();
        let is_again = !claims.is_empty();
        claims.push(claim);
        *self.by_worker.entry(worker.clone()).or_default() += 1;
        let job = Job {
            delivery,
            worker,
            claimed_at: now,
            granted: grant.lasts,
            reserved_until: grant.until,
            place: Place::Waiting,
            is_lost: false,
            is_overdue: false,
            is_dropped: false,
            is_suspect: false,
            suspicion: Suspicion::default(),
            again: is_again.then(Box::default),
            news: News::default(),
            handover: None,
            any_may_answer: false,
        };
        self.list(claim, &Marks::of(&job));
        self.jobs.insert(claim, Box::new(job));
        claim
    }

    /// Moves a job.
    pub(super) fn place(&mut self, claim: Claim, place: Place) {
        self.change(claim, |job| {
            job.place = place;
            job.is_dropped &= job.holder().is_some();
        });
    }

    /// Removes a job. A claim that waited behind the job becomes due for a look.
    pub(super) fn remove(&mut self, claim: Claim) -> Option<Job> {
        let job = self.jobs.remove(&claim)?;
        self.unlist(claim, &Marks::of(&job));
        self.is_not_of(&job.worker);
        if let Some(next) = self.forget_id(job.id(), claim) {
            self.change(next, |next| {
                if let Some(again) = next.again.as_mut().filter(|again| again.step == LookStep::Behind) {
                    again.before = job.delivery.reservation.clone();
                    again.step = LookStep::Due;
                }
            });
        }
        Some(*job)
    }

    /// Removes the claim from those on this job, and returns the oldest one that is left.
    fn forget_id(&mut self, id: &JobId, claim: Claim) -> Option<Claim> {
        let claims = self.by_id.get_mut(id)?;
        claims.retain(|other| *other != claim);
        let oldest = claims.first().copied();
        if oldest.is_none() {
            self.by_id.remove(id);
        }
        oldest
    }

    fn is_not_of(&mut self, worker: &WorkerId) {
        if let Some(jobs) = self.by_worker.get_mut(worker) {
            *jobs -= 1;
            if *jobs == 0 {
                self.by_worker.remove(worker);
            }
        }
    }

    /// Assigns a job that was delivered again to this incarnation.
    pub(super) fn is_of(&mut self, claim: Claim, worker: &WorkerId, now: Moment, grant: Grant) {
        let Some(job) = self.jobs.get_mut(&claim) else { return };
        job.claimed_at = now;
        job.granted = grant.lasts;
        job.reserved_until = grant.until;
        job.suspicion = Suspicion::default();
        let before = std::mem::replace(&mut job.worker, worker.clone());
        self.is_not_of(&before);
        *self.by_worker.entry(worker.clone()).or_default() += 1;
    }

    /// Replaces the delivery that waits. Another attempt may have another type.
    pub(super) fn replace(&mut self, claim: Claim, delivery: Delivery) {
        if let Some(job) = self.jobs.get(&claim) {
            // Whether a holder accepts the job is checked anew, whatever its type.
            let marks = Marks::of(job);
            self.unlist(claim, &marks);
            self.list(claim, &marks);
        }
        self.change(claim, |job| job.delivery = delivery);
    }

    /// Marks a job of a holder as lost: its reservation has ended, or another worker has it.
    pub(super) fn lose(&mut self, claim: Claim) {
        self.change(claim, |job| job.is_lost = true);
    }

    /// Drops a job. A dropped job does not count against the concurrency.
    pub(super) fn drop_job(&mut self, claim: Claim) {
        self.change(claim, |job| job.is_dropped = !job.is_lost && job.holder().is_some());
    }

    /// Marks a job as neither lost nor dropped, because it was delivered once more.
    pub(super) fn regain(&mut self, claim: Claim) {
        self.change(claim, |job| {
            job.is_lost = false;
            job.is_overdue = false;
            job.is_dropped = false;
        });
    }

    /// Sets whether a job waits until it can run alone.
    pub(super) fn is_suspect(&mut self, claim: Claim, is_suspect: bool) {
        self.change(claim, |job| job.is_suspect = is_suspect);
    }

    /// The jobs that wait until they can run alone.
    pub fn suspects(&self) -> &BTreeSet<Claim> {
        self.lists.of(&List::Suspect)
    }

    /// Marks a lost job as overdue, because its handler has had its time to answer.
    pub(super) fn is_overdue(&mut self, claim: Claim) {
        self.change(claim, |job| job.is_overdue = job.is_lost);
    }

    /// Sets the step of the look at a repeated delivery.
    pub(super) fn look_step(&mut self, claim: Claim, step: LookStep) {
        self.change(claim, |job| {
            if let Some(again) = &mut job.again {
                again.step = step;
            }
        });
    }

    /// A delivery like any other from here on.
    pub(super) fn is_by_itself(&mut self, claim: Claim) {
        self.change(claim, |job| job.again = None);
    }

    /// Sets how far the report of a job is.
    pub(super) fn step(&mut self, claim: Claim, step: ReportStage) {
        self.change(claim, |job| {
            if let Place::Reporting(report) = &mut job.place {
                report.step = step;
            }
        });
    }

    /// Holds a job before it is given back, in its place or beside the concurrency.
    pub(super) fn hold(&mut self, claim: Claim, is_beside: bool) {
        self.change(claim, |job| {
            if let Place::Reporting(report) = &mut job.place {
                report.step = ReportStage::Pausing;
                report.is_surplus |= is_beside;
                report.hold = if is_beside { Hold::Beside } else { Hold::InItsPlace };
            }
        });
    }

    /// Notes that a checkpoint of a job is in flight.
    pub(super) fn checkpoint_sent(&mut self, claim: Claim, call: CallId, state: Text) {
        self.change(claim, |job| job.news.checkpoint_call = Some((call, state)));
    }

    /// Clears the checkpoint request of the job, and returns its text.
    pub(super) fn checkpoint_answered(&mut self, claim: Claim) -> Option<Text> {
        let mut taken = None;
        self.change(claim, |job| taken = job.news.checkpoint_call.take());
        taken.map(|(_, state)| state)
    }

    /// Changes a job, and the lists that follow from it.
    fn change(&mut self, claim: Claim, change: impl FnOnce(&mut Job)) {
        let Some(job) = self.jobs.get_mut(&claim) else { return };
        let before = Marks::of(job);
        change(job);
        let after = Marks::of(job);
        if before != after {
            self.unlist(claim, &before);
            self.list(claim, &after);
        }
    }

    fn list(&mut self, claim: Claim, marks: &Marks) {
        if marks.is_waiting {
            self.waiting.enters(claim, marks.line.as_deref());
        }
        for list in marks.lists() {
            self.lists.insert(list, claim);
        }
    }

    fn unlist(&mut self, claim: Claim, marks: &Marks) {
        if marks.is_waiting {
            self.waiting.leaves(claim, marks.line.as_deref());
        }
        for list in marks.lists() {
            self.lists.remove(&list, &claim);
        }
    }
}

/// Read access.
impl Ledger {
    /// One job.
    pub fn get(&self, claim: Claim) -> Option<&Job> {
        self.jobs.get(&claim).map(Box::as_ref)
    }

    /// One job, to change fields on which no list depends.
    pub(super) fn get_mut(&mut self, claim: Claim) -> Option<&mut Job> {
        self.jobs.get_mut(&claim).map(Box::as_mut)
    }

    /// The report of a job, to change any field but its stage.
    pub(super) fn report_mut(&mut self, claim: Claim) -> Option<&mut Report> {
        match &mut self.jobs.get_mut(&claim)?.place {
            Place::Reporting(report) => Some(report),
            Place::Waiting | Place::Held(_) => None,
        }
    }

    /// Every job. This is a walk over all jobs, so it must not run for each event.
    pub fn iter(&self) -> impl Iterator<Item = (Claim, &Job)> {
        self.jobs.iter().map(|(claim, job)| (*claim, job.as_ref()))
    }

    /// Every report. A walk, see `iter`.
    pub(super) fn reports(&mut self) -> impl Iterator<Item = (Claim, &mut Report)> {
        self.jobs.iter_mut().filter_map(|(claim, job)| match &mut job.place {
            Place::Reporting(report) => Some((*claim, &mut **report)),
            Place::Waiting | Place::Held(_) => None,
        })
    }

    /// Every delivery that arrived while an earlier outcome was in flight. A walk, see `iter`.
    pub(super) fn agains(&mut self) -> impl Iterator<Item = (Claim, &mut Again)> {
        self.jobs
            .iter_mut()
            .filter_map(|(claim, job)| Some((*claim, job.again.as_deref_mut()?)))
    }

    /// The claims on a job, oldest first: two while the outcome of the first is in flight.
    pub fn claims_of(&self, id: &JobId) -> impl Iterator<Item = Claim> {
        self.by_id.get(id).into_iter().flatten().copied()
    }

    /// Whether any was claimed on behalf of this incarnation.
    pub fn has_any_of(&self, worker: &WorkerId) -> bool {
        self.by_worker.contains_key(worker)
    }

    /// The jobs in ojs-init's buffer.
    pub fn waiting(&self) -> &WaitingJobs {
        &self.waiting
    }

    /// The jobs in ojs-init's buffer, to note which of them have a taker.
    pub(super) fn waiting_mut(&mut self) -> &mut WaitingJobs {
        &mut self.waiting
    }

    /// The jobs that this holder has not answered.
    pub fn held_by(&self, holder: HolderId) -> &BTreeSet<Claim> {
        self.lists.of(&List::HeldBy(holder))
    }

    /// The lost jobs of this holder whose handlers have had their time to answer.
    pub fn overdue_of(&self, holder: HolderId) -> &BTreeSet<Claim> {
        self.lists.of(&List::OverdueOf(holder))
    }

    /// The jobs that holders have, lost and dropped ones among them.
    pub fn all_held(&self) -> &BTreeSet<Claim> {
        self.lists.of(&List::Held)
    }

    /// How many jobs holders have whose reservations ojs-init keeps.
    pub fn held(&self) -> usize {
        self.lists.of(&List::Held).len() - self.lost() - self.dropped()
    }

    /// The holders with jobs.
    pub fn holders(&self) -> impl Iterator<Item = HolderId> {
        let lists = self.lists.names();
        lists.filter_map(|list| {
            if let List::HeldBy(holder) = list {
                Some(*holder)
            } else {
                None
            }
        })
    }

    /// The next report that can be sent. With `without_checkpoints` this may be one whose job has a
    /// checkpoint in flight. Requeues are last, because the outcomes of finished work must not wait
    /// behind them.
    pub fn next_due(&self, without_checkpoints: bool) -> Option<Claim> {
        let first = |list| self.lists.of(&list).first();
        let others = first(List::AwaitsCheckpoint).filter(|_| without_checkpoints);
        let next = first(List::Due).into_iter().chain(others).min();
        next.or(first(List::DueRequeue)).copied()
    }

    /// The jobs whose look is due before they are started or given back.
    pub fn to_look(&self) -> &BTreeSet<Claim> {
        self.lists.of(&List::ToLook)
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Number of lost jobs.
    pub fn lost(&self) -> usize {
        self.lists.of(&List::Lost).len()
    }

    /// Number of lost jobs whose handlers have not answered in time.
    pub fn unanswered(&self) -> usize {
        self.lists.of(&List::Overdue).len()
    }

    /// The oldest lost job whose handler has not answered in time.
    pub fn oldest_unanswered(&self) -> Option<Claim> {
        self.lists.of(&List::Overdue).first().copied()
    }

    /// How many jobs are dropped; their handlers may still run.
    pub fn dropped(&self) -> usize {
        self.lists.of(&List::Dropped).len()
    }

    /// The oldest dropped job.
    pub fn oldest_dropped(&self) -> Option<Claim> {
        self.lists.of(&List::Dropped).first().copied()
    }

    /// Jobs that count against the concurrency: not surplus, lost or dropped.
    pub fn active(&self) -> usize {
        self.unfinished() - self.lost() - self.dropped()
    }

    /// Active jobs, and lost or dropped ones on which a worker may still be working.
    pub fn unfinished(&self) -> usize {
        self.jobs.len() - self.lists.of(&List::Surplus).len()
    }

    /// How many unfinished jobs have outcomes that wait for the backend, without surplus jobs.
    pub fn reporting(&self) -> usize {
        let reports = self.jobs.values().filter_map(|job| job.report());
        reports.filter(|report| !report.is_surplus).count()
    }

    /// Jobs whose reservations ojs-init keeps, except those that are given back after a hold.
    pub fn reserved(&self) -> usize {
        self.jobs.len() - self.lost() - self.dropped() - self.beside()
    }

    /// Jobs that occupy no place: their hold lasts, or the requeue after it is in flight.
    pub fn beside(&self) -> usize {
        self.lists.of(&List::Beside).len()
    }
}

impl Ledger {
    /// Compares the lists with those that follow from the jobs.
    ///
    /// # Errors
    ///
    /// The first list that differs.
    pub fn check(&self) -> Result<(), String> {
        let mut right = Self::default();
        for (claim, job) in self.iter() {
            right.by_id.entry(job.id().clone()).or_default().push(claim);
            *right.by_worker.entry(job.worker.clone()).or_default() += 1;
            right.list(claim, &Marks::of(job));
            if job.is_lost && job.holder().is_none() {
                return Err(format!("nobody has {claim}, which is lost"));
            }
            if job.is_dropped && (job.is_lost || job.holder().is_none()) {
                return Err(format!("{claim} is dropped, and nobody has it or it is lost as well"));
            }
        }
        let mut names = self.lists.names().chain(right.lists.names());
        if let Some(list) = names.find(|list| self.lists.of(list) != right.lists.of(list)) {
            return Err(format!("the ledger's list of jobs is wrong: {list:?}"));
        }
        let lists = [
            ("by id", self.by_id == right.by_id),
            ("by worker", self.by_worker == right.by_worker),
            ("waiting", self.waiting.has_the_same_lines(&right.waiting)),
            ("the last claim", self.jobs.keys().all(|claim| claim.0 <= self.next)),
        ];
        let wrong = lists.iter().find(|(_, is_right)| !is_right);
        wrong.map_or(Ok(()), |(list, _)| {
            Err(format!("the ledger's list of jobs is wrong: {list}"))
        })
    }
}
