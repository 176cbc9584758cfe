//! For every record the picture is one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be had fails the test")]

use ojs_devserver::timeline::{Mark, Picture, Record, View};
use ojs_devserver::{Event, Operation};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

/// A time: in order or not, equal or far away, or no number at all.
fn time() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (0_u32..50).prop_map(f64::from),
        4 => 0.0..5_000.0,
        1 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0), Just(f64::MAX)],
    ]
}

/// A name: one that comes again, a huge one, one of control characters.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-e]",
        1 => any::<String>(),
        1 => "[\u{0}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{202e}\u{fffe}\u{ffff}<>&'\"日本語]{0,40}",
        1 => "x{0,3000}",
    ]
}

/// An event, as a file can have it.
fn event() -> impl Strategy<Value = Event> {
    let operations: Vec<&str> = Operation::ALL
        .into_iter()
        .map(Operation::name)
        .chain(["visibility_timeout", "worker_death", "expired", "refusing", "listening"])
        .collect();
    let faults = ["hang", "close", "delay", "status", "lose_reply", "truncate"];
    let states = prop_oneof![
        Just("running".to_owned()),
        Just("quiet".to_owned()),
        Just("terminate".to_owned()),
        Just("available".to_owned()),
        name(),
    ];
    let times = (time(), option::of(time()), option::of(time()));
    let about = (option::of(name()), vec(name(), 0..4), option::of(states), 0..3_usize);
    let answer = (
        option::of(100..700_u16),
        option::weighted(0.2, prop::sample::select(faults.to_vec())),
    );
    (prop::sample::select(operations), times, about, answer).prop_map(|(operation, times, about, answer)| {
        let mut event = Record::read(&format!(r#"{{"number":1,"ms":0,"operation":"{operation}"}}"#)).unwrap();
        let mut event = event.events.remove(0);
        (event.ms, event.arrived_ms, event.took_ms) = times;
        (event.worker, event.jobs, event.state, event.more_jobs) = about;
        (event.status, event.fault) = answer;
        event
    })
}

fn view() -> impl Strategy<Value = View> {
    (option::of(time()), option::of(time()), option::weighted(0.3, name())).prop_map(|(from, to, worker)| View {
        from,
        to,
        worker,
    })
}

fn check(events: &[Event], marks: &[Mark], view: &View, width: usize) {
    let picture = Picture::of(events, marks, view);
    let text = picture.text(width);
    for line in text.lines() {
        assert!(line.width() <= width.clamp(40, 240), "{line:?} at {width}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    let svg = picture.svg();
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error} in\n{svg}"));
    assert_eq!(document.root_element().tag_name().name(), "svg");
    for number in document
        .descendants()
        .flat_map(|node| ["x", "y", "width"].map(|name| node.attribute(name)))
    {
        let is_number = |text: &str| text == "100%" || text.parse::<f64>().is_ok_and(f64::is_finite);
        assert!(number.is_none_or(is_number), "{number:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_record_becomes_a_picture_that_fits(
        events in vec(event(), 0..60),
        marks in vec((time(), name()), 0..50),
        view in view(),
        width in 0..300_usize,
    ) {
        let marks: Vec<Mark> = marks.into_iter().map(|(ms, text)| Mark::new(ms, &text)).collect();
        check(&events, &marks, &view, width);
    }

    #[test]
    fn what_is_saved_is_drawn_alike(events in vec(event(), 0..20), width in 40..200_usize) {
        // JSON has no word for what is no number.
        let is_finite = |event: &Event| {
            event.ms.is_finite() && [event.arrived_ms, event.took_ms].into_iter().flatten().all(f64::is_finite)
        };
        let events: Vec<Event> = events.into_iter().filter(is_finite).collect();
        let record = Record { events, marks: Vec::new() };
        let again = Record::read(&record.write()).unwrap();
        let text = |record: &Record| Picture::new(&record.events, &record.marks).text(width);
        prop_assert_eq!(text(&record), text(&again));
    }
}

#[test]
fn thousands_of_jobs_workers_and_marks_stay_a_bounded_picture() {
    let mut lines = String::new();
    for index in 0..8_000 {
        let (job, worker) = (index / 2, index % 300);
        let operation = ["fetch", "ack"][index % 2];
        lines.push_str(&format!(
            r#"{{"number":{index},"ms":{index},"operation":"{operation}","worker":"w{worker}","jobs":["j{job}"],"status":200}}"#
        ));
        lines.push_str(&format!(
            r#"{{"number":1,"ms":{index},"operation":"ack","jobs":["j1"],"status":503}}"#
        ));
    }
    let events = Record::read(&lines).unwrap().events;
    let marks: Vec<Mark> = (0..500).map(|ms| Mark::new(f64::from(ms), &"m".repeat(500))).collect();
    check(&events, &marks, &View::default(), 120);
    let picture = Picture::new(&events, &marks);
    let (text, svg) = (picture.text(120), picture.svg());
    assert!(text.lines().count() < 150, "{text}");
    assert!(svg.len() < 1 << 20, "{} bytes", svg.len());
    for more in ["and 280 more workers", "and 3940 more jobs", "and 465 more moments"] {
        assert!(text.contains(more), "{more} in {text}");
    }
}
