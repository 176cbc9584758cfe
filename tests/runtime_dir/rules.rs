//! The runtime directory in real directories, as several users and with several instances at once.
//!
//! Needs root, because it plays other users.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::stat::{Mode, umask};
use ojs_init::daemon::runtime::admission::{Allowed, NotAdmitted, may_connect};
use ojs_init::daemon::runtime::base::Unusable;
use ojs_init::daemon::runtime::dir::RuntimeDir;

use crate::forked::forked;
use crate::runtime::*;

#[test]
fn an_instance_has_a_directory_of_its_own_that_goes_away_with_it() {
    let place = place();
    let (first, second) = (open(place.path()), open(place.path()));
    assert_ne!(first.path(), second.path());
    assert_eq!(first.path().parent(), Some(&*home(place.path())));
    assert_eq!((mode(&home(place.path())), mode(first.path())), (0o711, 0o700));
    let listener = first.worker_socket().unwrap();
    let control = first.control_socket().unwrap();
    assert_eq!((mode(listener.path()), mode(control.path())), (0o600, 0o600));
    drop(UnixStream::connect(listener.path()).unwrap());
    let gone = first.path().to_owned();
    first.remove().unwrap();
    assert!(!gone.exists());
    assert_eq!(instances(place.path()), 1, "the other instance's stays");
    drop(second);
    assert_eq!(instances(place.path()), 0);
}

#[test]
fn a_place_that_is_missing_is_made_only_where_that_was_asked_for() {
    let place = place();
    let base = place.path().join("new");
    let mut candidates = at(&base);
    candidates[0].make = false;
    RuntimeDir::open(&candidates, &for_us()).unwrap_err();
    assert!(!base.exists());
    let _runtime = open(&base);
    assert_eq!(mode(&base), 0o755);
}

#[test]
fn the_umask_has_no_influence_whatever_it_is() {
    for mask in [0o000, 0o777] {
        let place = place();
        // Without the rights of root a mode of 000 would lock us out ourselves.
        let said = forked(Some(STRANGER), || {
            umask(Mode::from_bits_truncate(mask));
            let base = place.path().join("new");
            let runtime = RuntimeDir::open(&at(&base), &for_us()).map_err(|error| error.to_string())?;
            let listener = runtime.worker_socket().map_err(|error| error.to_string())?;
            let home = runtime.path().parent().unwrap();
            let lock = runtime.path().join("lock");
            let modes = [&base, home, runtime.path(), &lock, listener.path()].map(mode);
            Ok(modes.map(|mode| format!("{mode:o}")).join(" "))
        });
        assert_eq!(said, "755 711 700 600 600", "umask {mask:o}");
    }
}

#[test]
fn what_a_killed_instance_left_is_removed_and_a_running_ones_is_not() {
    let place = place();
    let running = open(place.path());
    let listener = running.worker_socket().unwrap();
    let dead = make_dead(place.path(), "7-0123abcd");
    let without_lock = home(place.path()).join("8-0123abcd");
    fs::create_dir(&without_lock).unwrap();
    let not_ours_to_judge = home(place.path()).join("something");
    fs::create_dir(&not_ours_to_judge).unwrap();
    let somebody_elses = make_dead(place.path(), "9-0123abcd");
    std::os::unix::fs::chown(&somebody_elses, Some(STRANGER), None).unwrap();

    let _next = open(place.path());
    assert!(!dead.exists() && !without_lock.exists());
    assert!(not_ours_to_judge.exists() && somebody_elses.join("worker.sock").exists());
    drop(UnixStream::connect(listener.path()).unwrap());
}

#[test]
fn an_instance_that_is_killed_leaves_a_directory_that_the_next_one_removes() {
    let place = place();
    // Neither `drop` nor anything else runs at the end of the other process.
    let left = forked(None, || {
        let runtime = open(place.path());
        let path = runtime.path().display().to_string();
        std::mem::forget(runtime.worker_socket().unwrap());
        std::mem::forget(runtime);
        Ok(path)
    });
    assert!(Path::new(&left).join("worker.sock").exists());
    let _next = open(place.path());
    assert!(!Path::new(&left).exists());
}

#[test]
fn one_start_removes_a_bounded_number() {
    let place = place();
    for number in 0..70 {
        make_dead(place.path(), &format!("{number}-00000000"));
    }
    let next = open(place.path());
    assert_eq!(instances(place.path()), 70 - 64 + 1);
    drop(next);
    drop(open(place.path()));
    assert_eq!(instances(place.path()), 0);
}

#[test]
fn links_in_a_dead_instances_directory_are_removed_and_not_followed() {
    let place = place();
    let precious = place.path().join("precious");
    fs::write(&precious, "kept").unwrap();
    let dead = make_dead(place.path(), "7-0123abcd");
    symlink(&precious, dead.join("worker2.sock")).unwrap();
    let linked = place.path().join("linked");
    fs::create_dir(&linked).unwrap();
    fs::write(linked.join("file"), "kept").unwrap();
    symlink(&linked, home(place.path()).join("9-0123abcd")).unwrap();
    let _next = open(place.path());
    assert!(!dead.exists());
    assert_eq!(fs::read_to_string(precious).unwrap(), "kept");
    assert_eq!(fs::read_to_string(linked.join("file")).unwrap(), "kept");
}

#[test]
fn a_link_in_the_place_of_a_directory_is_refused() {
    let place = place();
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, home(place.path())).unwrap();
    let refused = refusal(place.path(), &for_us());
    assert!(
        matches!(&refused, Unusable::Link(path) if *path == home(place.path())),
        "{refused}"
    );

    let link = place.path().join("base");
    symlink(&elsewhere, &link).unwrap();
    let refused = refusal(&link, &for_us());
    assert!(matches!(&refused, Unusable::Link(path) if *path == link), "{refused}");
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn a_directory_that_somebody_else_made_in_our_name_is_refused() {
    let place = place();
    fs::create_dir(home(place.path())).unwrap();
    std::os::unix::fs::chown(home(place.path()), Some(STRANGER), None).unwrap();
    let refused = refusal(place.path(), &for_us());
    assert!(matches!(refused, Unusable::Foreign { uid: STRANGER, .. }), "{refused}");
}

#[test]
fn a_base_or_a_way_to_it_that_somebody_else_owns_is_refused() {
    let place = place();
    let (outer, inner) = (place.path().join("outer"), place.path().join("outer/inner"));
    fs::create_dir_all(&inner).unwrap();
    for owned in [&inner, &outer] {
        std::os::unix::fs::chown(owned, Some(STRANGER), None).unwrap();
        let refused = refusal(&inner, &for_us());
        assert!(
            matches!(&refused, Unusable::Foreign { path, uid: STRANGER } if path == owned),
            "{refused}"
        );
        std::os::unix::fs::chown(owned, Some(0), None).unwrap();
    }
    drop(open(&inner));
}

#[test]
fn a_base_in_which_everybody_may_replace_files_is_refused() {
    let place = place();
    set_mode(place.path(), 0o777);
    let refused = refusal(place.path(), &for_us());
    assert!(matches!(refused, Unusable::Unprotected(_)), "{refused}");
    assert!(refused.to_string().contains("chmod +t"), "{refused}");
    set_mode(place.path(), 0o1777);
    drop(open(place.path()));
}

#[test]
fn a_volume_that_somebody_named_is_taken_although_others_may_write_to_it() {
    let place = place();
    set_mode(place.path(), 0o777);
    let mut named = at(place.path());
    named[0].is_configured = true;
    drop(RuntimeDir::open(&named, &for_us()).unwrap());
}

#[test]
fn a_directory_of_ours_that_is_too_open_is_closed_first() {
    let place = place();
    fs::create_dir(home(place.path())).unwrap();
    set_mode(&home(place.path()), 0o777);
    let _runtime = open(place.path());
    assert_eq!(mode(&home(place.path())), 0o711);
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_refused_before_anything_is_made() {
    let place = place();
    let base = place.path().join("x".repeat(60));
    fs::create_dir(&base).unwrap();
    let refused = refusal(&base, &for_us());
    assert!(
        matches!(&refused, Unusable::TooLong { length, .. } if *length > 107),
        "{refused}"
    );
    assert!(refused.to_string().contains("at most 107"), "{refused}");
    assert_eq!(instances(&base), 0);
}

#[test]
fn a_child_of_another_user_gets_through_to_its_socket_and_nobody_else_does() {
    let place = place();
    let runtime = RuntimeDir::open(&at(place.path()), &for_child()).unwrap();
    let listener = runtime.worker_socket().unwrap();
    let control = runtime.control_socket().unwrap();
    assert_eq!(mode(runtime.path()), 0o711);
    let found = fs::metadata(listener.path()).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777), (CHILD, 0o600));
    assert_eq!(fs::metadata(control.path()).unwrap().uid(), 0);

    let connects = |uid, path: &Path| forked(Some(uid), || Ok(format!("{:?}", connected(path))));
    assert_eq!(connects(CHILD, listener.path()), "None");
    assert_eq!(connects(CHILD, control.path()), "Some(PermissionDenied)");
    assert_eq!(connects(STRANGER, listener.path()), "Some(PermissionDenied)");
}

#[test]
fn without_the_right_to_give_the_socket_away_everybody_may_try_and_the_kernel_says_who_it_is() {
    let place = place();
    // Root without CAP_CHOWN would have to be made; another user has never had it.
    let said = forked(Some(STRANGER), || {
        let allowed = for_child();
        let runtime = RuntimeDir::open(&at(place.path()), &allowed).map_err(|error| error.to_string())?;
        let listener = runtime.worker_socket().map_err(|error| error.to_string())?;
        let socket = fs::metadata(listener.path()).unwrap();
        let _client = UnixStream::connect(listener.path()).unwrap();
        let peer = listener.accept().unwrap().unwrap().peer;
        let us = may_connect(&peer, &allowed);
        Ok(format!(
            "{} {:o} {:o} {us:?}",
            socket.uid(),
            mode(listener.path()),
            mode(runtime.path())
        ))
    });
    assert_eq!(said, format!("{STRANGER} 666 711 Ok(())"));
}

#[test]
fn further_users_can_connect_and_are_told_apart_by_what_the_kernel_says() {
    let place = place();
    let allowed = Allowed::new(None, &[CHILD]);
    let runtime = RuntimeDir::open(&at(place.path()), &allowed).unwrap();
    let listener = runtime.worker_socket().unwrap();
    assert_eq!((mode(runtime.path()), mode(listener.path())), (0o711, 0o666));
    for (uid, expected) in [
        (CHILD, Ok(())),
        (STRANGER, Err(NotAdmitted::User(STRANGER))),
        (0, Ok(())),
    ] {
        let said = forked(Some(uid), || Ok(format!("{:?}", connected(listener.path()))));
        assert_eq!(said, "None");
        let accepted = listener.accept().unwrap().unwrap();
        assert_eq!(may_connect(&accepted.peer, &allowed), expected);
        // The process connected, ended and was reaped before we looked.
        assert!(accepted.process.unwrap().has_ended());
    }
}

#[test]
fn a_place_that_the_child_cannot_reach_is_refused() {
    let place = place();
    let base = place.path().join("private");
    fs::create_dir(&base).unwrap();
    set_mode(&base, 0o700);
    let refused = refusal(&base, &for_child());
    assert!(
        matches!(&refused, Unusable::OutOfReach { path, uid: CHILD } if *path == base),
        "{refused}"
    );
    drop(open(&base));
}

#[test]
fn instances_that_start_and_end_at_the_same_moment_leave_each_other_alone() {
    let place = place();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let runtime = open(place.path());
                    let listener = runtime.worker_socket().unwrap();
                    drop(open(place.path()));
                    assert_eq!(connected(listener.path()), None);
                    runtime.remove().unwrap();
                }
            });
        }
    });
    assert_eq!(instances(place.path()), 0);
}
