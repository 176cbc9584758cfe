//! The proxy in front of the backend: its URL, whose credentials this module never shows, and
//! `off`.

use std::borrow::Cow;
use std::fmt;

use super::masked::without_secrets;
use super::network::{is_authority, place, split_authority};
use super::otel::percent_decoded;
use super::{Form, Notation, Problem, Value, only};

/// The port of a proxy whose URL names none.
const DEFAULT_PORT: u16 = 80;

/// An HTTP proxy. `Debug` hides its credentials and nothing displays them.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    credentials: Option<(String, String)>,
}

impl Proxy {
    /// Reads `http://[USER:PASSWORD@]HOST[:PORT]`; the `http://` may be left out.
    ///
    /// # Errors
    /// The fault, as the end of a sentence that begins with the value.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return Err("is a proxy that is itself reached over TLS, which ojs-init cannot use");
            }
            Some((scheme, _)) if scheme.to_ascii_lowercase().starts_with("socks") => {
                return Err("is a SOCKS proxy, which ojs-init cannot use");
            }
            Some(_) => return Err("is no HTTP proxy"),
            None => text,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, authority) = match rest.rsplit_once('@') {
            Some((credentials, authority)) => (Some(read_credentials(credentials)?), authority),
            None => (None, rest),
        };
        if !is_authority(authority) {
            return Err("has no usable host or port");
        }
        let (host, port) = split_authority(authority, DEFAULT_PORT);
        Ok(Self {
            host: host.to_owned(),
            port,
            credentials,
        })
    }

    /// Its host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port, for people.
    pub fn place(&self) -> String {
        place(&self.host, self.port)
    }

    /// User and password, for the header that carries them.
    pub fn reveal_credentials(&self) -> Option<(&str, &str)> {
        let (user, password) = self.credentials.as_ref()?;
        Some((user, password))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = if self.credentials.is_some() { "...@" } else { "" };
        write!(f, "http://{hidden}{}", self.place())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `USER:PASSWORD` or `USER`, with escapes like `%40` as in a URL.
fn read_credentials(text: &str) -> Result<(String, String), &'static str> {
    const PROBLEM: &str =
        "has credentials that are not printable text, with each %, @, : and / in them written as %25, %40, %3A and %2F";
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let [user, password] = [user, password].map(|part| {
        let part = percent_decoded(part)?;
        (!part.chars().any(char::is_control)).then_some(part)
    });
    match (user, password) {
        // A colon would end the user's name.
        (Some(user), Some(password)) if !user.contains(':') => Ok((user, password)),
        (Some(_) | None, Some(_) | None) => Err(PROBLEM),
    }
}

/// The value of `backend.proxy`. `None`: no proxy, even if the environment sets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySetting(pub Option<Proxy>);

impl Value for ProxySetting {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "PROXY",
        "http://proxy:3128",
        "http://[USER:PASSWORD@]HOST[:PORT], or off",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        match only(texts) {
            "off" => Ok(Self(None)),
            text => Ok(Self(Some(Proxy::parse(text)?))),
        }
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or("off".to_owned(), Proxy::to_string)
    }

    fn quotable(text: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(without_secrets(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_with_and_without_scheme_port_and_credentials() {
        for (text, place, credentials) in [
            ("http://proxy:3128", "proxy:3128", None),
            ("HTTP://proxy:3128/", "proxy:3128", None),
            ("proxy", "proxy:80", None),
            ("http://[::1]:3128", "[::1]:3128", None),
            ("http://[::1]", "[::1]:80", None),
            ("http://u:p@10.0.0.1:8", "10.0.0.1:8", Some(("u", "p"))),
            ("http://u@proxy", "proxy:80", Some(("u", ""))),
            ("u:p%40s%3as%25@proxy:1", "proxy:1", Some(("u", "p@s:s%"))),
            ("http://dom%5Cu:p:q@proxy", "proxy:80", Some(("dom\\u", "p:q"))),
        ] {
            let proxy = Proxy::parse(text).unwrap();
            assert_eq!(
                (proxy.place().as_str(), proxy.reveal_credentials()),
                (place, credentials)
            );
        }
    }

    #[test]
    fn what_is_no_http_proxy_is_refused() {
        for text in [
            "",
            "https://proxy:3128",
            "socks5://proxy:1080",
            "socks5h://proxy",
            "ftp://proxy",
            "http://",
            "http://proxy:0",
            "http://proxy:x",
            "http://proxy/path",
            "http://proxy?x",
            "http://u:p%4@proxy",
            "http://u:p%zz@proxy",
            "http://u:%0a@proxy",
            "http://u:%ff@proxy",
            "http://a%3ab:p@proxy",
            "proxy one",
        ] {
            assert!(Proxy::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn credentials_are_shown_nowhere() {
        let proxy = ProxySetting(Some(Proxy::parse("http://somebody:hunter2@proxy:3128").unwrap()));
        for text in [proxy.show(), format!("{proxy:?}")] {
            assert!(!text.contains("hunter2") && !text.contains("somebody") && text.contains("proxy:3128"));
        }
        let refused = ProxySetting::quotable("socks5://somebody:hunter2@proxy").unwrap();
        assert_eq!(refused, "socks5://...@proxy");
    }
}
