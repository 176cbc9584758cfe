//! The readers of JSON objects, against serde_json's own values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

#[allow(dead_code, reason = "the parsers of the messages use the rest")]
#[path = "../../crates/wire/src/json/object.rs"]
mod object;
#[allow(dead_code, reason = "the parsers of the messages use the rest")]
#[path = "../../crates/wire/src/json/values.rs"]
mod values;

use object::Object;

const NAMES: [&str; 4] = ["id", "type", "args", "é"];

/// A text that may be a JSON object.
pub fn json(data: &[u8]) {
    let raw: Option<BTreeMap<String, &RawValue>> = serde_json::from_slice(data).ok();
    let object = Object::read_bytes(data);
    assert_eq!(object.is_some(), raw.is_some());
    assert_eq!(Object::is_one(data), raw.is_some());
    let Ok(text) = std::str::from_utf8(data) else {
        assert!(raw.is_none());
        return;
    };
    let found = Object::read_some(text, &NAMES).ok();
    assert_eq!(found.is_some(), raw.is_some());
    let beginning = Object::read_beginning(text, &NAMES);
    let value: Result<Value, _> = serde_json::from_str(text);
    assert!(raw.is_some() || !matches!(value, Ok(Value::Object(_))));
    if let (Some(raw), Some(object), Some(found)) = (raw, object, found) {
        for name in NAMES {
            let expected = raw.get(name).map(|value| value.get());
            assert_eq!((found.any(name), object.any(name)), (expected, expected));
            assert_eq!(beginning.any(name), expected);
            assert_eq!(found.raw(name), expected.filter(|text| *text != "null"));
            let as_text = expected.and_then(|raw| serde_json::from_str::<String>(raw).ok());
            assert_eq!(object.text(name).map(|text| text.into_owned()), as_text);
            for span in object.spans(text, name) {
                assert!(serde_json::from_str::<&RawValue>(&text[span]).is_ok());
            }
        }
        if let Some(span) = object.span(text) {
            assert_eq!(text[span].trim(), text.trim());
        }
    }
    if let Ok(value) = value {
        let Depth(depth) = serde_json::from_str(text).unwrap();
        assert_eq!(values::depth(text), depth);
        let strings = value.as_array().map(|items| items.len());
        assert_eq!(
            values::elements(text, usize::MAX).map(|elements| elements.len()),
            strings
        );
        let as_text = value.as_str().map(str::to_owned);
        assert_eq!(values::text(text), as_text);
    }
}

/// How deep a text nests, each of the fields of one name counted: a `Value` has the last alone.
struct Depth(usize);

impl<'de> Deserialize<'de> for Depth {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(DepthVisitor)
    }
}

struct DepthVisitor;

impl<'de> Visitor<'de> for DepthVisitor {
    type Value = Depth;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Depth, E> {
        Ok(Depth(0))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Depth, E> {
        Ok(Depth(0))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Depth, E> {
        Ok(Depth(0))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Depth, E> {
        Ok(Depth(0))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Depth, E> {
        Ok(Depth(0))
    }

    fn visit_str<E>(self, _: &str) -> Result<Depth, E> {
        Ok(Depth(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Depth, A::Error> {
        let mut most = 0;
        while let Some(Depth(depth)) = items.next_element()? {
            most = most.max(depth);
        }
        Ok(Depth(1 + most))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Depth, A::Error> {
        let mut most = 0;
        while let Some((IgnoredAny, Depth(depth))) = fields.next_entry()? {
            most = most.max(depth);
        }
        Ok(Depth(1 + most))
    }
}
