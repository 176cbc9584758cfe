//! The files in each package: those that git has of the client, without those that only its authors
//! need.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::temp::TempDir;
use crate::{VERSION, output, package, packages, path, place};

/// How to unpack a file `$1` into the folder that the command runs in.
const TAR: &str = "tar -xzf \"$1\"";
const ZIP: &str = "python3 -m zipfile -e \"$1\" .";

/// A package, and the files that it should have.
struct Package {
    file: &'static str,
    unpack: &'static str,
    /// The folder in it that the files of the client are in.
    folder: &'static str,
    /// Where the client's files are in the repository.
    client: &'static str,
    /// Files and folders of the client that stay out.
    left_out: &'static [&'static str],
    /// Files that the tool adds.
    added: &'static [&'static str],
}

const WHEEL: Package = Package {
    file: "ojs_worker-VERSION-py3-none-any.whl",
    unpack: "python3 -m zipfile -e \"$1\" . && mv *.dist-info dist-info && mv dist-info/licenses/LICENSE .",
    folder: ".",
    client: "clients/python",
    left_out: &[
        "MANIFEST.in",
        "README.md",
        "bench",
        "client.json",
        "examples",
        "pyproject.toml",
        "tests",
    ],
    added: &[
        "dist-info/METADATA",
        "dist-info/RECORD",
        "dist-info/WHEEL",
        "dist-info/top_level.txt",
    ],
};

const SDIST: Package = Package {
    file: "ojs_worker-VERSION.tar.gz",
    unpack: "tar -xzf \"$1\" && rm -r */*.egg-info",
    folder: "ojs_worker-VERSION",
    client: "clients/python",
    left_out: &["bench", "client.json", "examples", "tests"],
    added: &["PKG-INFO", "setup.cfg"],
};

const NPM: Package = Package {
    file: "ojs-worker-VERSION.tgz",
    unpack: TAR,
    folder: "package",
    client: "clients/node",
    left_out: &["bench", "client.json", "examples", "test"],
    added: &[],
};

const GEM: Package = Package {
    file: "ojs-worker-VERSION.gem",
    unpack: "tar -xf \"$1\" && mkdir data && tar -C data -xzf data.tar.gz",
    folder: "data",
    client: "clients/ruby",
    left_out: &[
        ".rubocop.yml",
        "Rakefile",
        "bench",
        "client.json",
        "examples",
        "ojs-worker.gemspec",
        "test",
    ],
    added: &[],
};

/// Go's proxies make a module from a tag, with all that git has in its folder. A folder with a
/// `go.mod` is another module.
const GO: Package = Package {
    file: "ojsworker-go-VERSION.tar.gz",
    unpack: "tar -xzf \"$1\" && python3 -m zipfile -e goproxy/*/*/@v/*.zip .",
    folder: "ojs-init.example/ojsworker@vVERSION",
    client: "clients/go",
    left_out: &["examples/email"],
    added: &[],
};

const CRATE: Package = Package {
    file: "ojs-worker-VERSION.crate",
    unpack: TAR,
    folder: "ojs-worker-VERSION",
    client: "clients/rust",
    left_out: &[
        "bench",
        "client.json",
        "clippy.toml",
        "examples/Dockerfile",
        "fixture",
        "rustfmt.toml",
        "tests",
    ],
    added: &[".cargo_vcs_info.json", "Cargo.toml.orig"],
};

const COMPOSER: Package = Package {
    file: "ojs-worker-php-VERSION.zip",
    unpack: ZIP,
    folder: ".",
    client: "clients/php",
    left_out: &["bench", "client.json", "examples", "phpunit.xml.dist", "tests"],
    added: &[],
};

const SOURCES: Package = Package {
    file: "ojs-worker-VERSION-sources.jar",
    unpack: "python3 -m zipfile -e \"$1\" . && mv META-INF/LICENSE . && mkdir -p src/main/java && mv dev src/main/java",
    folder: ".",
    client: "clients/java",
    left_out: &[
        "README.md",
        "build.sh",
        "client.json",
        "examples",
        "pom.xml",
        "src/test",
    ],
    added: &["META-INF/MANIFEST.MF"],
};

impl Package {
    /// The file, unpacked.
    fn tree(&self) -> TempDir {
        let tree = place();
        let unpack = ["sh", "-euc", self.unpack, "sh", &package(self.file)];
        output(tree.path(), &[], &unpack);
        tree
    }

    /// The files that git has of the client, without `left_out`, with `added`.
    fn expected(&self) -> BTreeSet<String> {
        let tracked = output(&path(self.client), &[], &["git", "ls-files"]);
        let stays_out = |file: &str| {
            let below = |name: &&str| {
                file.strip_prefix(*name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            self.left_out.iter().any(below)
        };
        let kept = tracked.lines().filter(|file| !stays_out(file));
        kept.chain(self.added.iter().copied()).map(str::to_owned).collect()
    }

    fn has_what_users_need(&self) {
        let tree = self.tree();
        let folder = tree.path().join(self.folder.replace("VERSION", VERSION));
        assert_eq!(files(&folder), self.expected(), "{}", self.file);
        let licence = fs::read(folder.join("LICENSE")).unwrap();
        assert_eq!(licence, fs::read(path("LICENSE")).unwrap(), "{}", self.file);
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let found = output(folder, &[], &["find", ".", "-type", "f", "-printf", "%P\\n"]);
    found.lines().map(str::to_owned).collect()
}

#[test]
fn the_wheel_has_the_modules_and_the_licence_alone() {
    WHEEL.has_what_users_need();
}

#[test]
fn the_sdist_has_what_builds_the_wheel_and_no_tests() {
    SDIST.has_what_users_need();
}

#[test]
fn the_npm_package_has_code_types_readme_and_licence_alone() {
    NPM.has_what_users_need();
}

#[test]
fn the_gem_has_code_signatures_readme_and_licence_alone() {
    GEM.has_what_users_need();
}

#[test]
fn the_go_module_has_what_a_proxy_would_make_of_the_tag() {
    GO.has_what_users_need();
}

#[test]
fn the_crate_has_code_an_example_readme_and_licence_alone() {
    CRATE.has_what_users_need();
}

#[test]
fn the_composer_package_has_code_readme_and_licence_alone() {
    COMPOSER.has_what_users_need();
}

#[test]
fn the_jar_with_sources_has_sources_and_licence_alone() {
    SOURCES.has_what_users_need();
}

#[test]
fn the_jar_has_the_classes_of_the_sources_and_the_licence_alone() {
    let jar = place();
    output(
        jar.path(),
        &[],
        &["sh", "-euc", ZIP, "sh", &package("ojs-worker-VERSION.jar")],
    );
    let sources = files(&path("clients/java/src/main/java")).into_iter();
    let sources: BTreeSet<String> = sources.filter(|file| !file.ends_with("/package-info.java")).collect();
    let mut found = files(jar.path());
    for file in ["META-INF/LICENSE", "META-INF/MANIFEST.MF"] {
        assert!(found.remove(file), "{file}");
    }
    // `Job$Action.class` is from `Job.java`.
    let source = |class: &String| format!("{}.java", class.trim_end_matches(".class").split('$').next().unwrap());
    assert_eq!(found.iter().map(source).collect::<BTreeSet<_>>(), sources);
    let manifest = fs::read_to_string(jar.path().join("META-INF/MANIFEST.MF")).unwrap();
    assert!(
        manifest.contains(&format!("Implementation-Version: {VERSION}\r\n")),
        "{manifest}"
    );
}

#[test]
fn the_jar_with_javadoc_has_a_page_for_the_worker() {
    let jar = place();
    output(
        jar.path(),
        &[],
        &["sh", "-euc", ZIP, "sh", &package("ojs-worker-VERSION-javadoc.jar")],
    );
    for file in ["index.html", "dev/ojs/worker/Worker.html", "META-INF/LICENSE"] {
        assert!(jar.path().join(file).exists(), "{file}");
    }
}

#[test]
fn the_pom_has_what_maven_central_asks_for_but_for_the_addresses() {
    let program = "import sys, xml.etree.ElementTree as xml; pom = xml.parse(sys.argv[1]).getroot()
for name in 'groupId artifactId version name description licenses/*/name developers/*/name'.split():
    print(pom.findtext('/'.join('{*}' + part for part in name.split('/'))))";
    let pom = package("ojs-worker-VERSION.pom");
    let said = output(&packages(), &[], &["python3", "-c", program, &pom]);
    let description = "A worker for the Open Job Spec that runs under ojs-init.";
    let expected = [
        "dev.ojs",
        "ojs-worker",
        VERSION,
        "ojs-worker",
        description,
        "Apache-2.0",
        "The ojs-init authors",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}
