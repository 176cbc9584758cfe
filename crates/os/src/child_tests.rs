//! Tests of the search for the program, and of its environment.

use super::*;
use crate::entry::tests::block;

fn found(program: &str, path: Option<&str>) -> Vec<String> {
    let found = candidates(OsStr::new(program), path.map(OsStr::new)).unwrap();
    found.into_iter().map(|path| path.into_string().unwrap()).collect()
}

#[test]
fn a_name_without_a_slash_is_looked_for_in_each_directory_of_path() {
    assert_eq!(found("ls", Some("/a:/b")), ["/a/ls", "/b/ls"]);
    assert_eq!(found("ls", Some(":/b:")), ["ls", "/b/ls", "ls"]);
    assert_eq!(found("ls", None), ["/usr/local/bin/ls", "/usr/bin/ls", "/bin/ls"]);
}

#[test]
fn a_name_with_a_slash_is_taken_as_it_is() {
    assert_eq!(found("./ls", Some("/a")), ["./ls"]);
}

#[test]
fn an_empty_name_is_nowhere() {
    assert!(found("", Some("/a")).is_empty());
}

fn environment(before: &[&str], set: &[(&str, &str)], remove: &[&str]) -> Vec<String> {
    let set: Vec<_> = set.iter().map(|(name, value)| (*name, OsStr::new(*value))).collect();
    let plan = ChildPlan::new(&[], &block(before)).unwrap();
    let ChildEnvironment::Changed(entries) = plan.with_environment(&set, remove).unwrap().environment else {
        panic!("unchanged")
    };
    let text = |entry: CString| entry.into_string().unwrap();
    entries.into_iter().map(text).collect()
}

#[test]
fn what_is_not_named_keeps_its_bytes_and_its_order() {
    let before = [
        "B=2",
        "",
        "A=1",
        "no equals sign",
        "=x",
        "A=3",
        "URLS=z",
        "B=",
        "MY_URL=y",
        "URL",
    ];
    assert_eq!(environment(&before, &[], &[]), before);
    assert_eq!(
        environment(&before, &[("URL", "new")], &["TOKEN"]),
        [&before[..], &["URL=new"]].concat()
    );
}

#[test]
fn a_value_takes_the_place_of_the_first_entry_and_the_others_go() {
    let before = ["A=1", "URL=old", "B=2", "URL=older", "URL", "C=3"];
    assert_eq!(
        environment(&before, &[("NEW", "n"), ("URL", "new"), ("LAST", "")], &[]),
        ["A=1", "URL=new", "B=2", "URL", "C=3", "NEW=n", "LAST="]
    );
}

#[test]
fn a_removed_variable_is_gone_with_all_its_duplicates() {
    let before = ["TOKEN=1", "A=1", "TOKEN=", "TOKEN", "TOKENS=2", "MY_TOKEN=3"];
    assert_eq!(
        environment(&before, &[], &["TOKEN"]),
        ["A=1", "TOKEN", "TOKENS=2", "MY_TOKEN=3"]
    );
}

#[test]
fn what_is_both_set_and_removed_is_set() {
    assert_eq!(environment(&["A=1"], &[("A", "2")], &["A"]), ["A=2"]);
}

#[test]
fn changes_add_up() {
    let plan = ChildPlan::new(&[], &block(&["A=1", "B=2"])).unwrap();
    let plan = plan.with_environment(&[("A", OsStr::new("3"))], &[]).unwrap();
    let plan = plan.with_environment(&[], &["B"]).unwrap();
    assert!(matches!(plan.environment, ChildEnvironment::Changed(entries) if entries == [c"A=3".to_owned()]));
}

#[test]
fn a_nul_byte_in_a_value_is_refused() {
    let plan = ChildPlan::new(&[], &block(&[])).unwrap();
    assert!(plan.with_environment(&[("A", OsStr::new("x\0y"))], &[]).is_err());
}

#[test]
fn a_child_is_started_with_the_changed_environment_and_not_with_a_secret_that_was_overwritten_later() {
    let mut environ = block(&["PATH=/usr/bin:/bin", "TOKEN=secret", "URL=old", "KEPT=secret"]);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let out = format!("of=/proc/self/fd/{}", writer.as_raw_fd());
    let command = ["dd", "if=/proc/self/environ", &out, "status=none"].map(OsString::from);
    let set = [("URL", OsStr::new("new"))];
    let plan = ChildPlan::new(&command, &environ).unwrap();
    let plan = plan.with_environment(&set, &["TOKEN"]).unwrap();
    environ.overwrite("TOKEN");
    environ.overwrite("KEPT");
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    let pid = plan.spawn().unwrap();
    drop(writer);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    // SAFETY: reaps only the child above; its status is not asked for.
    unsafe { libc::waitpid(pid.number(), ptr::null_mut(), 0) };
    assert_eq!(text, "PATH=/usr/bin:/bin\0URL=new\0KEPT=secret\0");
}

#[test]
fn a_job_has_its_own_descriptors_limits_and_directory_whatever_we_have_open() {
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    // Beyond the limit that the job gets.
    let _many: Vec<OwnedFd> = (0..64).map(|_| null()).collect();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let script = "for n in 0 1 2 3 4 5 6 7; do test -e /proc/$$/fd/$n && echo $n; done; ulimit -n; pwd; nice";
    let limit = crate::job_child::Limit::named("nofile", Some(8), Some(8)).unwrap();
    let traits = JobTraits {
        descriptors: [null(), writer.into(), null(), null()],
        directory: Some(c"/usr".to_owned()),
        nice: Some(19),
        limits: vec![limit],
    };
    let command = ["sh", "-c", script].map(OsString::from);
    let mut plan = ChildPlan::new(&command, &block(&["PATH=/usr/bin:/bin"])).unwrap();
    plan.job = Some(traits);
    let pid = plan.spawn().unwrap();
    drop(plan);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    // SAFETY: reaps only the child above; its status is not asked for.
    unsafe { libc::waitpid(pid.number(), ptr::null_mut(), 0) };
    assert_eq!(text, "0\n1\n2\n3\n8\n/usr\n19\n");
}

#[test]
fn the_file_that_would_be_executed_is_judged_and_none_before_it() {
    use std::os::unix::fs::PermissionsExt;
    let place = std::env::temp_dir().join(format!("ojs-child-trouble-{}", std::process::id()));
    let file = |directory: &str, text: &str, mode: u32| {
        std::fs::create_dir_all(place.join(directory)).unwrap();
        let path = place.join(directory).join("program");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    file("closed", "#!/no/such/interpreter\n", 0o644);
    file("missing", "#!/no/such/interpreter\n", 0o755);
    file("missing_too", "#!/nor/this\n", 0o755);
    file("fine", "#!/bin/sh\n", 0o755);
    let trouble = |directories: &[&str]| {
        let path = directories.join(":");
        let plan = ChildPlan::new(&["program".into()], &block(&[&format!("PATH={path}")])).unwrap();
        let from_there = plan.trouble(Some(&place)).map(|trouble| trouble.words);
        let seen = plan.seen_from(Some(&place)).trouble(None).map(|trouble| trouble.words);
        assert_eq!(from_there, seen);
        seen
    };
    assert_eq!(trouble(&["nowhere", "closed", "missing", "fine"]), None);
    assert_eq!(trouble(&["closed"]), None, "that is told by the kernel");
    assert!(
        trouble(&["closed", "missing", "missing_too"])
            .unwrap()
            .contains("/no/such/interpreter")
    );
    std::fs::remove_dir_all(&place).unwrap();
}
