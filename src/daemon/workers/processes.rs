//! A hold on each process of the worker that has jobs or connections: the table for the worker
//! socket and the gateway.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use log::{debug, warn};
use mio::unix::SourceFd;
use mio::{Interest, Registry};

use crate::daemon::log::remedy::{remedy, remedy_of_signal};
use crate::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::{Event, Moment, ProcessId};
use ojs_os::pidfd::ProcessWatch;
use ojs_os::process::{self, Pid};
use ojs_values::signal::Signal;

/// How often processes are looked at that the kernel cannot report (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The processes that have connections, were given jobs, or are the worker itself.
#[derive(Debug, Default)]
pub struct Processes {
    processes: BTreeMap<ProcessId, Watched>,
    next: u64,
}

/// A process that is held on to.
#[derive(Debug)]
struct Watched {
    pid: Pid,
    /// None only for the worker, if there was no descriptor at its start. Its pid is not reused
    /// until it is reaped.
    watch: Option<Rc<ProcessWatch>>,
    /// Not looked at since its descriptor was registered. An earlier end is never reported.
    is_new: bool,
    connections: usize,
    is_worker: bool,
    /// The process may hold jobs, or is being ended: it was given a job or a signal.
    is_needed: bool,
    /// The process got a SIGTERM. Many programs act differently on a second one.
    was_asked_to_end: bool,
    /// SIGKILL ends its process group with it: it is one of two worker processes, and what it
    /// leaves cannot be told from what the other one has started.
    ends_with_its_group: bool,
    /// The machine was informed that the process is gone.
    is_gone: bool,
}

impl Watched {
    /// True if nothing is lost when its end goes unnoticed.
    fn is_dispensable(&self) -> bool {
        self.connections == 0 && !self.is_worker && !self.is_needed
    }

    /// True if its end is known and nothing else depends on it. A live process may still hold jobs
    /// of a closed connection, so it is watched until it is gone.
    fn is_done(&self) -> bool {
        self.connections == 0 && !self.is_worker && self.is_gone
    }

    fn has_ended(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.has_ended())
    }

    /// Whether it has to be asked from time to time.
    fn is_unwatchable(&self) -> bool {
        !self.is_gone && self.watch.as_ref().is_some_and(|watch| watch.as_fd().is_none())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match &self.watch {
            Some(watch) => watch.signal(signal),
            None if self.is_gone => Ok(()),
            None => process::signal(self.pid, signal),
        }
    }
}

impl Processes {
    /// How many processes there are, each of which may have a descriptor.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// The worker was started with this pid: its name from here on.
    pub fn worker_started(&mut self, pid: Pid, registry: &Registry) -> ProcessId {
        let id = self.name(pid, true);
        match ProcessWatch::of(pid) {
            Ok(watch) => self.watch(id, Rc::new(watch), registry),
            // The worker is a child of ojs-init, so its end is noticed in any case.
            Err(error) => warn!(
                "cannot watch process {pid}, the worker: {error}; its end is noticed all the same; {}",
                remedy(&error)
            ),
        }
        id
    }

    /// The worker was reaped, so another process may get its pid.
    pub fn worker_reaped(&mut self, id: ProcessId) {
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.is_worker = false;
            watched.is_gone = true;
        }
        self.forget_if_done(id);
    }

    /// The name of a process: its existing one, unless that belongs to an earlier process with this
    /// pid. If the hold is the known one, the kernel need not be asked.
    pub fn id_of(&mut self, watch: Rc<ProcessWatch>, registry: &Registry) -> ProcessId {
        let pid = watch.pid();
        let is_same = |watched: &Watched| watched.watch.as_ref().is_some_and(|ours| Rc::ptr_eq(ours, &watch));
        let known = self
            .processes
            .iter()
            .find(|(_, watched)| watched.pid == pid && !watched.is_gone && (is_same(watched) || !watched.has_ended()));
        if let Some((id, watched)) = known {
            let (id, is_watched) = (*id, watched.watch.is_some());
            if !is_watched {
                self.watch(id, watch, registry);
            }
            return id;
        }
        let id = self.name(pid, false);
        self.watch(id, watch, registry);
        id
    }

    /// True if this process is known, or there is room for it within `most`. Dispensable processes
    /// are released for that.
    pub fn has_room_for(&mut self, watch: &ProcessWatch, most: usize) -> bool {
        let is_known = || {
            let mut of_pid = self.processes.values().filter(|watched| watched.pid == watch.pid());
            of_pid.any(|watched| !watched.is_gone)
        };
        self.processes.len() < most || is_known() || self.let_go(1)
    }

    /// A new name, for a process that is not watched yet.
    pub(super) fn name(&mut self, pid: Pid, is_worker: bool) -> ProcessId {
        self.next += 1;
        let id = ProcessId(self.next << 32 | u64::from(pid.number().unsigned_abs()));
        let watched = Watched {
            pid,
            watch: None,
            is_new: true,
            connections: 0,
            is_worker,
            is_needed: false,
            was_asked_to_end: false,
            ends_with_its_group: false,
            is_gone: false,
        };
        self.processes.insert(id, watched);
        id
    }

    fn watch(&mut self, id: ProcessId, watch: Rc<ProcessWatch>, registry: &Registry) {
        if let Some(descriptor) = watch.as_fd() {
            let descriptor: RawFd = descriptor.as_raw_fd();
            let token = TokenOwner::Process(number(id)).token();
            if let Err(error) = registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE) {
                warn!(
                    "cannot watch process {id}: {error}; its end, and that its jobs died with it, may go unnoticed; {}",
                    remedy(&error)
                );
            }
        }
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.watch = Some(watch);
            watched.is_new = true;
        }
    }

    /// A connection of this process was opened.
    pub fn connected(&mut self, id: ProcessId) {
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.connections += 1;
        }
    }

    /// A connection of this process was closed.
    pub fn disconnected(&mut self, id: ProcessId) {
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.connections = watched.connections.saturating_sub(1);
        }
        self.forget_if_done(id);
    }

    /// True if this process was reported as gone, or is not known any more.
    pub fn is_gone(&self, id: ProcessId) -> bool {
        self.processes.get(&id).is_none_or(|watched| watched.is_gone)
    }

    /// This process was given a job: it is watched until its end.
    pub fn got_job(&mut self, id: ProcessId) {
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.is_needed = true;
        }
    }

    /// Signals this process or, `to_group`, its process group; never a later one with its pid. A
    /// process with a group is a child of ojs-init that was not reaped yet.
    pub fn signal(&mut self, id: ProcessId, signal: Signal, to_group: bool) {
        let Some(watched) = self.processes.get_mut(&id) else {
            return;
        };
        watched.is_needed = true;
        watched.was_asked_to_end |= signal == Signal::TERM;
        let result = if to_group {
            process::signal_group(watched.pid, signal)
        } else {
            watched.signal(signal)
        };
        match result {
            Ok(()) => debug!("{signal} to process {id}"),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                warn!(
                    "cannot send {signal} to process {id}: {error}; {}",
                    remedy_of_signal(&error)
                );
            }
            Err(error) => debug!("{signal} to process {id}: {error}"),
        }
    }

    /// True if the process that has this pid now got a SIGTERM.
    pub fn was_asked_to_end(&self, pid: Pid) -> bool {
        let is_it = |watched: &&Watched| watched.pid == pid && !watched.is_gone && !watched.has_ended();
        self.processes
            .values()
            .find(is_it)
            .is_some_and(|watched| watched.was_asked_to_end)
    }

    /// Reports that this process belongs to the older of two worker processes, if it does.
    pub fn tell_if_old(&self, id: ProcessId, events: &mut VecDeque<Event>) {
        // Names are in the order of the starts.
        let mut workers = self.processes.values().filter(|watched| watched.is_worker);
        if let (Some(old), Some(_), Some(process)) = (workers.next(), workers.next(), self.processes.get(&id))
            && process::belongs_to(process.pid, old.pid)
        {
            events.push_back(Event::ProcessIsOld(id));
        }
    }

    /// SIGKILL ends the process group of this worker process with it. If its end was reported
    /// before, while it was the only worker process, the end is reported once more.
    pub fn ends_with_its_group(&mut self, id: ProcessId, events: &mut VecDeque<Event>) {
        let Some(watched) = self.processes.get_mut(&id) else {
            return;
        };
        watched.ends_with_its_group = true;
        if std::mem::take(&mut watched.is_gone) {
            self.ended(id, events);
        }
    }

    /// The process group of this worker process outlasts it.
    pub fn ends_alone(&mut self, id: ProcessId) {
        if let Some(watched) = self.processes.get_mut(&id) {
            watched.ends_with_its_group = false;
        }
    }

    /// Reports once that a process is gone which has ended and is not reaped.
    pub fn ended(&mut self, id: ProcessId, events: &mut VecDeque<Event>) {
        let Some(watched) = self.processes.get_mut(&id).filter(|watched| !watched.is_gone) else {
            return;
        };
        watched.is_gone = true;
        if watched.ends_with_its_group
            && let Err(error) = process::signal_group(watched.pid, Signal::KILL)
        {
            debug!("SIGKILL to the group of process {id}: {error}");
        }
        events.push_back(Event::ProcessGone(id));
        self.forget_if_done(id);
    }

    /// Reports once that the process with this number is gone, if it is.
    pub fn look_at(&mut self, number: u64, events: &mut VecDeque<Event>) {
        let range = ProcessId(number << 32)..=ProcessId(number << 32 | u64::from(u32::MAX));
        let found = self.processes.range_mut(range).next();
        if let Some((id, watched)) = found
            && !watched.is_gone
            && watched.has_ended()
        {
            let id = *id;
            self.ended(id, events);
        }
    }

    /// Reports once that a process with this name is gone, if it is and was not asked yet. A
    /// descriptor that is readable before it is registered never becomes readable again.
    pub fn look_at_new(&mut self, id: ProcessId, events: &mut VecDeque<Event>) {
        let watched = self.processes.get_mut(&id);
        if watched.is_some_and(|watched| std::mem::take(&mut watched.is_new)) {
            self.look_at(number(id), events);
        }
    }

    /// The hold on this process.
    pub fn watch_of(&self, id: ProcessId) -> Option<Rc<ProcessWatch>> {
        self.processes.get(&id)?.watch.clone()
    }

    /// When to look at processes that the kernel cannot report.
    pub fn next_deadline(&self, now: Moment) -> Option<Moment> {
        let has_unwatchable = self.processes.values().any(Watched::is_unwatchable);
        has_unwatchable.then(|| now.after(LOOK_EVERY))
    }

    /// Asks for each process that can only be watched like that.
    pub fn look_at_unwatchable(&mut self, events: &mut VecDeque<Event>) {
        let unwatchable = self.processes.iter().filter(|(_, watched)| watched.is_unwatchable());
        let unwatchable: Vec<u64> = unwatchable.map(|(id, _)| number(*id)).collect();
        for number in unwatchable {
            self.look_at(number, events);
        }
    }

    /// Releases so many processes that live on without a connection, each with a descriptor: those
    /// that never had a job, the oldest first. Returns true if there were as many.
    pub fn let_go(&mut self, count: usize) -> bool {
        let dispensable = self.processes.iter().filter(|(_, watched)| watched.is_dispensable());
        let oldest: Vec<ProcessId> = dispensable.map(|(id, _)| *id).take(count).collect();
        for id in &oldest {
            // Closing its descriptor removes it from the poll as well.
            self.processes.remove(id);
        }
        oldest.len() == count
    }

    fn forget_if_done(&mut self, id: ProcessId) {
        if self.processes.get(&id).is_some_and(Watched::is_done) {
            // Closing its descriptor removes it from the poll. If another owner keeps it open, that
            // is harmless because its end is already reported.
            self.processes.remove(&id);
        }
    }
}

/// The number of a process: the upper half of its name, whose lower half is the pid.
fn number(id: ProcessId) -> u64 {
    id.0 >> 32
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its poll has failed")]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    use super::*;

    #[test]
    fn a_process_that_was_not_watched_keeps_its_name_and_is_watched_from_then_on() {
        let poll = mio::Poll::new().unwrap();
        let mut processes = Processes::default();
        let worker = processes.name(Pid::own(), true);
        let watch = Rc::new(ProcessWatch::of(Pid::own()).unwrap());
        assert_eq!(processes.id_of(watch, poll.registry()), worker);
        assert!(processes.processes.values().all(|watched| watched.watch.is_some()));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child of the test, which has no reaper")]
    fn an_end_is_reported_once_more_and_ends_the_group_when_another_worker_process_has_taken_over() {
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("60").process_group(0).spawn().unwrap();
        let number = child.id().cast_signed();
        let descendants = process::descendants(1000).unwrap();
        let pid = descendants.into_iter().find(|pid| pid.number() == number).unwrap();
        let (mut processes, mut events) = (Processes::default(), VecDeque::new());
        let old = processes.name(pid, true);
        processes.ends_with_its_group(old, &mut events);
        assert_eq!(events, [], "it has not ended");
        processes.ends_alone(old);
        processes.ended(old, &mut events);
        assert!(child.try_wait().unwrap().is_none(), "its group outlasts it");
        processes.ends_with_its_group(old, &mut events);
        assert_eq!(events, [Event::ProcessGone(old), Event::ProcessGone(old)]);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn where_there_is_no_room_for_another_process_one_is_let_go_that_nothing_is_lost_with() {
        let poll = mio::Poll::new().unwrap();
        let mut processes = Processes::default();
        let watch_of = |pid| Rc::new(ProcessWatch::of(pid).unwrap());
        let [own, init] = [Pid::own(), Pid::INIT].map(watch_of);
        assert!(!processes.has_room_for(&own, 0));
        let id = processes.id_of(Rc::clone(&own), poll.registry());
        assert!(processes.has_room_for(&own, 1), "it is there already");
        processes.connected(id);
        assert!(!processes.has_room_for(&init, 1), "the other one has a connection");
        assert!(processes.has_room_for(&init, 2));
        processes.disconnected(id);
        assert!(processes.has_room_for(&init, 1));
        assert_eq!(processes.len(), 0);
    }
}
