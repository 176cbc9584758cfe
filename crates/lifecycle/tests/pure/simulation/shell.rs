//! The shell: how it carries out each order, and which orders it may get.

use std::time::Duration;

use ojs_lifecycle::api::{
    Call, CallId, Effect, Endpoint, ErrorCode, Failure, GivenJob, HolderId, JobId, Reply, ToWorker,
};
use ojs_values::signal::Signal;

use super::plan::{Answer, Fault, Habit, Stubbornness, Twist};
use super::promise::{Kept, promise};
use super::scene::{Handler, Proc, killed, process_id, usual_habit};
use super::talk::Holder;
use super::world::{Exchange, Item, World, since_start};

impl World {
    /// No order names an object that has ended.
    pub fn hold_up_names(&mut self, effect: &Effect) -> Kept {
        match effect {
            Effect::Tell(connection, word) => {
                self.hold_up_connection(*connection, effect)?;
                if let Some(link) = self.ledger.links.get_mut(connection) {
                    link.is_told(word);
                }
                if let ToWorker::Error {
                    code: ErrorCode::Refused,
                    job: Some(job),
                    ..
                } = word
                    && let Some(claim) = self.ledger.find(job)
                {
                    claim.may_answer_again = true;
                }
                if let ToWorker::Job(GivenJob { envelope, .. }) = word {
                    let most = usize::try_from(self.plan.options.concurrency).unwrap();
                    self.ledger
                        .hand_over(*connection, envelope, self.course.state, most, false)?;
                }
            }
            Effect::AnswerPull { holder, pull, jobs } => {
                self.hold_up_connection(*holder, effect)?;
                let most = usize::try_from(self.plan.options.concurrency).unwrap();
                self.ledger
                    .pull_is_answered(*holder, *pull, jobs, self.course.state, most)?;
            }
            Effect::AnswerBeat { holder, .. } => self.hold_up_connection(*holder, effect)?,
            Effect::ReadToEnd(connection) => {
                self.hold_up_connection(*connection, effect)?;
                let is_alive = self
                    .scene
                    .sockets
                    .get(connection)
                    .is_some_and(|it| self.scene.is_alive(it.process));
                promise!("read to the end of the dead only", !is_alive, "{effect:?}");
            }
            Effect::Close(connection, _) => {
                self.hold_up_connection(*connection, effect)?;
                if let Some(link) = self.ledger.links.get_mut(connection) {
                    link.is_closing = true;
                }
            }
            Effect::TakeOver(process) => {
                self.ledger.main = Some(*process);
                self.blame.takes_over(*process);
            }
            Effect::SignalWorker(_) => promise!("no signal to nobody", self.ledger.main.is_some(), "{effect:?}"),
            Effect::SignalProcess(process, signal) => {
                let is_there = self.ledger.gone.get(process) == Some(&false);
                promise!("no signal to nobody", is_there, "{effect:?}");
                let is_meant = *signal != Signal::URG || self.ledger.may_be_woken_up(*process);
                promise!("who gets SIGURG has something to stop", is_meant, "{effect:?}");
            }
            Effect::StartWorker { .. }
            | Effect::StartNext
            | Effect::TerminateDescendants
            | Effect::KillDescendants
            | Effect::KillEverything
            | Effect::CallBackend { .. }
            | Effect::Answer(..)
            | Effect::Show(..)
            | Effect::AbandonCall(_)
            | Effect::DropClient(_)
            | Effect::Notify(_)
            | Effect::WriteTerminationLog(_)
            | Effect::Exit(_) => {}
        }
        Ok(())
    }

    fn hold_up_connection(&self, connection: HolderId, effect: &Effect) -> Kept {
        let is_there = self.ledger.links.get(&connection).is_some_and(|link| !link.is_hung_up);
        promise!("no word to a closed connection", is_there, "{effect:?}");
        Ok(())
    }

    /// A reservation is only called lost when it is.
    pub fn hold_up_lost(&mut self, id: &JobId) -> Kept {
        let claim = self.ledger.find_lost(id);
        let is_held = claim
            .as_ref()
            .is_some_and(|claim| claim.is_held() || claim.is_waiting());
        let serial = claim.map(|claim| claim.serial);
        let is_alive = serial.is_some_and(|serial| self.backend.holds(id, serial, self.now));
        let is_excused = self.talk.absences.excuses(id, is_held, self.now);
        promise!(
            "what is lost was lost",
            !is_alive || is_excused,
            "{id}: reservation {serial:?} is alive"
        );
        Ok(())
    }

    /// A delivery is only void if the backend does not have it.
    pub fn hold_up_void(&mut self, id: &JobId) -> Kept {
        let serial = self.ledger.find(id).map(|claim| claim.serial);
        let is_alive = serial.is_some_and(|serial| self.backend.holds(id, serial, self.now));
        promise!(
            "what comes again and is ours is not dropped",
            !is_alive,
            "{id}: reservation {serial:?} is alive"
        );
        Ok(())
    }

    pub fn holder_of(&mut self, call: &Call) -> Option<Holder> {
        match call {
            Call::Report { job, outcome, .. } if !outcome.is_ack() => {
                let claim = self.ledger.find(job)?.clone();
                self.scene.holder(&claim, self.ledger.main)
            }
            Call::Register { .. }
            | Call::Heartbeat { .. }
            | Call::Fetch { .. }
            | Call::Report { .. }
            | Call::GetJob { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. }
            | Call::Deregister { .. } => None,
        }
    }

    /// Does it.
    pub fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::StartWorker { keeps_name } => {
                self.named = if keeps_name { self.named } else { self.lives };
                self.start_soon(Item::Start);
            }
            Effect::StartNext => self.start_soon(Item::StartNext),
            Effect::TakeOver(process) => {
                let is_alive = self.scene.is_alive(process.0);
                self.scene.main = is_alive.then_some(process.0);
                self.scene.old = self.scene.worker.replace(process.0);
            }
            Effect::SignalWorker(signal) => {
                if let Some(main) = self.scene.main {
                    self.signal(main, signal);
                }
            }
            Effect::SignalProcess(process, signal) => self.signal(process.0, signal),
            Effect::TerminateDescendants => {
                for pid in self.descendants() {
                    if self.terminated.insert(pid) {
                        self.signal(pid, Signal::TERM);
                    }
                }
            }
            Effect::KillDescendants => {
                for pid in self.descendants() {
                    self.signal(pid, Signal::KILL);
                }
            }
            Effect::KillEverything => {
                let all: Vec<u64> = self.scene.procs.keys().copied().collect();
                for pid in all {
                    self.signal(pid, Signal::KILL);
                }
            }
            Effect::Tell(connection, word) => self.write(connection, &word),
            Effect::AnswerPull { holder, jobs, .. } => {
                for job in &jobs {
                    self.begin_handler(holder, &job.envelope);
                }
                let is_deaf = self.scene.sockets.get(&holder).is_none_or(|socket| socket.is_deaf);
                if !is_deaf {
                    self.soon(if jobs.is_empty() { 200 } else { 20 }, Item::Ready(holder));
                }
            }
            Effect::ReadToEnd(connection) => self.soon(1, Item::ReadAll(connection)),
            Effect::Close(connection, _) => self.close(connection),
            Effect::CallBackend {
                id,
                call: call @ Call::Listen { .. },
                give_up,
                ..
            } => self.listen(id, call, since_start(give_up)),
            Effect::CallBackend { id, call, give_up, .. } => self.send(id, call, since_start(give_up)),
            Effect::AbandonCall(id) => self.soon(0, Item::Reply(id, Some(Self::unanswered()))),
            // Some leave at once, others stay until they are sent away.
            Effect::Answer(client, _) | Effect::Show(client, _) if client.0.is_multiple_of(3) => {}
            Effect::Answer(client, _) | Effect::Show(client, _) => self.soon(client.0 % 5 * 40, Item::Leave(client)),
            Effect::AnswerBeat { .. }
            | Effect::DropClient(_)
            | Effect::Notify(_)
            | Effect::WriteTerminationLog(_)
            | Effect::Exit(_) => {}
        }
    }

    fn start_soon(&mut self, item: fn(u64) -> Item) {
        let number = self.lives;
        self.lives += 1;
        let delay = self.life(number).map_or(1, |life| life.start_delay);
        self.soon(delay, item(number));
    }

    fn descendants(&self) -> Vec<u64> {
        let procs = self.scene.procs.iter();
        let is_ours = |pid: u64, proc: &Proc| match proc.parent {
            Some(_) => self.scene.is_ours(pid),
            // The other one of two workers.
            None => self.scene.worker != Some(pid),
        };
        let ours = procs.filter(|(pid, proc)| proc.is_alive && is_ours(**pid, proc));
        ours.map(|(pid, _)| *pid).collect()
    }

    fn signal(&mut self, pid: u64, signal: Signal) {
        let Some(proc) = self.scene.procs.get_mut(&pid) else {
            return;
        };
        if !proc.is_alive {
            return;
        }
        let (delay, ended) = (proc.plan.term_delay, proc.plan.term_end);
        proc.was_killed |= signal == Signal::KILL;
        if signal == Signal::KILL && proc.stubborn != Some(Stubbornness::HeldByKernel) {
            self.soon(0, Item::Die(pid, killed()));
        } else if signal == Signal::TERM && proc.stubborn.is_none() && !proc.is_ending {
            proc.is_ending = true;
            self.soon(delay, Item::Die(pid, ended));
        }
    }

    /// The worker reads it: it is never slow here, only deaf.
    fn write(&mut self, connection: HolderId, word: &ToWorker) {
        let Some(socket) = self.scene.sockets.get(&connection) else {
            return;
        };
        let is_deaf = socket.is_deaf;
        match word {
            ToWorker::Job(GivenJob { envelope, .. }) => {
                self.begin_handler(connection, envelope);
                if !is_deaf {
                    self.soon(1, Item::Emptied(connection));
                }
            }
            ToWorker::Cancel { job, .. } if !is_deaf => {
                let theirs = |handler: &Handler| handler.connection == connection && handler.job == *job;
                let Some(frame) = self.scene.handlers.iter().rposition(theirs) else {
                    return;
                };
                if let Some((after, answer)) = self.scene.handlers[frame].habit.on_cancel {
                    self.soon(after, Item::Answer(frame, answer));
                }
            }
            ToWorker::Ping { id } if !is_deaf => self.soon(2, Item::Pong(connection, *id)),
            ToWorker::Error {
                code: ErrorCode::Refused,
                job: Some(job),
                ..
            } => {
                let theirs = |handler: &Handler| handler.connection == connection && handler.job == *job;
                let Some(frame) = self.scene.handlers.iter().rposition(theirs) else {
                    return;
                };
                // Some answer differently, some do not care.
                if let Some(answer) = [Some(Answer::Ack), None, Some(Answer::Release), Some(Answer::Fail)][frame % 4] {
                    self.soon(50, Item::Answer(frame, answer));
                }
            }
            ToWorker::Hello { .. }
            | ToWorker::Lifecycle { .. }
            | ToWorker::Cancel { .. }
            | ToWorker::Ok { .. }
            | ToWorker::Error { .. }
            | ToWorker::Ping { .. } => {}
        }
    }

    fn begin_handler(&mut self, connection: HolderId, envelope: &str) {
        let Some(is_deaf) = self.scene.sockets.get(&connection).map(|socket| socket.is_deaf) else {
            return;
        };
        let job = JobId(envelope.split(' ').next().unwrap().into());
        let frame = self.scene.handlers.len();
        let habit = self.habit(frame);
        let after = habit.after;
        self.scene.handlers.push(Handler {
            connection,
            job,
            habit,
            wrote: None,
        });
        if !is_deaf {
            self.soon(after, Item::Act(frame));
        }
    }

    fn habit(&self, frame: usize) -> Habit {
        let planned = self.plan.twists.iter().find_map(|twist| {
            let Twist::Handler(number, habit) = twist else {
                return None;
            };
            (usize::try_from(*number) == Ok(frame)).then(|| habit.clone())
        });
        planned.unwrap_or_else(usual_habit)
    }

    fn close(&mut self, connection: HolderId) {
        let Some(socket) = self.scene.sockets.get_mut(&connection) else {
            return;
        };
        socket.is_cut = true;
        socket.unread.clear();
        let pid = socket.process;
        self.soon(1, Item::HangUp(connection));
        // A worker whose socket closes stops its handlers and exits.
        if let Some(proc) = self.scene.procs.get(&pid)
            && proc.stubborn.is_none()
        {
            self.soon(proc.plan.term_delay, Item::Die(pid, ojs_values::exit::Ended::Exited(1)));
        }
    }

    /// The fate of a request: its own fault, else that of an outage.
    fn fault(&self, id: CallId) -> Option<Fault> {
        let twists = &self.plan.twists;
        let own = twists.iter().find_map(|twist| {
            let Twist::Call(number, fault) = twist else { return None };
            (*number == id.0).then_some(*fault)
        });
        let now = u64::try_from(self.now.as_millis()).unwrap_or(u64::MAX);
        let outage = twists.iter().find_map(|twist| {
            let Twist::Outage(from, to, fault) = twist else {
                return None;
            };
            (*from..*to).contains(&now).then_some(*fault)
        });
        own.or(outage)
    }

    fn send(&mut self, id: CallId, call: Call, give_up: Duration) {
        let slow_look = self
            .plan
            .backend
            .look_delay
            .filter(|_| matches!(call, Call::GetJob { .. }));
        let fault = self.fault(id).or(slow_look.map(Fault::Slow));
        let meant = self.meant(&call);
        let late = self
            .plan
            .backend
            .nack_delay
            .filter(|_| fault.is_none() && call.endpoint() == Endpoint::Nack);
        let exchange = Exchange {
            call,
            meant,
            fault,
            answer: None,
        };
        self.requests.insert(id, exchange.clone());
        if let Some(how) = self.hanging(exchange.call.endpoint()).filter(|_| fault.is_none()) {
            return self.hang(id, how, give_up);
        }
        let usual = self.plan.backend.delay;
        let refused = |failure| (usual, Some(Reply::Failed(failure)));
        if let Some((done, after)) = late {
            self.soon(done, Item::CarryOut(id));
            let answered = (self.now + super::plan::ms(after)).min(give_up);
            let reply = (answered == give_up).then(Self::unanswered);
            return self.later(answered, Item::Reply(id, reply));
        }
        let (is_done, (after, reply)) = match fault {
            None | Some(Fault::TooMany(_) | Fault::Doubled | Fault::Redelivered | Fault::OtherReply) => {
                (true, (usual, None))
            }
            Some(Fault::Slow(after)) => (true, (after, None)),
            Some(Fault::ReplyLost(after)) => (true, (after, Some(Self::unanswered()))),
            Some(Fault::RequestLost(after)) => (false, (after, Some(Self::unanswered()))),
            Some(Fault::Silence(is_done)) => {
                if is_done {
                    self.soon(1, Item::CarryOut(id));
                }
                return;
            }
            Some(Fault::NotSent) => (false, (1, Some(Reply::Failed(Failure::NotSent)))),
            Some(Fault::Declined(after)) => {
                let retry_after = after.map(super::plan::ms);
                (false, refused(Failure::RetryLater { retry_after }))
            }
            Some(Fault::Unauthorized) => (false, refused(Failure::Unauthorized)),
            Some(Fault::NotOffered) => (false, refused(Failure::Unsupported)),
            Some(Fault::Unregistered) => (false, refused(Failure::Unregistered)),
            Some(Fault::Refused) => (false, refused(Failure::Refused)),
            Some(Fault::Foreign) => (false, (usual, Some(self.backend.foreign(&exchange.call)))),
            Some(Fault::ServerError(is_done)) => (is_done, refused(Failure::ServerError)),
            Some(Fault::StoreAway) => match self.backend.without_store(&exchange.call) {
                Some(reply) => (false, (usual, Some(reply))),
                None => (true, (usual, None)),
            },
        };
        let answered = self.now + super::plan::ms(after);
        if is_done {
            let at = self.now + super::plan::ms(after) / 2;
            self.later(at.min(give_up), Item::CarryOut(id));
        }
        if answered > give_up {
            self.later(give_up, Item::Reply(id, Some(Self::unanswered())));
        } else {
            self.later(answered, Item::Reply(id, reply));
        }
    }

    /// Which delivery an outcome is of.
    fn meant(&mut self, call: &Call) -> Option<u64> {
        match call {
            Call::Report { job, .. } => self.ledger.find(job).map(|claim| claim.serial),
            Call::Register { .. }
            | Call::Heartbeat { .. }
            | Call::Fetch { .. }
            | Call::GetJob { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. }
            | Call::Deregister { .. } => None,
        }
    }

    pub fn process_gone(&mut self, pid: u64) -> Kept {
        if !self.scene.reported.insert(pid) {
            return Ok(());
        }
        let is_main = self.scene.procs.get(&pid).is_some_and(|proc| proc.parent.is_none());
        self.scene.old = self.scene.old.filter(|old| *old != pid);
        if is_main && self.scene.worker != Some(pid) {
            // The shell ends what one of two workers leaves in its process group.
            for below in self.scene.killable_below(pid) {
                self.die(below, killed());
            }
        }
        self.tell(ojs_lifecycle::api::Event::ProcessGone(process_id(pid)))
    }
}
