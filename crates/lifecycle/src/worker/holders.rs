//! All holders of jobs, their sums, and the processes behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Add, Sub};

use crate::api::ids::{HolderId, ProcessId};
use crate::api::{EndCause, Manners, Ready};
use crate::groups::set;
use crate::worker::holder::{Holder, Process, Share};
use crate::worker::offers::{Offer, Offers};

/// All holders, with sums that each change updates. No event counts them anew, because there may be
/// many holders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Holders {
    all: BTreeMap<HolderId, Holder>,
    /// The processes behind the holders. An entry stays as long as one of its holders does. The
    /// entry of a process that is being ended stays until the process has ended, or SIGKILL was
    /// sent.
    pub(super) processes: BTreeMap<ProcessId, Process>,
    /// Processes that have ended and have closed holders.
    over: BTreeSet<ProcessId>,
    offers: Offers,
    /// An offer has its first taker, or has lost its last one.
    has_new_offers: bool,
    /// Number of connected holders with each frame limit.
    limits: BTreeMap<Option<usize>, usize>,
    ready: usize,
    /// Holders that ask for jobs by themselves.
    pulling: usize,
    concurrency: u64,
    free: usize,
    /// Jobs of the processes that were there before the next worker process.
    pub held_by_old: usize,
    /// Holders that have jobs and did not end with their process.
    at_work: usize,
    served: u64,
}

impl Holders {
    /// Enters a new holder.
    pub fn add(&mut self, id: HolderId, process: ProcessId, manners: Manners) {
        let holder = Holder::new(process, manners);
        self.processes.entry(process).or_default().holders.insert(id);
        self.offer(holder.share(), true);
        self.count(id, process, holder.share(), true);
        self.all.insert(id, holder);
    }

    /// Changes a holder, and the sums that follow from it.
    pub fn change<T>(&mut self, id: HolderId, change: impl FnOnce(&mut Holder) -> T) -> Option<T> {
        let holder = self.all.get_mut(&id)?;
        let (process, before) = (holder.process, holder.share());
        let result = change(holder);
        let after = holder.share();
        if before != after {
            self.count(id, process, before, false);
            if (before.limit, before.offer) != (after.limit, after.offer) {
                self.offer(before, false);
                self.offer(after, true);
            }
            self.count(id, process, after, true);
        }
        Some(result)
    }

    fn change_all_of(&mut self, process: ProcessId, change: impl Fn(&mut Holder)) {
        let theirs: Vec<HolderId> = self.of(process).map(|(id, _)| id).collect();
        for holder in theirs {
            self.change(holder, &change);
        }
    }

    /// Adds the share of a holder to the offers, or takes it away.
    fn offer(&mut self, share: Share, is_in: bool) {
        if let Some(limit) = share.limit {
            let those = self.limits.entry(limit).or_default();
            add(those, 1, is_in);
            let is_first_or_last = if is_in { *those == 1 } else { *those == 0 };
            self.has_new_offers |= is_first_or_last;
            if *those == 0 {
                self.limits.remove(&limit);
            }
        }
        if let Some(offer) = share.offer {
            self.has_new_offers |= self.offers.is_present(offer, is_in);
        }
    }

    /// Adds the share of a holder to the sums, or takes it away.
    fn count(&mut self, id: HolderId, process: ProcessId, share: Share, is_in: bool) {
        add(&mut self.ready, usize::from(share.is_ready), is_in);
        add(&mut self.pulling, usize::from(share.pulls), is_in);
        add(&mut self.concurrency, share.concurrency, is_in);
        add(&mut self.free, share.free, is_in);
        if let Some((offer, rank)) = share.offer.zip(share.rank(id)) {
            self.offers.set_idle(offer, rank, is_in);
        }
        let Some(process_of) = self.processes.get_mut(&process) else {
            return;
        };
        add(&mut process_of.held, share.held, is_in);
        if process_of.is_old {
            add(&mut self.held_by_old, share.held, is_in);
        }
        add(&mut process_of.works, share.works, is_in);
        add(&mut process_of.room, share.room, is_in);
        set(&mut process_of.overdue, id, is_in && share.is_overdue);
        set(&mut process_of.closed, id, is_in && share.is_closed);
        let is_over = process_of.is_gone && !process_of.closed.is_empty();
        set(&mut self.over, process, is_over);
        add(
            &mut self.at_work,
            usize::from(share.is_at_work(process_of.is_gone)),
            is_in,
        );
    }

    /// Notes the conditions on which the holder accepts jobs. Returns whether they are new, and
    /// whether the holder had none.
    pub fn is_ready(&mut self, id: HolderId, ready: Ready) -> Option<(bool, bool)> {
        let holder = self.all.get(&id)?;
        let is_news = holder.ready.as_ref() != Some(&ready);
        let (is_first, before) = (holder.ready.is_none(), holder.offer);
        if is_news {
            let offer = Offer {
                types: ready.types.clone(),
                frame_limit: holder.manners.frame_limit,
            };
            let offer = Some(self.offers.join(offer));
            self.change(id, |holder| {
                holder.offer = offer;
                holder.ready = Some(ready);
            });
            if let Some(before) = before {
                self.offers.leave(before);
            }
        }
        Some((is_news, is_first))
    }

    /// Notes how many jobs the holder has, and how many of them are overdue.
    pub fn has_jobs(&mut self, id: HolderId, held: usize, overdue: usize) {
        self.change(id, |holder| {
            holder.held = held;
            holder.overdue = overdue;
        });
    }

    /// Forgets a holder. Forgets its process with the last holder, unless that process is being
    /// ended.
    pub fn forget(&mut self, id: HolderId) {
        if let Some(holder) = self.all.remove(&id) {
            self.count(id, holder.process, holder.share(), false);
            self.offer(holder.share(), false);
            if let Some(offer) = holder.offer {
                self.offers.leave(offer);
            }
            self.leaves_process(id, holder.process);
        }
    }

    fn leaves_process(&mut self, id: HolderId, process: ProcessId) {
        if let Some(process_of) = self.processes.get_mut(&process) {
            process_of.holders.remove(&id);
            if process_of.ending.is_none() || process_of.is_gone {
                self.forget_process(process);
            }
        }
    }

    /// Forgets a process that has no holder.
    pub fn forget_process(&mut self, id: ProcessId) {
        if self
            .processes
            .get(&id)
            .is_some_and(|process| process.holders.is_empty())
        {
            self.processes.remove(&id);
        }
    }

    /// Notes that a process has ended.
    pub fn process_is_gone(&mut self, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| !process.is_gone) else {
            return;
        };
        process.is_gone = true;
        if !process.closed.is_empty() {
            self.over.insert(id);
        }
        let come_to_an_end = process.closed.iter().filter_map(|holder| self.all.get(holder));
        self.at_work -= come_to_an_end.filter(|holder| holder.held > 0).count();
    }

    /// One holder.
    pub fn get(&self, id: HolderId) -> Option<&Holder> {
        self.all.get(&id)
    }

    /// Whether the holder's connection is open.
    pub fn is_open(&self, id: HolderId) -> bool {
        self.all.get(&id).is_some_and(|holder| !holder.is_closed)
    }

    /// Whether the holder receives messages that it has not asked for.
    pub fn hears(&self, id: HolderId) -> bool {
        self.all.get(&id).is_some_and(|holder| holder.manners.hears)
    }

    /// Whether the holder wants a confirmation when the backend has its outcome.
    pub fn wants_ok(&self, id: HolderId) -> bool {
        let ready = self.all.get(&id).and_then(|holder| holder.ready.as_ref());
        ready.is_none_or(|ready| ready.ok)
    }

    /// The longest frame that any connected holder accepts. None if one of them has no limit, or if
    /// there is no holder.
    pub fn frame_limit(&self) -> Option<usize> {
        if self.limits.contains_key(&None) {
            return None;
        }
        self.limits.last_key_value().and_then(|(widest, _)| *widest)
    }

    /// The holders that have jobs.
    pub fn with_jobs(&self) -> impl Iterator<Item = (HolderId, &Holder)> {
        self.iter().filter(|(_, holder)| holder.held > 0)
    }

    /// Whether a job's process may still work on it, or has left unread messages.
    pub fn are_at_work(&self) -> bool {
        self.at_work > 0
    }

    /// A process gets no more jobs, on none of its holders.
    pub fn give_up_on(&mut self, process: ProcessId) {
        self.change_all_of(process, |holder| holder.is_given_up = true);
    }

    /// Whether this process has ended.
    pub fn is_gone(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|process| process.is_gone)
    }

    /// Why ojs-init asked this process to end, if it did.
    pub fn ending(&self, process: ProcessId) -> Option<&EndCause> {
        self.processes.get(&process)?.ending.as_ref()
    }

    /// One process.
    pub fn process_mut(&mut self, id: ProcessId) -> Option<&mut Process> {
        self.processes.get_mut(&id)
    }

    /// One process.
    pub fn process(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(&id)
    }

    /// Number of jobs that this process's holders have.
    pub fn jobs_of(&self, id: ProcessId) -> usize {
        self.processes.get(&id).map_or(0, |process| process.held)
    }

    /// How many more jobs this process's holders may get without a request.
    pub fn room_of(&self, id: ProcessId) -> usize {
        let free = self.of(id).map(|(_, holder)| holder.free());
        free.sum()
    }

    /// Keeps a process for one job: its holders are given no other, or are again.
    pub fn keep(&mut self, process: ProcessId, is_kept: bool) {
        self.change_all_of(process, |holder| holder.is_kept = is_kept);
    }

    /// How many jobs an ended process left unanswered, counted at the first call.
    pub fn left_unanswered(&mut self, id: ProcessId) -> usize {
        let process = self.processes.get_mut(&id);
        process.map_or(0, |process| *process.left_unanswered.get_or_insert(process.held))
    }

    /// Whether each slot of this process is occupied by an overdue job. If no holder of the process
    /// receives cancels, it is enough that each of its jobs is overdue.
    pub fn is_stuck(&self, id: ProcessId) -> bool {
        // `room` counts only holders that receive cancels, because their handlers may still stop.
        // Free slots of other holders do not help an overdue job.
        self.processes
            .get(&id)
            .is_some_and(|process| process.works == 0 && process.room == 0)
    }

    /// A holder of this process with an overdue job.
    pub fn overdue_of(&self, id: ProcessId) -> Option<HolderId> {
        self.processes.get(&id)?.overdue.first().copied()
    }

    /// The ended processes with closed holders, and these holders.
    pub fn over(&self) -> impl Iterator<Item = (ProcessId, &BTreeSet<HolderId>)> {
        let over = self.over.iter();
        over.filter_map(|id| Some((*id, &self.processes.get(id)?.closed)))
    }

    /// Every holder. This is a walk over all holders, so it must not run for each event.
    pub fn iter(&self) -> impl Iterator<Item = (HolderId, &Holder)> {
        self.all.iter().map(|(id, holder)| (*id, holder))
    }

    /// Number of holders.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The holders of one process.
    pub fn of(&self, process: ProcessId) -> impl Iterator<Item = (HolderId, &Holder)> {
        let theirs = self.processes.get(&process).into_iter();
        theirs
            .flat_map(|process| &process.holders)
            .filter_map(|id| Some((*id, self.all.get(id)?)))
    }

    /// Whether any holder asks for jobs by itself.
    pub fn pull(&self) -> bool {
        self.pulling > 0
    }

    /// Holders that are ready and can receive messages. A holder that pauses with a concurrency of
    /// 0 counts.
    pub fn ready(&self) -> usize {
        self.ready
    }

    /// How many jobs the holders accept at a time, together.
    pub fn concurrency(&self) -> u64 {
        self.concurrency
    }

    /// How many more jobs all holders together may get.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The offers of the holders.
    pub fn offers(&self) -> &Offers {
        &self.offers
    }

    /// Returns and clears whether the offers have changed. After a change a job without a taker may
    /// have one, and the reverse.
    pub fn take_new_offers(&mut self) -> bool {
        std::mem::take(&mut self.has_new_offers)
    }

    /// A job was given to this holder.
    pub fn serve(&mut self, id: HolderId) {
        self.served += 1;
        let served = self.served;
        self.change(id, |holder| {
            holder.has_unread_output = true;
            holder.has_unread_job = true;
            holder.last_job_number = served;
        });
    }

    /// Checks that the process of each holder is known, that each holder has the jobs and overdue
    /// jobs of `counted`, and that the sums are right.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn check(&self, counted: impl Fn(HolderId) -> (usize, usize)) -> Result<(), String> {
        let mut right = Self {
            served: self.served,
            ..Self::default()
        };
        for (id, process) in &self.processes {
            let process = Process {
                ending: process.ending.clone(),
                is_gone: process.is_gone,
                is_old: process.is_old,
                left_unanswered: process.left_unanswered,
                ..Process::default()
            };
            right.processes.insert(*id, process);
        }
        for (id, holder) in self.iter() {
            let Some(process) = right.processes.get_mut(&holder.process) else {
                return Err(format!("process {} of holder {id} is not known", holder.process));
            };
            process.holders.insert(id);
            let known = (holder.held, holder.overdue);
            if known != counted(id) {
                return Err(format!("the jobs of holder {id} are counted wrongly: {known:?}"));
            }
            let mut holder = holder.clone();
            holder.offer = holder.ready.as_ref().map(|ready| {
                let (types, frame_limit) = (ready.types.clone(), holder.manners.frame_limit);
                right.offers.join(Offer { types, frame_limit })
            });
            right.offer(holder.share(), true);
            right.count(id, holder.process, holder.share(), true);
            right.all.insert(id, holder);
        }
        let kept = [
            ("each process", self.processes == right.processes),
            ("processes that are over", self.over == right.over),
            ("offers", self.offers.are_like(&right.offers)),
            ("limits", self.limits == right.limits),
            ("the ready ones", self.ready == right.ready),
            ("those that pull", self.pulling == right.pulling),
            ("concurrency", self.concurrency == right.concurrency),
            ("free credit", self.free == right.free),
            ("jobs of old processes", self.held_by_old == right.held_by_old),
            ("those at work", self.at_work == right.at_work),
        ];
        let wrong = kept.iter().find(|(_, is_right)| !is_right);
        wrong.map_or(Ok(()), |(what, _)| {
            Err(format!("what is kept of all holders is not what they come to: {what}"))
        })
    }
}

/// Adds a share to a sum, or takes it away.
fn add<T: Copy + Add<Output = T> + Sub<Output = T>>(sum: &mut T, share: T, is_in: bool) {
    *sum = if is_in { *sum + share } else { *sum - share };
}
