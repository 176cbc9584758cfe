//! The newest token, for requests on the loop. Its file is read by a thread: a file system may
//! hang, the loop may not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use crate::config::{Backend, Secret};
use crate::daemon::backend::lookup::LoopWake;
use crate::daemon::backend::token::{TokenFile, TokenLook};
use crate::daemon::log::throttle::Throttle;
use ojs_lifecycle::api::Moment;
use ojs_os::threads;

/// Stack of the thread, in bytes. It holds no buffer.
const STACK_BYTES: usize = 128 * 1024;

/// How long the last token counts. No event reports the change that another machine makes to a
/// network file system.
const FRESH_LIMIT: Duration = Duration::from_secs(1);

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
    /// When the last look into the file began.
    read_at: Moment,
    /// How many looks there were, and the number of the first one that counts.
    asked: u64,
    needed: u64,
    /// Since when a look is under way.
    asked_at: Option<Moment>,
    questions: Option<Sender<()>>,
    answers: Option<Receiver<TokenLook>>,
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
            asked: 0,
            needed: 0,
            asked_at: None,
            questions: None,
            answers: None,
            complaints: Throttle::default(),
        };
        if reader.file.is_some() {
            reader.ask(now);
        }
        reader
    }

    /// The file may hold another token by now.
    pub(in crate::daemon) fn changed(&mut self) {
        self.needed = self.asked + 1;
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
        let is_asked = self
            .questions
            .as_ref()
            .is_some_and(|questions| questions.send(()).is_ok());
        if !is_asked && !self.start() {
            return None;
        }
        self.read_at = now;
        self.asked_at = Some(now);
        self.asked_at
    }

    /// Starts a thread, and asks it. Returns false if there is none.
    fn start(&mut self) -> bool {
        let Some(path) = &self.file else { return false };
        let mut file = TokenFile::new(path.clone());
        let ((questions, asked), (sender, answers)) = (mpsc::channel(), mpsc::channel());
        let wake = Arc::clone(&self.wake);
        let work = move || {
            let end = WakesAtTheEnd(wake);
            // Dropped before `end`, so the loop that is woken sees the end.
            let sender = sender;
            while asked.recv().is_ok() {
                if sender.send(file.now()).is_err() {
                    return;
                }
                end.0();
            }
        };
        if let Err(error) = threads::spawn("token", self.stack_bytes, work) {
            self.complaints.warn(format_args!(
                "backend.auth_token_file: no thread to read it: {error}; raise the limit of processes (ulimit -u, \
                 pids.max) or of memory"
            ));
            return false;
        }
        // Cannot fail: the new thread holds the receiver.
        let _ = questions.send(());
        self.questions = Some(questions);
        self.answers = Some(answers);
        true
    }

    /// Takes the results of the thread. Returns true if waiting requests should look again.
    ///
    /// The end of the thread ends the look and keeps the last token. The next look is due after
    /// [`FRESH_LIMIT`], so a thread that always dies costs one thread in that time.
    pub(in crate::daemon) fn take(&mut self) -> bool {
        let Some(answers) = &self.answers else { return false };
        let mut is_new = false;
        loop {
            match answers.try_recv() {
                Ok(TokenLook::Token(token)) => self.newest = Some(token),
                Ok(TokenLook::NoToken) => self.newest = None,
                Ok(TokenLook::Unread) => {}
                Err(TryRecvError::Disconnected) if self.asked_at.is_some() => self.questions = None,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return is_new,
            }
            // One look at a time is under way.
            self.asked_at = None;
            is_new = true;
        }
    }
}

/// Wakes the loop when the thread ends, also by a panic: the loop starts another one.
struct WakesAtTheEnd(LoopWake);

impl Drop for WakesAtTheEnd {
    fn drop(&mut self) {
        self.0();
    }
}

#[cfg(test)]
mod tests {
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
            Some(" (and 500 times more since this was last said)")
        );
    }

    #[test]
    fn a_thread_that_ended_is_replaced_and_its_look_ends() {
        let mut reader = reader(STACK_BYTES);
        lose_thread(&mut reader);
        assert!(reader.take(), "the look of the dead thread is over");
        assert_eq!(
            reader.state(at(999)),
            TokenState::Missing,
            "no other thread within FRESH_LIMIT"
        );
        assert_eq!(reader.state(at(1_000)), TokenState::Wait(None), "another thread reads");
        let answer = reader.answers.as_ref().unwrap().recv_timeout(Duration::from_secs(60));
        assert!(matches!(answer, Ok(TokenLook::NoToken)), "it answers");
        assert!(!reader.take());
    }

    /// Leaves the channels as a panic of the thread does.
    fn lose_thread(reader: &mut TokenReader) {
        reader.questions = Some(mpsc::channel().0);
        reader.answers = Some(mpsc::channel().1);
    }
}
