//! A fleet of a hundred workers: each job is done once, and costs no more FETCHes than it may.
//! `make fleet` prints the figures of larger ones.

use std::time::Duration;

use crate::fleet_model::{Conditions, Streams, live};
use crate::script::settings;

/// Workers of the fleet.
const WORKERS: usize = 100;

/// Jobs enqueued in a second.
const JOBS_A_SECOND: f64 = 2.0;

/// Most FETCHes for each job. With streams each worker asks for each job, and between two jobs some
/// of them poll.
const MOST_FETCHES_FOR_A_JOB: f64 = 130.0;

#[test]
fn each_job_of_a_fleet_is_done_once_and_costs_no_more_fetches_than_it_may() {
    for streams in [Streams::OfEachQueue, Streams::OfAllTogether, Streams::Missing] {
        let conditions = Conditions {
            streams,
            warm_up: Duration::from_secs(4),
            measured: Duration::from_secs(30),
            ..Conditions::usual(WORKERS, JOBS_A_SECOND)
        };
        let account = live(&conditions, &settings::defaults());
        assert!(account.jobs > 30, "{streams:?}: {} jobs", account.jobs);
        assert_eq!((account.wrong, account.lost), (0, 0), "{streams:?}");
        let fetches = account.for_each_job(account.fetches()).unwrap();
        assert!(
            fetches <= MOST_FETCHES_FOR_A_JOB,
            "{streams:?}: {fetches:.1} FETCHes for each job"
        );
    }
}
