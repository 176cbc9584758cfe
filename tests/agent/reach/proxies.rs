//! The whole binary behind a proxy: jobs, a drain, and what log and worker get to see of the
//! proxy's credentials.

use crate::proxy::{Manner, ProxyServer};
use crate::stage::Stage;

/// Tells the worker's side of the environment, and takes long enough for a drain.
const HANDLER: &str = "echo \"proxies [$OJS_PROXY] [$HTTP_PROXY]\" >> $NOTES; sleep 0.5";

#[test]
fn jobs_and_a_drain_go_through_the_proxy_of_the_environment_or_of_our_own_variable() {
    for (variable, seen) in [("HTTP_PROXY", "proxies [] [{}]"), ("OJS_PROXY", "proxies [] []")] {
        let proxy = ProxyServer::start(Manner::Usual);
        let stage = Stage::new();
        stage.enqueue([1]);
        let port = stage.backend.address().port();
        let value = format!("http://somebody:hunter2@{}", proxy.place());
        let mut init = stage
            .command(&["sh", "-c", HANDLER])
            .with("OJS_MODE", "exec")
            .with("OJS_URL", format!("http://known-to-the-proxy-alone.invalid:{port}"))
            .with(variable, &*value)
            .start();
        init.logs(&format!("through the proxy {} (environment {variable})", proxy.place()));
        init.notes_line(&seen.replace("{}", &value));
        init.stops();
        stage.wait_for_outcomes();
        assert!(
            !init.log().contains("hunter2") && !init.log().contains("somebody"),
            "{}",
            init.log()
        );
        let last = proxy.heads().pop().unwrap();
        assert!(last.contains("/ojs/v1/workers/deregister HTTP/1.1"), "{last}");
    }
}
