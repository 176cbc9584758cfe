//! Cancels of an operator, in every state of a job.

use ojs_lifecycle::api::{ClientId, Event, JobId, Leftovers, OperatorRequest};

use super::world::{Action, Budget, Kin, World};
use super::{NOTHING, behind_the_gateway, options, small_world, world};

/// A client that asks and disconnects with its answer.
const CLIENT: ClientId = ClientId(2);

impl World {
    pub fn cancels(&self, actions: &mut Vec<Action>) {
        if self.left.cancels > 0 {
            actions.extend(self.jobs.keys().cloned().map(Action::OperatorCancels));
        }
    }

    pub fn operator_cancels(&mut self, job: &JobId) {
        self.left.cancels -= 1;
        self.happen(Event::OperatorAsked(CLIENT, OperatorRequest::Cancel(job.0.clone())));
        self.happen(Event::OperatorLeft(CLIENT));
    }
}

const ONE_JOB: Budget = Budget {
    sigterm: 1,
    cancels: 2,
    jobs: 1,
    waits: 2,
    ..NOTHING
};

#[test]
fn a_job_that_an_operator_cancels_twice_fails_or_is_answered() {
    small_world("one job, two cancels", options(1), ONE_JOB, 1, 1);
}

#[test]
fn jobs_that_an_operator_cancels_are_given_back_where_that_is_configured() {
    let mut options = options(2);
    options.leftovers = Leftovers::Requeue;
    let budget = Budget {
        cancels: 1,
        jobs: 2,
        deaths: 1,
        ..ONE_JOB
    };
    world("two jobs that go back, a cancel, a death", options, budget, 1, 2);
}

#[test]
fn a_job_of_an_sdk_that_an_operator_cancels_goes_on() {
    let budget = Budget { pulls: 1, ..ONE_JOB };
    behind_the_gateway("one that waits for answers, two cancels", budget, 1, Kin::Gateway);
}
