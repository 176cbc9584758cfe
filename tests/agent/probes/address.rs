//! Where the health endpoints listen, and what happens when they cannot.

use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{ANY_PORT, WORKS};
use crate::backend::Endpoint;
use crate::network::in_own_network;
use crate::probe_client::Probes;
use crate::stage::{Stage, never};

/// Where nobody said anything.
const DEFAULT: &str = "127.0.0.1:8081";

fn is_listened_on(address: &str) -> bool {
    TcpStream::connect(address.parse::<SocketAddr>().unwrap()).is_ok()
}

#[test]
fn the_log_says_at_which_port_it_listens() {
    let stage = Stage::new();
    let mut init = stage
        .worker(WORKS)
        .with(ANY_PORT.0, ANY_PORT.1)
        .with("OJS_LOG_LEVEL", "info")
        .start();
    let probes = Probes::of(&mut init);
    assert_ne!(probes.0.port(), 0);
    assert_eq!(probes.get("/livez").status, 200);
    assert!(init.complaints().is_empty(), "{:?}", init.complaints());
    init.stops();
}

#[test]
fn an_address_that_somebody_set_and_that_is_not_to_be_had_is_one_error_before_the_worker_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    // The first is in use, the second nobody's here.
    for address in [taken.as_str(), "192.0.2.1:8081"] {
        let stage = Stage::new();
        let mut init = stage
            .worker("note('started')")
            .with("OJS_HEALTH_LISTEN", address)
            .start();
        init.ends_with(2);
        assert!(init.notes().is_empty(), "{:?}", init.notes());
        assert_eq!(stage.count(Endpoint::Register), 0);
        let log = init.log();
        let errors: Vec<&str> = log.lines().filter(|line| line.contains("cannot listen")).collect();
        let [error] = errors.as_slice() else { panic!("{log}") };
        for part in [
            "ojs-init: ",
            "health.listen",
            address,
            "OJS_HEALTH_LISTEN",
            "port 0",
            "off",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let has_remains = std::fs::read_dir(stage.at("run")).is_ok_and(|mut entries| entries.next().is_some());
        assert!(!has_remains, "the runtime directory is not empty");
    }
}

#[test]
fn a_default_port_that_is_in_use_is_one_warning_and_the_worker_works_without() {
    in_own_network(|| {
        let _taken = TcpListener::bind(DEFAULT).unwrap();
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage.worker(WORKS).with("OJS_HEALTH_LISTEN", "").start();
        stage.wait_for_outcomes();
        let complaints = init.complaints();
        let [warning] = complaints.as_slice() else {
            panic!("{complaints:?}")
        };
        for part in ["no health endpoints", "[::]:8081", "OJS_HEALTH_LISTEN", "off"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        init.stops();
    });
}

#[test]
fn switched_off_or_without_the_agent_nothing_listens() {
    in_own_network(|| {
        for (name, value) in [("OJS_HEALTH_LISTEN", "off"), ("OJS_MODE", "none")] {
            let stage = Stage::new();
            let mut init = stage
                .command(&["sh", "-c", "echo ready >> $NOTES; sleep 60"])
                .with("OJS_HEALTH_LISTEN", "")
                .with(name, value)
                .start();
            init.notes_line("ready");
            never("a listener", || is_listened_on(DEFAULT));
        }
    });
}

#[test]
fn one_address_of_ipv4_is_only_that_and_every_address_is_both_kinds() {
    in_own_network(|| {
        for (set, v6) in [("127.0.0.1:8081", false), (":8081", true), ("[::]:8081", true)] {
            let stage = Stage::new();
            let mut init = stage.worker(WORKS).with("OJS_HEALTH_LISTEN", set).start();
            Probes::of(&mut init);
            assert!(is_listened_on(DEFAULT), "{set}");
            assert_eq!(is_listened_on("[::1]:8081"), v6, "{set}");
            init.stops();
        }
    });
}
