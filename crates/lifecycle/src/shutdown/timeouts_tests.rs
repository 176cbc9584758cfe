use super::*;
use crate::api::{Limits, ShutdownTimes, Surroundings, slack};

/// Limits of orchestrators, in seconds: from the least that is accepted on.
const LIMITS: [u64; 8] = [1, 2, 3, 5, 8, 10, 30, 90];

/// The times with this margin, for a job that does not end.
fn times(limit: Duration, margin: Option<Duration>) -> ShutdownTimes {
    let limits = Limits {
        grace_period: Duration::from_secs(3600),
        grace_period_is_explicit: false,
        termination_grace_period: Some(limit),
        stop_margin: margin,
        prestop_time: Duration::ZERO,
    };
    ShutdownTimes::of_agent(&limits, Surroundings::None)
}

/// From nothing at all to the most that is accepted.
fn margins(limit: Duration) -> [Option<Duration>; 5] {
    let [none, tiny, small] = [0, 50, 200].map(|ms| Some(Duration::from_millis(ms)));
    [None, none, tiny, small, Some(limit / 2)]
}

fn each_plan(mut check: impl FnMut(Duration, &ShutdownTimes, StopPlan)) {
    let start = Moment::new(Duration::ZERO);
    for limit in LIMITS.map(Duration::from_secs) {
        for margin in margins(limit) {
            let times = times(limit, margin);
            let begin = start.after(times.drain(Duration::ZERO));
            for grace in [0, 300, 1000, 4000].map(Duration::from_millis) {
                check(limit, &times, StopPlan::new(&times, grace, begin, start.after(limit)));
            }
        }
    }
}

#[test]
fn the_stop_phase_is_over_by_the_slack_before_the_limit_whatever_the_margin() {
    let start = Moment::new(Duration::ZERO);
    each_plan(|limit, times, plan| {
        let end = start.elapsed(plan.deregister);
        assert!(end <= limit - slack(limit), "{times:?}: {end:?}");
        assert!(slack(limit) >= Duration::from_millis(250));
    });
}

#[test]
fn each_step_has_some_time_whatever_the_margin() {
    let start = Moment::new(Duration::ZERO);
    each_plan(|limit, times, plan| {
        let begin = start.after(times.drain(Duration::ZERO));
        let steps = [
            begin,
            plan.cancel,
            plan.kill,
            plan.report,
            plan.heartbeat,
            plan.deregister,
        ];
        for (step, pair) in steps.windows(2).enumerate() {
            let has = pair[1].remaining(pair[0]);
            // A cancel grace of zero is meant.
            assert!(
                step == 0 || has >= Duration::from_millis(10),
                "{limit:?} {times:?}: {step} {has:?}"
            );
        }
        assert!(times.drain(Duration::ZERO) >= limit / 2, "{times:?}");
    });
}

#[test]
fn with_the_usual_margin_each_step_ends_as_it_is_written_and_with_others_in_proportion() {
    let start = Moment::new(Duration::ZERO);
    let ends = |limit: u64, margin: u64| {
        let times = times(Duration::from_millis(limit), Some(Duration::from_millis(margin)));
        let begin = start.after(times.drain(Duration::ZERO));
        let plan = StopPlan::new(
            &times,
            Duration::from_secs(1),
            begin,
            start.after(Duration::from_millis(limit)),
        );
        [plan.cancel, plan.kill, plan.report, plan.heartbeat, plan.deregister]
            .map(|end| end.remaining(begin).as_millis())
    };
    assert_eq!(ends(30_000, 5_000), [1_000, 1_500, 3_500, 4_000, 4_500]);
    assert_eq!(ends(10_000, 5_000), [1_000, 1_500, 3_500, 4_000, 4_500]);
    assert_eq!(ends(30_000, 2_750), [500, 750, 1_750, 2_000, 2_250]);
    assert_eq!(ends(3_000, 1_500), [266, 399, 933, 1_066, 1_200]);
}
