//! The backend's side: requests out, replies in (HTTP bindings of the Open Job Spec).

pub(super) mod delivery;
pub(super) mod elements;
pub mod envelope;
pub mod failure;
pub(super) mod raw_json;
pub(super) mod reply;
pub mod request;
pub mod spare;
pub mod split;
pub mod stream;
pub(super) mod timestamp;
pub(super) mod trace;
pub(super) mod words;
