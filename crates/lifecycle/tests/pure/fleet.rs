//! A fleet of a hundred workers: each job is done once, and within the allowed number of FETCHes.
//! `make fleet` prints the figures of larger ones.

use std::time::Duration;

use crate::fleet_model::{Conditions, Streams, live};
use crate::script::settings;

/// Workers of the fleet.
const WORKERS: usize = 100;

/// Jobs enqueued in a second.
const JOBS_A_SECOND: f64 = 2.0;

/// Most FETCHes for each job, by the news of the backend's streams: when each job is available and
/// when it is claimed; only that some job is available; none. In the last two cases every worker
/// polls each second.
const MOST_FETCHES_FOR_A_JOB: [(Streams, f64); 3] = [
    (Streams::OfEachQueue, 4.0),
    (Streams::OfAllTogether, 70.0),
    (Streams::Missing, 75.0),
];

#[test]
fn each_job_of_a_fleet_is_done_once_and_costs_no_more_fetches_than_it_may() {
    for (streams, most) in MOST_FETCHES_FOR_A_JOB {
        let conditions = Conditions {
            streams,
            measured: Duration::from_secs(30),
            ..Conditions::usual(WORKERS, JOBS_A_SECOND)
        };
        let account = live(&conditions, &settings::defaults());
        assert!(account.jobs > 30, "{streams:?}: {} jobs", account.jobs);
        assert_eq!((account.wrong, account.lost), (0, 0), "{streams:?}");
        let fetches = account.for_each_job(account.fetches()).unwrap();
        assert!(fetches <= most, "{streams:?}: {fetches:.1} FETCHes for each job");
    }
}
