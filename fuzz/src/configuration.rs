//! A configuration file and an environment.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process;
use std::thread;

use ojs_init::config::{Environment, Flags, check_report, load, load_paths, salvage, show, warning_lines};

/// The file, then a zero byte before each entry of the environment.
pub fn configuration(data: &[u8]) {
    let mut parts = data.split(|byte| *byte == 0);
    let file = parts.next().unwrap_or_default();
    let place = Place::with(file);
    let named = [b"OJS_INIT_CONFIG=", place.0.as_os_str().as_bytes()].concat();
    let entries: Vec<&[u8]> = std::iter::once(named.as_slice()).chain(parts).collect();
    let environment = Environment::from_entries(entries.iter().copied());
    let flags = Flags::default();
    match load(&flags, &environment) {
        Ok(config) => {
            assert!(!show(&config).is_empty());
            assert!(check_report(&config).ends_with(&warning_lines(&config)));
        }
        Err(errors) => {
            let messages = errors.messages();
            assert!(!messages.is_empty() && messages.iter().all(|message| !message.is_empty()));
        }
    }
    let _ = load_paths(&flags, &environment);
    let _ = salvage(&flags, &environment);
}

/// A file that is gone with this value. One for each thread: tests share a process.
struct Place(PathBuf);

impl Place {
    fn with(text: &[u8]) -> Self {
        let name = format!("ojs-fuzz-{}-{:?}.toml", process::id(), thread::current().id());
        let path = std::env::temp_dir().join(name);
        fs::File::create(&path)
            .and_then(|mut file| file.write_all(text))
            .unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
