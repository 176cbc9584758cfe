//! From the text of a flag, a variable or the file to a typed value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::duration::{self, Human, HumanSize};
use super::keys::Kind;
use super::network::{BackendUrl, Header, Listen, Secret};
use super::user::{self, UserSpec};
use crate::exit::RemapExit;
use crate::signal::Signal;

/// Longest short text, in bytes.
const MAX_TEXT_BYTES: usize = 200;

/// A value of any [`Kind`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Number`] and [`Kind::Count`].
    Number(u64),
    /// Of [`Kind::Size`], in bytes.
    Size(u64),
    /// Of [`Kind::Duration`].
    Duration(Duration),
    /// Of [`Kind::Text`].
    Text(String),
    /// Of [`Kind::Path`].
    Path(PathBuf),
    /// Of [`Kind::Signal`] and [`Kind::CatchableSignal`].
    Signal(Signal),
    /// Of [`Kind::Choice`]: the word in the list's own spelling.
    Choice(&'static str),
    /// Of [`Kind::Names`].
    Names(Vec<String>),
    /// Of [`Kind::Uids`].
    Uids(Vec<u32>),
    /// Of [`Kind::Statuses`].
    Statuses(RemapExit),
    /// Of [`Kind::Rewrites`]; `None` drops the signal.
    Rewrites(BTreeMap<Signal, Option<Signal>>),
    /// Of [`Kind::Headers`].
    Headers(Vec<Header>),
    /// Of [`Kind::Url`].
    Url(BackendUrl),
    /// Of [`Kind::Listen`].
    Listen(Listen),
    /// Of [`Kind::User`].
    User(UserSpec),
    /// Of [`Kind::Secret`].
    Secret(Secret),
}

impl Kind {
    /// What separates several values in one text, where there may be several.
    fn separator(self) -> Option<char> {
        match self {
            Self::Names | Self::Uids | Self::Statuses | Self::Rewrites => Some(','),
            Self::Headers => Some('\n'),
            Self::Switch
            | Self::Count
            | Self::Text
            | Self::Path
            | Self::Duration(..)
            | Self::Size(..)
            | Self::Number(..)
            | Self::Signal
            | Self::CatchableSignal
            | Self::Choice(_)
            | Self::Url
            | Self::Listen
            | Self::User
            | Self::Secret => None,
        }
    }

    /// Takes one text from a flag or a variable apart, where it may hold several values.
    pub fn split<'t>(self, text: &'t str, into: &mut Vec<&'t str>) {
        match self.separator() {
            Some(separator) => into.extend(text.split(separator).map(str::trim)),
            None => into.push(text),
        }
    }

    /// Reads the one text of a scalar, or all texts of a list.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that begins with the value: `is not a duration`. Never shows a secret.
    pub fn parse(self, texts: &[&str]) -> Result<Value, String> {
        let text = texts.first().copied().unwrap_or_default();
        match self {
            Self::Switch => switch(text).map(Value::Switch).ok_or("is neither true nor false"),
            Self::Count => number(text, 0, u64::from(u8::MAX)).map(Value::Number),
            Self::Text => short_text(text).map(Value::Text),
            Self::Path => path(text).map(Value::Path),
            Self::Duration(from, to) => duration::parse(text)
                .ok_or("is not a duration")
                .and_then(|value| within(value, from, to))
                .map(Value::Duration),
            Self::Size(from, to) => duration::parse_size(text)
                .ok_or("is not a size")
                .and_then(|value| within(value, from, to))
                .map(Value::Size),
            Self::Number(from, to) => number(text, from, to).map(Value::Number),
            Self::Signal => text.parse().map(Value::Signal).map_err(|_| "is not a signal"),
            Self::CatchableSignal => catchable(text).map(Value::Signal),
            Self::Choice(words) => choice(text, words)
                .map(Value::Choice)
                .ok_or("is not one of the known words"),
            Self::Names => names(texts).map(Value::Names),
            Self::Uids => uids(texts).map(Value::Uids).ok_or("has an entry that is not a user id"),
            Self::Statuses => statuses(texts).map(Value::Statuses),
            Self::Rewrites => rewrites(texts).map(Value::Rewrites),
            Self::Headers => return headers(texts).map(Value::Headers),
            Self::Url => BackendUrl::parse(text).map(Value::Url),
            Self::Listen => Listen::parse(text)
                .map(Value::Listen)
                .ok_or("is not an address to listen on"),
            Self::User => UserSpec::parse(text).map(Value::User).ok_or("is not a user"),
            Self::Secret => Secret::parse(text)
                .map(Value::Secret)
                .ok_or("does not fit into a header"),
        }
        .map_err(str::to_owned)
    }

    /// What this kind accepts, for people.
    #[must_use]
    pub fn accepted(self) -> String {
        match self {
            Self::Switch => "true or false (also 1/0, yes/no, on/off)".to_owned(),
            Self::Count => "a number from 0 to 255".to_owned(),
            Self::Text => format!("1 to {MAX_TEXT_BYTES} printable ASCII characters"),
            Self::Path => "a path".to_owned(),
            Self::Duration(from, to) => {
                format!(
                    "250ms, 25s, 1m30s, 1h, a bare number is seconds; from {} to {}",
                    Human(from),
                    Human(to)
                )
            }
            Self::Size(from, to) => {
                format!(
                    "4MiB, 64KiB, a bare number is bytes; from {} to {}",
                    HumanSize(from),
                    HumanSize(to)
                )
            }
            Self::Number(from, to) => format!("a whole number from {from} to {to}"),
            Self::Signal => "a name (TERM, SIGTERM, RTMIN+3) or a number from 1 to 64".to_owned(),
            Self::CatchableSignal => {
                "a name (TERM, SIGTERM, RTMIN+3) or a number from 1 to 64, but not KILL and STOP, \
                                      which no worker can handle"
                    .to_owned()
            }
            Self::Choice(words) => words.join(", "),
            Self::Names => "one or more different names, with commas between; in the file [\"a\", \"b\"]".to_owned(),
            Self::Uids => "numeric user ids, with commas between; in the file [1000, 1001]".to_owned(),
            Self::Statuses => "exit statuses from 0 to 255".to_owned(),
            Self::Rewrites => "FROM:TO, each a signal's name or number; FROM any that can be caught but CHLD, \
                               TO any signal, or 0 to drop FROM"
                .to_owned(),
            Self::Headers => "'Name: value'; in the file a table: headers = { Name = \"value\" }".to_owned(),
            Self::Url => "http://HOST[:PORT][/PREFIX] or the same with https".to_owned(),
            Self::Listen => "IP:PORT, [IPV6]:PORT, localhost:PORT, :PORT for every address, or off".to_owned(),
            Self::User => "USER or USER:GROUP, each a name or a number".to_owned(),
            Self::Secret => "printable ASCII characters without blanks".to_owned(),
        }
    }
}

fn catchable(text: &str) -> Result<Signal, &'static str> {
    let signal: Signal = text.parse().map_err(|_| "is not a signal")?;
    if signal.is_catchable() {
        Ok(signal)
    } else {
        Err("is a signal that no worker can handle")
    }
}

fn switch(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&["true", "1", "yes", "on"]) {
        Some(true)
    } else if is(&["false", "0", "no", "off"]) {
        Some(false)
    } else {
        None
    }
}

fn within<T: PartialOrd>(value: T, from: T, to: T) -> Result<T, &'static str> {
    if value < from {
        Err("is too small")
    } else if value > to {
        Err("is too large")
    } else {
        Ok(value)
    }
}

fn number(text: &str, from: u64, to: u64) -> Result<u64, &'static str> {
    duration::whole(text)
        .ok_or("is not a whole number")
        .and_then(|value| within(value, from, to))
}

fn short_text(text: &str) -> Result<String, &'static str> {
    let fits = (1..=MAX_TEXT_BYTES).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    fits.then(|| text.to_owned()).ok_or("is not a short text")
}

fn path(text: &str) -> Result<PathBuf, &'static str> {
    let usable = !text.is_empty() && !text.contains('\0');
    usable.then(|| PathBuf::from(text)).ok_or("is not a path")
}

/// Words in any case; `warning` is how some SDKs spell the level in the variable that we share with them.
fn choice(text: &str, words: &'static [&'static str]) -> Option<&'static str> {
    let text = if text.eq_ignore_ascii_case("warning") {
        "warn"
    } else {
        text
    };
    words.iter().copied().find(|word| word.eq_ignore_ascii_case(text))
}

fn names(texts: &[&str]) -> Result<Vec<String>, &'static str> {
    if texts.is_empty() {
        return Err("is empty");
    }
    if texts.iter().any(|name| name.is_empty()) {
        return Err("has an empty name");
    }
    if texts
        .iter()
        .any(|name| name.chars().any(|c| c.is_control() || c.is_whitespace()))
    {
        return Err("has a name with a blank or a control character");
    }
    if texts
        .iter()
        .enumerate()
        .any(|(position, name)| texts[..position].contains(name))
    {
        return Err("has a name twice");
    }
    Ok(texts.iter().map(|name| (*name).to_owned()).collect())
}

fn uids(texts: &[&str]) -> Option<Vec<u32>> {
    texts.iter().map(|text| user::id(text)).collect()
}

fn statuses(texts: &[&str]) -> Result<RemapExit, &'static str> {
    let mut statuses = RemapExit::default();
    for text in texts {
        let status = duration::whole(text).and_then(|number| u8::try_from(number).ok());
        statuses.insert(status.ok_or("is not an exit status")?);
    }
    Ok(statuses)
}

fn rewrites(texts: &[&str]) -> Result<BTreeMap<Signal, Option<Signal>>, &'static str> {
    let mut rewrites = BTreeMap::new();
    for text in texts {
        let (from, to) = text.split_once(':').ok_or("has a pair without a colon")?;
        let from: Signal = from.parse().map_err(|_| "has a FROM that is not a signal")?;
        if !from.is_catchable() || from == Signal::CHLD {
            return Err("has a FROM that never reaches ojs-init as a signal to forward");
        }
        let to = match to {
            "0" => None,
            to => Some(to.parse().map_err(|_| "has a TO that is not a signal")?),
        };
        if rewrites.insert(from, to).is_some_and(|before| before != to) {
            return Err("rewrites one signal to two");
        }
    }
    Ok(rewrites)
}

fn headers(texts: &[&str]) -> Result<Vec<Header>, String> {
    let mut headers: Vec<Header> = Vec::new();
    for text in texts {
        let header = Header::parse(text)?;
        if headers
            .iter()
            .any(|other| other.name.eq_ignore_ascii_case(&header.name))
        {
            return Err(format!("sets {} twice", header.name));
        }
        headers.push(header);
    }
    Ok(headers)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => on.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Size(bytes) => HumanSize(*bytes).fmt(f),
            Self::Duration(duration) => Human(*duration).fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Path(path) => path.display().fmt(f),
            Self::Signal(signal) => signal.fmt(f),
            Self::Choice(word) => f.write_str(word),
            Self::Names(names) => f.write_str(&names.join(",")),
            Self::Uids(uids) => list(f, uids.iter(), ","),
            Self::Statuses(statuses) => list(f, (0..=u8::MAX).filter(|status| statuses.contains(*status)), ","),
            Self::Rewrites(rewrites) => list(f, rewrites.iter().map(|(from, to)| Pair(*from, *to)), ","),
            Self::Headers(headers) => list(f, headers.iter(), "; "),
            Self::Url(url) => f.write_str(url.as_str()),
            Self::Listen(listen) => listen.fmt(f),
            Self::User(user) => user.fmt(f),
            Self::Secret(_) => f.write_str("(set, not shown)"),
        }
    }
}

/// One rewrite as `-r` takes it.
struct Pair(Signal, Option<Signal>);

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(to) => write!(f, "{}:{to}", self.0),
            None => write!(f, "{}:0", self.0),
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: impl Iterator<Item = T>, separator: &str) -> fmt::Result {
    for (position, item) in items.enumerate() {
        if position > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::keys::KEYS;

    fn is_accepted(kind: Kind, texts: &[&str]) -> bool {
        kind.parse(texts).is_ok()
    }

    #[test]
    fn switches_are_read_in_every_usual_spelling() {
        for (on, off) in [("true", "false"), ("1", "0"), ("yes", "no"), ("ON", "Off")] {
            assert_eq!(Kind::Switch.parse(&[on]), Ok(Value::Switch(true)));
            assert_eq!(Kind::Switch.parse(&[off]), Ok(Value::Switch(false)));
        }
        assert!(!is_accepted(Kind::Switch, &["maybe"]) && !is_accepted(Kind::Switch, &[""]));
    }

    #[test]
    fn limits_belong_to_what_is_accepted() {
        let kind = Kind::Number(1, 10);
        assert!(is_accepted(kind, &["1"]) && is_accepted(kind, &["10"]));
        for text in ["0", "11", "-1", "+1", "1.0", "", " 1", "99999999999999999999"] {
            assert!(!is_accepted(kind, &[text]), "{text:?}");
        }
    }

    #[test]
    fn names_are_one_or_more_and_neither_empty_nor_double_nor_blank() {
        assert!(is_accepted(Kind::Names, &["a"]));
        for names in [&[][..], &[""], &["a", ""], &["a", "a"], &["a b"], &["a\n"]] {
            assert!(!is_accepted(Kind::Names, names), "{names:?}");
        }
    }

    #[test]
    fn a_rewrite_takes_names_and_numbers_and_drops_on_zero() {
        let parsed = Kind::Rewrites.parse(&["term:QUIT", "1:0", "USR1:9", "TERM:3"]).unwrap();
        assert_eq!(parsed.to_string(), "SIGHUP:0,SIGUSR1:SIGKILL,SIGTERM:SIGQUIT");
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
            assert!(!is_accepted(Kind::Rewrites, &[pair]), "{pair}");
        }
        assert!(!is_accepted(Kind::Rewrites, &["TERM:QUIT", "15:INT"]));
    }

    #[test]
    fn a_signal_at_a_transition_is_one_that_a_worker_can_handle() {
        for text in ["USR1", "SIGTERM", "tstp", "34"] {
            assert!(is_accepted(Kind::CatchableSignal, &[text]), "{text}");
        }
        for text in ["KILL", "SIGSTOP", "9", "19"] {
            let error = Kind::CatchableSignal.parse(&[text]).unwrap_err();
            assert!(error.contains("no worker can handle"), "{text}: {error}");
            assert!(is_accepted(Kind::Signal, &[text]), "{text}");
        }
        assert!(!is_accepted(Kind::CatchableSignal, &["nothing"]));
    }

    #[test]
    fn exit_statuses_are_those_that_exist() {
        assert_eq!(
            Kind::Statuses.parse(&["143", "0", "255"]).unwrap().to_string(),
            "0,143,255"
        );
        for status in ["256", "-1", "x", ""] {
            assert!(!is_accepted(Kind::Statuses, &[status]), "{status}");
        }
    }

    #[test]
    fn a_header_may_be_given_once() {
        assert!(is_accepted(Kind::Headers, &["A: b", "B: c"]));
        assert!(!is_accepted(Kind::Headers, &["A: b", "a: c"]));
    }

    #[test]
    fn lists_are_taken_apart_at_their_separator() {
        let split = |kind: Kind, text: &'static str| {
            let mut texts = Vec::new();
            kind.split(text, &mut texts);
            texts
        };
        assert_eq!(split(Kind::Names, "a, b,"), ["a", "b", ""]);
        assert_eq!(split(Kind::Headers, "A: b,c\nB: d"), ["A: b,c", "B: d"]);
        assert_eq!(split(Kind::Path, "/a,b"), ["/a,b"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic(texts in prop::collection::vec(".{0,20}", 0..3)) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            for key in &KEYS {
                let _ = key.kind.parse(&texts).map(|value| value.to_string());
            }
        }
    }
}
