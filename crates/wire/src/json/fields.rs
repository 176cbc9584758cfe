//! Reads only the fields of an object: values stay text until a caller needs one.
//!
//! Nothing here recurses, so that no depth of nesting can overflow the stack.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The known fields of one JSON object, each as the text of its value. Others are skipped. Of a
/// doubled name the last value counts, as in the JSON readers of all languages that workers are
/// written in.
pub(crate) struct Fields<'a, const N: usize> {
    names: [&'static str; N],
    values: [Option<&'a str>; N],
    counts: [usize; N],
    /// The field whose value is being read: its position, and its name in the text if that is
    /// spelled without escapes.
    pending: Option<(usize, Option<&'a str>)>,
}

impl<'a, const N: usize> Fields<'a, N> {
    /// Reads one object and nothing after it.
    pub(crate) fn read(json: &'a str, names: [&'static str; N]) -> serde_json::Result<Self> {
        let mut fields = Self::none(names);
        let mut deserializer = serde_json::Deserializer::from_str(json);
        deserializer.deserialize_map(KnownFields(&mut fields))?;
        deserializer.end()?;
        Ok(fields)
    }

    /// Reads an object up to the first thing that is no JSON, or up to its end.
    pub(crate) fn read_beginning(json: &'a str, names: [&'static str; N]) -> Self {
        let mut fields = Self::none(names);
        // The error marks where the reading ended. The fields before it are kept.
        let _ = serde_json::Deserializer::from_str(json).deserialize_map(KnownFields(&mut fields));
        fields
    }

    fn none(names: [&'static str; N]) -> Self {
        Self {
            names,
            values: [None; N],
            counts: [0; N],
            pending: None,
        }
    }

    /// Whether this name occurs more than once.
    pub(crate) fn is_repeated(&self, name: &str) -> bool {
        let mut counts = self.names.iter().zip(self.counts);
        counts.any(|(known, count)| *known == name && count > 1)
    }

    /// The value of a field, `null` included.
    pub(crate) fn any(&self, name: &str) -> Option<&'a str> {
        let mut fields = self.names.iter().zip(self.values);
        fields.find(|(known, _)| **known == name)?.1
    }

    /// The value of a field. `null` means absent, because some libraries write every field.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.any(name).filter(|value| *value != "null")
    }

    /// The rest of `json`, which was read, from the value of this field on, if the reading ended in
    /// that value.
    pub(crate) fn broken(&self, json: &'a str, name: &str) -> Option<&'a str> {
        let (index, key) = self.pending?;
        let key = key.filter(|_| self.names.get(index) == Some(&name))?;
        // Behind the quote of the key and the colon.
        let after = (key.as_ptr().addr() + key.len() + 1).checked_sub(json.as_ptr().addr())?;
        let rest = json.get(after..)?.trim_ascii_start().strip_prefix(':')?;
        Some(rest.trim_ascii_start())
    }
}

struct KnownFields<'f, 'a, const N: usize>(&'f mut Fields<'a, N>);

impl<'de, const N: usize> Visitor<'de> for KnownFields<'_, 'de, N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Fields {
            names,
            values,
            counts,
            pending,
        } = self.0;
        while let Some(known) = map.next_key_seed(KnownName(names))? {
            *pending = known;
            match known.and_then(|(index, _)| values.get_mut(index).zip(counts.get_mut(index))) {
                Some((value, count)) => {
                    *value = Some(map.next_value::<&RawValue>()?.get());
                    *count += 1;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            *pending = None;
        }
        Ok(())
    }
}

/// Which of the names a key is.
struct KnownName<'n>(&'n [&'static str]);

impl KnownName<'_> {
    fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|name| *name == key)
    }
}

impl<'de> DeserializeSeed<'de> for KnownName<'_> {
    type Value = Option<(usize, Option<&'de str>)>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KnownName<'_> {
    type Value = Option<(usize, Option<&'de str>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(self.position(key).map(|index| (index, Some(key))))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.position(key).map(|index| (index, None)))
    }
}

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

/// The text of a JSON string that has to be exact; `None` if it is no string, or no Unicode
/// (`"\ud800"`).
pub(crate) fn exact_text(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
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
