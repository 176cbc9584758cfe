//! The flags as clap knows them: an argument for each key, and the flags that a match sets.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::help;
use crate::config::values::Form;
use crate::config::{Flags, Row};

/// The clap argument of a key's flag. Values are texts here, because they are judged after all
/// sources are merged.
fn argument(key: &Row) -> Arg {
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
