//! Where the runtime directory ends up in containers of several kinds, and who can be told apart
//! there.
//!
//! Needs root, because it plays other users and mounts things.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use ojs_init::daemon::runtime::admission::may_connect;
use ojs_init::daemon::runtime::candidate::{candidates, home_name};
use ojs_init::daemon::runtime::dir::RuntimeDir;

use crate::forked::forked;
use crate::runtime::*;

#[test]
fn the_next_place_is_taken_when_one_does_not_work_and_all_are_named_when_none_does() {
    let place = place();
    let (closed, missing) = (place.path().join("closed"), place.path().join("missing"));
    fs::create_dir(&closed).unwrap();
    let mut candidates = [at(&closed), at(&missing), at(place.path())].concat();
    candidates[1].make = false;
    // Root may write everywhere.
    let said = forked(Some(STRANGER), || {
        let found = RuntimeDir::open(&candidates, &for_us()).map_err(|error| error.to_string())?;
        Ok(found.path().display().to_string())
    });
    let home = place.path().join(home_name(STRANGER));
    assert!(Path::new(&said).starts_with(&home), "{said}");

    let said = forked(Some(STRANGER), || {
        let error = RuntimeDir::open(&candidates[..2], &for_us()).unwrap_err();
        Ok(error.to_string())
    });
    for part in [
        format!("{}: making", closed.display()),
        "Permission denied (EACCES)".to_owned(),
        format!("{}: opening", missing.display()),
        "(ENOENT)".to_owned(),
        format!("user {STRANGER}"),
        "OJS_RUNTIME_DIR".to_owned(),
    ] {
        assert!(said.contains(&part), "{part}: {said}");
    }
}

#[test]
fn a_peer_of_another_pid_namespace_is_refused() {
    let place = place();
    let runtime = open(place.path());
    let listener = runtime.worker_socket().unwrap();
    // The client is in the namespace above: who accepts is in a new one.
    let said = forked(None, || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWPID).map_err(|error| error.to_string())?;
        drop(UnixStream::connect(listener.path()).unwrap());
        Ok(forked(None, || {
            let accepted = listener.accept().unwrap().unwrap();
            let verdict = may_connect(&accepted.peer, &for_us());
            Ok(format!("{:?} {:?}", accepted.process.is_none(), verdict))
        }))
    });
    assert_eq!(said, "true Err(OtherPidNamespace)");
}

#[test]
fn a_connection_waits_while_there_is_no_descriptor_for_it() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let place = place();
    let said = forked(None, || {
        let runtime = open(place.path());
        let listener = runtime.worker_socket().unwrap();
        let _client = UnixStream::connect(listener.path()).unwrap();
        let (before, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 0, hard).unwrap();
        let refused = listener.accept();
        setrlimit(Resource::RLIMIT_NOFILE, before, hard).unwrap();
        let is_exhausted = refused.is_err_and(|error| error.raw_os_error() == Some(libc::EMFILE));
        let is_there_later = listener.accept().is_ok_and(|accepted| accepted.is_some());
        Ok(format!("{is_exhausted} {is_there_later}"))
    });
    assert_eq!(said, "true true");
}

#[test]
fn a_user_without_rights_on_a_read_only_root_ends_up_in_dev_shm() {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let said = forked(None, || {
        let none = None::<&str>;
        let set_up = || {
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            mount(Some("tmpfs"), "/dev/shm", Some("tmpfs"), MsFlags::empty(), none)?;
            let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            mount(none, "/", none, read_only, none)
        };
        set_up().map_err(|error| format!("mounting: {error}"))?;
        let nothing_set = ojs_init::config::Paths {
            runtime_dir: None,
            user_runtime_dir: None,
            termination_log: None,
        };
        let usual = candidates(&nothing_set);
        Ok(forked(Some(STRANGER), || {
            let found = RuntimeDir::open(&usual, &for_us()).map_err(|error| error.to_string())?;
            let listener = found.worker_socket().map_err(|error| error.to_string())?;
            Ok(format!("{} {:?}", found.path().display(), connected(listener.path())))
        }))
    });
    let home = Path::new("/dev/shm").join(home_name(STRANGER));
    assert!(Path::new(&said).starts_with(home) && said.ends_with(" None"), "{said}");
}

#[test]
fn in_a_user_namespace_the_directories_of_the_machine_outside_are_trusted() {
    use nix::sched::{CloneFlags, unshare};
    let place = place();
    let said = forked(Some(STRANGER), || {
        unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| error.to_string())?;
        fs::write("/proc/self/uid_map", format!("0 {STRANGER} 1")).map_err(|error| error.to_string())?;
        let found = RuntimeDir::open(&at(place.path()), &for_us()).map_err(|error| error.to_string())?;
        Ok(format!("{}", found.path().starts_with(home(place.path()))))
    });
    assert_eq!(said, "true");
}
