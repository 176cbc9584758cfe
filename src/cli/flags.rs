//! The flags: one clap argument for each key that has one, and which of them a command line sets.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use ojs_values::small;

use super::help;
use crate::config::keys::KEYS;
use crate::config::values::Form;
use crate::config::{Flags, Row};

/// The keys that have a flag.
pub(super) fn all() -> impl Iterator<Item = &'static Row> {
    KEYS.into_iter().filter(|key| key.flag.is_some())
}

/// The keys whose flag may occur. Too many of them are harmless.
pub(super) fn mentioned(args: &[OsString]) -> Vec<&'static Row> {
    let mut keys: Vec<&'static Row> = Vec::new();
    for arg in args
        .iter()
        .map(|arg| arg.as_encoded_bytes())
        .take_while(|arg| *arg != b"--")
    {
        let Some(spelling) = arg.strip_prefix(b"-") else {
            continue;
        };
        let is_meant = |key: &Row| match spelling.strip_prefix(b"-") {
            Some(long) => {
                let name = long.split(|byte| *byte == b'=').next().unwrap_or_default();
                key.flag.is_some_and(|flag| flag.as_bytes() == name)
            }
            None => key
                .short
                .is_some_and(|letter| spelling.iter().any(|byte| char::from(*byte) == letter)),
        };
        for key in all() {
            if is_meant(key) && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    // The keys are in the order of the full parse, so that both give equal flags.
    small::sort_by(&mut keys, |one, other| one.position < other.position);
    keys
}

/// The clap argument of a key's flag. Values are texts here, because they are judged after all
/// sources are merged.
pub(super) fn argument(key: &Row) -> Arg {
    let arg = Arg::new(key.label()).value_parser(value_parser!(OsString));
    let arg = key.flag.into_iter().fold(arg, Arg::long);
    let arg = key.short.into_iter().fold(arg, Arg::short);
    if key.notation.form == Form::Count {
        arg.action(ArgAction::Count).value_parser(value_parser!(u8))
    } else if key.notation.form == Form::Switch {
        arg.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else if key.notation.repeats {
        arg.action(ArgAction::Append)
    } else {
        arg
    }
}

/// The argument of a key, with its lines of the help.
pub(super) fn documented(key: &Row) -> Arg {
    argument(key)
        .value_name(key.notation.placeholder)
        .help_heading(key.group.heading())
        .help(help::of_key(key))
}

/// The flags of these keys that the command line sets.
pub(super) fn set_in(matches: &mut ArgMatches, keys: &[&'static Row]) -> Flags {
    let mut flags = Flags::default();
    for key in keys {
        let id = key.label();
        let values: Option<Vec<OsString>> = if key.notation.form == Form::Count {
            let count = matches.remove_one::<u8>(id).filter(|count| *count > 0);
            count.map(|count| vec![count.to_string().into()])
        } else {
            matches.remove_many(id).map(Iterator::collect)
        };
        if let Some(values) = values {
            flags.push(key, values);
        }
    }
    flags
}
