//! The views on the control socket, each as one line.

use std::time::Duration;

use crate::operator::status_line::{self, InstanceInfo};
use crate::operator::{cancel_reply, jobs_reply};
use ojs_lifecycle::api::ShownToOperator;

/// The reply on the control socket, as a line with its `\n`. `up` is the time since ojs-init
/// started.
pub fn encode(shown: &ShownToOperator, facts: &InstanceInfo, up: Duration, log_records_dropped: u64) -> Vec<u8> {
    match shown {
        ShownToOperator::Status(status) => status_line::encode_status(status, facts, up, log_records_dropped),
        ShownToOperator::Health(probe, health) => status_line::encode_health(*probe, health, facts),
        ShownToOperator::Jobs(list) => jobs_reply::encode(list, facts),
        ShownToOperator::Cancel(answer) => cancel_reply::encode(answer, facts),
    }
}
