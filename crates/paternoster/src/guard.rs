// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guard: a panic ends the piece of work that it is in, and no other.
//!
//! ```text
//! work ─▶ value
//!   └─ panic: what it says on stderr, with its place ─▶ its words, for whatever asked for the work
//! ```
//!
//! A panic is a bug, of ours or of an elevator that a program brings along (`main_with`). One row
//! of a million must not take a worker's others along, and a process that has this program inside
//! must not end by it.
//!
//! # Invariants
//! I1  What is half done behind a panic is dropped. What outlives the work is whole all the same:
//!     its caller's values are read and not changed, but for flags and channels; thread-locals are
//!     set by [`within`]; what a process has for all (elevators that are lent, names) changes in
//!     single steps, under locks whose poison is ignored. What a scheduler of a program's own
//!     shares between its objects is that program's to keep whole.
//! I2  The hook of panics is the process's, which may be a program around this one: it is left
//!     alone, and hears of each panic. Each row that panics thus says so on stderr: a million
//!     such rows are a million messages, unless the program sets a hook that says less.

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::LocalKey;

/// Does this.
///
/// # Errors
/// What a panic says.
pub fn guarded<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| said(panic.as_ref()))
}

/// Does this with `value` in a thread-local; what is there in the end. Then, and behind a panic,
/// what was there before is there again.
pub fn within<T: Default, R>(
    local: &'static LocalKey<RefCell<T>>,
    value: T,
    work: impl FnOnce() -> R,
) -> (R, T) {
    struct Before<T: Default + 'static>(&'static LocalKey<RefCell<T>>, T);
    impl<T: Default> Drop for Before<T> {
        fn drop(&mut self) {
            self.0.set(mem::take(&mut self.1));
        }
    }
    let _before = Before(local, local.replace(value));
    let done = work();
    (done, local.take())
}

/// A panic in words.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    format!("a bug, in Paternoster or in a scheduler of your own: panic: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a panic give its words, whatever it carries, and work without one its value?
    #[test]
    fn a_panic_is_told() {
        let told = |work: fn()| {
            let told = guarded(work).expect_err("it panics");
            told.rsplit_once("panic: ").expect("it says so").1.to_owned()
        };
        assert_eq!(told(|| panic!("seven")), "seven");
        assert_eq!(told(|| panic!("{} of 8", 7)), "7 of 8");
        assert_eq!(told(|| std::panic::panic_any(7)), "no words");
        assert_eq!(guarded(|| 7), Ok(7));
    }

    thread_local! {
        static PLACE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }

    /// Has work within other work its own value, and the other work its own again behind it, also
    /// when it panics?
    #[test]
    fn what_was_there_before_is_there_again() {
        let add = |number| PLACE.with_borrow_mut(|place| place.push(number));
        let (inner, outer) = within(&PLACE, vec![1], || {
            add(2);
            let inner = within(&PLACE, vec![3], || add(4)).1;
            let panics = guarded(|| within(&PLACE, vec![5], || -> u32 { panic!("{:?}", add(6)) }));
            assert!(panics.is_err());
            add(7);
            inner
        });
        assert_eq!((inner, outer), (vec![3, 4], vec![1, 2, 7]));
        assert!(PLACE.take().is_empty());
    }
}
