//! JSON objects that stay the text that they are: order, spelling of numbers and white space inside
//! of values included.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// An object, field by field, in the order of the text; of a doubled name the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// The text is no JSON object; the message names the first wrong place.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| format!("the body is not a JSON object: {error}"))
    }

    /// The spelling of a field's value; null counts as absent.
    pub fn raw(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value).filter(|value| value.get() != "null")
    }

    /// A field as the expected type; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// The value has another type.
    pub fn get<'a, T: Deserialize<'a>>(&'a self, name: &str, expected: &str) -> Result<Option<T>, WrongType> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let read = serde_json::from_str(raw.get());
        read.map(Some).map_err(|_| WrongType {
            field: name.to_owned(),
            expected: expected.to_owned(),
        })
    }

    /// A field that is text.
    ///
    /// # Errors
    ///
    /// The value has another type.
    pub fn text(&self, name: &str) -> Result<Option<String>, WrongType> {
        self.get(name, "a string")
    }

    /// Sets a field, in its place when it is there already.
    pub fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes a field from the object and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let position = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(position).1)
    }

    /// All fields of the object.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// All fields of the object.
    pub fn into_fields(self) -> Vec<(String, Box<RawValue>)> {
        self.0
    }
}

/// A field of a wrong type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongType {
    /// The name of the field.
    pub field: String,
    /// The type that the field should have.
    pub expected: String,
}

/// Any value as JSON text that is kept.
pub fn raw(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    // Text, numbers and similar values: the encoding cannot fail, and would give null if it did.
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        while let Some(name) = map.next_key::<String>()? {
            let value: Box<RawValue> = map.next_value()?;
            object.set(&name, value);
            if object.0.len() > MAX_FIELDS {
                return Err(de::Error::custom("more fields than any job has"));
            }
        }
        Ok(object)
    }
}

/// Most fields of an object: each is looked for among the others.
const MAX_FIELDS: usize = 1_000;

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_as_it_was_spelled() {
        let text = r#"{"b":1.50,"a":{"deep": [1e3, 12345678901234567890123] },"é":"\u00e9"}"#;
        let object = Object::read(text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
    }

    #[test]
    fn of_a_field_that_comes_twice_the_last_counts() {
        let object = Object::read(br#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(object.get::<u8>("a", "a number").unwrap(), Some(2));
    }

    #[test]
    fn what_is_no_object_is_named() {
        assert!(Object::read(b"[1]").unwrap_err().contains("not a JSON object"));
    }
}
