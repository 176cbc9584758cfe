//! One life: a worker of several processes whose holders ask for jobs, a shell that joins repeated
//! outcomes, a backend with outages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ojs_lifecycle::api::ids::{CallId, HolderId, JobId, ProcessId, PullId, WorkerId};
use ojs_lifecycle::api::{
    About, Call, Effect, ErrorCode, Event, Failure, FromWorker, JobError, Queues, Reply, ToWorker, Wants,
};
use ojs_lifecycle::machine::Lifecycle;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

use super::backend::{Backend, Stored, moment};
use crate::chance::Chance;
use crate::script::holders::WAITS_FOR_ANSWERS;
use crate::script::{render, settings};

/// Events that have to happen in some life.
pub const THINGS: [&str; 12] = [
    "an outcome is ours after 25 s",
    "an outcome is ours in terminate",
    "an outcome is told twice",
    "a job is dropped",
    "a job is released",
    "a lost job is answered",
    "a process is killed",
    "a job is cut off",
    "a pull lapses",
    "an answer is read by nobody",
    "a handler beats for its own job alone, and its worker has others",
    "a dropped job comes again",
];

/// The worker's own process.
pub const MAIN: u64 = 100;

/// A bit longer than the longest answer and the longest pull.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(25_300);

const WITHIN: Duration = Duration::from_secs(2);

/// After that time the backend offers no job; the life continues until it is ended.
const HORIZON: u64 = 60_000;

/// Events of a life that is long enough for a dropped job to be delivered again.
const FAR_HORIZON: u64 = 200_000;

/// One life in this many reaches [`FAR_HORIZON`].
const FAR_LIVES: u64 = 50;

/// How often a handler sends a heartbeat that names its own job alone.
const OWN_BEAT_EVERY: u64 = 800;

/// An event at some time.
#[derive(Debug, Clone)]
pub enum Item {
    Ask(HolderId),
    /// The client that asked has disconnected, and has not read the answer.
    TakeBack(HolderId, PullId, Vec<JobId>),
    Beat(HolderId),
    /// The handler of a job sends a heartbeat, which names that job and no other.
    OwnBeat(HolderId, JobId),
    Answer(HolderId, JobId, Kind),
    Offer(u64),
    Cancel(u64),
    Reply(CallId, Option<Reply>),
    CarryOut(CallId),
    Signal(Signal),
    Die(u64, Ended),
    HangUp(HolderId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ack,
    Fail,
    Release,
}

#[derive(Debug)]
pub struct Client {
    pub process: u64,
    pub is_known: bool,
    pub is_over: bool,
    pub has: BTreeSet<JobId>,
}

#[derive(Debug)]
pub struct World {
    pub chance: Chance,
    pub now: Duration,
    pub machine: Lifecycle,
    pub items: BTreeMap<(Duration, u64), Item>,
    pub next: u64,
    pub clients: BTreeMap<HolderId, Client>,
    pub alive: BTreeSet<u64>,
    pub backend: Backend,
    /// Start and end of the time in which no answer arrives, and whether requests are still carried
    /// out.
    pub outage: (u64, u64, bool),
    pub calls: BTreeMap<CallId, (Call, Option<Reply>)>,
    pub pulls: BTreeMap<PullId, (HolderId, u32, Duration)>,
    pub next_pull: u64,
    /// Clients that wait for the answer to an outcome of this job, and since when.
    pub waits: BTreeMap<JobId, (HolderId, Duration)>,
    /// For each delivery the outcomes that were sent to the backend, and whether it accepted one.
    pub told: BTreeMap<(JobId, u64), (BTreeSet<&'static str>, bool)>,
    /// Jobs that the machine gives up, or that a FETCH may have claimed without an answer.
    pub let_go: BTreeSet<JobId>,
    pub released: BTreeSet<JobId>,
    pub terms: u32,
    pub is_exited: bool,
    pub story: Vec<String>,
    pub broken: Option<String>,
    pub seen: [bool; THINGS.len()],
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut options = settings::defaults();
        options.queues = Queues::AsAsked;
        options.enforce_timeouts = false;
        options.concurrency = *chance.pick(&[2, 5, 10_000]);
        options.times.grace_period = Duration::from_secs(*chance.pick(&[0, 5, 30]));
        options.visibility_timeout = Duration::from_secs(*chance.pick(&[20, 120]));
        options.seed = seed;
        let horizon = if chance.one_in(FAR_LIVES) { FAR_HORIZON } else { HORIZON };
        let from = chance.below(horizon);
        let outage = (from, from + *chance.pick(&[0, 500, 10_000, 40_000]), chance.one_in(2));
        let mut world = Self {
            machine: Lifecycle::new(options, moment(Duration::ZERO)),
            chance,
            now: Duration::ZERO,
            items: BTreeMap::new(),
            next: 0,
            clients: BTreeMap::new(),
            alive: BTreeSet::from([MAIN, 101, 102]),
            backend: Backend::default(),
            outage,
            calls: BTreeMap::new(),
            pulls: BTreeMap::new(),
            next_pull: 0,
            waits: BTreeMap::new(),
            told: BTreeMap::new(),
            let_go: BTreeSet::new(),
            released: BTreeSet::new(),
            terms: 0,
            is_exited: false,
            story: Vec::new(),
            broken: None,
            seen: [false; THINGS.len()],
        };
        world.plan(horizon);
        world
    }

    fn plan(&mut self, horizon: u64) {
        self.happen(Event::WorkerStarted {
            process: ProcessId(MAIN),
            worker: WorkerId("w1".into()),
        });
        for (number, process) in [(1, MAIN), (2, MAIN), (3, 101), (4, 102), (5, MAIN)] {
            let holder = HolderId(number);
            let is_known = number != 5;
            let client = Client {
                process,
                is_known,
                is_over: false,
                has: BTreeSet::new(),
            };
            self.clients.insert(holder, client);
            self.happen(Event::HolderCame {
                holder,
                process: is_known.then_some(ProcessId(process)),
                manners: WAITS_FOR_ANSWERS,
            });
            let (ask, beat) = (self.chance.below(2_000), self.chance.below(5_000));
            self.later(ask, Item::Ask(holder));
            self.later(beat, Item::Beat(holder));
        }
        for number in 1..=self.chance.below(40) {
            let at = self.chance.below(horizon);
            self.later(at, Item::Offer(number));
            if self.chance.one_in(12) {
                self.later(at + 2_000, Item::Cancel(number));
            }
        }
        if self.chance.one_in(3) {
            let at = self.chance.below(horizon);
            self.later(at, Item::Die(101, Ended::Signalled(Signal::KILL)));
        }
        if self.chance.one_in(3) {
            let at = self.chance.below(horizon);
            self.later(at, Item::Signal(Signal::TSTP));
            self.later(at + 3_000, Item::Signal(Signal::CONT));
        }
        let end = 2_000 + self.chance.below(horizon);
        self.later(end, Item::Signal(Signal::TERM));
        if self.chance.one_in(8) {
            self.later(end + 700, Item::Die(MAIN, Ended::Exited(0)));
        }
    }

    pub fn later(&mut self, after: u64, item: Item) {
        self.next += 1;
        self.items
            .insert((self.now + Duration::from_millis(after), self.next), item);
    }

    /// Until the exit.
    pub fn live(&mut self) {
        for _ in 0..100_000 {
            if self.is_exited || self.broken.is_some() {
                break;
            }
            let next = self.items.first_key_value().map(|((at, _), _)| *at);
            let due = self.machine.poll_timeout();
            let timer = due.map(|(at, _)| at.remaining(moment(Duration::ZERO)));
            match (next, timer) {
                (_, Some(timer)) if next.is_none_or(|next| timer < next) => {
                    self.now = self.now.max(timer);
                    self.story
                        .push(format!("{:?} ~ {:?}", self.now, due.map(|(_, timer)| timer)));
                    self.machine.handle_timeout(moment(self.now));
                    self.drain();
                }
                (Some(at), _) => {
                    self.now = at;
                    if let Some((_, item)) = self.items.pop_first() {
                        self.take(item);
                    }
                }
                (None, None | Some(_)) => break,
            }
            self.nobody_waits_too_long();
        }
        if !self.is_exited {
            self.breaks("it comes to an end", "there was no exit");
        }
        self.nothing_is_lost();
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Ask(holder) => self.ask(holder),
            Item::TakeBack(holder, pull, jobs) => self.take_back(holder, pull, jobs),
            Item::Beat(holder) => self.beat(holder),
            Item::OwnBeat(holder, job) => self.own_beat(holder, job),
            Item::Answer(holder, job, kind) => self.tell_outcome(holder, job, kind),
            Item::Offer(number) => self.backend.offer(number),
            Item::Cancel(number) => {
                if let Some(job) = self.backend.jobs.get_mut(&JobId(format!("job-{number}").into()))
                    && matches!(job.state, Stored::Active(..))
                {
                    job.state = Stored::Cancelled;
                }
            }
            Item::CarryOut(id) => {
                if let Some((call, reply)) = self.calls.get_mut(&id) {
                    *reply = Some(self.backend.carry_out(&call.clone(), self.now));
                }
                self.note_taken(id);
            }
            Item::Reply(id, failed) => self.is_replied(id, failed),
            Item::Signal(signal) => self.happen(Event::SignalArrived(signal)),
            Item::Die(process, ended) => self.die(process, ended),
            Item::HangUp(holder) => {
                // The shell first reads the requests that were complete in the client's sockets.
                let client = self.clients.get_mut(&holder).unwrap();
                let last = client.has.first().cloned();
                if let Some(job) = last.filter(|_| self.chance.one_in(3)) {
                    self.say_outcome(holder, job, Kind::Ack);
                }
                self.clients.get_mut(&holder).unwrap().is_over = true;
                self.waits.retain(|_, (who, _)| *who != holder);
                self.pulls.retain(|_, (who, ..)| *who != holder);
                self.happen(Event::HungUp(holder));
            }
        }
    }

    pub fn is_there(&self, holder: HolderId) -> bool {
        self.clients
            .get(&holder)
            .is_some_and(|client| !client.is_over && self.alive.contains(&client.process))
    }

    fn ask(&mut self, holder: HolderId) {
        if !self.is_there(holder) {
            return;
        }
        self.next_pull += 1;
        let pull = PullId(self.next_pull);
        let count = u32::try_from(1 + self.chance.below(3)).unwrap();
        let lists: [&[&str]; 3] = [&["mail", "sms"], &["mail"], &["sms", "mail"]];
        let queues = *self.chance.pick(&lists);
        self.pulls.insert(pull, (holder, count, self.now + WITHIN));
        self.say(
            holder,
            FromWorker::Wants(Wants {
                pull,
                count,
                queues: Some(queues.iter().map(|queue| (*queue).into()).collect()),
                within: WITHIN,
            }),
        );
        if self.chance.one_in(10) && self.pulls.remove(&pull).is_some() {
            self.say(holder, FromWorker::WantsNoMore { pull });
            self.later(1_000, Item::Ask(holder));
        }
    }

    /// Jobs in the answer have no outcome yet, unless their process had ended before.
    fn take_back(&mut self, holder: HolderId, pull: PullId, jobs: Vec<JobId>) {
        if self.is_there(holder) {
            self.seen[9] |= !jobs.is_empty();
            for job in jobs {
                let delivery = self.backend.jobs.get(&job).map_or(0, |job| job.delivered);
                if !self.told.contains_key(&(job.clone(), delivery)) {
                    self.released.insert(job);
                }
            }
            self.say(holder, FromWorker::WantsNoMore { pull });
        }
    }

    fn beat(&mut self, holder: HolderId) {
        if self.is_there(holder) {
            let has: Vec<JobId> = self.clients[&holder].has.iter().cloned().collect();
            let jobs = (!self.chance.one_in(4)).then_some(has);
            self.say(holder, FromWorker::Beats { jobs });
            self.later(3_000, Item::Beat(holder));
        }
    }

    fn own_beat(&mut self, holder: HolderId, job: JobId) {
        if self.is_there(holder) && self.clients[&holder].has.contains(&job) {
            self.seen[10] |= self.clients[&holder].has.len() > 1;
            let jobs = Some(vec![job.clone()]);
            self.say(holder, FromWorker::Beats { jobs });
            self.later(OWN_BEAT_EVERY, Item::OwnBeat(holder, job));
        }
    }

    /// The shell joins outcomes that are repeated while a client waits for the answer.
    fn tell_outcome(&mut self, holder: HolderId, job: JobId, kind: Kind) {
        if self.is_there(holder) {
            self.say_outcome(holder, job, kind);
        }
    }

    fn say_outcome(&mut self, holder: HolderId, job: JobId, kind: Kind) {
        for client in self.clients.values_mut() {
            client.has.remove(&job);
        }
        let said = match kind {
            Kind::Ack => FromWorker::Ack {
                job: job.clone(),
                result: None,
            },
            Kind::Fail => FromWorker::Fail {
                job: job.clone(),
                error: JobError::new("broken"),
            },
            Kind::Release => FromWorker::Release {
                job: job.clone(),
                reason: None,
                after: Duration::ZERO,
            },
        };
        if kind == Kind::Release {
            self.released.insert(job);
        } else if self.waits.contains_key(&job) {
            return;
        } else {
            self.waits.insert(job, (holder, self.now));
        }
        self.say(holder, said);
    }

    fn say(&mut self, holder: HolderId, said: FromWorker) {
        self.happen(Event::Said(holder, said));
    }

    pub fn happen(&mut self, event: Event) {
        self.story.push(format!("{:?}   {event:?}", self.now));
        self.machine.handle(event, moment(self.now));
        if let Err(contradiction) = self.machine.invariants() {
            self.breaks("the machine agrees with itself", &contradiction);
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            self.story.push(format!("      > {}", render::effect(&effect)));
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::AnswerPull { holder, pull, jobs } => {
                match self.pulls.remove(&pull) {
                    Some((asked, count, _)) if asked == holder && jobs.len() <= usize::try_from(count).unwrap() => {}
                    other => self.breaks("each pull is answered once", &format!("{pull}: {other:?}")),
                }
                self.seen[8] |= jobs.is_empty();
                let jobs: Vec<JobId> = jobs.into_iter().map(|job| JobId((&*job.envelope).into())).collect();
                if self.chance.one_in(12) {
                    let after = self.chance.below(30);
                    self.later(after, Item::TakeBack(holder, pull, jobs));
                } else {
                    jobs.into_iter().for_each(|job| self.is_given(holder, job));
                }
                let pause = *self.chance.pick(&[100, 1_000, 1_000]);
                self.later(pause, Item::Ask(holder));
            }
            Effect::Tell(holder, ToWorker::Ok { job, about, .. }) => {
                if about != About::Release {
                    self.is_answered(holder, &job);
                }
            }
            Effect::Tell(
                holder,
                ToWorker::Error {
                    job: Some(job), code, ..
                },
            ) => {
                self.seen[5] |= code == ErrorCode::Lost;
                if self.waits.contains_key(&job) {
                    self.is_answered(holder, &job);
                }
            }
            Effect::Tell(holder, word) => {
                self.breaks("nobody is told anything unasked", &format!("{holder}: {word:?}"))
            }
            Effect::CallBackend { id, call, .. } => self.send(id, call),
            Effect::AbandonCall(id) => self.later(0, Item::Reply(id, Some(Reply::Failed(Failure::Unanswered)))),
            Effect::SignalWorker(Signal::TERM) => self.is_asked_to_end(),
            Effect::KillEverything => {
                for process in self.alive.clone() {
                    self.later(5, Item::Die(process, Ended::Signalled(Signal::KILL)));
                }
            }
            Effect::SignalProcess(process, Signal::KILL) => {
                self.later(5, Item::Die(process.0, Ended::Signalled(Signal::KILL)));
            }
            Effect::ReadToEnd(holder) | Effect::Close(holder, _) => self.later(5, Item::HangUp(holder)),
            Effect::TerminateDescendants | Effect::KillDescendants => {
                for process in [101, 102] {
                    self.later(5, Item::Die(process, Ended::Signalled(Signal::TERM)));
                }
            }
            Effect::Notify(notice) => self.noticed(&notice),
            Effect::Exit(_) => self.is_exited = true,
            Effect::StartWorker { .. }
            | Effect::StartNext
            | Effect::TakeOver(_)
            | Effect::AnswerBeat { .. }
            | Effect::SignalWorker(_)
            | Effect::SignalProcess(..)
            | Effect::Answer(..)
            | Effect::Show(..)
            | Effect::DropClient(_)
            | Effect::WriteTerminationLog(_) => {}
        }
    }
}
