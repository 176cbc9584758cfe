//! Ends in a person's words.

use std::sync::Arc;

use ojs_lifecycle::api::{Death, EndReport, EndedBy, Subject};

/// The last words.
pub fn summary(account: &EndReport) -> String {
    let left = format!("{} cut off, {} unreported", account.cut_off, account.unreported);
    match (account.cause, account.worker) {
        (EndedBy::Asked(_), _) => left,
        (cause, None) => format!("{cause:?}, {left}"),
        (cause, Some(end)) => format!("{cause:?} ({end}), {left}"),
    }
}

/// Jobs that fail because their process ended.
pub fn died(death: &Death, jobs: &[Arc<Subject>]) -> String {
    let jobs: Vec<String> = jobs.iter().map(|job| format!("{job} ({})", job.kind)).collect();
    format!("{death}: {}", jobs.join(", "))
}
