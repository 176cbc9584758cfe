//! Settings that are one word out of a few.

use std::fmt;

/// A setting with a closed list of words.
pub trait Choice: Copy + 'static {
    /// The words, as help and errors list them.
    const NAMES: &'static [&'static str];

    /// The variant that one of [`Choice::NAMES`] stands for.
    fn named(name: &str) -> Option<Self>;

    /// The word of this variant.
    fn name(self) -> &'static str;
}

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl Choice for $name {
            const NAMES: &'static [&'static str] = &[$($word,)*];

            fn named(name: &str) -> Option<Self> {
                [$(($word, Self::$variant),)*].into_iter().find(|(word, _)| *word == name).map(|(_, variant)| variant)
            }

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

choices! {
    /// Who talks to the backend, and how jobs reach the child.
    Mode {
        /// The child speaks the worker socket protocol.
        Socket = "socket",
        /// The child is an unmodified OJS SDK worker behind a local gateway.
        Gateway = "gateway",
        /// One process for each job.
        Exec = "exec",
        /// A plain init: no agent.
        None = "none",
    }
}

choices! {
    /// What SIGINT or SIGQUIT does to the agent.
    StopSignalAction {
        /// As SIGTERM: drain first.
        Graceful = "graceful",
        /// The stop phase now.
        Stop = "stop",
        /// Exit at once.
        Exit = "exit",
    }
}

choices! {
    /// Shape of the log records.
    LogFormat {
        /// Lines for people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

choices! {
    /// Least severe record that is written.
    LogLevel {
        /// Only what failed.
        Error = "error",
        /// And what is doubtful.
        Warn = "warn",
        /// And what happens once.
        Info = "info",
        /// And what happens for each signal or job.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

impl LogLevel {
    /// The level one step more talkative; `trace` stays.
    #[must_use]
    pub fn raised(self) -> Self {
        match self {
            Self::Error => Self::Warn,
            Self::Warn => Self::Info,
            Self::Info => Self::Debug,
            Self::Debug | Self::Trace => Self::Trace,
        }
    }
}

choices! {
    /// Whether a worker that ended is started again.
    Restart {
        /// Never: ojs-init ends with it.
        Never = "never",
        /// When ojs-init ended it: a handler that hung, pings that were not answered.
        Hung = "hung",
        /// Then, and when its status was not 0.
        OnFailure = "on-failure",
        /// Always.
        Always = "always",
    }
}

choices! {
    /// What becomes of a job that a shutdown cut off.
    Leftovers {
        /// FAIL, retryable.
        Fail = "fail",
        /// Back into its queue, where the backend can do that.
        Requeue = "requeue",
    }
}

choices! {
    /// State in the last heartbeat; the documents name two.
    FinalState {
        /// GS 5.3.
        Terminate = "terminate",
        /// The website's worker page.
        Terminated = "terminated",
        /// One after the other.
        Both = "both",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_the_variant_that_shows_it() {
        for word in Mode::NAMES {
            assert_eq!(Mode::named(word).unwrap().name(), *word);
        }
        assert_eq!(Mode::named("gatway"), None);
    }

    #[test]
    fn each_v_makes_the_log_one_step_more_talkative_up_to_trace() {
        assert_eq!(LogLevel::Info.raised(), LogLevel::Debug);
        assert_eq!(LogLevel::Info.raised().raised().raised(), LogLevel::Trace);
    }
}
