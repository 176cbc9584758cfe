//! A job's arguments as types of the program.

use std::cell::Cell;

use serde::de::{DeserializeOwned, value::SeqDeserializer};
use serde_json::value::RawValue;

use crate::error::{Discard, Error, Result};

/// The argument that was looked at last, if the error is about it, and the error.
type Failed = (Option<usize>, serde_json::Error);

/// A tuple, a struct or a `Vec` takes the arguments in their order. A single argument may also be
/// the type itself, or an object with the fields of a struct.
pub(crate) fn read<A: DeserializeOwned>(args: &[Box<RawValue>]) -> Result<A> {
    match args {
        [] => in_order(args).or_else(|error| serde_json::from_str("null").map_err(|_| error)),
        [only] => in_order(args).or_else(|error| {
            // The type takes arguments in their order if it looked at one, or missed one. An object
            // is meant by name.
            let is_in_order = error.0.is_some() || is_about_length(&error.1);
            let alone = serde_json::from_str(only.get());
            alone.map_err(|other| if is_in_order && !only.get().starts_with('{') { error } else { (Some(0), other) })
        }),
        _ => in_order(args),
    }
    .map_err(|(at, error)| {
        let place = at.map_or_else(|| format!("{} arguments", args.len()), |at| format!("args[{at}]"));
        let message = format!("{place}: {}", without_value(&error));
        Error::found(Discard::new(message).kind("InvalidArgs").code("invalid_args"))
    })
}

fn in_order<A: DeserializeOwned>(args: &[Box<RawValue>]) -> Result<A, Failed> {
    let at = Cell::new(None);
    let counted = args.iter().enumerate().map(|(number, arg)| {
        at.set(Some(number));
        &**arg
    });
    A::deserialize(SeqDeserializer::new(counted))
        .map_err(|error: serde_json::Error| (at.get().filter(|_| !is_about_length(&error)), error))
}

fn is_about_length(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("invalid length ")
}

/// What is wrong, without the value: serde's messages quote it, and it may be a secret.
pub(crate) fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(text.as_str(), |at| &text[..at]);
    if text.starts_with("invalid type: ") || text.starts_with("invalid value: ") {
        let expected = text.rfind(", expected ").map_or("", |at| &text[at..]);
        let kind = text.split([',', '`', '"']).next().unwrap_or_default();
        return format!("{}{expected}", kind.trim_end());
    }
    let quotes_no_value = ["missing field ", "invalid length ", "duplicate field "];
    let is_safe = quotes_no_value.iter().any(|start| text.starts_with(start));
    if is_safe { text.to_owned() } else { "a value that the type does not take".to_owned() }
}
