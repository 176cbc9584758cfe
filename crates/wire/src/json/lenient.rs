//! JSON objects of other programs, read leniently: a field of the wrong type is an absent field.
//!
//! Nothing here recurses at any depth of nesting, because the calling threads have small stacks.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Room for this many fields is made at once: an envelope has about as many.
const USUAL_FIELDS: usize = 16;

/// An object whose values are still text. Of a doubled field the last one counts, as in the Go
/// backends.
///
/// A list, not a map: callers read a few of a dozen fields once each, and a map would cost an
/// allocation for each name.
pub(crate) struct Object<'a>(Vec<(Name<'a>, &'a RawValue)>);

/// The name of a field; borrowed from the text if it is spelled without escapes.
pub(crate) struct Name<'a>(pub(crate) Cow<'a, str>);

impl<'a> Object<'a> {
    /// Reads one object, and nothing but one.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Reads a body; no UTF-8 is no object.
    pub(crate) fn read_bytes(body: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(body).ok().and_then(Self::read)
    }

    /// Whether this body is one object. Reading it for that alone costs half.
    pub(crate) fn is_one(body: &[u8]) -> bool {
        std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<AnyObject>(text).is_ok())
    }

    /// The spelling of a field's value; null is absent.
    pub(crate) fn raw(&self, key: &str) -> Option<&'a str> {
        self.any(key).filter(|text| *text != "null")
    }

    /// The spelling of a field's value, null included.
    pub(crate) fn any(&self, key: &str) -> Option<&'a str> {
        let newest = self.0.iter().rev().find(|(name, _)| name.0 == key);
        newest.map(|(_, value)| value.get())
    }

    /// The fields in their order, as they are spelled.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&*name.0, value.get()))
    }

    /// Whether a field has this name, null included.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name.0 == key)
    }

    /// Whether the object has fields, and all of them have this name.
    pub(crate) fn has_only(&self, key: &str) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(name, _)| name.0 == key)
    }

    /// The places of this name's values in the text.
    pub(crate) fn spans(&self, text: &str, key: &str) -> Vec<Range<usize>> {
        let of_it = self.0.iter().filter(|(name, _)| name.0 == key);
        of_it.map(|(_, value)| span(text, value.get())).collect()
    }

    /// The place of the object in the text that it was read from, its braces included. `None`: it
    /// has no fields, or an escape in its first name.
    pub(crate) fn span(&self, text: &str) -> Option<Range<usize>> {
        let (Name(Cow::Borrowed(first)), _) = self.0.first()? else {
            return None;
        };
        let (_, last) = self.0.last()?;
        let before = text.get(..span(text, first).start)?.strip_suffix('"')?;
        let start = before.trim_ascii_end().strip_suffix('{')?.len();
        let after = text.get(span(text, last.get()).end..)?;
        let rest = after.trim_ascii_start().strip_prefix('}')?;
        Some(start..text.len() - rest.len())
    }

    /// The member of this name, if it is a string.
    pub(crate) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        let raw = self.raw(key)?;
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        if inner.contains('\\') {
            return serde_json::from_str(raw).ok().map(Cow::Owned);
        }
        // The text was read as JSON before. Without an escape it stands for itself.
        Some(Cow::Borrowed(inner))
    }

    /// A whole number that is not negative, spelled as one: `3`, not `3.0`.
    pub(crate) fn whole(&self, key: &str) -> Option<u64> {
        self.raw(key)?.parse().ok()
    }

    /// An object in the object.
    pub(crate) fn object(&self, key: &str) -> Option<Self> {
        Self::read(self.raw(key)?)
    }

    /// An array of nothing but strings.
    pub(crate) fn texts(&self, key: &str) -> Option<Vec<String>> {
        serde_json::from_str(self.raw(key)?).ok()
    }

    /// A time of more than nothing, in whole or decimal units of `unit`.
    pub(crate) fn duration(&self, key: &str, unit: Duration) -> Option<Duration> {
        units(self.raw(key)?, unit).filter(|duration| !duration.is_zero())
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// An object of which nothing is kept.
struct AnyObject;

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnyObject)
    }
}

impl<'de> Visitor<'de> for AnyObject {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Name<'de>, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(USUAL_FIELDS);
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Object(fields))
    }
}

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

/// The place of a part of a text.
fn span(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + part.len()
}

/// This many units of time, from a decimal number; `None` if no duration can hold it.
pub(crate) fn units(number: &str, unit: Duration) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * unit.as_secs_f64()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whether_a_body_is_one_object_does_not_depend_on_whether_it_is_kept(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", " ", "\"a\"", "\"\\u00e4\"", "\"\\x\"", "\"\n\"", "1", "-0.5e3", "1e999", "01", "null", "true", "nul",
                    "{\"a\":1}", "\"a\":", "\u{e4}",
                ]),
                0..8,
            ),
            tail in prop::collection::vec(any::<u8>(), 0..2),
        ) {
            let body = [pieces.concat().as_bytes(), &tail].concat();
            prop_assert_eq!(Object::is_one(&body), Object::read_bytes(&body).is_some());
        }

        #[test]
        fn a_text_is_what_any_reader_makes_of_it_and_nothing_else_is_one(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "a", "\u{e4}", " ", "\\n", "\\\"", "\\\\", "\\u00e4", "\\ud83d\\ude00", "\\ud83d", "{", "]",
                ]),
                0..6,
            ),
            other in prop::sample::select(vec!["1", "null", "true", "[\"a\"]", "{\"a\":\"b\"}"]),
        ) {
            let raw = format!("\"{}\"", pieces.concat());
            let body = format!("{{\"text\":{raw},\"other\":{other}}}");
            let object = Object::read(&body).unwrap();
            prop_assert_eq!(object.text("text").map(Cow::into_owned), serde_json::from_str::<String>(&raw).ok());
            prop_assert_eq!(object.text("other"), None);
        }
    }
}
