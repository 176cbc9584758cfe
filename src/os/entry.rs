//! How the process begins: before `main`, and `main` itself.
//!
//! The standard library's own start-up is not used: it opens descriptors 0 to 2 when they are closed, ignores SIGPIPE
//! and installs fault handlers, and an init must hand all of that on to the child as it found it. So `main` is the C
//! one, and arguments and environment are the kernel's own memory, untouched.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// What the kernel gave this process.
#[derive(Debug)]
pub struct Invocation {
    /// The arguments, the program's name first.
    pub args: Vec<OsString>,
    /// The environment, byte for byte.
    pub environ: Environ,
}

/// The environment block as the kernel laid it out, entries without `=` and duplicates included.
#[derive(Debug, Clone, Copy)]
pub struct Environ(*const *const c_char);

impl Environ {
    /// The entries, each normally `NAME=value`.
    pub fn entries(self) -> impl Iterator<Item = &'static [u8]> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: `next` walks the environment block of this process, which is terminated by a null pointer and
            // is neither moved nor written for as long as the process lives.
            let entry = unsafe { *next };
            if entry.is_null() {
                return None;
            }
            // SAFETY: not the terminator yet, so one further element exists; each entry is a C string.
            let (bytes, after) = unsafe { (CStr::from_ptr(entry).to_bytes(), next.add(1)) };
            next = after;
            Some(bytes)
        })
    }

    /// The value of the first entry with this name.
    #[must_use]
    pub fn value(self, name: &str) -> Option<&'static OsStr> {
        self.entries().find_map(|entry| {
            entry
                .strip_prefix(name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="))
                .map(OsStr::from_bytes)
        })
    }

    /// The block itself, for `execve`.
    #[must_use]
    pub fn as_ptr(self) -> *const *const c_char {
        self.0
    }
}

/// Collects what `main` was called with and calls `run`; the result is the exit status.
///
/// # Safety
///
/// The three arguments must be those of the C `main`: `argc` valid C strings in `argv`, and both arrays ended by a
/// null pointer and never changed afterwards.
pub unsafe fn start(
    argc: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
    run: fn(&Invocation) -> u8,
) -> c_int {
    let count = usize::try_from(argc).unwrap_or(0);
    let args = (0..count)
        .map(|index| {
            // SAFETY: the caller promises `argc` C strings.
            let arg = unsafe { CStr::from_ptr(*argv.add(index)) };
            OsStr::from_bytes(arg.to_bytes()).to_os_string()
        })
        .collect();
    c_int::from(run(&Invocation {
        args,
        environ: Environ(envp),
    }))
}

/// Makes `run: fn(&Invocation) -> u8` the program: blocks every signal while the image is being loaded, then calls it.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        /// The kernel drops what PID 1 neither blocks nor handles, so the first act of all is to block. A constructor
        /// of the lowest priority number runs before every other constructor and before `main`.
        #[used]
        #[allow(unsafe_code)]
        #[unsafe(link_section = ".init_array.00001")]
        static BLOCK_SIGNALS: extern "C" fn() = $crate::os::signals::block_all_at_load;

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
            unsafe { $crate::os::entry::start(argc, argv, envp, $run) }
        }
    };
}
