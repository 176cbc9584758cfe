//! Reads the file of a program to find why the kernel does not run it.

use std::env::consts::ARCH;
use std::ffi::{OsStr, c_char};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most bytes of the file that are read: headers and the name of a loader are at its beginning.
const READ_BYTES: usize = 4096;

/// A file is no text if its first line, within this many bytes, has a NUL byte.
const TEXT_BYTES: usize = 256;

/// The beginning of an ELF file.
const ELF: &[u8] = b"\x7fELF";

/// The type of the program header that names the loader (`PT_INTERP`).
const LOADER: u64 = 3;

/// Runs a script that has no `#!` line.
const SHELL: &str = "/bin/sh";

/// Machines that an ELF file may be for, by their numbers, with the names that Rust and `uname -m`
/// have for them.
const MACHINES: [(u64, &str); 8] = [
    (3, "x86"),
    (8, "mips"),
    (21, "powerpc64"),
    (22, "s390x"),
    (40, "arm"),
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv64"),
];

/// Machines whose kernels may also run programs for another one: this machine, and the other.
const COMPATIBLE: [(&str, &str); 2] = [("x86_64", "x86"), ("aarch64", "arm")];

/// The first bytes of programs for other systems.
const FOREIGN: [(&[u8], &str); 5] = [
    (b"MZ", "Windows"),
    (b"\xcf\xfa\xed\xfe", "macOS"),
    (b"\xce\xfa\xed\xfe", "macOS"),
    (b"\xca\xfe\xba\xbe", "macOS (or it is a Java class)"),
    (b"\xfe\xed\xfa\xcf", "macOS"),
];

/// The reason why a program cannot run, found in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFault {
    /// For a person.
    pub words: String,
    /// True if a file that this one names is missing, false if this one cannot run here.
    pub is_missing: bool,
}

impl ProgramFault {
    fn missing(words: String) -> Self {
        Self {
            words,
            is_missing: true,
        }
    }

    fn foreign(words: String) -> Self {
        Self {
            words,
            is_missing: false,
        }
    }
}

/// The reason why the kernel does not run this file. `None`: no reason is found, or the file cannot
/// be read.
pub fn trouble(path: &Path) -> Option<ProgramFault> {
    let mut beginning = Vec::with_capacity(READ_BYTES);
    let most = u64::try_from(READ_BYTES).unwrap_or(u64::MAX);
    File::open(path).ok()?.take(most).read_to_end(&mut beginning).ok()?;
    trouble_in(&beginning, &|path| path.exists(), has_other_interpreters())
}

/// `is_there`: whether a file exists. `are_others_run`: the kernel has rules to run programs of
/// other kinds (`binfmt_misc`).
fn trouble_in(file: &[u8], is_there: &dyn Fn(&Path) -> bool, are_others_run: bool) -> Option<ProgramFault> {
    if let Some(line) = file.strip_prefix(b"#!") {
        return script(line.split(|byte| *byte == b'\n').next().unwrap_or_default(), is_there);
    }
    if file.starts_with(ELF) {
        return elf(file, is_there, are_others_run);
    }
    if are_others_run {
        return None;
    }
    if is_no_text(file) {
        let foreign = FOREIGN.iter().find(|(begin, _)| file.starts_with(begin));
        let words = foreign.map_or_else(
            || "it is a binary file, and none that Linux runs".to_owned(),
            |(_, system)| format!("it is a program for {system}"),
        );
        return Some(ProgramFault::foreign(words));
    }
    let needs_shell = !file.is_empty() && !is_there(Path::new(SHELL));
    needs_shell.then(|| {
        ProgramFault::missing(format!(
            "it is a script without a #! line, and there is no {SHELL} to run it"
        ))
    })
}

/// The line behind `#!`.
fn script(line: &[u8], is_there: &dyn Fn(&Path) -> bool) -> Option<ProgramFault> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let has_windows_end = line.last() == Some(&b'\r');
    let mut words = line.split(is_blank).filter(|word| !word.is_empty());
    let Some(interpreter) = words.next().filter(|word| *word != b"\r") else {
        return Some(ProgramFault::missing(
            "its first line names no interpreter behind #!".to_owned(),
        ));
    };
    let path = Path::new(OsStr::from_bytes(interpreter));
    let ends = if has_windows_end {
        "; its lines end as on Windows, with a carriage return: remove these, as dos2unix does"
    } else {
        ""
    };
    if path.is_absolute() && !is_there(path) {
        let name = String::from_utf8_lossy(interpreter);
        return Some(ProgramFault::missing(format!(
            "its first line names the interpreter {name:?}, which does not exist{ends}"
        )));
    }
    if has_windows_end && path.file_name() == Some(OsStr::new("env")) {
        let name = String::from_utf8_lossy(words.next_back().unwrap_or_default());
        return Some(ProgramFault::missing(format!(
            "its first line has env look for {name:?}, which does not exist{ends}"
        )));
    }
    None
}

fn elf(file: &[u8], is_there: &dyn Fn(&Path) -> bool, are_others_run: bool) -> Option<ProgramFault> {
    let header = Elf::read(file)?;
    let machine = header.number(18, 2)?;
    let name = MACHINES
        .iter()
        .find(|(number, _)| *number == machine)
        .map(|(_, name)| *name);
    let is_ours = name.is_none_or(|name| name == ARCH || COMPATIBLE.contains(&(ARCH, name)));
    if !is_ours && !are_others_run {
        let name = name.unwrap_or_default();
        return Some(ProgramFault::foreign(format!(
            "it is a program for {name}, and this machine is {ARCH}"
        )));
    }
    let loader = header.loader()?;
    let path = Path::new(OsStr::from_bytes(loader));
    let is_missing = is_ours && path.is_absolute() && !is_there(path);
    is_missing.then(|| {
        let name = path.display();
        ProgramFault::missing(format!(
            "it needs the loader {name}, which does not exist; it was built for another system, with another C library"
        ))
    })
}

/// An ELF file.
struct Elf<'a> {
    file: &'a [u8],
    is_64: bool,
    is_little: bool,
}

impl<'a> Elf<'a> {
    fn read(file: &'a [u8]) -> Option<Self> {
        Some(Self {
            file,
            is_64: *file.get(4)? == 2,
            is_little: *file.get(5)? == 1,
        })
    }

    fn number(&self, at: usize, length: usize) -> Option<u64> {
        let bytes = self.file.get(at..at.checked_add(length)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.is_little {
            bytes.iter().rev().fold(0, add)
        } else {
            bytes.iter().fold(0, add)
        })
    }

    /// The name of the program that loads it and its libraries.
    fn loader(&self) -> Option<&'a [u8]> {
        let (table, size, count) = if self.is_64 {
            (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?)
        } else {
            (self.number(28, 4)?, self.number(42, 2)?, self.number(44, 2)?)
        };
        for index in 0..count {
            let at = usize::try_from(table.checked_add(index.checked_mul(size)?)?).ok()?;
            if self.number(at, 4)? != LOADER {
                continue;
            }
            let (offset, length) = if self.is_64 {
                (
                    self.number(at.checked_add(8)?, 8)?,
                    self.number(at.checked_add(32)?, 8)?,
                )
            } else {
                (
                    self.number(at.checked_add(4)?, 4)?,
                    self.number(at.checked_add(16)?, 4)?,
                )
            };
            let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
            let name = self.file.get(offset..offset.checked_add(length)?)?;
            return name.split(|byte| *byte == 0).next();
        }
        None
    }
}

/// Decides as shells do: a script may carry binary data behind its first line, as self-extracting
/// programs and programs for all systems do.
fn is_no_text(file: &[u8]) -> bool {
    let first_line = file.iter().take(TEXT_BYTES).take_while(|byte| **byte != b'\n');
    first_line.into_iter().any(|byte| *byte == 0)
}

fn has_other_interpreters() -> bool {
    let entries = std::fs::read_dir("/proc/sys/fs/binfmt_misc")
        .into_iter()
        .flatten()
        .flatten();
    entries
        .map(|entry| entry.file_name())
        .any(|name| name != "register" && name != "status")
}

/// Whether this file is no text, or cannot be read. For a child between fork and exec: system calls
/// only.
pub(crate) fn is_binary(path: *const c_char) -> bool {
    let mut beginning = [0_u8; TEXT_BYTES];
    // SAFETY: a C string, and as many writable bytes as the length says.
    let count = unsafe {
        let file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return true;
        }
        let count = libc::read(file, beginning.as_mut_ptr().cast(), beginning.len());
        libc::close(file);
        count
    };
    let read = usize::try_from(count).ok().and_then(|count| beginning.get(..count));
    read.is_none_or(is_no_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(file: &[u8]) -> Option<String> {
        let is_there = |path: &Path| [SHELL, "/usr/bin/env", "/lib/ld.so"].map(Path::new).contains(&path);
        trouble_in(file, &is_there, false).map(|trouble| trouble.words)
    }

    #[test]
    fn a_script_needs_its_interpreter() {
        for fine in [
            &b"#!/bin/sh\nexit"[..],
            b"#! /bin/sh -e\n",
            b"#!/usr/bin/env python3\n",
            b"exit 0\n",
            b"",
            b"#!sh\n",
            b"#!/bin/sh",
            b"exec tail -c +30 \"$0\"\n\x7f\0\0",
            b"MZqFpD='\n\0\0'\n",
        ] {
            assert_eq!(words(fine), None, "{}", String::from_utf8_lossy(fine));
        }
        for (file, part) in [
            (&b"#!/bin/bash\n"[..], "\"/bin/bash\", which does not exist"),
            (
                b"#!/bin/sh\r\nexit",
                "\"/bin/sh\\r\", which does not exist; its lines end as on Windows",
            ),
            (
                b"#!/usr/bin/env python3\r\n",
                "\"python3\\r\", which does not exist; its lines end as on Windows",
            ),
            (b"#!\n", "names no interpreter"),
            (b"#!\r\n", "names no interpreter"),
            (b"#!", "names no interpreter"),
        ] {
            let said = words(file).unwrap_or_default();
            assert!(said.contains(part), "{}: {said}", String::from_utf8_lossy(file));
        }
    }

    /// An ELF file of 64 bits for this machine, with this loader.
    fn elf_file(machine: u8, is_little: bool, loader: &str) -> Vec<u8> {
        let mut file = vec![0; 256];
        let mut put = |at: usize, length: usize, value: u8| {
            file[if is_little { at } else { at + length - 1 }] = value;
        };
        put(18, 2, machine);
        put(32, 8, 64);
        put(54, 2, 56);
        put(56, 2, 2);
        put(64, 4, 1);
        put(64 + 56, 4, 3);
        put(64 + 56 + 8, 8, 200);
        put(64 + 56 + 32, 8, u8::try_from(loader.len() + 1).unwrap());
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, if is_little { 1 } else { 2 }]);
        file[200..200 + loader.len()].copy_from_slice(loader.as_bytes());
        file
    }

    #[test]
    fn a_program_for_another_machine_is_named() {
        let (own, other, number) = if ARCH == "x86_64" {
            (62, "aarch64", 183)
        } else {
            (183, "x86_64", 62)
        };
        assert_eq!(words(&elf_file(own, true, "/lib/ld.so")), None);
        let said = words(&elf_file(number, true, "/lib/ld.so")).unwrap();
        assert_eq!(said, format!("it is a program for {other}, and this machine is {ARCH}"));
        let said = words(&elf_file(22, false, "/lib/ld.so")).unwrap();
        assert!(said.contains("s390x"), "{said}");
        let said = words(&elf_file(own, true, "/lib64/other.so")).unwrap();
        assert!(
            said.contains("the loader /lib64/other.so, which does not exist"),
            "{said}"
        );
        let foreign = trouble_in(&elf_file(number, true, "/x"), &|_| false, true);
        assert_eq!(foreign, None, "somebody else may run it");
    }

    #[test]
    fn nothing_that_a_file_may_hold_is_more_than_trouble() {
        let whole = elf_file(62, true, "/lib/ld.so");
        for length in 0..whole.len() {
            let _ = words(&whole[..length]);
        }
        let mut wild = whole.clone();
        for at in 0..wild.len() {
            for byte in [0xff, 0x7f, 0] {
                wild[at] = byte;
                let _ = words(&wild);
                wild[at] = whole[at];
            }
        }
    }

    #[test]
    fn what_is_neither_text_nor_for_linux_is_named() {
        for (file, part) in [
            (&b"MZ\x90\0"[..], "Windows"),
            (b"\xcf\xfa\xed\xfe\x07\0", "macOS"),
            (b"a\0b", "binary"),
        ] {
            assert!(words(file).unwrap().contains(part));
        }
        let without_shell = trouble_in(b"exit 0\n", &|_| false, false).unwrap();
        assert!(without_shell.words.contains("no /bin/sh") && without_shell.is_missing);
    }
}
