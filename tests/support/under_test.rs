//! Which binary the tests are about.

/// Path of the init under test: `BINARY_UNDER_TEST` where it is set (the static release build),
/// else what cargo built.
pub fn init() -> String {
    std::env::var("BINARY_UNDER_TEST").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ojs-init").to_owned())
}

/// Whether the binary has no interpreter, which a dynamic one names near its start: that is what
/// users have.
#[allow(dead_code, reason = "each test program uses a part of it")]
pub fn is_static() -> bool {
    let head = std::fs::read(init()).unwrap();
    !head[..4096].windows(4).any(|window| window == b"/ld-")
}
