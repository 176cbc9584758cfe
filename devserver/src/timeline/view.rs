//! Which part of a record is drawn.

/// Which part of a record is drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// From when on, in milliseconds by the clock of the events; `None`: from the first thing that happened.
    pub from: Option<f64>,
    /// Until when; `None`: until the last.
    pub to: Option<f64>,
    /// Of this worker only; what names no worker and no job is drawn all the same.
    pub worker: Option<String>,
}
