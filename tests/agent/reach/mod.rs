//! How the backend is reached: by which addresses.

mod names;
