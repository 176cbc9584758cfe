//! The proxy that the environment sets for all programs, if `backend.proxy` is not set.

use super::environment::Environment;
use super::error::ConfigError;
use super::keys::{PROXY, URL};
use super::no_proxy::exempts;
use super::settings::Settings;
use super::source::Source;
use super::values::enums::Mode;
use super::values::proxy::{Proxy, ProxySetting};

/// The proxies of the two schemes, and the hosts without one. Of two spellings the first that is
/// set counts.
const FOR_HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const FOR_HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const EXEMPT: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Sets `backend.proxy` to the environment's proxy for the backend's URL, unless it is already set.
/// A proxy for other hosts is ignored.
///
/// # Errors
/// The proxy is unusable.
pub(super) fn apply(
    settings: &mut Settings,
    mode: Mode,
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    let Some(url) = settings
        .value(&URL)
        .filter(|_| mode != Mode::None && !settings.is_set(&PROXY))
    else {
        return Ok(());
    };
    let names = if url.is_https() { FOR_HTTPS } else { FOR_HTTP };
    let Some((name, text)) = variable(names, environment, warnings) else {
        return Ok(());
    };
    let (host, port) = url.host_and_port();
    let mut unread = Vec::new();
    let exempt = variable(EXEMPT, environment, &mut unread).is_some_and(|(_, list)| exempts(&list, host, port));
    if exempt || is_this_machine(host) {
        return Ok(());
    }
    warnings.extend(unread);
    let source = Source::Environment(name);
    let proxy = Proxy::parse(&text).map_err(|problem| {
        let problem = format!(
            "{problem}; set OJS_PROXY=off, or {} for a backend that needs no proxy",
            EXEMPT[0]
        );
        ConfigError::value(&PROXY, &text, &source, &problem)
    })?;
    settings.replace(&PROXY, Some(ProxySetting(Some(proxy))), source);
    Ok(())
}

/// The first of two spellings that is set, with a warning if the other one differs. Its text may
/// hold a secret.
fn variable(
    names: [&'static str; 2],
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Option<(&'static str, String)> {
    let [first, second] = names.map(|name| environment.of_others(name).map(|value| (name, value)));
    if let (Some((used, value)), Some((other, different))) = (first, second)
        && value != different
    {
        warnings.push(format!("{used} and {other} differ: {used} is used."));
    }
    let (name, value) = first.or(second)?;
    Some((name, String::from_utf8_lossy(value).into_owned()))
}

/// The environment's proxy never applies to the loopback, as in Go, because for the proxy that is
/// another machine.
fn is_this_machine(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::show;
    use crate::config::test_support::{Given, assert_says};

    fn chosen(url: &str, variables: &[&str]) -> Option<String> {
        let given = Given::default().flag(&URL, url);
        let given = variables.iter().fold(given, |given, variable| given.variable(variable));
        given.config().backend.proxy.map(|proxy| proxy.place())
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme_unless_the_backend_is_exempt_or_somebody_says_otherwise() {
        let both = ["HTTPS_PROXY=http://s:1", "HTTP_PROXY=http://h:2"];
        let with = |more: &'static str| [both[0], both[1], more];
        let is = |place: &str| Some(place.to_owned());
        assert_eq!(chosen("https://b", &both), is("s:1"));
        assert_eq!(chosen("http://b", &both), is("h:2"));
        assert_eq!(chosen("http://b", &["http_proxy=h:2"]), is("h:2"));
        assert_eq!(chosen("https://b", &["HTTP_PROXY=http://h:2"]), None);
        assert_eq!(chosen("https://b:8443", &with("NO_PROXY=b:8443")), None);
        assert_eq!(chosen("https://b", &with("NO_PROXY=b:8443")), is("s:1"));
        assert_eq!(chosen("https://b.c", &with("no_proxy=.c")), None);
        assert_eq!(chosen("https://b", &with("OJS_PROXY=o")), is("o:80"));
        assert_eq!(chosen("https://b", &with("OJS_PROXY=off")), None);
        // A proxy that is set for ojs-init alone is for every host.
        assert_eq!(chosen("https://b", &["OJS_PROXY=o", "NO_PROXY=*"]), is("o:80"));
        for own in ["https://localhost", "https://127.0.0.1:8", "https://[::1]"] {
            assert_eq!(chosen(own, &both), None, "{own}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_an_error_only_where_it_would_be_used() {
        let given = |variable: &str| Given::default().flag(&URL, "https://b").variable(variable);
        for (variable, says) in [
            ("HTTPS_PROXY=socks5://u:hunter2@p:1080", "is a SOCKS proxy"),
            ("https_proxy=https://u:hunter2@p", "over TLS"),
            ("OJS_PROXY=https://u:hunter2@p", "over TLS"),
        ] {
            let name = variable.split('=').next().unwrap();
            let error = given(variable).error();
            assert_says(
                &error,
                &[name, says, "accepted: http://[USER:PASSWORD@]HOST[:PORT], or off"],
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert_eq!(chosen("http://b", &["HTTPS_PROXY=socks5://p"]), None);
        assert_eq!(chosen("https://b", &["HTTPS_PROXY=socks5://p", "NO_PROXY=b"]), None);
        assert_eq!(chosen("https://b", &["HTTPS_PROXY=socks5://p", "OJS_PROXY=off"]), None);
        let plain = Given::no_agent()
            .variable("OJS_URL=https://b")
            .variable("HTTPS_PROXY=socks5://p");
        assert_eq!(plain.config().backend.proxy, None);
    }

    #[test]
    fn where_the_proxy_comes_from_is_shown_and_its_credentials_are_not() {
        let config = Given::default()
            .flag(&URL, "https://b")
            .variable("HTTPS_PROXY=http://somebody:hunter2@p:3128")
            .variable("https_proxy=http://other:hunter2@q")
            .config();
        let shown = show(&config);
        assert_says(&shown, &["http://...@p:3128", "environment HTTPS_PROXY"]);
        assert_says(&config.warnings[0], &["HTTPS_PROXY and https_proxy differ"]);
        for text in [shown, config.warnings.join("\n"), format!("{config:?}")] {
            assert!(!text.contains("hunter2") && !text.contains("somebody"), "{text}");
        }
    }

    #[test]
    fn a_token_that_a_proxy_can_read_is_a_warning() {
        let warnings = |url: &str| {
            let given = Given::default().flag(&URL, url).variable("OJS_PROXY=p");
            given.variable("OJS_AUTH_TOKEN=hunter2").config().warnings
        };
        assert_says(&warnings("http://b")[0], &["p:80", "can read the token", "https"]);
        assert_eq!(warnings("https://b"), [""; 0]);
    }
}
