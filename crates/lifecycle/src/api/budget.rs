//! How long the drain may be: the time between a request to stop and the stop phase.
//!
//! Three times compete: the grace period that the jobs need, the termination grace period after
//! which the orchestrator sends SIGKILL, and the margin for the work after the drain.

use std::time::Duration;

/// Reserved for the stop phase unless a margin is configured; see [`stop_margin`].
const DEFAULT_STOP_MARGIN: Duration = Duration::from_secs(5);

/// How long before the orchestrator's SIGKILL ojs-init exits, unless the limit is short; see
/// [`slack`].
const SLACK: Duration = Duration::from_millis(500);

/// From this limit on the slack is [`SLACK`]; for a shorter limit it is a tenth of the limit.
const LONG_LIMIT: Duration = Duration::from_secs(5);

/// The least slack: a few throttling periods of a CPU quota.
const LEAST_SLACK: Duration = Duration::from_millis(250);

/// The shortest limit that an orchestrator may have. Half of it is reserved for the stop phase, and
/// half of that is slack.
pub const LEAST_LIMIT: Duration = Duration::from_secs(1);

/// Up to this cancel grace the parts of the stop phase keep their proportions.
const USUAL_CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Assumed time between the end of the grace period and the orchestrator's SIGKILL if only the
/// grace period is known (GS 6.3 recommends this distance).
pub const ASSUMED_DISTANCE: Duration = Duration::from_secs(10);

/// The configured times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest drain.
    pub grace_period: Duration,
    /// Whether the grace period is configured rather than the default.
    pub grace_period_is_explicit: bool,
    /// The orchestrator's time from its first step to SIGKILL, if configured.
    pub termination_grace_period: Option<Duration>,
    /// Reserved for the stop phase, if configured.
    pub stop_margin: Option<Duration>,
    /// The time that a silent preStop hook uses up before the first signal.
    pub prestop_time: Duration,
}

/// The times that follow from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// From the first stop signal to the stop phase.
    pub drain: Duration,
    /// From the first stop signal to the orchestrator's SIGKILL, as far as ojs-init knows.
    pub limit: Duration,
    /// Whether the limit is the bound, not the grace period.
    pub is_cut: bool,
}

impl Budget {
    /// The budget of a plain init. None unless a grace period or a termination grace period is
    /// configured; without a budget ojs-init waits for ever, as a plain init should.
    pub fn of_plain_init(limits: &Limits) -> Option<Self> {
        if limits.termination_grace_period.is_none() && !limits.grace_period_is_explicit {
            return None;
        }
        let assumed = limits.grace_period.saturating_add(ASSUMED_DISTANCE);
        Some(Self::within(limits, limits.termination_grace_period.unwrap_or(assumed)))
    }

    /// Effective drain = min(grace period, limit - stop margin - time already used), never below 0.
    fn within(limits: &Limits, limit: Duration) -> Self {
        let margin = stop_margin(limits.stop_margin, limit);
        let limit = limit.saturating_sub(limits.prestop_time);
        let room = limit.saturating_sub(margin);
        Self {
            drain: limits.grace_period.min(room),
            limit,
            is_cut: room < limits.grace_period,
        }
    }
}

/// The source of the orchestrator's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitSource {
    Configured,
    /// Only the grace period is known. The limit is the grace period plus GS 6.3's distance.
    Assumed,
    /// ojs-init runs under Kubernetes; the limit is its default.
    Kubernetes,
    /// ojs-init runs in another container; the limit is Docker's default.
    Container,
    /// There is no limit.
    Nobody,
}

/// The environment of ojs-init, from which it guesses the orchestrator's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Surroundings {
    /// `KUBERNETES_SERVICE_HOST` is set.
    Kubernetes,
    /// ojs-init is PID 1, or there is a file that container engines leave.
    Container,
    /// ojs-init is a plain process.
    None,
}

/// Kubernetes' default of `terminationGracePeriodSeconds`.
const KUBERNETES_LIMIT: Duration = Duration::from_secs(30);

/// Docker's default of `--stop-timeout`.
const CONTAINER_LIMIT: Duration = Duration::from_secs(10);

/// The times of a shutdown with the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShutdownTimes {
    /// The longest drain.
    pub grace_period: Duration,
    /// From the start of the orchestrator's clock, as far as ojs-init can see it, to its SIGKILL.
    /// None if no orchestrator will send one.
    pub limit: Option<Duration>,
    /// Reserved for the stop phase.
    pub stop_margin: Duration,
    pub source: LimitSource,
}

impl ShutdownTimes {
    /// The times that follow from the configuration and the surroundings. A configured limit always
    /// counts. Otherwise the limit is derived from the grace period, or guessed.
    pub fn of_agent(limits: &Limits, surroundings: Surroundings) -> Self {
        let (limit, source) = match (limits.termination_grace_period, surroundings) {
            (Some(limit), _) => (Some(limit), LimitSource::Configured),
            (None, _) if limits.grace_period_is_explicit => (
                Some(limits.grace_period.saturating_add(ASSUMED_DISTANCE)),
                LimitSource::Assumed,
            ),
            (None, Surroundings::Kubernetes) => (Some(KUBERNETES_LIMIT), LimitSource::Kubernetes),
            (None, Surroundings::Container) => (Some(CONTAINER_LIMIT), LimitSource::Container),
            (None, Surroundings::None) => (None, LimitSource::Nobody),
        };
        let margin = limit.map_or_else(
            || limits.stop_margin.unwrap_or(DEFAULT_STOP_MARGIN).max(SLACK * 2),
            |limit| stop_margin(limits.stop_margin, limit),
        );
        Self {
            grace_period: limits.grace_period,
            limit: limit.map(|limit| limit.saturating_sub(limits.prestop_time)),
            stop_margin: margin,
            source,
        }
    }

    /// The drain after `elapsed` of the orchestrator's time:
    /// min(grace period, limit - stop margin - elapsed), never below 0.
    pub fn drain(&self, elapsed: Duration) -> Duration {
        self.limit.map_or(self.grace_period, |limit| {
            let room = limit.saturating_sub(self.stop_margin).saturating_sub(elapsed);
            self.grace_period.min(room)
        })
    }

    /// How long before the limit the stop phase ends. Without a SIGKILL it is the time before the
    /// end of the margin.
    pub fn slack(&self) -> Duration {
        self.limit.map_or(SLACK, slack)
    }

    /// The cancel grace in a stop phase that has all of its margin.
    pub fn cancel_grace(&self, configured: Duration) -> Duration {
        cancel_grace(configured, self.stop_margin.saturating_sub(self.slack()))
    }
}

/// How long before the orchestrator's SIGKILL ojs-init exits: 500 ms; for a limit under 5 s a tenth
/// of it, but at least 250 ms.
pub fn slack(limit: Duration) -> Duration {
    if limit < LONG_LIMIT {
        (limit / 10).max(LEAST_SLACK)
    } else {
        SLACK
    }
}

/// The part of `limit` for the stop phase: the configured time, or 5 s. It is at least twice the
/// slack, so that as much time is left for work, and at most half of the limit.
pub fn stop_margin(set: Option<Duration>, limit: Duration) -> Duration {
    let least = slack(limit).saturating_mul(2);
    set.unwrap_or(DEFAULT_STOP_MARGIN).max(least).min(limit / 2)
}

/// The cancel grace in a stop phase of `span`, without the slack: its usual share of the span, or
/// up to half of the span if the configured grace is longer than usual.
pub fn cancel_grace(configured: Duration, span: Duration) -> Duration {
    let most = if configured > USUAL_CANCEL_GRACE {
        span / 2
    } else {
        span * 10 / 45
    };
    configured.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNSET: Limits = Limits {
        grace_period: Duration::from_secs(30),
        grace_period_is_explicit: false,
        termination_grace_period: None,
        stop_margin: None,
        prestop_time: Duration::ZERO,
    };

    fn drain_seconds(limits: &Limits) -> Option<f64> {
        Budget::of_plain_init(limits).map(|budget| budget.drain.as_secs_f64())
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn a_plain_init_has_no_limit_unless_one_is_set() {
        assert_eq!(drain_seconds(&UNSET), None);
    }

    #[test]
    fn a_grace_period_alone_is_granted_in_full() {
        let limits = Limits {
            grace_period: Duration::from_secs(2),
            grace_period_is_explicit: true,
            ..UNSET
        };
        assert_eq!(drain_seconds(&limits), Some(2.0));
        assert!(!Budget::of_plain_init(&limits).unwrap().is_cut);
    }

    #[test]
    fn the_orchestrators_limit_cuts_the_grace_period() {
        assert_eq!(
            drain_seconds(&Limits {
                termination_grace_period: seconds(30),
                ..UNSET
            }),
            Some(25.0)
        );
        assert_eq!(
            drain_seconds(&Limits {
                termination_grace_period: seconds(60),
                ..UNSET
            }),
            Some(30.0)
        );
    }

    #[test]
    fn a_margin_that_was_not_set_takes_at_most_half_of_the_limit() {
        assert_eq!(
            drain_seconds(&Limits {
                termination_grace_period: seconds(6),
                ..UNSET
            }),
            Some(3.0)
        );
    }

    #[test]
    fn time_that_a_prestop_hook_used_is_gone() {
        let limits = Limits {
            termination_grace_period: seconds(30),
            prestop_time: Duration::from_secs(5),
            ..UNSET
        };
        assert_eq!(drain_seconds(&limits), Some(20.0));
    }

    #[test]
    fn the_agents_drain_is_25_s_under_kubernetes_5_s_under_docker_and_30_s_elsewhere() {
        let drain = |surroundings| ShutdownTimes::of_agent(&UNSET, surroundings).drain(Duration::ZERO);
        assert_eq!(drain(Surroundings::Kubernetes), Duration::from_secs(25));
        assert_eq!(drain(Surroundings::Container), Duration::from_secs(5));
        assert_eq!(drain(Surroundings::None), Duration::from_secs(30));
    }

    #[test]
    fn with_the_agent_a_grace_period_alone_assumes_ten_more_seconds_and_a_limit_always_counts() {
        let explicit = Limits {
            grace_period_is_explicit: true,
            ..UNSET
        };
        let times = ShutdownTimes::of_agent(&explicit, Surroundings::Container);
        assert_eq!((times.limit, times.source), (seconds(40), LimitSource::Assumed));
        let both = Limits {
            termination_grace_period: seconds(20),
            ..explicit
        };
        let times = ShutdownTimes::of_agent(&both, Surroundings::Kubernetes);
        assert_eq!((times.limit, times.source), (seconds(20), LimitSource::Configured));
        assert_eq!(times.drain(Duration::from_secs(4)), Duration::from_secs(11));
    }

    #[test]
    fn half_of_any_margin_is_at_least_the_slack_and_the_drain_at_least_half_of_the_limit() {
        for limit in [1_000, 1_500, 2_000, 2_600, 4_999, 5_000, 30_000].map(Duration::from_millis) {
            for set in [0, 50, 499, 20_000]
                .map(|ms| Some(Duration::from_millis(ms)))
                .into_iter()
                .chain([None])
            {
                let margin = stop_margin(set, limit);
                assert!(
                    margin / 2 >= slack(limit) && margin <= limit / 2,
                    "{limit:?} {set:?}: {margin:?}"
                );
            }
        }
        let unlimited = Limits {
            stop_margin: Some(Duration::ZERO),
            ..UNSET
        };
        let times = ShutdownTimes::of_agent(&unlimited, Surroundings::None);
        assert_eq!((times.stop_margin, times.slack()), (Duration::from_secs(1), SLACK));
    }

    #[test]
    fn the_drain_is_never_below_zero() {
        let limits = Limits {
            termination_grace_period: seconds(6),
            stop_margin: seconds(3),
            prestop_time: Duration::from_secs(9),
            ..UNSET
        };
        assert_eq!(drain_seconds(&limits), Some(0.0));
    }
}
