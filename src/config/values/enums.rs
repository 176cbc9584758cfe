//! Values that are one word out of a few.

use log::Level;

use super::super::build::HAS_AGENT;
use super::{Form, Notation, Problem, Value, only};
use ojs_lifecycle::api::{FinalState, Leftovers, Restart, StopSignal, Wake};

/// The mode: which program talks to the backend, and how jobs reach the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The child speaks the worker socket protocol.
    Socket,
    /// The child is an unmodified OJS SDK worker behind a local gateway.
    Gateway,
    /// One process for each job.
    Exec,
    /// A plain init: no agent.
    None,
}

impl Mode {
    /// The mode that nothing has to ask for.
    pub const USUAL: Self = if HAS_AGENT { Self::Socket } else { Self::None };
}

/// Processes that may use the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayAllow {
    /// The worker and its descendants.
    Worker,
    /// Every process of the worker's user.
    Uid,
    /// Every process that reaches the loopback.
    Any,
}

/// Whether the next worker process starts while the old one works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecycleOverlap {
    /// If the container has memory for two.
    Auto,
    On,
    Off,
}

/// The standard input of a job's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecInput {
    /// The whole job as the backend sent it.
    Envelope,
    /// Its arguments alone.
    Args,
    /// Nothing, because its arguments are further words of its command.
    Argv,
    Nothing,
}

/// The use of a job's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecOutput {
    /// The job's result.
    Result,
    /// Lines for the log.
    Log,
}

/// The fate of processes that a job leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecLeftovers {
    End,
    Keep,
}

/// Shape of the log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    Json,
}

/// The words of an enum. A variant without a word does not compile.
macro_rules! words {
    ($($name:ident { $example:ident = $first:literal $(, $variant:ident = $word:literal)* })*) => {$(
        impl Value for $name {
            type Limits = ();
            const NOTATION: Notation = Notation::new(Form::Word, "WORD", $first, concat!($first $(, ", ", $word)*));

            fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
                let is = |word: &str| is_spelled(word, only(texts));
                match () {
                    () if is($first) => Ok(Self::$example),
                    $(() if is($word) => Ok(Self::$variant),)*
                    () => Err("is not one of the known words".into()),
                }
            }

            fn show(&self) -> String {
                match self { Self::$example => $first, $(Self::$variant => $word,)* }.to_owned()
            }
        }
    )*};
}

words! {
    Mode { Socket = "socket", Gateway = "gateway", Exec = "exec", None = "none" }
    GatewayAllow { Worker = "worker", Uid = "uid", Any = "any" }
    ExecInput { Envelope = "envelope", Args = "args", Argv = "argv", Nothing = "none" }
    ExecOutput { Result = "result", Log = "log" }
    ExecLeftovers { End = "end", Keep = "keep" }
    LogFormat { Text = "text", Json = "json" }
    Level { Error = "error", Warn = "warn", Info = "info", Debug = "debug", Trace = "trace" }
    StopSignal { Graceful = "graceful", Stop = "stop", Exit = "exit" }
    Restart { Never = "never", Hung = "hung", OnFailure = "on-failure", Always = "always" }
    Wake { Auto = "auto", Off = "off" }
    RecycleOverlap { Auto = "auto", On = "on", Off = "off" }
    Leftovers { Fail = "fail", Requeue = "requeue" }
    FinalState { Terminate = "terminate", Terminated = "terminated", Both = "both" }
}

/// True if the text is this word in any case. Some SDKs spell the level `warning` in the variable
/// that ojs-init shares with them.
fn is_spelled(word: &str, text: &str) -> bool {
    word.eq_ignore_ascii_case(text) || (word == "warn" && text.eq_ignore_ascii_case("warning"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_the_variant_that_shows_it() {
        for word in Mode::NOTATION.accepted.split(", ") {
            assert_eq!(Mode::read(&[word], &()).unwrap().show(), word);
        }
        assert!(Mode::read(&["gatway"], &()).is_err());
    }
}
