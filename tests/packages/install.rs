//! Each package, installed from its file into an empty folder. The first program of the client's
//! README runs there, under ojs-init, and does a job.

use std::fs;
use std::path::Path;

use ojs_devserver::{JobState, Options, Server};

use crate::temp::TempDir;
use crate::{VERSION, command, output, package, packages, path, place, under_test};

/// Most time that a worker may take, in seconds, on a busy machine.
const PATIENCE: &str = "120";

/// The arguments of `email.send`, as most READMEs have them.
const MAIL: &str = r#"["a@b.c", "hello"]"#;

/// The first program in the README of a client.
fn program(client: &str, language: &str) -> String {
    let readme = fs::read_to_string(path("clients").join(client).join("README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("\n```\n").unwrap().0.to_owned()
}

fn write(place: &TempDir, name: &str, text: &str) {
    let file = place.path().join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Runs a worker under ojs-init until the queue is empty: its one job is done by then.
fn does_a_job(place: &TempDir, environment: &[(&str, &str)], args: &str, worker: &[&str]) {
    let server = Server::start(Options::default()).unwrap();
    let id = server
        .enqueue(&format!(r#"{{"type": "email.send", "args": {args}}}"#))
        .unwrap();
    let init = under_test::init();
    let words = [&["timeout", "--kill-after=5", PATIENCE, &init, "--"], worker].concat();
    let runtime = place.path().join("run");
    let mut init = command(place.path(), environment, &words);
    init.env("OJS_URL", server.url()).env("OJS_RUNTIME_DIR", runtime);
    init.envs([("OJS_EXIT_WHEN_IDLE", "100ms"), ("OJS_HEALTH_LISTEN", "off")]);
    let ended = init.output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr);
    let job = server.job(&id).unwrap();
    assert!(
        job.state == JobState::Completed && ended.status.success(),
        "{job:?} {}\n{log}",
        ended.status
    );
}

/// Installs a Python package into a new environment, without an index.
fn python(file: &str, environment: &[(&str, &str)], options: &[&str]) {
    let place = place();
    let run = |environment: &[(&str, &str)], words: &[&str]| output(place.path(), environment, words);
    run(&[], &["python3", "-m", "venv", "venv"]);
    let install = [
        "venv/bin/pip",
        "install",
        "--quiet",
        "--no-index",
        "--disable-pip-version-check",
    ];
    run(environment, &[&install[..], options, &[&package(file)]].concat());
    let mailer = "class mailer:\n    send = staticmethod(lambda to, body: '17')\n\n";
    write(&place, "worker.py", &(mailer.to_owned() + &program("python", "python")));
    does_a_job(&place, &[], MAIL, &["venv/bin/python", "worker.py"]);
}

#[test]
fn the_wheel_is_installed_and_its_worker_does_a_job() {
    python("ojs_worker-VERSION-py3-none-any.whl", &[], &[]);
}

#[test]
fn the_sdist_is_installed_and_its_worker_does_a_job() {
    // The tools of `make packages` stand in for the network.
    let tools = packages().with_file_name("tools").join("python");
    let tools = tools.to_str().unwrap();
    python(
        "ojs_worker-VERSION.tar.gz",
        &[("PYTHONPATH", tools)],
        &["--no-build-isolation"],
    );
}

#[test]
fn the_npm_package_is_installed_and_its_worker_does_a_job() {
    let place = place();
    let file = package("ojs-worker-VERSION.tgz");
    output(
        place.path(),
        &[],
        &["npm", "install", "--offline", "--no-audit", "--no-fund", &file],
    );
    let mailer = "globalThis.fetch = async () => new Response(\"17\");\n";
    write(&place, "worker.mjs", &(mailer.to_owned() + &program("node", "js")));
    does_a_job(&place, &[], MAIL, &["node", "worker.mjs"]);
}

#[test]
fn the_gem_is_installed_and_its_worker_does_a_job() {
    let place = place();
    let home = place.path().join("gems");
    let environment = ["GEM_HOME", "GEM_PATH"].map(|name| (name, home.to_str().unwrap()));
    let install = [
        "gem",
        "install",
        "--local",
        "--no-document",
        &package("ojs-worker-VERSION.gem"),
    ];
    output(place.path(), &environment, &install);
    write(&place, "worker.rb", &program("ruby", "ruby"));
    does_a_job(&place, &environment, r#"["a@b.c", 2]"#, &["ruby", "worker.rb"]);
}

#[test]
fn the_go_module_is_fetched_from_a_folder_and_its_worker_does_a_job() {
    let place = place();
    let go_sh = path("clients/go/go.sh");
    let root = output(place.path(), &[], &[go_sh.to_str().unwrap(), "env", "GOROOT"]);
    let go = format!("{}/bin/go", root.trim());
    output(
        place.path(),
        &[],
        &["tar", "-xzf", &package("ojsworker-go-VERSION.tar.gz")],
    );
    let proxy = format!("file://{}/goproxy", place.path().display());
    let cache = place.path().join("cache");
    let environment = [
        ("GOPROXY", proxy.as_str()),
        ("GOMODCACHE", cache.to_str().unwrap()),
        ("GOFLAGS", "-modcacherw -buildvcs=false"),
        // The database of checksums is asked for what a proxy has from a tag.
        ("GOSUMDB", "off"),
        ("GOTOOLCHAIN", "local"),
    ];
    write(&place, "main.go", &program("go", "go"));
    let run = |words: &[&str]| output(place.path(), &environment, &[&[go.as_str()], words].concat());
    run(&["mod", "init", "example.com/worker"]);
    run(&["get", &format!("ojs-init.example/ojsworker@v{VERSION}")]);
    run(&["build", "-o", "worker", "."]);
    does_a_job(&place, &[], MAIL, &["./worker"]);
}

#[test]
fn the_crate_is_a_dependency_of_a_new_program_and_its_worker_does_a_job() {
    let place = place();
    output(
        place.path(),
        &[],
        &["tar", "-xzf", &package("ojs-worker-VERSION.crate")],
    );
    let dependency = format!("ojs-worker-{VERSION}");
    let mailer = "\nmod mailer {\n    pub fn send(_: &str, _: &str) -> std::io::Result<&'static str> {\n        Ok(\"17\")\n    }\n}\n";
    let run = |words: &[&str]| output(place.path(), &[], &[&["cargo"], words].concat());
    run(&["init", "--quiet", "--vcs", "none", "--name", "worker"]);
    run(&["add", "--quiet", "ojs-worker", "--path", &dependency]);
    write(&place, "src/main.rs", &(program("rust", "rust") + mailer));
    run(&["build", "--quiet"]);
    does_a_job(&place, &[], MAIL, &["target/debug/worker"]);
}

#[test]
fn composer_installs_the_package_from_a_folder_and_its_worker_does_a_job() {
    let place = place();
    let archives = place.path().join("archives");
    fs::create_dir(&archives).unwrap();
    fs::copy(package("ojs-worker-php-VERSION.zip"), archives.join("ojs-worker.zip")).unwrap();
    let project = format!(
        r#"{{"repositories": [{{"type": "artifact", "url": "archives"}}, {{"packagist.org": false}}],
            "require": {{"ojs/worker": "{VERSION}"}}}}"#
    );
    write(&place, "composer.json", &project);
    let home = place.path().join("composer");
    let environment = [
        ("COMPOSER_ALLOW_SUPERUSER", "1"),
        ("COMPOSER_HOME", home.to_str().unwrap()),
    ];
    output(
        place.path(),
        &environment,
        &["composer", "install", "--quiet", "--no-interaction"],
    );
    let start = "<?php require 'vendor/autoload.php';\n";
    write(&place, "worker.php", &(start.to_owned() + &program("php", "php")));
    does_a_job(
        &place,
        &[],
        MAIL,
        &["php", "-d", "sendmail_path=/bin/true", "worker.php"],
    );
}

#[test]
fn the_jar_on_the_class_path_is_all_that_its_worker_needs_beside_jackson_and_slf4j() {
    let place = place();
    let library = place.path().join("lib");
    fs::create_dir(&library).unwrap();
    fs::copy(package("ojs-worker-VERSION.jar"), library.join("ojs-worker.jar")).unwrap();
    let jars = std::env::var("JAVA_JARS").unwrap_or_else(|_| "/usr/share/java".to_owned());
    for name in [
        "jackson-core",
        "jackson-annotations",
        "jackson-databind",
        "slf4j-api",
        "slf4j-jdk14",
    ] {
        let file = Path::new(&jars).join(name).with_extension("jar");
        fs::copy(&file, library.join(format!("{name}.jar"))).unwrap();
    }
    let helpers =
        "    static String send(Mail mail) { return \"17\"; }\n    static int render(String what) { return 1; }\n}\n";
    let readme = program("java", "java");
    let open = readme.strip_suffix('}').unwrap();
    write(&place, "Mailer.java", &(open.to_owned() + helpers));
    output(place.path(), &[], &["javac", "-cp", "lib/*", "-d", ".", "Mailer.java"]);
    does_a_job(&place, &[], MAIL, &["java", "-cp", ".:lib/*", "Mailer"]);
}
