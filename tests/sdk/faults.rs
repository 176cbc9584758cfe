//! Each SDK without ojs-init, check by check: `+` holds, `-` does not.

use crate::requirements;
use crate::sdk::Kind;

/// In the order of the requirements.
fn row(kind: Kind) -> [&'static str; 9] {
    match kind {
        // Its ACKs need a context that is over at the signal.
        Kind::Go => ["+---+", "+---+", "+-", "--", "---+", "---", "+--", "--", "--"],
        // After the grace period it is there until its handlers return. The second SIGTERM meets no
        // handler.
        Kind::JavaScript => ["+-+-+", "+-+-+", "-+", "--", "----", "---", "++-", "--", "--"],
        // Its grace period is 25 s, always.
        Kind::Python => ["+-+-+", "+-+-+", "--", "--", "----", "---", "+--", "+-", "--"],
        Kind::Ruby => ["+-+-+", "+-+-+", "+-", "++", "---+", "---", "+--", "--", "--"],
        // SIGTERM kills it.
        Kind::Rust => ["+----", "+-+-+", "--", "--", "---+", "---", "---", "--", "--"],
        // Its status is 143.
        Kind::Java => ["+-+--", "+-+--", "+-", "--", "---+", "---", "+--", "--", "--"],
        // The worker ends when the jobs that it has fetched are done, whenever that is.
        Kind::Php => ["+-+-+", "+-+-+", "-+", "--", "----", "---", "+--", "--", "--"],
    }
}

/// Whether that check of the requirement holds for workers of that kind.
pub fn holds(kind: Kind, id: &str, number: usize) -> bool {
    let index = requirements::ALL.iter().position(|requirement| requirement.id == id);
    row(kind)[index.unwrap()].as_bytes()[number] == b'+'
}
