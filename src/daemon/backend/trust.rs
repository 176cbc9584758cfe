//! Whether a certificate is the backend's: as public CAs and private ones have it, and besides that
//! the one case that everybody meets who makes a certificate by hand. `openssl req -x509` makes one
//! that may sign others (`CA:TRUE`), which no standard takes for a server's own. Who puts that very
//! certificate into `backend.ca_file` means that server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

/// The usual verifier, and certificates that are taken as they are.
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

/// Whether the only thing against a certificate is that it may sign others. What it is valid for in
/// time is looked at before that.
pub(in crate::daemon) fn is_ca_as_server(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error else {
        return false;
    };
    inner
        .downcast_ref::<webpki::Error>()
        .is_some_and(|inner| matches!(inner, webpki::Error::CaUsedAsEndEntity))
}

impl ServerCertVerifier for Trust {
    /// A certificate that may sign others is taken when it is, byte for byte, one that we were told
    /// of, and is for this host. That the server has its key the signature of the handshake shows,
    /// as ever.
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
