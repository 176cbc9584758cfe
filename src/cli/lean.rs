//! The options before COMMAND. Each start reads its command line here, by the table of keys alone.
//! With the agent clap reads every other command line: its definition costs three times as much to
//! build as a whole start may cost.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap_lex::{ArgCursor, ParsedArg, RawArgs, ShortFlags};

use super::command_line::CommandLine;
use crate::config::keys::KEYS;
use crate::config::values::Form;
use crate::config::{Flags, Row};

/// The meaning of a word that is neither an option nor the value of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// A mistake: only `--` begins COMMAND.
    Refused,
    /// COMMAND begins with it.
    Command,
    /// The first one chooses an action, as in `config show`; a second one is a mistake.
    Action,
}

/// Why the words are no command line of this form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mistake {
    /// No key has this option; help and version are such options too.
    UnknownOption(String),
    /// A word in the place of an option.
    Stray(String),
    /// The option has no value.
    NoValue(&'static Row),
    /// The option takes no value, and has one.
    Valued(&'static Row),
    /// The option may stand once.
    Twice(&'static Row),
}

/// The words of a command line, read.
#[derive(Debug, Default)]
struct Given {
    flags: Flags,
    action: Option<String>,
    /// COMMAND and its arguments.
    command: Vec<OsString>,
}

/// The keys of this build that have a flag.
pub(super) fn flagged() -> impl Iterator<Item = &'static Row> {
    KEYS.into_iter().filter(|key| key.flag.is_some() && key.is_built_in())
}

/// Reads a command line that supervises a command, with or without `run`, or that checks or shows
/// the configuration.
pub(super) fn parse(args: &[OsString]) -> Result<CommandLine, Mistake> {
    let (first, rest) = args.split_first().unzip();
    let rest = rest.unwrap_or_default();
    if first.is_some_and(|first| first == "config") {
        let Given { flags, action, command } = read(rest, Words::Action)?;
        return match action.as_deref() {
            None | Some("check") => Ok(CommandLine::ConfigCheck { flags, command }),
            Some("show") => Ok(CommandLine::ConfigShow { flags }),
            Some(other) => Err(Mistake::Stray(other.to_owned())),
        };
    }
    let Given { flags, command, .. } = if first.is_some_and(|first| first == "run") {
        read(rest, Words::Command)?
    } else {
        read(args, Words::Refused)?
    };
    Ok(CommandLine::Run { flags, command })
}

/// Reads options, and COMMAND behind them.
fn read(args: &[OsString], words: Words) -> Result<Given, Mistake> {
    let raw = RawArgs::new(args);
    let mut reader = Reader {
        raw: &raw,
        cursor: raw.cursor(),
        set: Vec::new(),
    };
    let mut given = Given::default();
    while let Some(word) = raw.next(&mut reader.cursor) {
        if word.is_escape() {
            given.command = reader.rest();
        } else if let Some((name, value)) = word.to_long() {
            reader.long(&word, name.ok(), value)?;
        } else if let Some(letters) = word.to_short() {
            reader.short(letters)?;
        } else {
            let text = word.to_value_os();
            match words {
                Words::Command => {
                    given.command = vec![text.to_owned()];
                    given.command.extend(reader.rest());
                }
                Words::Action if given.action.is_none() => given.action = Some(text.to_string_lossy().into_owned()),
                Words::Action | Words::Refused => return Err(Mistake::Stray(text.to_string_lossy().into_owned())),
            }
        }
    }
    for (key, values) in reader.set {
        given.flags.push(key, values);
    }
    Ok(given)
}

/// The words, and the flags that they have set so far.
struct Reader<'a> {
    raw: &'a RawArgs,
    cursor: ArgCursor,
    /// In the order of the table, as clap's parse gives them.
    set: Vec<(&'static Row, Vec<OsString>)>,
}

impl<'a> Reader<'a> {
    fn rest(&mut self) -> Vec<OsString> {
        self.raw.remaining(&mut self.cursor).map(OsStr::to_owned).collect()
    }

    fn long(&mut self, word: &ParsedArg<'a>, name: Option<&str>, value: Option<&OsStr>) -> Result<(), Mistake> {
        let Some(key) = flagged().find(|key| key.flag == name) else {
            let word = word.display().to_string();
            let option = word.split('=').next().unwrap_or_default();
            return Err(Mistake::UnknownOption(option.to_owned()));
        };
        match (key.notation.form, value) {
            (Form::Count, Some(_)) => Err(Mistake::Valued(key)),
            (Form::Count, None) => self.count(key),
            (Form::Switch, None) => self.set(key, "true".into()),
            (_, Some(value)) => self.set(key, value.to_owned()),
            (_, None) => self.set_to_next(key),
        }
    }

    fn short(&mut self, mut letters: ShortFlags<'a>) -> Result<(), Mistake> {
        while let Some(letter) = letters.next_flag() {
            let found = flagged().find(|key| key.short.is_some() && key.short == letter.ok());
            let Some(key) = found else {
                let letter = letter.map_or_else(|rest| rest.to_string_lossy().into_owned(), String::from);
                return Err(Mistake::UnknownOption(format!("-{letter}")));
            };
            let value = letters.clone().next_value_os().map(OsStr::to_owned);
            let after_equals = |value: &OsString| {
                let bytes = value.as_encoded_bytes().strip_prefix(b"=");
                bytes.map(|bytes| OsStr::from_bytes(bytes).to_owned())
            };
            match (key.notation.form, value) {
                (Form::Count, value) => {
                    if value.as_ref().and_then(after_equals).is_some() {
                        return Err(Mistake::Valued(key));
                    }
                    self.count(key)?;
                }
                (Form::Switch, value) => match value.as_ref().and_then(after_equals) {
                    Some(value) => return self.set(key, value),
                    None => self.set(key, "true".into())?,
                },
                (_, Some(value)) => return self.set(key, after_equals(&value).unwrap_or(value)),
                (_, None) => return self.set_to_next(key),
            }
        }
        Ok(())
    }

    /// Sets a key to the next word, unless that is an option.
    fn set_to_next(&mut self, key: &'static Row) -> Result<(), Mistake> {
        let is_value = |word: &ParsedArg<'_>| !word.is_escape() && !word.is_long() && !word.is_short();
        let value = self.raw.peek(&self.cursor).filter(is_value);
        let value = value.ok_or(Mistake::NoValue(key))?.to_value_os().to_owned();
        self.raw.next(&mut self.cursor);
        self.set(key, value)
    }

    fn count(&mut self, key: &'static Row) -> Result<(), Mistake> {
        let values = self.values(key);
        let count = values.first().and_then(|value| value.to_str()?.parse::<u8>().ok());
        *values = vec![count.unwrap_or(0).saturating_add(1).to_string().into()];
        Ok(())
    }

    fn set(&mut self, key: &'static Row, value: OsString) -> Result<(), Mistake> {
        let values = self.values(key);
        if !values.is_empty() && !key.notation.repeats {
            return Err(Mistake::Twice(key));
        }
        values.push(value);
        Ok(())
    }

    fn values(&mut self, key: &'static Row) -> &mut Vec<OsString> {
        let position = self.set.partition_point(|(set, _)| set.position < key.position);
        if self.set.get(position).is_none_or(|(set, _)| *set != key) {
            self.set.insert(position, (key, Vec::new()));
        }
        &mut self.set[position].1
    }
}
