//! The program's own file in memory.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, absolute};
use std::sync::OnceLock;

/// This program's file, even if it was moved or its directory is hidden from another user.
const OWN_FILE: &CStr = c"/proc/self/exe";

/// This program's file, to be executed once more. Without `/proc` this is the path by which it was
/// executed; `None` if no file is there any more. Call it first before the working directory
/// changes.
pub fn own_file() -> Option<&'static CStr> {
    static FOUND: OnceLock<Option<CString>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let exists = |path: &CStr| Path::new(OsStr::from_bytes(path.to_bytes())).exists();
        if exists(OWN_FILE) {
            return Some(OWN_FILE.to_owned());
        }
        let path = absolute(executed_as()?).ok()?;
        CString::new(path.as_os_str().as_bytes())
            .ok()
            .filter(|path| exists(path))
    });
    found.as_deref()
}

/// The path that `execve` was called with; a script's or a loader's caller may have called it by
/// another one.
fn executed_as() -> Option<&'static Path> {
    // SAFETY: a number in, a number out.
    let address = unsafe { libc::getauxval(libc::AT_EXECFN) };
    let path = std::ptr::with_exposed_provenance::<std::ffi::c_char>(usize::try_from(address).ok()?);
    if path.is_null() {
        return None;
    }
    // SAFETY: the kernel put a C string there, which never changes.
    let path = unsafe { CStr::from_ptr(path) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Releases the pages of the program's file that were read so far, because most of them were for
/// the start. The kernel reads needed pages again from its cache, as after any page that it
/// reclaimed itself. If a filter forbids it the pages stay.
pub fn let_go_of_pages() {
    // SAFETY: the function is called before this returns, and needs no data of this program.
    unsafe { libc::dl_iterate_phdr(Some(let_go_of_segments), std::ptr::null_mut()) };
}

/// Called for each object in memory, the program itself first, and not called again after that one.
unsafe extern "C" fn let_go_of_segments(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` calls with a description that is valid during the call.
    let object = unsafe { &*object };
    // SAFETY: the description names this many headers at this place.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    // SAFETY: a number in, a number out.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or_default();
    for header in headers {
        let is_code_or_constants = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0;
        let place = usize::try_from(object.dlpi_addr.wrapping_add(header.p_vaddr));
        let (true, Ok(place), Ok(length)) = (is_code_or_constants, place, usize::try_from(header.p_memsz)) else {
            continue;
        };
        let in_page = place.checked_rem(page).unwrap_or_default();
        let start = std::ptr::without_provenance_mut(place - in_page);
        // SAFETY: a segment that no code can write to: it reads the same from the file as it does
        // now.
        unsafe { libc::madvise(start, length + in_page, libc::MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KiB of files that are in this process's memory.
    fn resident_files() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn what_was_read_of_the_program_is_let_go_of_and_read_again() {
        let before = resident_files();
        let_go_of_pages();
        let after = resident_files();
        // The other tests run meanwhile.
        assert!(after < before, "{before} KiB, then {after}");
    }
}
