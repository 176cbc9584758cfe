//! Mode socket from outside: the real binary as PID 1 of its own PID namespace, real workers on its
//! socket, and a backend that does as it is told.
//!
//! Needs root (PID namespaces, other users) and python3. What happens is waited for; what must not
//! happen is watched for a short time.

mod admission;
mod backend_trouble;
mod broken_answers;
mod cancel_signals;
mod copies;
mod deaths;
mod delivery;
mod floods;
mod frames;
mod hangs;
mod inheritance;
mod memory;
mod recycling;
mod redelivery;
mod secrets;
mod short_limits;
mod shutdown;
mod stop_signals;
