//! A client, as its `client.json` describes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::root;

/// The longest that a build may take, in seconds, on a busy machine.
const BUILD_PATIENCE: &str = "300";

/// Clients that there are: none gets lost unnoticed.
const LEAST: usize = 7;

/// The part of `clients/*/client.json` that a drain needs.
#[derive(Debug, Clone)]
pub struct Client {
    pub name: String,
    /// Where its commands run.
    pub folder: PathBuf,
    /// Where its builds go, the environment's `CLIENT_OUT`.
    pub out: PathBuf,
    build: Vec<Vec<String>>,
    /// The command of its example worker.
    pub example: Vec<String>,
    /// The command of its fixture worker.
    pub fixture: Vec<String>,
}

/// All clients that there are, by name.
pub fn all() -> Vec<Client> {
    let folders = std::fs::read_dir(root().join("clients")).unwrap();
    let mut clients: Vec<Client> = folders
        .filter_map(|entry| Client::read(&entry.unwrap().path()))
        .collect();
    assert!(clients.len() >= LEAST, "{} clients have a client.json", clients.len());
    clients.sort_by(|one, other| one.name.cmp(&other.name));
    clients
}

impl Client {
    fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("client.json")).ok()?;
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        let name = told["name"].as_str().unwrap().to_owned();
        let command = |words: &serde_json::Value| -> Vec<String> { serde_json::from_value(words.clone()).unwrap() };
        // Beside what cargo gives its tests: the same folder for whoever else builds it.
        let out = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .with_file_name("clients")
            .join(&name);
        Some(Self {
            out,
            folder: folder.to_owned(),
            build: told["build"].as_array().unwrap().iter().map(command).collect(),
            example: command(&told["example"]),
            fixture: command(&told["fixture"]),
            name,
        })
    }

    /// One of its commands, run in its folder.
    pub fn words(&self, command: &[String]) -> Vec<String> {
        let mut words = ["sh", "-c", "cd \"$0\" && exec \"$@\""].map(str::to_owned).to_vec();
        words.push(self.folder.display().to_string());
        words.extend_from_slice(command);
        words
    }

    pub fn build(&self) -> Result<(), String> {
        std::fs::create_dir_all(&self.out).unwrap();
        for words in &self.build {
            let mut command = Command::new("timeout");
            command.args(["--kill-after=5", BUILD_PATIENCE]).args(words);
            let output = command
                .current_dir(&self.folder)
                .env("CLIENT_OUT", &self.out)
                .output()
                .unwrap();
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(format!(
                    "{words:?} in {}: {}\n{said}",
                    self.folder.display(),
                    output.status
                ));
            }
        }
        Ok(())
    }
}
