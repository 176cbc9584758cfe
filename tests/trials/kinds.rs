//! The parts that a trial is put together from: workers, backends, moments, and how a job ends.

use crate::sdk::Kind;

/// The behaviour of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    /// Finishes its jobs, answers `cancel`, ends on SIGTERM.
    Good,
    /// Does as `Good` does, with the Python client.
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
    /// One handler in three never ends, whatever its job's timeout is; the others are good.
    Hangs,
    /// Made with an SDK; it speaks HTTP to the init, as its gateway. Not in the draw of the others.
    Sdk(Kind),
    /// A process for each job, in mode exec. Not in the draw of the others.
    Exec(Program),
}

/// The behaviour of a job's process in mode exec; of one in three, where it is not said that all
/// do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Finishes its job; of those that get SIGTERM one in three does not look.
    Good,
    /// SIGTERM means nothing to all of them.
    Ignores,
    /// Stops itself (SIGSTOP).
    Stops,
    /// Ends by SIGSEGV.
    Crashes,
    /// All of them leave a process in the background, with everything that they have open.
    Leaves,
    /// Leaves a process as `Leaves` does, in a session of its own, its parent gone, deaf to
    /// SIGTERM.
    Daemons,
    /// Writes lines without end, to the log and to the runner.
    Floods,
    /// Closes everything and goes on.
    Closes,
    /// Kills the runner.
    Kills,
}

impl Program {
    pub const ALL: [Self; 9] = [
        Self::Good,
        Self::Ignores,
        Self::Stops,
        Self::Crashes,
        Self::Leaves,
        Self::Daemons,
        Self::Floods,
        Self::Closes,
        Self::Kills,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "exec-good",
            Self::Ignores => "exec-ignores",
            Self::Stops => "exec-stops",
            Self::Crashes => "exec-crashes",
            Self::Leaves => "exec-leaves",
            Self::Daemons => "exec-daemons",
            Self::Floods => "exec-floods",
            Self::Closes => "exec-closes",
            Self::Kills => "exec-kills",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }
}

impl Behaviour {
    pub const ALL: [Self; 12] = [
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
        Self::Hangs,
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
            Self::Hangs => "hung",
            Self::Sdk(Kind::Go) => "sdk-go",
            Self::Sdk(Kind::JavaScript) => "sdk-js",
            Self::Sdk(Kind::Python) => "sdk-python",
            Self::Sdk(Kind::Ruby) => "sdk-ruby",
            Self::Sdk(Kind::Rust) => "sdk-rust",
            Self::Sdk(Kind::Java) => "sdk-java",
            Self::Sdk(Kind::Php) => "sdk-php",
            Self::Exec(program) => program.name(),
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|behaviour| behaviour.name() == name)
    }

    /// Whether it is made with an SDK.
    pub fn is_sdk(self) -> bool {
        matches!(self, Self::Sdk(_))
    }

    /// Whether each job is a process.
    pub fn is_exec(self) -> bool {
        matches!(self, Self::Exec(_))
    }

    /// SIGTERM ends it at once, with all that belongs to it.
    pub fn ends_at_once(self) -> bool {
        matches!(self, Self::Good | Self::Floods | Self::Deaf)
    }

    /// The worker may end, or be ended, before anybody asks for that.
    pub fn may_end_first(self) -> bool {
        matches!(
            self,
            Self::Crashes | Self::Closes | Self::Hangs | Self::Exec(Program::Kills)
        )
    }
}

/// The behaviour of the backend, from some moment on.
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
    /// Gone for good: refuses, answers nothing, or does so when nobody waits any more.
    Gone,
    /// Carries out at once what it is told of a failed job or of one that is given back, and says
    /// so late: the job is delivered again meanwhile.
    Late,
    /// Something before it answers with pages of HTML.
    Pages,
    /// Its store is away for a while; it says so as one of the public backends does.
    Store,
    /// Takes no ACK that is too large.
    Limit,
    /// One operation is refused for a while: an error of the server, or a redirect.
    Sick,
    /// Somebody else has done a job just before its ACK.
    Rival,
    /// The connections that are there stop, for a while or for good; whoever connects then is
    /// served.
    Frozen,
    /// Of one operation every second request has no answer, carried out or not, or has it late, or
    /// a single ACK has none; all else is answered.
    Mute,
}

impl Weather {
    pub const ALL: [Self; 19] = [
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
        Self::Late,
        Self::Pages,
        Self::Store,
        Self::Limit,
        Self::Sick,
        Self::Rival,
        Self::Frozen,
        Self::Mute,
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
            Self::Late => "late-fail",
            Self::Pages => "pages",
            Self::Store => "store",
            Self::Limit => "limit",
            Self::Sick => "sick",
            Self::Rival => "rival",
            Self::Frozen => "frozen",
            Self::Mute => "mute",
        }
    }

    /// Of a few attempts one gets through, and its sender hears of it.
    pub fn lets_heartbeats_through(self) -> bool {
        match self {
            Self::Fine
            | Self::Slow
            | Self::Errors
            | Self::Lost
            | Self::Resets
            | Self::Hangs
            | Self::Truncates
            | Self::Busy
            | Self::Late
            | Self::Pages
            | Self::Limit
            | Self::Sick
            | Self::Rival
            | Self::Frozen
            | Self::Mute => true,
            Self::Refuses | Self::Silent | Self::Gone | Self::Store => false,
        }
    }

    /// Each request gets its answer in time: nothing may be left to its visibility timeout.
    pub fn is_reliable(self) -> bool {
        matches!(self, Self::Fine | Self::Slow)
    }

    /// This weather is about the ACKs: the delays of an occasion make room for it.
    pub fn replaces_delays(self) -> bool {
        matches!(
            self,
            Self::Pages | Self::Store | Self::Limit | Self::Sick | Self::Rival | Self::Mute
        )
    }

    /// The weather ends, and from then on it is fine. Meanwhile every request gets an answer soon,
    /// or cannot be sent.
    pub fn is_over_at_once(self) -> bool {
        matches!(self, Self::Refuses | Self::Pages | Self::Store | Self::Sick)
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
    /// While jobs are active, by a signal that comes twice.
    Twin,
    /// While jobs are active, by `timeout` of the GNU coreutils, which signals its child and then
    /// its group.
    Timeout,
}

impl Occasion {
    pub const ALL: [Self; 13] = [
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
        Self::Twin,
        Self::Timeout,
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
            Self::Twin => "twin",
            Self::Timeout => "timeout",
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

/// The state that the last heartbeats are to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalState {
    Terminate,
    Terminated,
    /// One after the other.
    Both,
}

impl FinalState {
    pub const ALL: [Self; 3] = [Self::Terminate, Self::Terminated, Self::Both];

    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Terminated => "terminated",
            Self::Both => "both",
        }
    }

    /// The second of both is said only to who has answered the first.
    pub fn may_end_with(self, state: Option<&str>, is_answered: bool) -> bool {
        match self {
            Self::Terminate => state == Some("terminate"),
            Self::Terminated => state == Some("terminated"),
            Self::Both => state == Some("terminated") || (state == Some("terminate") && !is_answered),
        }
    }
}
