//! Which part of a record is drawn.

/// Which part of a record is drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// When the picture begins, in milliseconds by the clock of the events; `None`: with the first
    /// thing that happened.
    pub from: Option<f64>,
    /// When the picture ends; `None`: with the last thing that happened.
    pub to: Option<f64>,
    /// The only worker that is drawn; `None`: all are. Events without a worker and a job are always
    /// drawn.
    pub worker: Option<String>,
}
