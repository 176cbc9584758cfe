//! The collector of traces, as the variables of OpenTelemetry spell it.

use std::borrow::Cow;

use super::masked::without_secrets;
use super::network::{BackendUrl, Header};
use super::{Form, Notation, Problem, Value, joined, only};

/// Why a URL has no user and no password.
const CREDENTIAL: &str = "holds a credential, which logs would show; put it into OTEL_EXPORTER_OTLP_HEADERS";

/// The address that spans are sent to. `None`: no spans are recorded, whatever other variables say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector(pub Option<BackendUrl>);

impl Collector {
    /// The address for traces, if this is the address for everything.
    pub fn for_traces(self) -> Self {
        Self(self.0.map(|url| url.joined("/v1/traces")))
    }
}

impl Value for Collector {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::String,
        "URL",
        "http://collector:4318/v1/traces",
        "http://HOST[:PORT][/PATH] or the same with https, or off",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        match only(texts) {
            "off" => Ok(Self(None)),
            url => Ok(Self(Some(BackendUrl::as_written(url, CREDENTIAL)?))),
        }
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or("off", BackendUrl::as_str).to_owned()
    }

    fn quotable(text: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(without_secrets(text)))
    }
}

/// Headers for the collector. Their values are secrets, as those for the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectorHeaders(pub Vec<Header>);

impl Value for CollectorHeaders {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Strings,
        "HEADERS",
        "x-api-key=abc",
        "NAME=VALUE with commas between, values percent-encoded; in the file [\"a=b\", \"c=d\"]",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let mut headers = Vec::<Header>::new();
        for text in texts {
            let (name, value) = pair(text)?;
            if headers.iter().any(|other| other.name.eq_ignore_ascii_case(&name)) {
                return Err(format!("sets {name} twice").into());
            }
            headers.push(Header::new(&name, &value)?);
        }
        Ok(Self(headers))
    }

    fn show(&self) -> String {
        joined(self.0.iter(), "; ")
    }

    fn quotable(_: &str) -> Option<Cow<'_, str>> {
        None
    }
}

/// Attributes of the resource that all spans belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceAttributes(pub Vec<(String, String)>);

impl Value for ResourceAttributes {
    type Limits = ();
    const NOTATION: Notation = Notation::new(
        Form::Strings,
        "ATTRIBUTES",
        "deployment.environment.name=prod",
        "NAME=VALUE with commas between, values percent-encoded; in the file [\"a=b\", \"c=d\"]",
    );

    fn read(texts: &[&str], (): &()) -> Result<Self, Problem> {
        let pairs: Result<Vec<_>, _> = texts.iter().map(|text| pair(text)).collect();
        Ok(Self(pairs?))
    }

    fn show(&self) -> String {
        joined(self.0.iter().map(|(name, value)| format!("{name}={value}")), ",")
    }
}

/// `NAME=VALUE`, with the value percent-decoded. A problem never shows the value.
fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("has an entry without an equals sign")?;
    let name = name.trim();
    if name.is_empty() {
        return Err("has an entry without a name");
    }
    let value = percent_decoded(value.trim()).ok_or("has a value that is not percent-encoded UTF-8")?;
    Ok((name.to_owned(), value))
}

/// The text behind a percent-encoding; `None` if the encoding is broken, or the text is not UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(text: &str) -> String {
        Collector::read(&[text], &()).unwrap().for_traces().show()
    }

    #[test]
    fn the_address_for_traces_follows_from_that_for_everything() {
        assert_eq!(collector("http://c:4318"), "http://c:4318/v1/traces");
        assert_eq!(collector("https://c/otlp/"), "https://c/otlp/v1/traces");
        assert_eq!(collector("off"), "off");
    }

    #[test]
    fn the_address_of_the_traces_is_used_as_it_is() {
        for text in ["http://c", "http://c/", "http://c:1/a/b/"] {
            assert_eq!(Collector::read(&[text], &()).unwrap().show(), text);
        }
        assert!(Collector::read(&["collector:4317"], &()).is_err());
        let refused = Collector::read(&["http://u:hunter2@c"], &()).unwrap_err();
        assert!(refused.contains("OTEL_EXPORTER_OTLP_HEADERS") && !refused.contains("hunter2"));
    }

    #[test]
    fn headers_are_decoded_and_never_shown() {
        let headers = CollectorHeaders::read(&["authorization = Basic%20aHVudGVyMg==", "x-a=%C3"], &());
        assert!(headers.is_err(), "half a character");
        let headers = CollectorHeaders::read(&["authorization = Basic%20aHVudGVyMg=="], &()).unwrap();
        assert_eq!(headers.0[0].value, "Basic aHVudGVyMg==");
        assert_eq!(headers.show(), "authorization: (not shown)");
        for text in ["hunter2", "=hunter2", "a=%2", "host=hunter2", "a=%0a"] {
            let problem = CollectorHeaders::read(&[text], &()).unwrap_err();
            assert!(!problem.contains("hunter2"), "{text}");
        }
        assert!(CollectorHeaders::read(&["a=b", "A=c"], &()).is_err());
    }

    #[test]
    fn attributes_are_decoded() {
        let attributes = ResourceAttributes::read(&["a=b%2Cc", "team=x"], &()).unwrap();
        assert_eq!(attributes.show(), "a=b,c,team=x");
    }
}
