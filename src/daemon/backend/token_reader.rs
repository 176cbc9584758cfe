//! The newest token, for requests on the loop. A thread alone touches its file, because a file
//! system may hang and the loop may not. Inotify does not watch the file: the start of a watch
//! looks up the path, and a change by another machine on a network file system causes no notice.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{Backend, Secret};
use crate::daemon::backend::token::{TokenFile, TokenLook};
use crate::daemon::log::throttle::Throttle;
use ojs_lifecycle::api::Moment;
use ojs_os::threads::{Helper, LoopWake};

/// Stack of the thread, in bytes. It holds no buffer.
const STACK_BYTES: usize = 128 * 1024;

/// How long the last token counts.
const FRESH_LIMIT: Duration = Duration::from_millis(100);

/// Pause between two looks into the file while there is no token, or the backend refuses it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks after a refused request: until the longest pause before its retry is surely over.
const LOOKS_AFTER_A_REFUSAL: u32 = 60;

/// How long a request with an older token waits for the newest one.
const PATIENCE: Duration = Duration::from_millis(100);

/// Whether a request has its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum TokenState {
    /// The token is there, or none is needed.
    Ready,
    /// Its file is being read; at this time the token of last time does, if there is one.
    Wait(Option<Moment>),
    /// A token is configured, and there is none now. The log gives the reason.
    Missing,
}

/// The token, from the configuration or a file.
pub(in crate::daemon) struct TokenReader {
    /// The file of the token. None: the token is fixed, or there is none.
    file: Option<PathBuf>,
    wake: LoopWake,
    /// Stack of the thread, in bytes.
    stack_bytes: usize,
    newest: Option<Secret>,
    /// When the last look into the file was tried.
    read_at: Moment,
    /// Looks that are left since the backend refused a token.
    looks_left: u32,
    /// Whether the file has held another token since this was last asked.
    has_changed: bool,
    /// How many looks there were, and the number of the first one that counts.
    asked: u64,
    needed: u64,
    /// Since when a look is under way.
    asked_at: Option<Moment>,
    thread: Option<Helper<TokenLook>>,
    /// Complaints that there is no thread: without one, each request tries to start it.
    complaints: Throttle,
}

impl TokenReader {
    /// The token of this configuration. `wake` wakes the loop for [`TokenReader::take`].
    pub(in crate::daemon) fn new(backend: &Backend, wake: LoopWake, now: Moment) -> Self {
        Self::with(backend, wake, now, STACK_BYTES)
    }

    fn with(backend: &Backend, wake: LoopWake, now: Moment, stack_bytes: usize) -> Self {
        let mut reader = Self {
            file: backend.auth_token_file.clone(),
            wake,
            stack_bytes,
            newest: backend.auth_token.clone().filter(|_| backend.auth_token_file.is_none()),
            read_at: now,
            looks_left: 0,
            has_changed: false,
            asked: 0,
            needed: 0,
            asked_at: None,
            thread: None,
            complaints: Throttle::default(),
        };
        if reader.file.is_some() {
            reader.ask(now);
        }
        reader
    }

    /// The backend answered with this status. After a refusal the file may hold another token by
    /// now, or soon.
    pub(in crate::daemon) fn answered(&mut self, status: u16) {
        match status {
            401 | 403 => {
                self.needed = self.asked + 1;
                self.looks_left = LOOKS_AFTER_A_REFUSAL;
            }
            // The refusal was about its request, not about the token.
            200..=299 => self.looks_left = 0,
            _ => {}
        }
    }

    /// Whether the file has held another token since the last call.
    pub(in crate::daemon) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// When the next look is due that no request asks for.
    pub(in crate::daemon) fn next_deadline(&self) -> Option<Moment> {
        let is_watched = self.file.is_some() && (self.looks_left > 0 || self.newest.is_none());
        // The end of a look that is under way wakes the loop.
        (is_watched && self.asked_at.is_none()).then(|| self.read_at.after(LOOK_EVERY))
    }

    /// The newest token; none if requests carry none.
    pub(in crate::daemon) fn newest(&self) -> Option<&Secret> {
        self.newest.as_ref()
    }

    /// Whether there is one now, or none is needed.
    pub(in crate::daemon) fn is_there(&self) -> bool {
        self.file.is_none() || self.newest.is_some()
    }

    /// Whether a request can have it.
    pub(in crate::daemon) fn state(&mut self, now: Moment) -> TokenState {
        let is_fresh = self.asked_at.is_none() && self.asked >= self.needed && self.read_at.elapsed(now) < FRESH_LIMIT;
        if is_fresh || self.file.is_none() {
            return if self.is_there() {
                TokenState::Ready
            } else {
                TokenState::Missing
            };
        }
        let asked_at = self.ask(now);
        let has_one = self.is_there();
        match asked_at.map(|asked| asked.after(PATIENCE)) {
            Some(until) if has_one && until > now => TokenState::Wait(Some(until)),
            Some(_) if !has_one => TokenState::Wait(None),
            Some(_) => TokenState::Ready,
            None if has_one => TokenState::Ready,
            None => TokenState::Missing,
        }
    }

    /// Starts a read of the file unless one is under way. Returns its start; `None` if no thread
    /// can read.
    fn ask(&mut self, now: Moment) -> Option<Moment> {
        if self.asked_at.is_some() {
            return self.asked_at;
        }
        self.asked += 1;
        self.read_at = now;
        if !self.thread.as_ref().is_some_and(Helper::ask) && !self.start() {
            return None;
        }
        self.asked_at = Some(now);
        self.asked_at
    }

    /// Starts a thread, and asks it. Returns false if there is none.
    fn start(&mut self) -> bool {
        let Some(path) = &self.file else { return false };
        let mut file = TokenFile::new(path.clone());
        let thread = Helper::start("token", self.stack_bytes, self.wake.clone(), move || file.now());
        let complain = |error: &io::Error| {
            self.complaints.warn(format_args!(
                "backend.auth_token_file: no thread to read it: {error}; raise the limit of processes (ulimit -u, \
                 pids.max) or of memory"
            ));
        };
        self.thread = thread.inspect_err(complain).ok();
        self.thread.is_some()
    }

    /// Takes the results of the thread, and starts a look that is due. Returns true if waiting
    /// requests should look again.
    pub(in crate::daemon) fn turn(&mut self, now: Moment) -> bool {
        let is_new = self.take();
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.looks_left = self.looks_left.saturating_sub(1);
            self.ask(now);
        }
        is_new
    }

    /// The end of the thread ends the look and keeps the last token. The next look is due after
    /// [`FRESH_LIMIT`], so a thread that always dies costs one thread in that time.
    fn take(&mut self) -> bool {
        let mut is_new = false;
        while let Some(look) = self.thread.as_ref().and_then(|thread| thread.take(Duration::ZERO)) {
            match look {
                Some(TokenLook::Token(token)) => {
                    self.has_changed |= self.newest.as_ref() != Some(&token);
                    self.newest = Some(token);
                }
                Some(TokenLook::NoToken) => self.newest = None,
                Some(TokenLook::Unread) => {}
                None => self.thread = None,
            }
            // One look at a time is under way.
            self.asked_at = None;
            is_new = true;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;
    use crate::config::{Environment, Flags, load};

    /// A reader whose file cannot be read, and whose thread has this stack.
    fn reader(stack_bytes: usize) -> TokenReader {
        let variables = [b"OJS_URL=http://b".as_slice()];
        let mut backend = load(&Flags::default(), &Environment::from_entries(variables.into_iter()))
            .unwrap()
            .backend;
        backend.auth_token_file = Some("/nonexistent/token".into());
        TokenReader::with(&backend, Arc::new(|| {}), at(0), stack_bytes)
    }

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    #[test]
    fn without_a_thread_there_is_one_complaint_for_many_requests() {
        let mut reader = reader(1 << 60);
        for millis in 0..500 {
            assert_eq!(reader.state(at(2_000 + millis)), TokenState::Missing);
        }
        let later = ojs_os::clock::monotonic() + Duration::from_secs(60);
        assert_eq!(
            reader.complaints.is_due_at(later).as_deref(),
            Some(" (5 more since the last such line)"),
            "a thread is tried after FRESH_LIMIT"
        );
    }

    #[test]
    fn a_thread_that_ended_is_replaced_and_its_look_ends() {
        let mut reader = reader(STACK_BYTES);
        lose_thread(&mut reader);
        assert!(reader.take(), "the look of the dead thread is over");
        assert_eq!(
            reader.state(at(99)),
            TokenState::Missing,
            "no other thread within FRESH_LIMIT"
        );
        assert_eq!(reader.state(at(100)), TokenState::Wait(None), "another thread reads");
        let answer = reader.thread.as_ref().unwrap().take(Duration::from_secs(60));
        assert!(matches!(answer, Some(Some(TokenLook::NoToken))), "it answers");
        assert!(!reader.take());
    }

    #[test]
    fn the_file_is_looked_at_each_second_while_there_is_no_token_and_a_minute_after_a_refusal() {
        let mut reader = reader(STACK_BYTES);
        assert_eq!(reader.next_deadline(), None, "a look is under way");
        answer(&mut reader, 0, TokenLook::NoToken);
        assert_eq!(reader.next_deadline(), Some(at(1_000)));
        assert!(!reader.turn(at(1_000)));
        assert!(reader.asked_at.is_some(), "it looks although no request asks");
        answer(&mut reader, 1_000, token("first"));
        assert!(reader.take_change() && !reader.take_change());
        assert_eq!(reader.next_deadline(), None, "nothing wakes an idle worker");

        reader.answered(500);
        assert_eq!(reader.next_deadline(), None);
        reader.answered(401);
        for second in 2..62 {
            assert_eq!(reader.next_deadline(), Some(at(second * 1_000)));
            assert!(!reader.turn(at(second * 1_000)));
            answer(&mut reader, second * 1_000, token("first"));
        }
        assert_eq!(reader.next_deadline(), None, "the refused request was repeated by now");
        assert!(!reader.take_change());

        reader.answered(403);
        assert!(reader.next_deadline().is_some());
        reader.answered(200);
        assert_eq!(reader.next_deadline(), None, "the backend takes the token");
    }

    fn token(text: &str) -> TokenLook {
        TokenLook::Token(Secret::parse(text).unwrap())
    }

    /// The look that is under way ends with this. The next one hangs.
    fn answer(reader: &mut TokenReader, millis: u64, look: TokenLook) {
        let mut looks = [look].into_iter();
        replace_thread(reader, move || {
            looks.next().unwrap_or_else(|| {
                loop {
                    thread::park()
                }
            })
        });
        assert!(reader.turn(at(millis)));
    }

    /// A panic ends the thread.
    fn lose_thread(reader: &mut TokenReader) {
        replace_thread(reader, || panic::resume_unwind(Box::new(())));
    }

    /// Another thread makes the look that is under way, until it has woken the loop.
    fn replace_thread(reader: &mut TokenReader, work: impl FnMut() -> TokenLook + Send + 'static) {
        let (waker, woken) = mpsc::channel();
        let wake = Arc::new(move || waker.send(()).unwrap_or_default());
        reader.thread = Some(Helper::start("token", STACK_BYTES, wake, work).unwrap());
        woken.recv().unwrap();
    }
}
