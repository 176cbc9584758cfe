//! scripts/release-tag.sh: only a tag that a known key has signed under its own name gives a list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{folder, path, said};

const SUMS: &str = "\
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  ojs-init-0.1.0-linux-x86_64.tar.gz\n\
    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb  ojs-init_0.1.0_amd64.deb\n";

/// A repository with one commit, a key that may sign, and one that may not.
struct Repository {
    place: PathBuf,
}

impl Repository {
    fn new(name: &str) -> Self {
        let repository = Self { place: folder(name) };
        repository.git(&["init", "--quiet"]);
        repository.git(&["commit", "--quiet", "--allow-empty", "--message", "First"]);
        for key in ["ours", "theirs"] {
            let file = repository.place.join(key);
            let mut generate = Command::new("ssh-keygen");
            generate
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
                .arg(file);
            assert!(generate.status().unwrap().success());
        }
        let public = fs::read_to_string(repository.place.join("ours.pub")).unwrap();
        let line = format!("maintainer@example.com namespaces=\"git\" {public}");
        fs::write(repository.signers(), line).unwrap();
        fs::write(repository.place.join("SHA256SUMS"), SUMS).unwrap();
        repository
    }

    fn signers(&self) -> PathBuf {
        self.place.join("allowed_signers")
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(&self.place).envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_AUTHOR_NAME", "a"),
            ("GIT_AUTHOR_EMAIL", "a@example.com"),
            ("GIT_COMMITTER_NAME", "a"),
            ("GIT_COMMITTER_EMAIL", "a@example.com"),
        ]);
        let output = git.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    }

    /// A tag that is signed as the script's comment says.
    fn sign(&self, tag: &str, key: &str, message: &Path) {
        let key = format!("user.signingkey={}", self.place.join(key).display());
        let message = message.to_string_lossy();
        self.git(&[
            "-c",
            "gpg.format=ssh",
            "-c",
            &key,
            "tag",
            "--sign",
            "--file",
            &message,
            tag,
        ]);
    }

    fn check(&self, tag: &str) -> Output {
        let mut check = Command::new("sh");
        check.arg(path("scripts/release-tag.sh")).arg(tag).arg(self.signers());
        check.current_dir(&self.place).output().unwrap()
    }

    fn refuses(&self, tag: &str, why: &str) {
        let output = self.check(tag);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{}",
            said(&output)
        );
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}

#[test]
fn a_tag_of_a_known_key_gives_the_signed_list_to_the_byte() {
    let repository = Repository::new("known");
    repository.sign("v0.1.0", "ours", &repository.place.join("SHA256SUMS"));
    let output = repository.check("v0.1.0");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), SUMS);
}

#[test]
fn the_tag_of_the_go_client_gives_its_signed_list() {
    let repository = Repository::new("folder");
    repository.sign("clients/go/v0.1.0", "ours", &repository.place.join("SHA256SUMS"));
    let output = repository.check("clients/go/v0.1.0");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), SUMS);
}

#[test]
fn a_tag_of_another_key_or_of_none_is_refused() {
    let repository = Repository::new("unknown");
    repository.sign("v0.1.0", "theirs", &repository.place.join("SHA256SUMS"));
    repository.refuses("v0.1.0", "is not one of a key in");
    repository.git(&["tag", "--annotate", "--file", "SHA256SUMS", "v0.1.1"]);
    repository.refuses("v0.1.1", "has no SSH signature");
    repository.git(&["tag", "v0.1.2"]);
    repository.refuses("v0.1.2", "is no annotated tag");
    repository.refuses("v9", "is no annotated tag");
}

#[test]
fn a_signed_tag_under_another_name_or_with_another_text_is_refused() {
    let repository = Repository::new("renamed");
    repository.sign("v0.1.0", "ours", &repository.place.join("SHA256SUMS"));
    repository.git(&["update-ref", "refs/tags/v0.2.0", "refs/tags/v0.1.0"]);
    repository.refuses("v0.2.0", "signed under another name");
    // The signed text with one digit changed.
    let object = Command::new("git")
        .current_dir(&repository.place)
        .args(["cat-file", "tag", "v0.1.0"])
        .output()
        .unwrap();
    let text = String::from_utf8(object.stdout)
        .unwrap()
        .replace("bbbb  ojs", "bbbc  ojs");
    let file = repository.place.join("object");
    fs::write(&file, text).unwrap();
    let file = file.to_string_lossy().into_owned();
    let hashed = Command::new("git")
        .current_dir(&repository.place)
        .args(["hash-object", "-t", "tag", "-w", &file])
        .output()
        .unwrap();
    let id = String::from_utf8(hashed.stdout).unwrap();
    repository.git(&["update-ref", "refs/tags/v0.1.0", id.trim()]);
    repository.refuses("v0.1.0", "is not one of a key in");
}

#[test]
fn a_message_that_is_no_list_of_sums_is_refused() {
    let repository = Repository::new("message");
    let message = repository.place.join("message");
    fs::write(&message, format!("ojs-init 0.1.0\n\n{SUMS}")).unwrap();
    repository.sign("v0.1.0", "ours", &message);
    repository.refuses("v0.1.0", "a line that is none of SHA256SUMS");
    fs::write(&message, SUMS.replace("ojs-init_", "../ojs-init_")).unwrap();
    repository.sign("v0.1.1", "ours", &message);
    repository.refuses("v0.1.1", "a line that is none of SHA256SUMS");
}

#[test]
fn without_keys_nothing_is_accepted() {
    let repository = Repository::new("keyless");
    repository.sign("v0.1.0", "ours", &repository.place.join("SHA256SUMS"));
    fs::write(repository.signers(), "").unwrap();
    repository.refuses("v0.1.0", "missing or empty");
    fs::remove_file(repository.signers()).unwrap();
    repository.refuses("v0.1.0", "missing or empty");
}
