//! Which binary the tests are about.

/// Path of the init under test: `BINARY_UNDER_TEST` where it is set (the static release build), else what cargo built.
pub fn init() -> String {
    std::env::var("BINARY_UNDER_TEST").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ojs-init").to_owned())
}
