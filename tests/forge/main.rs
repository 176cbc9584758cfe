//! The files for a forge: workflows, issue forms, the check of a release's tag, and the rules for
//! dependencies. No forge is asked.
//!
//! Needs git, ssh-keygen, python3, and what `scripts/setup.sh test` puts into the target folder.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "the test is the outside world, and one that cannot read the files has failed"
)]

mod dependencies;
mod forms;
mod release_tag;
mod workflows;

use std::path::{Path, PathBuf};
use std::process::Output;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A folder for one test, empty.
fn folder(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("forge-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Both outputs of a command, for a message.
fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
