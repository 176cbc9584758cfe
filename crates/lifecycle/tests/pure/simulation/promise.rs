//! Promises that a run can break.

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which: runs that break the same one fail alike.
    pub promise: &'static str,
    /// How.
    pub detail: String,
}

pub type Kept = Result<(), Broken>;

/// Holds a promise up against what happened.
macro_rules! promise {
    ($name:literal, $holds:expr, $($detail:tt)+) => {
        if !$holds {
            return Err($crate::simulation::promise::Broken { promise: $name, detail: format!($($detail)+) });
        }
    };
}
pub(crate) use promise;
