//! Requests to the backend, and its answers.

use ojs_lifecycle::api::ids::{CallId, JobId};
use ojs_lifecycle::api::{Call, Delivery, Event, Failure, JobState, Moment, Phase, Reply, Reservation, Subject};

use super::choices::{beaten, good, looked};
use super::promises::Fate;
use super::world::{Answer, World};

impl World {
    pub fn answer(&mut self, id: CallId, answer: Answer) {
        let Some(call) = self.take_asked(id) else { return };
        self.note_answer(&call, answer);
        let reply = match answer {
            Answer::Jobs(number) => Reply::Fetched((0..number).map(|_| self.deliver()).collect()),
            Answer::Fails(failure) => {
                self.left.failures -= 1;
                Reply::Failed(failure)
            }
            Answer::StillOurs => looked(JobState::Active),
            Answer::NoLongerOurs => looked(JobState::Elsewhere),
            Answer::Good => good(&call),
        };
        let is_unanswered = reply == Reply::Failed(Failure::Unanswered);
        self.is_fetch_failing = is_unanswered && matches!(call, Call::Fetch { .. });
        self.happen(Event::BackendReplied(id, reply));
        self.is_fetch_failing = false;
    }

    fn deliver(&mut self) -> Delivery {
        let id = JobId(format!("job-{}", self.jobs.len() + 1).into());
        self.left.jobs -= 1;
        let fate = Fate {
            is_let_go: self.is_fetch_given_up,
            ..Fate::default()
        };
        self.jobs.insert(id.clone(), fate);
        Delivery {
            has_crashed: false,
            envelope: id.0.clone().into(),
            subject: Subject {
                id,
                kind: "mail".into(),
                queue: "default".into(),
                attempt: None,
                max_attempts: None,
                trace: None,
            }
            .into(),
            checkpoint: None,
            timeout: None,
            reservation: Reservation::default(),
            visibility: None,
            waited: None,
        }
    }

    /// The machine waits for no answer any more, or the answer arrives now.
    pub fn abandoned(&mut self, id: CallId) {
        let Some(call) = self.take_asked(id) else { return };
        self.note_answer(&call, Answer::Fails(Failure::Unanswered));
        let nothing = Reply::Failed(Failure::Unanswered);
        self.machine.handle(Event::BackendReplied(id, nothing), self.now);
    }

    fn take_asked(&mut self, id: CallId) -> Option<Call> {
        let position = self.asked.iter().position(|(asked, ..)| *asked == id)?;
        Some(self.asked.remove(position).1)
    }

    pub fn asked_for(&mut self, id: CallId, call: &Call, give_up: Moment) {
        self.check_call(call, give_up);
        // Heartbeats are answered at once while that makes no difference; the last one may hang.
        let is_late = matches!(self.machine.snapshot().phase, Phase::EndGame | Phase::Stop);
        if let Call::Heartbeat { active, .. } = call
            && !is_late
        {
            self.machine.handle(Event::BackendReplied(id, beaten(active)), self.now);
        } else {
            self.asked.push((id, call.clone(), give_up));
        }
    }
}
