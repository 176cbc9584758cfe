//! How requests are spelled that the documents and the backends disagree about: one form after the
//! other is tried.

/// How a heartbeat is spelled: the documents and the backends disagree (requirements C-08).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeartbeatForm {
    /// Everything that the worker protocol 4.2 has, and the ids both as `active_jobs` and as
    /// `active_job_ids`.
    Full,
    /// The same, but `active_jobs` is their number.
    Counted,
    /// The fields that the worker protocol 4.2 has, and no others: no visibility timeout.
    Protocol,
    /// The fields of the JSON schema: worker, ids, visibility timeout.
    Bare,
}

impl HeartbeatForm {
    /// How many there are.
    pub const COUNT: u32 = 4;

    /// The one to try when this one is refused.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Full => Self::Counted,
            Self::Counted => Self::Protocol,
            Self::Protocol => Self::Bare,
            Self::Bare => Self::Full,
        }
    }
}

/// How a FETCH is spelled: the documents and the backends disagree here as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FetchForm {
    /// With the worker and the visibility timeout: what the public backends take.
    #[default]
    Full,
    WithoutVisibility,
    /// The queues and the count.
    Bare,
}

impl FetchForm {
    /// How many there are.
    pub const COUNT: u32 = 3;

    /// The one to try when this one is refused.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Full => Self::WithoutVisibility,
            Self::WithoutVisibility => Self::Bare,
            Self::Bare => Self::Full,
        }
    }
}

/// How a deregistration is made (requirements C-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Farewell {
    /// With our state.
    Full,
    /// With nothing but our name: the backend refused the full form.
    Bare,
    /// By DELETE of the worker: the backend has no such operation, or refuses every form of it.
    Delete,
}
