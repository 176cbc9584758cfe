//! The worker's environment: the gateway's address replaces the backend's, and the worker's own
//! bearer replaces the token.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;

/// The names by which workers know the backend's address.
const URLS: [&str; 3] = ["OJS_URL", "OJS_BACKEND_URL", "OJS_SERVER_URL"];

/// The names by which SDKs and their examples know the bearer.
const BEARERS: [&str; 2] = ["OJS_AUTH_TOKEN", "OJS_API_KEY"];

/// The hosts that HTTP clients reach without a proxy. Some clients read one variable, some the
/// other.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Variables that only the worker itself may have, for a gateway at this address. `known` is the
/// environment of ojs-init.
pub fn variables<'e>(
    gateway: SocketAddr,
    bearer: &str,
    known: impl Fn(&str) -> Option<&'e OsStr>,
) -> Vec<(&'static str, OsString)> {
    let url = OsString::from(format!("http://{gateway}"));
    let urls = URLS.map(|name| (name, url.clone()));
    let bearers = BEARERS.map(|name| (name, OsString::from(bearer)));
    let host = gateway.ip().to_string();
    let exempt = |name: &str| known(name).filter(|value| !value.is_empty());
    let no_proxy = NO_PROXY.map(|name| {
        // A new variable would hide the other one from clients that read both.
        let before = exempt(name).or_else(|| NO_PROXY.into_iter().find_map(exempt));
        (name, with(before, &host))
    });
    urls.into_iter().chain(bearers).chain(no_proxy).collect()
}

fn with(list: Option<&OsStr>, host: &str) -> OsString {
    let Some(list) = list else { return host.into() };
    let is_there = list.to_string_lossy().split(',').any(|known| known.trim() == host);
    let mut list = list.to_owned();
    if !is_there {
        list.push(",");
        list.push(host);
    }
    list
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot get at its answer has failed")]
mod tests {
    use super::*;

    fn of(known: &[(&str, &str)], name: &str) -> String {
        let gateway = "127.0.0.1:4780".parse().unwrap();
        let value = |name: &str| {
            known
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsStr::new(*value))
        };
        let all = variables(gateway, "hunter2", value);
        let found = all.into_iter().find(|(known, _)| *known == name);
        found.unwrap().1.into_string().unwrap()
    }

    #[test]
    fn the_worker_is_sent_to_us_under_every_name() {
        for name in ["OJS_URL", "OJS_BACKEND_URL", "OJS_SERVER_URL"] {
            assert_eq!(of(&[(name, "https://backend")], name), "http://127.0.0.1:4780");
        }
        for name in ["OJS_AUTH_TOKEN", "OJS_API_KEY"] {
            assert_eq!(of(&[(name, "the real one")], name), "hunter2");
        }
    }

    #[test]
    fn no_proxy_is_between_us_and_the_worker_and_what_had_none_before_has_none() {
        for name in ["NO_PROXY", "no_proxy"] {
            assert_eq!(of(&[], name), "127.0.0.1");
            assert_eq!(of(&[("NO_PROXY", "a.test,.b")], name), "a.test,.b,127.0.0.1");
            assert_eq!(of(&[("no_proxy", "a.test")], name), "a.test,127.0.0.1");
            assert_eq!(
                of(&[("NO_PROXY", "x, 127.0.0.1"), ("no_proxy", "")], name),
                "x, 127.0.0.1"
            );
        }
        assert_eq!(of(&[("NO_PROXY", "a"), ("no_proxy", "b")], "no_proxy"), "b,127.0.0.1");
    }
}
