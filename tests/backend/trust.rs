//! Certificates that somebody made by hand, and servers that speak something else than the URL
//! says.

use std::io::Write;

use ojs_init::daemon::backend::settings::BackendSettings;
use ojs_lifecycle::api::{Failure, Reply};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::raw_server::{Asked, RawServer};
use crate::rig::*;
use crate::support::temp::TempDir;
use crate::tls::{Certified, Manner, TlsServer};

const HERE: &[&str] = &["127.0.0.1", "localhost"];

/// A certificate as `openssl req -x509` makes it: signed by itself, and made to sign others.
fn self_made(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certified {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (mut params, key) = (CertificateParams::new(names).unwrap(), KeyPair::generate().unwrap());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let certificate = params.self_signed(&key).unwrap().pem();
    Certified { certificate, key }
}

fn server_of(own: &Certified, manner: Manner) -> TlsServer {
    TlsServer::start(own, &[], None, manner)
}

/// Settings for this server whose `backend.ca_file` holds these certificates.
fn trusting(server: &TlsServer, certificates: &[&Certified]) -> (BackendSettings, TempDir) {
    let directory = TempDir::new(std::env::temp_dir().join(format!("ojs-trust-{}", server.port()))).unwrap();
    let file = directory.path().join("ca.pem");
    let all: String = certificates.iter().map(|one| one.certificate.as_str()).collect();
    std::fs::write(&file, all).unwrap();
    let mut settings = settings(&server.url());
    settings.backend.ca_file = Some(file);
    (settings, directory)
}

#[track_caller]
fn is_refused(settings: BackendSettings, words: &[&str]) {
    let since = logged();
    assert_eq!(Rig::new(settings).ask(beat()), failed(Failure::NotSent));
    assert!(is_logged(since, words), "{words:?}: {}", logged_since(since));
}

#[test]
fn a_self_made_certificate_that_may_sign_others_is_taken_where_ca_file_holds_it() {
    for manner in [Manner::Usual, Manner::Old] {
        let (own, other) = (self_made(HERE, |_| ()), self_made(HERE, |_| ()));
        let server = server_of(&own, manner);
        let (settings, _directory) = trusting(&server, &[&other, &own]);
        let mut rig = Rig::new(settings);
        assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }), "{manner:?}");
    }
}

#[test]
fn a_self_made_certificate_that_ca_file_does_not_hold_is_refused_with_what_to_do() {
    let (own, other) = (self_made(HERE, |_| ()), self_made(HERE, |_| ()));
    let server = server_of(&own, Manner::Usual);
    is_refused(
        settings(&server.url()),
        &[
            "made to sign others (CA:TRUE)",
            "set backend.ca_file (OJS_TLS_CA_FILE) to this very certificate",
        ],
    );
    let (settings, _directory) = trusting(&server, &[&other]);
    is_refused(
        settings,
        &["CA:TRUE", "does not hold this very one", "basicConstraints=CA:FALSE"],
    );
    assert!(server.seen().is_empty());
}

#[test]
fn a_self_made_certificate_is_held_to_its_host_its_time_and_its_key() {
    let own = self_made(&["elsewhere.test"], |_| ());
    let server = server_of(&own, Manner::Usual);
    let (settings, _directory) = trusting(&server, &[&own]);
    is_refused(settings, &["is for elsewhere.test and not for 127.0.0.1"]);

    let own = self_made(HERE, |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
    let server = server_of(&own, Manner::Usual);
    let (settings, _directory) = trusting(&server, &[&own]);
    is_refused(settings, &["has expired", "days ago"]);

    let own = self_made(HERE, |params| params.not_before = rcgen::date_time_ymd(2999, 1, 1));
    let server = server_of(&own, Manner::Usual);
    let (settings, _directory) = trusting(&server, &[&own]);
    is_refused(settings, &["is not valid yet for", "set the clock"]);

    // Another one with the same names and another key is another one.
    let (own, twin) = (self_made(HERE, |_| ()), self_made(HERE, |_| ()));
    let server = server_of(&twin, Manner::Usual);
    let (settings, _directory) = trusting(&server, &[&own]);
    is_refused(settings, &["does not hold this very one"]);
}

#[test]
fn a_certificate_without_a_host_is_told_from_one_for_another() {
    let own = self_made(&[], |_| ());
    let server = server_of(&own, Manner::Usual);
    let (settings, _directory) = trusting(&server, &[&own]);
    is_refused(settings, &["names no host", "make one for 127.0.0.1 (subjectAltName)"]);
}

#[test]
fn http_to_a_port_that_speaks_tls_is_told_to_look_at_the_scheme() {
    let server = server_of(&self_made(HERE, |_| ()), Manner::Usual);
    let url = server.url().replace("https", "http");
    let (reply, heard) = Rig::new(settings(&url)).hear(beat());
    assert!(matches!(reply, Reply::Failed(_)));
    let said = heard.words.failure.unwrap_or_default();
    assert!(said.contains("check the scheme (http or https)"), "{said}");
    assert!(server.seen().is_empty());
}

#[test]
fn a_proxy_that_says_that_it_wants_tls_is_understood() {
    let body = "Client sent an HTTP request to an HTTPS server.\n";
    let server = RawServer::start(move |stream, _: &Asked| {
        write!(
            stream,
            "HTTP/1.0 400 Bad Request\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let (_, heard) = Rig::new(settings(&server.url())).hear(beat());
    let said = heard.words.failure.unwrap_or_default();
    assert!(said.contains("what listens there wants TLS: write https in"), "{said}");
}

#[test]
fn a_connection_that_is_closed_in_the_handshake_is_said_to_be() {
    for call in [beat(), look("a"), fetch(1)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // All of it, so that the end is none in the middle.
            let mut hello = [0; 5];
            std::io::Read::read_exact(&mut stream, &mut hello).unwrap();
            let length = usize::from(u16::from_be_bytes([hello[3], hello[4]]));
            std::io::Read::read_exact(&mut stream, &mut vec![0; length]).unwrap();
        });
        // The request that was not sent, whatever it was, was not sent.
        let (reply, heard) = Rig::new(settings(&url)).hear(call);
        assert_eq!(reply, failed(Failure::NotSent));
        let said = heard.words.failure.unwrap_or_default();
        assert!(said.contains("closed in the TLS handshake"), "{said}");
        server.join().unwrap();
    }
}
