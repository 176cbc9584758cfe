//! Addresses, URLs and headers. A mistake here is often a secret in the wrong place, so no error of
//! this module shows a value.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::duration::whole;
use super::masked::without_secrets;
use super::{Form, Notation, Problem, Value, joined, only};

/// The path that ojs-init puts between the backend's URL and the path of a request.
const API_PATH: &str = "/ojs/v1";

/// Base URL of a backend, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendUrl(String);

impl BackendUrl {
    /// Reads `http://HOST[:PORT][/PREFIX]`, or with `https://`.
    ///
    /// # Errors
    /// The fault, as the end of a sentence that begins with the value.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let url = Self::as_written(
            text,
            "holds a credential, which logs would show; put it into the file of backend.auth_token_file \
             or into OJS_AUTH_TOKEN",
        )?;
        Ok(Self(url.0.trim_end_matches('/').to_owned()))
    }

    /// Reads such a URL, and keeps a slash at its end. `credential` says what to do about one.
    ///
    /// # Errors
    /// The fault, as the end of a sentence that begins with the value.
    pub(super) fn as_written(text: &str, credential: &'static str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("is not a URL")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err("is neither http nor https");
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(credential);
        }
        if path.contains(['?', '#']) {
            return Err("has a query or a fragment; a base URL has neither");
        }
        if !is_authority(authority) {
            return Err("has no usable host or port");
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a path with blanks, control or non-ASCII characters");
        }
        let scheme = scheme.to_ascii_lowercase();
        Ok(Self(format!("{scheme}://{authority}{path}")))
    }

    /// The URL with this path behind its own.
    pub fn joined(&self, path: &str) -> Self {
        Self(format!("{}{path}", self.0.trim_end_matches('/')))
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL without `/ojs/v1` at its end, which is added to each path; `None`: it does not end
    /// so.
    pub fn without_api_path(&self) -> Option<Self> {
        let shorter = self.0.strip_suffix(API_PATH)?.trim_end_matches('/').to_owned();
        Some(Self(shorter))
    }

    /// Host without brackets, and port.
    pub fn host_and_port(&self) -> (&str, u16) {
        split_authority(self.authority_and_path().0, self.default_port())
    }

    /// The value of the header Host.
    pub fn host_header(&self) -> String {
        let (host, port) = self.host_and_port();
        let place = place(host, port);
        let default_port = format!(":{}", self.default_port());
        place.strip_suffix(&default_port).unwrap_or(&place).to_owned()
    }

    /// The path; empty, or with a slash at its beginning.
    pub fn path(&self) -> &str {
        self.authority_and_path().1
    }

    fn authority_and_path(&self) -> (&str, &str) {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.split_at(rest.find('/').unwrap_or(rest.len()))
    }

    fn default_port(&self) -> u16 {
        if self.is_https() { 443 } else { 80 }
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }
}

impl Value for BackendUrl {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "URL",
        "http://backend:8080",
        "http://HOST[:PORT][/PREFIX] or the same with https",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        Ok(Self::parse(only(texts))?)
    }

    fn show(&self) -> String {
        self.0.clone()
    }

    fn quotable(text: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(without_secrets(text)))
    }
}

/// Host without brackets, and port, of an authority that [`is_authority`] has accepted.
pub(super) fn split_authority(authority: &str, default_port: u16) -> (&str, u16) {
    // The last colon, unless it is one of an IPv6 address.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(default_port)),
        Some(_) | None => (authority, default_port),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

/// `HOST:PORT`, of a host without brackets.
pub fn place(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
pub(super) fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else {
                return false;
            };
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            (address, port)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_name = host
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    !host.is_empty()
        && is_name
        && (port.is_empty() || port.strip_prefix(':').and_then(port_number).is_some_and(|n| n > 0))
}

fn port_number(text: &str) -> Option<u16> {
    whole(text).and_then(|number| u16::try_from(number).ok())
}

/// The address of the health endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// The endpoints listen nowhere.
    Off,
    /// The endpoints listen at this address; port 0 lets the system choose.
    At(SocketAddr),
}

impl Listen {
    /// Reads `IP:PORT`, `[IPV6]:PORT`, `localhost:PORT`, `:PORT` (every address) or `off`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "off" {
            return Some(Self::Off);
        }
        let (host, port) = text.rsplit_once(':')?;
        let address = match host {
            "" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
                Some(inside) => IpAddr::V6(inside.parse().ok()?),
                None => IpAddr::V4(host.parse().ok()?),
            },
        };
        Some(Self::At(SocketAddr::new(address, port_number(port)?)))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl Value for Listen {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "ADDRESS",
        "[::]:8081",
        "IP:PORT, [IPV6]:PORT, localhost:PORT, :PORT for every address, or off",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        Self::parse(only(texts)).ok_or("is not an address to listen on".into())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Headers that a user cannot set, because the framing of a request or the reading of its answer
/// depends on them.
const RESERVED: [&str; 14] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "accept",
    "accept-encoding",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

/// One extra header. `Debug` and `Display` hide its value, because no name shows whether it is a
/// secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// The name as written.
    pub name: String,
    /// The value as written.
    pub value: String,
}

impl Header {
    /// Reads `Name: value`.
    ///
    /// # Errors
    /// The fault; never shows the value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("has an entry without a colon")?;
        Self::new(name.trim(), value.trim())
    }

    /// A header of this name and value.
    ///
    /// # Errors
    /// The fault; never shows the value.
    pub fn new(name: &str, value: &str) -> Result<Self, String> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("has an entry whose name is not a header's name".to_owned());
        }
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            return Err(format!("sets {name}, which ojs-init sets itself"));
        }
        if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
            return Err(format!("gives {name} a value with control or non-ASCII characters"));
        }
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: (not shown)", self.name)
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Value for Vec<Header> {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Headers,
        "HEADER",
        "X-OJS-Tenant: acme",
        "'Name: value'; in the file a table: headers = { Name = \"value\" }",
    )
    .repeated();

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let mut headers = Self::new();
        for text in texts {
            let header = Header::parse(text)?;
            if headers
                .iter()
                .any(|other| other.name.eq_ignore_ascii_case(&header.name))
            {
                return Err(format!("sets {} twice", header.name).into());
            }
            headers.push(header);
        }
        Ok(headers)
    }

    fn show(&self) -> String {
        joined(self.iter(), "; ")
    }

    fn quotable(_: &str) -> Option<Cow<'_, str>> {
        None
    }
}

/// The bearer token. `Debug` hides it and nothing displays it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Reads a token: printable ASCII without blanks, as a header can carry it.
    pub fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    /// The token itself, for the request that carries it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Value for Secret {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "SECRET",
        "hunter2",
        "printable ASCII characters without blanks",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        // A shell or a mounted file may give the line break at the end.
        Self::parse(only(texts).trim_end_matches(['\r', '\n'])).ok_or("does not fit into a header".into())
    }

    fn show(&self) -> String {
        "(set, not shown)".to_owned()
    }

    fn quotable(_: &str) -> Option<Cow<'_, str>> {
        None
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
