//! The seccomp profile that ships, `packaging/seccomp/ojs-init.json`.

use serde_json::Value;

use super::page;
use super::strace::Names;
use crate::stage::root;

/// Calls that no worker of an ordinary container needs, and that reach into other processes or into
/// the kernel.
const REFUSED: [&str; 24] = [
    "acct",
    "add_key",
    "bpf",
    "delete_module",
    "finit_module",
    "init_module",
    "io_uring_setup",
    "kcmp",
    "kexec_load",
    "keyctl",
    "mount",
    "move_mount",
    "open_by_handle_at",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "reboot",
    "setns",
    "umount2",
    "unshare",
    "userfaultfd",
];

fn profile() -> Value {
    let text = std::fs::read_to_string(root().join("packaging/seccomp/ojs-init.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The calls that the profile allows, whatever their arguments are or with some of them.
fn allowed(profile: &Value) -> Vec<String> {
    let rules = profile["syscalls"].as_array().unwrap().iter();
    rules
        .filter(|rule| rule["action"] == "SCMP_ACT_ALLOW")
        .flat_map(|rule| rule["names"].as_array().unwrap())
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_profile_allows_each_call_of_the_page() {
    let allowed: Names = allowed(&profile()).into_iter().collect();
    let missing: Vec<String> = page::calls().difference(&allowed).cloned().collect();
    assert!(
        missing.is_empty(),
        "packaging/seccomp/ojs-init.json refuses {missing:?}"
    );
}

#[test]
fn the_profile_refuses_by_default_and_has_none_of_the_calls_that_reach_into_others() {
    let profile = profile();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let allowed = allowed(&profile);
    let dangerous: Vec<&str> = REFUSED
        .into_iter()
        .filter(|name| allowed.iter().any(|it| it == name))
        .collect();
    assert!(dangerous.is_empty(), "{dangerous:?}");
    let plain: Vec<&str> = profile["syscalls"][0]["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert!(
        plain.is_sorted() && plain.windows(2).all(|pair| pair[0] != pair[1]),
        "{plain:?}"
    );
}
