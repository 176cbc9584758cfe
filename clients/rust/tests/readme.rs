//! The code of the README, word for word, in functions that have what it needs.
#![allow(
    dead_code,
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    reason = "some of it runs only under ojs-init"
)]

use std::time::Duration;

use ojs_worker::testing::Delivery;
use ojs_worker::{Job, Result, Worker};

mod mailer {
    pub(crate) fn send(_: &str, _: &str) -> std::io::Result<&'static str> {
        Ok("sent")
    }
}

mod first_worker {
    use super::mailer;

    use ojs_worker::{Discard, Worker};

    fn main() -> std::process::ExitCode {
        let mut worker = Worker::new();
        worker.handle_typed("email.send", |_job, (to, body): (String, String)| {
            if !to.contains('@') {
                return Err(Discard::new("no address").into()); // fails for good
            }
            Ok(mailer::send(&to, &body)?) // any other error: fails, and may be tried again
        });
        worker.main()
    }
}

struct Mailer;

impl Mailer {
    fn connect() -> Mailer {
        Mailer
    }

    fn send(&self, _to: &str) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "async")]
#[tokio::test(flavor = "multi_thread")]
async fn handlers_share_a_state_and_may_be_futures() -> Result<()> {
    async fn download(url: &str) -> Result<String> {
        Ok(url.to_owned())
    }

    let mut worker = Worker::new();
    worker.with_state(Mailer::connect()).handle_typed("email.send", |_job, mailer, to: String| Ok(mailer.send(&to)?));
    worker.handle_async("page.fetch", async |job, url: String| {
        let path = job.step_async("download", async || download(&url).await).await?;
        Ok(path) // call handle_async in `#[tokio::main] async fn main()`
    });
    assert_eq!(worker.perform("email.send", ("a@b.c",))?.outcome, "ack");
    assert_eq!(worker.perform("page.fetch", ("a",))?.result, "a");
    Ok(())
}

struct User {
    id: u64,
}

fn users() -> Vec<User> {
    vec![User { id: 1 }, User { id: 2 }]
}

fn tell(_user: &User, _path: &str) -> Result<()> {
    Ok(())
}

fn resize(picture: &str) -> Result<String> {
    Ok(picture.to_owned())
}

fn build(job: &Job, picture: &str) -> Result<()> {
    let path = job.step("resize", || resize(picture))?; // runs once, its result is kept
    job.step("notify", || {
        for user in job.iterate_keyed(users(), |user| user.id)? {
            tell(&user?, &path)?; // goes on behind the last finished row
        }
        Ok(())
    })
}

#[test]
fn handlers_are_tested_in_process() -> Result<()> {
    let mut worker = Worker::new();
    worker.handle_typed("email.send", |_, (to, body): (String, String)| Ok(mailer::send(&to, &body)?));
    worker.handle("report.build", |job| {
        let _is_stopping = job.wait_stopping(Duration::from_secs(20));
        build(job, "a.png")
    });
    let outcome = worker.perform("email.send", ("a@b.c", "hello"))?;
    assert_eq!((outcome.outcome.as_str(), outcome.result), ("ack", "sent".into()));
    let shutdown = Delivery { stop_in: Some(Duration::from_millis(100)), ..Delivery::new("report.build", ())? };
    assert_eq!(worker.perform_delivery(&shutdown)?.reason, "resumes at its checkpoint");
    Ok(())
}

/// Its lines, without indentation.
fn lines(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_block_of_the_readme_is_compiled_word_for_word() {
    let read = |name: &str| std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let compiled = ["tests/readme.rs", "fixture/enqueue.rs"].map(|name| lines(&read(name)));
    let readme = read("README.md");
    let blocks: Vec<&str> = readme.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        let block = lines(block);
        assert!(compiled.iter().any(|code| code.contains(block.trim())), "not compiled: {block}");
    }
}
