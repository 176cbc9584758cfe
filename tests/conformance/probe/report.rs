//! `report FILE [exit=STATUS]`: writes down what this process was given; with a status it ends,
//! without it waits.

use std::ffi::OsString;

use super::early::early;
use super::{publish, text};
use crate::support::proc;

/// The file that says what a process was given.
pub fn run(arguments: &[OsString]) -> Result<i32, String> {
    let path = text(arguments.first())?;
    publish(path, &report())?;
    match arguments
        .get(1)
        .and_then(|argument| argument.to_str()?.strip_prefix("exit="))
    {
        Some(status) => status.parse().map_err(|_| format!("not a status: {status}")),
        None => loop {
            nix::unistd::pause();
        },
    }
}

fn report() -> String {
    let mut lines = vec![format!("pid={}", std::process::id())];
    let early = early();
    for mask in ["SigBlk", "SigIgn", "SigPnd", "ShdPnd"] {
        lines.push(format!(
            "{mask}={}",
            proc::field_of(&early.status, mask).unwrap_or_default()
        ));
    }
    if let Some(stat) = proc::stat(std::process::id().cast_signed()) {
        lines.push(format!("group={}", stat.group));
        lines.push(format!("foreground={}", stat.foreground));
    }
    lines.push(format!("cwd={}", std::env::current_dir().unwrap_or_default().display()));
    for file in ["cmdline", "environ"] {
        let bytes = std::fs::read(format!("/proc/self/{file}")).unwrap_or_default();
        lines.push(format!("{file}={}", hexadecimal(&bytes)));
    }
    lines.extend(early.descriptors.iter().map(|descriptor| format!("fd={descriptor}")));
    lines.join("\n") + "\n"
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
