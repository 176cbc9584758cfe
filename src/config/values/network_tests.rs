//! Addresses, URLs and headers: which are read, and what an error shows.

use super::*;
use crate::config::test_support::Given;

#[test]
fn a_line_break_at_the_end_of_a_token_or_of_headers_is_no_part_of_them() {
    let given = Given::agent()
        .variable("OJS_AUTH_TOKEN=tok\n")
        .variable("OJS_INIT_HEADERS=X-A: 1\nX-B: 2\n");
    let backend = given.config().backend;
    assert_eq!(backend.auth_token.unwrap().reveal(), "tok");
    assert_eq!(backend.headers.len(), 2);
}

#[test]
fn a_url_is_taken_apart_as_it_is_meant() {
    for (url, host, port, path, header) in [
        ("http://b", "b", 80, "", "b"),
        ("http://b:80/x", "b", 80, "/x", "b"),
        ("https://b:8443/x/y", "b", 8443, "/x/y", "b:8443"),
        ("https://[::1]", "::1", 443, "", "[::1]"),
        ("http://[::1]:8080", "::1", 8080, "", "[::1]:8080"),
        ("http://10.0.0.1:443", "10.0.0.1", 443, "", "10.0.0.1:443"),
        ("http://b:", "b", 80, "", "b"),
    ] {
        let url = BackendUrl(url.to_owned());
        let parts = (url.host_and_port(), url.path(), url.host_header());
        assert_eq!(parts, ((host, port), path, header.to_owned()), "{url:?}");
    }
}

#[test]
fn a_base_url_keeps_its_prefix_and_loses_the_last_slash() {
    let cases = [
        ("http://backend", "http://backend"),
        ("https://b.example:8443/ojs/", "https://b.example:8443/ojs"),
        ("HTTP://[::1]:80", "http://[::1]:80"),
    ];
    for (text, expected) in cases {
        assert_eq!(BackendUrl::parse(text).unwrap().as_str(), expected);
    }
}

#[test]
fn what_is_no_base_url_is_refused() {
    let cases = [
        "",
        "backend:8080",
        "ftp://b",
        "http://",
        "http:///x",
        "http://:80",
        "http://b:0",
        "http://b:70000",
        "http://b:80:90",
        "http://b:",
        "http://[::1",
        "http://[x]:80",
        "http://[::1]x",
        "http://b?x=1",
        "http://b/#f",
        "http://b c",
        "http://b/a b",
        "http://b/\u{fc}",
        "http://u:p@b/",
    ];
    for text in cases {
        assert!(BackendUrl::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_credential_in_a_url_is_an_error_that_names_the_right_place() {
    assert!(
        BackendUrl::parse("https://user:hunter2@b/")
            .unwrap_err()
            .contains("backend.auth_token_file")
    );
}

#[test]
fn listen_takes_addresses_every_address_and_off() {
    let cases = [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::]:8081", "[::]:8081"),
        (":8081", "[::]:8081"),
        ("localhost:1", "127.0.0.1:1"),
        ("off", "off"),
    ];
    for (text, expected) in cases {
        assert_eq!(Listen::parse(text).unwrap().to_string(), expected);
    }
    for text in [
        "",
        "8081",
        "::1:80",
        "[::1]",
        "[1.2.3.4]:80",
        "1.2.3.4:",
        "1.2.3.4:-1",
        "1.2.3.4:65536",
        "host:80",
        "OFF",
    ] {
        assert_eq!(Listen::parse(text), None, "{text:?}");
    }
}

#[test]
fn the_value_of_a_header_is_never_shown_whatever_its_name() {
    for name in ["Authorization", "X-Api-Key", "Cookie", "X-Access", "X-OJS-Tenant", "a"] {
        let header = Header::parse(&format!("{name}:  hunter2 ")).unwrap();
        assert_eq!(header.value, "hunter2");
        assert_eq!(header.to_string(), format!("{name}: (not shown)"));
        assert_eq!(format!("{header:?}"), header.to_string());
    }
}

#[test]
fn what_is_no_header_is_refused_without_its_value() {
    for text in [
        "hunter2",
        ": hunter2",
        "A B: hunter2",
        "Host: hunter2",
        "accept-encoding: hunter2",
        "Expect: hunter2",
        "X: hunter2\u{7f}",
        "X: hunter2\r\nY: z",
    ] {
        assert!(!Header::parse(text).unwrap_err().contains("hunter2"), "{text:?}");
    }
}

#[test]
fn a_header_may_be_given_once() {
    assert!(Vec::<Header>::read(&["A: b", "B: c"], &()).is_ok());
    assert!(Vec::<Header>::read(&["A: b", "a: c"], &()).is_err());
}

#[test]
fn a_token_must_fit_into_a_header_and_is_hidden_from_debug() {
    assert_eq!(format!("{:?}", Secret::parse("hunter2").unwrap()), "(not shown)");
    for text in ["", "a b", "a\n", "\u{fc}"] {
        assert_eq!(Secret::parse(text), None);
    }
}
