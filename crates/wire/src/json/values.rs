//! The values in a JSON text, while they still are text.
//!
//! Nothing here recurses, so that no depth of nesting can overflow the stack.

use std::fmt;
use std::time::Duration;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The first elements of a JSON array, each as text; `None` if it is no array.
pub(crate) fn elements(json: &str, at_most: usize) -> Option<Vec<&str>> {
    serde_json::Deserializer::from_str(json)
        .deserialize_seq(FirstElements { at_most })
        .ok()
}

struct FirstElements {
    at_most: usize,
}

impl<'de> Visitor<'de> for FirstElements {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut first = Vec::new();
        while first.len() < self.at_most {
            let Some(element) = array.next_element::<&RawValue>()? else {
                return Ok(first);
            };
            first.push(element.get());
        }
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }
}

/// The text of a JSON string for a person; `None` if it is no string. Half surrogate pairs become
/// replacement characters: JavaScript and Python write them for bytes that they could not decode.
pub(crate) fn text(json: &str) -> Option<String> {
    serde_json::Deserializer::from_str(json)
        .deserialize_bytes(LossyText)
        .ok()
}

struct LossyText;

impl Visitor<'_> for LossyText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        let mut text = String::with_capacity(bytes.len());
        // A half pair is three bytes that are invalid one by one: one replacement for each run of
        // them.
        for chunk in bytes.utf8_chunks() {
            let is_in_a_run = chunk.valid().is_empty() && text.ends_with(char::REPLACEMENT_CHARACTER);
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() && !is_in_a_run {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Ok(text)
    }
}

/// How deep arrays and objects of a valid JSON text are nested: 0 for a number.
pub(crate) fn depth(json: &str) -> usize {
    let (mut deepest, mut depth) = (0_usize, 0_usize);
    let (mut is_in_string, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'[' | b'{' if !is_in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// This many units of time, from a decimal number; `None` if no duration can hold it.
pub(crate) fn units(number: &str, unit: Duration) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * unit.as_secs_f64()).ok()
}
