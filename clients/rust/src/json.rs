//! JSON out and in. serde_json does the work; here is what a frame asks for beyond that.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::Value;

use crate::not_a_number;

/// How deep a frame may be nested, itself included.
pub(crate) const MAX_DEPTH: usize = 100;
/// Members of an envelope for which there is room from the start.
const USUAL_MEMBERS: usize = 16;

/// The members of a JSON object as they are spelled; of a doubled name the last one counts. They
/// are few: to look for one costs less than a table of them.
pub(crate) struct Members<'a>(Vec<(Name<'a>, &'a RawValue)>);

impl<'a> Members<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&&'a RawValue> {
        self.0.iter().rev().find(|(found, _)| found.0 == name).map(|(_, raw)| raw)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(Name<'de>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut object: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::with_capacity(USUAL_MEMBERS);
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Object).map(Members)
    }
}

/// The name of a member. As its bytes it is read also where it has half a surrogate pair, which
/// must not hide the others.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'a>, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Name<'de>, E> {
                Ok(Name(String::from_utf8_lossy(name)))
            }

            fn visit_bytes<E>(self, name: &[u8]) -> Result<Name<'de>, E> {
                Ok(Name(String::from_utf8_lossy(name).into_owned().into()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// JSON that every parser takes: no NaN, and not nested deeper than `depth`. The error says what is
/// wrong.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T, depth: usize) -> Result<String, String> {
    let text = serde_json::to_string(value).map_err(|error| error.to_string())?;
    // serde_json writes null for a number that is none.
    if text.contains("null") {
        not_a_number::find(value).map_err(|error| error.to_string())?;
    }
    if depth_of(&text) > depth {
        return Err(format!("it is nested deeper than {depth}"));
    }
    Ok(text)
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// How deep a JSON text is nested.
pub(crate) fn depth_of(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        if is_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Reads a value of the program's own type. Half a surrogate pair, which no string of Rust can
/// hold, becomes U+FFFD.
pub(crate) fn decode<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    match serde_json::from_str(text) {
        Err(error) if error.to_string().contains("surrogate") || error.to_string().contains("hex escape") => {
            serde_json::from_str(&without_lone_surrogates(text))
        }
        other => other,
    }
}

/// The text of a JSON string; nothing if it is none.
pub(crate) fn string_in(raw: Option<&&RawValue>) -> Option<String> {
    raw.filter(|raw| raw.get().starts_with('"')).and_then(|raw| decode(raw.get()).ok())
}

/// A whole number, also where it is spelled 1.0 or 1e3.
pub(crate) fn integer_in(raw: Option<&&RawValue>) -> Option<i64> {
    whole(raw?.get())
}

/// A number that is whole, however it is spelled.
pub(crate) fn whole(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let float: f64 = text.parse().ok()?;
        let is_whole = float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0;
        #[allow(clippy::cast_possible_truncation)] // it is whole, and its size was looked at
        is_whole.then_some(float as i64)
    })
}

/// A number of milliseconds that is more than 0; at most a hundred years.
pub(crate) fn millis_in(raw: Option<&&RawValue>, unit_ms: f64) -> Option<std::time::Duration> {
    const LONGEST_MS: f64 = 100.0 * 365.0 * 86_400_000.0;
    let number: f64 = raw?.get().parse().ok()?;
    (number > 0.0).then(|| std::time::Duration::from_secs_f64((number * unit_ms).min(LONGEST_MS) / 1000.0))
}

pub(crate) fn is_null(raw: Option<&RawValue>) -> bool {
    raw.is_none_or(|raw| raw.get() == "null")
}

fn without_lone_surrogates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match surrogate_at(rest) {
            Some(true) if surrogate_at(&rest[6..]) == Some(false) => 12,
            Some(_) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Whether the text begins with the escape of a first (true) or second (false) half of a pair.
fn surrogate_at(text: &str) -> Option<bool> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(true),
        0xdc00..=0xdfff => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_an_error_and_not_null() {
        assert!(encode(&f64::NAN, 9).is_err());
        assert!(encode(&vec![Some(1.0), None, Some(f64::INFINITY)], 9).is_err());
        assert_eq!(encode(&vec![Some(1.5), None], 9).unwrap(), "[1.5,null]");
        assert_eq!(encode("null", 9).unwrap(), "\"null\"");
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        assert_eq!(depth_of(r#"{"a":["]}\"[[[["],"b":[[1]]}"#), 3);
        assert!(encode(&vec![vec![1]], 1).is_err());
    }

    #[test]
    fn half_a_pair_is_a_replacement_character_and_a_whole_one_stays() {
        let text: String = decode(r#""\ud83d\ude00 \ud83d \udc00 \\ud83d \" é""#).unwrap();
        assert_eq!(text, "\u{1f600} \u{fffd} \u{fffd} \\ud83d \" é");
    }

    #[test]
    fn a_member_whose_name_is_half_a_pair_does_not_hide_the_others() {
        let members: Members<'_> = serde_json::from_str(r#"{"\ud800":1,"\u0069d":"j","é":[2]}"#).unwrap();
        assert_eq!(string_in(members.get("id")).as_deref(), Some("j"));
        assert_eq!(members.get("é").unwrap().get(), "[2]");
        let members: Members<'_> = serde_json::from_str(r#"{"a":1,"\u0061":2,"b":3}"#).unwrap();
        assert_eq!(members.get("a").unwrap().get(), "2", "the last one counts");
        assert!(serde_json::from_str::<Members<'_>>("[1]").is_err());
    }

    #[test]
    fn numbers_are_whole_in_any_spelling() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(integer_in(Some(&&*raw("1e3"))), Some(1000));
        assert_eq!(integer_in(Some(&&*raw("1.5"))), None);
        assert_eq!(integer_in(Some(&&*raw("\"1\""))), None);
        assert_eq!(millis_in(Some(&&*raw("0.5")), 1000.0), Some(std::time::Duration::from_millis(500)));
        assert_eq!(millis_in(Some(&&*raw("-1")), 1.0), None);
        assert!(millis_in(Some(&&*raw("1e300")), 1.0).is_some());
    }
}
