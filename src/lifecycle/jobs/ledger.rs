//! All jobs that were claimed and are not finished, and who holds each. Where a job is stands in the job alone; the lists beside it
//! follow from that, and `check` says whether they do.

use std::collections::{BTreeMap, BTreeSet};

use crate::lifecycle::api::ids::{Claim, HolderId, JobId, WorkerId};
use crate::lifecycle::api::{Delivery, Moment};
use crate::lifecycle::jobs::job::{Again, Job, LookStep, News, Place, Report, Suspicion};
use crate::lifecycle::jobs::stages::ReportStage;

static NO_CLAIMS: BTreeSet<Claim> = BTreeSet::new();

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    jobs: BTreeMap<Claim, Job>,
    by_id: BTreeSet<(JobId, Claim)>,
    waiting: BTreeSet<Claim>,
    held: BTreeMap<HolderId, BTreeSet<Claim>>,
    due: BTreeSet<Claim>,
    to_look: BTreeSet<Claim>,
    lost: BTreeSet<Claim>,
    unanswered: BTreeSet<Claim>,
    surplus: usize,
    next: u64,
}

impl Ledger {
    /// Enters a job; it waits, behind an earlier claim on the same job if there is one.
    pub fn add(&mut self, delivery: Delivery, worker: WorkerId, now: Moment) -> Claim {
        self.next += 1;
        let claim = Claim(self.next);
        let is_again = self.claims_of(&delivery.subject.id).next().is_some();
        self.by_id.insert((delivery.subject.id.clone(), claim));
        self.waiting.insert(claim);
        let job = Job {
            delivery,
            worker,
            claimed_at: now,
            extended_until: None,
            place: Place::Waiting,
            is_lost: false,
            suspicion: Suspicion::default(),
            again: is_again.then(Again::default),
            news: News::default(),
            handover: None,
        };
        self.jobs.insert(claim, job);
        claim
    }

    /// Moves a job.
    pub fn place(&mut self, claim: Claim, place: Place) {
        let Some(job) = self.jobs.get_mut(&claim) else { return };
        let was_surplus = is_surplus(&job.place);
        let former_holder = job.holder();
        let is_due = matches!(&place, Place::Reporting(report) if report.step == ReportStage::Due);
        let is_waiting = place == Place::Waiting;
        let is_surplus = is_surplus(&place);
        job.place = place;
        let holder = job.holder();
        if holder != former_holder {
            self.is_let_go(claim, former_holder);
            if let Some(holder) = holder {
                self.held.entry(holder).or_default().insert(claim);
            }
        }
        set(&mut self.due, claim, is_due);
        set(&mut self.waiting, claim, is_waiting);
        self.surplus = self.surplus + usize::from(is_surplus) - usize::from(was_surplus);
    }

    /// Strikes a job out. What waited behind it is to be looked at.
    pub fn remove(&mut self, claim: Claim) -> Option<Job> {
        let job = self.jobs.remove(&claim)?;
        self.by_id.remove(&(job.id().clone(), claim));
        self.waiting.remove(&claim);
        self.due.remove(&claim);
        self.to_look.remove(&claim);
        self.lost.remove(&claim);
        self.unanswered.remove(&claim);
        self.surplus -= usize::from(is_surplus(&job.place));
        self.is_let_go(claim, job.holder());
        let next = self.claims_of(job.id()).next();
        if let Some(next) = next
            && let Some(again) = self.jobs.get_mut(&next).and_then(|next| next.again.as_mut())
            && again.step == LookStep::Behind
        {
            again.before = job.delivery.reservation.clone();
            again.step = LookStep::Due;
            self.to_look.insert(next);
        }
        Some(job)
    }

    fn is_let_go(&mut self, claim: Claim, holder: Option<HolderId>) {
        if let Some(holder) = holder
            && let Some(held) = self.held.get_mut(&holder)
        {
            held.remove(&claim);
            if held.is_empty() {
                self.held.remove(&holder);
            }
        }
    }

    /// The reservation of a job that a worker has is somebody else's, or over.
    pub fn lose(&mut self, claim: Claim) {
        if let Some(job) = self.jobs.get_mut(&claim) {
            job.is_lost = true;
            self.lost.insert(claim);
        }
    }

    /// It is ours again: it was delivered once more.
    pub fn regain(&mut self, claim: Claim) {
        self.lost.remove(&claim);
        self.unanswered.remove(&claim);
        if let Some(job) = self.jobs.get_mut(&claim) {
            job.is_lost = false;
        }
    }

    /// The handler of a lost job has had its time to answer.
    pub fn is_overdue(&mut self, claim: Claim) {
        set(&mut self.unanswered, claim, self.lost.contains(&claim));
    }

    /// How many are lost.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.lost.len()
    }

    /// The lost jobs whose handlers have had their time to answer, and have not.
    #[must_use]
    pub fn unanswered(&self) -> &BTreeSet<Claim> {
        &self.unanswered
    }

    /// Sets how far the look at such a delivery is.
    pub fn look_step(&mut self, claim: Claim, step: LookStep) {
        if let Some(again) = self.jobs.get_mut(&claim).and_then(|job| job.again.as_mut()) {
            again.step = step;
            set(&mut self.to_look, claim, step == LookStep::Due);
        }
    }

    /// A delivery like any other from here on.
    pub fn is_by_itself(&mut self, claim: Claim) {
        self.to_look.remove(&claim);
        if let Some(job) = self.jobs.get_mut(&claim) {
            job.again = None;
        }
    }

    /// Every delivery that came while an earlier outcome was on its way.
    pub fn agains(&mut self) -> impl Iterator<Item = (Claim, &mut Again)> {
        self.jobs
            .iter_mut()
            .filter_map(|(claim, job)| Some((*claim, job.again.as_mut()?)))
    }

    /// One job.
    #[must_use]
    pub fn get(&self, claim: Claim) -> Option<&Job> {
        self.jobs.get(&claim)
    }

    /// One job, to change anything but its place.
    pub fn get_mut(&mut self, claim: Claim) -> Option<&mut Job> {
        self.jobs.get_mut(&claim)
    }

    /// How far the report of a job is.
    pub fn report_mut(&mut self, claim: Claim) -> Option<&mut Report> {
        match &mut self.jobs.get_mut(&claim)?.place {
            Place::Reporting(report) => Some(report),
            Place::Waiting | Place::Held(_) => None,
        }
    }

    /// Every report.
    pub fn reports(&mut self) -> impl Iterator<Item = (Claim, &mut Report)> {
        self.jobs.iter_mut().filter_map(|(claim, job)| match &mut job.place {
            Place::Reporting(report) => Some((*claim, report)),
            Place::Waiting | Place::Held(_) => None,
        })
    }

    /// Sets how far the report of a job is.
    pub fn step(&mut self, claim: Claim, step: ReportStage) {
        if let Some(report) = self.report_mut(claim) {
            report.step = step;
            set(&mut self.due, claim, step == ReportStage::Due);
        }
    }

    /// Every job.
    pub fn iter(&self) -> impl Iterator<Item = (Claim, &Job)> {
        self.jobs.iter().map(|(claim, job)| (*claim, job))
    }

    /// The claims on the job of this name, oldest first; there are two while the outcome of an earlier one is on its
    /// way.
    pub fn claims_of(&self, id: &JobId) -> impl Iterator<Item = Claim> {
        self.by_id
            .range((id.clone(), Claim(0))..=(id.clone(), Claim(u64::MAX)))
            .map(|(_, claim)| *claim)
    }

    /// The jobs in our buffer, oldest first.
    #[must_use]
    pub fn waiting(&self) -> &BTreeSet<Claim> {
        &self.waiting
    }

    /// The jobs that this holder has not answered.
    #[must_use]
    pub fn held_by(&self, holder: HolderId) -> &BTreeSet<Claim> {
        self.held.get(&holder).unwrap_or(&NO_CLAIMS)
    }

    /// Whoever holds jobs.
    pub fn holders(&self) -> impl Iterator<Item = HolderId> {
        self.held.keys().copied()
    }

    /// The reports that can be sent.
    #[must_use]
    pub fn due(&self) -> &BTreeSet<Claim> {
        &self.due
    }

    /// The jobs that can be looked at before anything is done with them.
    #[must_use]
    pub fn to_look(&self) -> &BTreeSet<Claim> {
        &self.to_look
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Jobs that count against the concurrency: all but those that go straight back, and those that are lost.
    #[must_use]
    pub fn active(&self) -> usize {
        self.unfinished() - self.lost.len()
    }

    /// The same and those that are lost: a worker may still be working on them.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.jobs.len() - self.surplus
    }

    /// Jobs whose reservations are ours, those that go straight back among them.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.jobs.len() - self.lost.len()
    }
}

impl Ledger {
    /// Whether the lists are what follows from the jobs.
    ///
    /// # Errors
    ///
    /// The first one that is not.
    pub fn check(&self) -> Result<(), String> {
        let mut right = Self {
            next: self.next,
            ..Self::default()
        };
        for (claim, job) in self.iter() {
            right.by_id.insert((job.id().clone(), claim));
            set(&mut right.waiting, claim, job.place == Place::Waiting);
            let is_due = matches!(&job.place, Place::Reporting(report) if report.step == ReportStage::Due);
            set(&mut right.due, claim, is_due);
            let is_to_look = job.again.as_ref().is_some_and(|again| again.step == LookStep::Due);
            set(&mut right.to_look, claim, is_to_look);
            set(&mut right.lost, claim, job.is_lost);
            right.surplus += usize::from(is_surplus(&job.place));
            if let Some(holder) = job.holder() {
                right.held.entry(holder).or_default().insert(claim);
            } else if job.is_lost {
                return Err(format!("nobody has {claim}, which is lost"));
            }
        }
        let lists = [
            ("by id", self.by_id == right.by_id),
            ("waiting", self.waiting == right.waiting),
            ("held", self.held == right.held),
            ("due", self.due == right.due),
            ("to look at", self.to_look == right.to_look),
            ("lost", self.lost == right.lost),
            ("unanswered", self.unanswered.is_subset(&self.lost)),
            ("going straight back", self.surplus == right.surplus),
            ("the last claim", self.jobs.keys().all(|claim| claim.0 <= self.next)),
        ];
        let wrong = lists.iter().find(|(_, is_right)| !is_right);
        wrong.map_or(Ok(()), |(list, _)| {
            Err(format!("the ledger's list of jobs is wrong: {list}"))
        })
    }
}

pub(super) fn is_surplus(place: &Place) -> bool {
    match place {
        Place::Reporting(report) => report.is_surplus,
        Place::Waiting | Place::Held(_) => false,
    }
}

fn set(claims: &mut BTreeSet<Claim>, claim: Claim, is_member: bool) {
    if is_member {
        claims.insert(claim);
    } else {
        claims.remove(&claim);
    }
}
