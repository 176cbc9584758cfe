//! Public facts about the server: its health and its features.

use serde_json::json;

use crate::http::reply::Reply;
use crate::moment::Moment;
use crate::state::Shared;

/// The health: the server is well as long as it can answer.
pub(super) fn health(shared: &Shared, now: Moment) -> Reply {
    Reply::ok(&json!({
        "status": "ok",
        "version": shared.options.dialect.version(),
        "uptime_seconds": now.as_secs(),
        "backend": {"type": "memory", "status": "connected", "latency_ms": 0},
    }))
}

/// The manifest: the server's name, version and features.
pub(super) fn manifest(shared: &Shared) -> Reply {
    let extensions: &[&str] = if shared.options.dialect.has_extensions() {
        &[
            "urn:ojs:ext:graceful-shutdown",
            "urn:ojs:ext:progress",
            "urn:ojs:ext:durable-execution",
        ]
    } else {
        &[]
    };
    Reply::ok(&json!({
        "specversion": shared.options.dialect.version(),
        "ojs_version": shared.options.dialect.version(),
        "implementation": {
            "name": env!("CARGO_PKG_NAME"),
            "version": env!("CARGO_PKG_VERSION"),
            "language": "rust",
        },
        "conformance_level": 1,
        "protocols": ["http"],
        "backend": "devserver",
        "capabilities": {
            "batch_enqueue": true,
            "cron_jobs": false,
            "dead_letter": true,
            "delayed_jobs": true,
            "job_ttl": true,
            "pause_resume": true,
            "priority_queues": true,
            "rate_limiting": false,
            "schema_validation": false,
            "unique_jobs": false,
            "workflows": false,
        },
        "extensions": extensions,
        "endpoints": {"manifest": "/ojs/manifest", "health": "/ojs/v1/health"},
        "development_tool": true,
        "dialect": shared.options.dialect.name(),
    }))
}
