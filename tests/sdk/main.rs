//! Workers as the SDKs make them, in the languages of the SDKs, and what a backend sees of them at
//! a shutdown: without ojs-init as faulty as the SDKs are, behind it without a gap. The last thing
//! that is printed is the table of both.
//!
//! Needs root (PID namespaces), and go, node, python3, ruby, java with javac, and php with curl.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test whose processes do not do as they are told has failed"
)]

mod directives;
mod faults;
mod requirements;
mod run;
#[path = "../support/sdk_workers/rust_client.rs"]
mod rust_client;
#[path = "../support/sdk_workers/rust_worker.rs"]
mod rust_worker;
#[path = "../support/sdk.rs"]
mod sdk;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};

use requirements::Requirement;
use run::{Front, Plan, Story};
use sdk::Kind;
use table::Found;

/// Stories that are played at the same time: most of the time they wait.
const AT_ONCE: usize = 24;

type Stories = Mutex<BTreeMap<(Kind, Front, Plan), Arc<OnceLock<Story>>>>;

/// Stories that the tests share: one serves several of them.
#[derive(Debug, Default)]
struct Shared {
    stories: Stories,
    found: Mutex<Found>,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == sdk::WORKER) {
        return rust_worker::main();
    }
    let shared = Arc::new(Shared::default());
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let mut trials = Vec::new();
    // The one that waits longest is begun first.
    let longest = |requirement: &&Requirement| requirement.checks.iter().all(|check| check.plan != Plan::Usual);
    let mut requirements: Vec<&'static Requirement> = requirements::ALL.iter().collect();
    requirements.sort_by_key(longest);
    for requirement in requirements {
        for kind in Kind::ALL {
            for front in [Front::Without, Front::Gateway] {
                trials.push(trial(&shared, kind, front, requirement));
            }
        }
    }
    for kind in Kind::ALL {
        trials.push(answers_of_the_specification(kind));
        trials.push(obeys_the_server(kind));
        trials.push(enqueues_in_the_drain(&shared, kind));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let found = shared.found.lock().unwrap();
    if !found.is_empty() {
        table::print(&found);
    }
    conclusion.exit_code()
}

/// Whether a worker of that kind meets a requirement: behind ojs-init altogether, without it as far
/// as its SDK does.
fn trial(shared: &Arc<Shared>, kind: Kind, front: Front, requirement: &'static Requirement) -> Trial {
    let id = requirement.id.to_lowercase().replace('-', "_");
    let name = match front {
        Front::Without => format!("{}::without_ojs_init_it_is_as_faulty_as_its_sdk::{id}", kind.name()),
        Front::Gateway => format!("{}::behind_ojs_init_it_lacks_nothing::{id}", kind.name()),
    };
    let shared = Arc::clone(shared);
    Trial::test(name, move || {
        let mut wrong = Vec::new();
        let mut checks = Vec::new();
        for (number, check) in requirement.checks.iter().enumerate() {
            let story = shared.story(kind, front, check.plan);
            let story = story.get().unwrap();
            let holds = (check.holds)(story);
            checks.push(holds);
            let wanted = front == Front::Gateway || faults::holds(kind, requirement.id, number);
            if holds != wanted {
                let not = if holds { "does now" } else { "does not" };
                wrong.push(format!("{not}: {}\n{}", check.says, story.tell()));
            }
        }
        shared
            .found
            .lock()
            .unwrap()
            .insert((kind, front, requirement.id), checks);
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Failed::from(wrong.join("\n")))
        }
    })
}

/// The Python SDK reads no answer whose type is that of the specification: without ojs-init its
/// workers get no job from most backends.
fn answers_of_the_specification(kind: Kind) -> Trial {
    let can = kind != Kind::Python;
    let verb = if can { "sees" } else { "does_not_see" };
    let name = format!("{}::{verb}_a_job_in_an_answer_of_the_specification_s_type", kind.name());
    Trial::test(name, move || {
        let name = format!("ojs-sdk-{}-type-{}", kind.name(), std::process::id());
        let reads = run::reads_the_type_of_the_specification(kind, &std::env::temp_dir().join(name));
        if reads == can {
            Ok(())
        } else {
            Err(Failed::from("it is the other way round"))
        }
    })
}

/// Directives of the server, which the SDKs understand each in its own way.
fn obeys_the_server(kind: Kind) -> Trial {
    let name = format!("{}::obeys_the_server_as_its_sdk_does", kind.name());
    Trial::test(name, move || {
        let name = format!("ojs-sdk-{}-directives-{}", kind.name(), std::process::id());
        let obeys = directives::play(kind, &std::env::temp_dir().join(name));
        if obeys == directives::expected(kind) {
            Ok(())
        } else {
            Err(Failed::from(format!("{obeys:?}")))
        }
    })
}

/// Handlers need the backend, through us, until the last of them is done.
fn enqueues_in_the_drain(shared: &Arc<Shared>, kind: Kind) -> Trial {
    let name = format!("{}::behind_ojs_init_a_handler_enqueues_in_the_drain", kind.name());
    let shared = Arc::clone(shared);
    Trial::test(name, move || {
        let story = shared.story(kind, Front::Gateway, Plan::Enqueues);
        let story = story.get().unwrap();
        if requirements::gets_done(story) && story.enqueued() == 1 {
            Ok(())
        } else {
            Err(Failed::from(story.tell()))
        }
    })
}

impl Shared {
    /// Played the first time that somebody asks for it.
    fn story(&self, kind: Kind, front: Front, plan: Plan) -> Arc<OnceLock<Story>> {
        let cell = Arc::clone(self.stories.lock().unwrap().entry((kind, front, plan)).or_default());
        cell.get_or_init(|| {
            let name = format!("ojs-sdk-{}-{front:?}-{plan:?}-{}", kind.name(), std::process::id());
            run::play(kind, front, plan, &std::env::temp_dir().join(name))
        });
        cell
    }
}
