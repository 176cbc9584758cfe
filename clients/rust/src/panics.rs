//! Where a handler panicked: only the hook knows. It keeps the place and the stack for the thread's
//! own report.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::{backtrace, current, logging};

thread_local! {
    static PLACE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static INSTALLED: Once = Once::new();

/// Puts a hook around the one that there is, which is called as before, except for a handler's
/// panic where the log is ours: that one is logged with its job.
pub(crate) fn install() {
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_handlers = current::job().is_some();
            let ends_process = ends_process(info);
            if is_handlers && !ends_process {
                let place = info.location().map_or_else(String::new, ToString::to_string);
                let lines = backtrace::from(&place, &Backtrace::force_capture());
                let _ended = PLACE.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = lines).is_ok());
            }
            if !logging::is_installed() {
                before(info);
            } else if ends_process {
                // Nobody is left to say it later.
                let before =
                    take().into_iter().next().map_or_else(String::new, |place| format!("; before it at {place}"));
                let message = format!("the process ends by this, and all its jobs with it: {info}{before}");
                logging::say(log::Level::Error, current::job().as_ref(), &message, None);
            } else if !is_handlers {
                logging::say(log::Level::Error, None, &info.to_string(), None);
            }
        }));
    });
}

/// Whether nothing catches it: all panics are like that where the program wants it, and those
/// within a destructor that runs for another panic, which the standard library begins by itself.
fn ends_process(info: &panic::PanicHookInfo<'_>) -> bool {
    let is_std = |place: &panic::Location<'_>| place.file().ends_with("library/core/src/panicking.rs");
    cfg!(panic = "abort") || info.location().is_some_and(is_std)
}

/// The place of this thread's last panic, once.
pub(crate) fn take() -> Vec<String> {
    PLACE.try_with(RefCell::take).unwrap_or_default()
}

/// Drops something of the program's; says whether that panicked. Whatever was thrown then may do so
/// again, and stays.
pub(crate) fn drop_quietly<T>(value: T) -> bool {
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
    take();
    dropped.map_err(std::mem::forget).is_err()
}
