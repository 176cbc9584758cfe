//! Choices: the possible next events in a world.

use ojs_lifecycle::api::{BackendTraits, Call, Failure, JobId, JobState, JobView, Phase, Reply, Reservation};
use ojs_values::signal::Signal;

use super::promises::{Fate, Kind};
use super::world::{Action, Answer, World};

impl World {
    /// All possible next events.
    pub fn actions(&self) -> Vec<Action> {
        if self.exited.is_some() || self.broken.is_some() {
            return Vec::new();
        }
        let phase = self.machine.snapshot().phase;
        let mut actions = Vec::new();
        if self.machine.poll_timeout().is_some() && (phase.is_terminating() || self.left.waits > 0) {
            actions.push(Action::TimeComesToTheNextTimer);
        }
        let signals = [
            (self.left.sigterm, Signal::TERM),
            (self.left.sigtstp, Signal::TSTP),
            (self.left.sigcont, Signal::CONT),
        ];
        actions.extend(
            signals
                .into_iter()
                .filter(|(left, _)| *left > 0)
                .map(|(_, signal)| Action::Signal(signal)),
        );
        if self.left.terminate > 0 {
            actions.push(Action::OperatorTerminates);
        }
        self.cancels(&mut actions);
        for (id, call, _) in &self.asked {
            actions.extend(self.answers(call).into_iter().map(|answer| Action::Answer(*id, answer)));
        }
        self.acts_of_workers(&mut actions);
        self.news_of_streams(&mut actions);
        if self.start_is_ordered {
            actions.push(Action::Starts);
        }
        actions
    }

    fn answers(&self, call: &Call) -> Vec<Answer> {
        let mut answers = match call {
            Call::Fetch { count, .. } => {
                let most = u8::try_from(*count)
                    .unwrap_or(u8::MAX)
                    .saturating_add(self.left.surplus);
                let mut answers: Vec<Answer> = (1..=most.min(self.left.jobs)).map(Answer::Jobs).collect();
                if self.machine.snapshot().phase != Phase::Running || self.left.waits > 0 {
                    answers.push(Answer::Jobs(0));
                }
                answers
            }
            Call::GetJob { .. } => vec![Answer::StillOurs, Answer::NoLongerOurs],
            Call::Register { .. }
            | Call::Heartbeat { .. }
            | Call::Report { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. }
            | Call::Deregister { .. } => vec![Answer::Good],
        };
        if self.left.failures > 0 && !matches!(call, Call::Heartbeat { .. } | Call::Manifest | Call::Deregister { .. })
        {
            answers.push(Answer::Fails(Failure::NotSent));
            answers.push(Answer::Fails(Failure::Unanswered));
            if matches!(call, Call::Report { .. }) {
                answers.push(Answer::Fails(Failure::Lost));
                answers.push(Answer::Fails(Failure::Refused));
            }
        }
        answers
    }

    fn acts_of_workers(&self, actions: &mut Vec<Action>) {
        for (connection, link) in self.links.iter().filter(|(_, link)| !link.is_over) {
            // The shell can still read frames of a process that has ended; then the connection
            // ends.
            if self.is_gateway() {
                self.acts_of_a_gateway(*connection, actions);
            }
            let is_told = |fate: &Fate| fate.is_held_by(*connection) && !self.is_gateway();
            for (job, _) in self.jobs.iter().filter(|(_, fate)| is_told(fate)) {
                for kind in [Kind::Ack, Kind::Fail, Kind::Requeue] {
                    actions.push(Action::Worker(*connection, job.clone(), kind));
                }
            }
            let asks = self.pulls.values().any(|(holder, _)| holder == connection);
            if self.left.pulls > 0 && !asks && self.is_pulling() && !link.is_awaited {
                actions.push(Action::Wants(*connection));
            }
            if link.is_awaited || self.left.hang_ups > 0 {
                actions.push(Action::HangsUp(*connection));
            }
        }
        for (process, state) in self.processes.iter().filter(|(_, state)| state.is_alive) {
            if state.may_end || self.left.deaths > 0 {
                actions.push(Action::Ends(*process));
            }
        }
    }
}

/// The answer to a look.
pub fn looked(state: JobState) -> Reply {
    Reply::JobSeen(JobView {
        state,
        worker: None,
        reservation: Reservation::default(),
    })
}

/// The answer of a backend that carries the request out. A stream ends.
pub fn good(call: &Call) -> Reply {
    match call {
        Call::Register { .. } => Reply::Registered {
            heartbeat_interval: None,
            longest_interval: None,
        },
        Call::Manifest => Reply::Manifest(BackendTraits::default()),
        Call::Heartbeat { active, .. } => beaten(active),
        Call::Listen { .. } => Reply::Failed(Failure::Unanswered),
        Call::Fetch { .. }
        | Call::Report { .. }
        | Call::GetJob { .. }
        | Call::Progress { .. }
        | Call::Checkpoint { .. }
        | Call::Deregister { .. } => Reply::Accepted,
    }
}

/// A heartbeat is accepted, asks for nothing, and extends these jobs.
pub fn beaten(active: &[JobId]) -> Reply {
    Reply::HeartbeatOk {
        directive: None,
        extended: Some(active.to_vec()),
    }
}
