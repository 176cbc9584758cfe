//! Certificates made on the spot, and a server that speaks TLS and answers every request with `{}`.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::raw_server::{read_head, skip};
use crate::support::wait;

/// Longest that the server waits for anybody, and pause between two bytes of a trickle.
const PATIENCE: Duration = Duration::from_secs(20);
const TRICKLE: Duration = Duration::from_millis(20);

/// Somebody who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// One that signs its own certificate.
    pub fn root(name: &str) -> Self {
        let (params, key) = (authority(name), KeyPair::generate().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// One whose certificate this one signs.
    pub fn intermediate(&self, name: &str) -> Self {
        let (params, key) = (authority(name), KeyPair::generate().unwrap());
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these names and the key of it.
    pub fn certify(&self, names: &[&str]) -> Certified {
        self.certify_key(names, KeyPair::generate().unwrap())
    }

    /// A certificate for this key.
    pub fn certify_key(&self, names: &[&str], key: KeyPair) -> Certified {
        self.certify_with(names, key, |_| ())
    }

    /// A certificate that is somehow special.
    pub fn certify_with(&self, names: &[&str], key: KeyPair, change: impl FnOnce(&mut CertificateParams)) -> Certified {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certified { certificate, key }
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A certificate and its key.
pub struct Certified {
    pub certificate: String,
    pub key: KeyPair,
}

/// The request of somebody.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// The first certificate of who asked.
    pub certificate: Option<CertificateDer<'static>>,
}

/// How the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Usual,
    /// TLS 1.2 only.
    Old,
    /// Its answers come one byte of the connection at a time.
    Trickling,
    /// Bytes that are no TLS follow each answer at once.
    Breaking,
}

/// A server; dropping it ends it.
pub struct TlsServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    open: Mutex<Vec<TcpStream>>,
    is_over: Mutex<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TlsServer {
    /// A server with this certificate (and those of `chain`), which demands certificates that
    /// `clients` signed.
    pub fn start(own: &Certified, chain: &[&Authority], clients: Option<&Authority>, manner: Manner) -> Self {
        let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[_] = match manner {
            Manner::Old => &[&rustls::version::TLS12],
            Manner::Usual | Manner::Trickling | Manner::Breaking => &[&rustls::version::TLS12, &rustls::version::TLS13],
        };
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_protocol_versions(versions).unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(der(clients.pem())).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut certificates = vec![der(&own.certificate)];
        certificates.extend(chain.iter().map(|authority| der(authority.pem())));
        let key = PrivateKeyDer::from_pem_slice(own.key.serialize_pem().as_bytes()).unwrap();
        let config = config.with_single_cert(certificates, key).unwrap();
        Self::listen(Arc::new(config), manner)
    }

    fn listen(config: Arc<ServerConfig>, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared: Arc<Shared> = Arc::default();
        let server = Self {
            address,
            shared: Arc::clone(&shared),
        };
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if *lock(&shared.is_over) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                lock(&shared.open).extend(stream.try_clone());
                let (config, shared) = (Arc::clone(&config), Arc::clone(&shared));
                // A connection that breaks is the other side's business.
                thread::spawn(move || shared.serve(config, stream, number + 1, manner).ok());
            }
        });
        server
    }

    /// Its base URL, by its address.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// Closes every connection.
    pub fn drop_connections(&self) {
        for stream in lock(&self.shared.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        *lock(&self.shared.is_over) = true;
        self.drop_connections();
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, config: Arc<ServerConfig>, stream: TcpStream, connection: usize, manner: Manner) -> io::Result<()> {
        const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let conn = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut reader = BufReader::new(StreamOwned::new(conn, stream));
        while let Some((_, length)) = read_head(&mut reader)? {
            skip(&mut reader, length)?;
            let tls = reader.get_mut();
            let certificate = tls.conn.peer_certificates().and_then(|chain| chain.first());
            lock(&self.seen).push(Seen {
                connection,
                certificate: certificate.map(|certificate| certificate.clone().into_owned()),
            });
            if manner == Manner::Trickling {
                tls.conn.writer().write_all(ANSWER)?;
                let mut bytes = Vec::new();
                tls.conn.write_tls(&mut bytes)?;
                for byte in bytes {
                    tls.sock.write_all(&[byte])?;
                    wait::pause(TRICKLE);
                }
            } else if manner == Manner::Breaking {
                tls.conn.writer().write_all(ANSWER)?;
                let mut bytes = Vec::new();
                tls.conn.write_tls(&mut bytes)?;
                bytes.extend_from_slice(&[0xff; 16]);
                tls.sock.write_all(&bytes)?;
            } else {
                tls.write_all(ANSWER)?;
                tls.flush()?;
            }
        }
        Ok(())
    }
}

/// The first certificate of a PEM text.
pub fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}
