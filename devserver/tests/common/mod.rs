//! A server in the test's own process, and somebody who speaks with it.

#![allow(dead_code, reason = "each test file uses its part of it")]
#![allow(clippy::unwrap_used, reason = "what cannot be had fails the test")]

use std::time::Duration;

use ojs_devserver::{Options, Server};
use serde_json::Value;
use ureq::Agent;

/// Longest wait for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The media type of the specification.
pub const MEDIA_TYPE: &str = "application/openjobspec+json";

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
    pub json: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// A server and a client of it.
pub struct Bench {
    pub server: Server,
    pub patience: Duration,
    pub headers: Vec<(&'static str, &'static str)>,
}

pub fn bench(options: Options) -> Bench {
    Bench {
        server: Server::start(options).unwrap(),
        patience: PATIENCE,
        headers: vec![("content-type", MEDIA_TYPE)],
    }
}

pub fn plain() -> Bench {
    bench(Options::default())
}

impl Bench {
    /// One request; an error is the lack of a whole answer.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Result<Answer, String> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(self.patience))
            .build();
        let agent = Agent::new_with_config(config);
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server.url()));
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        let answer = match body {
            "" => agent.run(request.body(()).unwrap()),
            body => agent.run(request.body(body.to_owned()).unwrap()),
        };
        let mut answer = answer.map_err(|error| error.to_string())?;
        let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
        let text_of = |value: &ureq::http::HeaderValue| value.to_str().unwrap().to_owned();
        Ok(Answer {
            status: answer.status().as_u16(),
            headers: answer
                .headers()
                .iter()
                .map(|(name, value)| (name.to_string(), text_of(value)))
                .collect(),
            json: serde_json::from_str(&text).unwrap_or_default(),
            text,
        })
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").unwrap()
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, body).unwrap()
    }

    pub fn put(&self, path: &str, body: &str) -> Answer {
        self.ask("PUT", path, body).unwrap()
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, "").unwrap()
    }

    /// A request of a worker.
    pub fn worker(&self, operation: &str, body: &str) -> Answer {
        self.post(&format!("/ojs/v1/workers/{operation}"), body)
    }

    /// A job in the queue default, with these further fields.
    pub fn put_job(&self, id: &str, more: &str) {
        self.server
            .enqueue(&format!(r#"{{"id":"{id}","type":"t","args":[]{more}}}"#))
            .unwrap();
    }

    /// Fetches one job for a worker.
    pub fn fetch(&self, worker: &str) -> Answer {
        self.worker("fetch", &format!(r#"{{"queues":["default"],"worker_id":"{worker}"}}"#))
    }

    /// Where the job is.
    pub fn state(&self, job: &str) -> String {
        self.server.job(job).unwrap().state.to_string()
    }
}
