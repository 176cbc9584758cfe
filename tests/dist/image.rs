//! The container image: an OCI image layout with both tags, for every architecture of the release.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::artefacts::{self, VERSION, arches, artefacts, dist, place};
use crate::engine::Engine;
use crate::support::temp::TempDir;
use crate::{output, text};

const DOCKERFILE: &str = include_str!("../../docker/Dockerfile");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/image.py");

fn tags() -> [String; 2] {
    [VERSION.to_owned(), format!("{VERSION}-healthcheck")]
}

/// The name of an architecture in an image.
fn platform(arch: &str) -> &'static str {
    if arch == "x86_64" { "amd64" } else { "arm64" }
}

/// A layout, unpacked.
struct Layout {
    file: PathBuf,
    tree: TempDir,
}

/// An image with its manifest and configuration, and the statements that are attached to it.
struct Image {
    descriptor: Value,
    manifest: Value,
    config: Value,
    attached: Value,
}

impl Layout {
    fn new(folder: &Path) -> Self {
        let file = folder.join(format!("ojs-init-{VERSION}-oci.tar"));
        let tree = place();
        output(
            "tar",
            &["--extract", "--file", text(&file), "--directory", text(tree.path())],
        );
        Self { file, tree }
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.tree.path().join(name)).unwrap()).unwrap()
    }

    fn path(&self, descriptor: &Value) -> PathBuf {
        let digest = descriptor["digest"].as_str().unwrap();
        self.tree.path().join("blobs").join(digest.replace(':', "/"))
    }

    fn blob(&self, descriptor: &Value) -> Value {
        self.json(text(&self.path(descriptor)))
    }

    /// The descriptor of a tag's index.
    fn index(&self, tag: &str) -> Value {
        let all = self.json("index.json")["manifests"].take();
        let is_it = |it: &&Value| it["annotations"]["org.opencontainers.image.ref.name"] == tag;
        all.as_array().unwrap().iter().find(is_it).unwrap().clone()
    }

    /// The images of a tag.
    fn images(&self, tag: &str) -> Vec<Image> {
        let index = self.blob(&self.index(tag));
        let all = index["manifests"].as_array().unwrap();
        let is_attached = |it: &Value| it["annotations"]["vnd.docker.reference.type"] == "attestation-manifest";
        let image = |descriptor: &Value| {
            let is_to_it = |it: &&Value| it["annotations"]["vnd.docker.reference.digest"] == descriptor["digest"];
            let attached = all.iter().filter(|it| is_attached(it)).find(is_to_it);
            let manifest = self.blob(descriptor);
            Image {
                descriptor: descriptor.clone(),
                config: self.blob(&manifest["config"]),
                manifest,
                attached: self.blob(attached.expect("nothing is attached to an image")),
            }
        };
        all.iter().filter(|it| !is_attached(it)).map(image).collect()
    }

    /// The digests of a descriptor and of all that it leads to. Sizes and types must be right.
    fn reached(&self, descriptor: &Value) -> BTreeSet<String> {
        let path = self.path(descriptor);
        assert_eq!(descriptor["size"], fs::metadata(&path).unwrap().len(), "{descriptor}");
        let mut digests = BTreeSet::from([descriptor["digest"].as_str().unwrap().replace("sha256:", "")]);
        let kind = descriptor["mediaType"].as_str().unwrap();
        if kind.contains("index") || kind.contains("manifest") {
            let content = self.blob(descriptor);
            assert_eq!(content["mediaType"], kind);
            let lists = ["manifests", "layers"].into_iter();
            let listed = lists.filter_map(|list| content[list].as_array()).flatten();
            let single = ["config", "subject"].into_iter().filter_map(|name| content.get(name));
            digests.extend(listed.chain(single).flat_map(|next| self.reached(next)));
        }
        digests
    }

    /// Holds the file to its format, with skopeo as another reader.
    fn check(&self, platforms: &[&str]) {
        let blobs = self.tree.path().join("blobs/sha256");
        let sums = output("sh", &["-euc", "cd \"$1\" && sha256sum -- *", "sh", text(&blobs)]);
        let lines = sums.lines().map(|line| line.split_once("  ").unwrap());
        let found: BTreeSet<String> = lines
            .inspect(|(sum, name)| assert_eq!(sum, name))
            .map(|(_, name)| name.to_owned())
            .collect();
        let roots = tags().map(|tag| self.index(&tag));
        let reached: BTreeSet<String> = roots.iter().flat_map(|root| self.reached(root)).collect();
        assert_eq!(found, reached, "blobs, and what the tags lead to");
        for tag in tags() {
            let images = self.images(&tag).into_iter();
            let names: Vec<Value> = images
                .map(|image| image.descriptor["platform"]["architecture"].clone())
                .collect();
            assert_eq!(names, platforms);
            let source = format!("oci-archive:{}:{tag}", text(&self.file));
            for platform in platforms {
                let said = output("skopeo", &["inspect", "--override-arch", platform, &source]);
                let said: Value = serde_json::from_str(&said).unwrap();
                assert_eq!(
                    (&said["Architecture"], &said["Os"]),
                    (&json!(platform), &json!("linux"))
                );
            }
            let copy = place();
            let target = format!("dir:{}", text(copy.path()));
            let options = ["copy", "--quiet", "--all", "--preserve-digests"];
            output("skopeo", &[&options[..], &[&source, &target]].concat());
            let copied = fs::read(copy.path().join("manifest.json")).unwrap();
            assert!(copied == fs::read(self.path(&self.index(&tag))).unwrap(), "{tag}");
        }
    }
}

#[test]
fn each_tag_has_an_image_for_each_architecture_and_every_digest_is_right() {
    let platforms: Vec<&str> = arches().into_iter().map(platform).collect();
    Layout::new(&dist()).check(&platforms);
}

/// The trees of `make dist`, and its files, in folders of their own.
fn copies() -> (TempDir, TempDir) {
    let (work, files) = (place(), place());
    let trees = dist().with_file_name("dist-work");
    for (from, to) in [(trees, &work), (dist(), &files)] {
        output("cp", &["--recursive", text(&from.join(".")), text(to.path())]);
    }
    (work, files)
}

#[test]
fn a_second_build_of_the_image_gives_the_same_bytes() {
    let (work, files) = copies();
    let image = format!("ojs-init-{VERSION}-oci.tar");
    fs::remove_file(files.path().join(&image)).unwrap();
    let build = "umask 077 && TZ=Asia/Tokyo python3 \"$@\"";
    output(
        "sh",
        &["-euc", build, "sh", SCRIPT, text(work.path()), text(files.path())],
    );
    assert!(fs::read(files.path().join(&image)).unwrap() == fs::read(dist().join(&image)).unwrap());
}

/// Where `make dist` was run for one architecture, the other one is made up.
#[test]
fn two_architectures_come_into_one_index() {
    let (work, files) = copies();
    let [known, made_up] = ["x86_64", "aarch64"].map(|arch| format!("ojs-init-{VERSION}-linux-{arch}"));
    let folder = work.path().join(&made_up);
    if !folder.exists() {
        fs::create_dir(&folder).unwrap();
        for licence in ["LICENSE", "NOTICES"] {
            fs::copy(work.path().join(&known).join(licence), folder.join(licence)).unwrap();
        }
        fs::write(folder.join("ojs-init"), "for another processor").unwrap();
        let sbom = |name: &str| files.path().join(format!("{name}.cdx.json"));
        fs::copy(sbom(&known), sbom(&made_up)).unwrap();
    }
    output("python3", &[SCRIPT, text(work.path()), text(files.path())]);
    let layout = Layout::new(files.path());
    layout.check(&["amd64", "arm64"]);
    let [first, second] = layout.images(VERSION).try_into().ok().unwrap();
    assert_ne!(first.manifest["layers"], second.manifest["layers"]);
}

#[test]
fn the_layer_has_binary_and_licences_of_the_archive_and_nothing_else() {
    let layout = Layout::new(&dist());
    for tag in tags() {
        for (arch, image) in arches().into_iter().zip(layout.images(&tag)) {
            let layers = image.manifest["layers"].as_array().unwrap();
            assert_eq!(layers.len(), 1);
            let root = place();
            let layer = layout.path(&layers[0]);
            let format = ["--extract", "--gzip", "--preserve-permissions", "--same-owner"];
            let files = ["--file", text(&layer), "--directory", text(root.path())];
            output("tar", &[&format[..], &files].concat());
            let found = output(
                "find",
                &[text(root.path()), "-mindepth", "1", "-printf", "%P %m %U:%G %Ts\n"],
            );
            let entries = [
                "licenses 755",
                "licenses/LICENSE 644",
                "licenses/NOTICES 644",
                "ojs-init 755",
            ];
            let entries = entries.map(|entry| format!("{entry} 0:0 {}", artefacts::epoch()));
            assert_eq!(
                found.lines().collect::<BTreeSet<_>>(),
                entries.iter().map(String::as_str).collect()
            );
            let archive = &artefacts(arch)[0];
            for (file, original) in [
                ("ojs-init", "ojs-init"),
                ("licenses/LICENSE", "LICENSE"),
                ("licenses/NOTICES", "NOTICES"),
            ] {
                let original = fs::read(archive.binary_path().with_file_name(original)).unwrap();
                assert!(
                    fs::read(root.path().join(file)).unwrap() == original,
                    "{tag} {arch}: {file}"
                );
            }
            let sum = output("sh", &["-c", "gzip -dc \"$1\" | sha256sum", "sh", text(&layer)]);
            let diff = image.config["rootfs"]["diff_ids"][0].as_str().unwrap();
            assert_eq!(format!("sha256:{}", sum.split_whitespace().next().unwrap()), diff);
        }
    }
}

#[test]
fn the_image_says_what_docker_dockerfile_says_and_one_tag_has_a_health_check() {
    let layout = Layout::new(&dist());
    let created = output(
        "date",
        &["--utc", "--date", &format!("@{}", artefacts::epoch()), "+%FT%TZ"],
    );
    for tag in tags() {
        for image in layout.images(&tag) {
            let config = &image.config["config"];
            let label = |name: &str| {
                let value = &config["Labels"][format!("org.opencontainers.image.{name}")];
                value.as_str().unwrap_or_else(|| panic!("no label {name}")).to_owned()
            };
            let labelled = |name: &str| format!("image.{name}=\"{}\"", label(name));
            let entry = serde_json::to_string(&config["Entrypoint"]).unwrap();
            let command = serde_json::to_string(&config["Cmd"]).unwrap();
            let expected = [
                labelled("title"),
                labelled("description"),
                labelled("licenses"),
                format!("\nARG SOURCE={}\n", label("source")),
                format!("\nARG VERSION={}\n", label("version")),
                format!("\nUSER {}\n", config["User"].as_str().unwrap()),
                format!("\nENTRYPOINT {entry}\n"),
                format!("\nCMD {command}\n"),
            ];
            for line in expected {
                assert!(DOCKERFILE.contains(&line), "{line:?} is not in docker/Dockerfile");
            }
            assert_eq!(label("revision"), artefacts::information("revision"));
            assert_eq!(label("created"), created.trim());
            let labels = config["Labels"].as_object().unwrap();
            assert_eq!(labels.len(), DOCKERFILE.matches("org.opencontainers.image.").count());
            let is_checked = config.get("Healthcheck").is_some();
            assert_eq!(is_checked, tag.ends_with("-healthcheck"));
            // Podman takes a health check from Docker's format alone.
            let kind = image.descriptor["mediaType"].as_str().unwrap();
            assert_eq!(
                is_checked,
                kind == "application/vnd.docker.distribution.manifest.v2+json"
            );
        }
    }
}

#[test]
fn sbom_and_provenance_are_attached_to_the_image_that_they_are_about() {
    let layout = Layout::new(&dist());
    for tag in tags() {
        for (arch, image) in arches().into_iter().zip(layout.images(&tag)) {
            assert_eq!(image.attached["subject"]["digest"], image.descriptor["digest"]);
            let layers = image.attached["layers"].as_array().unwrap();
            let statements: Vec<Value> = layers.iter().map(|layer| layout.blob(layer)).collect();
            let digest = image.descriptor["digest"].as_str().unwrap().replace("sha256:", "");
            for (layer, statement) in layers.iter().zip(&statements) {
                assert_eq!(
                    layer["annotations"]["in-toto.io/predicate-type"],
                    statement["predicateType"]
                );
                assert_eq!(statement["subject"][0]["digest"]["sha256"], digest);
            }
            let of = |kind: &str| {
                let found = statements.iter().find(|it| it["predicateType"] == kind);
                &found.unwrap_or_else(|| panic!("{tag} {arch}: no {kind}"))["predicate"]
            };
            let sbom = fs::read(dist().join(format!("ojs-init-{VERSION}-linux-{arch}.cdx.json"))).unwrap();
            assert_eq!(
                *of("https://cyclonedx.org/bom"),
                serde_json::from_slice::<Value>(&sbom).unwrap()
            );
            let provenance = of("https://slsa.dev/provenance/v1");
            let revision = artefacts::information("revision");
            let build = &provenance["buildDefinition"];
            assert_eq!(build["externalParameters"]["revision"], revision);
            let source = &build["resolvedDependencies"][0]["digest"]["gitCommit"];
            assert!(revision.starts_with(source.as_str().unwrap()), "{source}");
            let tools = &provenance["runDetails"]["builder"]["version"];
            assert_eq!(tools["rustc"], artefacts::information("rustc"));
        }
    }
}

/// An engine that is stopped even if the test fails.
struct Stopped(Engine);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn docker_loads_the_file_and_runs_both_images() {
    let engine = Stopped(Engine::start().unwrap());
    let docker = |words: &[&str]| engine.0.docker(words);
    let file = Layout::new(&dist()).file;
    docker(&["load", "--input", text(&file)]);
    for tag in tags() {
        let image = format!("ojs-init:{tag}-amd64");
        let run = ["run", "--rm", "--network=none", "--read-only", &image];
        let version = format!("ojs-init {VERSION}");
        assert_eq!(docker(&[&run[..], &["--version"]].concat()), version);
        // As PID 1, in front of the one program that the image has.
        assert_eq!(
            docker(&[&run[..], &["--no-agent", "--", "/ojs-init", "--version"]].concat()),
            version
        );
        let check = docker(&["image", "inspect", "--format", "{{json .Config.Healthcheck}}", &image]);
        let check: Value = serde_json::from_str(&check).unwrap();
        if tag == VERSION {
            assert_eq!(check, Value::Null);
        } else {
            assert_eq!(check["Test"], json!(["CMD", "/ojs-init", "health", "live"]));
        }
    }
}
