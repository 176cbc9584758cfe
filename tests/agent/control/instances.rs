//! Which instance a subcommand talks to, and that nobody else can keep it from that.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::operator::{OBEYS, Place, run, start};
use crate::runtime::STRANGER;
use crate::stage;
use crate::stage::{Init, Stage};
use crate::support::under_test;
use crate::support::wait::wait_until;

/// Locked directories with a control socket that takes no connection, or takes one and answers
/// nothing.
const PLANT: &str = "
import fcntl, os, socket, sys, time
home, count, is_full = sys.argv[1], int(sys.argv[2]), sys.argv[3] == 'full'
os.makedirs(home)
keep = []
for number in range(count):
    path = f'{home}/9-{number:08x}'
    os.mkdir(path)
    lock = open(path + '/lock', 'w')
    fcntl.flock(lock, fcntl.LOCK_EX)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + '/control.sock')
    listener.listen(0 if is_full else 8)
    keep += [lock, listener]
    if is_full:
        client = socket.socket(socket.AF_UNIX)
        client.connect(path + '/control.sock')
        keep.append(client)
print('planted', flush=True)
time.sleep(600)
";

/// Somebody who pretends to be instances. Ends with it.
struct Plant(Child);

impl Plant {
    fn new(base: &Path, count: usize, kind: &str) -> Self {
        let home = base.join(format!("ojs-init-{STRANGER}"));
        let mut child = Command::new("python3")
            .args(["-S", "-E", "-c", PLANT])
            .args([home.to_str().unwrap(), &count.to_string(), kind])
            .uid(STRANGER)
            .gid(STRANGER)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "planted\n");
        Self(child)
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A base in which every user may have directories, as in /tmp.
fn shared_base(stage: &Stage) -> PathBuf {
    let base = stage.at("run");
    std::fs::create_dir(&base).unwrap();
    std::fs::set_permissions(&base, Permissions::from_mode(0o1777)).unwrap();
    base
}

fn ready(stage: &Stage) -> Init {
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("ready");
    init
}

#[test]
fn what_another_user_plants_keeps_root_from_nothing() {
    for (count, kind) in [(1, "serve"), (20, "full")] {
        let stage = Stage::new();
        let base = shared_base(&stage);
        let mut init = ready(&stage);
        let _plant = Plant::new(&base, count, kind);
        let outside = |words: &[&str]| start(&stage, &init, Place::Outside, words).ends();
        let came = outside(&["prestop", "--for", "100ms"]);
        came.says("the worker is quiet");
        assert!(came.took_itself < Duration::from_millis(900), "{came:?}");
        let came = outside(&["resume"]);
        came.says("the worker runs again");
        assert!(came.took_itself < Duration::from_millis(900), "{came:?}");
        run(&stage, &init, &["quiet"]).says("the worker is quiet now");
        init.stops();
    }
}

#[test]
fn without_an_instance_of_its_own_root_gives_up_soon_on_what_others_plant() {
    let stage = Stage::new();
    let base = shared_base(&stage);
    let other = Stage::new();
    let init = ready(&other);
    let _plant = Plant::new(&base, 30, "full");
    let base = base.to_str().unwrap();
    let outside = |words: &[&str]| start(&other, &init, Place::Outside, words).ends();
    let came = outside(&["quiet", "--runtime-dir", base]);
    came.is_refused(1, &["no ojs-init", "too many others wait"]);
    assert!(came.took_itself < Duration::from_secs(4), "{came:?}");
    let came = outside(&["prestop", "--for", "0", "--runtime-dir", base]);
    came.is_refused(0, &["too many others wait"]);
    assert!(came.took_itself < Duration::from_secs(2), "{came:?}");
}

#[test]
fn root_finds_the_instance_of_another_user_among_thousands_of_files() {
    let stage = Stage::new();
    let base = shared_base(&stage);
    for number in 0..2500 {
        std::fs::write(base.join(format!("f{number}")), "").unwrap();
    }
    let user = STRANGER.to_string();
    let as_user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let mut init = stage.worker(OBEYS).through(&as_user).start();
    init.logs("Worker started");
    for number in 0..2500 {
        std::fs::write(base.join(format!("g{number}")), "").unwrap();
    }
    run(&stage, &init, &["quiet"]).says("the worker is quiet now");
}

#[test]
fn of_two_instances_in_one_container_the_one_that_is_pid_1_is_meant() {
    let stage = Stage::new();
    let raw = stage::root().join("tests/support/raw_worker.py");
    let inner: [std::ffi::OsString; 7] = [
        under_test::init().into(),
        "--".into(),
        "python3".into(),
        "-S".into(),
        "-E".into(),
        raw.into(),
        OBEYS.into(),
    ];
    let mut init = stage.command(&inner).start();
    init.notes_line("ready");
    let home = stage.at("run/ojs-init-0");
    let instances = || -> Vec<String> {
        let entries = std::fs::read_dir(&home).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    assert!(
        wait_until(stage::PATIENCE, || instances().len() == 2),
        "{:?}",
        instances()
    );
    run(&stage, &init, &["quiet"]).says("the worker is quiet now");
    let found = instances();
    let of = |is_outer: bool| {
        let name = found.iter().find(|name| name.starts_with("1-") == is_outer).unwrap();
        home.join(name).display().to_string()
    };
    run(&stage, &init, &["resume", "--runtime-dir", &of(false)]).says("the worker is running already");
    run(&stage, &init, &["resume", "--runtime-dir", &of(true)]).says("the worker runs again");
}

#[test]
fn the_directory_of_a_users_instances_may_be_named_and_a_link_is_told_as_one() {
    let stage = Stage::new();
    let init = ready(&stage);
    let home = stage.at("run/ojs-init-0").display().to_string();
    run(&stage, &init, &["quiet", "--runtime-dir", &home]).says("the worker is quiet now");
    let link = stage.at("link");
    std::os::unix::fs::symlink(stage.at("run"), &link).unwrap();
    let link = link.display().to_string();
    run(&stage, &init, &["resume", "--runtime-dir", &link]).is_refused(1, &[&link, "is a symbolic link"]);
}

#[test]
fn the_reason_is_told_for_each_place() {
    let stage = Stage::new();
    let init = ready(&stage);
    let nowhere = stage.at("nowhere").display().to_string();
    run(&stage, &init, &["quiet", "--runtime-dir", &nowhere]).is_refused(1, &[&nowhere, "(ENOENT)"]);
    let empty = stage.at("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.display().to_string();
    run(&stage, &init, &["quiet", "--runtime-dir", &empty]).is_refused(1, &[&empty, "there is no instance of user 0"]);
    let dead = crate::runtime::make_dead(&stage.at("gone"), "7-0123abcd")
        .display()
        .to_string();
    let gone = stage.at("gone").display().to_string();
    run(&stage, &init, &["quiet", "--runtime-dir", &gone]).is_refused(1, &[&dead, "it does not run any more"]);
}
