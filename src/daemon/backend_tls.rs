//! TLS: what it needs is read and checked once, before anything is started; what a handshake failed of is said in words
//! that help.

use std::fmt;
use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, InconsistentKeys, RootCertStore};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::backend_lanes::LaneError;
use super::small_file;
use crate::config::Backend;

/// Largest PEM file, in bytes: a bundle of every public root is a quarter of it.
const MAX_PEM_FILE_BYTES: u64 = 1 << 20;

const CA_FILE: &str = "backend.ca_file";
const CERT_FILE: &str = "backend.cert_file";
const KEY_FILE: &str = "backend.key_file";

/// Reads the files that TLS needs.
///
/// # Errors
/// One cannot be used; the sentence names setting and file.
pub(super) fn config(backend: &Backend) -> Result<TlsConfig, LaneError> {
    let mut tls = TlsConfig::builder();
    if let Some(path) = &backend.ca_file {
        let roots = roots(path)?;
        tls = tls.root_certs(RootCerts::from(roots.iter().map(for_ureq)));
    }
    if let (Some(cert_file), Some(key_file)) = (&backend.cert_file, &backend.key_file) {
        let chain = certificates(CERT_FILE, cert_file)?;
        let text = read(KEY_FILE, key_file)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| unusable_key(key_file, &error))?;
        check_pair(cert_file, &chain, key_file, key)?;
        let key = PrivateKey::from_pem(&text).map_err(|error| unreadable(KEY_FILE, key_file, &error))?;
        let chain: Vec<_> = chain.iter().map(for_ureq).collect();
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(tls.build())
}

/// The certificates of those whom we trust. Public bundles have had some that nothing can read; one must be usable.
fn roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, LaneError> {
    let certificates = certificates(CA_FILE, path)?;
    let (_, unusable) = RootCertStore::empty().add_parsable_certificates(certificates.iter().cloned());
    if unusable == certificates.len() {
        return Err(problem(CA_FILE, path, "holds no certificate that can be read"));
    }
    if unusable > 0 {
        log::warn!(
            "{CA_FILE} = {}: {unusable} of its {} certificates cannot be read and are left out",
            path.display(),
            certificates.len()
        );
    }
    Ok(certificates)
}

/// Whether the key is that of the first certificate. ureq would find out at the first request, and panic.
fn check_pair(
    cert_file: &Path,
    chain: &[CertificateDer<'static>],
    key_file: &Path,
    key: PrivateKeyDer<'static>,
) -> Result<(), LaneError> {
    let provider = rustls::crypto::ring::default_provider();
    let signer = provider.key_provider.load_private_key(key).map_err(|_| {
        let what = "its private key is damaged, or neither RSA (2048 bits and more), ECDSA nor Ed25519";
        problem(KEY_FILE, key_file, what)
    })?;
    match CertifiedKey::new(chain.to_vec(), signer).keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(error) if error == InconsistentKeys::KeyMismatch.into() => Err(LaneError(format!(
            "{KEY_FILE} = {}: is not the key of the first certificate in {CERT_FILE} = {}; set both to files that belong \
             together",
            key_file.display(),
            cert_file.display()
        ))),
        Err(error) => {
            let what = format!("its first certificate cannot be read: {error}");
            Err(problem(CERT_FILE, cert_file, &what))
        }
    }
}

fn for_ureq(certificate: &CertificateDer<'static>) -> Certificate<'static> {
    Certificate::from_der(certificate).to_owned()
}

/// The certificates of a PEM file, at least one.
fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, LaneError> {
    let text = read(setting, path)?;
    let certificates: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| unreadable(setting, path, &error))?;
    if certificates.is_empty() {
        return Err(problem(setting, path, "holds no certificate in PEM form"));
    }
    Ok(certificates)
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, LaneError> {
    small_file::read(path, MAX_PEM_FILE_BYTES).map_err(|error| unreadable(setting, path, &error))
}

fn unusable_key(path: &Path, error: &pem::Error) -> LaneError {
    if matches!(error, pem::Error::NoItemsFound) {
        let what = "holds no private key in PEM form (PKCS#8, SEC1 or PKCS#1, not encrypted)";
        return problem(KEY_FILE, path, what);
    }
    unreadable(KEY_FILE, path, error)
}

fn unreadable(setting: &str, path: &Path, error: &dyn fmt::Display) -> LaneError {
    problem(setting, path, &format!("cannot be read: {error}"))
}

fn problem(setting: &str, path: &Path, what: &str) -> LaneError {
    LaneError(format!("{setting} = {}: {what}", path.display()))
}

/// Why there is no connection over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// For a person: what is wrong and what to do.
    pub(super) text: String,
    /// One of the two refused the other before it took a request. Else it may be about a connection that was in use.
    pub(super) is_certain: bool,
}

/// What TLS says against a connection; `None`: it is not about TLS.
#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of a library, which grows")]
pub(super) fn refusal(error: &ureq::Error, backend: &Backend) -> Option<Refusal> {
    let error = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>()?,
        _ => return None,
    };
    let (text, is_certain) = match error {
        rustls::Error::InvalidCertificate(reason) => (of_their_certificate(reason, backend), true),
        rustls::Error::AlertReceived(alert) => match of_our_certificate(*alert, backend) {
            Some(text) => (text.to_owned(), true),
            None => (format!("the backend ended TLS: {alert:?}"), false),
        },
        rustls::Error::InvalidMessage(_) => (
            "what answers there does not speak TLS; check the scheme (http or https) and the port of backend.url"
                .to_owned(),
            false,
        ),
        error => (format!("no connection over TLS: {error}"), false),
    };
    Some(Refusal { text, is_certain })
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
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the backend's certificate is for another host; use a name in backend.url that it is for: {reason}")
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            format!("the backend's certificate is not valid now; renew it, or set this machine's clock: {reason}")
        }
        reason => format!("the backend's certificate is refused: {reason}"),
    }
}

/// What an alert says about the certificate that we showed, or did not show; `None`: nothing.
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
