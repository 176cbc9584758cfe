//! A limit for log lines about frequent events.

use std::fmt;
use std::time::Duration;

use log::warn;

use ojs_os::clock;

/// Between two lines about one subject.
const PAUSE: Duration = Duration::from_secs(10);

/// Lets one line through at a time, and counts the others.
#[derive(Debug)]
pub struct Throttle {
    pause: Duration,
    next: Option<Duration>,
    unsaid: u64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self::every(PAUSE)
    }
}

impl Throttle {
    /// One line in so much time.
    pub fn every(pause: Duration) -> Self {
        Self {
            pause,
            next: None,
            unsaid: 0,
        }
    }

    /// Logs a warning, at most one in each pause.
    pub fn warn(&mut self, message: fmt::Arguments<'_>) {
        if let Some(more) = self.is_due() {
            warn!("{message}{more}");
        }
    }

    /// Counts an event. Returns the text to add to a line about it, unless there was one a moment
    /// ago.
    pub fn is_due(&mut self) -> Option<String> {
        self.is_due_at(clock::monotonic())
    }

    /// [`Self::is_due`] at this time of the monotonic clock.
    pub fn is_due_at(&mut self, now: Duration) -> Option<String> {
        self.happened(now).map(and_more)
    }

    /// Counts an event at this time. Returns how often it happened since the last line, this time
    /// not counted, if a line is due now.
    fn happened(&mut self, now: Duration) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.unsaid += 1;
            return None;
        }
        self.next = Some(now.saturating_add(self.pause));
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// The text to add to a line about an event that happened so many times more.
fn and_more(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => " (1 more since the last such line)".to_owned(),
        count => format!(" ({count} more since the last such line)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_with_the_count_of_the_others() {
        let mut seldom = Throttle::default();
        let at = Duration::from_secs;
        assert_eq!(seldom.happened(at(1)), Some(0));
        assert_eq!(seldom.happened(at(2)), None);
        assert_eq!(seldom.happened(at(10)), None);
        assert_eq!(seldom.happened(at(11)), Some(2));
        assert_eq!(seldom.happened(at(12)), None);
        assert_eq!(seldom.happened(at(40)), Some(1));
        assert_eq!(seldom.happened(at(60)), Some(0));
    }
}
