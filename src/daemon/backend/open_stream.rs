//! How much a stream of events may tell in a time: whatever is on the other side, it costs no more
//! than this.

use std::collections::BTreeSet;
use std::time::Duration;

use ojs_lifecycle::api::{Moment, StreamNews};
use ojs_wire::backend::stream::StreamReader;

/// Bytes that a stream may bring at once, a thousand events, and in each second from then on. A
/// queue in which more happens is no place to wait in.
const MOST_BYTES_AT_ONCE: u64 = 256 << 10;
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Most cancelled jobs that are told of in one turn; the next heartbeat finds the others.
const CANCELLED_PER_TURN: usize = 32;

/// A stream that is there.
#[derive(Debug, Default)]
pub(in crate::daemon) struct OpenStream {
    reader: StreamReader,
    /// Bytes that it has brought and that time has not made up for, at that moment.
    charged: u64,
    charged_at: Option<Moment>,
}

impl OpenStream {
    /// Takes what came; nothing: it was too much.
    pub(in crate::daemon) fn take(&mut self, bytes: &[u8], now: Moment) -> Option<BTreeSet<StreamNews>> {
        let since = self
            .charged_at
            .replace(now)
            .map_or(Duration::ZERO, |at| at.elapsed(now));
        let made_up_for = u64::try_from(since.as_micros())
            .unwrap_or(u64::MAX)
            .saturating_mul(BYTES_PER_SECOND)
            / 1_000_000;
        let brought = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.charged = self.charged.saturating_sub(made_up_for).saturating_add(brought);
        if self.charged > MOST_BYTES_AT_ONCE {
            return None;
        }
        // An event that comes a hundred times in a turn counts once.
        let mut told = BTreeSet::new();
        self.reader.push(bytes, |news| {
            if told.len() < CANCELLED_PER_TURN || !matches!(news, StreamNews::JobCancelled(_)) {
                told.insert(news);
            }
        });
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &[u8] = b"event: job_available\ndata: {}\n\n";

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    #[test]
    fn a_thousand_events_at_once_are_no_flood_and_as_many_in_each_second_are() {
        let thousand = [b":".as_slice(), &[b'x'; 200], b"\n"].concat().repeat(1_000);
        let mut stream = OpenStream::default();
        assert!(stream.take(&thousand, at(1_000)).is_some());
        let seconds = (2..20).find(|second| stream.take(&thousand, at(second * 1_000)).is_none());
        assert_eq!(seconds, Some(2));
    }

    #[test]
    fn what_comes_at_the_pace_that_is_allowed_may_go_on_for_ever() {
        let mut stream = OpenStream::default();
        let piece = vec![b'\n'; 32 << 10];
        for half in 0..1_000 {
            assert!(stream.take(&piece, at(half * 500)).is_some(), "{half}");
        }
        let mut stream = OpenStream::default();
        for piece in 0..20_000 {
            let now = Moment::new(Duration::from_micros(piece * 500));
            assert!(stream.take(&[b'\n'; 32], now).is_some(), "{piece}");
        }
    }

    #[test]
    fn what_is_told_again_and_again_in_one_turn_is_told_once_and_only_so_many_cancelled_jobs_are() {
        let mut text = EVENT.repeat(500);
        for id in 0..500 {
            let event = format!("event: job.state_changed\ndata: {{\"to\":\"cancelled\",\"job_id\":\"{id}\"}}\n\n");
            text.extend_from_slice(event.as_bytes());
        }
        text.extend_from_slice(EVENT);
        let told = OpenStream::default().take(&text, at(0)).unwrap_or_default();
        assert!(told.contains(&StreamNews::JobAvailable));
        assert_eq!(told.len(), CANCELLED_PER_TURN);
    }
}
