//! `LISTEN_PID`: the process that the sockets of `LISTEN_FDS` are for. A program uses them only if
//! that is its pid.

use std::ffi::{CStr, c_char};

use crate::entry::value_of;

/// The name of the variable.
pub(crate) const NAME: &str = "LISTEN_PID";

/// The variable's name and the equals sign, then the digits of the longest pid and a NUL byte.
const BYTES: usize = NAME.len() + 1 + 10 + 1;

/// The entry of an environment. The pid of a child is known only to the child itself, before it
/// executes its program.
#[derive(Debug)]
pub(crate) struct ListenPid([u8; BYTES]);

impl Default for ListenPid {
    fn default() -> Self {
        let mut bytes = [0; BYTES];
        let begin = NAME.bytes().chain([b'=']);
        bytes.iter_mut().zip(begin).for_each(|(place, byte)| *place = byte);
        Self(bytes)
    }
}

impl ListenPid {
    /// Replaces the variable in an environment; this value has to live as long as the environment
    /// is used.
    pub(crate) fn take_place(&self, environment: &mut [*const c_char]) {
        for entry in environment {
            // SAFETY: the entries of an environment are C strings.
            let bytes = unsafe { CStr::from_ptr(*entry) }.to_bytes();
            if value_of(bytes, NAME).is_some() {
                *entry = self.0.as_ptr().cast();
            }
        }
    }

    /// Writes this pid. Allocates nothing, because it runs between fork and exec.
    pub(crate) fn set(&mut self, pid: i32) {
        let mut divisor = 1;
        while pid / divisor >= 10 {
            divisor *= 10;
        }
        let digits = self.0.iter_mut().skip(NAME.len() + 1);
        for place in digits {
            *place = match divisor {
                0 => 0,
                _ => b'0' + u8::try_from(pid / divisor % 10).unwrap_or_default(),
            };
            divisor /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pid_is_spelled_as_a_number() {
        for pid in [1, 9, 10, 4_194_304, i32::MAX, 100, 7] {
            let mut entry = ListenPid::default();
            entry.set(12_345);
            entry.set(pid);
            let text = CStr::from_bytes_until_nul(&entry.0).unwrap().to_str().unwrap();
            assert_eq!(text, format!("LISTEN_PID={pid}"));
        }
    }

    #[test]
    fn it_takes_the_place_of_the_variable_and_of_nothing_else() {
        let entry = ListenPid::default();
        let before = [c"A=1", c"LISTEN_PID=1", c"LISTEN_PIDS=1"];
        let mut pointers = before.map(CStr::as_ptr);
        entry.take_place(&mut pointers);
        assert_eq!([pointers[0], pointers[2]], [before[0].as_ptr(), before[2].as_ptr()]);
        assert_eq!(pointers[1], entry.0.as_ptr().cast());
    }
}
