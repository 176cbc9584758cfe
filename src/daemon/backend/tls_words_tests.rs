//! Nearly all errors of the library, and their words.

use std::sync::Arc;

use rustls::{
    CertRevocationListError, ContentType, EncryptedClientHelloError, ExtendedKeyPurpose, HandshakeType,
    InconsistentKeys, InvalidMessage, PeerMisbehaved,
};

use super::*;
use crate::config::{Environment, Flags, load};

/// Words from certificates and ciphers that have a capital letter inside.
const THEIRS: [&str; 5] = [
    "ChaCha20",
    "basicConstraints",
    "extendedKeyUsage",
    "serverAuth",
    "subjectAltName",
];

fn backend(ca_file: Option<&str>, cert_file: Option<&str>) -> Backend {
    let variables = [b"OJS_URL=https://backend.test".as_slice()];
    let environment = Environment::from_entries(variables.into_iter());
    let mut backend = load(&Flags::default(), &environment).unwrap().backend;
    backend.ca_file = ca_file.map(Into::into);
    backend.cert_file = cert_file.map(Into::into);
    backend
}

fn of_certificate(reason: CertificateError) -> Error {
    Error::InvalidCertificate(reason)
}

fn webpki(reason: webpki::Error) -> Error {
    of_certificate(CertificateError::Other(OtherError(Arc::new(reason))))
}

fn certificate_errors() -> Vec<Error> {
    use CertificateError as Of;
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let expected = rustls::pki_types::ServerName::try_from("backend.test").unwrap();
    let presented = vec!["DnsName(\"other.test\")".to_owned(), "IpAddress(10.0.0.1)".to_owned()];
    let errors = [
        Of::BadEncoding,
        Of::Expired,
        Of::ExpiredContext {
            time: at(90_000),
            not_after: at(0),
        },
        Of::NotValidYet,
        Of::NotValidYetContext {
            time: at(0),
            not_before: at(7_200),
        },
        Of::Revoked,
        Of::UnhandledCriticalExtension,
        Of::UnknownIssuer,
        Of::UnknownRevocationStatus,
        Of::ExpiredRevocationList,
        Of::ExpiredRevocationListContext {
            time: at(1),
            next_update: at(0),
        },
        Of::BadSignature,
        Of::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: vec![1, 2],
            supported_algorithms: Vec::new(),
        },
        Of::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: vec![1],
            public_key_algorithm_id: vec![2],
        },
        Of::NotValidForName,
        Of::NotValidForNameContext {
            expected: expected.clone(),
            presented,
        },
        Of::NotValidForNameContext {
            expected,
            presented: Vec::new(),
        },
        Of::InvalidPurpose,
        Of::InvalidPurposeContext {
            required: ExtendedKeyPurpose::ServerAuth,
            presented: vec![ExtendedKeyPurpose::ClientAuth, ExtendedKeyPurpose::Other(vec![1, 2])],
        },
        Of::InvalidOcspResponse,
        Of::ApplicationVerificationFailure,
        Of::Other(OtherError(Arc::new(std::fmt::Error))),
    ];
    let of_webpki = [
        webpki::Error::CaUsedAsEndEntity,
        webpki::Error::EndEntityUsedAsCa,
        webpki::Error::UnsupportedCertVersion,
        webpki::Error::NameConstraintViolation,
        webpki::Error::MaximumPathDepthExceeded,
        webpki::Error::EmptyEkuExtension,
        webpki::Error::TrailingData(webpki::DerTypeId::Certificate),
    ];
    errors
        .into_iter()
        .map(of_certificate)
        .chain(of_webpki.into_iter().map(webpki))
        .collect()
}

/// Each kind of error, and each alert.
fn errors() -> Vec<Error> {
    let mut errors = certificate_errors();
    errors.extend((0..=255).map(|code| Error::AlertReceived(AlertDescription::from(code))));
    errors.extend(
        [
            PeerIncompatible::NoCipherSuitesInCommon,
            PeerIncompatible::ServerDoesNotSupportTls12Or13,
            PeerIncompatible::ServerRejectedEncryptedClientHello(None),
        ]
        .map(Error::PeerIncompatible),
    );
    errors.extend([
        Error::InappropriateMessage {
            expect_types: vec![ContentType::Handshake],
            got_type: ContentType::ApplicationData,
        },
        Error::InappropriateHandshakeMessage {
            expect_types: vec![HandshakeType::ServerHello],
            got_type: HandshakeType::Finished,
        },
        Error::InvalidEncryptedClientHello(EncryptedClientHelloError::SniRequired),
        Error::InvalidMessage(InvalidMessage::MissingData("ServerHello")),
        Error::NoCertificatesPresented,
        Error::UnsupportedNameType,
        Error::DecryptError,
        Error::EncryptError,
        Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedKxGroup),
        Error::InvalidCertRevocationList(CertRevocationListError::BadSignature),
        Error::General("Some(Inner { field: 1 })".to_owned()),
        Error::FailedToGetCurrentTime,
        Error::FailedToGetRandomBytes,
        Error::HandshakeNotComplete,
        Error::PeerSentOversizedRecord,
        Error::NoApplicationProtocol,
        Error::BadMaxFragmentSize,
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch),
        Error::Other(OtherError(Arc::new(std::fmt::Error))),
    ]);
    errors
}

#[test]
fn no_error_of_tls_shows_the_user_a_programmers_text() {
    let backends = [backend(None, None), backend(Some("/ca.pem"), Some("/cert.pem"))];
    for (error, backend) in errors()
        .iter()
        .flat_map(|error| backends.iter().map(move |backend| (error, backend)))
    {
        let text = refusal(error, backend).text;
        let words = THEIRS.iter().fold(text.clone(), |text, word| text.replace(word, ""));
        let letters: Vec<char> = words.chars().collect();
        let is_camel = letters
            .windows(2)
            .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        assert!(
            !is_camel && !text.contains(['{', '}', '[', '"', '\\']),
            "{error:?}: {text}"
        );
        assert!(!text.contains("::") && !text.contains("Error"), "{error:?}: {text}");
        assert!(
            text.is_ascii() && !text.ends_with(' ') && !text.contains("  "),
            "{text}"
        );
    }
}

#[test]
fn every_refused_certificate_says_what_to_do_and_is_certain() {
    for error in certificate_errors() {
        let refusal = refusal(&error, &backend(None, None));
        assert!(refusal.is_certain, "{error:?}");
        assert!(
            refusal.text.starts_with("the backend") || refusal.text.contains("the backend's certificate"),
            "{}",
            refusal.text
        );
    }
}

#[test]
fn each_usual_mistake_has_its_words() {
    let (plain, full) = (backend(None, None), backend(Some("/ca.pem"), Some("/cert.pem")));
    let said: Vec<String> = certificate_errors()
        .iter()
        .map(|error| refusal(error, &full).text)
        .collect();
    for words in [
        "has expired 25 h ago",
        "not valid yet for 2 h",
        "no certificate of backend.ca_file = /ca.pem stands behind",
        "is for other.test, 10.0.0.1 and not for backend.test",
        "names no host, and its common name does not count; make one for backend.test",
        "is not made for servers",
        "too weak or too rare",
        "X.509 version 1",
        "backend.ca_file = /ca.pem does not hold this very one",
    ] {
        assert!(said.iter().any(|text| text.contains(words)), "{words}: {said:#?}");
    }
    let alert = |alert, backend: &Backend| refusal(&Error::AlertReceived(alert), backend);
    let cases = [
        (
            alert(AlertDescription::CertificateRequired, &plain),
            "demands a certificate of ours",
            true,
        ),
        (
            alert(AlertDescription::HandshakeFailure, &plain),
            "demands a certificate of ours",
            true,
        ),
        (
            alert(AlertDescription::HandshakeFailure, &full),
            "too little of TLS in common",
            false,
        ),
        (
            alert(AlertDescription::UnknownCA, &full),
            "does not accept our certificate",
            true,
        ),
        (
            alert(AlertDescription::ProtocolVersion, &full),
            "let it speak 1.2 or 1.3",
            false,
        ),
        (
            alert(AlertDescription::UnrecognisedName, &full),
            "no certificate for the host of backend.url",
            false,
        ),
        (
            alert(AlertDescription::BadRecordMac, &full),
            "ended TLS: bad record mac",
            false,
        ),
    ];
    for (refusal, words, is_certain) in cases {
        assert!(refusal.text.contains(words), "{}", refusal.text);
        assert_eq!(refusal.is_certain, is_certain, "{}", refusal.text);
    }
}

#[test]
fn no_error_of_tls_with_the_collector_names_the_backend_or_one_of_its_settings() {
    for error in errors() {
        let text = of_collector(&error, &backend(None, None)).replace("backend.test", "its host");
        assert!(!text.contains("backend"), "{error:?}: {text}");
        assert!(!text.contains("OJS_"), "{error:?}: {text}");
    }
}

#[test]
fn the_names_of_a_certificate_are_told_without_what_could_harm_a_log_and_not_all_of_a_thousand() {
    let presented: Vec<String> = (0..1000)
        .map(|n| format!("DnsName(\"h{n}.test\u{1b}\n{}\")", "x".repeat(500)))
        .collect();
    let text = another_host(Some("backend.test"), &presented);
    assert!(
        text.len() < 700 && text.is_ascii() && !text.contains(['\n', '\u{1b}']),
        "{text}"
    );
    assert!(
        text.contains("h4.test") && !text.contains("h5.test") && text.contains(", ..."),
        "{text}"
    );
}
