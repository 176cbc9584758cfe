//! The picture of what the server saw. Goldens are in `tests/timeline`; they are renewed with
//! `UPDATE_GOLDEN=1 cargo test -p ojs-devserver --test timeline` and read by whoever reviews the
//! change.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be had fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use ojs_devserver::timeline::{Mark, Picture, Record, View};
use ojs_devserver::{Event, Options, Server};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timeline")
}

/// A shutdown with everything in it.
fn shutdown() -> Record {
    Record::read(&fs::read_to_string(folder().join("shutdown.jsonl")).unwrap()).unwrap()
}

fn golden(name: &str, drawn: &str) {
    let file = folder().join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, drawn).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap();
    assert_eq!(drawn, kept, "{name}: UPDATE_GOLDEN=1 renews it");
}

/// Events as JSON, one a line.
fn events(lines: &str) -> Vec<Event> {
    Record::read(lines).unwrap().events
}

/// The picture of these lines.
fn text(lines: &str) -> String {
    let record = Record::read(lines).unwrap();
    Picture::new(&record.events, &record.marks).text(80)
}

/// The text to the right of a name.
fn row<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!(" {name} ")));
    line.unwrap_or_else(|| panic!("no row {name} in\n{text}")).trim()
}

#[test]
fn the_picture_of_a_shutdown_is_the_one_that_was_reviewed() {
    let record = shutdown();
    let picture = Picture::new(&record.events, &record.marks);
    golden("shutdown.txt", &picture.text(80));
    golden("shutdown.svg", &picture.svg());
}

#[test]
fn the_picture_in_the_documentation_is_what_the_program_draws() {
    let documentation = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/devserver-timeline.md");
    let picture = fs::read_to_string(folder().join("shutdown.txt")).unwrap();
    assert!(
        fs::read_to_string(documentation).unwrap().contains(&picture),
        "copy shutdown.txt there"
    );
}

#[test]
fn the_picture_of_a_real_shutdown_is_what_the_program_draws_of_its_record() {
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let record = Record::read(&fs::read_to_string(pictures.join("shutdown.jsonl")).unwrap()).unwrap();
    let drawn = Picture::new(&record.events, &record.marks).svg();
    let file = pictures.join("shutdown.svg");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, &drawn).unwrap();
    }
    assert!(
        fs::read_to_string(file).unwrap() == drawn,
        "docs/pictures/shutdown.svg: UPDATE_GOLDEN=1 draws it again"
    );
}

#[test]
fn each_way_in_which_a_delivery_ends_has_its_letter() {
    let fetch = r#"{"number":1,"ms":0,"operation":"fetch","worker":"w","jobs":["j"],"status":200}"#;
    for (letter, end) in [
        ('A', r#""operation":"ack","status":200,"state":"completed""#),
        ('F', r#""operation":"nack","status":200,"state":"retryable""#),
        ('F', r#""operation":"nack","status":200,"state":"discarded""#),
        ('R', r#""operation":"nack","status":200,"state":"available""#),
        ('C', r#""operation":"cancel","status":200,"state":"cancelled""#),
        ('T', r#""operation":"visibility_timeout","worker":"w""#),
        ('X', r#""operation":"worker_death","worker":"w""#),
        ('>', r#""operation":"heartbeat","worker":"w","status":200"#),
        ('>', r#""operation":"ack","status":409"#),
        ('>', r#""operation":"ack","status":200,"fault":"status""#),
        ('A', r#""operation":"ack","status":200,"fault":"lose_reply""#),
    ] {
        let text = text(&format!(r#"{fetch}{{"number":2,"ms":100,"jobs":["j"],{end}}}"#));
        let bar = row(&text, "j");
        assert!(bar.starts_with("[==") && bar.ends_with(letter), "{letter}: {bar}");
    }
}

#[test]
fn a_job_that_was_fetched_before_the_record_has_a_bar_without_a_beginning() {
    let text = text(
        r#"{"number":8,"ms":0,"operation":"heartbeat","worker":"w","status":200}
           {"number":9,"ms":100,"operation":"ack","jobs":["j"],"state":"completed","status":200}"#,
    );
    assert!(row(&text, "j").starts_with("==="), "{text}");
}

#[test]
fn a_request_that_hangs_is_open_ended_until_its_job_is_over() {
    let lines = r#"{"number":1,"ms":0,"operation":"fetch","worker":"w","jobs":["j"],"status":200}
           {"number":2,"ms":50,"arrived_ms":50,"operation":"ack","jobs":["j"],"fault":"hang"}
           {"number":3,"ms":100,"operation":"heartbeat","worker":"w","status":200}"#;
    let hangs = text(lines);
    let ack = row(&hangs, "ack");
    assert!(ack.starts_with("h~~") && ack.ends_with("~>"), "{hangs}");
    assert!(row(&hangs, "j").contains("=h~~"), "{hangs}");
    let over = text(&format!(
        r#"{lines} {{"number":4,"ms":75,"operation":"ack","jobs":["j"],"state":"completed","status":200}}"#
    ));
    assert!(
        row(&over, "j").contains("h~") && row(&over, "j").ends_with("~A"),
        "{over}"
    );
    assert!(row(&over, "ack").ends_with("~>"), "{over}");
}

#[test]
fn a_delayed_answer_is_drawn_from_the_arrival_to_the_answer_or_to_the_client_s_leaving() {
    for (status, end) in [(r#","status":200,"took_ms":60"#, '|'), ("", 'x')] {
        let text = text(&format!(
            r#"{{"number":1,"ms":0,"operation":"register","worker":"w","status":200}}
               {{"number":2,"ms":80,"arrived_ms":20,"operation":"heartbeat","worker":"w","fault":"delay"{status}}}
               {{"number":3,"ms":100,"operation":"deregister","worker":"w","status":200}}"#
        ));
        let heartbeat = row(&text, "heartbeat");
        assert!(heartbeat.starts_with("d~~") && heartbeat.ends_with(end), "{text}");
    }
}

#[test]
fn what_a_worker_says_counts_from_its_arrival() {
    let text = text(
        r#"{"number":1,"ms":100,"arrived_ms":20,"operation":"heartbeat","worker":"w","state":"quiet","status":200}
           {"mark":"SIGTERM","ms":10}"#,
    );
    assert!(
        text.contains("20.0 ms      +10.0 ms  first heartbeat that says quiet"),
        "{text}"
    );
}

#[test]
fn a_closed_port_is_drawn_until_it_opens() {
    let text = text(
        r#"{"number":1,"ms":0,"operation":"refusing"}{"number":2,"ms":50,"operation":"listening"}
           {"number":3,"ms":100,"operation":"heartbeat","worker":"w","status":200}"#,
    );
    let hashes = row(&text, "connect").len();
    assert!((30..50).contains(&hashes), "{text}");
}

#[test]
fn workers_are_told_apart_when_there_are_several() {
    let text = text(
        r#"{"number":1,"ms":0,"operation":"fetch","worker":"one","jobs":["j"],"status":200}
           {"number":2,"ms":50,"operation":"nack","worker":"one","jobs":["j"],"state":"available","status":200}
           {"number":3,"ms":60,"operation":"fetch","worker":"two","jobs":["j"],"status":200}
           {"number":4,"ms":90,"operation":"worker_death","worker":"two","jobs":["j"]}
           {"number":5,"ms":100,"operation":"heartbeat","worker":"one","status":200}"#,
    );
    let bars = row(&text, "j");
    assert!(
        bars.starts_with("A==") && bars.contains("R ") && bars.contains(" B==") && bars.ends_with("=X"),
        "{text}"
    );
    assert!(
        row(&text, "B two").ends_with('X') && text.contains("B: declared dead"),
        "{text}"
    );
}

#[test]
fn a_view_shows_its_time_and_its_worker_only() {
    let record = shutdown();
    let of = |view: &View| Picture::of(&record.events, &record.marks, view).text(120);
    let late = of(&View {
        from: Some(2_500.0),
        to: Some(2_700.0),
        worker: None,
    });
    assert!(
        late.contains("exit 0") && !late.contains("SIGTERM") && late.contains(", 1 job\n"),
        "{late}"
    );
    let other = of(&View {
        worker: Some("somebody else".into()),
        ..View::default()
    });
    assert!(
        other.contains(" 0 workers, 0 jobs") && other.contains("SIGTERM"),
        "{other}"
    );
}

#[test]
fn of_too_many_jobs_those_that_matter_are_drawn_and_the_others_counted() {
    let mut lines = String::new();
    for index in 0..500 {
        let end = if index == 3 { "nack" } else { "ack" };
        lines.push_str(&format!(
            r#"{{"number":1,"ms":{index},"operation":"fetch","worker":"w","jobs":["j{index}"],"status":200}}
               {{"number":2,"ms":{index}.5,"operation":"{end}","jobs":["j{index}"],"state":"retryable","status":200}}"#
        ));
    }
    let text = text(&lines);
    assert!(text.contains(" and 440 more jobs: 440 acked\n"), "{text}");
    row(&text, "j3");
    row(&text, "j499");
    assert!(text.lines().count() < 90);
    let svg = Picture::new(&events(&lines), &[]).svg();
    assert!(svg.contains("and 300 more jobs: 300 acked"));
}

#[test]
fn what_names_have_in_them_stays_text() {
    let name = "\u{1b}[31m<script>&\"'\u{202e}]]>";
    let mark = Mark::new(1.0, name);
    let lines = r#"{"number":1,"ms":0,"operation":"register","worker":"W","status":200}"#;
    let mut events = events(lines);
    events[0].worker = Some(name.into());
    let picture = Picture::new(&events, &[mark]);
    assert!(!picture.text(80).contains(['\u{1b}', '\u{202e}']));
    let svg = picture.svg();
    let document = roxmltree::Document::parse(&svg).unwrap();
    assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;&amp;&quot;"));
    assert!(document.descendants().all(|node| !node.has_tag_name("script")));
}

#[test]
fn a_painted_picture_is_the_same_picture() {
    let record = shutdown();
    let picture = Picture::new(&record.events, &record.marks);
    let painted = picture.painted_text(80);
    let mut plain = String::new();
    let mut pieces = painted.split("\u{1b}[");
    plain.push_str(pieces.next().unwrap());
    for piece in pieces {
        plain.push_str(piece.split_once('m').unwrap().1);
    }
    assert_eq!(plain, picture.text(80));
    assert_ne!(plain, painted);
}

#[test]
fn nothing_at_all_is_a_picture_too() {
    let picture = Picture::new(&[], &[]);
    assert!(picture.text(80).contains("0 events, 0 workers, 0 jobs"));
    roxmltree::Document::parse(&picture.svg()).unwrap();
}

#[test]
fn a_test_draws_what_its_server_saw_and_marks_what_it_did_itself() {
    let server = Server::start(Options::default()).unwrap();
    let mark = Mark::new(server.now_ms(), "SIGTERM");
    let body = r#"{"worker_id":"w","state":"quiet","active_jobs":[]}"#;
    let answer = ureq::post(format!("{}/ojs/v1/workers/heartbeat", server.url())).send(body);
    assert_eq!(answer.unwrap().status(), 200);
    let text = Picture::new(&server.events(), &[mark]).text(80);
    let position = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
    assert!(
        position("SIGTERM") < position("first heartbeat that says quiet"),
        "{text}"
    );
}
