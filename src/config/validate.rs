//! Values that are right alone and wrong together.

use std::time::Duration;

use super::build::HAS_AGENT;
use super::error::{ConfigError, ConfigErrors};
use super::key::Row;
use super::keys::{
    AUTH_TOKEN_FILE, CA_FILE, CERT_FILE, CONCURRENCY, EXEC_OUTPUT_LIMIT, EXEC_USERS, GRACE_PERIOD, HEARTBEAT_INTERVAL,
    KEY_FILE, MAX_FRAME, PASS_TOKEN, PRESTOP_TIME, STOP_MARGIN, TERM_DELAY, TERMINATION_GRACE_PERIOD, URL,
    VISIBILITY_TIMEOUT,
};
use super::sections::Config;
use super::source::Source;
use super::values::Value;
use super::values::duration::Human;
use super::values::enums::Mode;
use super::values::network::BackendUrl;
use ojs_lifecycle::api::{LEAST_LIMIT, stop_margin};

/// Refuses impossible combinations of values, and adds a warning for possible ones that are hardly
/// meant.
///
/// # Errors
/// The impossible combinations.
pub(super) fn check(config: &mut Config) -> Result<(), ConfigErrors> {
    let mut errors = Vec::new();
    limits(config, &mut errors);
    if HAS_AGENT {
        backend(config, &mut errors);
        heartbeat(config, &mut errors);
    }
    if HAS_AGENT && config.mode == Mode::Exec {
        exec(config, &mut errors);
    }
    ConfigErrors::none_of(errors)?;
    let mut warnings = Vec::new();
    cut_grace(config, &mut warnings);
    if HAS_AGENT {
        without_effect(config, &mut warnings);
    }
    if HAS_AGENT && config.mode != Mode::None {
        api_path_twice(config, &mut warnings);
        short_grace(config, &mut warnings);
        doubtful_backend(config, &mut warnings);
    }
    config.warnings.append(&mut warnings);
    Ok(())
}

fn backend(config: &Config, errors: &mut Vec<ConfigError>) {
    if config.backend.url.is_none() && config.mode != Mode::None {
        let mode = config.mode.show();
        errors.push(ConfigError::new(&format!(
            "backend.url is not set, and mode {mode} needs it; set OJS_URL, --url or backend.url, or use --no-agent for a \
             plain init",
        )));
    }
    let (set, missing): (&Row, &Row) = match (&config.backend.cert_file, &config.backend.key_file) {
        (Some(_), None) => (&CERT_FILE, &KEY_FILE),
        (None, Some(_)) => (&KEY_FILE, &CERT_FILE),
        (Some(_), Some(_)) | (None, None) => return,
    };
    let (set, missing) = (config.settings.describe(set), missing.label());
    errors.push(ConfigError::new(&format!("{set} needs {missing}; set both or neither")));
}

fn limits(config: &Config, errors: &mut Vec<ConfigError>) {
    let limits = &config.shutdown.limits;
    let Some(limit) = limits.termination_grace_period else {
        return;
    };
    let mut clash = |key: &Row, rule: String| {
        let value = config.settings.describe(key);
        let limit = config.settings.describe(&TERMINATION_GRACE_PERIOD);
        errors.push(ConfigError::new(&format!(
            "{value} does not fit {limit}; accepted: {rule}"
        )));
    };
    if limits.stop_margin.is_some_and(|margin| margin > limit / 2) {
        clash(&STOP_MARGIN, format!("at most half of it, {}", Human(limit / 2)));
    }
    let most = limit.saturating_sub(LEAST_LIMIT);
    if limits.prestop_time > most {
        let rule = format!("at most {}, so that {} are left", Human(most), Human(LEAST_LIMIT));
        clash(&PRESTOP_TIME, rule);
    }
    if config.shutdown.term_delay >= limit {
        clash(&TERM_DELAY, format!("less than {}", Human(limit)));
    }
}

fn heartbeat(config: &Config, errors: &mut Vec<ConfigError>) {
    let most = config.worker.visibility_timeout / 3;
    if config.worker.heartbeat_interval <= most {
        return;
    }
    let interval = config.settings.describe(&HEARTBEAT_INTERVAL);
    let timeout = config.settings.describe(&VISIBILITY_TIMEOUT);
    errors.push(ConfigError::new(&format!(
        "{interval} is too long for {timeout}; accepted: at most a third of it, {}",
        Human(most)
    )));
}

/// A result that no frame could hold, and too few users for the jobs.
fn exec(config: &Config, errors: &mut Vec<ConfigError>) {
    let (settings, exec, worker) = (&config.settings, &config.exec, &config.worker);
    if exec.output_limit > worker.max_frame {
        errors.push(ConfigError::new(&format!(
            "{} is more than {}; accepted: at most as much, or raise that",
            settings.describe(&EXEC_OUTPUT_LIMIT),
            settings.describe(&MAX_FRAME),
        )));
    }
    if exec.users.is_some_and(|users| users.count() < worker.concurrency) {
        errors.push(ConfigError::new(&format!(
            "{} has too few users for {}; accepted: a user for each job that runs at a time",
            settings.describe(&EXEC_USERS),
            settings.describe(&CONCURRENCY),
        )));
    }
}

/// A configured grace period that the limit does not allow.
fn cut_grace(config: &Config, warnings: &mut Vec<String>) {
    let limits = &config.shutdown.limits;
    let Some(limit) = limits
        .termination_grace_period
        .filter(|_| limits.grace_period_is_explicit)
    else {
        return;
    };
    let margin = stop_margin(limits.stop_margin, limit);
    let left = limit.saturating_sub(margin).saturating_sub(limits.prestop_time);
    if limits.grace_period <= left {
        return;
    }
    let prestop = match limits.prestop_time {
        Duration::ZERO => String::new(),
        time => format!(" and the preStop time of {}", Human(time)),
    };
    warnings.push(format!(
        "{} is cut to {}: {} less the stop margin of {}{prestop}.",
        config.settings.describe(&GRACE_PERIOD),
        Human(left),
        config.settings.describe(&TERMINATION_GRACE_PERIOD),
        Human(margin),
    ));
}

/// A grace period that is too short for any job (GS 6.2). A period of zero is a deliberate choice.
fn short_grace(config: &Config, warnings: &mut Vec<String>) {
    let (grace, interval) = (config.shutdown.limits.grace_period, config.worker.heartbeat_interval);
    let is_short = config.shutdown.limits.grace_period_is_explicit && !grace.is_zero() && grace < interval;
    if is_short {
        warnings.push(format!(
            "{} is less than the heartbeat interval of {}; recommended: the longest job, one heartbeat interval and some \
             margin.",
            config.settings.describe(&GRACE_PERIOD),
            Human(interval),
        ));
    }
}

/// Keys of other modes. In mode none variables are left alone: COMMAND may read them too.
fn without_effect(config: &Config, warnings: &mut Vec<String>) {
    for setting in config.settings.iter() {
        let is_meant = match setting.source {
            Source::CommandLine(_) | Source::File { .. } => true,
            Source::Environment(_) => config.mode != Mode::None,
            Source::Default => false,
        };
        if !is_meant || setting.key.scope.includes(config.mode) {
            continue;
        }
        let key = config.settings.describe(setting.key);
        let (mode, modes) = (config.mode.show(), setting.key.scope.modes().join(", "));
        warnings.push(format!(
            "{key} has no effect in mode {mode}; it has one in mode {modes}: remove it, or change the mode (OJS_MODE, --no-agent)."
        ));
    }
}

/// A URL that already ends with the path that ojs-init adds to it.
fn api_path_twice(config: &mut Config, warnings: &mut Vec<String>) {
    if let Some(shorter) = config.backend.url.as_ref().and_then(BackendUrl::without_api_path) {
        warnings.push(format!(
            "{} ends with /ojs/v1, which ojs-init adds itself: {} is used.",
            config.settings.describe(&URL),
            shorter.as_str()
        ));
        config.backend.url = Some(shorter);
    }
}

fn doubtful_backend(config: &Config, warnings: &mut Vec<String>) {
    let settings = &config.settings;
    let backend = &config.backend;
    if backend.auth_token_file.is_some() && backend.auth_token.is_some() {
        warnings.push(format!(
            "OJS_AUTH_TOKEN is ignored, because {} is set: remove one of them.",
            settings.describe(&AUTH_TOKEN_FILE)
        ));
    }
    if backend.pass_token && config.mode == Mode::Gateway {
        warnings.push(format!(
            "{} passes only OJS_INIT_HEADERS and OJS_PROXY to the worker: in mode gateway its OJS_AUTH_TOKEN is a bearer \
             for the gateway, never the backend's token.",
            settings.describe(&PASS_TOKEN)
        ));
    }
    let has_token = backend.auth_token_file.is_some() || backend.auth_token.is_some();
    if has_token
        && backend
            .headers
            .iter()
            .any(|header| header.name.eq_ignore_ascii_case("authorization"))
    {
        warnings.push(
            "The Authorization header of backend.headers is ignored, because a bearer token is set: remove one of them.".to_owned(),
        );
    }
    let Some(url) = &backend.url else { return };
    if let (Some(proxy), false) = (&backend.proxy, url.is_https())
        && (has_token || !backend.headers.is_empty())
    {
        warnings.push(format!(
            "The proxy {} can read the token and the headers of each request: the backend's URL is not https.",
            proxy.place()
        ));
    }
    for key in [&CA_FILE, &CERT_FILE].into_iter().filter(|_| !url.is_https()) {
        if settings.is_set(key) {
            warnings.push(format!(
                "{} is not used: the backend's URL is not https.",
                settings.describe(key)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::{HEADERS, ONCE, TYPE_WAIT};
    use crate::config::show;
    use crate::config::test_support::{Given, assert_says};

    #[test]
    fn impossible_combinations_are_one_error_each() {
        let limit = |key: &'static Row, value: &str| {
            Given::no_agent()
                .flag(&TERMINATION_GRACE_PERIOD, "30s")
                .flag(key, value)
                .error()
        };
        assert_says(
            &limit(&STOP_MARGIN, "16s"),
            &["stop_margin = 16s", "grace_period = 30s", "at most half of it, 15s"],
        );
        assert_says(
            &limit(&PRESTOP_TIME, "29001ms"),
            &["prestop_time = 29s1ms", "at most 29s"],
        );
        assert_says(&limit(&TERM_DELAY, "30s"), &["term_delay = 30s", "less than 30s"]);
        assert_says(
            &Given::default().error(),
            &["backend.url is not set", "OJS_URL", "--no-agent"],
        );
        assert_says(
            &Given::agent().flag(&CERT_FILE, "/c").error(),
            &["backend.cert_file = /c", "needs backend.key_file"],
        );
        assert_says(
            &Given::agent()
                .flag(&HEARTBEAT_INTERVAL, "11s")
                .flag(&VISIBILITY_TIMEOUT, "30s")
                .error(),
            &[
                "heartbeat_interval = 11s",
                "visibility_timeout = 30s",
                "at most a third of it, 10s",
            ],
        );
    }

    #[test]
    fn all_impossible_combinations_are_reported_together() {
        let given = Given::default()
            .variable("OJS_TERMINATION_GRACE_PERIOD=30s")
            .flag(&STOP_MARGIN, "16s")
            .flag(&TERM_DELAY, "30s")
            .flag(&CERT_FILE, "/c");
        let errors = given.errors().join("\n");
        assert_says(
            &errors,
            &[
                "backend.url is not set",
                "stop_margin = 16s",
                "term_delay = 30s",
                "backend.cert_file = /c",
            ],
        );
        assert_eq!(errors.lines().count(), 4, "{errors}");
    }

    #[test]
    fn a_limit_of_less_than_a_second_is_an_error_that_says_what_is_accepted() {
        for given in [Given::agent(), Given::no_agent()] {
            let error = given.variable("OJS_TERMINATION_GRACE_PERIOD=900ms").error();
            assert_says(&error, &["termination_grace_period", "900ms", "from 1s to"]);
        }
        let least = Given::agent().variable("OJS_TERMINATION_GRACE_PERIOD=1s").config();
        assert_eq!(
            least.shutdown.limits.termination_grace_period,
            Some(Duration::from_secs(1))
        );
    }

    #[test]
    fn a_signal_that_no_worker_can_handle_is_refused_at_every_transition() {
        for (variable, signal) in [
            ("OJS_ON_QUIET", "KILL"),
            ("OJS_ON_RESUME", "STOP"),
            ("OJS_ON_TERMINATE", "9"),
        ] {
            let error = Given::agent().variable(&format!("{variable}={signal}")).error();
            assert_says(&error, &[variable, signal, "not KILL and STOP"]);
        }
    }

    #[test]
    fn a_default_heartbeat_follows_a_short_visibility_timeout() {
        let config = Given::agent().flag(&VISIBILITY_TIMEOUT, "9s").config();
        assert_eq!(config.worker.heartbeat_interval.as_secs(), 3);
        assert_says(&show(&config), &["3s, or as registered"]);
    }

    #[test]
    fn a_grace_period_that_the_limit_cuts_is_a_warning_when_somebody_set_it() {
        let limited = || Given::no_agent().flag(&TERMINATION_GRACE_PERIOD, "30s");
        assert_eq!(limited().config().warnings, [""; 0]);
        assert_eq!(limited().flag(&GRACE_PERIOD, "25s").config().warnings, [""; 0]);
        let warnings = limited()
            .flag(&GRACE_PERIOD, "26s")
            .flag(&PRESTOP_TIME, "4s")
            .config()
            .warnings;
        assert_says(
            &warnings[0],
            &["grace_period = 26s", "cut to 21s", "margin of 5s", "preStop time of 4s"],
        );
    }

    #[test]
    fn a_grace_period_below_a_heartbeat_interval_is_a_warning_with_the_agent() {
        let given = |given: Given, grace| given.flag(&GRACE_PERIOD, grace).config().warnings;
        let warnings = given(Given::agent(), "4s");
        assert_says(
            &warnings[0],
            &["grace_period = 4s", "interval of 5s", "the longest job"],
        );
        assert_eq!(given(Given::agent(), "5s"), [""; 0]);
        assert_eq!(given(Given::agent(), "0s"), [""; 0]);
        assert_eq!(given(Given::no_agent(), "4s"), [""; 0]);
    }

    #[test]
    fn one_job_in_all_is_one_job_at_a_time_in_every_mode() {
        for mode in ["socket", "gateway", "exec"] {
            let given = Given::agent().variable(&format!("OJS_MODE={mode}")).flag(&ONCE, "true");
            let config = given.config();
            let worker = &config.worker;
            assert_eq!(
                (worker.concurrency, worker.concurrency_is_explicit),
                (1, true),
                "{mode}"
            );
            assert_eq!(config.warnings, [""; 0]);
            assert!(
                show(&config)
                    .lines()
                    .any(|line| line.starts_with("worker.concurrency ") && line.contains(" 1 "))
            );
        }
        let both = Given::agent().flag(&ONCE, "true").flag(&CONCURRENCY, "3");
        assert_says(
            &both.config().warnings[0],
            &["worker.concurrency = 3", "no effect", "--once"],
        );
    }

    #[test]
    fn what_only_the_agent_reads_is_a_warning_without_it_unless_it_is_in_the_environment() {
        let given = Given::no_agent()
            .flag(&CONCURRENCY, "3")
            .file("worker.labels = [\"a\"]")
            .variable("OJS_QUEUES=a");
        let warnings = given.config().warnings.join("\n");
        assert_says(
            &warnings,
            &["worker.concurrency = 3 (command line", "worker.labels = a (/"],
        );
        assert!(!warnings.contains("queues"));
    }

    #[test]
    fn what_another_mode_reads_is_a_warning_from_wherever_it_is_set() {
        let given = |mode: &str| {
            Given::agent()
                .variable(&format!("OJS_MODE={mode}"))
                .variable("OJS_GATEWAY_LISTEN=127.0.0.1:1")
                .file("exec.routes = { a = [\"x\"] }")
                .flag(&TYPE_WAIT, "1s")
        };
        let warnings = |mode| given(mode).config().warnings.join("\n");
        let no_effect =
            |mode: &str, modes: &str| format!(" has no effect in mode {mode}; it has one in mode {modes}: remove it");
        let exec = warnings("exec");
        assert_says(
            &exec,
            &[
                "gateway.listen = 127.0.0.1:1",
                "worker.type_wait = 1s",
                &no_effect("exec", "gateway"),
                &no_effect("exec", "socket, gateway"),
            ],
        );
        assert!(!exec.contains("exec.routes"), "{exec}");
        let socket = warnings("socket");
        assert_says(
            &socket,
            &["gateway.listen", "exec.routes = a (", &no_effect("socket", "exec")],
        );
        assert!(!socket.contains("type_wait"), "{socket}");
        let gateway = warnings("gateway");
        assert_eq!(gateway.lines().count(), 1, "{gateway}");
        assert!(gateway.starts_with("exec.routes = a (") && gateway.contains(&no_effect("gateway", "exec")));
    }

    #[test]
    fn a_token_that_the_gateway_does_not_pass_on_is_a_warning() {
        let given = |mode: &str| {
            Given::agent()
                .variable(&format!("OJS_MODE={mode}"))
                .variable("OJS_PASS_TOKEN=true")
        };
        let said = given("gateway").config().warnings.join("\n");
        assert_says(
            &said,
            &[
                "backend.pass_token = true (environment OJS_PASS_TOKEN) passes only OJS_INIT_HEADERS and OJS_PROXY",
                "a bearer for the gateway",
            ],
        );
        assert_eq!(given("socket").config().warnings, [""; 0]);
    }

    #[test]
    fn a_result_fits_a_frame_and_there_is_a_user_for_each_job() {
        let exec = || Given::agent().variable("OJS_MODE=exec");
        let small = exec().flag(&MAX_FRAME, "64KiB");
        assert_eq!(small.config().exec.output_limit, 64 << 10);
        assert_says(
            &small.flag(&EXEC_OUTPUT_LIMIT, "65KiB").error(),
            &["exec.output_limit = 65KiB", "more than worker.max_frame = 64KiB"],
        );
        let users = |range| exec().flag(&CONCURRENCY, "5").flag(&EXEC_USERS, range);
        assert_eq!(users("100-104").config().warnings, [""; 0]);
        assert_says(
            &users("100-103").error(),
            &["exec.users = 100-103", "too few users for worker.concurrency = 5"],
        );
    }

    #[test]
    fn a_doubtful_backend_is_a_warning() {
        let url = |url: &str| Given::default().flag(&URL, url);
        let twice = url("http://b/x/ojs/v1/").config();
        assert_says(
            &twice.warnings[0],
            &["http://b/x/ojs/v1 (", "adds itself: http://b/x is used"],
        );
        assert_eq!(twice.backend.url.unwrap().as_str(), "http://b/x");
        assert_eq!(url("http://b/ojs/v1/x").config().warnings, [""; 0]);
        assert_says(
            &url("http://b").variable("OJS_TLS_CA_FILE=/ca").config().warnings[0],
            &["is not https"],
        );
        let twice = Given::agent()
            .variable("OJS_AUTH_TOKEN=hunter2")
            .variable("OJS_AUTH_TOKEN_FILE=/t");
        assert_says(&twice.config().warnings[0], &["OJS_AUTH_TOKEN is ignored, because"]);
        let header = Given::agent()
            .variable("OJS_AUTH_TOKEN=hunter2")
            .flag(&HEADERS, "Authorization: x");
        assert_says(&header.config().warnings[0], &["Authorization header"]);
    }
}
