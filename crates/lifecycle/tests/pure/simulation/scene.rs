//! The worker: its processes, their connections, the handlers of its jobs. Its true state, known to
//! the machine or not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use ojs_lifecycle::api::{ErrorCode, FromWorker, HolderId, JobError, JobId, ProcessId, Progress, Ready};
use ojs_values::exit::Ended;

use super::ledger::Claim;
use super::plan::{Act, Answer, Habit, LinkPlan, ProcessPlan, RARE_KIND, Stubbornness};
use super::talk::Holder;

/// A process of the worker.
#[derive(Debug)]
pub struct Proc {
    pub parent: Option<u64>,
    pub plan: ProcessPlan,
    pub is_alive: bool,
    pub is_ending: bool,
    pub was_killed: bool,
    pub stubborn: Option<Stubbornness>,
    pub has_connected: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    pub process: u64,
    pub plan: LinkPlan,
    /// Written by the worker and not read yet.
    pub unread: VecDeque<FromWorker>,
    /// Nothing more will be written: the worker closed it, or is dead.
    pub is_ended: bool,
    /// The shell has reported `HungUp`.
    pub is_over: bool,
    /// The machine ordered the shell to close it.
    pub is_cut: bool,
    pub is_deaf: bool,
}

/// A job with a worker.
#[derive(Debug)]
pub struct Handler {
    pub connection: HolderId,
    pub job: JobId,
    pub habit: Habit,
    pub wrote: Option<Answer>,
}

/// The state of the scene.
#[derive(Debug, Default)]
pub struct Scene {
    pub procs: BTreeMap<u64, Proc>,
    pub sockets: BTreeMap<HolderId, Socket>,
    pub handlers: Vec<Handler>,
    pub main: Option<u64>,
    /// The process that the shell takes for the worker, dead or alive.
    pub worker: Option<u64>,
    /// The old one of two workers, until its end is reported.
    pub old: Option<u64>,
    /// Processes whose end by their pid was reported.
    pub reported: BTreeSet<u64>,
}

impl Scene {
    pub fn is_alive(&self, pid: u64) -> bool {
        self.procs.get(&pid).is_some_and(|proc| proc.is_alive)
    }

    pub fn anybody_lives(&self) -> bool {
        self.procs.values().any(|proc| proc.is_alive)
    }

    /// Whether it is a child of ojs-init by now, because its parent is dead.
    pub fn is_ours(&self, pid: u64) -> bool {
        let parent = self.procs.get(&pid).and_then(|proc| proc.parent);
        parent.is_none_or(|parent| !self.is_alive(parent))
    }

    /// Whether a process above it is one that the kernel holds, or held.
    pub fn is_of_the_kernels(&self, pid: u64) -> bool {
        let above = self.procs.get(&pid).and_then(|proc| proc.parent);
        above.is_some_and(|above| {
            let stubborn = self.procs.get(&above).and_then(|proc| proc.stubborn);
            stubborn == Some(Stubbornness::HeldByKernel) || self.is_of_the_kernels(above)
        })
    }

    /// Dead: nothing more is written. Its connections end.
    pub fn die(&mut self, pid: u64) -> Vec<HolderId> {
        if let Some(proc) = self.procs.get_mut(&pid) {
            proc.is_alive = false;
        }
        let mut ended = Vec::new();
        for (id, socket) in &mut self.sockets {
            if socket.process == pid && !socket.is_ended {
                socket.is_ended = true;
                ended.push(*id);
            }
        }
        ended
    }

    /// A live process writes a frame to a connection that is open.
    pub fn write(&mut self, connection: HolderId, said: FromWorker) -> bool {
        let Some(socket) = self.sockets.get_mut(&connection) else {
            return false;
        };
        if socket.is_ended || socket.is_cut || socket.is_over {
            return false;
        }
        socket.unread.push_back(said);
        true
    }

    pub fn answer(&mut self, frame: usize, answer: Answer) -> bool {
        let Some(handler) = self.handlers.get(frame) else {
            return false;
        };
        let (connection, job) = (handler.connection, handler.job.clone());
        let is_written = self.write(connection, said(answer, job));
        if is_written && let Some(handler) = self.handlers.get_mut(frame) {
            handler.wrote.get_or_insert(answer);
        }
        is_written
    }

    /// Facts about the holder of this claim. `running` is the worker that has not been
    /// reaped.
    pub fn holder(&self, claim: &Claim, running: Option<ProcessId>) -> Option<Holder> {
        let handler = self.handlers.get(usize::try_from(claim.frame?).ok()?)?;
        let socket = self.sockets.get(&handler.connection)?;
        let is_main = self
            .procs
            .get(&socket.process)
            .is_some_and(|proc| proc.parent.is_none());
        let main = self.main_of(socket.process);
        // Processes that may be working on it: those that a dead main process has left, except
        // those that cannot be ended.
        let may_work = |(pid, proc): (&u64, &Proc)| {
            let is_endable = self.is_ours(*pid) && proc.stubborn != Some(Stubbornness::HeldByKernel);
            proc.is_alive && *pid != main && self.main_of(*pid) == main && (is_main || is_endable)
        };
        let has_ended = running != Some(process_id(main)) && self.old != Some(main);
        let descendants = || has_ended && self.procs.iter().any(may_work);
        Some(Holder {
            is_dead: !self.is_alive(socket.process) && !descendants(),
            is_read: socket.is_over,
            wrote: handler.wrote.filter(|_| !socket.is_cut),
        })
    }

    /// The living descendants of a process that SIGKILL ends.
    pub fn killable_below(&self, main: u64) -> Vec<u64> {
        let is_below = |(pid, proc): &(&u64, &Proc)| {
            let is_held = proc.stubborn == Some(Stubbornness::HeldByKernel);
            proc.is_alive && **pid != main && self.main_of(**pid) == main && !is_held
        };
        self.procs.iter().filter(is_below).map(|(pid, _)| *pid).collect()
    }

    /// The main process of the worker that a process is of.
    fn main_of(&self, pid: u64) -> u64 {
        let parent = self.procs.get(&pid).and_then(|proc| proc.parent);
        parent.map_or(pid, |parent| self.main_of(parent))
    }
}

/// A frame of a worker.
pub fn said(answer: Answer, job: JobId) -> FromWorker {
    match answer {
        Answer::Ack => FromWorker::Ack {
            job,
            result: Some("{}".into()),
        },
        Answer::Fail => FromWorker::Fail {
            job,
            error: JobError::new("it did not work"),
        },
        Answer::Release => FromWorker::Release {
            job,
            reason: None,
            after: Duration::ZERO,
        },
    }
}

pub fn ready(plan: &LinkPlan) -> FromWorker {
    FromWorker::Ready(Ready {
        concurrency: plan.concurrency,
        types: plan.is_picky.then(|| vec![RARE_KIND.into()]),
        ping: plan.pings,
        // Neither is a manner of the other; no chance is drawn for it.
        ok: !plan.pings,
        // A program with one thread is one that has one job.
        cancel_signal: plan.concurrency == 1,
        client: None,
    })
}

pub fn garbage() -> FromWorker {
    FromWorker::Garbage {
        code: ErrorCode::NotJson,
        message: "not JSON".into(),
        job: None,
        answer: None,
    }
}

/// News about a job that are not its outcome.
pub fn chatter(job: &JobId) -> [FromWorker; 3] {
    [
        FromWorker::Progress {
            job: job.clone(),
            progress: Progress {
                fraction: "0.5".into(),
                message: None,
                data: None,
            },
        },
        FromWorker::Checkpoint {
            job: job.clone(),
            state: "{}".into(),
        },
        FromWorker::Heartbeat { job: job.clone() },
    ]
}

/// The default act of a handler.
pub fn usual_habit() -> Habit {
    Habit {
        after: 60,
        act: Act::Answer(Answer::Ack),
        on_cancel: Some((20, Answer::Fail)),
    }
}

/// The process, as the machine names it.
pub fn process_id(pid: u64) -> ProcessId {
    ProcessId(pid)
}

/// How a process ends that SIGKILL hits.
pub fn killed() -> Ended {
    Ended::Signalled(ojs_values::signal::Signal::KILL)
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
