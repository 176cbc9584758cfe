//! The reply to `jobs` on the control socket. `docs/control-jobs.md` lists the names.

use serde::{Deserialize, Serialize};

use crate::operator::status_line::{InstanceInfo, MAX_ANSWER, job};
use crate::operator::status_reply::JobReport;
use crate::text::count;
use ojs_lifecycle::api::JobList;

/// Bytes that are kept back for the end of the line, behind the last job.
const END_BYTES: usize = 80;

/// The reply as clients read it. Unknown fields are ignored, and missing ones are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobsReply {
    /// This is an answer and no refusal.
    pub ok: bool,
    /// The oldest jobs first.
    pub jobs: Vec<JobReport>,
    /// Jobs that are not among `jobs`.
    pub jobs_not_shown: u64,
    /// How jobs reach the worker's program: socket, gateway, exec.
    pub mode: String,
}

/// The jobs as a line with its `\n`, at most [`MAX_ANSWER`] bytes before it. The newest jobs are
/// left out if they do not fit.
pub(super) fn encode(list: &JobList, facts: &InstanceInfo) -> Vec<u8> {
    let mut line = br#"{"ok":true,"jobs":["#.to_vec();
    let mut shown = 0;
    for status in &list.jobs {
        // Texts and numbers only: the encoding cannot fail.
        let report = serde_json::to_vec(&job(status, facts.kill_lead)).unwrap_or_default();
        if line.len() + report.len() + END_BYTES > MAX_ANSWER {
            break;
        }
        if shown > 0 {
            line.push(b',');
        }
        line.extend(report);
        shown += 1;
    }
    let left = count(list.not_shown + list.jobs.len() - shown);
    line.extend(format!("],\"jobs_not_shown\":{left},\"mode\":\"{}\"}}\n", facts.mode).into_bytes());
    line
}

/// The reply in this line, given without its `\n`; `None` when it is none, or a refusal.
pub fn decode(line: &[u8]) -> Option<JobsReply> {
    serde_json::from_slice(line).ok().filter(|reply: &JobsReply| reply.ok)
}

#[cfg(test)]
#[path = "jobs_reply_tests.rs"]
mod tests;
