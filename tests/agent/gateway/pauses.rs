//! A POST comes after a pause that is about as long as somebody keeps a connection: no SDK repeats
//! it, so none may be lost to that.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::gateway::front::{Front, Head};
use crate::gateway::worker;
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::{pause, wait_until};

/// Connections of one worker, all of which ask at the same time.
const CONNECTIONS: usize = 200;

/// How far around a time-out the pauses are drawn, in milliseconds.
const SPREAD_MS: u64 = 40;

/// Requests in all, where nobody asks for another number: as many as 20 s have room for.
const REQUESTS: usize = 5_600;

/// That variable asks for another number.
const ASKED: &str = "GATEWAY_POSTS";

/// How long an answer takes: so many are under way at once, each on a connection of its own.
const ANSWER_TAKES: Duration = Duration::from_millis(3);

/// How long the other side does not know yet that a connection is closed: what it sends then is
/// lost.
const ON_ITS_WAY: Duration = Duration::from_millis(10);

/// A backend by the time after which it closes a connection that is idle.
struct Backend {
    closes_after: Duration,
    /// Whether it says so.
    says: bool,
    /// Pauses that may matter, in milliseconds: until when we use a connection, and until when it
    /// is there.
    around_ms: &'static [u64],
    /// How often all ask, of [`REQUESTS`].
    rounds: usize,
}

const BACKENDS: [Backend; 3] = [
    Backend {
        closes_after: Duration::from_secs(1),
        says: true,
        around_ms: &[1000],
        rounds: 14,
    },
    Backend {
        closes_after: Duration::from_secs(2),
        says: true,
        around_ms: &[1000, 2000],
        rounds: 10,
    },
    Backend {
        closes_after: Duration::from_secs(5),
        says: false,
        around_ms: &[4000, 5000],
        rounds: 4,
    },
];

const SCRIPT: &str = r#"
import random
draw = random.Random(1)
links = [Link() for _ in range(CONNECTIONS)]
whole = request("POST", "/front/jobs", {"type": "t"})
wrong = []
for number in range(ROUNDS):
    around = AROUND[number % len(AROUND)]
    time.sleep((around + draw.uniform(-SPREAD, SPREAD)) / 1000 if number else 0)
    for link in links:
        try:
            link.send(whole)
        except OSError as error:
            wrong.append(error)
    for link in links:
        try:
            answer = link.answer()
        except OSError as error:
            answer = [error]
        if not answer or answer[0] != 200:
            wrong.append(f"{around} {answer}")
note("done", len(wrong), wrong[:3])
rest()
"#;

impl Backend {
    /// All of its time, when it is asked so often.
    fn takes(&self, rounds: usize) -> Duration {
        let longest = self.around_ms.iter().max().unwrap() + SPREAD_MS;
        Duration::from_millis(longest) * u32::try_from(rounds).unwrap()
    }

    fn script(&self, rounds: usize) -> String {
        SCRIPT
            .replace("CONNECTIONS", &CONNECTIONS.to_string())
            .replace("ROUNDS", &rounds.to_string())
            .replace("AROUND", &format!("{:?}", self.around_ms))
            .replace("SPREAD", &SPREAD_MS.to_string())
    }

    /// In front of the rest, and how many requests have come to it.
    fn start(&self, stage: &Stage) -> (Front, Arc<AtomicUsize>) {
        let posts = Arc::new(AtomicUsize::new(0));
        let (closes_after, counter) = (self.closes_after, Arc::clone(&posts));
        let says = if self.says {
            format!("Keep-Alive: timeout={}\r\n", closes_after.as_secs())
        } else {
            String::new()
        };
        let answer = format!("HTTP/1.1 200 OK\r\n{says}Content-Length: 2\r\n\r\n{{}}");
        let front = Front::start(stage, move |mut reader, _| {
            reader.get_ref().set_read_timeout(Some(closes_after))?;
            loop {
                let head = match Head::read(&mut reader) {
                    Ok(Some(head)) => head,
                    Ok(None) => return Ok(()),
                    Err(error) => {
                        pause(ON_ITS_WAY);
                        return Err(error);
                    }
                };
                io::copy(&mut (&mut reader).take(head.length()), &mut io::sink())?;
                counter.fetch_add(1, Ordering::Relaxed);
                pause(ANSWER_TAKES);
                reader.get_mut().write_all(answer.as_bytes())?;
            }
        });
        (front, posts)
    }
}

/// `GATEWAY_POSTS=100000` is a run of six minutes.
#[test]
fn a_post_comes_through_however_long_after_the_last_one_and_whoever_closes_idle_connections() {
    let asked = std::env::var(ASKED).map_or(REQUESTS, |number| number.parse().unwrap());
    let stages = BACKENDS.map(|backend| (Stage::new(), backend));
    let mut runs = Vec::new();
    for (stage, backend) in &stages {
        let rounds = (backend.rounds * asked).div_ceil(REQUESTS);
        let (front, posts) = backend.start(stage);
        let start = worker(stage, &backend.script(rounds)).with("OJS_URL", front.url());
        runs.push((start.start(), backend, rounds, posts));
    }
    let mut all = 0;
    for (init, backend, rounds, posts) in &mut runs {
        let is_done = || init.notes().iter().any(|line| line.starts_with("done"));
        wait_until(PATIENCE + 2 * backend.takes(*rounds), is_done);
        assert_eq!(init.noted("done"), "0 []", "closes after {:?}", backend.closes_after);
        assert_eq!(posts.load(Ordering::Relaxed), *rounds * CONNECTIONS, "each once");
        all += *rounds * CONNECTIONS;
        init.stops();
    }
    println!("{all} requests, each answered");
}
