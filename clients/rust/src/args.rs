//! A job's arguments as types of the program.

use std::cell::Cell;

use serde::de::DeserializeOwned;
use serde::de::value::SeqDeserializer;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

type Failed = (Option<usize>, serde_json::Error);

/// A tuple, a struct or a `Vec` takes the arguments in their order. A single argument may also be
/// the type itself, or an object with the fields of a struct.
pub(crate) fn read<A: DeserializeOwned>(args: &RawValue) -> Result<A> {
    let items: Vec<&RawValue> = serde_json::from_str(args.get()).map_err(|error| invalid(0, &(None, error)))?;
    let count = items.len();
    match items.as_slice() {
        [] => in_order(&items).or_else(|error| serde_json::from_str("null").map_err(|_| error)),
        [only] if only.get().starts_with('{') => alone(only).or_else(|error| in_order(&items).map_err(|_| error)),
        [only] => in_order(&items).or_else(|error| {
            // The type takes arguments in their order if it looked at one, or missed one.
            let is_sequence = error.0.is_some() || is_about_length(&error.1);
            alone(only).map_err(|other| if is_sequence { error } else { other })
        }),
        _ => in_order(&items),
    }
    .map_err(|failed| invalid(count, &failed))
}

fn in_order<A: DeserializeOwned>(items: &[&RawValue]) -> Result<A, Failed> {
    let at = Cell::new(None);
    let counted = items.iter().enumerate().map(|(number, item)| {
        at.set(Some(number));
        *item
    });
    A::deserialize(SeqDeserializer::new(counted))
        .map_err(|error: serde_json::Error| (at.get().filter(|_| !is_about_length(&error)), error))
}

fn is_about_length(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("invalid length ")
}

fn alone<A: DeserializeOwned>(item: &RawValue) -> Result<A, Failed> {
    serde_json::from_str(item.get()).map_err(|error| (Some(0), error))
}

fn invalid(count: usize, (at, error): &Failed) -> Error {
    let place = at.map_or_else(|| format!("{count} arguments"), |at| format!("args[{at}]"));
    Error::found("InvalidArgs", "invalid_args", format!("{place}: {}", without_value(error)))
}

/// What is wrong, without the value: serde's messages quote it, and it may be a secret.
pub(crate) fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(text.as_str(), |at| &text[..at]);
    for start in ["invalid type: ", "invalid value: "] {
        if let Some(found) = text.strip_prefix(start) {
            let expected = found.rfind(", expected ").map_or("", |at| &found[at..]);
            let kind = found.split([',', '`', '"']).next().unwrap_or_default().trim_end();
            return format!("{start}{kind}{expected}");
        }
    }
    let quotes_no_value = ["missing field ", "invalid length ", "duplicate field "];
    if quotes_no_value.iter().any(|start| text.starts_with(start)) {
        text.to_owned()
    } else {
        "a value that the type does not take".to_owned()
    }
}
