//! The gateway: workers that were built on an OJS SDK speak HTTP with us as if we were the backend.

pub mod caller;
pub mod environment;
