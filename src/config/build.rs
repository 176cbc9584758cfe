//! The cargo feature `agent`, and the parts of ojs-init that a build without it lacks.

/// Whether the binary is also the worker of an Open Job Spec backend, and not a plain init alone.
pub const HAS_AGENT: bool = cfg!(feature = "agent");

/// The configuration file that is read by default; it need not exist.
pub(super) const DEFAULT_FILE: &str = "/etc/ojs-init.toml";

/// The error for something that only the full build has.
pub fn absent(what: &str) -> String {
    format!(
        "{what} is not in this build of ojs-init: it is the plain init alone, without the Open Job Spec worker and the \
         configuration file; install the full ojs-init (the package, or the archive without -init in its name), or leave \
         this out"
    )
}
