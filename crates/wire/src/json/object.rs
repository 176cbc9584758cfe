//! JSON objects of other programs, read leniently: a field of the wrong type is an absent field.
//!
//! Nothing here recurses at any depth of nesting, because the calling threads have small stacks.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::values::units;

/// Room for this many fields is made at once: an envelope has about as many.
const USUAL_FIELDS: usize = 16;

/// The fields of an object, or those of some names. Values are still text. Of a doubled field the
/// last one counts, as in the Go backends and in the JSON readers of all languages that workers are
/// written in.
///
/// A list, not a map: callers read a few of a dozen fields once each, and a map would cost an
/// allocation for each name.
#[derive(Default)]
pub(crate) struct Object<'a> {
    fields: Vec<(Name<'a>, &'a RawValue)>,
    /// The field whose value is being read.
    pending: Option<Name<'a>>,
}

/// The name of a field; borrowed from the text if it is spelled without escapes.
#[derive(Clone)]
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
        std::str::from_utf8(body).is_ok_and(|text| Object::read_some(text, &[]).is_ok())
    }

    /// Reads the fields of these names, and skips the others. The memory for it does not grow with
    /// the text, because only the first and the last value of a name are kept.
    pub(crate) fn read_some(text: &'a str, names: &[&str]) -> serde_json::Result<Self> {
        let mut object = Self::default();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.deserialize_map(FieldsVisitor(&mut object, Some(names)))?;
        deserializer.end()?;
        Ok(object)
    }

    /// Reads the fields of these names up to the first thing that is no JSON, or up to the end of
    /// the object.
    pub(crate) fn read_beginning(text: &'a str, names: &[&str]) -> Self {
        let mut object = Self::default();
        // The error marks where the reading ended. The fields before it are kept.
        let _ = serde_json::Deserializer::from_str(text).deserialize_map(FieldsVisitor(&mut object, Some(names)));
        object
    }

    /// The spelling of a field's value; null is absent.
    pub(crate) fn raw(&self, key: &str) -> Option<&'a str> {
        self.any(key).filter(|text| *text != "null")
    }

    /// The spelling of a field's value, null included.
    pub(crate) fn any(&self, key: &str) -> Option<&'a str> {
        let newest = self.fields.iter().rev().find(|(name, _)| name.0 == key);
        newest.map(|(_, value)| value.get())
    }

    /// The fields in their order, as they are spelled.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.fields.iter().map(|(name, value)| (&*name.0, value.get()))
    }

    /// Whether a field has this name, null included.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.iter().any(|(name, _)| name.0 == key)
    }

    /// Whether the object has fields, and all of them have this name.
    pub(crate) fn has_only(&self, key: &str) -> bool {
        !self.fields.is_empty() && self.fields.iter().all(|(name, _)| name.0 == key)
    }

    /// Whether this name occurs more than once.
    pub(crate) fn is_repeated(&self, key: &str) -> bool {
        self.fields.iter().filter(|(name, _)| name.0 == key).count() > 1
    }

    /// The rest of `text`, which was read, from the value of this field on, if the reading ended in
    /// that value.
    pub(crate) fn broken(&self, text: &'a str, key: &str) -> Option<&'a str> {
        let Name(Cow::Borrowed(name)) = self.pending.as_ref().filter(|name| name.0 == key)? else {
            return None;
        };
        let behind_quote = text.get(span(text, name).end + 1..)?;
        let rest = behind_quote.trim_ascii_start().strip_prefix(':')?;
        Some(rest.trim_ascii_start())
    }

    /// The places of this name's values in the text.
    pub(crate) fn spans(&self, text: &str, key: &str) -> Vec<Range<usize>> {
        let of_it = self.fields.iter().filter(|(name, _)| name.0 == key);
        of_it.map(|(_, value)| span(text, value.get())).collect()
    }

    /// The place of the object in the text that it was read from, its braces included. `None`: it
    /// has no fields, or an escape in its first name.
    pub(crate) fn span(&self, text: &str) -> Option<Range<usize>> {
        let (Name(Cow::Borrowed(first)), _) = self.fields.first()? else {
            return None;
        };
        let (_, last) = self.fields.last()?;
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
        let mut object = Object {
            fields: Vec::with_capacity(USUAL_FIELDS),
            pending: None,
        };
        deserializer.deserialize_map(FieldsVisitor(&mut object, None))?;
        Ok(object)
    }
}

/// Adds to an object what is read: all fields, or those of these names.
struct FieldsVisitor<'o, 'a>(&'o mut Object<'a>, Option<&'o [&'o str]>);

impl<'de> Visitor<'de> for FieldsVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let FieldsVisitor(Object { fields, pending }, names) = self;
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let Some(names) = names else {
                fields.push((name, map.next_value()?));
                continue;
            };
            if !names.contains(&&*name.0) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            *pending = Some(name.clone());
            let value = map.next_value()?;
            *pending = None;
            let mut older = fields.iter_mut().rev().filter(|(older, _)| older.0 == name.0);
            match (older.next(), older.next()) {
                (Some(last), Some(_)) => last.1 = value,
                (Some(_) | None, _) => fields.push((name, value)),
            }
        }
        Ok(())
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
