//! Tables of mode exec that only the file can hold: the commands for jobs, and the meanings of
//! their ends.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::duration::{Human, parse, whole};
use super::{Form, Notation, Problem, Value, joined};
use ojs_lifecycle::api::LONGEST_HOLD;
use ojs_values::signal::Signal;
use ojs_values::small;

/// Between the pattern and the words of a command in one text: no argument can hold it.
pub const WORDS_APART: char = '\0';

/// Between a name and its value in one text of a table.
pub const NAME_APART: char = '=';

/// Prefix of the meaning of an end: the job is given back after so long.
const LATER: &str = "later:";

/// The program for jobs of some types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRoute {
    /// A job's type; with `*` at its end every type that begins like this.
    pub pattern: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl ExecRoute {
    /// The precision of the pattern. A full type precedes a prefix, and a longer prefix precedes a
    /// shorter one.
    fn rank(&self) -> (bool, usize) {
        (!self.pattern.ends_with('*'), self.pattern.len())
    }

    /// True if the route accepts jobs of this type.
    pub fn takes(&self, kind: &str) -> bool {
        let beginning = self.pattern.strip_suffix('*');
        beginning.map_or(self.pattern == kind, |beginning| kind.starts_with(beginning))
    }

    fn read(text: &str) -> Result<Self, Problem> {
        let mut words = text.split(WORDS_APART).map(str::to_owned);
        let pattern = words.next().unwrap_or_default();
        let command: Vec<String> = words.collect();
        let is_blank = |c: char| c.is_control() || c.is_whitespace();
        let begins = pattern.strip_suffix('*').unwrap_or(&pattern);
        if pattern.is_empty() || pattern.contains(is_blank) {
            Err(format!("has a pattern {pattern:?} that is empty or has a blank in it").into())
        } else if begins.contains('*') {
            Err(format!("has a pattern {pattern:?} with a * that is not at its end").into())
        } else if command.first().is_none_or(String::is_empty) {
            Err(format!("has no program for {pattern:?}").into())
        } else {
            Ok(Self { pattern, command })
        }
    }
}

/// Programs by the types of their jobs, in the order in which they are looked through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecRoutes(pub Vec<ExecRoute>);

impl Value for ExecRoutes {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Commands,
        "ROUTES",
        "video.*\0./transcode.sh\0--fast",
        "a table in the file of types, or beginnings of types and a *, each with a program and its arguments: \
         routes = { \"video.*\" = [\"./transcode.sh\", \"--fast\"] }",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let routes: Result<Vec<ExecRoute>, Problem> = texts.iter().map(|text| ExecRoute::read(text)).collect();
        let mut routes = routes?;
        small::sort_by(&mut routes, |a, b| (b.rank(), &a.pattern) < (a.rank(), &b.pattern));
        Ok(Self(routes))
    }

    fn show(&self) -> String {
        joined(self.0.iter().map(|route| &route.pattern), ",")
    }

    fn texts(&self) -> Vec<String> {
        let words = |route: &ExecRoute| [std::slice::from_ref(&route.pattern), &route.command].concat();
        let texts = self.0.iter().map(|route| words(route).join(&WORDS_APART.to_string()));
        texts.collect()
    }

    /// An argument may be a secret, so the error names only the pattern.
    fn quotable(_: &str) -> Option<std::borrow::Cow<'_, str>> {
        None
    }
}

/// The outcome of a job by the end of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitVerdict {
    /// The job is done.
    Ack,
    /// The job is given back after this time, and no failure is recorded.
    Release(Duration),
    /// The job has failed, and may be tried again.
    Retry,
    /// The job has failed for good.
    Discard,
}

impl ExitVerdict {
    /// The verdicts without a time.
    const WORDS: [Self; 4] = [Self::Ack, Self::Release(Duration::ZERO), Self::Retry, Self::Discard];

    /// The word in the file.
    pub fn word(self) -> String {
        match self {
            Self::Ack => "ack".to_owned(),
            Self::Release(Duration::ZERO) => "release".to_owned(),
            Self::Release(time) => format!("{LATER}{}", Human(time)),
            Self::Retry => "retry".to_owned(),
            Self::Discard => "discard".to_owned(),
        }
    }

    fn read(word: &str) -> Option<Self> {
        if let Some(time) = word.strip_prefix(LATER) {
            return parse(time).filter(|time| *time <= LONGEST_HOLD).map(Self::Release);
        }
        Self::WORDS.into_iter().find(|verdict| verdict.word() == word)
    }
}

/// How the process of a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessEnd {
    Status(u8),
    Signal(Signal),
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => status.fmt(f),
            Self::Signal(signal) => signal.fmt(f),
        }
    }
}

impl ProcessEnd {
    fn read(text: &str) -> Option<Self> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return whole(text)
                .and_then(|status| u8::try_from(status).ok())
                .map(Self::Status);
        }
        // A number with a sign is neither.
        let name = Some(text).filter(|text| text.starts_with(|first: char| first.is_ascii_alphabetic()))?;
        name.parse().ok().map(Self::Signal)
    }
}

/// The meanings of ends; one that is not named here is [`ExitVerdict::Retry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdicts(pub BTreeMap<ProcessEnd, ExitVerdict>);

impl Default for Verdicts {
    fn default() -> Self {
        let usual = [
            (0, ExitVerdict::Ack),
            (75, ExitVerdict::Release(Duration::ZERO)),
            (100, ExitVerdict::Discard),
        ];
        Self(
            usual
                .map(|(status, verdict)| (ProcessEnd::Status(status), verdict))
                .into(),
        )
    }
}

impl Value for Verdicts {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Table,
        "TABLE",
        "2=discard,SIGXCPU=retry",
        "a table in the file of exit statuses from 0 to 255 and signals, each ack, release, later:TIME (30s at most), retry or discard: \
         exit = { 2 = \"discard\", SIGXCPU = \"retry\" }; what it does not name is as by default, else retry",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let mut named = BTreeMap::new();
        for text in texts {
            let (end, word) = text.split_once(NAME_APART).ok_or("has an entry that is not a pair")?;
            let end = ProcessEnd::read(end)
                .ok_or_else(|| format!("has an entry {end:?}, which is neither an exit status nor a signal"))?;
            let verdict = ExitVerdict::read(word).ok_or_else(|| {
                format!("has {word:?} for {end}, which is none of ack, release, later:TIME up to 30s, retry, discard")
            })?;
            if named.insert(end, verdict).is_some() {
                return Err(format!("has {end} twice").into());
            }
        }
        let mut all = Self::default();
        all.0.extend(named);
        Ok(all)
    }

    fn show(&self) -> String {
        joined(
            self.0
                .iter()
                .map(|(end, verdict)| format!("{end}{NAME_APART}{}", verdict.word())),
            ",",
        )
    }
}

/// Names of variables whose values are struck from the reports about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redactions(pub Vec<String>);

impl Default for Redactions {
    fn default() -> Self {
        Self(["*_TOKEN", "*_SECRET", "*_PASSWORD", "*_KEY"].map(str::to_owned).into())
    }
}

impl Value for Redactions {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Strings,
        "NAMES",
        "*_TOKEN,DATABASE_URL",
        "names of variables, with commas between, * at the beginning or the end for anything; or off; in the file [\"*_TOKEN\"]",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        if matches!(texts, [] | ["off"]) {
            return Ok(Self(Vec::new()));
        }
        let is_name = |text: &&&str| {
            let bare = text.strip_prefix('*').unwrap_or(text);
            let bare = bare.strip_suffix('*').unwrap_or(bare);
            !bare.is_empty()
                && bare
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !b"*=".contains(&byte))
        };
        match texts.iter().find(|text| !is_name(text)) {
            Some(wrong) => Err(format!("has {wrong:?}, which is no name of a variable").into()),
            None => Ok(Self(texts.iter().map(|text| (*text).to_owned()).collect())),
        }
    }

    fn show(&self) -> String {
        if self.0.is_empty() {
            return "off".to_owned();
        }
        self.0.join(",")
    }

    /// A name in the file may have a comma.
    fn texts(&self) -> Vec<String> {
        if self.0.is_empty() {
            return vec![self.show()];
        }
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pattern_comes_first_and_a_type_spelled_out_before_all() {
        let routes = ExecRoutes::read(&["a.*\0x", "*\0x", "a.b.*\0x", "a\0x", "b\0y\0-z\0"], &()).unwrap();
        assert_eq!(routes.show(), "a,b,a.b.*,a.*,*");
        assert_eq!(routes.0[1].command, ["y", "-z", ""]);
    }

    #[test]
    fn a_route_has_a_pattern_and_a_program() {
        for (text, problem) in [
            ("\0x", "empty"),
            ("a b\0x", "blank"),
            ("a*b\0x", "not at its end"),
            ("a**\0x", "not at its end"),
            ("a", "no program for \"a\""),
            ("a\0", "no program for \"a\""),
        ] {
            let error = ExecRoutes::read(&[text], &()).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_a_table_of_ends_does_not_name_stays_as_it_is() {
        let verdicts = Verdicts::read(&["2=discard", "xcpu=retry", "75=retry"], &()).unwrap();
        assert_eq!(verdicts.show(), "0=ack,2=discard,75=retry,100=discard,SIGXCPU=retry");
        assert_eq!(Verdicts::read(&[], &()), Ok(Verdicts::default()));
    }

    #[test]
    fn an_end_is_a_status_or_a_signal_and_has_one_verdict() {
        for (texts, problem) in [
            (&["256=ack"][..], "neither an exit status"),
            (&["NOTHING=ack"], "neither an exit status"),
            (&["-1=ack"], "neither an exit status"),
            (&["+32=ack"], "neither an exit status"),
            (&["2=fail"], "\"fail\" for 2"),
            (&["2"], "not a pair"),
            (&["9=ack", "09=retry"], "9 twice"),
            (&["KILL=ack", "SIGKILL=ack"], "SIGKILL twice"),
        ] {
            let error = Verdicts::read(texts, &()).unwrap_err();
            assert!(error.contains(problem), "{texts:?}: {error}");
        }
    }

    #[test]
    fn what_is_struck_out_can_be_switched_off() {
        assert_eq!(Redactions::read(&["off"], &()).unwrap().show(), "off");
        assert_eq!(Redactions::read(&[], &()).unwrap().show(), "off");
        assert_eq!(Redactions::read(&["*_X", "Y", "*Z*"], &()).unwrap().show(), "*_X,Y,*Z*");
        for text in ["", "*", "**", "a*b", "a b", "A=b"] {
            assert!(Redactions::read(&["A", text], &()).is_err(), "{text:?}");
        }
    }
}
