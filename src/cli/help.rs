//! The text of the help. The first screen is written by hand, because a new user reads it top down;
//! the full list is generated from the table.

use crate::config::Row;
use crate::config::values::Form;

/// Usage of the short form.
pub(super) const USAGE: &str = "ojs-init [OPTIONS] -- COMMAND [ARG]...";

/// Usage of `run`.
pub(super) const RUN_USAGE: &str = "ojs-init run [OPTIONS] [--] COMMAND [ARG]...";

/// Usage of `config`.
pub(super) const CONFIG_USAGE: &str = "ojs-init config [check|show] [OPTIONS] [-- COMMAND [ARG]...]";

/// The lines of the first screen about the options that tini and dumb-init have too.
macro_rules! init_options {
    () => {
        "  -s, --subreaper                  adopt orphans (done anyway when not PID 1)
  -p, --parent-death-signal SIG    get SIG when our parent dies
  -g, --process-group              signal COMMAND's whole process group
  -r, --rewrite FROM:TO            forward FROM as TO; TO 0 drops it
  -e, --remap-exit CODE            COMMAND's status CODE becomes 0
  -w, --warn-on-reap               warn when an orphan is reaped
  -v, --verbose                    log more; -vv still more
"
    };
}

/// The lines of the first screen about other options of every build.
macro_rules! common_options {
    () => {
        "      --grace-period TIME          time to finish after SIGTERM, then SIGKILL
      --termination-grace-period TIME
                                   what the orchestrator allows until SIGKILL
      --user USER[:GROUP]          run COMMAND as another user
  -h, --help; -V, --version        this screen; the version
"
    };
}

/// The last line of the first screen.
macro_rules! last_line {
    () => {
        "\n`ojs-init run --help` lists every option and its environment variable.\n"
    };
}

/// `ojs-init --help`: one screen.
#[cfg(feature = "agent")]
pub(super) const TOP: &str = concat!(
    "ojs-init ",
    env!("CARGO_PKG_VERSION"),
    " - a container init that is also the Open Job Spec worker

As PID 1 it reaps orphans, passes signals on and ends with COMMAND's status. It
fetches jobs from the backend, hands them to COMMAND over the socket that
OJS_SOCKET names, reports what became of them, and drains them on SIGTERM.

Usage: ojs-init [OPTIONS] -- COMMAND [ARG]...
       ojs-init run [OPTIONS] [--] COMMAND [ARG]...

In a Dockerfile:
  ENTRYPOINT [\"/ojs-init\", \"--\"]
  CMD [\"python3\", \"worker.py\"]

Init options, with the letters of tini and dumb-init:
",
    init_options!(),
    "
More that people need:
      --url URL                    the backend, or OJS_URL; needed for jobs
      --mode MODE                  exec: run COMMAND once for each job; gateway:
                                   COMMAND is a worker that uses an OJS SDK
      --no-agent                   plain init: no backend, no jobs, no sockets
      --config FILE                TOML file [/etc/ojs-init.toml if it exists]
",
    common_options!(),
    "
Subcommands:
  config check, config show        would a start succeed; each value's source
  quiet, resume, terminate, stop   as SIGTSTP, SIGCONT, SIGTERM, second SIGTERM
  recycle, prestop                 start the worker anew; for a preStop hook
  status [--json] [--watch]        state, time left, jobs, worker, backend
  jobs [--json]; cancel JOB        the active jobs; cancel one of them
  health [live|ready]              for a HEALTHCHECK: status 0 when it is well
  job WORD                         in mode exec: arguments, progress and more
  completions SHELL                completions for bash, zsh, fish and others
",
    last_line!(),
);

/// `ojs-init --help`: one screen.
#[cfg(not(feature = "agent"))]
pub(super) const TOP: &str = concat!(
    "ojs-init ",
    env!("CARGO_PKG_VERSION"),
    " - a container init; this build has no Open Job Spec worker

As PID 1 it reaps orphans, passes signals on and ends with COMMAND's status.

Usage: ojs-init [OPTIONS] -- COMMAND [ARG]...
       ojs-init run [OPTIONS] [--] COMMAND [ARG]...

In a Dockerfile:
  ENTRYPOINT [\"/ojs-init\", \"--\"]
  CMD [\"python3\", \"server.py\"]

Init options, with the letters of tini and dumb-init:
",
    init_options!(),
    "
More that people need:
      --no-agent                   no effect; for the build that has the worker
",
    common_options!(),
    "
Subcommands:
  run                              the same with COMMAND after the options
  config check, config show        would a start succeed; each value's source
",
    last_line!(),
);

/// Notes below the options of `run --help` and `config --help`.
pub(super) const NOTES: &str = "\
A value comes from the command line, else from the environment, else from the
TOML file, else it is the default. A TIME is 250ms, 25s, 1m30s or 1h; a bare
number is seconds. A switch takes a value too: --subreaper=false.";

/// Longest line of a help text, in characters: with clap's indentation of ten, 80 columns.
const TEXT_WIDTH: usize = 70;

/// The help of one option: its sentence, then the accepted values and the default, then the other
/// places to set it.
pub(super) fn of_key(key: &Row) -> String {
    let mut tags = Vec::new();
    if key.notation.form == Form::Word {
        tags.push(format!("[one of: {}]", key.accepted()));
    }
    let default = key.default_text();
    if !["none", "false"].contains(&default.as_str()) {
        tags.push(format!("[default: {default}]"));
    }
    tags.extend(key.toml.map(|name| format!("[key: {name}]")));
    tags.push(format!("[env: {}]", key.env.join(", ")));
    let tags = tags.iter().flat_map(|tag| tag.split_inclusive(", ")).map(str::trim_end);
    format!("{}\n{}", wrapped(key.help.split(' ')), wrapped(tags))
}

/// The help of `run` and of `config` in a build without clap: every option, under its heading.
#[cfg(not(feature = "agent"))]
pub(super) fn of_all(usage: &str) -> String {
    let mut text = format!("Usage: {usage}\n");
    let mut group = None;
    for key in super::lean::flagged() {
        if group.replace(key.group) != Some(key.group) {
            text.push_str(&format!("\n{}:\n", key.group.heading()));
        }
        let letter = key.short.map_or("    ".to_owned(), |letter| format!("-{letter}, "));
        let flag = key.flag.unwrap_or_default();
        let placeholder = key.notation.placeholder;
        let value = if key.notation.form == Form::Switch {
            format!("[=<{placeholder}>]")
        } else if key.notation.form == Form::Count {
            "...".to_owned()
        } else {
            format!(" <{placeholder}>")
        };
        let help = of_key(key).replace('\n', "\n          ");
        text.push_str(&format!("  {letter}--{flag}{value}\n          {help}\n"));
    }
    format!("{text}\n{NOTES}\n")
}

/// The words in lines of at most [`TEXT_WIDTH`].
fn wrapped<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words {
        let length = word.chars().count();
        if width > 0 {
            let fits = width + 1 + length <= TEXT_WIDTH;
            text.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        text.push_str(word);
        width += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{CommandLine, lean, parse};
    use crate::config::keys::KEYS;

    fn printed(args: &[&str]) -> String {
        let args: Vec<_> = ["ojs-init"].iter().chain(args).map(Into::into).collect();
        match parse(&args) {
            Ok(CommandLine::Print(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    fn assert_fits(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn the_first_help_fits_on_one_screen_however_it_is_asked_for() {
        assert_fits(TOP);
        assert!(TOP.lines().count() <= 45);
        for args in [["-h"], ["--help"], ["help"]] {
            assert_eq!(printed(&args), TOP);
        }
    }

    #[test]
    fn the_first_help_speaks_only_of_options_that_exist() {
        let words = TOP
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
        for flag in words
            .filter_map(|word| word.strip_prefix("--"))
            .filter(|flag| !flag.is_empty())
        {
            let is_known =
                KEYS.iter().any(|key| key.flag == Some(flag)) || ["help", "version", "json", "watch"].contains(&flag);
            assert!(is_known, "--{flag}");
        }
        for key in KEYS.iter().filter(|key| key.short.is_some()) {
            let spelled = format!("-{}, --{}", key.short.unwrap(), key.flag.unwrap());
            assert!(TOP.contains(&spelled), "{spelled}");
        }
    }

    #[test]
    fn the_long_help_lists_every_option_with_its_variables_and_its_default() {
        for text in [
            printed(&["run", "--help"]),
            printed(&["run", "-h"]),
            printed(&["help", "config"]),
        ] {
            assert_fits(&text);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for key in lean::flagged() {
                assert!(words.contains(&format!("--{}", key.flag.unwrap())), "{:?}", key.flag);
                assert!(
                    words.contains(&format!("[env: {}]", key.env.join(", "))),
                    "{:?}",
                    key.env
                );
                let default = key.default_text();
                assert!(
                    ["none", "false"].contains(&default.as_str()) || words.contains(&format!("[default: {default}]")),
                    "{default}"
                );
            }
        }
    }
}
