//! A handler's result, as the JSON that goes to the backend.

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Discard, Error, Result};
use crate::json::{self, MAX_DEPTH};

/// A result as JSON: what middleware sees of a handler's.
#[derive(Clone, Debug)]
pub struct Output {
    text: Option<Box<RawValue>>,
}

impl Output {
    /// No result.
    #[must_use]
    pub fn none() -> Output {
        Output { text: None }
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// A number that is none (NaN, an infinity), a map whose keys are no texts, deeper than 99, or
    /// an error of the value's own `Serialize`: `InvalidResult`, which fails the job for good.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Output> {
        let text = json::encode(value, MAX_DEPTH - 1).map_err(|why| invalid_result(&why))?;
        if text == "null" {
            return Ok(Output::none());
        }
        let text = RawValue::from_string(text).map_err(|error| invalid_result(&error.to_string()))?;
        Ok(Output { text: Some(text) })
    }

    /// The result as a type of your own; `null` if there is none.
    ///
    /// # Errors
    /// The result does not fit into the type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        json::decode(self.text().unwrap_or("null"))
    }

    /// The JSON text; nothing if there is no result.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref().map(RawValue::get)
    }
}

pub(crate) fn invalid_result(why: &str) -> Error {
    Discard::of_library("InvalidResult", format!("the handler's result is not JSON: {why}"))
}
