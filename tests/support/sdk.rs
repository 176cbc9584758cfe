//! Workers as the SDKs make them: which there are, and how each is started. The Rust one is the
//! test program itself once more.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::support::namespace::spawn;
use crate::support::sys::{self, Ended};

/// Where cargo lets tests keep what they make.
const BUILT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/sdk-workers");

/// The word that makes this program the Rust worker.
pub const WORKER: &str = "sdk-worker";

/// On which SDK a worker is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Go,
    JavaScript,
    Python,
    Ruby,
    Rust,
    Java,
    Php,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Go,
        Self::JavaScript,
        Self::Python,
        Self::Ruby,
        Self::Rust,
        Self::Java,
        Self::Php,
    ];

    /// The word in the names of the tests and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::JavaScript => "js",
            Self::Python => "python",
            Self::Ruby => "ruby",
            Self::Rust => "rust",
            Self::Java => "java",
            Self::Php => "php",
        }
    }

    /// The command line of the worker; what has to be built is built the first time.
    pub fn command(self) -> Vec<String> {
        let source = |name: &str| source(name).display().to_string();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match self {
            Self::Go => vec![go().join("worker").display().to_string()],
            Self::JavaScript => words(&["node", &source("worker.js")]),
            Self::Python => words(&["python3", "-S", "-E", &source("worker.py")]),
            Self::Ruby => words(&["ruby", "--disable=gems", &source("worker.rb")]),
            Self::Rust => {
                let own = std::env::current_exe().unwrap();
                words(&[&own.display().to_string(), WORKER])
            }
            // The virtual machine is told to spare what only programs that run for long need.
            Self::Java => words(&[
                "java",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Xshare:auto",
                "-cp",
                &java().display().to_string(),
                "Worker",
            ]),
            Self::Php => words(&["php", &source("worker.php")]),
        }
    }
}

/// How ojs-init knows the processes that connect to its gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    Process,
    UidAndBearer,
    Uid,
    Any,
}

/// The user of the worker if ojs-init may not look into its processes.
const ANOTHER_USER: &str = "65534:65534";

impl Proof {
    pub const ALL: [Self; 4] = [Self::Process, Self::UidAndBearer, Self::Uid, Self::Any];

    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::UidAndBearer => "uid-and-bearer",
            Self::Uid => "uid",
            Self::Any => "any",
        }
    }

    /// The proof of that name.
    pub fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|proof| proof.name() == name);
        found.unwrap_or_else(|| panic!("a proof is one of {:?}, not {name}", Self::ALL.map(Self::name)))
    }

    /// The words in front of the command of ojs-init. Without CAP_SYS_PTRACE it may not look into
    /// the processes of another user.
    pub fn prefix(self) -> &'static [&'static str] {
        match self {
            Self::UidAndBearer => &["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"],
            Self::Process | Self::Uid | Self::Any => &[],
        }
    }

    /// Sets what makes ojs-init use this proof.
    pub fn tell(self, command: &mut Command) {
        match self {
            Self::Process => {}
            Self::UidAndBearer => drop(command.env("OJS_USER", ANOTHER_USER)),
            Self::Uid | Self::Any => drop(command.env("OJS_GATEWAY_ALLOW", self.name())),
        }
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/support/sdk_workers")
        .join(name)
}

fn go() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        built("worker.go", |source, place| {
            let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/go/go.sh"));
            command.args(["build", "-o"]).arg(place.join("worker")).arg(source);
            command.env("GO111MODULE", "off");
            command
        })
    })
}

fn java() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        built("Worker.java", |source, place| {
            let mut command = Command::new("javac");
            command.arg("-d").arg(place).arg(source);
            command
        })
    })
}

/// Where that source is built, for as long as it stays the same; if it is not, `compiler` builds it
/// there.
fn built(name: &str, compiler: impl Fn(&Path, &Path) -> Command) -> PathBuf {
    let source = source(name);
    let mut hasher = DefaultHasher::new();
    fs::read(&source).unwrap().hash(&mut hasher);
    let place = Path::new(BUILT).join(format!("{name}-{:016x}", hasher.finish()));
    if !place.exists() {
        // Whole or not at all: another run may look for it.
        let draft = place.with_extension(std::process::id().to_string());
        fs::create_dir_all(&draft).unwrap();
        let mut command = compiler(&source, &draft);
        command.stdin(Stdio::null());
        assert!(
            is_there(command.get_program().to_str().unwrap()),
            "{command:?}: scripts/setup.sh test installs it"
        );
        let ended = sys::reap(spawn(command), true).unwrap();
        assert_eq!(ended, Some(Ended::Code(0)), "{name} is not built");
        if fs::rename(&draft, &place).is_err() {
            let _ = fs::remove_dir_all(&draft);
        }
    }
    place
}

/// Whether a program of that name is in the path.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
