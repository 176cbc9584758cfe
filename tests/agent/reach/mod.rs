//! How the backend is reached: by which addresses, and through which proxy.

mod names;
mod proxies;
mod token;
