//! The memory gate, as records of the log.

use log::Level;

use crate::daemon::log::record::{LogRecord, RecordFields};
use ojs_lifecycle::api::Notice;

/// The record of a notice about the gate. None for any other notice. All in percent of the
/// container's limit.
pub fn gate(notice: &Notice) -> Option<LogRecord> {
    let (taken, level, message) = if let Notice::MemoryGateClosed {
        taken,
        most,
        reopens_at,
    } = notice
    {
        let message = format!(
            "memory gate closed: {taken}% of the memory limit is taken, more than {most}% (worker.memory_gate); no job is fetched \
             until it is {reopens_at}%"
        );
        (*taken, Level::Warn, message)
    } else if let Notice::MemoryGateOpened { taken } = notice {
        let message = format!("memory gate open: {taken}% of the memory limit is taken; jobs are fetched again");
        (*taken, Level::Info, message)
    } else {
        return None;
    };
    let fields = RecordFields::default().with("memory_taken_percent", u64::from(taken));
    Some(LogRecord::new(level, message).about(fields))
}
