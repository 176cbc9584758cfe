//! The bytes of a request. The part that all requests share is written once.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use uuid::{Builder, Uuid};

use crate::config::{Backend, Header, Secret};
use crate::daemon::backend::route;
use ojs_os::clock;
use ojs_wire::backend::request::{CONTENT_TYPE, HttpRequest, OJS_VERSION};
use ojs_wire::http::tunnel::OwnLines;

/// Bytes of the head of a request besides the headers that all have in common.
const USUAL_HEAD_BYTES: usize = 512;

/// The lines that ojs-init adds to each request. A token replaces the header Authorization. A proxy
/// gets each request as a whole if the backend's URL is http. It reads the backend's address in the
/// path, and does not pass its credentials on.
pub(in crate::daemon) fn own_lines(backend: &Backend) -> OwnLines {
    let url = backend.url.as_ref();
    let (host, path) = url.map_or_else(Default::default, |url| (url.host_header(), url.path()));
    let proxy = backend.proxy.as_ref().filter(|_| !backend.is_https());
    let prefix = match proxy {
        Some(_) => format!("http://{host}{path}"),
        None => path.to_owned(),
    };
    let has_token = backend.auth_token.is_some() || backend.auth_token_file.is_some();
    let is_ours = |header: &&Header| !(has_token && header.name.eq_ignore_ascii_case("Authorization"));
    let headers = backend.headers.iter().filter(is_ours);
    let headers = headers.map(|header| (header.name.clone(), header.value.clone()));
    let credentials = proxy.and_then(route::credentials);
    let credentials = credentials.map(|credentials| ("Proxy-Authorization".to_owned(), credentials));
    OwnLines {
        prefix,
        host,
        headers: headers.chain(credentials).collect(),
    }
}

/// Writes requests.
#[derive(Debug)]
pub(in crate::daemon) struct RequestWriter {
    prefix: String,
    /// The header lines that each request has.
    common: String,
    ids: RequestIds,
}

impl RequestWriter {
    /// Writes requests with these lines. The headers of the user replace those of ojs-init, except
    /// for the request's id.
    pub(in crate::daemon) fn new(own: &OwnLines) -> Self {
        let mut common = String::new();
        let mut line = |name: &str, value: &str| {
            for piece in [name, ": ", value, "\r\n"] {
                common.push_str(piece);
            }
        };
        line("Host", &own.host);
        for (name, value) in [
            ("User-Agent", concat!("ojs-init/", env!("CARGO_PKG_VERSION"))),
            ("OJS-Version", OJS_VERSION),
        ] {
            if !own.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                line(name, value);
            }
        }
        for (name, value) in &own.headers {
            if !name.eq_ignore_ascii_case("X-Request-Id") {
                line(name, value);
            }
        }
        Self {
            prefix: own.prefix.clone(),
            common,
            ids: RequestIds::new(),
        }
    }

    /// The whole request, its body included.
    pub(in crate::daemon) fn write(&mut self, request: &HttpRequest, token: Option<&Secret>) -> Vec<u8> {
        let body = request.body.as_deref();
        let room = self.common.len() + USUAL_HEAD_BYTES + token.map_or(0, |token| token.reveal().len());
        let mut bytes = Vec::with_capacity(room + request.path.len() + body.map_or(0, <[u8]>::len));
        let (id, mut room_for_id) = (self.ids.next(), Uuid::encode_buffer());
        let id = id.hyphenated().encode_lower(&mut room_for_id);
        // Piece by piece, since requests are written for each job.
        let mut put = |pieces: &[&str]| {
            pieces
                .iter()
                .for_each(|piece| bytes.extend_from_slice(piece.as_bytes()))
        };
        put(&[
            request.method,
            " ",
            &self.prefix,
            &request.path,
            " HTTP/1.1\r\n",
            &self.common,
        ]);
        put(&["Accept: ", request.accept, "\r\nX-Request-Id: ", id, "\r\n"]);
        if let Some(token) = token {
            put(&["Authorization: Bearer ", token.reveal(), "\r\n"]);
        }
        if let Some(body) = body {
            put(&["Content-Type: ", CONTENT_TYPE, "\r\nContent-Length: "]);
            // Writing to memory cannot fail.
            let _ = write!(bytes, "{}\r\n", body.len());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }
}

/// Ids of requests: UUIDs of version 7. Their random part is a keyed hash of a counter, because no
/// security depends on it and only the key needs the system's random source.
#[derive(Debug)]
struct RequestIds {
    key: RandomState,
    count: u64,
}

impl RequestIds {
    fn new() -> Self {
        Self {
            key: RandomState::new(),
            count: 0,
        }
    }

    fn next(&mut self) -> Uuid {
        self.count = self.count.wrapping_add(1);
        let halves = [0_u8, 1].map(|half| self.key.hash_one((self.count, half)).to_ne_bytes());
        let mut random = [0; 10];
        for (to, from) in random.iter_mut().zip(halves.iter().flatten()) {
            *to = *from;
        }
        let millis = u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX);
        Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_requests_are_of_version_7_and_no_two_are_the_same() {
        let mut ids = RequestIds::new();
        let mut made: Vec<uuid::Uuid> = (0..1000).map(|_| ids.next()).collect();
        assert!(made.iter().all(|id| id.get_version_num() == 7));
        made.sort_unstable();
        made.dedup();
        assert_eq!(made.len(), 1000);
    }
}
