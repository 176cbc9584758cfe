//! Where a handler panicked: only the panic hook learns the place.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::error::{Error, Result, here};

thread_local! {
    static PLACE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static INSTALLED: Once = Once::new();

/// Adds a hook in front of the one that is there.
pub(crate) fn install() {
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let lines = here(&place, &Backtrace::capture());
            let _ = PLACE.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = lines).is_ok());
            before(info);
        }));
    });
}

/// Runs a handler; a panic is an error like others.
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|thrown| {
        let error = Error::panicked(&*thrown, PLACE.try_with(RefCell::take).unwrap_or_default());
        // Dropping it might panic again.
        std::mem::forget(thrown);
        Err(error)
    })
}
