//! TLS settings and files, which are read and checked once, before anything is started.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ALL_VERSIONS, ClientConfig, InconsistentKeys, RootCertStore};

use crate::config::Backend;
use crate::daemon::backend::small_file;
use crate::daemon::backend::trust::Trust;

/// Largest PEM file, in bytes: a bundle of every public root is a quarter of it.
const MAX_PEM_FILE_BYTES: u64 = 1 << 20;

pub(in crate::daemon) const CA_FILE: &str = "backend.ca_file";
const CERT_FILE: &str = "backend.cert_file";
const KEY_FILE: &str = "backend.key_file";

/// Reads the files that TLS needs; none if the backend's URL is not https.
///
/// # Errors
/// A file is unusable; the sentence names setting and file.
pub(in crate::daemon) fn config(backend: &Backend) -> Result<Option<Arc<ClientConfig>>, String> {
    if !backend.is_https() {
        return Ok(None);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates = match &backend.ca_file {
        Some(path) => certificates(CA_FILE, path)?,
        None => Vec::new(),
    };
    let roots = match &backend.ca_file {
        Some(path) => roots(path, &certificates)?,
        None => RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    };
    let own = match (&backend.cert_file, &backend.key_file) {
        (Some(cert_file), Some(key_file)) => Some(own_certificate(cert_file, key_file, &provider)?),
        (Some(_) | None, Some(_) | None) => None,
    };
    let unusual = |error: &dyn fmt::Display| format!("TLS cannot be set up: {error}");
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| unusual(&error))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(ALL_VERSIONS)
        .map_err(|error| unusual(&error))?
        // Stricter than that word: it is the usual one first.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trust::new(usual, certificates)));
    let config = match own {
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusual(&error))?,
        None => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

/// The trusted certificates. Public bundles have contained some that are unreadable; one must be
/// usable.
fn roots(path: &Path, certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(certificates.iter().cloned());
    if unusable == certificates.len() {
        return Err(problem(CA_FILE, path, "holds no certificate that can be read"));
    }
    if unusable > 0 {
        log::warn!(
            "{CA_FILE} = {}: {unusable} of its {} certificates cannot be read and are left out; make the file again",
            path.display(),
            certificates.len()
        );
    }
    Ok(roots)
}

type OwnCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own_certificate(cert_file: &Path, key_file: &Path, provider: &CryptoProvider) -> Result<OwnCertificate, String> {
    let chain = certificates(CERT_FILE, cert_file)?;
    let text = read(KEY_FILE, key_file)?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| unusable_key(key_file, &error))?;
    check_pair(cert_file, &chain, key_file, key.clone_key(), provider)?;
    Ok((chain, key))
}

/// Whether the key is that of the first certificate.
fn check_pair(
    cert_file: &Path,
    chain: &[CertificateDer<'static>],
    key_file: &Path,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<(), String> {
    let signer = provider.key_provider.load_private_key(key).map_err(|_| {
        let what = "its private key is damaged, or neither RSA (2048 bits and more), ECDSA nor Ed25519";
        problem(KEY_FILE, key_file, what)
    })?;
    match CertifiedKey::new(chain.to_vec(), signer).keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(error) if error == InconsistentKeys::KeyMismatch.into() => Err(format!(
            "{KEY_FILE} = {}: is not the key of the first certificate in {CERT_FILE} = {}; set both to files that belong \
             together",
            key_file.display(),
            cert_file.display()
        )),
        Err(error) => {
            let what = format!("its first certificate cannot be read: {error}");
            Err(problem(CERT_FILE, cert_file, &what))
        }
    }
}

/// The certificates of a PEM file, at least one.
fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(setting, path)?;
    let certificates: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| unreadable(setting, path, &error))?;
    if certificates.is_empty() {
        return Err(problem(setting, path, "holds no certificate in PEM form"));
    }
    Ok(certificates)
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    small_file::read(path, MAX_PEM_FILE_BYTES).map_err(|error| unreadable(setting, path, &error))
}

fn unusable_key(path: &Path, error: &pem::Error) -> String {
    if matches!(error, pem::Error::NoItemsFound) {
        let what = "holds no private key in PEM form (PKCS#8, SEC1 or PKCS#1, not encrypted)";
        return problem(KEY_FILE, path, what);
    }
    unreadable(KEY_FILE, path, error)
}

fn unreadable(setting: &str, path: &Path, error: &dyn fmt::Display) -> String {
    problem(setting, path, &format!("cannot be read: {error}"))
}

fn problem(setting: &str, path: &Path, what: &str) -> String {
    format!("{setting} = {}: {what}", path.display())
}
