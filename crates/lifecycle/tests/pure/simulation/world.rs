//! The world around the machine: time, the shell that obeys it, and the record of events.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use ojs_lifecycle::api::ids::{CallId, ClientId, HolderId};
use ojs_lifecycle::api::{
    Call, Directive, Effect, EndingNotice, Event, Failure, JobNotice, LinkNotice, Moment, Notice, OperatorRequest,
    Reply, StreamNews,
};
use ojs_lifecycle::machine::Lifecycle;
use ojs_lifecycle::view::metrics::Metrics;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

use super::accounts::Accounts;
use super::backend::Backend;
use super::blame::Blame;
use super::course::Course;
use super::idle::Idle;
use super::ledger::Ledger;
use super::memory::{self, Memory};
use super::plan::{Answer, Fate, Fault, JobPlan, Plan, Twist};
use super::promise::{Broken, Kept, promise};
use super::recycles::{self, Cause, Recycles};
use super::scene::{Proc, Scene, ms};
use super::steps::Several;
use super::streams::Streams;
use super::stuck::Stuck;
use super::talk::Talk;

/// Most orders that one fact may cause.
const MOST_EFFECTS: usize = 400;

/// Most deadlines at once: there are never more than a dozen jobs.
const MOST_DEADLINES: usize = 150;

/// Steps of one run: far more than any needs.
const MOST_STEPS: u32 = 20_000;

/// A future event.
#[derive(Debug, Clone)]
pub enum Item {
    Signal(Signal),
    Ask(OperatorRequest),
    Leave(ClientId),
    NewToken,
    Memory(u8),
    WorkerMemory(u64),
    Directive(Option<Directive>),
    Stall(u64),
    Offer(JobPlan),
    Fate(u64, Fate),
    SigtermAtLast,
    Start(u64),
    StartNext(u64),
    Connect(HolderId),
    Ready(HolderId),
    Act(usize),
    Answer(usize, Answer),
    Pong(HolderId, u64),
    /// The shell sees bytes to read, or the end.
    Read(HolderId),
    /// The machine ordered the shell to read to the end.
    ReadAll(HolderId),
    HangUp(HolderId),
    Emptied(HolderId),
    Deaf(usize),
    Death(usize, Ended, bool),
    Die(u64, Ended),
    /// The end of a process is seen by its pid.
    Gone(u64),
    Reap(u64, Ended),
    CarryOut(CallId),
    /// Carries a request out after the machine has given it up.
    CarryOutUnheard(Box<Exchange>),
    Reply(CallId, Option<Reply>),
    News(CallId, StreamNews),
}

/// A request on its way.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub call: Call,
    pub meant: Option<u64>,
    pub fault: Option<Fault>,
    pub answer: Option<Reply>,
}

/// One run.
pub struct World {
    pub plan: Plan,
    pub now: Duration,
    pub queue: BTreeMap<(Duration, u64), Item>,
    queued: u64,
    pub machine: Lifecycle,
    pub backend: Backend,
    pub scene: Scene,
    pub requests: BTreeMap<CallId, Exchange>,
    /// How many requests each hang of the plan has matched.
    pub hung: BTreeMap<usize, u64>,
    /// When the stop phase began.
    pub stop_began: Option<Duration>,
    pub lives: u64,
    /// The number in the name of the present worker.
    pub named: u64,
    pub clients: u64,
    /// Requests of holders for jobs, so far.
    pub pulls: u64,
    pub terminated: BTreeSet<u64>,
    pub course: Course,
    accounts: Accounts,
    pub blame: Blame,
    stuck: Stuck,
    pub streams: Streams,
    memory: Memory,
    recycles: Recycles,
    idle: Idle,
    figures: Metrics,
    pub ledger: Ledger,
    pub talk: Talk,
    pub several: Several,
    hasher: DefaultHasher,
    /// The course of events, for a person; only kept for a run that is to be shown.
    pub script: Option<Vec<String>>,
}

impl World {
    pub fn new(plan: Plan, is_recorded: bool) -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            queued: 0,
            machine: Lifecycle::new(plan.options.clone(), Moment::new(Duration::ZERO)),
            backend: Backend::new(plan.backend.clone()),
            scene: Scene::default(),
            requests: BTreeMap::new(),
            hung: BTreeMap::new(),
            stop_began: None,
            lives: 0,
            named: 0,
            clients: 0,
            pulls: 0,
            terminated: BTreeSet::new(),
            accounts: Accounts::default(),
            blame: Blame::default(),
            stuck: Stuck::default(),
            streams: Streams::default(),
            memory: Memory::new(plan.options.memory_gate),
            recycles: Recycles::new(plan.options.clone()),
            idle: Idle::new(&plan.options),
            figures: Metrics::new(Moment::new(Duration::ZERO), Duration::ZERO),
            course: Course::new(plan.options.clone()),
            ledger: Ledger::default(),
            talk: Talk::new(plan.options.clone()),
            several: Several::default(),
            hasher: DefaultHasher::new(),
            script: is_recorded.then(Vec::new),
            plan,
        };
        for twist in world.plan.twists.clone() {
            world.expect(twist);
        }
        for (at, taken) in memory::course(world.plan.options.seed, world.plan.horizon) {
            world.at(at, Item::Memory(taken));
        }
        for (at, cause) in recycles::course(world.plan.options.seed, world.plan.horizon) {
            let item = match cause {
                Cause::Memory(bytes) => Item::WorkerMemory(bytes),
                Cause::Operator => Item::Ask(OperatorRequest::Recycle),
            };
            world.at(at, item);
        }
        world.at(world.plan.horizon, Item::SigtermAtLast);
        world
    }

    fn expect(&mut self, twist: Twist) {
        match twist {
            Twist::Signal(at, signal) => self.at(at, Item::Signal(signal)),
            Twist::Ask(at, request) => self.at(at, Item::Ask(request)),
            Twist::NewToken(at) => self.at(at, Item::NewToken),
            Twist::Directive(at, directive) => self.at(at, Item::Directive(directive)),
            Twist::Stall(at, length) => self.at(at, Item::Stall(length)),
            Twist::Job(at, job) => self.at(at, Item::Offer(job)),
            Twist::Fate(at, job, fate) => self.at(at, Item::Fate(job, fate)),
            Twist::Deaf(at, link) => self.at(at, Item::Deaf(link)),
            Twist::Death(at, process, ended, is_hidden) => self.at(at, Item::Death(process, ended, is_hidden)),
            // These are looked up when their time arrives.
            Twist::Call(..)
            | Twist::Outage(..)
            | Twist::Hang(_)
            | Twist::Handler(..)
            | Twist::Life(..)
            | Twist::Stubborn(..) => {}
        }
    }

    fn at(&mut self, at: u64, item: Item) {
        self.queued += 1;
        self.queue.insert((ms(at), self.queued), item);
    }

    /// Schedules an item in this many ms.
    pub fn soon(&mut self, after: u64, item: Item) {
        self.later(self.now + ms(after), item);
    }

    pub fn later(&mut self, at: Duration, item: Item) {
        self.queued += 1;
        self.queue.insert((at.max(self.now), self.queued), item);
    }

    /// Runs to the exit. Returns the hash of all orders.
    pub fn run(&mut self) -> Result<u64, Broken> {
        self.drain()?;
        for _ in 0..MOST_STEPS {
            if self.course.exit.is_some() {
                self.at_exit()?;
                return Ok(self.hasher.finish());
            }
            self.step()?;
        }
        Err(Broken {
            promise: "no livelock",
            detail: format!("no exit after {MOST_STEPS} steps, at {:?}", self.now),
        })
    }

    /// Passes a fact to the machine.
    pub fn tell(&mut self, event: Event) -> Kept {
        if self.course.exit.is_some() {
            return Ok(());
        }
        if self.script.is_some() {
            self.note(&format!("-> {event:?}"));
        }
        if let Event::BackendReplied(call, reply) = &event {
            self.idle
                .replied(self.talk.calls.get(call).map(|pending| &pending.call), reply, self.now);
            self.streams.over(*call);
            if matches!(reply, Reply::Fetched(jobs) if !jobs.is_empty()) {
                self.streams.jobs_came();
            }
            self.figures.answered(*call, reply, None, Moment::new(self.now));
            let beaten = self
                .talk
                .replied(*call, reply, self.course.state, &mut self.ledger, self.now);
            if let Some(Reply::HeartbeatOk { directive, .. }) = beaten {
                self.course.directed(directive, self.now);
            }
        }
        if let Event::WorkerStarted { worker, .. } = &event {
            self.talk.started(worker);
        }
        self.ledger.event(&event, self.now)?;
        self.memory.event(&event, self.now);
        self.recycles.event(&event, self.now)?;
        self.course.event(&event, self.now);
        let phase = self.machine.snapshot().phase;
        self.blame.event(&event, phase, &self.plan.options, self.now);
        if let Event::WorkerEnded(_) = event {
            self.course.own_status = self.blame.own_status().unwrap_or(self.course.own_status);
        }
        self.several.tell(&mut self.machine, event, Moment::new(self.now));
        self.drain()?;
        self.after()
    }

    pub fn drain(&mut self) -> Kept {
        let state = self.machine.invariants();
        promise!("the machine agrees with itself", state.is_ok(), "{state:?}");
        for _ in 0..MOST_EFFECTS {
            let Some(effect) = self.machine.poll_effect() else {
                return Ok(());
            };
            effect.hash(&mut self.hasher);
            self.figures.observe(&effect);
            if self.script.is_some() {
                self.note(&format!("        {effect:?}"));
            }
            self.hold_up(&effect)?;
            self.perform(effect);
        }
        Err(Broken {
            promise: "effects are bounded",
            detail: format!("more than {MOST_EFFECTS} from one fact"),
        })
    }

    /// Compares an order with the allowed ones.
    fn hold_up(&mut self, effect: &Effect) -> Kept {
        let is_busy = self.ledger.is_at_work(&self.idle.unanswered) || self.talk.is_fetching();
        self.idle.effect(effect, is_busy, &mut self.course, self.now)?;
        self.course.effect(effect, self.now)?;
        self.memory.effect(effect)?;
        self.recycles.effect(effect, self.course.state, self.now)?;
        self.blame.effect(effect, &self.ledger, &self.plan.options, self.now)?;
        let grace = self.plan.options.timeout_grace;
        self.stuck.effect(effect, &self.ledger, grace, self.now)?;
        self.hold_up_names(effect)?;
        let state = self.course.state;
        match effect {
            Effect::CallBackend {
                id,
                call: Call::Listen { .. },
                ..
            } => self.streams.asked(*id, state),
            Effect::CallBackend { id, call, give_up, .. } => {
                let holder = self.holder_of(call);
                let give_up = since_start(*give_up);
                let ledger = &mut self.ledger;
                self.talk.ordered(*id, call, give_up, state, ledger, holder, self.now)
            }
            Effect::Notify(notice) => {
                if let Notice::Job(JobNotice::ReservationLost(job, _)) = notice {
                    self.hold_up_lost(&job.id)?;
                }
                if let Notice::Job(JobNotice::Void(job, _)) = notice {
                    self.hold_up_void(&job.id)?;
                }
                if *notice == Notice::Link(LinkNotice::WokenUp) {
                    self.streams
                        .wakes(state, self.plan.options.exit_when_idle.is_some(), self.now)?;
                }
                if *notice == Notice::Link(LinkNotice::FetchAbandoned) {
                    self.talk.fetch_is_abandoned();
                }
                if let Notice::Ending(EndingNotice::StopBegan { .. }) = notice {
                    self.stop_began = Some(self.now);
                }
                if let Notice::Job(JobNotice::Abandoned(job, _)) = notice {
                    self.hold_up_left_behind(&job.id)?;
                }
                if let Notice::Link(LinkNotice::Hedged(endpoint)) = notice {
                    self.talk.hedges(*endpoint, state)?;
                }
                self.ledger.notice(notice)
            }
            Effect::WriteTerminationLog(account) => self.accounts.written(account),
            Effect::StartWorker { .. }
            | Effect::StartNext
            | Effect::TakeOver(_)
            | Effect::Tell(..)
            | Effect::SignalWorker(_)
            | Effect::SignalProcess(..)
            | Effect::TerminateDescendants
            | Effect::KillDescendants
            | Effect::KillEverything
            | Effect::ReadToEnd(_)
            | Effect::Close(..)
            | Effect::Answer(..)
            | Effect::Show(..)
            | Effect::AnswerPull { .. }
            | Effect::AnswerBeat { .. }
            | Effect::DropClient(_)
            | Effect::Exit(_) => Ok(()),
            Effect::AbandonCall(id) => {
                self.streams.over(*id);
                Ok(())
            }
        }
    }

    /// After each fact and deadline.
    pub fn after(&mut self) -> Kept {
        let snapshot = self.machine.snapshot();
        if self.course.exit.is_some() {
            return Ok(());
        }
        promise!(
            "the state is the contract's",
            snapshot.state == self.course.state,
            "{:?}, ought to be {:?}",
            snapshot.state,
            self.course.state
        );
        let most = usize::try_from(self.plan.options.concurrency).unwrap();
        promise!(
            "the concurrency",
            snapshot.active <= most,
            "{} active of {most}",
            snapshot.active
        );
        promise!(
            "deadlines are bounded",
            snapshot.deadlines <= MOST_DEADLINES,
            "{} deadlines",
            snapshot.deadlines
        );
        if let Some(claim) = self.ledger.open().find(|claim| claim.is_taken) {
            promise!("what the backend took is settled", false, "{claim:?}");
        }
        for (serial, count) in &self.backend.effective {
            promise!(
                "one outcome of each reservation",
                *count <= 1,
                "{count} of reservation {serial}"
            );
        }
        self.idle.after(
            !self.ledger.is_at_work(&self.idle.unanswered)
                && (self.ledger.main.is_some() || self.recycles.is_under_way()),
            self.course.state,
        );
        self.streams.after(self.course.state)?;
        self.memory.after(&snapshot, self.now)?;
        let is_held_by_kernel = recycles::is_held_by_kernel(&self.plan.twists);
        self.recycles.after(&snapshot, is_held_by_kernel, self.now)?;
        self.stuck
            .after(&self.ledger, self.plan.options.timeout_grace, self.now)?;
        let owes_quiet_beat = std::mem::take(&mut self.course.owes_quiet_beat);
        promise!(
            "a heartbeat says quiet at t0",
            !(owes_quiet_beat && self.talk.can_beat()),
            "there is none"
        );
        self.ledger.nobody_is_kept_waiting(self.course.state, self.now)?;
        if self.course.t0.is_none() || self.course.delay_is_over(self.now) {
            self.ledger.is_told(self.course.state)?;
        }
        if self.ledger.main.is_some() && self.ledger.is_idle() && !self.talk.is_fetching() {
            self.course.is_idle(self.now)?;
        } else {
            self.course.is_busy();
        }
        self.talk.gap(self.course.state, self.now)?;
        self.course.is_overdue(self.now)
    }

    fn at_exit(&mut self) -> Kept {
        let Some(status) = self.course.exit else { return Ok(()) };
        let cut_off = self.ledger.cut_off();
        self.idle.at_exit(status, &self.course, cut_off)?;
        let is_abandoned = self.course.abandoned.is_some();
        let at_risk = self.ledger.may_be_cut_off();
        self.accounts.at_exit(status, cut_off, &at_risk, is_abandoned)?;
        self.course.is_overdue(self.now)?;
        promise!(
            "nothing after exit",
            self.machine.poll_timeout().is_none(),
            "a deadline is left"
        );
        self.machine
            .handle(Event::SignalArrived(Signal::TERM), Moment::new(self.now));
        promise!(
            "nothing after exit",
            self.machine.poll_effect().is_none(),
            "an order follows a signal"
        );
        if self.course.abandoned.is_some() {
            return Ok(());
        }
        // A process that was started by one that the kernel holds is no child of ojs-init, or
        // became one after ojs-init gave up on it.
        let is_left = |(pid, proc): &(&u64, &Proc)| {
            proc.is_alive && !proc.was_killed && self.scene.is_ours(**pid) && !self.scene.is_of_the_kernels(**pid)
        };
        if let Some((_, proc)) = self.scene.procs.iter().find(is_left) {
            promise!("nobody is left without a SIGKILL", false, "{proc:?}");
        }
        if let Some(claim) = self.ledger.open().find(|claim| !claim.is_lost) {
            promise!("every claim is accounted for", false, "{claim:?}");
        }
        let left = self.machine.snapshot().active;
        promise!("the ledger is empty in the end", left == 0, "{left} are left");
        self.talk.at_exit()
    }

    pub fn note(&mut self, line: &str) {
        let now = self.now.as_secs_f64();
        if let Some(script) = &mut self.script {
            script.push(format!("{now:>9.3} {line}"));
        }
    }

    /// No answer in time, as far as the machine knows.
    pub fn unanswered() -> Reply {
        Reply::Failed(Failure::Unanswered)
    }
}

/// The machine gives moments, the world counts from zero.
pub fn since_start(moment: Moment) -> Duration {
    moment.remaining(Moment::new(Duration::ZERO))
}
