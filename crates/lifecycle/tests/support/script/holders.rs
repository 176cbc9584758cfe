//! Holders in a person's words: those of the socket are `connection 1`, all others describe their
//! manners.

use std::time::Duration;

use ojs_lifecycle::api::{Event, HolderId, Manners, ProcessId};

use super::words::{Wrong, number, wrong};

/// Default longest frame of a connection.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;

/// A connection of the worker socket.
pub const OF_A_CONNECTION: Manners = Manners {
    hears: true,
    answers_pings: true,
    frame_limit: Some(MAX_FRAME),
    answer_within: None,
};

/// A holder that gets jobs, and receives nothing else but answers.
const HEARS_NOTHING: Manners = Manners {
    hears: false,
    answers_pings: false,
    frame_limit: None,
    answer_within: None,
};

/// A holder that gets its jobs in answers to requests, and waits for the answer to each outcome.
pub const WAITS_FOR_ANSWERS: Manners = Manners {
    answer_within: Some(Duration::from_secs(25)),
    ..HEARS_NOTHING
};

/// The words behind the number of a holder, if they are about its start: `opened by 101`, `comes`,
/// `comes with 102, hears nothing`, `comes, hears nothing`, `comes with 102, waits for answers`.
pub fn comes(holder: HolderId, text: &str) -> Result<Option<Event>, Wrong> {
    let came = |process: Option<&str>, manners| {
        let process = process.map(number).transpose()?.map(ProcessId);
        Ok(Some(Event::HolderCame {
            holder,
            process,
            manners,
        }))
    };
    if let Some(process) = text.strip_prefix("opened by ") {
        return came(Some(process), OF_A_CONNECTION);
    }
    if text == "comes" {
        return came(None, OF_A_CONNECTION);
    }
    let (who, manners) = if let Some(who) = text.strip_suffix(", hears nothing") {
        (who, HEARS_NOTHING)
    } else if let Some(who) = text.strip_suffix(", waits for answers") {
        (who, WAITS_FOR_ANSWERS)
    } else {
        return Ok(None);
    };
    match who.strip_prefix("comes with ") {
        None if who != "comes" => Err(wrong("not the start of a holder", text)),
        process => came(process, manners),
    }
}
