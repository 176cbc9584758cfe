//! One shutdown: how it is drawn, played and judged.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ojs_devserver::{Directive, JobSnapshot, JobState, Options, Server};

use crate::client::Client;
use crate::stage::{Init, Stage};
use crate::support::random::Random;
use crate::support::wait::{now, pause, wait_until};

/// Exit status of a shutdown that cut jobs off.
const INTERRUPTED: i32 = 10;

/// The time of the limit behind the grace period, in milliseconds, and the part of it that the stop
/// phase is told to need.
const BEHIND_GRACE: u64 = 3_000;
const STOP_MARGIN: u64 = 1_500;

/// How long a start may take: a virtual machine on a busy one.
const START: Duration = Duration::from_secs(60);

/// Longest time of a job, in milliseconds.
const LONGEST_JOB: u64 = 700;

/// Time behind the longest job in which a calm drain ends for certain, in milliseconds.
const CALM_ROOM: u64 = 4_000;

/// A directive comes with the answer to a heartbeat.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// The sender of the request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Sigterm,
    Sigint,
    /// SIGTSTP, and SIGTERM a little later.
    QuietFirst,
    /// SIGTERM, and another one a little later: terminate now.
    Twice,
    /// The backend says terminate.
    Directive,
}

/// A shutdown that is put together by chance.
#[derive(Debug)]
pub struct Drain {
    ask: Ask,
    concurrency: u64,
    /// How long each job takes, in milliseconds.
    jobs: Vec<u64>,
    /// After the first delivery, in milliseconds.
    asked_after: u64,
    /// Between the two requests, where there are two, in milliseconds.
    pause: u64,
    /// The grace period, in milliseconds.
    grace: u64,
    is_requeued: bool,
}

impl Drain {
    pub fn draw(seed: u64, number: u64) -> Self {
        let mut random = Random::from_seed(seed.wrapping_add(number.wrapping_mul(7919)));
        let asks = [Ask::Sigterm, Ask::Sigint, Ask::QuietFirst, Ask::Twice, Ask::Directive];
        let ask = asks[usize::try_from(number % 5).unwrap()];
        let is_calm = random.below(2) == 0;
        let count = random.between(1, 40);
        Self {
            ask,
            concurrency: random.between(1, 6),
            jobs: (0..count).map(|_| random.below(LONGEST_JOB)).collect(),
            asked_after: random.below(600),
            pause: random.between(150, 500),
            grace: if is_calm {
                LONGEST_JOB + CALM_ROOM
            } else {
                random.between(50, 500)
            },
            is_requeued: random.below(2) == 0,
        }
    }

    /// Whether every job that was begun has the time to end.
    fn is_calm(&self) -> bool {
        self.grace > LONGEST_JOB && self.ask != Ask::Twice
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.grace + BEHIND_GRACE)
    }

    /// The mistakes, a line each; empty: none.
    pub fn play(&self, client: &Client) -> String {
        let server = Server::start(Options {
            heartbeat_interval: HEARTBEAT,
            heartbeat_timeout: Duration::from_secs(600),
            ..Options::default()
        })
        .unwrap();
        let stage = Stage::new();
        let mut init = self.start(client, &server, &stage);
        let jobs: Vec<String> = self.jobs.iter().map(envelope).collect();
        server.enqueue_all(jobs.iter().map(String::as_str)).unwrap();
        let has_begun = || server.jobs().iter().any(|job| job.times_delivered > 0);
        if !wait_until(START, || has_begun() || !init.is_running()) || !has_begun() {
            return format!("no job was fetched\n{}", init.story());
        }
        pause(Duration::from_millis(self.asked_after));
        let asked = self.ask(&server, &init);
        let room = if self.ask == Ask::Directive {
            5 * HEARTBEAT
        } else {
            Duration::ZERO
        };
        let is_over = wait_until(self.limit() + room + START, || !init.is_running());
        let took = asked.elapsed();
        let mut found = String::new();
        if !is_over || took > self.limit() + room {
            let _ = writeln!(found, "the end after {took:?}, the limit is {:?}", self.limit());
        }
        self.judge(&server, &mut init, &mut found);
        if !found.is_empty() {
            found.push_str(&init.story());
        }
        found
    }

    fn start(&self, client: &Client, server: &Server, stage: &Stage) -> Init {
        stage
            .command(&client.words(&client.example))
            .with("OJS_URL", server.url())
            .with("OJS_CONCURRENCY", self.concurrency.to_string())
            .with("OJS_SHUTDOWN_GRACE_PERIOD", format!("{}ms", self.grace))
            .with(
                "OJS_TERMINATION_GRACE_PERIOD",
                format!("{}ms", self.grace + BEHIND_GRACE),
            )
            .with("OJS_STOP_MARGIN", format!("{STOP_MARGIN}ms"))
            .with("OJS_LEFTOVERS", if self.is_requeued { "requeue" } else { "fail" })
            .with("OJS_INTERRUPTED_EXIT", INTERRUPTED.to_string())
            .with("OJS_LOG_LEVEL", "info")
            .with("CLIENT_OUT", client.out.clone())
            .with("HOME", stage.at("home"))
            .start()
    }

    /// Asks for the end; when that was.
    fn ask(&self, server: &Server, init: &Init) -> Instant {
        let asked = now();
        match self.ask {
            Ask::Sigterm => init.signal(libc::SIGTERM),
            Ask::Sigint => init.signal(libc::SIGINT),
            Ask::QuietFirst => {
                init.signal(libc::SIGTSTP);
                pause(Duration::from_millis(self.pause));
                init.signal(libc::SIGTERM);
                return now();
            }
            Ask::Twice => {
                init.signal(libc::SIGTERM);
                pause(Duration::from_millis(self.pause));
                init.signal(libc::SIGTERM);
            }
            Ask::Directive => {
                for worker in server.workers() {
                    server.direct(&worker, Directive::Terminate).unwrap();
                }
            }
        }
        asked
    }

    fn judge(&self, server: &Server, init: &mut Init, found: &mut String) {
        let jobs = server.jobs();
        let begun: Vec<&JobSnapshot> = jobs.iter().filter(|job| job.times_delivered > 0).collect();
        let completed = begun.iter().filter(|job| job.state == JobState::Completed).count();
        for job in &jobs {
            let is_done = job.state == JobState::Completed;
            let is_left = matches!(
                job.state,
                JobState::Available | JobState::Retryable | JobState::Scheduled
            );
            if !(is_done || is_left) {
                let _ = writeln!(found, "job {} is {:?}", job.id, job.state);
            }
            if job.times_acked != u32::from(is_done) || job.times_delivered > 1 {
                let _ = writeln!(
                    found,
                    "job {}: {} ACKs, {} deliveries",
                    job.id, job.times_acked, job.times_delivered
                );
            }
        }
        // One that came as the end was asked for goes back at once, unprocessed.
        let has_failed = |job: &&&JobSnapshot| !(job.state == JobState::Completed || job.errors.is_empty());
        if self.is_calm() && begun.iter().any(|job| has_failed(&job)) {
            let _ = writeln!(
                found,
                "of {} jobs that were begun {completed} are done and some failed, with time for all",
                begun.len()
            );
        }
        let accepted: &[i32] = if completed == begun.len() {
            &[0]
        } else {
            &[0, INTERRUPTED]
        };
        if !accepted.iter().any(|status| init.has_ended_with(*status)) {
            let _ = writeln!(found, "an exit status that is none of {accepted:?}");
        }
        if !server.workers().is_empty() {
            let _ = writeln!(found, "not deregistered: {:?}", server.workers());
        }
        let log = init.log();
        if self.is_calm() && (log.contains("SIGKILL") || !log.contains("Worker stopped gracefully")) {
            let _ = writeln!(found, "no graceful stop");
        }
    }
}

fn envelope(ms: &u64) -> String {
    format!(r#"{{"type":"email.send","args":["a@b.c","hello"],"meta":{{"sleep_ms":{ms}}}}}"#)
}
