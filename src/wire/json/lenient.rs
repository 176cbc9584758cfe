//! JSON objects of others, read leniently: a field of the wrong type is an absent field.
//!
//! Nothing here recurses, however deep the text nests: the threads that call it have small stacks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;

/// An object whose values are still text. Of a field that is there twice the last one counts, as in the Go backends.
pub(in crate::wire) struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    /// Reads one object, and nothing but one.
    pub(in crate::wire) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    /// Reads a body; no UTF-8 is no object.
    pub(in crate::wire) fn read_bytes(body: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(body).ok().and_then(Self::read)
    }

    /// A field as it is spelled; null is absent.
    pub(in crate::wire) fn raw(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|value| value.get()).filter(|text| *text != "null")
    }

    /// How many fields there are.
    pub(in crate::wire) fn len(&self) -> usize {
        self.0.len()
    }

    /// The member of this name, where that is a string.
    pub(in crate::wire) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.raw(key)?).ok()
    }

    /// A whole number that is not negative, spelled as one: `3`, not `3.0`.
    pub(in crate::wire) fn whole(&self, key: &str) -> Option<u64> {
        self.raw(key)?.parse().ok()
    }

    /// An object in the object.
    pub(in crate::wire) fn object(&self, key: &str) -> Option<Self> {
        Self::read(self.raw(key)?)
    }

    /// An array of nothing but strings.
    pub(in crate::wire) fn texts(&self, key: &str) -> Option<Vec<String>> {
        serde_json::from_str(self.raw(key)?).ok()
    }

    /// A time of more than nothing, in whole or decimal units of `unit`.
    pub(in crate::wire) fn duration(&self, key: &str, unit: Duration) -> Option<Duration> {
        units(self.raw(key)?, unit).filter(|duration| !duration.is_zero())
    }
}

/// So many units of time, from a decimal number; `None` where no duration can hold it.
pub(in crate::wire) fn units(number: &str, unit: Duration) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * unit.as_secs_f64()).ok()
}
