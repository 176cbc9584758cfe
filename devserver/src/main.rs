//! The binary: its command line is the library's.

use std::process::ExitCode;

fn main() -> ExitCode {
    ojs_devserver::cli::run()
}
