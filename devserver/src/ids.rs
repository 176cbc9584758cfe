//! Ids that the server makes up.

/// A fresh id of a job or of a request: a UUIDv7.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
