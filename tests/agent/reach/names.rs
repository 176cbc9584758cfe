//! Names whose server answers one half of the question only, and names of every shape. What the
//! static binary's C library makes of them is seen with BINARY_UNDER_TEST alone.

use crate::backend::Endpoint;
use crate::name_server;
use crate::network::in_own_network;
use crate::stage::{PATIENCE, Stage, Start};
use crate::support::under_test;

/// Runs `body` where these are the lines of /etc/resolv.conf, and the name server on the loopback
/// answers as names spell it.
fn with_name_server(resolv_conf: &'static str, body: impl FnOnce() + Send + 'static) {
    in_own_network(move || {
        let stage = Stage::new();
        name_server::serve(&stage.at(""), resolv_conf);
        body();
    });
}

/// A start whose backend has this name.
fn at_name<'a>(stage: &'a Stage, name: &str) -> Start<'a> {
    let port = stage.backend.address().port();
    stage
        .command(&["true"])
        .with("OJS_MODE", "exec")
        .with("OJS_URL", format!("http://{name}:{port}"))
}

/// The first label says what is answered to a question for A and for AAAA.
#[test]
fn an_address_that_came_is_used_whatever_the_name_server_says_of_the_other_family() {
    with_name_server("nameserver 127.0.0.1\n", || {
        let long = format!("address-silent.{}test", "a23456789.".repeat(22));
        for name in [
            "address-nodata.test",
            "address-address.test",
            "address-refused.test",
            "address-servfail.test",
            "address-notimp.test",
            "address-nxdomain.test",
            "many-nxdomain.test",
            "Under_Score.ADDRESS-SERVFAIL.test.",
            &long,
        ] {
            let stage = Stage::new();
            let mut init = at_name(&stage, name).start();
            stage.backend.wait_for_count(Endpoint::Heartbeat, 1, PATIENCE);
            init.stops();
        }
    });
}

#[test]
fn a_host_that_is_not_there_and_a_name_server_that_fails_are_told_apart() {
    with_name_server("nameserver 127.0.0.1\n", || {
        for (name, says) in [
            ("nxdomain-nxdomain.test", "there is no host of this name"),
            ("nodata-nodata.test", "its name has no address"),
            ("servfail-servfail.test", "the name server failed or did not answer"),
            ("servfail-nodata.test", "the name server failed or did not answer"),
            ("nodata-servfail.test", "the name server failed or did not answer"),
        ] {
            let stage = Stage::new();
            let mut init = at_name(&stage, name).start();
            init.logs(says);
            init.stops();
        }
    });
}

/// musl stops at the first search domain whose name server fails, glibc goes on: the limit that
/// docs/on-call-backend.md names, with the way around it.
#[test]
fn a_search_domain_that_fails_is_passed_over_by_a_dot_at_the_end_of_the_name() {
    with_name_server(
        "nameserver 127.0.0.1\nsearch servfail-servfail second.test\noptions ndots:3\n",
        || {
            let stage = Stage::new();
            let mut init = at_name(&stage, "address-nodata.test.").start();
            stage.backend.wait_for_count(Endpoint::Heartbeat, 1, PATIENCE);
            init.stops();
            if under_test::is_static() {
                let mut init = at_name(&stage, "b").named("other").start();
                init.logs("the name server failed or did not answer");
                init.stops();
            }
        },
    );
}
