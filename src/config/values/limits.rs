//! Limits of a job: memory, files, time of the processor; and the users that jobs run as.

use std::fmt;
use std::ops::RangeInclusive;

use ojs_values::small;

use super::duration::{Bytes, parse_size, whole};
use super::exec::NAME_APART;
use super::{Form, Notation, Problem, Value, joined, only, user, within};

/// Most copies of a worker. Each has at least one of the 1024 connections of the worker socket.
pub const MAX_PROCESSES: u32 = 256;

/// A share of the container's memory limit, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u8);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Percent {
    /// A whole number before a `%`.
    fn parse(text: &str) -> Option<Self> {
        let number = whole(text.strip_suffix('%')?)?;
        u8::try_from(number).ok().map(Self)
    }

    /// This share of so many bytes.
    pub fn of(self, bytes: u64) -> u64 {
        let share = u128::from(bytes) * u128::from(self.0) / 100;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// The share of the container's memory from which on no more jobs are fetched; `None`: no such
/// gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShare(pub Option<Percent>);

impl Value for MemoryShare {
    type Limits = RangeInclusive<Percent>;
    const NOTATION: Notation = Notation::new(
        Form::String,
        "SHARE",
        "90%",
        "off, or a share of the container's memory limit",
    );

    fn read(texts: &[&str], range: &Self::Limits) -> Result<Self, Problem> {
        let text = only(texts);
        if text == "off" {
            return Ok(Self(None));
        }
        let share = Percent::parse(text).ok_or("is neither off nor a share")?;
        within(share, range).map(|share| Self(Some(share)))
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "off".to_owned(), |share| share.to_string())
    }

    fn limited(range: &Self::Limits) -> String {
        format!(" from {} to {}", range.start(), range.end())
    }
}

/// A limit of memory, in bytes or as a share of the container's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    Bytes(Bytes),
    Share(Percent),
}

/// The least that a job can be limited to: less is not enough to start a program.
pub const LEAST_JOB_MEMORY: Bytes = Bytes(1 << 20);

impl MemoryLimit {
    /// The limit in bytes. `None`: a share of a container without a limit.
    pub fn bytes(self, container: impl FnOnce() -> Option<u64>) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.0),
            Self::Share(share) => container().map(|limit| share.of(limit)),
        }
    }
}

impl Value for MemoryLimit {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::StringOrInteger,
        "SIZE|SHARE",
        "50%",
        "a size from 1MiB on (512MiB, a bare number is bytes), or a share of the container's limit from 1% to 100%",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let text = only(texts);
        if text.ends_with('%') {
            let share = Percent::parse(text).ok_or("is not a share")?;
            return within(share, &(Percent(1)..=Percent(100))).map(Self::Share);
        }
        let bytes = parse_size(text).ok_or("is neither a size nor a share")?;
        within(Bytes(bytes), &(LEAST_JOB_MEMORY..=Bytes(u64::MAX))).map(Self::Bytes)
    }

    fn show(&self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Share(share) => share.to_string(),
        }
    }
}

/// How much a job yields the processor to other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Nice(pub i32);

impl Value for Nice {
    type Limits = RangeInclusive<Self>;
    const NOTATION: Notation = Notation::new(Form::StringOrInteger, "NUMBER", "10", "a whole number");

    fn read(texts: &[&str], range: &Self::Limits) -> Result<Self, Problem> {
        let text = only(texts);
        let digits = text.strip_prefix('-').unwrap_or(text);
        let size = whole(digits).ok_or("is not a whole number")?;
        let size = i32::try_from(size).map_err(|_| "is not a niceness")?;
        within(Self(if digits == text { size } else { -size }), range)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }

    fn limited(range: &Self::Limits) -> String {
        format!(
            " from {} (goes first, as root) to {} (steps back for all)",
            range.start().0,
            range.end().0
        )
    }
}

/// Uids, one for each job that can run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uids {
    pub first: u32,
    /// At least `first`.
    pub last: u32,
}

impl Uids {
    /// How many there are.
    pub fn count(self) -> u32 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

impl Value for Uids {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "FIRST-LAST",
        "80000-80099",
        "a range of numeric user ids above 0 that nobody else has: FIRST-LAST",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let (first, last) = only(texts).split_once('-').ok_or("is not a range")?;
        let id = |text| user::id(text).ok_or("has an end that is not a user id");
        let (first, last) = (id(first)?, id(last)?);
        if first == 0 {
            return Err("has root in it, whose processes a job's end would end".into());
        }
        if last < first {
            return Err("ends before it begins".into());
        }
        Ok(Self { first, last })
    }

    fn show(&self) -> String {
        format!("{}-{}", self.first, self.last)
    }
}

/// Resources of a process that the kernel limits (`setrlimit`), and whether in bytes.
const RESOURCES: [(&str, bool); 16] = [
    ("as", true),
    ("core", true),
    ("cpu", false),
    ("data", true),
    ("fsize", true),
    ("locks", false),
    ("memlock", true),
    ("msgqueue", true),
    ("nice", false),
    ("nofile", false),
    ("nproc", false),
    ("rss", true),
    ("rtprio", false),
    ("rttime", false),
    ("sigpending", false),
    ("stack", true),
];

/// How a limit is spelled that is none.
const UNLIMITED: &str = "unlimited";

/// One limit of the kernel for a job's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rlimit {
    /// One of the kernel's names, in small letters without `RLIMIT_`.
    pub resource: &'static str,
    /// `None`: unlimited.
    pub soft: Option<u64>,
    /// `None`: unlimited; never below `soft`.
    pub hard: Option<u64>,
}

impl Rlimit {
    fn read(text: &str) -> Result<Self, Problem> {
        let (name, value) = text.split_once(NAME_APART).ok_or("has an entry that is not a pair")?;
        let known = RESOURCES.into_iter().find(|(known, _)| *known == name);
        let (resource, is_bytes) = known.ok_or_else(|| format!("has {name:?}, which is no limit of the kernel"))?;
        let part = |text: &str| match text {
            UNLIMITED => Ok(None),
            _ if is_bytes => parse_size(text).map(Some).ok_or("a size"),
            _ => whole(text).map(Some).ok_or("a whole number"),
        };
        let (soft, hard) = value.split_once(':').unwrap_or((value, value));
        let (soft, hard) = part(soft)
            .and_then(|soft| Ok((soft, part(hard)?)))
            .map_err(|wanted| format!("has {value:?} for {name}, which is not {wanted} or two with a colon between"))?;
        if soft.unwrap_or(u64::MAX) > hard.unwrap_or(u64::MAX) {
            return Err(format!("has {value:?} for {name}, where the soft limit is above the hard one").into());
        }
        Ok(Self { resource, soft, hard })
    }
}

impl fmt::Display for Rlimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |limit: Option<u64>| limit.map_or_else(|| UNLIMITED.to_owned(), |limit| limit.to_string());
        write!(
            f,
            "{}{NAME_APART}{}:{}",
            self.resource,
            part(self.soft),
            part(self.hard)
        )
    }
}

/// All limits of the kernel for a job's process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rlimits(pub Vec<Rlimit>);

impl Value for Rlimits {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Table,
        "TABLE",
        "nofile=1024:4096",
        "a table in the file of the kernel's names (as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, \
         rss, rtprio, rttime, sigpending, stack), each with a number, a size where it counts bytes, or unlimited, or with a soft \
         and a hard one: rlimits = { nofile = \"1024:4096\" }",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let limits: Result<Vec<Rlimit>, Problem> = texts.iter().map(|text| Rlimit::read(text)).collect();
        let mut limits = limits?;
        small::sort_by(&mut limits, |one, other| one.resource < other.resource);
        Ok(Self(limits))
    }

    fn show(&self) -> String {
        joined(self.0.iter(), ",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_job_is_a_size_or_a_share() {
        for (text, shown) in [
            ("512MiB", "512MiB"),
            ("1048576", "1MiB"),
            ("50%", "50%"),
            ("100%", "100%"),
        ] {
            assert_eq!(MemoryLimit::read(&[text], &()).unwrap().show(), shown);
        }
        for text in ["", "%", "0%", "101%", "300%", "-5%", "1.5%", "1023KiB", "much", "0.5"] {
            assert!(MemoryLimit::read(&[text], &()).is_err(), "{text:?}");
        }
        assert_eq!(Percent(50).of(1 << 30), 1 << 29);
        assert_eq!(Percent(100).of(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_share_of_the_memory_is_in_percent_or_off() {
        let range = Percent(10)..=Percent(99);
        for (text, shown) in [("off", "off"), ("10%", "10%"), ("99%", "99%")] {
            assert_eq!(MemoryShare::read(&[text], &range).unwrap().show(), shown);
        }
        for text in ["", "90", "0.9", "9%", "100%", "90 %", "-90%", "OFF%"] {
            assert!(MemoryShare::read(&[text], &range).is_err(), "{text:?}");
        }
    }

    #[test]
    fn niceness_has_a_sign_and_ends() {
        let range = Nice(-20)..=Nice(19);
        for (text, number) in [("-20", -20), ("0", 0), ("19", 19)] {
            assert_eq!(Nice::read(&[text], &range), Ok(Nice(number)));
        }
        for text in ["-21", "20", "", "-", "--5", "+5", "1.5", "99999999999"] {
            assert!(Nice::read(&[text], &range).is_err(), "{text:?}");
        }
    }

    #[test]
    fn uids_are_a_range_without_root() {
        let uids = Uids::read(&["80000-80099"], &()).unwrap();
        assert_eq!((uids.count(), uids.show()), (100, "80000-80099".to_owned()));
        assert_eq!(Uids::read(&["7-7"], &()).unwrap().count(), 1);
        for (text, problem) in [
            ("80000", "not a range"),
            ("0-10", "root"),
            ("10-9", "ends before"),
            ("a-b", "not a user id"),
            ("1-4294967295", "not a user id"),
            ("1-2-3", "not a user id"),
        ] {
            let error = Uids::read(&[text], &()).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_limit_is_soft_and_hard_or_one_number_for_both() {
        let texts = [
            "nproc=64",
            "nofile=1024:4096",
            "as=1GiB:unlimited",
            "core=0",
            "cpu=unlimited",
        ];
        let expected = "as=1073741824:unlimited,core=0:0,cpu=unlimited:unlimited,nofile=1024:4096,nproc=64:64";
        assert_eq!(Rlimits::read(&texts, &()).unwrap().show(), expected);
        for (text, problem) in [
            ("nofiles=1", "\"nofiles\", which is no limit"),
            ("NOFILE=1", "no limit of the kernel"),
            ("nofile=many", "\"many\" for nofile"),
            ("nofile=1KiB", "a whole number"),
            ("as=", "a size"),
            ("as=1:2:3", "a size"),
            ("nofile=2:1", "above the hard one"),
            ("nofile=unlimited:1", "above the hard one"),
            ("nofile", "not a pair"),
        ] {
            let error = Rlimits::read(&[text], &()).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }
}
