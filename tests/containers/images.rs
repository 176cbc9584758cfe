//! The images, built by the repository's own Dockerfiles. No registry is asked: the bases are made
//! of what this machine has.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::docker_engine::{Engine, said};
use crate::support::under_test;
use crate::{engine, root};

/// Longest that a build may take, in seconds: some compile.
const BUILD_SECONDS: &str = "600";

/// The image with nothing but the binary.
pub const INIT: &str = "ojs-init";

/// The Python example.
pub const PYTHON: &str = "ojs-worker-python";

/// The worker of these tests.
pub const TEST: &str = "ojs-worker-test";

/// The base of the Python images, which has a shell and `sleep`.
pub const PYTHON_BASE: &str = "ojs-python-base";

/// The base of the Node images; made by who needs it, as those below.
pub static NODE_BASE: LazyLock<&str> = LazyLock::new(|| {
    import(engine(), &["node"], "ojs-node-base");
    "ojs-node-base"
});

/// A base that has Python with pip.
pub static PIP_BASE: LazyLock<&str> = LazyLock::new(|| {
    import(engine(), &["pip", &under_test::init()], "ojs-pip-base");
    "ojs-pip-base"
});

/// The Node example.
pub static NODE: LazyLock<&str> = LazyLock::new(|| {
    example(engine(), "node", &format!("NODE_IMAGE={}", *NODE_BASE));
    "ojs-worker-node"
});

/// A base that has the compilers for Rust.
pub static RUST_BASE: LazyLock<&str> = LazyLock::new(|| {
    import(engine(), &["rust"], "rust");
    "rust"
});

/// The development server: this test program once more, under another name.
pub static DEVSERVER: LazyLock<&str> = LazyLock::new(|| {
    let context = engine().at("devserver");
    std::fs::create_dir(&context).unwrap();
    std::fs::copy("/proc/self/exe", context.join("ojs-devserver")).unwrap();
    let lines = [
        &format!("FROM {PYTHON_BASE}"),
        "COPY ojs-devserver /ojs-devserver",
        r#"ENTRYPOINT ["/ojs-devserver"]"#,
        r#"CMD ["serve", "--listen", "0.0.0.0:8080", "--allow-remote"]"#,
    ];
    std::fs::write(context.join("Dockerfile"), lines.join("\n")).unwrap();
    engine().docker(&["build", "--quiet", "--tag", "ojs-devserver", text(&context)]);
    "ojs-devserver"
});

/// Makes those that nearly every test needs.
pub fn prepare(engine: &Engine) {
    let context = engine.at("prebuilt");
    std::fs::create_dir(&context).unwrap();
    std::fs::copy(under_test::init(), context.join("ojs-init")).unwrap();
    // The development server is this program, and in some runs neither it nor the init is static.
    let ourselves = std::env::current_exe().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| import(engine, &["python", text(&ourselves), &under_test::init()], PYTHON_BASE));
        let dockerfile = root().join("docker/Dockerfile");
        let words = ["build", "--quiet", "--file", text(&dockerfile), "--target", "prebuilt"];
        let arguments = ["--build-arg", "BINARY=ojs-init", "--build-arg", "REVISION=0123abc"];
        engine.docker(&[&words[..], &arguments, &["--tag", INIT, text(&context)]].concat());
    });
    example(engine, "python", &format!("PYTHON_IMAGE={PYTHON_BASE}"));
    let context = root().join("tests/containers");
    engine.docker(&["build", "--quiet", "--tag", TEST, text(&context)]);
    engine.docker(&["tag", TEST, "myapp/ojs-worker:latest"]);
}

/// An image of `docker/examples`.
pub fn example(engine: &Engine, name: &str, base: &str) {
    let dockerfile = format!("docker/examples/{name}/Dockerfile");
    from_repository(engine, &dockerfile, base, &format!("ojs-worker-{name}"));
}

/// An image by a Dockerfile of the repository, which is its context, with this base.
pub fn from_repository(engine: &Engine, dockerfile: &str, base: &str, tag: &str) {
    let mut docker = engine.patient_client("docker", BUILD_SECONDS);
    docker.args([
        "build",
        "--quiet",
        "--network=host",
        "--file",
        text(&root().join(dockerfile)),
    ]);
    docker.args(["--build-arg", base, "--tag", tag, text(root())]);
    said(&["docker build", tag], &docker.output().unwrap());
}

/// Makes a base image of what this machine has.
pub fn import(engine: &Engine, words: &[&str], tag: &str) {
    let mut made = engine.client("sh");
    made.arg(root().join("tests/containers/rootfs.sh")).args(words);
    let mut made = made.stdout(Stdio::piped()).spawn().unwrap();
    let mut client = engine.client("docker");
    client.args(["import", "-", tag]).stdin(made.stdout.take().unwrap());
    said(&["docker", "import", tag], &client.output().unwrap());
    assert!(made.wait().unwrap().success(), "rootfs.sh {words:?}");
}

/// Makes an image of another one and these lines of a Dockerfile.
pub fn made_from(image: &str, lines: &[&str], tag: &str) {
    let context = context(image, lines);
    engine().docker(&["build", "--quiet", "--tag", tag, text(&context)]);
}

/// A build context with nothing but a Dockerfile of these lines.
pub fn context(image: &str, lines: &[&str]) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let context = engine().at(&format!("context-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir(&context).unwrap();
    let text = format!("FROM {image}\n{}\n", lines.join("\n"));
    std::fs::write(context.join("Dockerfile"), text).unwrap();
    context
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A directory of the tests' own that containers can have as a volume: everybody may write to it.
pub fn shared(name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = engine().at(name);
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    path
}
