//! Answers that are not what they seem, and what is made of them.

use ojs_lifecycle::api::{Failure, Reply};

use crate::backend::{self, Behaviour, Endpoint};
use crate::rig::*;

#[test]
fn an_ack_that_a_page_answers_with_success_is_not_believed_and_the_log_says_what_to_look_at() {
    let backend = backend::Backend::start();
    let page = "<!DOCTYPE html><title>Maintenance</title>";
    for endpoint in [Endpoint::Ack, Endpoint::Heartbeat, Endpoint::Register] {
        backend.always(endpoint, Behaviour::body(page));
    }
    let since = logged();
    let mut rig = Rig::of(&backend);
    let setting = format!("check backend.url = {} (OJS_URL)", backend.url());
    let expected = "status 200, and the body is no JSON object";
    for call in [register(), beat(), ack("a")] {
        let (reply, heard) = rig.hear(call);
        assert_eq!(reply, failed(Failure::NotFromBackend));
        let said = heard.words.failure.unwrap();
        assert!(said.starts_with(expected) && said.contains(&setting), "{said}");
    }
    assert!(is_logged(since, &[expected, &setting]));
    assert!(!is_logged(since, &["Maintenance"]), "a body is nothing for the log");
}

#[test]
fn a_redirect_is_called_one_with_where_it_leads_and_where_the_address_was_set() {
    let backend = backend::Backend::start();
    let secret = "https://user@elsewhere.example/".to_owned();
    for (location, shown) in [
        (
            "https://elsewhere.example/login?token=hunter3".to_owned(),
            " to https://elsewhere.example/login,",
        ),
        (secret, ", a redirect, which"),
    ] {
        backend.always(
            Endpoint::Fetch,
            Behaviour::Answer(307, String::new(), vec![("Location", location)]),
        );
        let mut rig = Rig::of(&backend);
        let (_, heard) = rig.hear(fetch(1));
        assert_eq!(heard.status, Some(307));
        let said = heard.words.failure.unwrap();
        let setting = format!(
            "check the scheme and the path of backend.url = {} (OJS_URL)",
            backend.url()
        );
        assert!(
            said.starts_with("status 307, a redirect") && said.ends_with(&setting),
            "{said}"
        );
        assert!(
            said.contains(shown) && !said.contains("hunter3") && !said.contains("user@"),
            "{said}"
        );
    }
}

#[test]
fn a_conflict_about_an_ack_that_a_closed_connection_may_have_carried_is_its_own_success() {
    let backend = backend::Backend::start();
    backend.enqueue(r#"{"id":"a"}"#);
    let mut rig = Rig::of(&backend);
    rig.ask(fetch(1));
    // On a connection of the same lane that was used before, the answer is lost; the fresh one
    // meets what the first did.
    rig.ask(look("a"));
    backend.once(Endpoint::Ack, Behaviour::LoseReply);
    assert_eq!(rig.ask(ack("a")), Reply::Accepted);
    assert_eq!(backend.records_of(Endpoint::Ack).len(), 2);
    backend.assert_one_outcome_each();
}
