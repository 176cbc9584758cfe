//! The configuration. Command line, environment and TOML file become one typed [`Config`] that
//! remembers the source of each value.
//!
//! The table in [`keys`] is the heart, and all other files read it. [`flags`](Flags),
//! [`Environment`] and the file give texts, which `values` turns into typed values. `settings`
//! keeps the one of highest precedence. `sections` holds them, and `validate` checks them together.
//!
//! The folder may use `lifecycle::api` and `values`. It reads one file and acts on nothing. Start
//! with [`keys`], then `sections`; `validate` has the rules for several values together.

mod build;
mod collector_choice;
mod doubtful_times;
mod environment;
mod error;
#[cfg(feature = "agent")]
mod file;
#[cfg(not(feature = "agent"))]
#[path = "no_file.rs"]
mod file;
mod flags;
#[cfg(feature = "agent")]
mod handover;
pub mod key;
pub mod keys;
mod load;
mod misspelt;
mod no_proxy;
mod of_others;
mod proxy_choice;
mod sections;
mod settings;
mod show;
mod similar;
mod source;
#[cfg(test)]
mod test_support;
mod validate;
pub mod values;

pub use build::{HAS_AGENT, absent};
pub use doubtful_times::doubtful_times;
pub use environment::Environment;
pub use error::{ConfigError, ConfigErrors};
pub use flags::Flags;
#[cfg(feature = "agent")]
pub use handover::{OwnProgram, RUNNER_VARIABLE, RunnerSettings, TERMINATE_SIGNAL};
pub use key::{Key, Row};
pub use load::{Salvaged, load, load_paths, salvage};
pub use sections::{Backend, Config, Exec, Gateway, Health, Init, Log, Otel, Paths, Process, Shutdown, Worker};
pub use settings::{Setting, Settings};
pub use show::{check_report, show, warning_lines};
pub use similar::most_alike;
pub use source::Source;
pub use values::Value;
pub use values::enums::{GatewayAllow, LogFormat, Mode};
pub use values::log_levels::{LogLevels, PARTS as LOG_PARTS};
pub use values::loopback::Loopback;
pub use values::masked::masked;
pub use values::network::{BackendUrl, Header, Listen, Secret, place};
pub use values::proxy::Proxy;
pub use values::user::UserSpec;
