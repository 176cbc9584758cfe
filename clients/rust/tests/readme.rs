//! The README's code, where it is compiled: each block of it stands here or in
//! `fixture/enqueue.rs`, in functions that have what it needs. The README itself has no line that
//! only a compiler wants to see.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its files, or waits, has failed")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

type Anything = Box<dyn std::error::Error>;

mod a_worker {
    mod mailer {
        pub(super) fn send(_: &str, _: &str) -> std::io::Result<String> {
            Ok(String::new())
        }
    }

    struct Page;

    fn pages() -> Vec<Page> {
        vec![]
    }

    fn render(_: Page) -> ojs_worker::Result<()> {
        Ok(())
    }

    // A function that nobody calls: it would run until it is shut down.
    #[allow(dead_code)]
    mod program {
        use super::{mailer, pages, render};

        use ojs_worker::{Discard, Worker};

        fn main() -> std::process::ExitCode {
            let mut worker = Worker::new(); // as many jobs at once as OJS_CONCURRENCY says
            worker.handle_typed("email.send", |_job, (to, body): (String, String)| {
                if !to.contains('@') {
                    return Err(Discard::new("no address").into()); // fails for good
                }
                Ok(mailer::send(&to, &body)?) // any other error: fails, retryable
            });
            worker.handle("report.build", |job| {
                for page in job.iterate(pages())? {
                    render(page?)?; // a redelivery goes on behind the last finished page
                }
                Ok(())
            });
            worker.main()
        }
    }
}

/// Enough of one for what is ready at once.
struct Runtime;

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

impl Runtime {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        match pin!(future).poll(&mut Context::from_waker(&Arc::new(Nobody).into())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("not ready"),
        }
    }
}

async fn fetch(id: &str) -> ojs_worker::Result<String> {
    Ok(id.to_owned())
}

#[test]
fn an_asynchronous_handler_stays_in_its_thread() -> Result<(), Anything> {
    let (mut worker, runtime) = (ojs_worker::Worker::new(), Runtime);
    worker.handle("t", move |job| runtime.block_on(async { fetch(job.id()).await }));
    assert_eq!(worker.perform("t", ())?.outcome, "ack");
    Ok(())
}

#[test]
fn a_middleware_is_around_a_handler() -> Result<(), Anything> {
    let mut worker = ojs_worker::Worker::new();
    worker.wrap(|job, next| {
        let began = std::time::Instant::now();
        let result = next.run(job); // or another result, or another error
        log::info!("took {:?}", began.elapsed());
        result
    });
    worker.handle("t", |_| Ok("done"));
    assert_eq!(worker.perform("t", ())?.result::<String>()?, "done");
    Ok(())
}

struct User {
    id: u64,
}

fn users() -> Vec<User> {
    vec![User { id: 1 }, User { id: 2 }]
}

fn tell(_: &User, _: &str) -> ojs_worker::Result<()> {
    Ok(())
}

fn resize(picture: &str) -> ojs_worker::Result<String> {
    Ok(picture.to_owned())
}

fn steps(job: &ojs_worker::Job, picture: &str) -> ojs_worker::Result<()> {
    let path = job.step("resize", || resize(picture))?;
    job.step("notify", || {
        for user in job.iterate_keyed(users(), |user| user.id)? {
            tell(&user?, &path)?;
        }
        Ok(())
    })
}

#[test]
fn a_handler_in_steps_is_done() -> Result<(), Anything> {
    let mut worker = ojs_worker::Worker::new();
    worker.handle("t", |job| steps(job, "a.png"));
    assert_eq!(worker.perform("t", ())?.outcome, "ack");
    Ok(())
}

#[test]
fn a_handler_is_tested_in_process() -> Result<(), Anything> {
    let mut worker = ojs_worker::Worker::new();
    worker.handle_typed("email.send", |_, (to, _): (String, String)| Ok(to));
    let outcome = worker.perform("email.send", ("a@b.c", "hello"))?;
    assert_eq!(outcome.outcome, "ack"); // or fail, with .error, or release, with .reason
    assert_eq!(outcome.result::<String>()?, "a@b.c");
    Ok(())
}

#[test]
fn a_handler_is_tested_while_it_is_shut_down_and_at_its_checkpoint() -> Result<(), Anything> {
    let mut worker = ojs_worker::Worker::new();
    worker.handle("report.build", |job| {
        for row in job.iterate(0..20)? {
            row?;
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(())
    });
    use ojs_worker::testing::Delivery;
    use std::time::Duration;

    let job = Delivery::new("report.build", ())?;
    let first = worker.perform_delivery(&job.clone().stop_in(Duration::from_millis(700)))?;
    assert_eq!(first.reason, "resumes at its checkpoint");
    let second = worker.perform_delivery(&job.checkpoint(first.last_checkpoint()))?;
    assert_eq!(second.outcome, "ack");
    let saved = first.last_checkpoint().map(|saved| saved["cursors"][""].as_u64() > Some(0));
    assert_eq!(saved, Some(true), "the second attempt goes on behind the rows of the first one");
    Ok(())
}

/// Its lines without what is before and behind them.
fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn each_block_of_the_readme_is_compiled_word_for_word() {
    let read = |name: &str| std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let compiled = ["tests/readme.rs", "fixture/enqueue.rs"].map(|name| lines(&read(name)));
    let readme = read("README.md");
    let blocks = readme.split("```rust").skip(1).map(|rest| rest.split("```").next().unwrap());
    let missing: Vec<&str> = blocks
        .filter(|block| {
            let block = lines(block.trim_start_matches('\n'));
            !compiled.iter().any(|code| code.contains(&block))
        })
        .collect();
    assert_eq!(missing, [""; 0]);
    assert_eq!(readme.matches("```rust").count(), 7);
}
