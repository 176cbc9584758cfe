//! Real connections of the test, looked up in both ways.
#![allow(clippy::unwrap_used, reason = "a test that cannot get at its answer has failed")]

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;

use super::*;

fn inode_of(stream: &TcpStream) -> u64 {
    let link = format!("/proc/self/fd/{}", stream.as_raw_fd());
    std::fs::metadata(link).unwrap().ino()
}

fn both_ways() -> [SocketQuestions; 2] {
    let asked = SocketQuestions::open();
    assert!(asked.netlink.is_some(), "this machine has no sock_diag");
    let looked_up = SocketQuestions {
        netlink: None,
        sequence: 0,
    };
    [asked, looked_up]
}

#[test]
fn a_connection_is_found_by_its_addresses_in_all_clothes() {
    for (listens, connects) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
        ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ("[::]:0", "127.0.0.1"),
    ] {
        let listener = TcpListener::bind(listens).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect((connects, port)).unwrap();
        let (server, peer) = listener.accept().unwrap();
        for mut questions in both_ways() {
            let owner = questions.owner(peer, server.local_addr().unwrap()).unwrap().unwrap();
            let own = nix::unistd::getuid().as_raw();
            assert_eq!(
                (owner.uid, owner.inode),
                (own, inode_of(&client)),
                "{listens} {connects}"
            );
        }
    }
}

#[test]
fn nobody_has_what_was_closed_or_never_was_and_who_listens_is_no_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap();
    let client = TcpStream::connect(here).unwrap();
    let (mut server, peer) = listener.accept().unwrap();
    drop(client);
    // A child that another test starts at this moment has a copy of it until it has exec'ed.
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    for mut questions in both_ways() {
        assert_eq!(questions.owner(peer, server.local_addr().unwrap()).unwrap(), None);
        let nobody: SocketAddr = "127.0.0.1:1".parse().unwrap();
        assert_eq!(questions.owner(nobody, here).unwrap(), None);
        assert_eq!(questions.owner(here, nobody).unwrap(), None, "that one listens");
    }
}

const LINE: &str =
    "   3: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20";

/// A file with that many lines of connections that have ended, then [`LINE`].
fn table_behind(ended: usize) -> String {
    let path = std::env::temp_dir().join(format!("ojs-init-table-{ended}-{}", std::process::id()));
    let mut text = LINE.replace("9C40", "9C41").replace(" 01 ", " 06 ") + "\n";
    text = text.repeat(ended) + LINE + "\n";
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_connection_is_found_behind_all_those_that_have_ended_and_where_they_are_too_many_nobody_says_that_it_is_not_there()
{
    let (local, remote) = ("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
    let most = usize::try_from(MOST_TABLE_BYTES).unwrap() / (LINE.len() + 1);
    let look = |ended| {
        let table = table_behind(ended);
        let found = look_up(&table, local, remote);
        std::fs::remove_file(&table).unwrap();
        found
    };
    for ended in [0, 131_072] {
        assert!(look(ended).unwrap().is_some(), "behind {ended}");
    }
    let error = look(most + 1).unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
}

#[test]
fn a_line_of_the_table_is_read_as_the_kernel_writes_it() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let (local, remote) = (address("127.0.0.1:40000"), address("127.0.0.1:8080"));
    let expected = SocketOwner { uid: 1000, inode: 4711 };
    assert_eq!(owner_in(LINE, local, remote), Some(expected));
    assert_eq!(owner_in(LINE, remote, local), None);
    assert_eq!(
        owner_in(&LINE.replace(" 01 ", " 06 "), local, remote),
        None,
        "it has ended"
    );
    let mapped = "0000000000000000FFFF00000100007F:1F90";
    assert_eq!(table_address(mapped), Some(remote));
    for nonsense in [
        "",
        "0100007F",
        "01:1F90",
        "0100007F:xyz",
        "sl local_address rem_address st",
    ] {
        assert_eq!(owner_in(nonsense, local, remote), None);
    }
}
