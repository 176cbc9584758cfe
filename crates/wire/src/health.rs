//! Reasons why an instance is unhealthy, for probes over HTTP and `health` on the control socket.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::text::roughly;
use crate::trouble::sentence;
use ojs_lifecycle::api::{Health, Unhealthy};

/// Why the answer is no.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnhealthyReason {
    /// A word for programs.
    pub code: Cow<'static, str>,
    /// A sentence for people.
    pub message: String,
}

/// The troubles as a reply has them. `words` is the backend's last failure as in the log, or none
/// if the client must not see an address.
pub(crate) fn reasons(health: &Health, words: Option<&str>) -> Vec<UnhealthyReason> {
    let reasons = health.troubles.iter().map(|trouble| {
        let mut reason = reason(trouble);
        if let Unhealthy::NoHeartbeat | Unhealthy::HeartbeatsLost { .. } = trouble
            && let Some(backend) = &health.backend
        {
            reason.message.push_str(": ");
            reason.message.push_str(&sentence(backend, words));
        }
        reason
    });
    reasons.collect()
}

fn reason(trouble: &Unhealthy) -> UnhealthyReason {
    let (code, message) = match trouble {
        Unhealthy::Quiet => (
            "quiet",
            "no new jobs are taken: an operator, a preStop hook or the backend asked for quiet; `ojs-init status` says which"
                .to_owned(),
        ),
        Unhealthy::Terminate => ("terminate", "it is shutting down".to_owned()),
        Unhealthy::WorkerNotRunning => ("worker_not_running", "the worker's process does not run".to_owned()),
        Unhealthy::WorkerNotReady => (
            "worker_not_ready",
            "no connection of the worker has said ready".to_owned(),
        ),
        Unhealthy::NothingAskedFor => (
            "worker_not_ready",
            "the worker has not asked the gateway for jobs: it has to take its address from OJS_URL".to_owned(),
        ),
        Unhealthy::Recycling => (
            "recycling",
            "the worker is being recycled: it gets no jobs until its next process is ready".to_owned(),
        ),
        Unhealthy::WorkerPaused => (
            "worker_paused",
            "the worker asks for no jobs: a concurrency of 0".to_owned(),
        ),
        Unhealthy::WorkerDisconnected { since } => (
            "worker_disconnected",
            format!(
                "the worker runs, but none of its connections has taken jobs for {}",
                roughly(*since)
            ),
        ),
        Unhealthy::NoHeartbeat => (
            "no_heartbeat",
            "the backend has accepted no heartbeat of this worker yet".to_owned(),
        ),
        Unhealthy::NotRegistered => (
            "no_heartbeat",
            "the worker is not registered: that happens at its first request for jobs".to_owned(),
        ),
        Unhealthy::HeartbeatsLost { since, interval } => (
            "heartbeats_lost",
            format!(
                "the backend accepted the last heartbeat {} ago, more than three intervals of {}",
                roughly(*since),
                roughly(*interval)
            ),
        ),
    };
    UnhealthyReason {
        code: code.into(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use ojs_lifecycle::api::WorkerState;

    use super::*;

    #[test]
    fn a_worker_that_has_not_asked_the_gateway_is_told_of_the_gateway_and_not_of_the_socket() {
        let health = Health {
            state: WorkerState::Running,
            troubles: vec![Unhealthy::NothingAskedFor, Unhealthy::NotRegistered],
            backend: None,
        };
        let reasons = reasons(&health, None);
        let [worker, backend] = reasons.as_slice() else {
            panic!("{reasons:?}")
        };
        assert_eq!((&*worker.code, &*backend.code), ("worker_not_ready", "no_heartbeat"));
        assert!(
            worker.message.contains("gateway") && worker.message.contains("OJS_URL"),
            "{worker:?}"
        );
        assert!(backend.message.contains("first request for jobs"), "{backend:?}");
    }
}
