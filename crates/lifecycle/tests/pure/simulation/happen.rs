//! Events that happen by themselves, and the shell's events for the machine.

use std::collections::VecDeque;

use crate::script::holders::OF_A_CONNECTION;
use ojs_lifecycle::api::{
    Call, CallId, ClientId, Directive, Event, FromWorker, HolderId, JobId, JobState, Manners, OperatorRequest, Phase,
    PullId, Reply, Wants, WorkerId,
};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

use super::looks::Shown;
use super::plan::{Act, Answer, Fault, Life, LinkPlan, ProcessPlan, Twist};
use super::promise::Kept;
use super::scene::{Handler, Proc, Socket, chatter, garbage, process_id, ready};
use super::world::{Item, World};

/// Pid of the first process.
const FIRST_PID: u64 = 100;

impl World {
    /// A program connects to the control socket and asks.
    fn ask(&mut self, request: OperatorRequest) -> Kept {
        self.clients += 1;
        let client = ClientId(self.clients);
        self.tell(Event::OperatorConnected(client))?;
        self.tell(Event::OperatorAsked(client, request))
    }

    fn direct(&mut self, directive: Option<Directive>) -> Kept {
        self.backend.directive = directive;
        Ok(())
    }

    pub fn happen(&mut self, item: Item) -> Kept {
        match item {
            Item::Signal(signal) => self.tell(Event::SignalArrived(signal)),
            Item::Ask(request) => self.ask(request),
            Item::Leave(client) => self.tell(Event::OperatorLeft(client)),
            Item::Memory(taken) => self.tell(Event::MemoryTaken(taken)),
            Item::WorkerMemory(bytes) => self.tell(Event::WorkerMemory(bytes)),
            Item::NewToken => self.tell(Event::CredentialsChanged),
            Item::Directive(directive) => self.direct(directive),
            Item::Stall(length) => {
                self.now += super::plan::ms(length);
                Ok(())
            }
            Item::Offer(job) => {
                self.offer(job);
                Ok(())
            }
            Item::Fate(job, fate) => {
                self.befalls(job, fate);
                Ok(())
            }
            Item::SigtermAtLast if self.course.t0.is_none() => self.tell(Event::SignalArrived(Signal::TERM)),
            Item::SigtermAtLast => Ok(()),
            Item::Start(number) => self.start(number),
            Item::StartNext(number) => self.start_next(number),
            Item::Connect(connection) => self.connect(connection),
            Item::Ready(connection) => {
                let plan = self.scene.sockets.get(&connection).map(|socket| socket.plan.clone());
                match plan {
                    Some(plan) if plan.pulls() => self.want(connection, &plan),
                    Some(plan) => self.say(connection, ready(&plan)),
                    None => {}
                }
                Ok(())
            }
            Item::Act(frame) => {
                self.act(frame);
                Ok(())
            }
            Item::Answer(frame, answer) => {
                self.answer(frame, answer);
                Ok(())
            }
            Item::Pong(connection, id) => {
                self.say(connection, FromWorker::Pong { id });
                Ok(())
            }
            Item::Read(connection) => self.read(connection, false),
            Item::ReadAll(connection) => self.read(connection, true),
            Item::HangUp(connection) => self.hang_up(connection),
            Item::Emptied(connection) => self.emptied(connection),
            Item::Deaf(link) => self.deafen(link),
            Item::Death(index, ended, is_hidden) => {
                self.kill_one(index, ended, is_hidden);
                Ok(())
            }
            Item::Die(pid, ended) => {
                self.die(pid, ended);
                Ok(())
            }
            Item::Gone(pid) => self.process_gone(pid),
            Item::Reap(pid, ended) => self.reap(pid, ended),
            Item::CarryOut(id) => {
                self.carry_out(id);
                Ok(())
            }
            Item::CarryOutUnheard(exchange) => self.carry_out_unheard(&exchange),
            Item::Reply(id, reply) => self.reply(id, reply),
            Item::News(id, news) => self.news(id, news),
        }
    }

    pub fn life(&self, number: u64) -> Option<Life> {
        let of_number = |twist: &Twist| {
            let Twist::Life(of, life) = twist else { return None };
            (*of == number).then(|| life.clone())
        };
        self.plan.twists.iter().find_map(of_number)
    }

    fn start(&mut self, number: u64) -> Kept {
        let life = self.life(number).unwrap_or_else(usual_life);
        if let Err(why) = life.start {
            return self.tell(Event::WorkerNotStarted(why));
        }
        let first = self.begin(&life);
        self.scene.main = Some(first);
        self.scene.worker = Some(first);
        let worker = WorkerId(format!("w{}", self.named).into());
        self.tell(Event::WorkerStarted {
            process: process_id(first),
            worker,
        })
    }

    /// The next worker process, beside the present one.
    fn start_next(&mut self, number: u64) -> Kept {
        let life = self.life(number).unwrap_or_else(usual_life);
        if let Err(why) = life.start {
            return self.tell(Event::NextNotStarted(why));
        }
        let first = self.begin(&life);
        self.ledger.gone.entry(process_id(first)).or_insert(false);
        self.tell(Event::NextStarted(process_id(first)))
    }

    /// The processes of a worker, and their connections to come. Returns the first process.
    fn begin(&mut self, life: &Life) -> u64 {
        let first = FIRST_PID + u64::try_from(self.scene.procs.len()).unwrap();
        let pid_of = |index: usize| first + u64::try_from(index).unwrap();
        for (index, plan) in life.processes.iter().enumerate() {
            let total = self.scene.procs.len();
            let stubborn = self.plan.twists.iter().find_map(|twist| {
                let Twist::Stubborn(which, how) = twist else {
                    return None;
                };
                (*which == total).then_some(*how)
            });
            let proc = Proc {
                parent: (index > 0).then(|| pid_of(plan.parent)),
                plan: plan.clone(),
                is_alive: true,
                is_ending: false,
                was_killed: false,
                stubborn,
                has_connected: false,
            };
            self.scene.procs.insert(pid_of(index), proc);
        }
        for plan in &life.links {
            let connection = HolderId(1 + self.scene.sockets.len() as u64);
            let socket = Socket {
                process: pid_of(plan.process),
                plan: plan.clone(),
                unread: VecDeque::new(),
                is_ended: false,
                is_over: false,
                is_cut: false,
                is_deaf: false,
            };
            self.scene.sockets.insert(connection, socket);
            self.soon(1 + plan.connect, Item::Connect(connection));
        }
        first
    }

    fn connect(&mut self, connection: HolderId) -> Kept {
        let Some(socket) = self.scene.sockets.get(&connection) else {
            return Ok(());
        };
        let (pid, after) = (socket.process, socket.plan.ready);
        if !self.scene.is_alive(pid) {
            return Ok(());
        }
        if let Some(proc) = self.scene.procs.get_mut(&pid) {
            proc.has_connected = true;
        }
        self.soon(after, Item::Ready(connection));
        self.tell(Event::HolderCame {
            holder: connection,
            process: Some(process_id(pid)),
            manners: Manners {
                frame_limit: Some(1_000),
                ..OF_A_CONNECTION
            },
        })
    }

    /// A live process sends a frame; the shell reads it a moment later.
    fn say(&mut self, connection: HolderId, said: FromWorker) {
        if self.scene.write(connection, said) {
            self.soon(1, Item::Read(connection));
        }
    }

    /// The worker asks for as many more jobs as it has room for, and waits for them for a moment.
    fn want(&mut self, connection: HolderId, plan: &LinkPlan) {
        self.pulls += 1;
        let of_this = |handler: &&Handler| handler.connection == connection && handler.wrote.is_none();
        let busy = self.scene.handlers.iter().filter(of_this).count();
        let count = plan.concurrency.saturating_sub(u32::try_from(busy).unwrap());
        let wants = Wants {
            pull: PullId(self.pulls),
            count,
            queues: self
                .pulls
                .is_multiple_of(3)
                .then(|| vec!["default".into(), "other".into()]),
            within: super::plan::ms(self.pulls % 4 * 400),
        };
        self.say(connection, FromWorker::Wants(wants));
    }

    fn answer(&mut self, frame: usize, answer: Answer) {
        if self.scene.answer(frame, answer) {
            let connection = self.scene.handlers[frame].connection;
            self.soon(1, Item::Read(connection));
        }
    }

    fn act(&mut self, frame: usize) {
        let Some(handler) = self.scene.handlers.get(frame) else {
            return;
        };
        let (connection, job, act) = (handler.connection, handler.job.clone(), handler.habit.act);
        let Some(pid) = self.scene.sockets.get(&connection).map(|socket| socket.process) else {
            return;
        };
        if !self.scene.is_alive(pid) {
            return;
        }
        match act {
            Act::Answer(answer) => self.answer(frame, answer),
            Act::Twice(first, second) => {
                self.answer(frame, first);
                self.answer(frame, second);
            }
            Act::Nothing => {}
            Act::AckThenDie => {
                self.answer(frame, Answer::Ack);
                self.die(pid, Ended::Exited(0));
            }
            Act::Die => self.die(pid, Ended::Exited(3)),
            Act::CloseSocket => {
                if let Some(socket) = self.scene.sockets.get_mut(&connection) {
                    socket.is_ended = true;
                }
                self.soon(1, Item::Read(connection));
            }
            Act::Garbage => {
                for _ in 0..3 {
                    self.say(connection, garbage());
                }
            }
            Act::AckUnknown => {
                let job = JobId("nobody's".into());
                self.say(connection, super::scene::said(Answer::Ack, job));
                self.soon(30, Item::Answer(frame, Answer::Ack));
            }
            Act::Chatter => {
                for said in chatter(&job) {
                    self.say(connection, said);
                }
                self.soon(1_200, Item::Answer(frame, Answer::Ack));
            }
            Act::Pause => {
                let plan = self.scene.sockets.get(&connection).map(|socket| socket.plan.clone());
                if let Some(plan) = plan.filter(|plan| !plan.pulls()) {
                    let paused = LinkPlan {
                        concurrency: 0,
                        ..plan.clone()
                    };
                    self.say(connection, ready(&paused));
                    self.soon(500, Item::Ready(connection));
                }
                self.soon(30, Item::Answer(frame, Answer::Ack));
            }
        }
    }

    fn read(&mut self, connection: HolderId, is_told_to: bool) -> Kept {
        let Some(socket) = self.scene.sockets.get_mut(&connection) else {
            return Ok(());
        };
        let proc = self.scene.procs.get(&socket.process);
        let is_hidden = proc.is_some_and(|proc| proc.plan.is_hidden && !proc.is_alive);
        if socket.is_over || socket.is_cut || (is_hidden && !is_told_to) {
            return Ok(());
        }
        let frames: Vec<FromWorker> = socket.unread.drain(..).collect();
        let is_ended = socket.is_ended;
        for said in frames {
            let is_cut = self.scene.sockets.get(&connection).is_some_and(|socket| socket.is_cut);
            if !is_cut {
                self.tell(Event::Said(connection, said))?;
            }
        }
        if is_ended { self.hang_up(connection) } else { Ok(()) }
    }

    fn hang_up(&mut self, connection: HolderId) -> Kept {
        let Some(socket) = self.scene.sockets.get_mut(&connection) else {
            return Ok(());
        };
        if std::mem::replace(&mut socket.is_over, true) {
            return Ok(());
        }
        self.tell(Event::HungUp(connection))
    }

    fn emptied(&mut self, connection: HolderId) -> Kept {
        let is_open = self
            .scene
            .sockets
            .get(&connection)
            .is_some_and(|socket| !socket.is_over && !socket.is_deaf);
        if is_open {
            self.tell(Event::OutboundEmptied(connection))
        } else {
            Ok(())
        }
    }

    fn deafen(&mut self, link: usize) -> Kept {
        let Some((id, socket)) = self.scene.sockets.iter_mut().nth(link) else {
            return Ok(());
        };
        let id = *id;
        socket.is_deaf = true;
        let is_told = self.ledger.links.get(&id).is_some_and(|link| !link.is_hung_up);
        if is_told {
            self.tell(Event::OutboundFilled(id))
        } else {
            Ok(())
        }
    }

    fn kill_one(&mut self, index: usize, ended: Ended, is_hidden: bool) {
        let alive: Vec<u64> = self
            .scene
            .procs
            .iter()
            .filter(|(_, proc)| proc.is_alive)
            .map(|(pid, _)| *pid)
            .collect();
        if alive.is_empty() {
            return;
        }
        let pid = alive[index % alive.len()];
        if let Some(proc) = self.scene.procs.get_mut(&pid) {
            proc.plan.is_hidden = is_hidden;
        }
        self.die(pid, ended);
    }

    pub fn die(&mut self, pid: u64, ended: Ended) {
        if !self.scene.is_alive(pid) {
            return;
        }
        self.note(&format!("   process {pid} dies: {ended}"));
        for connection in self.scene.die(pid) {
            self.soon(1, Item::Read(connection));
        }
        let is_main = self.scene.main == Some(pid);
        if let Some(proc) = self.scene.procs.get(&pid)
            && proc.has_connected
            && (!is_main || proc.plan.is_watched)
        {
            self.soon(2, Item::Gone(pid));
        }
        if is_main {
            self.scene.main = None;
            self.soon(3, Item::Reap(pid, ended));
        } else if self.scene.is_ours(pid) {
            self.soon(3, Item::Reap(pid, ended));
        }
    }

    fn reap(&mut self, pid: u64, ended: Ended) -> Kept {
        let is_main = self.scene.procs.get(&pid).is_some_and(|proc| proc.parent.is_none());
        if is_main && self.scene.worker == Some(pid) {
            self.tell(Event::WorkerEnded(ended))?;
        } else if is_main {
            self.process_gone(pid)?;
        }
        let children_left = self.scene.anybody_lives();
        self.tell(Event::Reaped { children_left })
    }

    fn carry_out(&mut self, id: CallId) {
        let Some(exchange) = self.requests.get(&id).cloned() else {
            return;
        };
        let reply = self
            .backend
            .carry_out(&exchange.call, exchange.meant, exchange.fault, self.now);
        self.note(&format!("   the backend does {}: {reply:?}", id.0));
        if let Call::GetJob { job } = &exchange.call {
            // A job that is not found proves nothing, because a store may be away.
            let is_missing = matches!(&reply, Reply::JobSeen(view) if view.state == JobState::Missing);
            let shown = if is_missing {
                Shown::Nothing
            } else {
                Shown::Reservation(self.backend.reserved(job))
            };
            self.ledger.shown.insert(job.clone(), shown);
        }
        let reply = if exchange.fault == Some(Fault::OtherReply) {
            other(&exchange.call)
        } else {
            reply
        };
        if let Some(exchange) = self.requests.get_mut(&id) {
            exchange.answer = Some(reply);
        }
    }

    fn reply(&mut self, id: CallId, reply: Option<Reply>) -> Kept {
        let Some(exchange) = self.requests.remove(&id) else {
            return Ok(());
        };
        let reply = reply.or(exchange.answer).unwrap_or_else(Self::unanswered);
        self.tell(Event::BackendReplied(id, reply))
    }

    /// The phase of the machine, for the last line of a script.
    pub fn phase(&self) -> Phase {
        self.machine.snapshot().phase
    }
}

/// A reply that does not fit.
fn other(call: &Call) -> Reply {
    match call {
        Call::Heartbeat { .. } => Reply::Accepted,
        Call::Register { .. }
        | Call::Fetch { .. }
        | Call::Report { .. }
        | Call::GetJob { .. }
        | Call::Progress { .. }
        | Call::Checkpoint { .. }
        | Call::Manifest
        | Call::Listen { .. }
        | Call::Deregister { .. } => Reply::HeartbeatOk {
            directive: None,
            extended: None,
        },
    }
}

fn usual_life() -> Life {
    Life {
        start: Ok(()),
        start_delay: 1,
        processes: vec![ProcessPlan {
            parent: 0,
            term_delay: 20,
            term_end: Ended::Exited(0),
            is_hidden: false,
            is_watched: false,
        }],
        links: vec![LinkPlan {
            process: 0,
            connect: 5,
            ready: 5,
            concurrency: 2,
            is_picky: false,
            pings: false,
        }],
    }
}
