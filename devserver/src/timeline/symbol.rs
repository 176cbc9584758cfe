//! What is drawn at one moment, and what it means.

use crate::store::job::End;

/// What a letter is painted like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tone {
    Plain,
    Dim,
    Good,
    Warn,
    Bad,
    Note,
}

/// What a worker says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    Running,
    Quiet,
    Terminate,
    /// Nothing, or something else.
    Other,
}

impl Said {
    pub fn of(state: Option<&str>) -> Self {
        match state {
            Some("running") => Self::Running,
            Some("quiet") => Self::Quiet,
            Some("terminate") => Self::Terminate,
            Some(_) | None => Self::Other,
        }
    }
}

/// What a fault did to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Harm {
    Hang,
    Close,
    Delay,
    LoseReply,
    Truncate,
    /// It was answered with this.
    Status(u16),
}

/// Something that happened at one moment. Of several that fall into one column the greatest is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Symbol {
    /// A late answer left.
    Answered,
    /// FETCH that gave so many jobs.
    Fetched(usize),
    /// A heartbeat.
    Beat(Said),
    Registered,
    /// A delivery began; to which worker, when there are several.
    Began(Option<char>),
    Harmed(Harm),
    /// Whoever waited for an answer gave up.
    Left,
    /// It goes on where the picture ends.
    Open,
    /// A delivery ended.
    Ended(Ending),
    Deregistered,
    Dead,
}

/// [`End`], in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    Acked,
    Requeued,
    Cancelled,
    Failed,
    TimedOut,
    WorkerDied,
}

impl From<End> for Ending {
    fn from(end: End) -> Self {
        match end {
            End::Acked => Self::Acked,
            End::Failed => Self::Failed,
            End::Requeued => Self::Requeued,
            End::VisibilityTimeout => Self::TimedOut,
            End::WorkerDeath => Self::WorkerDied,
            End::Cancelled => Self::Cancelled,
        }
    }
}

impl Ending {
    /// Its letter, what it is called, and its tone.
    pub fn look(self) -> (char, &'static str, Tone) {
        match self {
            Self::Acked => ('A', "acked", Tone::Good),
            Self::Requeued => ('R', "requeued", Tone::Note),
            Self::Cancelled => ('C', "cancelled", Tone::Warn),
            Self::Failed => ('F', "failed", Tone::Bad),
            Self::TimedOut => ('T', "timed out", Tone::Bad),
            Self::WorkerDied => ('X', "its worker was declared dead", Tone::Bad),
        }
    }
}

impl Harm {
    fn look(self) -> (char, String, Tone) {
        match self {
            Self::Hang => ('h', "hang: no answer, ever".into(), Tone::Bad),
            Self::Close => ('c', "close: no answer".into(), Tone::Bad),
            Self::Delay => ('d', "delay".into(), Tone::Warn),
            Self::LoseReply => ('l', "lose_reply: done, no answer".into(), Tone::Bad),
            Self::Truncate => ('b', "truncate: done, answer broke off".into(), Tone::Bad),
            Self::Status(status) => {
                let digit = char::from_digit(u32::from(status / 100 % 10), 10).unwrap_or('?');
                (digit, format!("answered with {status}"), Tone::Bad)
            }
        }
    }
}

impl Symbol {
    /// Its letter, its meaning, and its tone.
    pub fn look(self) -> (char, String, Tone) {
        match self {
            Self::Answered => ('|', "answered".into(), Tone::Good),
            Self::Left => ('x', "the client left".into(), Tone::Bad),
            Self::Fetched(0) => ('.', "FETCH, no job".into(), Tone::Dim),
            Self::Fetched(jobs) => {
                let digit = u32::try_from(jobs).ok().and_then(|jobs| char::from_digit(jobs, 10));
                (
                    digit.unwrap_or('+'),
                    "FETCH, so many jobs (+: ten or more)".into(),
                    Tone::Note,
                )
            }
            Self::Beat(Said::Running) => ('r', "says running".into(), Tone::Good),
            Self::Beat(Said::Quiet) => ('q', "says quiet".into(), Tone::Warn),
            Self::Beat(Said::Terminate) => ('t', "says terminate".into(), Tone::Bad),
            Self::Beat(Said::Other) => ('o', "says nothing".into(), Tone::Plain),
            Self::Registered => ('(', "register".into(), Tone::Note),
            Self::Deregistered => (')', "deregister".into(), Tone::Note),
            Self::Dead => ('X', "declared dead".into(), Tone::Bad),
            Self::Began(None) => ('[', "fetched".into(), Tone::Plain),
            Self::Began(Some(letter)) => (letter, "fetched by that worker".into(), Tone::Plain),
            Self::Open => ('>', "goes on".into(), Tone::Warn),
            Self::Ended(ending) => {
                let (letter, meaning, tone) = ending.look();
                (letter, meaning.into(), tone)
            }
            Self::Harmed(harm) => harm.look(),
        }
    }

    /// What the legend has for it: its letter, or the letters that it stands for, and its meaning.
    pub fn legend(self) -> (String, String) {
        let (letter, meaning, _) = self.look();
        match self {
            Self::Fetched(1..) => ("1-9".into(), meaning),
            Self::Began(Some(_)) => ("A-Z".into(), meaning),
            Self::Answered
            | Self::Left
            | Self::Fetched(0)
            | Self::Beat(_)
            | Self::Registered
            | Self::Began(None)
            | Self::Harmed(_)
            | Self::Open
            | Self::Ended(_)
            | Self::Deregistered
            | Self::Dead => (letter.to_string(), meaning),
        }
    }

    /// Whether it is drawn on a shield of its own: what a look at the picture is to find at once.
    pub fn has_shield(self) -> bool {
        match self {
            Self::Ended(_) | Self::Dead | Self::Harmed(_) | Self::Left => true,
            Self::Answered
            | Self::Fetched(_)
            | Self::Beat(_)
            | Self::Registered
            | Self::Began(_)
            | Self::Open
            | Self::Deregistered => false,
        }
    }
}

/// What lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lasting {
    /// The worker is known.
    Known,
    /// The job is reserved.
    Reserved,
    /// A request waits for its answer.
    Waiting,
    /// Nobody can connect.
    Closed,
}

impl Lasting {
    /// Its letter, its meaning, and its tone.
    pub fn look(self) -> (char, &'static str, Tone) {
        match self {
            Self::Known => ('-', "worker, first to last sign", Tone::Dim),
            Self::Reserved => ('=', "reserved", Tone::Plain),
            Self::Waiting => ('~', "waits for the answer", Tone::Warn),
            Self::Closed => ('#', "the port is closed", Tone::Bad),
        }
    }

    /// Its class in an SVG picture.
    pub fn class(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Reserved => "reserved",
            Self::Waiting => "waiting",
            Self::Closed => "closed",
        }
    }
}
