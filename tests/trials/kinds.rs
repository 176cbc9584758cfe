//! What can be put together: workers, backends, moments, and how a job ends.

/// What the worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    /// Finishes its jobs, answers `cancel`, ends on SIGTERM.
    Good,
    /// The same with the Python client.
    Python,
    /// Answers nothing that it is asked; SIGTERM is ignored.
    Ignores,
    /// Stops itself (SIGSTOP) with jobs in its hands.
    Stops,
    /// Each job runs in a process of its own, one of them a daemon; SIGTERM ends only the parent.
    Forks,
    /// Ends by itself with jobs in its hands: exit status, SIGKILL or SIGSEGV.
    Crashes,
    /// Closes the socket and goes on working; SIGTERM is ignored.
    Closes,
    /// Sends frames without end, and finishes its jobs.
    Floods,
    /// Reads nothing any more once it has a job, and finishes its jobs.
    Deaf,
    /// On SIGTERM or `cancel` it acks what it holds and then stays.
    LastWords,
    /// Two processes with a connection each: one is good, one ignores.
    Prefork,
}

impl Behaviour {
    pub const ALL: [Self; 11] = [
        Self::Good,
        Self::Python,
        Self::Ignores,
        Self::Stops,
        Self::Forks,
        Self::Crashes,
        Self::Closes,
        Self::Floods,
        Self::Deaf,
        Self::LastWords,
        Self::Prefork,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Python => "python",
            Self::Ignores => "ignores",
            Self::Stops => "stops",
            Self::Forks => "forks",
            Self::Crashes => "crashes",
            Self::Closes => "closes",
            Self::Floods => "floods",
            Self::Deaf => "deaf",
            Self::LastWords => "last-words",
            Self::Prefork => "prefork",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|behaviour| behaviour.name() == name)
    }

    /// SIGTERM ends it at once, with all that belongs to it.
    pub fn ends_at_once(self) -> bool {
        matches!(self, Self::Good | Self::Floods | Self::Deaf)
    }

    /// It may end, or be ended, before anybody asks for that.
    pub fn may_end_first(self) -> bool {
        matches!(self, Self::Crashes | Self::Closes)
    }
}

/// What the backend does, from some moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weather {
    /// Answers.
    Fine,
    /// Answers late.
    Slow,
    /// Every second request: 500, not carried out.
    Errors,
    /// Every second request is carried out, and its connection closed instead of an answer.
    Lost,
    /// Every second request: the connection is reset.
    Resets,
    /// Every third request is never answered.
    Hangs,
    /// Every second answer breaks off.
    Truncates,
    /// Every second request: 429 with Retry-After.
    Busy,
    /// Refuses connections for a while.
    Refuses,
    /// Answers nothing for a while.
    Silent,
    /// Gone for good: refuses, or answers nothing.
    Gone,
}

impl Weather {
    pub const ALL: [Self; 11] = [
        Self::Fine,
        Self::Slow,
        Self::Errors,
        Self::Lost,
        Self::Resets,
        Self::Hangs,
        Self::Truncates,
        Self::Busy,
        Self::Refuses,
        Self::Silent,
        Self::Gone,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Slow => "slow",
            Self::Errors => "500",
            Self::Lost => "lost",
            Self::Resets => "reset",
            Self::Hangs => "hangs",
            Self::Truncates => "truncated",
            Self::Busy => "429",
            Self::Refuses => "refuses",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }

    /// Whatever is sent gets its answer in time: nothing may be left to its visibility timeout.
    pub fn is_reliable(self) -> bool {
        matches!(self, Self::Fine | Self::Slow)
    }
}

/// When, and how, the end is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// While it starts.
    Start,
    /// While a FETCH is in flight.
    Fetch,
    /// While an ACK is in flight.
    Ack,
    /// While jobs are active.
    Busy,
    /// When all jobs are done.
    Idle,
    /// While jobs are active, one of which ends within milliseconds of the deadline.
    Deadline,
    /// While jobs are active; again in the drain, often at the deadline to the millisecond.
    Again,
    /// While jobs are active; again in the stop phase, perhaps twice.
    Late,
    /// SIGTSTP first, as a preStop hook does.
    Quiet,
    /// By the backend; perhaps a SIGTERM follows.
    Directive,
    /// By control commands, with a SIGTERM before, after or not at all.
    Operator,
}

impl Occasion {
    pub const ALL: [Self; 11] = [
        Self::Start,
        Self::Fetch,
        Self::Ack,
        Self::Busy,
        Self::Idle,
        Self::Deadline,
        Self::Again,
        Self::Late,
        Self::Quiet,
        Self::Directive,
        Self::Operator,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Fetch => "fetch",
            Self::Ack => "ack",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Deadline => "deadline",
            Self::Again => "again",
            Self::Late => "late",
            Self::Quiet => "quiet",
            Self::Directive => "directive",
            Self::Operator => "operator",
        }
    }
}

/// How a job is to end when nobody disturbs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Ack,
    Fail,
    Release,
    /// Only with its process.
    Never,
}

impl Ending {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Never => "never",
        }
    }
}
