//! Processes that are taken for the worker, whatever it is made of and whoever else is there.
#![allow(clippy::disallowed_methods, reason = "strangers are processes that the test starts")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::gateway::worker;
use crate::operator::{self, Place};
use crate::stage::{Init, Stage};
use crate::system_calls::SystemCalls;

/// Connects to the port `$1`, asks, and shows the first line of the answer.
const ASKS: &str =
    r#"exec 3<>/dev/tcp/127.0.0.1/$1; printf 'GET / HTTP/1.1\r\n\r\n' >&3; IFS= read -r line <&3; echo "$line""#;

/// `many` starts so many processes at once. Each does `before` and then, when all are there, asks
/// on new connections: whoever is answered 200 each time notes that. They live on.
const CROWD: &str = r#"
import resource
def many(count, before=lambda: None, asks=3):
    there, all_there = os.pipe(), os.pipe()
    def one():
        os.close(all_there[1])
        before()
        os.write(there[1], b".")
        os.read(all_there[0], 1)
        for _ in range(asks):
            link = Link()
            answer = link.ask(post("heartbeat", worker_id="w%d" % os.getpid()))
            link.socket.close()
            if answer[0] != 200:
                return note("refused", answer[0])
        note("one is served")
        rest()
    for _ in range(count):
        child(one)
    for _ in range(count):
        os.read(there[0], 1)
    os.close(all_there[1])
"#;

fn proof(stage: &Stage, init: &Init) -> String {
    let came = operator::run(stage, init, &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&came.stdout).unwrap();
    status["caller_proof"].as_str().unwrap_or_default().to_owned()
}

fn count(lines: &[String], text: &str) -> usize {
    lines.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn each_of_many_processes_with_many_descriptors_is_the_worker() {
    let stage = Stage::new();
    let script = format!(
        r#"{CROWD}
files = []
many(40, lambda: files.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(600)))
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    init.notes_times("one is served", 40);
    init.stops();
}

#[test]
fn more_processes_than_the_soft_limit_has_descriptors_are_all_the_worker_and_have_that_limit_themselves() {
    let stage = Stage::new();
    let script = format!(
        r#"{CROWD}
note("limit", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
many(280)
rest()
"#
    );
    let mut init = worker(&stage, &script)
        .through(&["sh", "-c", "ulimit -Sn 256; exec \"$@\"", "sh"])
        .start();
    assert_eq!(init.noted("limit"), "256");
    init.notes_times("one is served", 280);
    init.stops();
}

#[test]
fn where_there_is_no_descriptor_for_each_process_they_are_all_served_and_one_warning_says_so() {
    let stage = Stage::new();
    let script = format!(
        r#"{CROWD}
many(150)
rest()
"#
    );
    let mut init = worker(&stage, &script)
        .through(&["sh", "-c", "ulimit -n 128; exec \"$@\"", "sh"])
        .start();
    init.notes_times("one is served", 150);
    init.logs("held on to");
    assert_eq!(count(&init.complaints(), "held on to"), 1, "{}", init.story());
    init.stops();
}

#[test]
fn strangers_that_keep_thousands_of_connections_hold_up_nobody() {
    let stage = Stage::new();
    let script = r#"
import resource
def stranger():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    os.setgroups([])
    os.setgid(12345)
    os.setuid(12345)
    address = urllib.parse.urlsplit(os.environ["OJS_URL"])
    links = {}
    while True:
        while len(links) < 2400:
            link = socket.socket()
            link.setblocking(False)
            link.connect_ex((address.hostname, address.port))
            links[link] = time.monotonic()
        if not os.path.exists(os.environ["NOTES"] + ".there"):
            open(os.environ["NOTES"] + ".there", "w").close()
        time.sleep(0.05)
        for link, since in list(links.items()):
            if time.monotonic() - since > 6:
                del links[link]
                link.close()
child(stranger)
while not os.path.exists(os.environ["NOTES"] + ".there"):
    time.sleep(0.01)
longest = 0
for number in range(40):
    began = time.monotonic()
    assert Link().ask(post("heartbeat", worker_id="w"))[0] == 200
    longest = max(longest, time.monotonic() - began)
    time.sleep(0.1)
note("longest", longest)
rest()
"#;
    let mut init = worker(&stage, script).start();
    let longest: f64 = init.noted("longest").parse().unwrap();
    assert!(longest < 3.0, "{longest} s");
    init.stops();
}

#[test]
fn where_we_may_not_look_a_right_bearer_and_none_pass_and_a_wrong_one_does_not() {
    let stage = Stage::new();
    let script = r#"
def beat(*headers):
    return Link().ask(request("POST", "/ojs/v1/workers/heartbeat", {"worker_id": "w"}, headers))[0]
note("none", beat(), beat())
note("right", beat("Authorization: Bearer " + os.environ["OJS_AUTH_TOKEN"]))
note("wrong", beat("Authorization: Bearer hunter2"))
rest()
"#;
    let mut init = worker(&stage, script)
        .with("OJS_USER", "12345:12345")
        .through(&["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"])
        .start();
    assert_eq!(init.noted("none"), "200 200");
    assert_eq!(init.noted("right"), "200");
    assert_eq!(init.noted("wrong"), "403");
    init.logs("the worker sends no bearer");
    assert_eq!(
        count(&init.complaints(), "the worker sends no bearer"),
        1,
        "{}",
        init.story()
    );
    assert_eq!(proof(&stage, &init), "uid and bearer");
    init.stops();
}

/// System calls of an init for this many connections of its worker and of strangers, with so many
/// other processes in its PID namespace.
fn lookup_calls(others: usize) -> u32 {
    const EACH: usize = 25;
    let stage = Stage::new();
    let script = format!(
        r#"
beat = post("heartbeat", worker_id="w")
assert Link().ask(beat)[0] == 200
note("port", urllib.parse.urlsplit(os.environ["OJS_URL"]).port)
orders("connect")
# All are open at once, so that each has another descriptor.
links = [Link() for _ in range({EACH})]
note("served", all(link.ask(beat)[0] == 200 for link in links))
rest()
"#
    );
    let mut init = worker(&stage, &script).start();
    let port: u16 = init.noted("port").parse().unwrap();
    let mut command = Command::new("bash");
    command.args([
        "-c",
        "for ((i = 0; i < $1; i++)); do sleep 600 & done; echo started; wait",
        "others",
    ]);
    command.arg(others.to_string()).stdout(Stdio::piped());
    let mut crowd = operator::command_in(Place::Inside, &init, command);
    crowd.stdout.take().unwrap().read_exact(&mut [0; 8]).unwrap();
    let counting = SystemCalls::count(&init, &stage.at("strace"));
    for _ in 0..EACH {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut answer = String::new();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stranger.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
    init.order("connect");
    assert_eq!(init.noted("served"), "True");
    let counted = counting.end();
    // Its end waits for whoever is in its namespace and is ours to reap.
    crowd.kill().unwrap();
    crowd.wait().unwrap();
    init.stops();
    println!("with {others} others: {counted:?}");
    counted
        .iter()
        .filter(|(name, _)| *name != "total")
        .map(|(_, calls)| calls)
        .sum()
}

#[test]
fn a_connection_costs_the_same_however_many_other_processes_the_machine_has() {
    let [alone, crowded] = [0, 300].map(lookup_calls);
    assert!(
        crowded < alone + alone / 4,
        "{alone} system calls alone, {crowded} with 300 other processes"
    );
}

#[test]
fn the_status_says_which_proof_is_in_force() {
    for (allow, expected) in [("worker", "process"), ("uid", "uid"), ("any", "none")] {
        let stage = Stage::new();
        let mut init = worker(&stage, "note('there', 1)\nrest()")
            .with("OJS_GATEWAY_ALLOW", allow)
            .start();
        init.noted("there");
        assert_eq!(proof(&stage, &init), expected, "{allow}");
        init.stops();
    }
}

#[test]
fn the_same_user_is_told_403_where_it_is_no_descendant_of_ours_and_where_it_is_in_another_pid_namespace() {
    let stage = Stage::new();
    let script = r#"
note("port", urllib.parse.urlsplit(os.environ["OJS_URL"]).port)
note("worker", Link().ask(post("heartbeat", worker_id="w"))[0])
rest()
"#;
    let mut init = worker(&stage, script).start();
    let port = init.noted("port");
    assert_eq!(init.noted("worker"), "200");
    let here = TcpStream::connect(("127.0.0.1", port.parse().unwrap()));
    let mut here = here.unwrap();
    here.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    here.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    for (place, words) in [
        (Place::Inside, &["bash"][..]),
        (Place::Outside, &["unshare", "--pid", "--fork", "bash"]),
    ] {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["-c", ASKS, "stranger", &port]);
        command.stdout(Stdio::piped());
        let stranger = operator::command_in(place, &init, command);
        let said = String::from_utf8(stranger.wait_with_output().unwrap().stdout).unwrap();
        assert!(said.starts_with("HTTP/1.1 403 "), "{words:?}: {said}");
    }
    init.stops();
}

#[test]
fn a_worker_that_closes_itself_to_us_after_its_start_is_known_by_its_uid_and_bearer() {
    let stage = Stage::new();
    let script = r#"
import ctypes
assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
def beat(*headers):
    return Link().ask(request("POST", "/ojs/v1/workers/heartbeat", {"worker_id": "w"}, headers))[0]
note("right", beat("Authorization: Bearer " + os.environ["OJS_AUTH_TOKEN"]))
note("none", beat())
note("wrong", beat("Authorization: Bearer hunter2"))
rest()
"#;
    let mut init = worker(&stage, script)
        .through(&["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"])
        .start();
    assert_eq!(init.noted("right"), "200");
    assert_eq!(init.noted("none"), "200");
    assert_eq!(init.noted("wrong"), "403");
    init.logs("keeps its memory to itself");
    assert_eq!(
        count(&init.complaints(), "keeps its memory to itself"),
        1,
        "{}",
        init.story()
    );
    init.stops();
}
