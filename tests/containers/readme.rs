//! README.md and the first lines of docs/exec.md as a stranger follows them: an empty folder, the
//! files that the page shows, the commands that it names.
//!
//! The blocks are taken from the pages. Only the images after FROM are made here, because no
//! registry is asked.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use ojs_devserver::{JobState, Options, Server};

use crate::container::{Start, become_state};
use crate::docker_engine::said;
use crate::images::{PIP_BASE, import, made_from, text};
use crate::network::in_own_network;
use crate::support::namespace::spawn_as_pid_1;
use crate::support::{sys, under_test};
use crate::{PATIENCE, engine, looks_until, root};

/// Every test of this file.
pub const ALL: [(&str, fn()); 4] = [
    ("the_worker_of_the_readme_is_built_and_run_from_an_empty_folder", worker),
    (
        "the_handler_of_the_page_of_mode_exec_is_built_and_run_from_an_empty_folder",
        handler,
    ),
    (
        "the_lines_of_the_readme_for_the_worker_of_an_sdk_are_all_that_it_needs",
        sdk,
    ),
    ("the_three_lines_of_the_readme_are_a_local_start", three_lines),
];

/// A page of the repository.
fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The fenced block of this language that has this text.
fn block<'a>(page: &'a str, language: &str, with: &str) -> &'a str {
    let blocks = page.split("```").skip(1).step_by(2);
    let mut blocks = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    let found = blocks.find(|block| block.contains(with));
    found.unwrap_or_else(|| panic!("no block of {language} with {with:?} in {page}"))
}

/// The commands that the page shows in indented lines below this one, until the first line of prose
/// or the next block.
fn commands(page: &str, begins: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| *line != format!("    {begins}"));
    let lines: Vec<String> = lines
        .map_while(|line| line.strip_prefix("    "))
        .map(str::to_owned)
        .collect();
    assert!(!lines.is_empty(), "no command {begins:?} in {page}");
    lines
}

/// Runs lines of a page in a shell.
fn type_in(folder: &Path, lines: &[String]) {
    let mut shell = engine().client("sh");
    shell.args(["-ec", &lines.join("\n")]).current_dir(folder);
    // With the builder that needs no plugin; what works there works with BuildKit.
    shell.env("DOCKER_BUILDKIT", "0");
    said(&["sh", &lines.join("; ")], &shell.output().unwrap());
}

/// An empty folder, beside a repository with the name that the page gives it.
fn empty_folder(name: &str) -> PathBuf {
    let folder = engine().at(name);
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(root(), folder.join("ojs-init")).unwrap();
    folder
}

/// Makes an image that a page names, unless an engine of somebody's has it.
fn provide(image: &str, make: impl FnOnce()) {
    if !engine().try_docker(&["image", "inspect", image]).status.success() {
        make();
    }
}

/// The base of the Python images of the pages.
fn provide_python() {
    provide("python:3.13-slim", || {
        engine().docker(&["tag", *PIP_BASE, "python:3.13-slim"]);
    });
}

/// The container that a line `docker run ...` of a page starts, at this backend, in the network of
/// this machine.
fn as_the_page_runs(line: &str, server: &Server) -> Start {
    let line = line.replace("http://backend:8080", &server.url());
    let words: Vec<&str> = line.split(' ').collect();
    let [first, second, options @ .., image] = words.as_slice() else {
        panic!("{line}");
    };
    assert_eq!([*first, *second], ["docker", "run"], "{line}");
    let start = Start::of(image)
        .option("--network=host")
        .with("OJS_HEALTH_LISTEN", "off");
    options.iter().fold(start, |start, option| start.option(option))
}

/// Builds and starts by the last two commands, and stops it when a job is done.
fn does_a_job(folder: &Path, commands: &[String]) {
    let [build @ .., run] = commands else {
        panic!("{commands:?}")
    };
    type_in(folder, build);
    let server = Server::start(Options::default()).unwrap();
    let container = as_the_page_runs(run, &server).start();
    let job = server.enqueue(r#"{"type":"email.send","args":["a@b.c"]}"#).unwrap();
    become_state(&server, JobState::Completed, 1);
    let result = server.job(&job).unwrap().result.unwrap();
    assert_eq!(result.replace(' ', ""), r#"{"sent_to":"a@b.c"}"#, "{}", container.log());
    assert_eq!(container.stop(&[]).status, 0, "{}", container.log());
}

fn worker() {
    provide_python();
    let (readme, docker) = (page("README.md"), page("docker/README.md"));
    let parent = empty_folder("readme-worker");
    type_in(&parent, &commands(&readme, "mkdir my-worker && cd my-worker"));
    let folder = parent.join("my-worker");
    std::fs::write(
        folder.join("worker.py"),
        block(&readme, "python", "from ojs_worker import"),
    )
    .unwrap();
    for page in [&readme, &docker] {
        std::fs::write(folder.join("Dockerfile"), block(page, "dockerfile", "COPY worker.py")).unwrap();
        does_a_job(&folder, &commands(page, "docker build -t my-worker ."));
    }
    is_the_tree(block(&readme, "text", "my-worker/"), &folder);
}

/// The tree that the page shows has the files of the folder, and no other.
fn is_the_tree(shown: &str, folder: &Path) {
    let names = shown.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.map(|name| name.trim_end_matches('/')).collect();
    let entries = std::fs::read_dir(folder).unwrap();
    let mut there: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    assert_eq!(names, there);
}

fn handler() {
    provide("alpine:3.22", || {
        let programs = ["shell", "/usr/bin/chmod", &under_test::init()];
        import(engine(), &programs, "ojs-alpine-base");
        // Alpine has a `sendmail`. This one takes every mail.
        let sendmail =
            r#"RUN printf '#!/bin/sh\ntr -d x >/dev/null\n' >/usr/bin/sendmail && chmod 755 /usr/bin/sendmail"#;
        made_from("ojs-alpine-base", &[sendmail], "alpine:3.22");
    });
    let page = page("docs/exec.md");
    let folder = empty_folder("handler-of-the-page");
    std::fs::write(folder.join("handler.sh"), block(&page, "sh", "#!/bin/sh")).unwrap();
    std::fs::write(folder.join("Dockerfile"), block(&page, "dockerfile", "COPY handler.sh")).unwrap();
    does_a_job(&folder, &commands(&page, "docker build -t my-handler ."));
}

fn sdk() {
    provide_python();
    let readme = page("README.md");
    let folder = empty_folder("readme-sdk");
    std::fs::copy(root().join("docker/examples/sdk/worker.py"), folder.join("worker.py")).unwrap();
    let own = "FROM python:3.13-slim\nCOPY worker.py ./\nCMD [\"python3\", \"worker.py\"]\n";
    let lines = block(&readme, "dockerfile", "OJS_MODE=gateway");
    std::fs::write(folder.join("Dockerfile"), format!("{own}{lines}")).unwrap();
    engine().docker(&["build", "--quiet", "--tag", "my-sdk-worker", text(&folder)]);
    let run = "docker run -e OJS_URL=http://backend:8080 my-sdk-worker";
    does_a_job(&folder, &[run.to_owned()]);
}

/// A process that is killed when the test is over, and all that is below it in its PID namespace.
struct Killed(i32);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = sys::send(self.0, libc::SIGKILL);
        let _ = waitpid(Pid::from_raw(self.0), None);
    }
}

/// The three lines as they are typed, one after the other. Cargo would build for minutes: a command
/// of that name finds what it runs.
fn three_lines() {
    const CARGO: &str = r#"#!/bin/sh
# cargo run [-p PACKAGE] -- WORDS
[ "$1" = run ] || exit 64
shift
program=$INIT
if [ "$1" = -p ]; then [ "$2" = ojs-devserver ] || exit 65; program=$DEVSERVER; shift 2; fi
[ "${1:-}" != -- ] || shift
exec "$program" "$@"
"#;
    let folder = engine().at("three-lines");
    std::fs::create_dir(&folder).unwrap();
    let cargo = folder.join("cargo");
    std::fs::write(&cargo, CARGO).unwrap();
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
    // This program under the name by which it is the development server.
    let devserver = folder.join("ojs-devserver");
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &devserver).unwrap();
    let readme = page("README.md");
    let lines = commands(&readme, "cargo run -p ojs-devserver &");
    assert_eq!(lines.len(), 3, "{lines:?}");
    // The port of the page is free in a network of its own, and with the shell everything that it
    // started ends.
    in_own_network(move || {
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-ec", &lines.join("\n")])
            .current_dir(root())
            .env("PATH", path);
        shell.env("INIT", under_test::init()).env("DEVSERVER", &devserver);
        shell
            .env("OJS_HEALTH_LISTEN", "off")
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let _shell = Killed(spawn_as_pid_1(shell));
        let said = || std::fs::read_to_string(folder.join("log")).unwrap();
        let jobs = || {
            let mut jobs = Command::new(&devserver);
            let output = jobs.args(["jobs", "--state", "completed"]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert!(
            looks_until(PATIENCE, || jobs().contains("completed 100")),
            "{}{}",
            jobs(),
            said()
        );
    });
}
