//! Values that hold several: names, user ids, exit statuses, pairs of signals.

use std::collections::BTreeMap;

use super::duration::whole;
use super::{Form, Notation, Problem, Value, joined, user};
use ojs_values::exit::RemapExit;
use ojs_values::signal::Signal;

/// Names, each once.
impl Value for Vec<String> {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Strings,
        "NAMES",
        "eu,fast",
        "one or more different names, with commas between; in the file [\"a\", \"b\"]",
    );

    fn read(names: &[&str], (): &()) -> Result<Self, Problem> {
        let is_blank = |c: char| c.is_control() || c.is_whitespace();
        if names.is_empty() {
            Err("is empty".into())
        } else if names.contains(&"") {
            Err("has an empty name".into())
        } else if names.iter().any(|name| name.contains(is_blank)) {
            Err("has a name with a blank or a control character".into())
        } else if (1..names.len()).any(|position| names[..position].contains(&names[position])) {
            Err("has a name twice".into())
        } else {
            Ok(names.iter().map(|name| (*name).to_owned()).collect())
        }
    }

    fn show(&self) -> String {
        self.join(",")
    }
}

/// Numeric user ids.
impl Value for Vec<u32> {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Integers,
        "UIDS",
        "65532",
        "numeric user ids, with commas between; in the file [1000, 1001]",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let uids: Option<Self> = texts.iter().map(|text| user::id(text)).collect();
        uids.ok_or("has an entry that is not a user id".into())
    }

    fn show(&self) -> String {
        joined(self.iter(), ",")
    }
}

impl Value for RemapExit {
    type Limits = ();
    const NOTATION: Notation = Notation::new(Form::Integers, "CODE", "143", "exit statuses from 0 to 255").repeated();

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let mut statuses = Self::default();
        for text in texts {
            let status = whole(text).and_then(|number| u8::try_from(number).ok());
            statuses.insert(status.ok_or("is not an exit status")?);
        }
        Ok(statuses)
    }

    fn show(&self) -> String {
        joined((0..=u8::MAX).filter(|status| self.contains(*status)), ",")
    }
}

/// The signals that are forwarded in place of others; `None` drops one.
pub type Rewrites = BTreeMap<Signal, Option<Signal>>;

impl Value for Rewrites {
    type Limits = ();
    const NOTATION: Notation = Notation::new(Form::Strings, "FROM:TO", "TERM:QUIT", "FROM:TO, each a signal's name or number; FROM any that can be caught but CHLD, TO any signal, or 0 to drop FROM").repeated();

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let mut rewrites = Self::new();
        for text in texts {
            let (from, to) = text.split_once(':').ok_or("has a pair without a colon")?;
            let from: Signal = from.parse().map_err(|_| "has a FROM that is not a signal")?;
            if !from.is_catchable() || from == Signal::CHLD {
                return Err("has a FROM that never reaches ojs-init as a signal to forward".into());
            }
            let to = match to {
                "0" => None,
                to => Some(to.parse().map_err(|_| "has a TO that is not a signal")?),
            };
            if rewrites.insert(from, to).is_some_and(|before| before != to) {
                return Err("rewrites one signal to two".into());
            }
        }
        Ok(rewrites)
    }

    fn show(&self) -> String {
        let pair = |(from, to): (&Signal, &Option<Signal>)| match to {
            Some(to) => format!("{from}:{to}"),
            None => format!("{from}:0"),
        };
        joined(self.iter().map(pair), ",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_or_more_and_neither_empty_nor_double_nor_blank() {
        assert!(Vec::<String>::read(&["a"], &()).is_ok());
        for names in [&[][..], &[""], &["a", ""], &["a", "a"], &["a b"], &["a\n"]] {
            assert!(Vec::<String>::read(names, &()).is_err(), "{names:?}");
        }
    }

    #[test]
    fn a_rewrite_takes_names_and_numbers_and_drops_on_zero() {
        let parsed = Rewrites::read(&["term:QUIT", "1:0", "USR1:9", "TERM:3"], &()).unwrap();
        assert_eq!(parsed.show(), "SIGHUP:0,SIGUSR1:SIGKILL,SIGTERM:SIGQUIT");
        for pair in [
            "TERM",
            "TERM:",
            ":TERM",
            "KILL:TERM",
            "STOP:0",
            "CHLD:0",
            "0:TERM",
            "TERM:65",
            "TERM:QUIT:0",
        ] {
            assert!(Rewrites::read(&[pair], &()).is_err(), "{pair}");
        }
        assert!(Rewrites::read(&["TERM:QUIT", "15:INT"], &()).is_err());
    }

    #[test]
    fn exit_statuses_are_those_that_exist() {
        assert_eq!(RemapExit::read(&["143", "0", "255"], &()).unwrap().show(), "0,143,255");
        for status in ["256", "-1", "x", ""] {
            assert!(RemapExit::read(&[status], &()).is_err(), "{status}");
        }
    }
}
