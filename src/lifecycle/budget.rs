//! How long the drain may be: the time between a request to stop and the moment from which on things are forced.
//!
//! Three numbers compete: the grace period that the jobs need, the termination grace period after which the
//! orchestrator sends SIGKILL, and the margin that has to be left for what comes after the drain.

use std::time::Duration;

/// Kept back for the stop phase unless it is configured; see [`stop_margin`].
const DEFAULT_STOP_MARGIN: Duration = Duration::from_secs(5);

/// Assumed between the end of the grace period and the orchestrator's SIGKILL when only the grace period is known
/// (GS 6.3 recommends this distance).
pub const ASSUMED_DISTANCE: Duration = Duration::from_secs(10);

/// What was configured.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest drain.
    pub grace_period: Duration,
    /// Whether somebody set it, or it is the default.
    pub grace_period_is_explicit: bool,
    /// What the orchestrator allows from its first step to SIGKILL, when that was set.
    pub termination_grace_period: Option<Duration>,
    /// Kept back for the stop phase, when that was set.
    pub stop_margin: Option<Duration>,
    /// What a preStop hook that tells us nothing has used up before the first signal.
    pub prestop_time: Duration,
}

/// What follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// From the first stop signal to the moment from which on things are forced.
    pub drain: Duration,
    /// From the first stop signal to the orchestrator's SIGKILL, as far as we know.
    pub limit: Duration,
    /// Whether the limit, not the grace period, decided.
    pub is_cut: bool,
}

impl Budget {
    /// The budget of a plain init: none unless a grace period or a termination grace period was set explicitly; then
    /// it waits for ever, as a plain init should.
    #[must_use]
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

/// What is kept back of `limit` for the stop phase: what was set, else 5 s, at most half of the limit.
#[must_use]
pub fn stop_margin(set: Option<Duration>, limit: Duration) -> Duration {
    set.unwrap_or_else(|| DEFAULT_STOP_MARGIN.min(limit / 2))
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
