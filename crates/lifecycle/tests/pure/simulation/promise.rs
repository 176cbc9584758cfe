//! Promises that a run can break.

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The name: runs that break one promise fail alike.
    pub promise: &'static str,
    /// How.
    pub detail: String,
}

pub type Kept = Result<(), Broken>;

/// Checks a promise against an event.
macro_rules! promise {
    ($name:literal, $holds:expr, $($detail:tt)+) => {
        if !$holds {
            return Err($crate::simulation::promise::Broken { promise: $name, detail: format!($($detail)+) });
        }
    };
}
pub(crate) use promise;
