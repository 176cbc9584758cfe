//! The way of a connection from its first byte to the backend's HTTP: through a proxy, if there is
//! one, and TLS.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::ClientConfig;

use crate::config::{Backend, Proxy, place};
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::tls_session::TlsSession;
use ojs_wire::http::connect;

/// The route to the backend, one for all connections.
pub(in crate::daemon) struct BackendRoute {
    tls: Option<Arc<ClientConfig>>,
    /// The host that the backend's certificate has to name.
    host: String,
    /// The CONNECT request, if a proxy needs one.
    connect: Option<Arc<[u8]>>,
}

/// The steps before the first request on one connection.
pub(in crate::daemon) struct Opening {
    /// The question to the proxy.
    pub(in crate::daemon) connect: Option<Arc<[u8]>>,
    /// TLS, after that.
    pub(in crate::daemon) tls: Option<TlsSession>,
}

impl BackendRoute {
    /// To this backend; without TLS its URL is http. An http request is handed to the proxy as it
    /// is: no connection is asked for.
    pub(in crate::daemon) fn new(backend: &Backend, tls: Option<Arc<ClientConfig>>) -> Self {
        let (host, port) = backend.host_and_port();
        let proxy = backend.proxy.as_ref().filter(|_| tls.is_some());
        let connect = proxy.map(|proxy| connect::request(&place(host, port), credentials(proxy).as_deref()).into());
        Self {
            tls,
            host: host.to_owned(),
            connect,
        }
    }

    /// The first steps of a new connection.
    ///
    /// # Errors
    /// The host can have no certificate, or rustls fails.
    pub(in crate::daemon) fn opening(&self) -> Result<Opening, Fault> {
        let tls = self.tls.as_ref();
        let tls = tls.map(|config| TlsSession::new(Arc::clone(config), &self.host));
        Ok(Opening {
            connect: self.connect.clone(),
            tls: tls.transpose()?,
        })
    }
}

/// The value of Proxy-Authorization for this proxy.
pub(in crate::daemon) fn credentials(proxy: &Proxy) -> Option<String> {
    let (user, password) = proxy.reveal_credentials()?;
    Some(format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{user}:{password}"))
    ))
}
