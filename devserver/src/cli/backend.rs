//! The options that select the backend of a command.

use clap::Args;

/// Which backend a command is about.
#[derive(Debug, Args)]
pub(super) struct BackendArgs {
    /// Where the backend is
    #[arg(long, value_name = "URL", env = "OJS_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// The bearer token to show
    #[arg(long, value_name = "TOKEN", env = "OJS_AUTH_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}
