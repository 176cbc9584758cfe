//! Where a handler panicked: only the hook knows. It keeps the place and the stack for the thread's own report.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::{backtrace, current, logging};

thread_local! {
    static PLACE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static INSTALLED: Once = Once::new();

/// Puts a hook around the one that there is, which is called as before, except for a handler's panic where the log is ours: that
/// one is logged with its job.
pub(crate) fn install() {
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_handlers = current::job().is_some();
            if is_handlers {
                let place = info.location().map_or_else(String::new, ToString::to_string);
                let lines = backtrace::from(&place, &Backtrace::force_capture());
                let _ended = PLACE.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = lines).is_ok());
            }
            if !logging::is_installed() {
                before(info);
            } else if !is_handlers {
                logging::say(log::Level::Error, None, &info.to_string(), None);
            }
        }));
    });
}

/// The place of this thread's last panic, once.
pub(crate) fn take() -> Vec<String> {
    PLACE.try_with(RefCell::take).unwrap_or_default()
}

/// Drops something of the program's; says whether that panicked. Whatever was thrown then may do so again, and stays.
pub(crate) fn drop_quietly<T>(value: T) -> bool {
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
    take();
    dropped.map_err(std::mem::forget).is_err()
}
