// SPDX-License-Identifier: Apache-2.0
//! Panics are defects of Holdfast. A panic ends the process, unless it is contained.
//!
//! No thread of a daemon may end while the others go on: a panic ends the whole process, and the
//! service manager starts it again. The packet worker contains the panics of single packets:
//! otherwise the same packet would end each successor.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

thread_local! {
    /// A panic of this thread is contained at this moment.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
    /// The location of the last contained panic.
    static LOCATION: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A panic that was contained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defect {
    /// The line of the source.
    pub(crate) location: String,
    /// Its text.
    pub(crate) message: String,
}

/// From now on a panic ends the process, after `report` has reported it, unless it is within
/// [`contain`].
pub(crate) fn handle_panics(report: impl Fn(&PanicHookInfo<'_>) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        if IS_CONTAINED.get() {
            let location = panic.location().map(ToString::to_string);
            LOCATION.set(location.unwrap_or_default());
            return;
        }
        report(panic);
        std::process::abort();
    }));
}

/// Does the work. After an error the caller must rebuild what the work uses: it may be half changed.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Defect> {
    let before = IS_CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CONTAINED.set(before);
    done.map_err(|panic| Defect {
        location: LOCATION.take(),
        message: message(panic.as_ref()),
    })
}

/// The panic's text, in one line.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a text").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contained_panic_is_an_error_with_its_text() {
        let list = [1];
        let index = std::hint::black_box(3);
        let defect = contain(|| list[index]).expect_err("out of bounds");
        assert!(defect.message.contains("index is 3"), "{defect:?}");
        assert_eq!(contain(|| list[0]), Ok(1));
        assert!(!IS_CONTAINED.get());
    }
}
