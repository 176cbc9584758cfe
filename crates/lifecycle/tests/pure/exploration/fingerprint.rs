//! Decides whether two states are equal: moments count from now, numbers of requests and claims
//! only by their order. The place in the sequence of pseudo-random pauses does not count.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use ojs_lifecycle::api::Moment;

/// Names of numbers that are compared, never computed with.
const RANKED: [&str; 3] = ["CallId(", "Claim(", "PullId("];

/// Fields that count past events, and are compared with no limit: `served` only orders connections.
const IGNORED: [&str; 4] = ["next_call: ", "next: ", "Jitter(", "served: "];

/// Fields that are only counted and reported, between these and the end of their braces. Returns
/// influence the machine from the third on: no world has three.
const TALLIES: [&str; 5] = [" ShutdownCounts ", " Outages ", " Crashed ", "(Handover ", " Returns "];

/// A hash of 128 bits for `state` at `now`.
pub fn of(state: &impl Debug, now: Moment) -> u128 {
    let text = normal(&format!("{state:?}"), Moment::new(Duration::ZERO).elapsed(now));
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        hasher.write(text.as_bytes());
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

fn normal(text: &str, now: Duration) -> String {
    let ranks = RANKED.map(|name| {
        let numbers: BTreeSet<u64> = text.split(name).skip(1).map(leading_number).collect();
        numbers.into_iter().collect::<Vec<u64>>()
    });
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Every name that matters ends in one of these characters.
    while let Some(end) = rest.find(['(', ' ']) {
        let (head, tail) = rest.split_at(end + 1);
        out.push_str(head);
        rest = tail;
        if let Some(index) = RANKED.iter().position(|name| head.ends_with(name)) {
            let number = leading_number(rest);
            let rank = ranks[index].iter().position(|known| *known == number);
            out.push_str(&rank.map_or(String::new(), |rank| rank.to_string()));
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        } else if IGNORED.iter().any(|name| out.ends_with(name)) {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        } else if TALLIES.iter().any(|name| out.ends_with(name)) {
            rest = behind_braces(rest);
        } else if head.ends_with("Moment(") {
            let close = rest.find(')').unwrap_or(rest.len());
            let relative = nanoseconds(&rest[..close]) - i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
            out.push_str(&relative.to_string());
            rest = &rest[close..];
        }
    }
    out.push_str(rest);
    out
}

/// The text behind the braces that `text` begins with.
fn behind_braces(text: &str) -> &str {
    let mut depth = 0;
    let end = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    end.map_or("", |(end, _)| text.get(end + 1..).unwrap_or_default())
}

fn leading_number(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(u64::MAX)
}

/// A duration as `Debug` spells it.
fn nanoseconds(text: &str) -> i128 {
    let unit = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let digits: usize = match unit {
        "s" => 9,
        "ms" => 6,
        "µs" => 3,
        _ => 0,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let padded = format!("{whole}{fraction:0<digits$}");
    padded.parse().unwrap_or(i128::MAX)
}

#[test]
fn states_that_differ_in_what_was_counted_only_are_the_same() {
    let of = |text: &str| normal(text, Duration::ZERO);
    let counted =
        "shutdown: S { a: 1 }, tally: ShutdownCounts { done: 3, names: {JobId(\"a\")}, stop: None }, next_one: 4";
    let empty = "shutdown: S { a: 1 }, tally: ShutdownCounts { done: 0, names: {}, stop: None }, next_one: 4";
    assert_eq!(of(counted), of(empty));
    assert_ne!(of(counted), of(&counted.replace("next_one: 4", "next_one: 5")));
}

#[test]
fn states_that_differ_in_the_time_of_day_and_in_numbers_only_are_the_same() {
    let at = |ms| Moment::new(Duration::from_millis(ms));
    let text = |due: u64, call: u64, next: u64| format!("Timers {{ {:?} }} CallId({call}) next: {next},", at(due));
    let of = |text: String, now| normal(&text, Moment::new(Duration::ZERO).elapsed(at(now)));
    assert_eq!(of(text(2500, 3, 9), 1000), of(text(9500, 8, 12), 8000));
    assert_ne!(of(text(2500, 3, 9), 1000), of(text(2501, 3, 9), 1000));
}
