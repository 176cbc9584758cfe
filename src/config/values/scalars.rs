//! Switches, numbers, short texts, paths and signals.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::duration::whole;
use super::{Form, Notation, Problem, Value, only, within};
use ojs_values::signal::Signal;

impl Value for bool {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Switch,
        "true|false",
        "true",
        "true or false (also 1/0, yes/no, on/off)",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let is = |words: [&str; 4]| words.iter().any(|word| only(texts).eq_ignore_ascii_case(word));
        if is(["true", "1", "yes", "on"]) {
            Ok(true)
        } else if is(["false", "0", "no", "off"]) {
            Ok(false)
        } else {
            Err("is neither true nor false".into())
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// How often an option was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u8);

impl Value for Count {
    type Limits = ();
    const NOTATION: Notation = Notation::new(Form::Count, "", "2", "a number from 0 to 255");

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        u8::read(texts, &(0..=u8::MAX)).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            type Limits = RangeInclusive<Self>;
            const NOTATION: Notation = Notation::new(Form::Integer, "NUMBER", "7", "a whole number");

            fn read(texts: &[&str], range: &Self::Limits) -> Result<Self, Problem> {
                let number = whole(only(texts)).ok_or("is not a whole number")?;
                within(Self::try_from(number).map_err(|_| "is too large")?, range)
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn limited(range: &Self::Limits) -> String {
                format!(" from {} to {}", range.start(), range.end())
            }
        }
    )*};
}

numbers!(u8, u32);

/// A short text.
impl Value for String {
    type Limits = ();
    const NOTATION: Notation = Notation::new(Form::String, "TEXT", "Other", "1 to 200 printable ASCII characters");

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let text = only(texts);
        let fits = (1..=200).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        fits.then(|| text.to_owned()).ok_or("is not a short text".into())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for PathBuf {
    type Limits = ();
    const NOTATION: Notation = Notation::new(Form::String, "PATH", "/run/ojs-init", "a path");

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let text = only(texts);
        let is_usable = !text.is_empty() && !text.contains('\0');
        is_usable.then(|| Self::from(text)).ok_or("is not a path".into())
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

/// Which signals a row accepts.
#[derive(Debug)]
pub enum Signals {
    Any,
    Catchable,
}

impl Value for Signal {
    type Limits = Signals;
    const NOTATION: Notation = Notation::new(
        Form::StringOrInteger,
        "SIG",
        "USR1",
        "a name (TERM, SIGTERM, RTMIN+3) or a number from 1 to 64",
    );

    fn read(texts: &[&str], accepted: &Signals) -> Result<Self, Problem> {
        let signal: Self = only(texts).parse().map_err(|_| "is not a signal")?;
        match accepted {
            Signals::Catchable if !signal.is_catchable() => Err("is a signal that no worker can handle".into()),
            Signals::Any | Signals::Catchable => Ok(signal),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn limited(accepted: &Signals) -> String {
        match accepted {
            Signals::Any => String::new(),
            Signals::Catchable => ", but not KILL and STOP, which no worker can handle".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read_in_every_usual_spelling() {
        for (on, off) in [("true", "false"), ("1", "0"), ("yes", "no"), ("ON", "Off")] {
            assert_eq!(bool::read(&[on], &()), Ok(true));
            assert_eq!(bool::read(&[off], &()), Ok(false));
        }
        assert!(bool::read(&["maybe"], &()).is_err() && bool::read(&[""], &()).is_err());
    }

    #[test]
    fn limits_belong_to_what_is_accepted() {
        assert_eq!(u32::read(&["1"], &(1..=10)), Ok(1));
        assert_eq!(u32::read(&["10"], &(1..=10)), Ok(10));
        for text in [
            "0",
            "11",
            "-1",
            "+1",
            "1.0",
            "",
            " 1",
            "4294967297",
            "99999999999999999999",
        ] {
            assert!(u32::read(&[text], &(1..=10)).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_signal_at_a_transition_is_one_that_a_worker_can_handle() {
        for text in ["USR1", "SIGTERM", "tstp", "34"] {
            assert!(Signal::read(&[text], &Signals::Catchable).is_ok(), "{text}");
        }
        for text in ["KILL", "SIGSTOP", "9", "19"] {
            let error = Signal::read(&[text], &Signals::Catchable).unwrap_err();
            assert!(error.contains("no worker can handle"), "{text}: {error}");
            assert!(Signal::read(&[text], &Signals::Any).is_ok(), "{text}");
        }
        assert!(Signal::read(&["nothing"], &Signals::Catchable).is_err());
    }
}
