//! Variables that were probably meant for ojs-init, and that nothing reads. A typing error in a
//! grace period costs jobs, so each gets a warning. Only names are read; no value is ever part of a
//! warning.
//!
//! A suspect is a warning and no error, because other programs use the namespace too: SDKs,
//! backends, and Kubernetes, which sets `OJS_SERVER_PORT` for a service of that name.

use std::collections::BTreeSet;

use super::key::Row;
use super::keys::{CONCURRENCY, KEYS, POLL_INTERVAL};
use super::sections::Config;
use super::similar::most_alike;
use super::values::enums::Mode;

/// The beginning of the ecosystem's variables.
const ECOSYSTEM: &str = "OJS_";

/// The beginning of variables that can only be meant for ojs-init.
const ONLY_OURS: &str = "OJS_INIT_";

/// Most unknown variables that are looked at; an environment may hold a hundred thousand.
const MOST_LOOKED_AT: usize = 256;

/// Most variables with a warning, each in a separate line.
const MOST_NAMED: usize = 16;

/// Longest name that may be a typing error, in bytes: those of ojs-init have fewer than 40.
const MAX_NAME_BYTES: usize = 64;

/// Shortest beginning of a known name that counts as a truncated one, in bytes without the `OJS_`.
/// A shorter one could be any program's.
const SHORTEST_BEGINNING: usize = 5;

/// Longest name, without the `OJS_`, that is suspected after one wrong letter. Longer names are
/// suspected after one or two.
const SHORT_NAME: usize = 5;

/// Units that people add to a name.
const UNITS: [&str; 8] = ["MS", "MILLIS", "S", "SEC", "SECS", "SECONDS", "MINUTES", "BYTES"];

/// Names that SDKs, backends, the website and the specifications use, that ojs-init itself passes
/// to a worker, or that a later version may read. Setting one is no mistake.
const OF_OTHERS: [&str; 28] = [
    "OJS_ALLOW_INSECURE_NO_AUTH",
    "OJS_API_KEY",
    "OJS_GRPC_PORT",
    "OJS_IDLE_TIMEOUT",
    "OJS_INIT",
    "OJS_JOB_ARGS",
    "OJS_JOB_ATTEMPT",
    "OJS_JOB_CHECKPOINT",
    "OJS_JOB_DEADLINE",
    "OJS_JOB_FD",
    "OJS_JOB_ID",
    "OJS_JOB_MAX_ATTEMPTS",
    "OJS_JOB_QUEUE",
    "OJS_JOB_TYPE",
    "OJS_JOB_TYPES",
    "OJS_OTEL_ENABLED",
    "OJS_OTEL_ENDPOINT",
    "OJS_PERSIST",
    "OJS_PORT",
    "OJS_READ_TIMEOUT",
    "OJS_RETENTION_CANCELLED",
    "OJS_RETENTION_COMPLETED",
    "OJS_RETENTION_DISCARDED",
    "OJS_SIGNING_SECRET",
    "OJS_SOCKET",
    "OJS_WORKER_CONCURRENCY",
    "OJS_WORKER_POLL_INTERVAL",
    "OJS_WRITE_TIMEOUT",
];

/// Names of other programs that many expect to work here as well, with the equivalent key.
static EXPECTED: [(&str, &Row); 2] = [
    ("OJS_WORKER_CONCURRENCY", &CONCURRENCY.row),
    ("OJS_WORKER_POLL_INTERVAL", &POLL_INTERVAL.row),
];

/// One warning for each of these unknown variables that was probably meant for ojs-init.
pub(super) fn warnings(unknown: &[&[u8]], config: &Config) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = unknown.iter().take(MOST_LOOKED_AT).filter(|name| seen.insert(**name));
    let mut warnings: Vec<String> = names.filter_map(|name| warning(name, config)).collect();
    let more = warnings.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        warnings.truncate(MOST_NAMED);
        warnings.push(format!("{more} more variables beginning with {ECOSYSTEM} are unknown."));
    }
    warnings
}

fn warning(name: &[u8], config: &Config) -> Option<String> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let name = String::from_utf8_lossy(name);
    if OF_OTHERS.contains(&name.as_ref()) {
        return expected(&name, config);
    }
    if is_service_link(&name) {
        return None;
    }
    // Without the agent most variables have no effect, and COMMAND may use similar ones.
    let keys = KEYS
        .into_iter()
        .filter(|key| key.scope.includes(Mode::None) || config.mode != Mode::None);
    if let Some(table) = keys
        .clone()
        .find(|key| key.env.is_empty() && is_other_spelling(bare_name(&name), key))
    {
        return Some(format!(
            "{name:?} is not a variable of ojs-init: {} is a table, which only the configuration file can hold.",
            table.label()
        ));
    }
    match (meant(&name, keys), name.starts_with(ONLY_OURS)) {
        (Some(known), _) => Some(format!("{name:?} is not a variable of ojs-init; did you mean {known}?")),
        (None, true) => Some(format!(
            "{name:?} is not a variable of ojs-init; `ojs-init run --help` lists them."
        )),
        (None, false) => None,
    }
}

/// A warning that names the variable of ojs-init in place of one that other programs read; none if
/// both are set, because both may be meant.
fn expected(name: &str, config: &Config) -> Option<String> {
    let (_, key) = EXPECTED.iter().find(|(expected, _)| *expected == name)?;
    let is_ours_to_say = config.mode != Mode::None && !config.settings.is_set(key);
    let ours = key.env.first()?;
    is_ours_to_say.then(|| {
        format!(
            "{name} is for workers that use an SDK, and ojs-init does not read it: {} holds; set {ours}.",
            config.settings.describe(key)
        )
    })
}

/// The variable of ojs-init that this name was probably meant to be; `None` if it may belong to
/// another program.
fn meant(name: &str, keys: impl Iterator<Item = &'static Row> + Clone) -> Option<&'static str> {
    let of_ours_alone = name.strip_prefix(ONLY_OURS);
    let bare = of_ours_alone.or(name.strip_prefix(ECOSYSTEM))?;
    let known = || keys.clone().flat_map(|key| key.env.iter().copied());
    keys.clone()
        .find(|key| is_other_spelling(bare, key))
        .and_then(|key| key.env.first().copied())
        .or_else(|| known().find(|known| is_too_short_or_long(bare, known)))
        .or_else(|| nearest(bare, known()))
        .or_else(|| of_ours_alone.and_then(|bare| ends_like(bare, known()).or_else(|| alike(bare, known()))))
}

/// Whether this is the name of the key on the command line or in the file, written as a variable:
/// `OJS_CA_FILE`, `OJS_INIT_CA_FILE` or `OJS_BACKEND_CA_FILE`.
fn is_other_spelling(bare: &str, key: &Row) -> bool {
    let is = |name: &str| name.eq_ignore_ascii_case(bare);
    key.flag.is_some_and(|flag| is(&flag.replace('-', "_"))) || key.toml.is_some_and(|toml| is(&toml.replace('.', "_")))
}

/// True if one of the two names continues the other: `OJS_TERMINATION_GRACE`,
/// `OJS_POLL_INTERVAL_MS`.
fn is_too_short_or_long(bare: &str, known: &str) -> bool {
    let known = bare_name(known);
    let rest = |long: &str, short: &str| long.strip_prefix(short)?.strip_prefix('_').map(str::to_owned);
    let is_beginning = bare.len() >= SHORTEST_BEGINNING && rest(known, bare).is_some();
    is_beginning || rest(bare, known).is_some_and(|unit| UNITS.contains(&unit.as_str()))
}

/// The known name that is one or two slips of the keyboard away.
fn nearest(bare: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let slips = |known: &str| {
        let known = bare_name(known);
        let most = if known.len() <= SHORT_NAME { 1 } else { 2 };
        Some(strsim::osa_distance(bare, known)).filter(|slips| *slips <= most)
    };
    let near = known.filter_map(|known| slips(known).map(|slips| (slips, known)));
    near.min_by_key(|(slips, _)| *slips).map(|(_, known)| known)
}

/// The known name that ends with this one, as for `OJS_INIT_TELL_WORKER`, because every name with
/// `OJS_INIT_` is meant for ojs-init.
fn ends_like(bare: &str, mut known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    known.find(|known| {
        let start = bare_name(known).strip_suffix(bare);
        bare.len() >= SHORTEST_BEGINNING && start.is_some_and(|start| start.ends_with('_'))
    })
}

/// The known name that is at least a little like this one.
fn alike(bare: &str, mut known: impl Iterator<Item = &'static str> + Clone) -> Option<&'static str> {
    let alike = most_alike(bare, known.clone().map(bare_name))?;
    known.find(|known| bare_name(known) == alike)
}

/// The variables that Kubernetes and old Docker links set for a service whose name begins with
/// `ojs`: `OJS_SERVER_SERVICE_HOST`, `OJS_SERVER_PORT_8080_TCP_ADDR`. No variable of ojs-init ends
/// like one.
fn is_service_link(name: &str) -> bool {
    let is_of_port = name
        .split_once("_PORT_")
        .is_some_and(|(_, rest)| rest.starts_with(|first: char| first.is_ascii_digit()));
    name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.ends_with("_PORT") || is_of_port
}

/// A name without the prefix of ojs-init's variables.
fn bare_name(known: &str) -> &str {
    known
        .strip_prefix(ONLY_OURS)
        .or(known.strip_prefix(ECOSYSTEM))
        .unwrap_or(known)
}

#[cfg(test)]
#[path = "misspelt_tests.rs"]
mod tests;
