//! The readers of JSON objects, against serde_json's own values.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

#[allow(dead_code, reason = "the parsers of the messages use the rest")]
#[path = "../../crates/wire/src/json/fields.rs"]
mod fields;
#[allow(dead_code, reason = "the parsers of the messages use the rest")]
#[path = "../../crates/wire/src/json/lenient.rs"]
mod lenient;

use fields::Fields;
use lenient::Object;

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
    let found = Fields::read(text, NAMES).ok();
    assert_eq!(found.is_some(), raw.is_some());
    let beginning = Fields::read_beginning(text, NAMES);
    let value: Result<Value, _> = serde_json::from_str(text);
    assert!(raw.is_some() || !matches!(value, Ok(Value::Object(_))));
    if let (Some(raw), Some(object), Some(found)) = (raw, object, found) {
        for name in NAMES {
            let expected = raw.get(name).map(|value| value.get());
            assert_eq!((found.any(name), object.any(name)), (expected, expected));
            assert_eq!(beginning.any(name), expected);
            assert_eq!(found.get(name), expected.filter(|text| *text != "null"));
            let as_text = expected.and_then(|raw| serde_json::from_str::<String>(raw).ok());
            assert_eq!(object.text(name).map(|text| text.into_owned()), as_text);
            assert_eq!(expected.and_then(fields::exact_text), as_text);
            for span in object.spans(text, name) {
                assert!(serde_json::from_str::<&RawValue>(&text[span]).is_ok());
            }
        }
        if let Some(span) = object.span(text) {
            assert_eq!(text[span].trim(), text.trim());
        }
    }
    if let Ok(value) = value {
        assert_eq!(fields::depth(text), depth(&value));
        let strings = value.as_array().map(|items| items.len());
        assert_eq!(
            fields::elements(text, usize::MAX).map(|elements| elements.len()),
            strings
        );
        let as_text = value.as_str().map(str::to_owned);
        assert_eq!(fields::text(text), as_text);
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
    }
}
