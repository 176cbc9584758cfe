//! The other side of the suite: this binary, started again as the child of an init (`--probe`) or
//! as the process that prepares a start and then becomes the init (`--launch`).

mod actor;
pub mod early;
mod family;
mod launch;
mod report;
mod stamp;

use std::ffi::OsString;

/// Statuses of a probe that could not do its part; no case expects them.
pub const BROKEN: i32 = 121;

/// The launcher could not prepare the start; the reason is in a file.
pub const NOT_LAUNCHED: i32 = 122;

/// Plays a part if the arguments ask for one; the value is the exit status.
pub fn play(arguments: &[OsString]) -> Option<i32> {
    let (part, rest) = arguments.split_first()?;
    match part.to_str()? {
        "--launch" => Some(launch::run(rest)),
        "--probe" => Some(probe(rest).unwrap_or_else(|error| {
            // Standard error may be closed on purpose; the status says it too.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("probe: {error}\n").as_bytes());
            BROKEN
        })),
        _ => None,
    }
}

fn probe(arguments: &[OsString]) -> Result<i32, String> {
    let (what, rest) = arguments.split_first().ok_or("no probe named")?;
    match what.to_str() {
        Some("report") => report::run(rest),
        Some("act") => actor::run(rest),
        Some("chain") => family::chain(rest),
        Some("die") => actor::die(rest),
        Some("stamp-life") => stamp::life(),
        Some("stamp-signals") => stamp::signals(),
        _ => Err(format!("no such probe: {what:?}")),
    }
}

/// The text of an argument.
fn text(argument: Option<&OsString>) -> Result<&str, String> {
    argument
        .and_then(|argument| argument.to_str())
        .ok_or_else(|| "an argument is missing or not text".to_owned())
}

/// Writes a file that is complete from the moment it can be seen.
fn publish(path: &str, text: &str) -> Result<(), String> {
    let draft = format!("{path}.draft");
    std::fs::write(&draft, text)
        .and_then(|()| std::fs::rename(&draft, path))
        .map_err(|error| format!("{path}: {error}"))
}
