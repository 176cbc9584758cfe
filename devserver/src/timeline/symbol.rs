//! The signs of a picture, for one moment or for some time, and their meanings.

use crate::store::job::End;

/// The paint of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tone {
    Plain,
    Dim,
    Good,
    Warn,
    Bad,
    Note,
}

/// The state of a worker by its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReportedState {
    Running,
    Quiet,
    Terminate,
    /// The heartbeat has no state, or another one.
    Other,
}

impl ReportedState {
    /// The state of an event of a heartbeat.
    pub fn of(state: Option<&str>) -> Self {
        match state {
            Some("running") => Self::Running,
            Some("quiet") => Self::Quiet,
            Some("terminate") => Self::Terminate,
            Some(_) | None => Self::Other,
        }
    }

    /// The name in a list of moments.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Quiet => "quiet",
            Self::Terminate => "terminate",
            Self::Other => "nothing",
        }
    }
}

/// The harm that a fault did to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Harm {
    Hang,
    Close,
    Delay,
    LoseReply,
    Truncate,
    /// The request was answered with this status.
    Status(u16),
}

/// A single moment. Of several in one column the greatest is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Symbol {
    /// A late answer left.
    LateAnswer,
    /// A FETCH returned this many jobs.
    Fetched(usize),
    /// A heartbeat arrived with this state.
    Heartbeat(ReportedState),
    Registered,
    /// A delivery began; to which worker, if there are several.
    DeliveryBegan(Option<char>),
    Harmed(Harm),
    /// The client that waited for an answer gave up.
    ClientLeft,
    /// The thing lasts beyond the end of the picture.
    GoesOn,
    /// A delivery ended.
    DeliveryEnded(End),
    Deregistered,
    DeclaredDead,
}

/// The letter of a delivery's end, its name, and its tone.
pub(super) fn look_of_end(end: End) -> (char, &'static str, Tone) {
    match end {
        End::Acked => ('A', "acked", Tone::Good),
        End::Requeued => ('R', "requeued", Tone::Note),
        End::Cancelled => ('C', "cancelled", Tone::Warn),
        End::Failed => ('F', "failed", Tone::Bad),
        End::VisibilityTimeout => ('T', "timed out", Tone::Bad),
        End::WorkerDeath => ('X', "its worker was declared dead", Tone::Bad),
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
    /// The letter, its meaning, and its tone.
    pub fn look(self) -> (char, String, Tone) {
        match self {
            Self::LateAnswer => ('|', "answered".into(), Tone::Good),
            Self::ClientLeft => ('x', "the client left".into(), Tone::Bad),
            Self::Fetched(0) => ('.', "FETCH, no job".into(), Tone::Dim),
            Self::Fetched(jobs) => {
                let digit = u32::try_from(jobs).ok().and_then(|jobs| char::from_digit(jobs, 10));
                (
                    digit.unwrap_or('+'),
                    "FETCH, so many jobs (+: ten or more)".into(),
                    Tone::Note,
                )
            }
            Self::Heartbeat(ReportedState::Running) => ('r', "says running".into(), Tone::Good),
            Self::Heartbeat(ReportedState::Quiet) => ('q', "says quiet".into(), Tone::Warn),
            Self::Heartbeat(ReportedState::Terminate) => ('t', "says terminate".into(), Tone::Bad),
            Self::Heartbeat(ReportedState::Other) => ('o', "says nothing".into(), Tone::Plain),
            Self::Registered => ('(', "register".into(), Tone::Note),
            Self::Deregistered => (')', "deregister".into(), Tone::Note),
            Self::DeclaredDead => ('X', "declared dead".into(), Tone::Bad),
            Self::DeliveryBegan(None) => ('[', "fetched".into(), Tone::Plain),
            Self::DeliveryBegan(Some(letter)) => (letter, "fetched by that worker".into(), Tone::Plain),
            Self::GoesOn => ('>', "goes on".into(), Tone::Warn),
            Self::DeliveryEnded(end) => {
                let (letter, meaning, tone) = look_of_end(end);
                (letter, meaning.into(), tone)
            }
            Self::Harmed(harm) => harm.look(),
        }
    }

    /// The words of the legend about the sign: its letter, or the letters that it replaces, and its
    /// meaning.
    pub fn legend(self) -> (String, String) {
        let (letter, meaning, _) = self.look();
        match self {
            Self::Fetched(1..) => ("1-9".into(), meaning),
            Self::DeliveryBegan(Some(_)) => ("A-Z".into(), meaning),
            Self::LateAnswer
            | Self::ClientLeft
            | Self::Fetched(0)
            | Self::Heartbeat(_)
            | Self::Registered
            | Self::DeliveryBegan(None)
            | Self::Harmed(_)
            | Self::GoesOn
            | Self::DeliveryEnded(_)
            | Self::Deregistered
            | Self::DeclaredDead => (letter.to_string(), meaning),
        }
    }

    /// Whether the letter is drawn on a shield: readers must find it at first sight.
    pub fn has_shield(self) -> bool {
        match self {
            Self::DeliveryEnded(_) | Self::DeclaredDead | Self::Harmed(_) | Self::ClientLeft => true,
            Self::LateAnswer
            | Self::Fetched(_)
            | Self::Heartbeat(_)
            | Self::Registered
            | Self::DeliveryBegan(_)
            | Self::GoesOn
            | Self::Deregistered => false,
        }
    }
}

/// The meaning of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpanKind {
    /// A worker is known to the server.
    Known,
    /// A job is reserved.
    Reserved,
    /// A request waits for its answer.
    Waiting,
    /// Clients cannot connect.
    Closed,
}

impl SpanKind {
    /// The letter, its meaning, and its tone.
    pub fn look(self) -> (char, &'static str, Tone) {
        match self {
            Self::Known => ('-', "worker, first to last sign", Tone::Dim),
            Self::Reserved => ('=', "reserved", Tone::Plain),
            Self::Waiting => ('~', "waits for the answer", Tone::Warn),
            Self::Closed => ('#', "the port is closed", Tone::Bad),
        }
    }

    /// The class of these bars in an SVG picture.
    pub fn class(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Reserved => "reserved",
            Self::Waiting => "waiting",
            Self::Closed => "closed",
        }
    }
}
