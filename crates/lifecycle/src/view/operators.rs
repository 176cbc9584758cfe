//! The programs on the control socket: the request of each, its reply, and how long it may stay.

use std::time::Duration;

use crate::api::{
    CancelAnswer, ClientId, Disposition, Effect, EndingTimer, Force, Moment, OperatorAnswer, OperatorRequest, Phase,
    Reason, RecycleReason, ShownToOperator,
};
use crate::machine::Lifecycle;
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::phase::{Trigger, Verdict, verdict};
use crate::view::operator_state::Client;

/// From the connection of a client, or the last reply, to its next whole request. This is less than
/// a subcommand waits for its reply, so silent clients block others only briefly.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// As `ASK_WITHIN`, between two requests of a client that watches the status. Once a second is
/// enough for a person, and one request may be late.
const LOOK_WITHIN: Duration = Duration::from_secs(3);

/// Most clients that may wait at one time. The shell accepts more clients than this, so there is
/// always room for requests that change the phase.
const MOST_WAITING: usize = 8;

impl Lifecycle {
    pub(crate) fn operator_connected(&mut self, client: ClientId, now: Moment) {
        self.operators.clients.insert(client, Client::Silent);
        self.operators.timers.arm(client, now.after(ASK_WITHIN));
    }

    pub(crate) fn operator_left(&mut self, client: ClientId) {
        self.operators.clients.remove(&client);
        self.operators.timers.cancel(client);
    }

    pub(crate) fn operator_asked(&mut self, client: ClientId, request: OperatorRequest, now: Moment) {
        let (trigger, decide): (Trigger, fn(&mut Ending, &Context)) = match &request {
            OperatorRequest::Wait { until_idle, most } => return self.wait(client, *until_idle, *most, now),
            OperatorRequest::Status { until_end } => return self.show_status(client, *until_end, now),
            OperatorRequest::Health(probe) => {
                let health = self.health(*probe, now);
                return self.show(client, ShownToOperator::Health(*probe, health), Client::Answered, now);
            }
            OperatorRequest::Jobs => {
                let jobs = ShownToOperator::Jobs(Box::new(self.job_list(now)));
                return self.show(client, jobs, Client::Answered, now);
            }
            OperatorRequest::Cancel(job) => {
                let answer = ShownToOperator::Cancel(Box::new(self.operator_cancels(job, now)));
                return self.show(client, answer, Client::Answered, now);
            }
            OperatorRequest::Recycle => return self.operator_recycles(client, now),
            OperatorRequest::Quiet => (Trigger::Quiet, |ending, cx| ending.quiet(Reason::Control, cx)),
            OperatorRequest::Prestop => (Trigger::Quiet, Ending::prestop),
            OperatorRequest::Resume => (Trigger::Resume, |ending, cx| ending.resume(Reason::Control, cx)),
            OperatorRequest::Terminate => (Trigger::Terminate, |ending, cx| {
                ending.go(Trigger::Terminate, Reason::Control, cx);
            }),
            OperatorRequest::Stop => (Trigger::Force, |ending, cx| ending.force(Force::BY_OPERATOR, cx)),
        };
        let verdict = verdict(self.phase(), trigger);
        let urgency = |ending: &Ending| (ending.shutdown.clock.is_some(), ending.shutdown.skips_cancel_grace);
        let before = urgency(&self.ending);
        self.end(now, decide);
        let taken = match verdict {
            Verdict::Move(_) => Disposition::Done,
            // The clock started or the cancel grace ended, so something has changed although the
            // phase did not.
            Verdict::Stay(_) if before != urgency(&self.ending) => Disposition::Done,
            Verdict::Stay(why) if request == OperatorRequest::Resume && self.phase().is_terminating() => {
                Disposition::Refused(why)
            }
            // In terminate no jobs are accepted either, so a request for quiet has its effect
            // already.
            Verdict::Stay(_) => Disposition::Already,
        };
        self.answer(client, taken, now);
    }

    fn operator_recycles(&mut self, client: ClientId, now: Moment) {
        let is_under_way = self.workers.recycling.under_way().is_some();
        let taken = if self.phase().is_terminating() {
            Disposition::Refused("ojs-init ends, and starts no worker again")
        } else if self.workers(now, |workers, cx| workers.recycle(RecycleReason::Operator, cx)) {
            Disposition::Done
        } else if is_under_way {
            Disposition::Already
        } else {
            Disposition::Refused("the worker does not run at the moment")
        };
        self.answer(client, taken, now);
    }

    /// Cancels a job. In a drain the stop phase may come before the time of the handler ends.
    fn operator_cancels(&mut self, job: &str, now: Moment) -> CancelAnswer {
        let mut answer = self.jobs(now, |jobs, cx| jobs.operator_cancels(job, cx));
        if let CancelAnswer::Stops(stopping) = &mut answer {
            stopping.drain_left = match self.phase() {
                Phase::Delay | Phase::Drain => self.time_left(now),
                Phase::Running | Phase::Quiet | Phase::EndGame | Phase::Stop | Phase::Exited => None,
            };
        }
        answer
    }

    /// A preStop hook may hold up the orchestrator only for as long as a drain may take.
    fn wait(&mut self, client: ClientId, until_idle: bool, most: Duration, now: Moment) {
        if self.operators.waiting() >= MOST_WAITING {
            return self.answer(client, Disposition::Busy("8 others wait already"), now);
        }
        let latest = match self.phase() {
            Phase::Running | Phase::Quiet => self.ending.latest_deadline(&self.options, now),
            Phase::Delay | Phase::Drain | Phase::EndGame | Phase::Stop | Phase::Exited => {
                now.after(self.ending.time_to_deadline(now))
            }
        };
        self.operators.clients.insert(client, Client::Waiting { until_idle });
        self.operators.timers.arm(client, latest.min(now.after(most)));
    }

    /// Ends a wait whose time has passed, or drops a client that sent no request in time.
    pub(crate) fn client_is_due(&mut self, client: ClientId, now: Moment) {
        match self.operators.clients.get(&client) {
            Some(Client::Waiting { .. }) => self.answer(client, Disposition::Done, now),
            Some(Client::Silent | Client::Answered | Client::Watching) => {
                self.operators.clients.remove(&client);
                self.order(Effect::DropClient(client));
            }
            None => {}
        }
    }

    /// Answers every client whose wait has ended: no job is active, or ojs-init is about to exit.
    pub(crate) fn answer_waits(&mut self, now: Moment) {
        let is_ending = match self.phase() {
            Phase::Running | Phase::Quiet | Phase::Delay | Phase::Drain => false,
            Phase::EndGame | Phase::Stop | Phase::Exited => true,
        };
        let is_idle = self.is_idle();
        let is_over =
            |client: &Client| matches!(client, Client::Waiting { until_idle } if is_ending || is_idle && *until_idle);
        let over: Vec<ClientId> = self
            .operators
            .clients
            .iter()
            .filter(|(_, client)| is_over(client))
            .map(|(id, _)| *id)
            .collect();
        for client in over {
            self.answer(client, Disposition::Done, now);
        }
    }

    /// Shows the end to the clients that watch the status, because it ends them as well.
    pub(crate) fn show_end(&mut self, now: Moment) {
        let watches = |(id, client): (&ClientId, &Client)| (*client == Client::Watching).then_some(*id);
        let watching: Vec<ClientId> = self.operators.clients.iter().filter_map(watches).collect();
        for client in watching {
            self.show_status(client, true, now);
        }
    }

    fn show_status(&mut self, client: ClientId, until_end: bool, now: Moment) {
        let then = if until_end { Client::Watching } else { Client::Answered };
        let status = self.status(now);
        self.show(client, ShownToOperator::Status(Box::new(status)), then, now);
    }

    fn show(&mut self, client: ClientId, shown: ShownToOperator, then: Client, now: Moment) {
        self.order(Effect::Show(client, shown));
        let within = if then == Client::Watching {
            LOOK_WITHIN
        } else {
            ASK_WITHIN
        };
        self.operators.clients.insert(client, then);
        self.operators.timers.arm(client, now.after(within));
    }

    fn answer(&mut self, client: ClientId, taken: Disposition, now: Moment) {
        let answer = OperatorAnswer {
            taken,
            state: self.state(),
            phase: self.phase(),
            active: self.jobs.ledger.unfinished(),
            left: self.time_left(now),
        };
        self.order(Effect::Answer(client, answer));
        self.operators.clients.insert(client, Client::Answered);
        self.operators.timers.arm(client, now.after(ASK_WITHIN));
    }

    /// The time until jobs are cut off, in a drain and during the preStop hook before it; zero in
    /// the stop phase.
    pub fn drain_left(&self, now: Moment) -> Option<Duration> {
        self.ending.drain_left(&self.options, now)
    }

    /// See [`OperatorAnswer::left`].
    pub(super) fn time_left(&self, now: Moment) -> Option<Duration> {
        match self.phase() {
            Phase::Running | Phase::Quiet => self
                .ending
                .shutdown
                .clock
                .is_some()
                .then(|| self.ending.latest_deadline(&self.options, now).remaining(now)),
            Phase::Delay | Phase::Drain | Phase::EndGame | Phase::Stop | Phase::Exited => {
                let end = self
                    .ending
                    .timers
                    .deadline_of(EndingTimer::Deadline)
                    .or(self.ending.shutdown.exit_by());
                Some(end.map_or(Duration::ZERO, |end| end.remaining(now)))
            }
        }
    }
}
