//! TLS with certificates of both sides, right ones and wrong ones.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ojs_init::daemon::backend::settings::BackendSettings;
use ojs_init::daemon::backend::tunnel::TunnelFailureKind;
use ojs_lifecycle::api::{Failure, Reply};
use ojs_wire::http::tunnel::TunnelBody;
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

use crate::rig::*;
use crate::support::temp::TempDir;
use crate::support::wait::{self, wait_until};
use crate::tls::{Authority, Certified, Manner, TlsServer, der};
use crate::tunnel_rig::{TunnelRig, get, request};

/// A key for RSA, which takes long to make.
const RSA_KEY: &str = include_str!("rsa_key.pem");

/// Where the key itself begins in the PKCS#8 of an RSA key of 2048 bits, and of a P-256 key by
/// ring.
const IN_PKCS8_RSA: usize = 26;
const IN_PKCS8_EC: usize = 29;

/// Files of one test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "ojs-tls-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self(TempDir::new(std::env::temp_dir().join(name)).unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Settings for this server, whose certificate is signed by `root`.
    fn settings(&self, server: &TlsServer, root: &Authority) -> BackendSettings {
        let mut settings = settings(&server.url());
        settings.backend.ca_file = Some(self.write("ca.pem", root.pem()));
        settings
    }

    /// Starts a server that wants a certificate of ours.
    fn with_own(&self, mut settings: BackendSettings, certificate: &str, key: &str) -> BackendSettings {
        settings.backend.cert_file = Some(self.write("cert.pem", certificate));
        settings.backend.key_file = Some(self.write("key.pem", key));
        settings
    }
}

const HERE: &[&str] = &["127.0.0.1", "localhost"];

fn server_of(root: &Authority) -> TlsServer {
    TlsServer::start(&root.certify(HERE), &[], None, Manner::Usual)
}

fn is_beaten(reply: &Reply) -> bool {
    matches!(reply, Reply::HeartbeatOk { .. })
}

#[test]
fn a_private_ca_is_trusted_when_it_is_configured_and_the_connection_is_kept() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let server = server_of(&root);
    let mut rig = Rig::new(files.settings(&server, &root));
    assert!(is_beaten(&rig.ask(beat())));
    assert!(is_beaten(&rig.ask(beat())));
    server.drop_connections();
    assert!(
        is_beaten(&rig.ask(beat())),
        "a connection that died while idle is replaced unnoticed"
    );
    let connections: Vec<usize> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
}

#[test]
fn what_passes_through_goes_over_tls_as_well() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let server = server_of(&root);
    let mut rig = TunnelRig::new(files.settings(&server, &root));
    let large = vec![b'x'; 1 << 20];
    for _ in 0..2 {
        let passed = rig.pass(request("POST", "/", TunnelBody::Length(1 << 20)), &large);
        assert_eq!((passed.failure(), passed.body.as_slice()), (None, &b"{}"[..]));
    }
    let connections: Vec<usize> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1]);
    let stranger = server_of(&Authority::root("theirs"));
    let passed = TunnelRig::new(files.settings(&stranger, &root)).pass(get("/"), b"");
    assert_eq!(passed.failure(), Some(TunnelFailureKind::NotSent));
    assert!(stranger.seen().is_empty());
}

#[test]
fn a_large_outcome_goes_over_tls_although_nothing_else_happens() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let server = server_of(&root);
    let mut rig = Rig::new(files.settings(&server, &root));
    assert!(!matches!(rig.ask(large_ack(4 << 20)), Reply::Failed(_)));
    assert_eq!(server.seen().len(), 1, "at the first attempt");
}

#[test]
fn a_certificate_of_another_ca_is_refused_before_anything_is_sent() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let server = server_of(&Authority::root("theirs"));
    let settings = files.settings(&server, &root);
    let path = settings.backend.ca_file.clone().unwrap().display().to_string();
    let mut rig = Rig::new(settings);
    for call in [ack("a"), look("a"), fetch(1)] {
        assert_eq!(rig.ask(call), failed(Failure::NotSent));
    }
    assert!(is_logged(0, &["no certificate of backend.ca_file", &path]));
    assert!(server.seen().is_empty());
}

#[test]
fn without_ca_file_only_public_cas_are_trusted_and_the_log_says_what_to_set() {
    let server = server_of(&Authority::root("ours"));
    assert_eq!(Rig::new(settings(&server.url())).ask(beat()), failed(Failure::NotSent));
    assert!(is_logged(0, &["no public CA", "backend.ca_file", "OJS_TLS_CA_FILE"]));
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let own = root.certify(&["elsewhere.test"]);
    let server = TlsServer::start(&own, &[], None, Manner::Usual);
    let mut settings = files.settings(&server, &root);
    let url = format!("https://localhost:{}", server.port());
    settings.backend.url = ojs_init::config::BackendUrl::parse(&url).ok();
    assert_eq!(Rig::new(settings).ask(beat()), failed(Failure::NotSent));
    assert!(is_logged(
        0,
        &["is for elsewhere.test and not for localhost", "backend.url"]
    ));
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let own = root.certify_with(HERE, KeyPair::generate().unwrap(), |params| {
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    });
    let server = TlsServer::start(&own, &[], None, Manner::Usual);
    assert_eq!(
        Rig::new(files.settings(&server, &root)).ask(beat()),
        failed(Failure::NotSent)
    );
    assert!(is_logged(0, &["has expired", "clock"]));
}

#[test]
fn a_chain_needs_the_intermediate_certificate_from_the_backend() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let intermediate = root.intermediate("between");
    let own = intermediate.certify(HERE);
    let server = TlsServer::start(&own, &[&intermediate], None, Manner::Usual);
    assert!(is_beaten(&Rig::new(files.settings(&server, &root)).ask(beat())));
    let server = TlsServer::start(&own, &[], None, Manner::Usual);
    assert_eq!(
        Rig::new(files.settings(&server, &root)).ask(beat()),
        failed(Failure::NotSent)
    );
}

/// Every kind of key file: what it is called, the key, and how the file spells it.
fn keys() -> Vec<(&'static str, KeyPair, String)> {
    let relabel = |label: &str, key: &KeyPair, from: usize| {
        let inside = key.serialized_der().get(from..).unwrap().to_vec();
        pem::encode(&pem::Pem::new(label, inside))
    };
    let rsa = || KeyPair::from_pem(RSA_KEY).unwrap();
    let of = |algorithm| KeyPair::generate_for(algorithm).unwrap();
    let ec = KeyPair::generate().unwrap();
    let sec1 = relabel("EC PRIVATE KEY", &ec, IN_PKCS8_EC);
    let (p256, p384, ed25519) = (
        KeyPair::generate().unwrap(),
        of(&PKCS_ECDSA_P384_SHA384),
        of(&PKCS_ED25519),
    );
    let spelled = [&p256, &p384, &ed25519].map(KeyPair::serialize_pem);
    let [p256_pem, p384_pem, ed25519_pem] = spelled;
    vec![
        ("RSA, PKCS#8", rsa(), RSA_KEY.to_owned()),
        ("RSA, PKCS#1", rsa(), relabel("RSA PRIVATE KEY", &rsa(), IN_PKCS8_RSA)),
        ("P-256, SEC1", ec, sec1),
        ("P-256, PKCS#8", p256, p256_pem),
        ("P-384, PKCS#8", p384, p384_pem),
        ("Ed25519, PKCS#8", ed25519, ed25519_pem),
    ]
}

#[test]
fn the_backend_sees_our_certificate_whatever_kind_of_key_it_has() {
    let (files, root) = (Files::new(), Authority::root("theirs"));
    let clients = Authority::root("clients");
    for manner in [Manner::Usual, Manner::Old] {
        let server = TlsServer::start(&root.certify(HERE), &[], Some(&clients), manner);
        for (kind, key, spelled) in keys() {
            let own = clients.certify_key(&["worker.test"], key);
            let settings = files.with_own(files.settings(&server, &root), &own.certificate, &spelled);
            assert!(is_beaten(&Rig::new(settings).ask(beat())), "{kind}");
            let seen = server.seen().pop().unwrap().certificate;
            assert_eq!(seen, Some(der(&own.certificate)), "{kind}");
        }
    }
}

#[test]
fn our_chain_and_our_key_may_share_a_file() {
    let (files, root) = (Files::new(), Authority::root("theirs"));
    let clients = Authority::root("clients");
    let intermediate = clients.intermediate("between");
    let own = intermediate.certify(&["worker.test"]);
    let server = TlsServer::start(&root.certify(HERE), &[], Some(&clients), Manner::Usual);
    let all = format!("{}{}{}", own.key.serialize_pem(), own.certificate, intermediate.pem());
    let settings = files.with_own(files.settings(&server, &root), &all, &all);
    assert!(is_beaten(&Rig::new(settings).ask(beat())));
}

#[test]
fn a_backend_that_demands_a_certificate_of_ours_gets_a_clear_line_in_the_log() {
    let (files, root) = (Files::new(), Authority::root("theirs"));
    let clients = Authority::root("clients");
    let stranger = Authority::root("stranger").certify(&["worker.test"]);
    for manner in [Manner::Usual, Manner::Old] {
        let server = TlsServer::start(&root.certify(HERE), &[], Some(&clients), manner);
        let without = files.settings(&server, &root);
        let with_wrong = files.with_own(without.clone(), &stranger.certificate, &stranger.key.serialize_pem());
        let expected: [(_, &[&str]); 2] = [
            (without, &["demands a certificate of ours", "backend.cert_file"]),
            (with_wrong, &["does not accept our certificate", "backend.cert_file"]),
        ];
        for (settings, words) in expected {
            let mut rig = Rig::new(settings);
            let since = logged();
            // The backend may have hung up before we read why.
            let said = wait_until(PATIENCE, || {
                let reply = rig.ask(ack("a"));
                let is_failed = matches!(reply, Reply::Failed(Failure::NotSent | Failure::Unanswered));
                assert!(is_failed, "{reply:?}");
                is_logged(since, words)
            });
            assert!(said, "{manner:?}: {words:?}");
        }
        assert!(server.seen().is_empty());
    }
}

#[test]
fn a_backend_that_does_not_speak_tls_is_named_as_such() {
    let bad_request = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(bad_request).unwrap();
        // Until the other side hangs up.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    assert_eq!(Rig::new(settings(&url)).ask(beat()), failed(Failure::NotSent));
    assert!(is_logged(0, &["does not speak TLS", "backend.url"]));
    server.join().unwrap();
}

#[test]
fn an_answer_that_trickles_in_over_tls_is_given_up_in_time() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let server = TlsServer::start(&root.certify(HERE), &[], None, Manner::Trickling);
    let mut rig = Rig::new(files.settings(&server, &root));
    let latest = wait::now() + SHORT + SLACK;
    rig.send(ack("a"), SHORT);
    assert_eq!(rig.next().1, failed(Failure::Unanswered));
    assert!(wait::now() < latest, "too late");
}

#[test]
fn an_answer_counts_although_the_connection_breaks_right_behind_it() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let server = TlsServer::start(&root.certify(HERE), &[], None, Manner::Breaking);
    let mut rig = Rig::new(files.settings(&server, &root));
    for call in [fail("a"), ack("a")] {
        assert_eq!(rig.ask(call), Reply::Accepted);
    }
}

#[test]
fn a_key_that_does_not_belong_to_the_certificate_is_an_error_at_the_start_that_names_both() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let (one, other) = (root.certify(HERE), root.certify(HERE));
    let settings = files.with_own(
        settings("https://127.0.0.1:1"),
        &one.certificate,
        &other.key.serialize_pem(),
    );
    let (cert, key) = (
        settings.backend.cert_file.clone().unwrap(),
        settings.backend.key_file.clone().unwrap(),
    );
    let expected = format!(
        "backend.key_file = {}: is not the key of the first certificate in backend.cert_file = {}; set both to files that \
         belong together",
        key.display(),
        cert.display()
    );
    assert_eq!(start_error(settings).unwrap(), expected);
}

#[test]
fn files_that_cannot_be_used_are_errors_at_the_start_that_name_setting_and_file() {
    let (files, own) = (Files::new(), Authority::root("ours").certify(HERE));
    let Certified { certificate, key } = own;
    let key = key.serialize_pem();
    let encrypted = pem::encode(&pem::Pem::new("ENCRYPTED PRIVATE KEY", vec![1, 2, 3]));
    let damaged_key = pem::encode(&pem::Pem::new("PRIVATE KEY", vec![1, 2, 3]));
    let damaged = pem::encode(&pem::Pem::new("CERTIFICATE", vec![1, 2, 3]));
    let huge = "#".repeat((1 << 20) + 1);
    let broken = certificate.replace("-----END CERTIFICATE-----", "");
    let cases: [(&str, &str, &str, &str); 10] = [
        ("backend.cert_file", "", &key, "holds no certificate in PEM form"),
        ("backend.cert_file", &key, &key, "holds no certificate in PEM form"),
        (
            "backend.cert_file",
            &huge,
            &key,
            "cannot be read: it is larger than 1024 KiB, which is the most that is accepted",
        ),
        ("backend.cert_file", &broken, &key, "cannot be read: "),
        (
            "backend.cert_file",
            &damaged,
            &key,
            "its first certificate cannot be read: ",
        ),
        (
            "backend.key_file",
            &certificate,
            "",
            "holds no private key in PEM form (PKCS#8, SEC1 or PKCS#1, not encrypted)",
        ),
        (
            "backend.key_file",
            &certificate,
            &certificate,
            "holds no private key in PEM form ",
        ),
        (
            "backend.key_file",
            &certificate,
            &encrypted,
            "holds no private key in PEM form ",
        ),
        (
            "backend.key_file",
            &certificate,
            &damaged_key,
            "its private key is damaged, or ",
        ),
        (
            "backend.key_file",
            &certificate,
            &huge,
            "cannot be read: it is larger than 1024 KiB",
        ),
    ];
    for (setting, certificate, key, expected) in cases {
        let settings = files.with_own(settings("https://127.0.0.1:1"), certificate, key);
        let file = if setting.ends_with("key_file") {
            &settings.backend.key_file
        } else {
            &settings.backend.cert_file
        };
        let expected = format!("{setting} = {}: {expected}", file.clone().unwrap().display());
        let error = start_error(settings).unwrap();
        assert!(error.starts_with(&expected), "{error}\n{expected}");
    }
}

#[test]
fn a_ca_file_must_hold_one_certificate_that_can_be_read() {
    let (files, root) = (Files::new(), Authority::root("ours"));
    let damaged = pem::encode(&pem::Pem::new("CERTIFICATE", vec![1, 2, 3]));
    let fifo = files.0.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let error = |path: &Path| {
        let mut settings = settings("https://127.0.0.1:1");
        settings.backend.ca_file = Some(path.to_owned());
        start_error(settings).unwrap()
    };
    let cases: [(&Path, &str); 4] = [
        (
            &files.write("damaged", &damaged),
            "holds no certificate that can be read",
        ),
        (
            &files.write("huge", "#".repeat((1 << 20) + 1)),
            "cannot be read: it is larger than 1024 KiB",
        ),
        (files.0.path(), "cannot be read: "),
        (&fifo, "holds no certificate in PEM form"),
    ];
    for (path, expected) in cases {
        let (error, expected) = (error(path), format!("backend.ca_file = {}: {expected}", path.display()));
        assert!(error.starts_with(&expected), "{error}");
    }
    let server = server_of(&root);
    let mut settings = files.settings(&server, &root);
    let path = files.write("some", format!("{damaged}{}", root.pem()));
    settings.backend.ca_file = Some(path.clone());
    assert!(is_beaten(&Rig::new(settings).ask(beat())));
    assert!(is_logged(0, &[&path.display().to_string(), "1 of its 2 certificates"]));
}
