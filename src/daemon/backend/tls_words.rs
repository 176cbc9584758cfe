//! Why there is no TLS with the backend, in words that contain the advice. The library's own texts
//! are for programmers, so only single words of them reach the user.

use std::fmt::Debug;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError, PeerIncompatible};

use crate::config::Backend;
use crate::daemon::backend::tls::CA_FILE;
use crate::daemon::backend::trust::is_ca_as_server;
use ojs_wire::text::roughly;

/// Most names of a certificate that are shown.
const MOST_NAMES: usize = 5;

/// Longest shown name of a certificate, or word of the library, in characters.
const LONGEST_WORD: usize = 80;

/// Why there is no connection over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::daemon) struct TlsRefusal {
    /// For a person: the cause and the advice.
    pub(in crate::daemon) text: String,
    /// True if one side refused the other before the backend accepted a request. Otherwise the
    /// fault may be of a connection in use.
    pub(in crate::daemon) is_certain: bool,
}

/// The words for an error of TLS.
#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of a library, which grows")]
pub(in crate::daemon) fn refusal(error: &Error, backend: &Backend) -> TlsRefusal {
    let (text, is_certain) = match error {
        Error::InvalidCertificate(_) if is_ca_as_server(error) => (self_made(backend), true),
        Error::InvalidCertificate(reason) => (of_their_certificate(reason, backend), true),
        Error::NoCertificatesPresented => ("the backend shows no certificate; give it one".to_owned(), true),
        Error::AlertReceived(alert) => match of_our_certificate(*alert, backend) {
            Some(text) => (text.to_owned(), true),
            None => (of_alert(*alert), false),
        },
        Error::InvalidMessage(_) => (
            "what answers there does not speak TLS; check the scheme (http or https) and the port of backend.url"
                .to_owned(),
            false,
        ),
        Error::PeerIncompatible(why) => (of_incompatible(why), true),
        Error::FailedToGetCurrentTime => (
            "this machine's clock cannot be read, so no certificate is valid".to_owned(),
            true,
        ),
        Error::FailedToGetRandomBytes => ("this machine has no random numbers for TLS".to_owned(), true),
        Error::General(_) | Error::Other(_) => ("TLS failed, and the library does not say of what".to_owned(), false),
        Error::PeerMisbehaved(why) => (broken(&plain(why)), false),
        error => (broken(&plain(error)), false),
    };
    TlsRefusal { text, is_certain }
}

/// The words for an error of TLS with the collector of spans. No setting names a CA or a
/// certificate for a collector, so the advice is about the collector alone.
pub(in crate::daemon) fn of_collector(error: &Error, collector: &Backend) -> String {
    if matches!(error, Error::InvalidCertificate(CertificateError::UnknownIssuer)) {
        return format!(
            "no public CA stands behind the collector's certificate, and ojs-init trusts no other; {OTHER_COLLECTOR}"
        );
    }
    if matches!(error, Error::InvalidCertificate(CertificateError::BadSignature)) {
        return "the collector's certificate is not signed by the CA whose name it bears; renew it".to_owned();
    }
    if is_ca_as_server(error) {
        return format!(
            "the collector shows a certificate that is made to sign others (CA:TRUE), and ojs-init trusts public CAs \
             only; {OTHER_COLLECTOR}"
        );
    }
    if let Error::AlertReceived(alert) = error
        && of_our_certificate(*alert, collector).is_some()
    {
        return format!("the collector demands a client certificate, and ojs-init has none for it; {OTHER_COLLECTOR}");
    }
    named_collector(&refusal(error, collector).text)
}

/// The advice for a collector outside of the limits in docs/tracing.md.
const OTHER_COLLECTOR: &str = "give it a certificate of a public CA and ask for none, or put a collector beside the \
                               worker that passes the spans on";

/// A text about the backend, as one about the collector of spans.
pub(in crate::daemon) fn named_collector(text: &str) -> String {
    text.replace("the backend", "the collector")
        .replace("backend.url", "otel.endpoint")
}

fn broken(what: &str) -> String {
    format!("TLS with the backend broke: {what}; look at what stands between, and at the backend's log")
}

/// The certificate that `openssl req -x509` makes, shown by a server.
fn self_made(backend: &Backend) -> String {
    let remedy = "or make one with basicConstraints=CA:FALSE";
    match &backend.ca_file {
        Some(path) => format!(
            "the backend shows a certificate that is made to sign others (CA:TRUE), and {CA_FILE} = {} does not hold this \
             very one; put it there as it is, {remedy}",
            path.display()
        ),
        None => format!(
            "the backend shows a certificate that is made to sign others (CA:TRUE); set {CA_FILE} (OJS_TLS_CA_FILE) to this \
             very certificate, {remedy}"
        ),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of a library, which grows")]
fn of_their_certificate(reason: &CertificateError, backend: &Backend) -> String {
    match reason {
        CertificateError::UnknownIssuer => match &backend.ca_file {
            Some(path) => format!(
                "no certificate of {CA_FILE} = {} stands behind the backend's certificate; add that of its CA, and have \
                 the backend send its intermediate certificates",
                path.display()
            ),
            None => format!(
                "no public CA stands behind the backend's certificate; set {CA_FILE} (OJS_TLS_CA_FILE) to the \
                 certificate of its CA"
            ),
        },
        CertificateError::NotValidForName => another_host(None, &[]),
        CertificateError::NotValidForNameContext { expected, presented } => {
            another_host(Some(&expected.to_str()), presented)
        }
        CertificateError::Expired => expired(None),
        CertificateError::ExpiredContext { time, not_after } => expired(Some(between(*not_after, *time))),
        CertificateError::NotValidYet => not_yet(None),
        CertificateError::NotValidYetContext { time, not_before } => not_yet(Some(between(*time, *not_before))),
        CertificateError::Revoked => "the backend's certificate is revoked; give it a new one".to_owned(),
        CertificateError::BadEncoding => {
            "the backend's certificate cannot be read: it is damaged, or of an unusual form; make a new one".to_owned()
        }
        CertificateError::BadSignature => format!(
            "the backend's certificate is not signed by the CA whose name it bears; another CA of the same name? Renew the \
             certificate, or {CA_FILE}"
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the backend's certificate is not made for servers; make one with extendedKeyUsage=serverAuth".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the backend's certificate is signed in a way that is too weak or too rare (SHA-1, RSA below 2048 bits); make one \
             with SHA-256, and RSA of 2048 bits or P-256"
                .to_owned()
        }
        CertificateError::UnhandledCriticalExtension => {
            "the backend's certificate has a critical extension that is not known here; make one without it".to_owned()
        }
        CertificateError::Other(OtherError(inner)) => of_webpki(inner.downcast_ref::<webpki::Error>()),
        reason => format!("the backend's certificate is refused: {}", plain(reason)),
    }
}

fn of_webpki(reason: Option<&webpki::Error>) -> String {
    match reason {
        Some(webpki::Error::UnsupportedCertVersion) => {
            "the backend's certificate is of X.509 version 1; make one of version 3, with its host as subjectAltName"
                .to_owned()
        }
        Some(webpki::Error::EndEntityUsedAsCa) => {
            "the backend's certificate is signed by one that may not sign others (CA:FALSE); sign it with a CA's"
                .to_owned()
        }
        Some(webpki::Error::NameConstraintViolation) => {
            "the CA of the backend's certificate may not sign for this host; take another CA, or another host"
                .to_owned()
        }
        Some(reason) => format!("the backend's certificate is refused: {}", plain(reason)),
        None => "the backend's certificate is refused".to_owned(),
    }
}

fn another_host(expected: Option<&str>, presented: &[String]) -> String {
    let host = expected.map_or_else(|| "the one of backend.url".to_owned(), cut);
    if presented.is_empty() && expected.is_some() {
        return format!(
            "the backend's certificate names no host, and its common name does not count; make one for {host} \
             (subjectAltName)"
        );
    }
    let names: Vec<String> = presented.iter().take(MOST_NAMES).map(|name| bare(name)).collect();
    let more = if presented.len() > MOST_NAMES { ", ..." } else { "" };
    let names = match names.as_slice() {
        [] => "another host".to_owned(),
        names => format!("{}{more}", names.join(", ")),
    };
    format!("the backend's certificate is for {names} and not for {host}; use a name in backend.url that it is for")
}

/// The name in `DnsName("backend.test")`.
fn bare(presented: &str) -> String {
    let inside = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    cut(inside.unwrap_or(presented).trim_matches('"'))
}

fn cut(text: &str) -> String {
    let usual = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    text.chars().take(LONGEST_WORD).map(usual).collect()
}

fn expired(since: Option<Duration>) -> String {
    let since = since
        .map(|since| format!(" {} ago", roughly(since)))
        .unwrap_or_default();
    format!("the backend's certificate has expired{since}, by this machine's clock; renew it, or set the clock")
}

fn not_yet(left: Option<Duration>) -> String {
    let left = left.map(|left| format!(" for {}", roughly(left))).unwrap_or_default();
    format!("the backend's certificate is not valid yet{left}, by this machine's clock; set the clock, or wait")
}

fn between(earlier: UnixTime, later: UnixTime) -> Duration {
    Duration::from_secs(later.as_secs().saturating_sub(earlier.as_secs()))
}

fn of_incompatible(why: &PeerIncompatible) -> String {
    use PeerIncompatible as Why;
    if matches!(
        why,
        Why::ServerDoesNotSupportTls12Or13 | Why::ServerTlsVersionIsDisabledByOurConfig | Why::Tls12NotOfferedOrEnabled
    ) {
        return VERSION.to_owned();
    }
    format!(
        "the backend and ojs-init have too little of TLS in common: {}; {NEEDED}",
        plain(why)
    )
}

const VERSION: &str = "the backend has no version of TLS that is safe; let it speak 1.2 or 1.3";

const NEEDED: &str = "let the backend speak TLS 1.3, or 1.2 with ECDHE and AES-GCM or ChaCha20";

#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of a library, which grows")]
fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::ProtocolVersion => VERSION.to_owned(),
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            format!("the backend finds too little of TLS in common with ojs-init; {NEEDED}")
        }
        AlertDescription::UnrecognisedName => {
            "the backend has no certificate for the host of backend.url; use a name that it knows".to_owned()
        }
        AlertDescription::InternalError => {
            "the backend ended TLS because of an error of its own; see its log".to_owned()
        }
        alert => format!("the backend ended TLS: {}; see its log", plain(&alert)),
    }
}

/// The words for an alert about ojs-init's certificate, or its absence. `None`: another alert.
fn of_our_certificate(alert: AlertDescription, backend: &Backend) -> Option<&'static str> {
    let is_about_it = matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    );
    // TLS 1.2 has no better word for a certificate that is missing.
    let is_missing = backend.cert_file.is_none();
    match (
        is_missing,
        is_about_it || (is_missing && alert == AlertDescription::HandshakeFailure),
    ) {
        (_, false) => None,
        (true, true) => Some(
            "the backend demands a certificate of ours; set backend.cert_file and backend.key_file (OJS_TLS_CERT_FILE, \
             OJS_TLS_KEY_FILE)",
        ),
        (false, true) => {
            Some("the backend does not accept our certificate; check backend.cert_file, its validity and its CA")
        }
    }
}

/// The first word of a `Debug` text, split: `NoCipherSuitesInCommon` becomes `no cipher suites in
/// common`. The fields of the value are left out.
fn plain(of: &impl Debug) -> String {
    let debug = format!("{of:?}");
    let mut words = String::new();
    let mut was_small = false;
    for letter in debug.chars().take_while(char::is_ascii_alphanumeric).take(LONGEST_WORD) {
        if letter.is_ascii_uppercase() && was_small {
            words.push(' ');
        }
        was_small = !letter.is_ascii_uppercase();
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
#[path = "tls_words_tests.rs"]
mod tests;
