use proptest::prelude::*;

use super::*;

/// The news of a stream whose bytes arrive in these pieces.
fn told<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<StreamNews> {
    let mut reader = EventStreamReader::default();
    let mut news = Vec::new();
    for piece in pieces {
        reader.push(piece, |one| news.push(one));
    }
    news
}

fn told_at_once(text: &str) -> Vec<StreamNews> {
    told([text.as_bytes()])
}

fn change(job: &str, to: &str) -> String {
    format!(
        "id: 7\nevent: job.state_changed\ndata: {{\"job_id\":\"{job}\",\"queue\":\"default\",\"type\":\"mail\",\"from\":\"pending\",\
         \"to\":\"{to}\",\"timestamp\":\"2026-01-01T00:00:00Z\"}}\n\n"
    )
}

fn cancelled(job: &str) -> StreamNews {
    StreamNews::JobCancelled(JobId(job.into()))
}

/// An event announces this job as available.
fn available(job: &str) -> StreamNews {
    let job = Some(JobId(job.into()));
    StreamNews::JobAvailable { job, came_due: false }
}

/// An event without an id announces an available job.
const AVAILABLE_WITHOUT_ID: StreamNews = StreamNews::JobAvailable {
    job: None,
    came_due: false,
};

#[test]
fn it_is_news_that_a_job_is_to_be_had_or_taken_or_comes_later_or_is_cancelled() {
    for state in ["pending", "completed", "discarded", "odd"] {
        assert_eq!(told_at_once(&change("a", state)), []);
    }
    for state in ["scheduled", "retryable"] {
        assert_eq!(told_at_once(&change("a", state)), [StreamNews::JobComesLater]);
    }
    let text = change("a", "available") + &change("a", "active") + &change("b", "cancelled");
    let taken = StreamNews::JobTaken(JobId("a".into()));
    assert_eq!(told_at_once(&text), [available("a"), taken, cancelled("b")]);
}

#[test]
fn a_job_that_was_waiting_for_its_time_comes_due() {
    for (from, is_due) in [
        ("scheduled", true),
        ("retryable", true),
        ("pending", false),
        ("active", false),
    ] {
        let text = change("a", "available").replace("\"from\":\"pending\"", &format!("\"from\":\"{from}\""));
        let job = Some(JobId("a".into()));
        assert_eq!(
            told_at_once(&text),
            [StreamNews::JobAvailable { job, came_due: is_due }],
            "{from}"
        );
    }
}

#[test]
fn the_event_of_the_one_backend_that_tells_of_queues_is_known() {
    let text = "event: job_available\ndata: {\"queue\":\"a\"}\n\n";
    assert_eq!(told_at_once(text), [AVAILABLE_WITHOUT_ID]);
}

#[test]
fn comments_retry_ids_and_events_without_data_are_no_news() {
    for text in [
        ":heartbeat\n\n",
        "retry: 3000\n\n",
        "id: 1\n\n",
        "event: job_available\n\n",
        "event: server.shutdown\n\n",
        "data: {\"to\":\"available\"}\n\n",
    ] {
        assert_eq!(told_at_once(text), [], "{text:?}");
    }
}

#[test]
fn lines_end_as_the_standard_has_it_and_a_byte_order_mark_is_passed_over() {
    for end in ["\n", "\r", "\r\n"] {
        let text = change("a", "available").replace('\n', end);
        assert_eq!(told_at_once(&text), [available("a")], "{end:?}");
        let text = format!("\u{feff}{}", "event:job_available\ndata:{}\n\n".replace('\n', end));
        assert_eq!(told_at_once(&text), [AVAILABLE_WITHOUT_ID], "{end:?}");
    }
}

#[test]
fn what_is_too_long_or_odd_costs_its_own_event_only() {
    let long = "x".repeat(MOST_LINE_BYTES + 1);
    for odd in [
        format!("event: job_available\ndata: {long}\n\n"),
        format!("event: job_available\n: {long}\ndata: {{}}\n\n"),
        "event: job.state_changed\ndata: {\"to\":\"available\"\n\n".to_owned(),
        "event: job.state_changed\ndata: [\"to\",\"available\"]\n\n".to_owned(),
        "event: job.state_changed\ndata: {\"to\":7}\n\n".to_owned(),
        "event: job.state_changed\ndata: {\"to\":\"cancelled\"}\n\n".to_owned(),
        "event: job.state_changed\ndata: {\ndata: \"to\":\"available\"}\n\n".to_owned(),
    ] {
        assert_eq!(told_at_once(&odd), [], "{odd:.80}");
        let followed = odd + &change("a", "available");
        assert_eq!(told_at_once(&followed), [available("a")]);
    }
    let no_text = [b"event: job_available\ndata: \xff\n\n".as_slice()];
    assert_eq!(told(no_text), []);
}

#[test]
fn an_event_that_breaks_off_is_no_news() {
    let whole = change("a", "available");
    for length in 0..whole.len() {
        assert_eq!(told_at_once(&whole[..length]), []);
    }
}

#[test]
fn nothing_makes_the_reader_keep_more_than_a_line_and_its_data() {
    let mut reader = EventStreamReader::default();
    let piece = [b'x'; 1 << 16];
    for _ in 0..100 {
        reader.push(&piece, |_| ());
        reader.push(b"data:", |_| ());
    }
    assert!(reader.line.capacity() <= 2 * MOST_LINE_BYTES);
}

/// The pieces of a stream: events, halves of events, and other text.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(change("a", "available").into_bytes()),
        Just(change("b", "cancelled").replace('\n', "\r\n").into_bytes()),
        Just(b"event: job_available\rdata: {}\r\r".to_vec()),
        Just(b":\n\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"event: job_available\n".to_vec()),
        Just(b"data: {}\n".to_vec()),
        Just(vec![b'x'; MOST_LINE_BYTES - 2]),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_whatever_pieces_a_stream_comes_it_tells_the_same(text in text(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&text[from..cut]);
            from = cut;
        }
        pieces.push(&text[from..]);
        let at_once = told([text.as_slice()]);
        prop_assert_eq!(&told(pieces), &at_once);
        prop_assert_eq!(&told(text.chunks(1)), &at_once);
    }

    #[test]
    fn after_any_garbage_and_an_empty_line_an_event_is_understood(garbage in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut text = garbage;
        text.extend_from_slice(b"\n\n");
        text.extend_from_slice(change("a", "available").as_bytes());
        let news = told([text.as_slice()]);
        prop_assert_eq!(news.last(), Some(&available("a")));
    }
}

#[test]
fn a_backend_that_says_that_it_ends_is_understood() {
    let text = "event: server.shutdown\ndata: {\"grace_period_ms\":1}\n\n";
    assert_eq!(told_at_once(text), [StreamNews::BackendLeaves]);
}
