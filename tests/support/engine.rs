//! A Docker Engine of the tests' own: a `dockerd` whose socket, images and containers are in a
//! temporary directory.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use nix::mount::{MntFlags, umount2};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::support::temp::TempDir;
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

/// Longest that the engine may take to be there, or to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most seconds that one command of the client may take.
const COMMAND_SECONDS: &str = "180";

/// How the directories begin; the pid of the test program follows.
const PREFIX: &str = "ojs-engine-";

/// Bound into a container by `docker run --init`, so it has to be static.
const STATIC_INIT: &str = "/usr/bin/tini-static";

/// An engine that can be used.
pub struct Engine {
    host: String,
    own: Mutex<Option<Child>>,
    dir: TempDir,
}

impl Engine {
    /// Starts one, or takes that of `DOCKER_HOST` where this is set.
    ///
    /// # Errors
    ///
    /// Why there is none, for whoever wants to have these tests run.
    pub fn start() -> Result<Self, String> {
        remove_stale();
        let path = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        let dir = TempDir::new(path).map_err(|error| format!("no temporary directory: {error}"))?;
        found("docker")?;
        found("docker-compose")?;
        if let Ok(host) = std::env::var("DOCKER_HOST") {
            let engine = Self {
                host,
                own: Mutex::new(None),
                dir,
            };
            return if engine.answers() {
                Ok(engine)
            } else {
                Err(format!("DOCKER_HOST is {}, and no engine answers there", engine.host))
            };
        }
        found("dockerd")?;
        if !nix::unistd::geteuid().is_root() {
            return Err("a Docker Engine has to be started by root; run this as root, or set DOCKER_HOST".to_owned());
        }
        let engine = Self {
            host: format!("unix://{}/socket", dir.path().display()),
            own: Mutex::new(None),
            dir,
        };
        // The second one works on every file system, and copies all of an image for each container.
        let tried = ["overlay2", "vfs"].map(|driver| engine.serve(driver));
        match tried {
            [Err(first), Err(second)] => Err(format!("dockerd does not start: {first}\n{second}")),
            [Ok(()), _] | [_, Ok(())] => Ok(engine),
        }
    }

    /// Starts `dockerd` unless it runs, and waits until it can be used.
    fn serve(&self, driver: &str) -> Result<(), String> {
        if self.own.lock().unwrap().is_some() {
            return Ok(());
        }
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let log = self.dir.path().join(format!("dockerd-{driver}.log"));
        let file = File::create(&log).map_err(|error| error.to_string())?;
        let mut command = Command::new("dockerd");
        command
            .args(["--host", &self.host, "--storage-driver", driver])
            .args([
                "--data-root",
                &at("data"),
                "--exec-root",
                &at("run"),
                "--pidfile",
                &at("pid"),
            ])
            // Nothing outside of the directory is touched: no firewall, no bridge, no setting of
            // the kernel.
            .args([
                "--iptables=false",
                "--ip6tables=false",
                "--ip-forward=false",
                "--bridge=none",
            ])
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(|error| error.to_string())?)
            .stderr(file);
        if Path::new(STATIC_INIT).exists() {
            command.args(["--init-path", STATIC_INIT]);
        }
        // SAFETY: one system call. A test program that is killed takes the engine with it, and that
        // its containers.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGTERM)?)) };
        // Ctrl-C ends us, and then the engine by the signal above.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut is_over = false;
        wait_until(PATIENCE, || {
            is_over = child.try_wait().is_ok_and(|status| status.is_some());
            is_over || self.answers()
        });
        if !is_over && self.answers() {
            *self.own.lock().unwrap() = Some(child);
            return Ok(());
        }
        let _ = child.kill();
        let _ = child.wait();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        Err(format!("with {driver}: {}", last.join("\n")))
    }

    fn answers(&self) -> bool {
        self.try_docker(&["version"]).status.success()
    }

    /// A client of this engine, put together but not started.
    pub fn client(&self, program: &str) -> Command {
        self.patient_client(program, COMMAND_SECONDS)
    }

    /// The same, with another time.
    pub fn patient_client(&self, program: &str, seconds: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", seconds, program])
            .env("DOCKER_HOST", &self.host)
            // Nobody's credentials, contexts and proxies.
            .env("DOCKER_CONFIG", self.dir.path())
            .env("COMPOSE_INTERACTIVE_NO_CLI", "1")
            .stdin(Stdio::null());
        command
    }

    /// The answer of `docker`, whatever it is.
    pub fn try_docker(&self, words: &[&str]) -> Output {
        self.client("docker").args(words).output().unwrap()
    }

    /// The answer of `docker`; it must have worked.
    #[track_caller]
    pub fn docker(&self, words: &[&str]) -> String {
        said(words, &self.try_docker(words))
    }

    /// A file or directory that goes away with the engine.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Ends the containers and the engine, if it is ours.
    pub fn stop(&self) {
        let own = self.own.lock().unwrap().take();
        if let Some(child) = own {
            self.end(child);
        }
        clear(self.dir.path());
    }

    fn end(&self, mut child: Child) {
        // One that has died does not answer, and is cleared away all the same.
        let all = self.try_docker(&["ps", "--all", "--quiet"]).stdout;
        let all = String::from_utf8_lossy(&all);
        if !all.is_empty() {
            let words: Vec<&str> = ["rm", "--force", "--volumes"].into_iter().chain(all.lines()).collect();
            self.try_docker(&words);
        }
        self.try_docker(&["network", "prune", "--force"]);
        let _ = sys::send(child.id().cast_signed(), libc::SIGTERM);
        if !wait_until(PATIENCE, || child.try_wait().is_ok_and(|status| status.is_some())) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The standard output of a command that must have worked, without the line break at its end.
#[track_caller]
pub fn said(words: &[&str], output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{words:?}: {}\n{text}\n{errors}",
        output.status
    );
    text
}

fn found(program: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    let advice = "Debian's packages docker.io and docker-compose have it: scripts/setup.sh test";
    is_there
        .then_some(())
        .ok_or_else(|| format!("there is no {program}; {advice}"))
}

/// Removes an engine's directory, and what it has left outside of it.
fn clear(engine: &Path) {
    end_containers(engine);
    unmount(engine);
    remove_bridges(engine);
    let _ = std::fs::remove_dir_all(engine);
}

/// Ends the containers of an engine that has died without doing so: the children of the processes
/// that it has to look after each.
fn end_containers(engine: &Path) {
    let named = engine.display().to_string();
    let is_keeper = |pid: &i32| {
        let program = proc::image(*pid).unwrap_or_default();
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        program.ends_with("containerd-shim-runc-v2") && String::from_utf8_lossy(&command).contains(&named)
    };
    for keeper in proc::everybody().into_iter().filter(is_keeper) {
        for pid in proc::children(keeper).into_iter().chain([keeper]) {
            let _ = sys::send(pid, libc::SIGKILL);
        }
    }
}

/// Digits of a network's id in the name of its bridge.
const BRIDGE_DIGITS: usize = 12;

/// Removes the bridges of the networks that an engine had made: they are called after the ids of
/// these, which are in its store.
fn remove_bridges(engine: &Path) {
    let store = std::fs::read(engine.join("data/network/files/local-kv.db")).unwrap_or_default();
    let links = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = links.filter_map(|link| link.file_name().into_string().ok());
    let is_of_it = |name: &String| {
        let id = name.strip_prefix("br-").filter(|id| id.len() == BRIDGE_DIGITS);
        id.is_some_and(|id| store.windows(id.len()).any(|bytes| bytes == id.as_bytes()))
    };
    for name in names.filter(is_of_it) {
        let _ = Command::new("ip").args(["link", "delete", &name]).status();
    }
}

/// Lets go of what is mounted below a directory, the innermost first.
fn unmount(below: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from);
    let mut ours: Vec<PathBuf> = places.filter(|place| place.starts_with(below)).collect();
    ours.reverse();
    for place in ours {
        let _ = umount2(&place, MntFlags::MNT_DETACH);
    }
}

/// Removes what test programs have left that were killed.
fn remove_stale() {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok()) else {
            continue;
        };
        let engine = std::fs::read_to_string(entry.path().join("pid")).unwrap_or_default();
        let engine: Option<i32> = engine.trim().parse().ok();
        if !proc::lives(pid) && !engine.is_some_and(proc::lives) {
            clear(&entry.path());
        }
    }
}
