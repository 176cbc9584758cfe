//! `log.level`: the least severe record that is written, for all and for single parts.

use log::Level;

use super::{Form, Notation, Problem, Value, only};

/// The parts that can have a level of their own, and the module that logs for each.
pub const PARTS: [(&str, &str); 7] = [
    ("backend", "daemon::backend"),
    ("gateway", "daemon::gateway"),
    ("loop", "daemon::event_loop"),
    ("probes", "daemon::probes"),
    ("runner", "runner"),
    ("runtime", "daemon::runtime"),
    ("worker", "daemon::workers"),
];

/// A level, and the levels of parts that have their own: `info,gateway=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevels {
    /// The level of every part that is not listed.
    pub level: Level,
    /// Names of [`PARTS`], each once at most.
    pub parts: Vec<(&'static str, Level)>,
}

impl LogLevels {
    /// This level for all parts.
    pub fn all(level: Level) -> Self {
        Self {
            level,
            parts: Vec::new(),
        }
    }
}

impl Value for LogLevels {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "LEVELS",
        "warn",
        "error, warn, info, debug or trace; behind it, with commas between, levels of single parts as in \
         info,gateway=debug: backend, gateway, loop, probes, runner, runtime, worker",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let mut levels: Option<Level> = None;
        let mut parts: Vec<(&'static str, Level)> = Vec::new();
        for word in only(texts).split(',').map(str::trim) {
            let Some((name, level)) = word.split_once('=') else {
                if levels.replace(Level::read(&[word], &())?).is_some() {
                    return Err("has two levels for everything".into());
                }
                continue;
            };
            let is_named = |(part, _): &&(&'static str, &str)| part.eq_ignore_ascii_case(name.trim());
            let (part, _) = PARTS.iter().find(is_named).ok_or("names a part that does not exist")?;
            if parts.iter().any(|(known, _)| known == part) {
                return Err("has two levels for one part".into());
            }
            parts.push((part, Level::read(&[level.trim()], &())?));
        }
        Ok(Self {
            level: levels.ok_or("has no level for everything")?,
            parts,
        })
    }

    fn show(&self) -> String {
        let parts = self
            .parts
            .iter()
            .map(|(part, level)| format!(",{part}={}", level.show()));
        self.level.show() + &parts.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_parts_stand_behind_the_level_of_everything() {
        let levels = LogLevels::read(&["info, gateway=debug,WORKER=Trace"], &()).unwrap();
        assert_eq!(levels.show(), "info,gateway=debug,worker=trace");
        for (wrong, why) in [
            ("gateway=debug", "has no level for everything"),
            ("info,debug", "has two levels for everything"),
            ("info,gatway=debug", "names a part that does not exist"),
            ("info,gateway=debug,gateway=info", "has two levels for one part"),
            ("info,gateway=loud", "is not one of the known words"),
        ] {
            let refused = LogLevels::read(&[wrong], &()).unwrap_err();
            assert!(format!("{refused:?}").contains(why), "{wrong}: {refused:?}");
        }
    }

    #[test]
    fn every_part_is_in_the_list_of_what_is_accepted() {
        for (part, _) in PARTS {
            assert!(LogLevels::NOTATION.accepted.contains(part), "{part}");
        }
    }
}
