//! The cost of an event does not depend on the number of jobs. Each test does the same with 100
//! jobs and with 10,000 and compares the processor's time for one event. A walk over all jobs or
//! all holders after each event would make it 100 times as much. Longer lists and colder caches
//! make it somewhat more in any case.
//!
//! `COSTS=1 cargo test --test pure costs -- --nocapture --test-threads 1` shows the figures, with
//! 10 and with 1,000 as well.

mod crowd;

use std::time::Duration;

use crowd::{Crowd, Weather};
use nix::time::{ClockId, clock_gettime};
use ojs_lifecycle::api::ids::{ClientId, HolderId};
use ojs_lifecycle::api::{Call, Event, FromWorker, OperatorRequest};
use ojs_values::signal::Signal;

/// Most times that the cost of an event may grow with 100 times as many jobs.
const MOST_TIMES: f64 = 8.0;

/// Runs of which the best counts: other work of the computer makes the others longer.
const RUNS: usize = 3;

/// The processor's time that this thread has had.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// Time for one event, in nanoseconds: the best of a few runs, each of them long enough to be
/// measured.
fn per_event(jobs: usize, prepare: impl Fn(usize) -> Crowd, act: impl Fn(&mut Crowd)) -> f64 {
    let once = || {
        let (mut events, mut spent) = (0, Duration::ZERO);
        // The preparation lasts longer than the measured part.
        while events < 1000 {
            let mut crowd = prepare(jobs);
            crowd.events = 0;
            let before = cpu();
            act(&mut crowd);
            spent += cpu() - before;
            events += crowd.events;
            assert_eq!(crowd.machine.invariants(), Ok(()));
        }
        spent.as_secs_f64() * 1e9 / f64::from(u32::try_from(events).unwrap())
    };
    (0..RUNS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn costs_the_same(what: &str, prepare: impl Fn(usize) -> Crowd, act: impl Fn(&mut Crowd)) {
    let is_shown = std::env::var_os("COSTS").is_some();
    let sizes: &[usize] = if is_shown {
        &[10, 100, 1000, 10_000]
    } else {
        &[100, 10_000]
    };
    let costs: Vec<(usize, f64)> = sizes
        .iter()
        .map(|jobs| (*jobs, per_event(*jobs, &prepare, &act)))
        .collect();
    for (jobs, cost) in &costs {
        println!("{what}: {jobs} jobs: {:.2} us an event", cost / 1000.0);
    }
    let of = |jobs| costs.iter().find(|(size, _)| *size == jobs).unwrap().1;
    let times = of(10_000) / of(100);
    assert!(times <= MOST_TIMES, "{what}: {times:.1} times as much");
}

/// One job after the other is finished and reported, and the next one fetched and handed over.
fn a_thousand_jobs(crowd: &mut Crowd) {
    for _ in 0..1000 {
        crowd.offered += 1;
        crowd.ack_oldest();
        crowd.answer_all();
        assert_eq!(crowd.offered, 0);
    }
}

#[test]
fn a_job_that_is_finished_and_the_next_one_cost_the_same_beside_ten_thousand() {
    costs_the_same("the next job", |jobs| Crowd::full(1, jobs), a_thousand_jobs);
}

#[test]
fn the_same_where_each_job_has_a_holder_of_its_own() {
    costs_the_same("the next job of a holder", |jobs| Crowd::full(jobs, 1), a_thousand_jobs);
}

#[test]
fn jobs_that_are_through_in_one_moment_are_followed_by_one_fetch_for_all_of_them() {
    let mut crowd = Crowd::full(10, 1);
    for _ in 0..10 {
        crowd.ack_oldest();
    }
    let replies = crowd.replies_of_all();
    crowd.tell_all(replies);
    let fetches = crowd.asked.iter().filter_map(|(_, call)| {
        if let Call::Fetch { count, .. } = call {
            Some(*count)
        } else {
            None
        }
    });
    assert_eq!(fetches.collect::<Vec<_>>(), [10]);
}

#[test]
fn who_waits_until_no_job_is_left_waits_for_the_fetch_that_the_last_ones_bring() {
    let mut crowd = Crowd::full(10, 1);
    crowd.tell(Event::OperatorConnected(ClientId(1)));
    let most = Duration::from_secs(60);
    crowd.tell(Event::OperatorAsked(
        ClientId(1),
        OperatorRequest::Wait { until_idle: true, most },
    ));
    for _ in 0..10 {
        crowd.ack_oldest();
    }
    // The last one leaves none, and other events of that moment follow.
    let mut replies = crowd.replies_of_all();
    replies.push(Event::OperatorLeft(ClientId(2)));
    crowd.tell_all(replies);
    assert_eq!((crowd.asked.len(), crowd.answered), (1, 0));
}

#[test]
fn a_fetch_that_brings_all_jobs_for_one_holder_costs_the_same_for_each() {
    let prepare = |jobs| {
        let mut crowd = Crowd::new(1, jobs);
        crowd.offered = jobs;
        crowd
    };
    costs_the_same("jobs of one FETCH", prepare, |crowd| {
        crowd.until(|crowd| crowd.offered == 0 && crowd.asked.is_empty());
    });
}

#[test]
fn a_fetch_that_brings_a_job_for_each_holder_costs_the_same_for_each() {
    let prepare = |jobs| {
        let mut crowd = Crowd::new(jobs, 1);
        crowd.offered = jobs;
        crowd
    };
    costs_the_same("jobs of one FETCH, a holder each", prepare, |crowd| {
        crowd.until(|crowd| crowd.offered == 0 && crowd.asked.is_empty());
    });
}

/// Every job is done and the backend has been away since.
fn all_are_done_in_an_outage(jobs: usize) -> Crowd {
    let mut crowd = Crowd::full(1, jobs);
    crowd.weather = Weather::Away;
    for _ in 0..jobs {
        crowd.ack_oldest();
        crowd.answer_all();
    }
    let begun = crowd.now;
    crowd.until(|crowd| begun.elapsed(crowd.now) > Duration::from_secs(60));
    crowd
}

#[test]
fn the_end_of_an_outage_costs_the_same_for_each_outcome_that_it_held_up() {
    costs_the_same("an outcome after an outage", all_are_done_in_an_outage, |crowd| {
        let before = crowd.told;
        let jobs = crowd.machine.snapshot().reporting;
        crowd.weather = Weather::Fair;
        crowd.until(|crowd| crowd.told - before == jobs);
    });
}

#[test]
fn an_outage_costs_the_same_for_each_attempt() {
    costs_the_same("an attempt in an outage", all_are_done_in_an_outage, |crowd| {
        let before = crowd.events;
        crowd.until(|crowd| crowd.events - before > 2000);
    });
}

#[test]
fn holders_that_come_cost_the_same_for_each() {
    costs_the_same("a holder comes", Crowd::alone, |crowd| {
        crowd.holders_come(crowd.room, 1)
    });
}

#[test]
fn holders_that_leave_with_their_jobs_cost_the_same_for_each() {
    let jobs_of = |jobs| Crowd::full(jobs, 1);
    costs_the_same("a holder leaves", jobs_of, |crowd| {
        while let Some((holder, _)) = crowd.held.pop_front() {
            crowd.tell(Event::HungUp(holder));
        }
    });
}

#[test]
fn checkpoints_and_progress_cost_the_same_for_each_job() {
    costs_the_same(
        "a checkpoint",
        |jobs| Crowd::full(1, jobs),
        |crowd| {
            for (holder, job) in crowd.held.clone().into_iter().take(1000) {
                let state = "{}".into();
                crowd.tell(Event::Said(holder, FromWorker::Checkpoint { job, state }));
            }
            crowd.answer_all();
        },
    );
}

#[test]
fn a_drain_costs_the_same_for_each_job() {
    costs_the_same(
        "a job in a drain",
        |jobs| Crowd::full(1, jobs),
        |crowd| {
            crowd.tell(Event::SignalArrived(Signal::TERM));
            crowd.answer_all();
            for _ in 0..crowd.held.len().min(5000) {
                crowd.ack_oldest();
                crowd.answer_all();
            }
        },
    );
}

#[test]
fn a_holder_that_is_ready_again_and_again_costs_the_same() {
    costs_the_same(
        "ready",
        |jobs| Crowd::full(jobs, 1),
        |crowd| {
            for number in 0..1000 {
                let ready = ojs_lifecycle::api::Ready {
                    concurrency: number % 3,
                    types: None,
                    ping: false,
                    ok: true,
                    cancel_signal: false,
                    client: None,
                };
                crowd.tell(Event::Said(HolderId(1), FromWorker::Ready(ready)));
            }
        },
    );
}
