//! JSON that is passed on in its author's spelling.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// JSON that is passed on in its author's spelling. Text that is no JSON becomes a JSON string, so
/// it breaks nothing and loses nothing.
#[derive(Debug)]
pub(crate) struct Json<'a>(pub(crate) Cow<'a, str>);

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => self.0.serialize(serializer),
        }
    }
}
