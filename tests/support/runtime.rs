//! Instances of the runtime directory, and the users that the tests play.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ojs_init::daemon::runtime::admission::Allowed;
use ojs_init::daemon::runtime::base::Unusable;
use ojs_init::daemon::runtime::candidate::{Candidate, home_name};
use ojs_init::daemon::runtime::dir::RuntimeDir;
use ojs_os::user::Credentials;

use crate::support::temp::TempDir;

/// Somebody else.
pub const STRANGER: u32 = 54_321;

/// The user that the child runs as where it is another.
pub const CHILD: u32 = 54_322;

/// A directory that everybody may use, as /tmp.
pub fn place() -> TempDir {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let place = TempDir::new(std::env::temp_dir().join(format!("ojs-rt-{}-{number}", std::process::id()))).unwrap();
    set_mode(place.path(), 0o1777);
    place
}

/// Sets the permission bits.
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The permission bits.
pub fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// This directory as the only candidate, made where it is missing.
pub fn at(path: &Path) -> Vec<Candidate> {
    vec![Candidate {
        path: path.to_owned(),
        make: true,
        is_configured: false,
    }]
}

/// Nobody but us may connect.
pub fn for_us() -> Allowed {
    Allowed::new(None, &[])
}

/// The child is another user.
pub fn for_child() -> Allowed {
    let child = Credentials {
        uid: CHILD,
        gid: CHILD,
        groups: vec![CHILD],
    };
    Allowed::new(Some(child), &[])
}

/// The runtime directory of an instance in this place.
pub fn open(path: &Path) -> RuntimeDir {
    RuntimeDir::open(&at(path), &for_us()).unwrap()
}

/// Why this place alone does not work.
pub fn refusal(path: &Path, allowed: &Allowed) -> Unusable {
    let mut error = RuntimeDir::open(&at(path), allowed).unwrap_err();
    assert_eq!(error.tried.len(), 1);
    error.tried.remove(0).1
}

/// Where our instances are in this place.
pub fn home(place: &Path) -> PathBuf {
    place.join(home_name(0))
}

/// How many there are.
pub fn instances(place: &Path) -> usize {
    fs::read_dir(home(place)).unwrap().count()
}

/// The files that a killed instance leaves behind.
pub fn make_dead(place: &Path, name: &str) -> PathBuf {
    let dead = home(place).join(name);
    fs::create_dir_all(&dead).unwrap();
    fs::write(dead.join("lock"), "").unwrap();
    drop(UnixListener::bind(dead.join("worker.sock")).unwrap());
    dead
}

/// The error of a connection; none when there was none.
pub fn connected(path: &Path) -> Option<std::io::ErrorKind> {
    UnixStream::connect(path).err().map(|error| error.kind())
}
