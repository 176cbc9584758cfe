//! A build that cannot read the TOML file: a file that a full build would read must not be passed
//! over in silence.

use std::path::Path;

use super::build::{DEFAULT_FILE, absent};
use super::error::{ConfigError, OnMistake};
use super::settings::Settings;

/// Refuses the default file, if it exists. A file that is named is refused with its key.
///
/// # Errors
/// The file is there, unless that is passed over.
pub(super) fn apply(_: &mut Settings, on_mistake: OnMistake<'_>) -> Result<(), ConfigError> {
    if Path::new(DEFAULT_FILE).exists() {
        return on_mistake(None, ConfigError::new(&absent(&format!("the file {DEFAULT_FILE}"))));
    }
    Ok(())
}
