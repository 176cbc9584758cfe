use super::*;

fn parent_of_living(line: &[u8]) -> Option<i32> {
    Stat::parse(line).filter(|stat| !stat.has_ended).map(|stat| stat.parent)
}

#[test]
fn the_parent_is_found_whatever_the_command_is_called() {
    assert_eq!(parent_of_living(b"12 (a) S 3 (x)) R 77 12 12"), Some(77));
    assert_eq!(parent_of_living(b"12 (sleep) S 5 12 12 0"), Some(5));
    assert_eq!(parent_of_living(b"12 (\xff\n) T 6 12"), Some(6));
}

#[test]
fn a_zombie_is_no_living_child() {
    assert_eq!(
        parent_of_living(b"12 (sleep) Z 5 12 12 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0"),
        None
    );
}

#[test]
fn a_process_whose_first_thread_alone_has_ended_is_alive() {
    assert_eq!(
        parent_of_living(b"12 (sleep) Z 5 12 12 0 -1 4 0 0 0 0 0 0 0 0 20 0 2 0"),
        Some(5)
    );
}

#[test]
fn a_process_that_gives_its_memory_back_is_ending_unless_another_thread_of_it_lives() {
    let ending = |line: &[u8]| Stat::parse(line).map(|stat| stat.ending);
    let line = b"12 (sleep) R 5 12 12 0 -1 4228100 0 0 0 0 0 0 0 0 20 0 1 0";
    assert_eq!(ending(line), Some(ExitProgress::Whole));
    let line = b"12 (sleep) R 5 12 12 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0";
    assert_eq!(ending(line), Some(ExitProgress::No));
    let line = b"12 (sleep) Z 5 12 12 0 -1 4228100 0 0 0 0 0 0 0 0 20 0 2 0";
    assert_eq!(ending(line), Some(ExitProgress::FirstThread));
    assert_eq!(super::ending(Pid::new(1 << 23)), ExitProgress::Whole, "it is gone");
    assert_eq!(super::ending(Pid::own()), ExitProgress::No);
}

#[test]
fn a_line_that_is_cut_short_names_nobody() {
    for line in [&b""[..], b"12", b"12 (sleep)", b"12 (sleep) S", b"12 (sleep) S x"] {
        assert_eq!(parent_of_living(line), None);
    }
}

#[test]
fn the_start_time_is_the_twenty_second_field() {
    let line = b"12 (a b) c) S 5 12 12 0 -1 4 9 9 9 9 9 9 9 9 20 0 1 7 4711 8 8";
    assert_eq!(Stat::parse(line).unwrap().started, Some(4711));
    assert_eq!(Stat::parse(b"12 (a) S 5 12").unwrap().started, None);
}

#[test]
fn we_started_after_the_machine_and_a_free_pid_never_did() {
    assert!(start_time(Pid::own()).unwrap().unwrap() > 0);
    // Above the highest pid that a kernel gives (PID_MAX_LIMIT).
    assert_eq!(start_time(Pid::new(1 << 23)).unwrap(), None);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a child of the test, which has no reaper")]
fn our_descendants_are_those_that_we_started_and_not_ourselves_or_our_parent() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Pid::new(child.id().cast_signed());
    assert!(descendants(100).unwrap().contains(&pid));
    assert!(is_descendant(pid).unwrap());
    assert!(descendants(0).unwrap().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    for other in [pid, Pid::own(), Pid::INIT] {
        assert!(
            !is_descendant(other).unwrap() && !descendants(100).unwrap().contains(&other),
            "{other}"
        );
    }
}

#[test]
fn only_pid_1_may_signal_the_whole_namespace() {
    assert_eq!(
        signal_namespace(Signal::CONT).unwrap_err().raw_os_error(),
        Some(libc::EINVAL)
    );
}
