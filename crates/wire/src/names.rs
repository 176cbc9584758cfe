//! The names of the lifecycle's values on the wire.

use ojs_lifecycle::api::{About, CancelReason, Endpoint, ErrorCode, JobActivity, JobEnd, Phase, Probe, WorkerState};

/// The `code` of an error frame.
pub fn error_code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotJson => "not_json",
        ErrorCode::InvalidFrame => "invalid_frame",
        ErrorCode::FrameTooLong => "frame_too_long",
        ErrorCode::UnknownType => "unknown_type",
        ErrorCode::UnsupportedProtocol => "unsupported_protocol",
        ErrorCode::NotHeld => "not_held",
        ErrorCode::Lost => "lost",
        ErrorCode::Refused => "refused",
        ErrorCode::NotOffered => "not_offered",
        ErrorCode::Unavailable => "unavailable",
    }
}

/// The `state` of hello and lifecycle frames, and of heartbeats.
pub fn worker_state(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Running => "running",
        WorkerState::Quiet => "quiet",
        WorkerState::Terminate => "terminate",
        WorkerState::Terminated => "terminated",
    }
}

/// The `reason` of a cancel frame.
pub fn cancel_reason(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Shutdown => "shutdown",
        CancelReason::Timeout => "timeout",
        CancelReason::Cancelled | CancelReason::Operator => "cancelled",
        CancelReason::Lost => "lost",
    }
}

/// The `cancel_reason` of a job on the control socket, which tells an operator's cancel from one at
/// the backend.
pub fn shown_cancel_reason(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Operator => "operator",
        CancelReason::Shutdown | CancelReason::Timeout | CancelReason::Cancelled | CancelReason::Lost => {
            cancel_reason(reason)
        }
    }
}

/// The `state` of a job on the control socket.
pub fn activity(activity: JobActivity) -> &'static str {
    match activity {
        JobActivity::WaitsForHandler => "waits for a handler",
        JobActivity::WaitsForLook => "waits for a look at its earlier delivery",
        JobActivity::WaitsForTurn => "waits to run alone",
        JobActivity::Runs => "runs",
        JobActivity::RunsPastTimeout => "runs past its timeout",
        JobActivity::Stops(_) => "is told to stop",
        JobActivity::IsDropped => "is dropped",
        JobActivity::Reports(_) => "outcome waits for the backend",
        JobActivity::GoesBack => "goes back later",
    }
}

/// The `for` of an ok frame.
pub fn about(about: About) -> &'static str {
    match about {
        About::Ack => "ack",
        About::Fail => "fail",
        About::Release => "release",
        About::Progress => "progress",
        About::Checkpoint => "checkpoint",
    }
}

/// The `outcome` of a metric.
pub fn end(end: JobEnd) -> &'static str {
    match end {
        JobEnd::Acked => "acked",
        JobEnd::Failed => "failed",
        JobEnd::Requeued => "requeued",
        JobEnd::Left => "left",
        JobEnd::Lost => "lost",
        JobEnd::Cancelled => "cancelled",
    }
}

/// The `endpoint` of a metric.
pub fn endpoint(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Register => "register",
        Endpoint::Heartbeat => "heartbeat",
        Endpoint::Fetch => "fetch",
        Endpoint::Ack => "ack",
        Endpoint::Nack => "nack",
        Endpoint::Info => "info",
        Endpoint::Progress => "progress",
        Endpoint::Checkpoint => "checkpoint",
        Endpoint::Manifest => "manifest",
        Endpoint::Events => "events",
        Endpoint::Deregister => "deregister",
    }
}

/// A phase, on the control socket and in `/status`.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "running",
        Phase::Quiet => "quiet",
        Phase::Delay => "delay",
        Phase::Drain => "drain",
        Phase::EndGame => "end_game",
        Phase::Stop => "stop",
        Phase::Exited => "exited",
    }
}

/// The `probe` of a `health` request.
pub fn probe(probe: Probe) -> &'static str {
    match probe {
        Probe::Live => "live",
        Probe::Ready => "ready",
        Probe::Healthy => "healthy",
    }
}
