//! The frames that every implementation of the worker socket is tested with.

use std::fs;

use serde_json::Value;

/// One line of `clients/fixtures/frames.jsonl`.
pub struct Vector {
    pub name: String,
    pub from: From,
    pub line: String,
    /// For a frame that is refused: the error's code, and the job that the error names.
    pub refused: Option<(String, Option<String>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    Worker,
    OjsInit,
}

pub fn all() -> Vec<Vector> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/fixtures/frames.jsonl");
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(vector).collect()
}

pub fn from(side: From) -> Vec<Vector> {
    all().into_iter().filter(|vector| vector.from == side).collect()
}

fn vector(line: &str) -> Vector {
    const FIELDS: [&str; 7] = ["name", "from", "line", "valid", "code", "job_id", "note"];
    let object: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
    assert!(object.keys().all(|key| FIELDS.contains(&key.as_str())), "{line}");
    let text = |name: &str| object.get(name).map(|value| value.as_str().unwrap().to_owned());
    let refused = text("code").map(|code| (code, text("job_id")));
    assert_eq!(object["valid"].as_bool(), Some(refused.is_none()), "{line}");
    Vector {
        name: text("name").unwrap(),
        from: match object["from"].as_str().unwrap() {
            "worker" => From::Worker,
            "ojs-init" => From::OjsInit,
            other => panic!("{other}"),
        },
        line: text("line").unwrap(),
        refused,
    }
}
