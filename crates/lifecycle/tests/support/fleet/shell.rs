//! The shell around each machine of a fleet: it passes facts to the machine and carries out its
//! orders.

use ojs_lifecycle::api::ids::{CallId, HolderId, ProcessId, WorkerId};
use ojs_lifecycle::api::{
    Call, Effect, Event, Failure, FromWorker, GivenJob, LinkNotice, LinkTimer, Manners, Moment, Notice, Ready, Reply,
    StreamNews, Timer, ToWorker,
};

use super::account::Cause;
use super::backend::{Backend, Change};
use super::worker::Request;
use super::{Fleet, Item};

/// The only connection of a worker's program.
const HOLDER: HolderId = HolderId(1);

/// The worker's program.
const PROCESS: ProcessId = ProcessId(1);

impl Fleet<'_> {
    fn moment(&self) -> Moment {
        Moment::new(self.now)
    }

    /// Passes an event to this worker's machine, and all events that follow at once.
    fn tell(&mut self, worker: usize, event: Event) {
        self.inbox.push_back(event);
        self.obey_and_wait(worker, Cause::Other);
    }

    /// A timer of the machine may be due, or another one instead of it.
    pub(super) fn timer_is_due(&mut self, worker: usize) {
        if self.workers[worker].timer != Some(self.now) {
            return;
        }
        self.workers[worker].timer = None;
        let now = self.moment();
        while let Some((_, timer)) = self.workers[worker]
            .machine
            .poll_timeout()
            .filter(|(due, _)| *due <= now)
        {
            let cause = match timer {
                Timer::Link(LinkTimer::Fetch) => Cause::Poll,
                Timer::Link(LinkTimer::Call(call)) => {
                    self.give_up(worker, call);
                    Cause::Other
                }
                Timer::Link(_) | Timer::Ending(_) | Timer::Worker(_) | Timer::Job(_) | Timer::Client(_) => Cause::Other,
            };
            self.workers[worker].machine.handle_timeout(now);
            self.obey(worker, cause);
            self.drain_inbox(worker);
        }
        self.wait(worker);
    }

    /// Carries out orders, and waits for the next timer.
    pub(super) fn obey_and_wait(&mut self, worker: usize, cause: Cause) {
        self.obey(worker, cause);
        self.drain_inbox(worker);
        self.wait(worker);
    }

    fn drain_inbox(&mut self, worker: usize) {
        let now = self.moment();
        while let Some(event) = self.inbox.pop_front() {
            let is_last = self.inbox.is_empty();
            self.workers[worker].machine.handle_one_of_several(event, now, is_last);
            self.obey(worker, Cause::Other);
        }
    }

    fn wait(&mut self, worker: usize) {
        let this = &mut self.workers[worker];
        let Some(due) = this.due() else { return };
        let due = due.max(self.now);
        if this.timer.is_none_or(|timer| due < timer) {
            this.timer = Some(due);
            self.at(due, Item::Timer(worker));
        }
    }

    fn obey(&mut self, worker: usize, cause: Cause) {
        while let Some(effect) = self.workers[worker].machine.poll_effect() {
            match effect {
                Effect::StartWorker { .. } | Effect::StartNext => self.start(worker),
                Effect::TakeOver(_) => {}
                Effect::CallBackend { id, call, .. } => self.send(worker, id, call, cause),
                Effect::AbandonCall(call) => {
                    self.give_up(worker, call);
                    let reply = Reply::Failed(Failure::Unanswered);
                    self.inbox.push_back(Event::BackendReplied(call, reply));
                }
                Effect::Notify(Notice::Link(LinkNotice::WokenUp)) => self.workers[worker].is_woken = true,
                Effect::Tell(_, ToWorker::Ping { id }) => {
                    self.inbox.push_back(Event::Said(HOLDER, FromWorker::Pong { id }));
                }
                Effect::Tell(_, ToWorker::Job(GivenJob { envelope, .. })) => {
                    self.run(worker, Backend::place(&envelope))
                }
                Effect::SignalWorker(_)
                | Effect::SignalProcess(..)
                | Effect::TerminateDescendants
                | Effect::KillDescendants
                | Effect::KillEverything
                | Effect::Tell(..)
                | Effect::AnswerPull { .. }
                | Effect::AnswerBeat { .. }
                | Effect::ReadToEnd(_)
                | Effect::Close(..)
                | Effect::Answer(..)
                | Effect::Show(..)
                | Effect::DropClient(_)
                | Effect::Notify(_)
                | Effect::WriteTerminationLog(_)
                | Effect::Exit(_) => {}
            }
        }
    }

    /// The worker's program starts, connects and requests all jobs that it may have.
    fn start(&mut self, worker: usize) {
        let ready = Ready {
            concurrency: self.conditions.concurrency,
            types: None,
            ping: true,
            ok: true,
            cancel_signal: false,
            client: None,
        };
        let manners = Manners {
            hears: true,
            answers_pings: true,
            frame_limit: None,
            answer_within: None,
        };
        self.inbox.push_back(Event::WorkerStarted {
            process: PROCESS,
            worker: WorkerId(format!("w{worker}").into()),
        });
        self.inbox.push_back(Event::HolderCame {
            holder: HOLDER,
            process: Some(PROCESS),
            manners,
        });
        self.inbox.push_back(Event::Said(HOLDER, FromWorker::Ready(ready)));
    }

    fn send(&mut self, worker: usize, id: CallId, call: Call, cause: Cause) {
        let is_fetch = matches!(call, Call::Fetch { .. });
        let this = &mut self.workers[worker];
        let is_woken = is_fetch && std::mem::take(&mut this.is_woken);
        self.account
            .sent(&call, if is_woken { Cause::WakeUp } else { cause }, self.now);
        this.requests.push(Request { id, call, reply: None });
        self.later(self.conditions.there(), Item::Arrives(worker, id));
    }

    /// The worker closes the connection of a request.
    fn give_up(&mut self, worker: usize, call: CallId) {
        let this = &mut self.workers[worker];
        let is_open = this.stream == Some(call);
        if is_open {
            this.stream = None;
        }
        let request = this.take(call);
        if is_open || matches!(&request, Some(request) if matches!(request.call, Call::Listen { .. })) {
            self.backend.hangs_up(worker, call);
        }
        if let Some(Reply::Fetched(deliveries)) = request.and_then(|request| request.reply) {
            for delivery in deliveries {
                let job = Backend::place(&delivery.envelope);
                self.account.lost += 1;
                self.later(self.options.visibility_timeout, Item::Lapses(job));
            }
        }
    }

    pub(super) fn answered(&mut self, worker: usize, call: CallId) {
        let Some(Request {
            call: request,
            reply: Some(reply),
            ..
        }) = self.workers[worker].take(call)
        else {
            return;
        };
        self.account.answered(&reply, self.now);
        let is_open = matches!(request, Call::Listen { .. }) && reply == Reply::Accepted;
        if is_open {
            self.workers[worker].stream = Some(call);
            self.tell(worker, Event::StreamSaid(call, StreamNews::Opened));
        } else {
            self.tell(worker, Event::BackendReplied(call, reply));
        }
    }

    /// An event of a stream has reached the worker.
    pub(super) fn tell_news(&mut self, worker: usize, call: CallId, job: usize, change: Change) {
        let is_open = self.workers[worker].stream == Some(call);
        if let Some(news) = self.backend.news(job, change).filter(|_| is_open) {
            self.tell(worker, Event::StreamSaid(call, news));
        }
    }

    /// The backend has ended a stream.
    pub(super) fn stream_is_cut(&mut self, worker: usize, call: CallId) {
        if self.workers[worker].stream == Some(call) {
            self.workers[worker].stream = None;
            let reply = Reply::Failed(Failure::Unanswered);
            self.tell(worker, Event::BackendReplied(call, reply));
        }
    }

    /// A handler begins with the job.
    fn run(&mut self, worker: usize, job: usize) {
        let begun = &mut self.backend.jobs[job];
        begun.runs += 1;
        self.account.picked_up(worker, begun.enqueued, self.now);
        self.later(self.conditions.handler, Item::Handled(worker, job));
        self.inbox.push_back(Event::OutboundEmptied(HOLDER));
    }

    pub(super) fn handled(&mut self, worker: usize, job: usize) {
        let job = self.backend.jobs[job].id.clone();
        self.tell(worker, Event::Said(HOLDER, FromWorker::Ack { job, result: None }));
    }
}
