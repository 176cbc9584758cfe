//! The file that an orchestrator shows of a container that ended (`kubectl describe pod`). ojs-init
//! never creates it, and writes to nothing but a regular file.
//!
//! The file is opened once, at the start. So an unusable path is known at once, no process can
//! replace the file, and the end needs no look-up on a file system that may hang by then. A write
//! can still hang, on a network mount for example. So a separate thread writes, and the exit waits
//! for it only a moment. That thread starts with the first text, at the end of the container's
//! life, so before that it costs nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use log::{debug, warn};
use nix::errno::Errno;
use nix::fcntl::OFlag;

use crate::config::{Config, Mode, keys};
use ojs_os::errno::meaning;
use ojs_os::threads;

/// The path that Kubernetes uses.
const USUAL_PATH: &str = "/dev/termination-log";

/// The value that turns the file off.
const OFF: &str = "off";

/// Longest that the exit waits for a text to be written. ojs-init ends half a second early, and
/// this is a part of it.
const FINISH_LIMIT: Duration = Duration::from_millis(100);

/// Texts that may wait for the thread: one life has two, as the stop phase begins and at the end.
const MOST_WAITING: usize = 2;

/// Stack of the thread in bytes; it formats a warning at most.
const WRITER_STACK_BYTES: usize = 32 * 1024;

/// The open file, if there is one.
#[derive(Debug, Default)]
pub struct TerminationLog {
    target: Option<Arc<TerminationFile>>,
    writer: Option<Writer>,
}

/// The file that is written to.
#[derive(Debug)]
struct TerminationFile {
    file: File,
    /// The file, as messages name it.
    name: String,
    has_failed: AtomicBool,
}

#[derive(Debug)]
struct Writer {
    texts: SyncSender<String>,
    /// Never receives a message: it closes with the thread.
    over: Receiver<()>,
}

impl TerminationLog {
    /// Opens the file as configured. Warns if a configured or existing file cannot be used.
    pub fn open(config: &Config) -> Self {
        let target = look(config).unwrap_or_else(|doubt| {
            warn!("{doubt}");
            None
        });
        Self {
            target: target.map(Arc::new),
            writer: None,
        }
    }

    /// The file at this path, or the usual one, for an error that prevents the configuration. An
    /// unusable file is ignored, because only the error has to be reported.
    pub fn open_for_error(configured: Option<&Path>) -> Self {
        let path = configured.unwrap_or(Path::new(USUAL_PATH));
        let file = if path == Path::new(OFF) { None } else { open(path).ok() };
        let target = file.map(|file| TerminationFile {
            file,
            name: path.display().to_string(),
            has_failed: AtomicBool::new(false),
        });
        Self {
            target: target.map(Arc::new),
            writer: None,
        }
    }

    /// Replaces the file's text with `text`, without waiting for the write.
    pub fn write(&mut self, text: String) {
        let Some(target) = &self.target else { return };
        if self.writer.is_none() {
            self.writer = Writer::start(target);
        }
        match &self.writer {
            Some(writer) => {
                // An earlier text hangs: then this one would as well.
                let _ = writer.texts.try_send(text);
            }
            // There is no thread, as at a limit of processes.
            None => target.replace(&text),
        }
    }

    /// Waits until the texts are written, 100 ms at most.
    pub fn finish(&mut self) {
        let Some(Writer { texts, over }) = self.writer.take() else {
            return;
        };
        drop(texts);
        if over.recv_timeout(FINISH_LIMIT) == Err(RecvTimeoutError::Timeout) {
            let name = self.target.as_ref().map_or("", |target| &target.name);
            warn!(
                "{name}: the termination log cannot be written in time, {} ms; ending without it; look at the node's disks",
                FINISH_LIMIT.as_millis()
            );
        }
    }
}

impl Writer {
    fn start(target: &Arc<TerminationFile>) -> Option<Self> {
        let (texts, to_write) = mpsc::sync_channel::<String>(MOST_WAITING);
        let (is_there, over) = mpsc::channel::<()>();
        let target = Arc::clone(target);
        let work = move || {
            for text in to_write {
                target.replace(&text);
            }
            drop(is_there);
        };
        match threads::spawn("termination-log", WRITER_STACK_BYTES, work) {
            Ok(()) => Some(Self { texts, over }),
            Err(error) => {
                debug!("no thread for the termination log: {error}");
                None
            }
        }
    }
}

impl TerminationFile {
    fn replace(&self, text: &str) {
        if let Err(error) = self.try_replace(text)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            warn!(
                "{}: cannot write the termination log: {error}; mount it writable, or set it to off",
                self.name
            );
        }
    }

    /// The text comes first, then the length. If ojs-init is killed in between, the whole text is
    /// there, followed by the rest of an older one.
    fn try_replace(&self, text: &str) -> io::Result<()> {
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(u64::try_from(text.len()).unwrap_or(u64::MAX))
    }
}

/// The file; `None` if it is turned off; or why it cannot be used.
fn look(config: &Config) -> Result<Option<TerminationFile>, String> {
    let configured = config.paths.termination_log.as_deref();
    if config.mode == Mode::None || configured == Some(Path::new(OFF)) {
        return Ok(None);
    }
    let name = config.settings.describe(&keys::TERMINATION_LOG);
    match open(configured.unwrap_or(Path::new(USUAL_PATH))) {
        Ok(file) => Ok(Some(TerminationFile {
            file,
            name,
            has_failed: AtomicBool::new(false),
        })),
        Err(error) if configured.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!(
            "{name}: {}; accepted as termination log: a regular file that exists and can be written, or off. The log \
             alone tells how the worker ended",
            reason(&error)
        )),
    }
}

/// Never creates the file, follows no link, and waits for no reader.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = OpenOptions::new().write(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => "it is a symbolic link, and none is followed".to_owned(),
        Some(Errno::ENXIO | Errno::EISDIR) => "it is not a regular file".to_owned(),
        Some(_) | None => meaning(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that has no thread has failed")]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_write_that_hangs_holds_up_neither_the_loop_nor_the_exit() {
        let (texts, unread) = mpsc::sync_channel(MOST_WAITING);
        let (is_there, over) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let mut log = TerminationLog {
                target: Some(Arc::new(TerminationFile {
                    file: File::open("/dev/null").unwrap(),
                    name: String::new(),
                    has_failed: AtomicBool::new(false),
                })),
                writer: Some(Writer { texts, over }),
            };
            for _ in 0..=MOST_WAITING {
                log.write("text".to_owned());
            }
            log.finish();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(10)).unwrap();
        drop((unread, is_there));
    }
}
