//! A machine with many jobs, a backend that answers as the test orders, and workers that act only
//! on the test's orders.

use std::collections::VecDeque;
use std::time::Duration;

use ojs_lifecycle::api::ids::{CallId, HolderId, JobId, ProcessId, WorkerId};
use ojs_lifecycle::api::{
    BackendTraits, Call, Delivery, Effect, Event, Failure, FromWorker, GivenJob, Moment, Ready, Reply, Reservation,
    Subject, ToWorker,
};
use ojs_lifecycle::machine::Lifecycle;

use crate::script::holders::OF_A_CONNECTION;
use crate::script::settings;

/// How the backend answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Fair,
    /// Nothing is answered.
    Away,
}

pub struct Crowd {
    pub machine: Lifecycle,
    pub now: Moment,
    pub weather: Weather,
    /// Most jobs at once.
    pub room: usize,
    /// The jobs of each holder, the oldest first.
    pub held: VecDeque<(HolderId, JobId)>,
    /// Jobs that the next FETCHes bring.
    pub offered: usize,
    /// Requests on their way, the oldest first.
    pub asked: VecDeque<(CallId, Call)>,
    /// The events that the machine received.
    pub events: usize,
    /// Outcomes that the backend received.
    pub told: usize,
    /// Operators that were answered.
    pub answered: usize,
    inbox: VecDeque<Event>,
    next_job: usize,
}

impl Crowd {
    /// `holders` connections of one worker, each ready for `each` jobs.
    pub fn new(holders: usize, each: usize) -> Self {
        let mut crowd = Self::alone(holders * each);
        crowd.holders_come(holders, each);
        crowd
    }

    /// A worker without a connection.
    pub fn alone(room: usize) -> Self {
        let mut options = settings::defaults();
        options.concurrency = u32::try_from(room).unwrap();
        let now = Moment::new(Duration::ZERO);
        let mut crowd = Self {
            machine: Lifecycle::new(options, now),
            now,
            weather: Weather::Fair,
            room,
            held: VecDeque::new(),
            offered: 0,
            asked: VecDeque::new(),
            events: 0,
            told: 0,
            answered: 0,
            inbox: VecDeque::new(),
            next_job: 0,
        };
        crowd.tell(Event::WorkerStarted {
            process: ProcessId(1),
            worker: WorkerId("w1".into()),
        });
        crowd
    }

    pub fn holders_come(&mut self, holders: usize, each: usize) {
        for number in 0..holders {
            let holder = HolderId(u64::try_from(number).unwrap() + 1);
            let manners = OF_A_CONNECTION;
            self.tell(Event::HolderCame {
                holder,
                process: Some(ProcessId(1)),
                manners,
            });
            let ready = Ready {
                concurrency: u32::try_from(each).unwrap(),
                types: None,
                ping: false,
                ok: true,
                cancel_signal: false,
                client: None,
            };
            self.tell(Event::Said(holder, FromWorker::Ready(ready)));
        }
    }

    /// Fills every holder: as many jobs as they have room for are fetched and handed over.
    pub fn full(holders: usize, each: usize) -> Self {
        let mut crowd = Self::new(holders, each);
        crowd.offered = holders * each;
        crowd.until(|crowd| crowd.held.len() == holders * each);
        crowd
    }

    /// Answers requests and advances time until the condition holds.
    pub fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..1_000_000 {
            if is_so(self) {
                return;
            }
            self.answer_all();
            if !is_so(self) {
                self.next_timer();
            }
        }
        panic!("it never came to that");
    }

    /// Advances time to the next timer.
    pub fn next_timer(&mut self) {
        let (due, _) = self.machine.poll_timeout().unwrap();
        self.now = self.now.max(due);
        self.fire_due();
    }

    /// Fires all due timers, one after the other.
    pub fn fire_due(&mut self) {
        while self.machine.poll_timeout().is_some_and(|(due, _)| due <= self.now) {
            self.events += 1;
            self.machine.handle_timeout(self.now);
            self.obey();
        }
    }

    /// Passes this event to the machine, and the events that follow at once from its orders.
    pub fn tell(&mut self, event: Event) {
        self.tell_all([event]);
    }

    /// Passes several simultaneous events to the machine.
    pub fn tell_all(&mut self, events: impl IntoIterator<Item = Event>) {
        self.inbox.extend(events);
        while let Some(event) = self.inbox.pop_front() {
            self.events += 1;
            self.machine
                .handle_one_of_several(event, self.now, self.inbox.is_empty());
            self.obey();
        }
    }

    fn obey(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                Effect::CallBackend { id, call, .. } => self.asked.push_back((id, call)),
                Effect::Tell(holder, ToWorker::Job(GivenJob { envelope, .. })) => {
                    self.held.push_back((holder, JobId((&*envelope).into())));
                    self.inbox.push_back(Event::OutboundEmptied(holder));
                }
                Effect::Answer(..) => self.answered += 1,
                Effect::StartWorker { .. }
                | Effect::StartNext
                | Effect::TakeOver(_)
                | Effect::SignalWorker(_)
                | Effect::SignalProcess(..)
                | Effect::TerminateDescendants
                | Effect::KillDescendants
                | Effect::KillEverything
                | Effect::Tell(..)
                | Effect::ReadToEnd(_)
                | Effect::Close(..)
                | Effect::Show(..)
                | Effect::AbandonCall(_)
                | Effect::AnswerPull { .. }
                | Effect::AnswerBeat { .. }
                | Effect::DropClient(_)
                | Effect::Notify(_)
                | Effect::WriteTerminationLog(_)
                | Effect::Exit(_) => {}
            }
        }
    }

    /// Answers every request, and the requests that follow.
    pub fn answer_all(&mut self) {
        while self.answer_one() {}
        while let Some(event) = self.inbox.pop_front() {
            self.tell(event);
        }
    }

    /// Answers the oldest request.
    pub fn answer_one(&mut self) -> bool {
        let Some((id, call)) = self.asked.pop_front() else {
            return false;
        };
        let reply = self.reply(&call);
        self.tell(Event::BackendReplied(id, reply));
        true
    }

    /// Answers to every request that is on its way.
    pub fn replies_of_all(&mut self) -> Vec<Event> {
        let asked = std::mem::take(&mut self.asked);
        let replies = asked
            .into_iter()
            .map(|(id, call)| Event::BackendReplied(id, self.reply(&call)));
        replies.collect()
    }

    fn reply(&mut self, call: &Call) -> Reply {
        match call {
            _ if self.weather == Weather::Away => Reply::Failed(Failure::Unanswered),
            Call::Register { .. } => Reply::Registered {
                heartbeat_interval: None,
                longest_interval: None,
            },
            Call::Heartbeat { active, .. } => Reply::HeartbeatOk {
                directive: None,
                extended: Some(active.clone()),
            },
            Call::Fetch { count, .. } => {
                let count = self.offered.min(usize::try_from(*count).unwrap());
                self.offered -= count;
                Reply::Fetched((0..count).map(|_| self.delivery()).collect())
            }
            Call::Manifest => Reply::Manifest(BackendTraits::default()),
            Call::Report { .. } => {
                self.told += 1;
                Reply::Accepted
            }
            Call::Progress { .. } | Call::Checkpoint { .. } | Call::Deregister { .. } => Reply::Accepted,
            Call::GetJob { .. } | Call::Listen { .. } => Reply::Failed(Failure::Unsupported),
        }
    }

    fn delivery(&mut self) -> Delivery {
        self.next_job += 1;
        // As long as the names that backends give, and as alike.
        let id: std::sync::Arc<str> = format!("019aab00-0000-7000-8000-{:012}", self.next_job).into();
        Delivery {
            has_crashed: false,
            envelope: id.clone().into(),
            subject: Subject {
                id: JobId(id),
                kind: "mail".into(),
                queue: "default".into(),
                attempt: None,
                max_attempts: None,
                trace: None,
            }
            .into(),
            checkpoint: None,
            timeout: Some(Duration::from_secs(3600)),
            reservation: Reservation::default(),
            visibility: None,
            waited: None,
        }
    }

    /// The handler of the job that was given out first has done it.
    pub fn ack_oldest(&mut self) {
        let (holder, job) = self.held.pop_front().unwrap();
        let said = FromWorker::Ack { job, result: None };
        self.tell(Event::Said(holder, said));
    }
}
