//! The types of values. Each has one `impl Value`: how people write a value, which values are
//! accepted, how a value is shown. A new kind of value is one more type with its `impl` in a file
//! of this folder.
//!
//! Start with `scalars` for the simplest types. `network` and `masked` keep secrets out of
//! messages.

pub mod duration;
pub mod enums;
pub mod exec;
pub mod limits;
pub mod lists;
pub mod log_levels;
pub mod loopback;
pub(in crate::config) mod masked;
pub mod network;
pub mod otel;
pub mod proxy;
pub mod scalars;
pub mod user;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

/// The end of a sentence about a wrong text, which begins with the text: `is not a duration`. A
/// secret is never in it.
pub type Problem = Cow<'static, str>;

/// A type that the value of a key can have.
pub trait Value: Any + Clone + PartialEq + fmt::Debug + Send + Sync {
    /// The type of a row's bounds on values: a range, or `()`.
    type Limits: Sync;

    /// How a value is written.
    const NOTATION: Notation;

    /// Reads the one text of a scalar, or all texts of a list.
    ///
    /// # Errors
    /// The texts are no value of this type, or the row does not accept it.
    fn read(texts: &[&str], limits: &Self::Limits) -> Result<Self, Problem>;

    /// The value as people write it. A secret shows only that it is set; an empty value shows
    /// nothing.
    fn show(&self) -> String;

    /// The texts from which [`Value::read`] makes an equal value; none for an empty value. Not for
    /// secrets.
    fn texts(&self) -> Vec<String> {
        let (shown, mut texts) = (self.show(), Vec::new());
        if shown.is_empty() {
            return Vec::new();
        }
        Self::NOTATION.form.split(&shown, &mut texts);
        texts.into_iter().map(str::to_owned).collect()
    }

    /// Words of a row's limits, behind the values that the notation accepts.
    fn limited(_: &Self::Limits) -> String {
        String::new()
    }

    /// The part of a refused text that an error may repeat: `None` if the text may be a secret.
    fn quotable(text: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(text))
    }
}

/// How the values of a type are written, for people and for the parsers of the command line and the
/// file.
#[derive(Debug, Clone, Copy)]
pub struct Notation {
    /// The shape of a value in each place where it can be set.
    pub form: Form,
    /// The placeholder of a value in the usage of its flag.
    pub placeholder: &'static str,
    /// A text that every key of the type accepts: the sample file shows it.
    pub example: &'static str,
    pub accepted: &'static str,
    /// Whether the flag may be given more than once, each time with a further value.
    pub repeats: bool,
}

impl Notation {
    /// That of a key which this build has only by its name.
    pub(super) const ABSENT: Self = Self::new(Form::String, "", "", "");

    const fn new(form: Form, placeholder: &'static str, example: &'static str, accepted: &'static str) -> Self {
        Self {
            form,
            placeholder,
            example,
            accepted,
            repeats: false,
        }
    }

    const fn repeated(self) -> Self {
        Self { repeats: true, ..self }
    }
}

/// The shape of a value on the command line, in a variable and in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A flag that may stand alone; true or false in the file.
    Switch,
    /// A flag that counts how often it is given; elsewhere a whole number.
    Count,
    /// A whole number in the file.
    Integer,
    /// A string in the file.
    String,
    /// A string or a whole number in the file.
    StringOrInteger,
    /// One word out of a few, a string in the file.
    Word,
    /// Several with commas between; an array of strings in the file.
    Strings,
    /// Several with commas between; an array of whole numbers in the file.
    Integers,
    /// Several, each on a separate line; a table of strings in the file.
    Headers,
    /// A table of strings and whole numbers, in the file alone: `NAME=VALUE` each.
    Table,
    /// A table of arrays of strings, in the file alone: each its name and its words, with NUL
    /// between.
    Commands,
}

impl Form {
    /// Splits the text of a flag or a variable, if it may hold several values.
    pub fn split<'t>(self, text: &'t str, into: &mut Vec<&'t str>) {
        // The last line may have its line break, as a shell or a mounted file gives it.
        let text = if self == Self::Headers { text.trim_end() } else { text };
        let separator = match self {
            Self::Strings | Self::Integers | Self::Table => ',',
            Self::Headers => '\n',
            Self::Switch
            | Self::Count
            | Self::Integer
            | Self::String
            | Self::StringOrInteger
            | Self::Word
            | Self::Commands => {
                return into.push(text);
            }
        };
        into.extend(text.split(separator).map(str::trim));
    }
}

/// A value of whatever type its key has.
pub trait AnyValue: Any + fmt::Debug + Send + Sync {
    /// The text of [`Value::show`].
    fn shown(&self) -> String;

    /// The texts of [`Value::texts`].
    fn texts(&self) -> Vec<String>;

    /// True if the other value has an equal type and is equal.
    fn equals(&self, other: &dyn AnyValue) -> bool;
}

impl<V: Value> AnyValue for V {
    fn shown(&self) -> String {
        self.show()
    }

    fn texts(&self) -> Vec<String> {
        Value::texts(self)
    }

    fn equals(&self, other: &dyn AnyValue) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }
}

/// A value that need not be there: a key without a default.
impl<V: Value> Value for Option<V> {
    type Limits = V::Limits;
    const NOTATION: Notation = V::NOTATION;

    fn read(texts: &[&str], limits: &Self::Limits) -> Result<Self, Problem> {
        V::read(texts, limits).map(Some)
    }

    fn show(&self) -> String {
        self.as_ref().map(V::show).unwrap_or_default()
    }

    fn texts(&self) -> Vec<String> {
        self.as_ref().map(Value::texts).unwrap_or_default()
    }

    fn limited(limits: &Self::Limits) -> String {
        V::limited(limits)
    }

    fn quotable(text: &str) -> Option<Cow<'_, str>> {
        V::quotable(text)
    }
}

/// The text of a scalar.
fn only<'t>(texts: &[&'t str]) -> &'t str {
    texts.first().copied().unwrap_or_default()
}

/// The value, unless it is out of its range.
fn within<T: PartialOrd>(value: T, range: &RangeInclusive<T>) -> Result<T, Problem> {
    if value < *range.start() {
        Err("is too small".into())
    } else if value > *range.end() {
        Err("is too large".into())
    } else {
        Ok(value)
    }
}

/// The items as one text.
fn joined(items: impl Iterator<Item = impl fmt::Display>, separator: &str) -> String {
    let texts: Vec<String> = items.map(|item| item.to_string()).collect();
    texts.join(separator)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::keys::KEYS;

    #[test]
    fn lists_are_taken_apart_at_their_separator() {
        let split = |form: Form, text: &'static str| {
            let mut texts = Vec::new();
            form.split(text, &mut texts);
            texts
        };
        assert_eq!(split(Form::Strings, "a, b,"), ["a", "b", ""]);
        assert_eq!(split(Form::Headers, "A: b,c\nB: d"), ["A: b,c", "B: d"]);
        assert_eq!(split(Form::String, "/a,b"), ["/a,b"]);
    }

    #[test]
    fn the_example_of_a_type_is_accepted_by_every_key_that_has_it() {
        for key in KEYS {
            let mut texts = Vec::new();
            key.notation.form.split(key.notation.example, &mut texts);
            assert!((key.values.read)(&texts).is_ok(), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic(texts in prop::collection::vec(".{0,20}", 0..3)) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            for key in KEYS {
                let _ = (key.values.read)(&texts).map(|value| value.shown());
            }
        }
    }
}
