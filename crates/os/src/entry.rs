//! The start of the process: before `main`, and `main` itself. And its end without destructors.
//!
//! The standard library's start-up is not used, because it opens descriptors 0 to 2 if they are
//! closed, ignores SIGPIPE and installs fault handlers. An init must pass all of these to the child
//! unchanged. So `main` is the C one, and arguments and environment are the kernel's memory,
//! untouched.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// The arguments and the environment of this process, as the kernel gave them.
#[derive(Debug)]
pub struct Invocation {
    /// The arguments, the program's name first.
    pub args: Vec<OsString>,
    pub environ: Environ,
}

/// The environment block as the kernel laid it out, entries without `=` and duplicates included.
///
/// There is only one, so that no code reads an entry while it is overwritten.
#[derive(Debug)]
pub struct Environ(*const *const c_char);

impl Environ {
    /// The entries, each normally `NAME=value`.
    pub fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.pointers().map(|entry| {
            // SAFETY: each entry is a C string that lives as long as the process. The one writer is
            // `overwrite`, which needs `self` for itself alone.
            unsafe { CStr::from_ptr(entry) }.to_bytes()
        })
    }

    pub(crate) fn pointers(&self) -> impl Iterator<Item = *const c_char> + use<> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: `next` walks the environment block of this process, which is terminated by a
            // null pointer and whose pointers no code changes for as long as the process lives.
            let entry = unsafe { *next };
            if entry.is_null() {
                return None;
            }
            // SAFETY: not the terminator yet, so one further element exists.
            next = unsafe { next.add(1) };
            Some(entry)
        })
    }

    /// The value of the first entry with this name.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.entries()
            .find_map(|entry| value_of(entry, name))
            .map(OsStr::from_bytes)
    }

    /// Overwrites the value of every entry with this name with zeros, in the memory that
    /// `/proc/PID/environ` shows: an empty variable is left. Returns the number of entries.
    ///
    /// Call this before the first thread is started: a thread that reads the environment meanwhile,
    /// for example by `getenv`, could see half a value. A [`ChildPlan`](crate::child::ChildPlan)
    /// that passes the value on has to copy the environment first.
    pub fn overwrite(&mut self, name: &str) -> usize {
        let mut overwritten = 0;
        for entry in self.pointers() {
            // SAFETY: as in `entries`; the slice is gone before the first byte is written.
            let length = value_of(unsafe { CStr::from_ptr(entry) }.to_bytes(), name).map(<[u8]>::len);
            let Some(length) = length else { continue };
            overwritten += 1;
            for offset in 0..length {
                // SAFETY: within the value of this entry, whose terminator stays. The kernel made
                // the block writable, and no reference into it exists: those of `entries` and
                // `value` borrow `self`. Volatile, because the reader is another process.
                unsafe { entry.cast_mut().add(name.len() + 1 + offset).write_volatile(0) };
            }
        }
        overwritten
    }

    /// A second handle of the block, for a caller that passes it on and neither writes it nor hands
    /// out references into it.
    pub(crate) fn alias(&self) -> Self {
        Self(self.0)
    }

    /// The block itself, for `execve`.
    pub fn as_ptr(&self) -> *const *const c_char {
        self.0
    }
}

/// The value of an entry that has this name.
pub(crate) fn value_of<'a>(entry: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Collects the arguments of `main` and calls `run`; the result is the exit status.
///
/// # Safety
///
/// The three arguments must be those of the C `main`: `argc` valid C strings in `argv`, and both
/// arrays ended by a null pointer and never changed afterwards.
pub unsafe fn start(
    argc: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
    run: fn(Invocation) -> u8,
) -> c_int {
    let count = usize::try_from(argc).unwrap_or(0);
    let args = (0..count)
        .map(|index| {
            // SAFETY: the caller promises `argc` C strings.
            let arg = unsafe { CStr::from_ptr(*argv.add(index)) };
            OsStr::from_bytes(arg.to_bytes()).to_os_string()
        })
        .collect();
    c_int::from(run(Invocation {
        args,
        environ: Environ(envp),
    }))
}

/// Ends the process with this status at once. No destructor and no exit handler runs.
pub fn leave(status: u8) -> ! {
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(c_int::from(status)) }
}

/// Makes `run: fn(Invocation) -> u8` the program: blocks every signal while the image is being
/// loaded, then calls it. The program allocates from `os::allocator`.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        #[global_allocator]
        static ALLOCATOR: $crate::allocator::Allocator = $crate::allocator::Allocator;

        /// The kernel drops a signal that PID 1 neither blocks nor handles, so blocking is the
        /// first step. A constructor of the lowest priority number runs before every other
        /// constructor and before `main`.
        #[used]
        #[allow(unsafe_code)]
        #[unsafe(link_section = ".init_array.00001")]
        static BLOCK_SIGNALS: extern "C" fn() = $crate::signals::block_all_at_load;

        /// The C entry point; the standard library's own is not used (see `os::entry`).
        ///
        /// # Safety
        ///
        /// For the C runtime alone, which calls it once with the arguments of the process.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn main(
            argc: ::std::ffi::c_int,
            argv: *const *const ::std::ffi::c_char,
            envp: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: these are the arguments that the C runtime calls `main` with.
            unsafe { $crate::entry::start(argc, argv, envp, $run) }
        }
    };
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A block of these entries. Like the kernel's block it is never freed.
    pub fn block(entries: &[&str]) -> Environ {
        let pointers = entries
            .iter()
            .map(|entry| std::ffi::CString::new(*entry).unwrap().into_raw().cast_const());
        let pointers: Vec<_> = pointers.chain([std::ptr::null()]).collect();
        Environ(pointers.leak().as_ptr())
    }

    #[test]
    fn a_secret_is_overwritten_in_place_and_nothing_else_is() {
        let before = [
            "A=1",
            "SECRET=abc",
            "SECRET",
            "SECRETS=x",
            "MY_SECRET=y",
            "SECRET=def",
            "Z=SECRET=1",
        ];
        let mut environ = block(&before);
        let secret = environ.value("SECRET").unwrap().as_bytes().as_ptr();
        assert_eq!(environ.overwrite("SECRET"), 2);
        // SAFETY: three bytes and the terminator of a block that is never freed.
        assert_eq!(unsafe { std::slice::from_raw_parts(secret, 4) }, [0; 4]);
        let after: Vec<_> = environ.entries().collect();
        let expected = [
            "A=1",
            "SECRET=",
            "SECRET",
            "SECRETS=x",
            "MY_SECRET=y",
            "SECRET=",
            "Z=SECRET=1",
        ];
        assert_eq!(after, expected.map(str::as_bytes));
    }

    #[test]
    fn what_is_not_there_is_not_overwritten() {
        let mut environ = block(&["A=1", "SECRET"]);
        assert_eq!(environ.overwrite("SECRET"), 0);
        assert_eq!(environ.entries().collect::<Vec<_>>(), [&b"A=1"[..], b"SECRET"]);
    }
}
