//! A bound for the news of an event stream: no peer can cost ojs-init more than this.

use std::time::Duration;

use ojs_lifecycle::api::{JobId, Moment, StreamNews};
use ojs_wire::backend::stream::EventStreamReader;

/// Bytes that a stream may bring at once, a thousand events, and in each second from then on. A
/// queue in which more happens is no place to wait in.
const MOST_BYTES_AT_ONCE: u64 = 256 << 10;
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Most jobs that are reported by id in one turn. Further available jobs are reported without their
/// ids, and the next heartbeat finds further cancelled ones.
const JOBS_PER_TURN: usize = 64;

/// A stream that is there.
#[derive(Debug, Default)]
pub(in crate::daemon) struct OpenStream {
    reader: EventStreamReader,
    /// Bytes that it has brought and that time has not made up for, at that moment.
    charged: u64,
    charged_at: Option<Moment>,
}

impl OpenStream {
    /// Parses received bytes. Returns `None` if there were too many.
    pub(in crate::daemon) fn take(&mut self, bytes: &[u8], now: Moment) -> Option<Vec<StreamNews>> {
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
        let mut told = Vec::new();
        self.reader.push(bytes, |news| tell(&mut told, news));
        Some(told)
    }
}

/// Adds news to those of a turn. A repeated piece of news counts once, and only the last one counts
/// of whether a job is available.
fn tell(told: &mut Vec<StreamNews>, news: StreamNews) {
    let about = to_be_had(&news).cloned();
    told.retain(|before| *before != news && (about.is_none() || to_be_had(before) != about.as_ref()));
    let is_about_one_job = matches!(news, StreamNews::JobCancelled(_)) || about.is_some();
    if told.len() < JOBS_PER_TURN || !is_about_one_job {
        told.push(news);
    } else if let StreamNews::JobAvailable { came_due, .. } = news {
        tell(told, StreamNews::JobAvailable { job: None, came_due });
    }
}

/// The job that the news reports as available, or as not available any more.
fn to_be_had(news: &StreamNews) -> Option<&JobId> {
    match news {
        StreamNews::JobAvailable { job, .. } => job.as_ref(),
        StreamNews::JobTaken(job) => Some(job),
        StreamNews::Opened | StreamNews::JobCancelled(_) | StreamNews::JobComesLater | StreamNews::BackendLeaves => {
            None
        }
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
        let available = StreamNews::JobAvailable {
            job: None,
            came_due: false,
        };
        assert!(told.contains(&available));
        assert_eq!(told.len(), JOBS_PER_TURN);
    }

    #[test]
    fn of_whether_a_job_is_to_be_had_the_last_word_of_a_turn_counts() {
        let event =
            |to: &str, id: u32| format!("event: job.state_changed\ndata: {{\"to\":\"{to}\",\"job_id\":\"{id}\"}}\n\n");
        let told = |events: &[(&str, u32)]| {
            let text: String = events.iter().map(|(to, id)| event(to, *id)).collect();
            OpenStream::default().take(text.as_bytes(), at(0)).unwrap_or_default()
        };
        let taken = StreamNews::JobTaken(JobId("1".into()));
        assert_eq!(told(&[("available", 1), ("active", 1)]), [taken]);
        let available = told(&[("available", 1), ("active", 1), ("available", 1)]);
        assert!(matches!(
            &available[..],
            [StreamNews::JobAvailable { job: Some(_), .. }]
        ));
        let many: Vec<_> = (0..1_000).map(|id| ("available", id)).collect();
        let told = told(&many);
        assert_eq!(told.len(), JOBS_PER_TURN + 1);
        assert_eq!(
            told.last(),
            Some(&StreamNews::JobAvailable {
                job: None,
                came_due: false
            })
        );
    }
}
