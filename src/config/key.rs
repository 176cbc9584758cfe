//! Keys: rows of the table in [`super::keys`], with the type of their values or without.
//!
//! A value is kept as its type behind `dyn Any`. An enum of all kinds of values would need a
//! `match` in each file that asks for a kind, and each default twice: as a text and as a value.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::build::HAS_AGENT;
use super::values::enums::Mode;
use super::values::{AnyValue, Notation, Problem, Value};

/// One setting or option whose values are of type `V`.
pub struct Key<V: Value> {
    /// The part of the key that does not depend on `V`.
    pub row: Row,
    /// Bounds of the row on the values of the type.
    pub limits: V::Limits,
    /// The value if the key is not set.
    pub default: fn() -> V,
}

/// Reads the one text of a scalar, or all texts of a list.
type Reader = fn(&[&str]) -> Result<Arc<dyn AnyValue>, Problem>;

/// One setting or option, whatever the type of its values. Two rows are equal if they are one row.
pub struct Row {
    /// Position in the table.
    pub position: usize,
    /// Heading in the help.
    pub group: Group,
    /// The modes in which the key has an effect.
    pub scope: Scope,
    /// `section.name` in the file; options of the init alone have none.
    pub toml: Option<&'static str>,
    /// Long flag without the dashes; none if the value must not be seen in a process list.
    pub flag: Option<&'static str>,
    /// Letter of the short flag.
    pub short: Option<char>,
    /// Environment variables; the first one that is set wins. A table has none, and no flag: it is
    /// in the file alone.
    pub env: &'static [&'static str],
    /// The default in words, if the value itself does not explain it.
    pub default_words: Option<&'static str>,
    /// One sentence without its full stop.
    pub help: &'static str,
    /// How values of its type are written.
    pub notation: &'static Notation,
    /// How its values are read and shown.
    pub(super) values: &'static Values,
}

/// The functions of a key's type for texts.
pub struct Values {
    /// Words of its limits, behind the values that the notation accepts ([`Value::limited`]).
    pub(super) limited: fn() -> String,
    /// Reads a value of its type within its limits ([`Value::read`]).
    pub(super) read: Reader,
    /// Its default as [`Value::show`] shows it.
    pub(super) default_shown: fn() -> String,
    /// The part of a refused text that an error may repeat ([`Value::quotable`]).
    pub(super) quotable: fn(&str) -> Option<Cow<'_, str>>,
}

impl Values {
    /// Those of a key that this build has only by its name, so that none of its type's code is in
    /// the binary.
    pub(super) const ABSENT: Self = Self {
        limited: String::new,
        read: |_| Err("is not in this build".into()),
        default_shown: String::new,
        quotable: |_| None,
    };
}

/// Heading in the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Init,
    Shutdown,
    Log,
    Backend,
    Worker,
    Exec,
    Traces,
    Operation,
}

impl Group {
    /// The heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Init => "Init",
            Self::Shutdown => "Shutdown",
            Self::Log => "Log",
            Self::Backend => "Backend (agent)",
            Self::Worker => "Worker (agent)",
            Self::Exec => "Mode exec (agent)",
            Self::Traces => "Traces (agent)",
            Self::Operation => "Operation (agent)",
        }
    }
}

/// The modes in which a key has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In every mode.
    Always,
    /// In every mode of a build that has the agent.
    FullBuild,
    /// In every mode but none.
    Agent,
    /// COMMAND is the worker itself: socket and gateway.
    OwnWorker,
    Gateway,
    Exec,
}

impl Scope {
    /// Whether this build has what a key of this scope is for.
    pub const fn is_built_in(self) -> bool {
        HAS_AGENT || matches!(self, Self::Always)
    }

    /// Whether a key of this scope has an effect in a mode.
    pub fn includes(self, mode: Mode) -> bool {
        match self {
            Self::Always | Self::FullBuild => true,
            Self::Agent => mode != Mode::None,
            Self::OwnWorker => matches!(mode, Mode::Socket | Mode::Gateway),
            Self::Gateway => mode == Mode::Gateway,
            Self::Exec => mode == Mode::Exec,
        }
    }

    /// The names of the modes in which a key of this scope has an effect.
    pub fn modes(self) -> Vec<String> {
        let all = [Mode::Socket, Mode::Gateway, Mode::Exec, Mode::None].into_iter();
        all.filter(|mode| self.includes(*mode))
            .map(|mode| mode.show())
            .collect()
    }
}

impl Row {
    /// The name in errors and in `config show`: that of the file, else that of the flag or of the
    /// variable.
    pub fn label(&self) -> &'static str {
        self.toml
            .or(self.flag)
            .or(self.env.first().copied())
            .unwrap_or_default()
    }

    /// Whether this build has what the key is for.
    pub fn is_built_in(&self) -> bool {
        self.scope.is_built_in()
    }

    /// Section and name in the file.
    pub fn parts(&self) -> Option<(&'static str, &'static str)> {
        self.toml.and_then(|name| name.split_once('.'))
    }

    /// Accepted values, for people.
    pub fn accepted(&self) -> String {
        self.notation.accepted.to_owned() + &(self.values.limited)()
    }

    /// The default, for people.
    pub fn default_text(&self) -> String {
        let text = self.default_words.map_or_else(self.values.default_shown, str::to_owned);
        if text.is_empty() { "none".to_owned() } else { text }
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl<V: Value> Deref for Key<V> {
    type Target = Row;

    fn deref(&self) -> &Row {
        &self.row
    }
}
