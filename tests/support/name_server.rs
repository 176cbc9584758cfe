//! A name server whose answers are spelled by the names that it is asked for:
//! `servfail-address.test` has an IPv6 address, and a question for its IPv4 address fails. It
//! answers on UDP port 53 of the loopback of a network of a test's own.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Bits of a head: this is an answer, recursion was asked for and can be had.
const ANSWER: u16 = 0x8180;

const A: u16 = 1;
const AAAA: u16 = 28;

/// Makes this the content of /etc/resolv.conf for the calling thread and the processes that it
/// starts, and answers on the name server's port until the process ends. To be called in a network
/// of the test's own.
pub fn serve(dir: &Path, resolv_conf: &str) {
    let file = dir.join("resolv.conf");
    std::fs::write(&file, resolv_conf).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace needs root");
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some(&file), "/etc/resolv.conf", none, MsFlags::MS_BIND, none).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            if let Some(answer) = answer(&question[..length]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
}

/// The answer to a question, if there is one.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let (labels, end) = labels(question);
    let kind = u16::from_be_bytes([question[end], question[end + 1]]);
    let spelled = labels.iter().find_map(|label| label.split_once('-'));
    let (of_a, of_aaaa) = spelled.unwrap_or(("nxdomain", "nxdomain"));
    let (code, records): (u16, Vec<Vec<u8>>) = match (if kind == A { of_a } else { of_aaaa }, kind) {
        ("silent", _) => return None,
        ("address", A) => (0, vec![vec![127, 0, 0, 1]]),
        ("many", A) => (0, (1..=50).map(|last| vec![127, 0, 0, last]).collect()),
        ("address", AAAA) => (0, vec![std::net::Ipv6Addr::LOCALHOST.octets().to_vec()]),
        ("servfail", _) => (2, Vec::new()),
        ("nxdomain", _) => (3, Vec::new()),
        ("notimp", _) => (4, Vec::new()),
        ("refused", _) => (5, Vec::new()),
        _ => (0, Vec::new()),
    };
    let mut answer = question[..2].to_vec();
    answer.extend((ANSWER | code).to_be_bytes());
    for count in [1, u16::try_from(records.len()).unwrap(), 0, 0] {
        answer.extend(count.to_be_bytes());
    }
    answer.extend(&question[12..end + 4]);
    for record in records {
        // The name of the question, this kind, the class IN, 1 s to live.
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 1]);
        answer.extend(u16::try_from(record.len()).unwrap().to_be_bytes());
        answer.extend(record);
    }
    Some(answer)
}

/// The labels of the name that is asked for, in lower case, and where it ends.
fn labels(question: &[u8]) -> (Vec<String>, usize) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels, at + 1)
}
