//! Where ojs-init runs, and what follows from that for the times of a shutdown.

use std::path::Path;

use crate::config::{self, Config};
use ojs_lifecycle::api::{ShutdownTimes, Surroundings};
use ojs_os::entry::Environ;
use ojs_os::init;

/// Files that container engines leave in a container.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Set by Kubernetes in each container.
const KUBERNETES_MARK: &str = "KUBERNETES_SERVICE_HOST";

/// The environment in which ojs-init runs, as far as it can be seen.
pub fn surroundings(environ: &Environ) -> Surroundings {
    if environ.value(KUBERNETES_MARK).is_some_and(|host| !host.is_empty()) {
        Surroundings::Kubernetes
    } else if init::is_pid_1() || CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists()) {
        Surroundings::Container
    } else {
        Surroundings::None
    }
}

/// The doubts of a start about the times of a shutdown.
pub fn doubtful_times(config: &Config, environ: &Environ) -> Vec<String> {
    let times = ShutdownTimes::of_agent(&config.shutdown.limits, surroundings(environ));
    config::doubtful_times(config, &times)
}
