//! The example image of each client, built by its own Dockerfile: it does a job, is healthy and
//! ends when it is asked to.
//!
//! The bases are made of what this machine has, so what is tested is the Dockerfile, and not the
//! image that it names.

use ojs_devserver::{JobState, Options, Server};

use crate::container::Start;
use crate::images::{NODE_BASE, PIP_BASE, RUST_BASE, from_repository, import, made_from};
use crate::{PATIENCE, engine, looks_until, measured};

/// Those whose bases are small.
pub const INTERPRETED: [(&str, fn()); 4] = [
    ("the_example_image_of_the_node_client_does_its_job_and_ends", || {
        does_its_job("node", &format!("NODE_IMAGE={}", *NODE_BASE));
    }),
    ("the_example_image_of_the_php_client_does_its_job_and_ends", || {
        import(engine(), &["php"], "ojs-php-base");
        does_its_job("php", "PHP_IMAGE=ojs-php-base");
    }),
    ("the_example_image_of_the_python_client_does_its_job_and_ends", || {
        does_its_job("python", &format!("PYTHON_IMAGE={}", *PIP_BASE));
    }),
    ("the_example_image_of_the_ruby_client_does_its_job_and_ends", || {
        import(engine(), &["ruby"], "ojs-ruby-base");
        does_its_job("ruby", "RUBY_IMAGE=ojs-ruby-base");
    }),
];

/// Those that bring a compiler, of half a gigabyte. In Rust the crates' registry is asked as well.
pub const COMPILED: [(&str, fn()); 3] = [
    ("the_example_image_of_the_go_client_does_its_job_and_ends", || {
        import(engine(), &["go"], "ojs-go-base");
        does_its_job("go", "GO_IMAGE=ojs-go-base");
    }),
    ("the_example_image_of_the_java_client_does_its_job_and_ends", || {
        import(engine(), &["java"], "ojs-java-base");
        for kind in ["jdk", "jre"] {
            engine().docker(&["tag", "ojs-java-base", &format!("ojs-java-base-{kind}")]);
        }
        does_its_job("java", "JAVA_IMAGE=ojs-java-base");
    }),
    ("the_example_image_of_the_rust_client_does_its_job_and_ends", || {
        // Alpine's compiler makes programs that need no library. Debian's has to be told so, for
        // the program alone.
        let lines = [
            r#"RUN printf '#!/bin/sh\ncase "$*" in *"name email "*) set -- "$@" -Ctarget-feature=+crt-static;; esac\nexec "$@"\n' >/tmp/email"#,
            "RUN chmod 755 /tmp/email",
            "ENV PATH=/rust/bin:/usr/local/bin:/usr/bin:/bin RUSTC_WORKSPACE_WRAPPER=/tmp/email",
        ];
        made_from(*RUST_BASE, &lines, "ojs-rust-base");
        does_its_job("rust", "RUST_IMAGE=ojs-rust-base");
    }),
];

fn does_its_job(client: &str, base: &str) {
    let (dockerfile, image) = (
        format!("clients/{client}/examples/Dockerfile"),
        format!("ojs-{client}-client"),
    );
    from_repository(engine(), &dockerfile, base, &image);
    let server = Server::start(Options::default()).unwrap();
    let worker = Start::example(&image, &server).start();
    server
        .enqueue(r#"{"type":"email.send","args":["a@b.c","hello"]}"#)
        .unwrap();
    let is_done = looks_until(PATIENCE, || server.count(JobState::Completed) == 1);
    assert!(is_done, "{}", worker.log());
    worker.health_becomes("healthy");
    let ended = worker.stop(&[]);
    assert_eq!(ended.status, 0, "{}", worker.log());
    measured(
        &format!("docker stop of the example image of the {client} client, idle"),
        &format!("{:.1} s", ended.took.as_secs_f64()),
    );
}
