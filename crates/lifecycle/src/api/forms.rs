//! Forms of requests that the documents and the backends disagree about. ojs-init tries one form
//! after the other.

/// The forms of one request, in the order in which ojs-init tries them.
pub trait RequestForm: Copy + Default + PartialEq {
    /// Number of forms.
    const COUNT: u32;

    /// The form to try if the backend refuses this one.
    fn next(self) -> Self;
}

/// The forms of a heartbeat: the documents and the backends disagree (requirements C-08).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeartbeatForm {
    /// All fields of the worker protocol 4.2, with the ids both as `active_jobs` and as
    /// `active_job_ids`.
    #[default]
    Full,
    /// As `Full`, but `active_jobs` is the number of jobs.
    Counted,
    /// Only the fields of the worker protocol 4.2: no visibility timeout.
    Protocol,
    /// The fields of the JSON schema: worker, ids, visibility timeout.
    Bare,
}

impl RequestForm for HeartbeatForm {
    const COUNT: u32 = 4;

    fn next(self) -> Self {
        match self {
            Self::Full => Self::Counted,
            Self::Counted => Self::Protocol,
            Self::Protocol => Self::Bare,
            Self::Bare => Self::Full,
        }
    }
}

/// The forms of a FETCH: the documents and the backends disagree here as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FetchForm {
    /// With the worker and the visibility timeout. The public backends accept it.
    #[default]
    Full,
    WithoutVisibility,
    /// The queues and the count.
    Bare,
}

impl RequestForm for FetchForm {
    const COUNT: u32 = 3;

    fn next(self) -> Self {
        match self {
            Self::Full => Self::WithoutVisibility,
            Self::WithoutVisibility => Self::Bare,
            Self::Bare => Self::Full,
        }
    }
}

/// The forms of a deregistration (requirements C-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Farewell {
    /// With the worker's state.
    Full,
    /// With the worker's name alone, because the backend refused the full form.
    Bare,
    /// By DELETE of the worker, because the backend has no such operation or refuses every form of
    /// it.
    Delete,
}
