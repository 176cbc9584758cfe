//! The children of each thread, as the kernel lists them. No process has to be asked for its
//! parent.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use crate::process::{Numbers, Pid, check_proc, is_gone, numbers_in};

/// Bytes read at a time of a list of children. The kernel stops before a page is full, and not
/// before half of it is.
const CHILDREN_BYTES: usize = 4 << 10;

/// The numbers of the threads of this process. `None`: the process has ended.
///
/// # Errors
///
/// No descriptor is left to read `/proc`, for example.
pub fn threads_of(pid: Pid) -> io::Result<Option<Numbers>> {
    match numbers_in(&format!("/proc/{pid}/task")) {
        Err(error) if is_gone(&error) => Ok(None),
        numbers => numbers.map(Some),
    }
}

/// The processes that this thread has started or adopted, zombies included. If some of them end
/// meanwhile, others may be left out.
///
/// # Errors
///
/// As for [`threads_of`].
pub fn children_of_thread(pid: Pid, thread: i32) -> io::Result<Vec<Pid>> {
    match File::open(format!("/proc/{pid}/task/{thread}/children")) {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        list => read(&list?, &mut Vec::new()),
    }
}

/// The processes on this list of children, from its beginning. `buffer` is memory to reuse.
pub(crate) fn read(list: &File, buffer: &mut Vec<u8>) -> io::Result<Vec<Pid>> {
    let mut length = 0;
    loop {
        buffer.resize(length + CHILDREN_BYTES, 0);
        let room = buffer.get_mut(length..).unwrap_or_default();
        match list.read_at(room, u64::try_from(length).unwrap_or(u64::MAX)) {
            Ok(count) => {
                length += count;
                if count < CHILDREN_BYTES / 2 {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(error),
        }
    }
    let text = buffer.get(..length).unwrap_or_default();
    let numbers = text.split(|byte| *byte == b' ').filter_map(|word| {
        let number = std::str::from_utf8(word).ok()?.parse().ok()?;
        (number > 0).then(|| Pid::new(number))
    });
    Ok(numbers.collect())
}

/// Whether the kernel lists children by their parents (`CONFIG_PROC_CHILDREN`), in a `/proc` of
/// this PID namespace.
pub fn lists_children() -> bool {
    let own = Pid::own();
    check_proc().is_ok() && File::open(format!("/proc/{own}/task/{own}/children")).is_ok()
}
