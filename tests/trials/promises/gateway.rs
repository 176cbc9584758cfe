//! The promises that hold besides where the init is the gateway of a worker that is made with an
//! SDK.

use std::collections::BTreeSet;

use ojs_devserver::Event;

use super::{Judge, Verdict, broken};
use crate::course::is_ours;

impl Judge<'_> {
    /// SDKs have ids of all kinds, or none. The backend hears of one worker all the same, in each
    /// request that names one.
    pub(super) fn one_worker_upstream(&self) -> Verdict {
        const PROMISE: &str = "the backend knows one worker";
        if !self.plan.behaviour.is_sdk() {
            return Vec::new();
        }
        let requests = || self.requests.iter().filter(|event| is_ours(event.worker.as_deref()));
        let named: BTreeSet<&str> = requests().filter_map(|event| event.worker.as_deref()).collect();
        // A request that was not read, or not carried out, tells whom it named as well.
        let is_nameless = |event: &&&Event| {
            let names = ["fetch", "heartbeat"].contains(&event.operation);
            names && event.status == Some(200) && event.fault.is_none() && event.worker.is_none()
        };
        let nameless = requests().filter(is_nameless).count();
        if named.len() <= 1 && nameless == 0 {
            return Vec::new();
        }
        broken(PROMISE, format!("{named:?}, and {nameless} requests without one"))
    }
}
