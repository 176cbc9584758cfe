//! Variables of other programs that ojs-init does not read although a user may expect that: those
//! of tini, and a HOME that is not the worker's.

use super::environment::Environment;
use super::key::Row;
use super::keys::{PROCESS_GROUP, SUBREAPER, USER, VERBOSE};
use super::sections::Config;

const HOME: &str = "HOME";

/// The home of root, which other users may not enter.
const HOME_OF_ROOT: &[u8] = b"/root";

/// Variables that tini reads, with the equivalent key.
static OF_TINI: [(&str, &Row); 3] = [
    ("TINI_KILL_PROCESS_GROUP", &PROCESS_GROUP.row),
    ("TINI_SUBREAPER", &SUBREAPER.row),
    ("TINI_VERBOSITY", &VERBOSE.row),
];

/// One warning for each of them, in every mode.
pub(super) fn warnings(environment: &Environment<'_>, config: &Config) -> Vec<String> {
    let of_tini = OF_TINI.iter().filter_map(|(name, key)| {
        // tini treats an empty variable as set.
        environment.of_others_or_empty(name)?;
        let ours = key.env.first().filter(|_| !config.settings.is_set(key))?;
        Some(format!(
            "{name} is for tini, and ojs-init does not read it: set {ours}."
        ))
    });
    of_tini.chain(home(environment, config)).collect()
}

/// A worker that runs as another user and finds root's home in HOME.
fn home(environment: &Environment<'_>, config: &Config) -> Option<String> {
    let is_root = |user: &str| user == "root" || user == "0";
    let is_other = config.process.user.as_ref().is_some_and(|spec| !is_root(&spec.user));
    let is_of_root = environment.of_others(HOME) == Some(HOME_OF_ROOT);
    (is_other && is_of_root).then(|| {
        format!(
            "HOME=/root is handed on to COMMAND, which cannot write there as {}: pip, npm, git and ssh then fail with EACCES; set \
             HOME to that user's directory.",
            config.settings.describe(&USER)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_support::{Given, assert_says};

    #[test]
    fn what_tini_reads_is_a_warning_with_our_name_in_every_mode_unless_that_is_set() {
        for given in [Given::no_agent(), Given::agent()] {
            let given = given
                .variable("TINI_KILL_PROCESS_GROUP=1")
                .variable("TINI_SUBREAPER=")
                .variable("TINI_VERBOSITY=3");
            let warnings = given.config().warnings;
            assert_eq!(warnings.len(), 3, "{warnings:?}");
            for (warning, name) in warnings.iter().zip(["PROCESS_GROUP", "SUBREAPER", "VERBOSE"]) {
                assert_says(warning, &["TINI_", &format!("set OJS_INIT_{name}.")]);
            }
            let given = given.variable("OJS_INIT_SUBREAPER=true").flag(&PROCESS_GROUP, "true");
            assert_eq!(given.config().warnings.len(), 1);
        }
    }

    #[test]
    fn the_home_of_root_for_another_user_is_a_warning() {
        let warnings = |home: &str, user: &str| {
            let given = Given::no_agent().variable(home);
            let given = if user.is_empty() {
                given
            } else {
                given.flag(&USER, user)
            };
            given.config().warnings
        };
        assert_says(
            &warnings("HOME=/root", "1000:1000")[0],
            &["HOME=/root", "process.user = 1000:1000", "EACCES"],
        );
        for (home, user) in [
            ("HOME=/root", ""),
            ("HOME=/root", "0:5"),
            ("HOME=/root", "root"),
            ("HOME=/", "1000"),
        ] {
            assert_eq!(warnings(home, user), [""; 0], "{home} {user}");
        }
    }
}
