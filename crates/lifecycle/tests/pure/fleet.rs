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

/// Most FETCHes for each job where a stream ends at the first write after 30 s, as those of public
/// backends do: the streams of all workers, at one moment.
const MOST_FETCHES_WITH_STREAMS_THAT_END: f64 = 9.0;

/// The busiest worker of a small fleet has at most so many times the mean.
const MOST_OVER_MEAN: f64 = 2.0;

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

#[test]
fn streams_that_all_end_at_one_moment_wake_no_herd() {
    let conditions = Conditions {
        streams_last: Some(Duration::from_secs(30)),
        measured: Duration::from_secs(300),
        ..Conditions::usual(WORKERS, JOBS_A_SECOND / 4.0)
    };
    let account = live(&conditions, &settings::defaults());
    assert_eq!((account.wrong, account.lost), (0, 0));
    let fetches = account
        .for_each_job(account.woken_fetches + account.other_fetches)
        .unwrap();
    assert!(
        fetches <= MOST_FETCHES_WITH_STREAMS_THAT_END,
        "{fetches:.1} FETCHes for each job"
    );
    let idle = account.idle_requests_a_second();
    assert!(idle < 0.35, "{idle:.2} requests a second of each idle worker");
}

#[test]
fn a_few_workers_find_jobs_soon_whose_word_was_lost_with_the_stream() {
    for (workers, seed) in [1, 2, 3, 10]
        .into_iter()
        .flat_map(|workers| (2..=3).map(move |seed| (workers, seed)))
    {
        let conditions = Conditions {
            streams_last: Some(Duration::from_secs(30)),
            measured: Duration::from_secs(6_000),
            seed,
            ..Conditions::usual(workers, 0.025)
        };
        let account = live(&conditions, &settings::defaults());
        let (late, idle) = (account.pick_up(0.99).unwrap(), account.idle_requests_a_second());
        assert!(
            late < Duration::from_secs(1),
            "{workers} workers, seed {seed}: {late:?}"
        );
        assert!(
            idle < 0.35,
            "{workers} workers, seed {seed}: {idle:.2} requests a second of each"
        );
    }
}

#[test]
fn no_worker_of_a_small_fleet_believes_to_be_alone() {
    for (workers, seed) in [2, 3, 10]
        .into_iter()
        .flat_map(|workers| (1..=6).map(move |seed| (workers, seed)))
    {
        let conditions = Conditions {
            measured: Duration::from_secs(300),
            seed,
            ..Conditions::usual(workers, 1.0)
        };
        let busiest = live(&conditions, &settings::defaults()).busiest_over_mean().unwrap();
        assert!(
            busiest <= MOST_OVER_MEAN,
            "{workers} workers, seed {seed}: {busiest:.1} times the mean"
        );
    }
}
