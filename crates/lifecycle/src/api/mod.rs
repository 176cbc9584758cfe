//! The border of the machine: events in, effects out, and the values in them.
//!
//! | question | file |
//! |---|---|
//! | which events does the machine receive? | `event`; frames of a worker: `frames`; answers of the backend: `call`, `stream` |
//! | which orders does it return? | `effect`; requests to the backend: `call`, `endpoint`, `forms` |
//! | which reports does it make? | `notice`, `end_report`, `status`, `health`, `snapshot`, `operator_cancel` |
//! | how is it configured? | `options`, `budget` |
//! | which names and times do all of these use? | `ids`, `time`, `timer`, `phase`, `words` |
//!
//! No file here makes decisions or knows the modules beside this one. The folder may use
//! `ojs_values`. Start with `event` and `effect`.

pub mod answer;
pub mod budget;
pub mod call;
pub mod capacity;
pub mod death;
pub mod effect;
pub mod end_cause;
pub mod end_report;
pub mod endpoint;
pub mod envelope;
pub mod event;
pub mod force;
pub mod forms;
pub mod frames;
pub mod health;
pub mod ids;
pub mod job;
pub mod manners;
pub mod notice;
pub mod operator_cancel;
pub mod options;
pub mod outcome;
pub mod phase;
pub mod processes;
pub mod recycle;
pub mod snapshot;
pub mod status;
pub mod stream;
pub mod tally;
pub mod time;
pub mod timer;
pub mod trouble;
pub mod words;
pub mod worker_end;

pub use answer::{Disposition, OperatorAnswer, ShownToOperator};
pub use budget::{
    ASSUMED_DISTANCE, Budget, LEAST_LIMIT, LimitSource, Limits, ShutdownTimes, Surroundings, cancel_grace, slack,
    stop_margin,
};
pub use call::{BackendTraits, Call, Directive, Failure, FailureClass, JobRequest, Reply, Takes};
pub use capacity::CapacityNews;
pub use death::{Death, Departure};
pub use effect::{Effect, JOB_FRAME_BYTES, MOST_JOB_ID_BYTES};
pub use end_cause::EndCause;
pub use end_report::{EndReport, EndedBy, MOST_LEFT_NAMES};
pub use endpoint::{AnswerSize, Endpoint, Lane};
pub use envelope::Envelope;
pub use event::{Event, NotStarted, OperatorRequest};
pub use force::Force;
pub use forms::{Farewell, FetchForm, HeartbeatForm, RequestForm};
pub use frames::{ErrorCode, FromWorker, GivenJob, OfPull, Progress, Ready, ToWorker, Wants};
pub use health::{Health, Probe, Unhealthy};
pub use ids::{CallId, Claim, ClientId, HolderId, JobId, ProcessId, PullId, Text, WorkerId};
pub use job::{Delivery, JobError, JobState, JobView, Reservation, Subject, Trace};
pub use manners::Manners;
pub use notice::{EndingNotice, InPlaceOfDeaf, JobNotice, LinkNotice, Notice, WorkerNotice};
pub use operator_cancel::{CancelAnswer, CancelRefusal, StoppingJob};
pub use options::{
    FinalState, Leftovers, MAX_CONCURRENCY, Options, Queues, Restart, StopSignal, TransitionSignals, Wake,
};
pub use outcome::{FIRST_HOLD, JobEnd, LONGEST_HOLD, Outcome};
pub use phase::Phase;
pub use processes::{
    KILL_RESCAN_AFTER, RESCAN_AFTER, Restarts, SHORTAGE_WINDOW, doubled, restart_pause, shortage_pause, time_to_kill,
};
pub use recycle::{RecycleLimits, RecycleReason};
pub use snapshot::Snapshot;
pub use status::{
    BackendStatus, FinalStep, HolderState, HolderStatus, JobActivity, JobList, JobPlace, JobStatus, NotRunningBecause,
    Status, WorkerStatus,
};
pub use stream::{MOST_STREAMS, StreamNews, StreamTopic};
pub use tally::ShutdownCounts;
pub use time::Moment;
pub use timer::{EndingTimer, JobTimer, LinkTimer, Timer, WorkerTimer};
pub use trouble::Trouble;
pub use words::{About, CANCELLED_BY_OPERATOR, CancelReason, DropCause, Reason, WorkerState};
pub use worker_end::{Manner, StillThere, WorkerEnd};
