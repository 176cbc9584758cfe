//! Everything that was asked for in a trial, and when.

use super::operator::Came;
use crate::support::sys::Ended;

/// A signal that was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// When the signal was about to be sent, and when it was sent: milliseconds on the clock of the
    /// backend's record.
    pub began: f64,
    pub ms: f64,
    pub signal: i32,
}

/// A control command that was run.
#[derive(Debug)]
pub struct Commanded {
    pub words: &'static [&'static str],
    /// Milliseconds as above.
    pub began: f64,
    /// When it had ended.
    pub ended: f64,
    pub came: Came,
}

impl Commanded {
    /// The subcommand.
    pub fn verb(&self) -> &'static str {
        self.words[0]
    }

    /// The init has done as it was asked, before it ended. A preStop hook ends well in any case,
    /// and complains.
    pub fn is_taken(&self) -> bool {
        self.came.ended == Some(Ended::Code(0)) && self.came.complained.is_empty()
    }
}

/// Everything that was asked for.
#[derive(Debug, Default)]
pub struct Asked {
    pub sent: Vec<Sent>,
    /// When the backend was told to say terminate.
    pub directed: Option<f64>,
    pub commands: Vec<Commanded>,
    /// When the weather was over, if it was by then.
    pub cleared: Option<f64>,
}

impl Asked {
    /// Whether nobody had asked for anything by then.
    pub fn is_nothing_asked_before(&self, ms: f64) -> bool {
        let signals = self.sent.iter().map(|sent| sent.ms);
        let others = self.commands.iter().filter(|command| command.verb() != "recycle");
        let commands = others.map(|command| command.began);
        self.directed.is_none() && signals.chain(commands).all(|at| at >= ms)
    }

    /// The end, as far as can be told by now.
    pub fn for_the_end(&self) -> bool {
        let is_end = |command: &Commanded| ["terminate", "stop"].contains(&command.verb()) && command.is_taken();
        !self.sent.is_empty() || self.directed.is_some() || self.commands.iter().any(is_end)
    }
}
