//! Whether a certificate is the backend's, by the rules of public and private CAs plus one common
//! case. `openssl req -x509` makes a certificate that may sign others (`CA:TRUE`), which no
//! standard accepts as a server's own. An operator who puts that very certificate into
//! `backend.ca_file` means that server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

/// The usual verifier, and certificates that are accepted byte for byte.
#[derive(Debug)]
pub(in crate::daemon) struct Trust {
    usual: Arc<WebPkiServerVerifier>,
    /// Every certificate of `backend.ca_file`.
    pinned: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(in crate::daemon) fn new(usual: Arc<WebPkiServerVerifier>, pinned: Vec<CertificateDer<'static>>) -> Self {
        Self { usual, pinned }
    }
}

/// True if the only objection to a certificate is that it may sign others. Its validity in time is
/// checked before that.
pub(in crate::daemon) fn is_ca_as_server(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error else {
        return false;
    };
    inner
        .downcast_ref::<webpki::Error>()
        .is_some_and(|inner| matches!(inner, webpki::Error::CaUsedAsEndEntity))
}

impl ServerCertVerifier for Trust {
    /// Accepts a certificate that may sign others if it is, byte for byte, a configured one and is
    /// for this host. The signature of the handshake proves as usual that the server has its key.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result = self
            .usual
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match result {
            Err(error) if is_ca_as_server(&error) && self.pinned.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
