//! Writes the man pages and the completions of ojs-init, from the definition of its command line.
//!
//! `ojs-packaging FOLDER` makes `FOLDER/man` and `FOLDER/completions`. This program makes the man
//! pages, and not the binary, because no container needs them.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::{env, io};

use clap_mangen::roff::{Roff, bold, roman};
use ojs_init::cli::{self, CommandLine};

/// Shells that packages have completions for, with the file names that they look for.
const SHELLS: [(&str, &str); 3] = [("bash", "ojs-init"), ("zsh", "_ojs-init"), ("fish", "ojs-init.fish")];

/// The first words of the page.
const DESCRIPTION: &str = "\
ojs-init starts COMMAND and stays in front of it as the init of a container. As PID 1 it reaps
orphans, forwards signals and returns the exit status of COMMAND. It fetches jobs from an Open Job
Spec backend, hands them to COMMAND, reports their outcomes, and drains them after SIGTERM.

With --no-agent it is an init alone.";

/// Files that ojs-init uses.
const FILES: [(&str, &str); 2] = [
    (
        "/etc/ojs-init.toml",
        "The configuration, if the file exists and --config names no other one.",
    ),
    (
        "/run/ojs-init",
        "The directory of the sockets. Without rights to create it, ojs-init uses $XDG_RUNTIME_DIR, /tmp or /dev/shm.",
    ),
];

/// The exit statuses that a supervising ojs-init has.
const STATUSES: [(&str, &str); 6] = [
    ("0", "A shutdown that was asked for ran to its end."),
    (
        "1",
        "ojs-init ended COMMAND because a handler hung or a ping was not answered.",
    ),
    ("2", "The command line or the configuration is wrong."),
    (
        "126, 127, 70",
        "COMMAND could not be started: it is not executable, it was not found, or there was no process for it.",
    ),
    (
        "143, 130, 131",
        "A third SIGTERM, SIGINT or SIGQUIT ended ojs-init at once.",
    ),
    (
        "any other",
        "The exit status of COMMAND; 128 + N if signal N ended COMMAND.",
    ),
];

fn main() -> io::Result<()> {
    let folder = env::args_os()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: ojs-packaging FOLDER"))?;
    let folder = Path::new(&folder);
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    let command = cli::full()
        .about("a container init that is also the Open Job Spec worker")
        .long_about(DESCRIPTION);
    clap_mangen::generate_to(command, &man)?;
    let mut page = File::options().append(true).open(man.join("ojs-init.1"))?;
    section("EXIT STATUS", &STATUSES).to_writer(&mut page)?;
    section("FILES", &FILES).to_writer(&mut page)?;
    for (shell, name) in SHELLS {
        fs::write(completions.join(name), completion(shell)?)?;
    }
    Ok(())
}

/// A section of a man page: a list of terms.
fn section(title: &str, terms: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, text) in terms {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*text)]);
    }
    roff
}

/// The script that `ojs-init completions SHELL` prints.
fn completion(shell: &str) -> io::Result<String> {
    let words = ["ojs-init", "completions", shell].map(OsString::from);
    match cli::parse(&words) {
        Ok(CommandLine::Print(script)) => Ok(script),
        other => Err(io::Error::other(format!("no completions for {shell}: {other:?}"))),
    }
}
