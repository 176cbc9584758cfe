//! The memory gate, as records of the log.

use log::Level;

use crate::daemon::log::record::{LogRecord, RecordFields};

/// There is no memory for more jobs. All in percent of the container's limit.
pub fn gate_closed(taken: u8, most: u8, reopens_at: u8) -> LogRecord {
    let message = format!(
        "memory gate closed: {taken}% of the memory limit is taken, more than {most}% (worker.memory_gate); no job is fetched until it is \
         {reopens_at}%"
    );
    LogRecord::new(Level::Warn, message).about(percent(taken))
}

/// There is memory for more jobs again.
pub fn gate_opened(taken: u8) -> LogRecord {
    let message = format!("memory gate open: {taken}% of the memory limit is taken; jobs are fetched again");
    LogRecord::new(Level::Info, message).about(percent(taken))
}

fn percent(taken: u8) -> RecordFields {
    RecordFields::default().with("memory_taken_percent", u64::from(taken))
}
