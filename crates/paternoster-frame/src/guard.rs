// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guard: a panic ends the piece of work it is in, and no other.
//!
//! ```text
//! work ─▶ value
//!   └─ panic ─▶ its words and its place, for whatever asked for the work
//! ```
//!
//! A panic is a bug, of ours or of an elevator that a program adds (`main_with`). One row of a
//! million must not take the worker's other rows along, and a process that embeds this program must
//! not end because of it.
//!
//! # Invariants
//! I1  What a panic leaves half done is dropped. What outlives the work is sound all the same: the
//!     work reads its caller's values and changes none, except flags and channels; thread-locals
//!     are set by [`within`]; state of the whole process (lent elevators, names) changes in single
//!     steps, under locks whose poison is ignored. What a scheduler of a program's own shares
//!     between its objects is that program's to keep whole.
//! I2  Such a panic is reported once, by the caller of the work. The process's panic hook, which
//!     may belong to a program around this one, gets all other panics, and these if
//!     `RUST_BACKTRACE` asks for a backtrace. A hook that is set later hears of all.

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::LocalKey;
use std::{env, panic};

/// Where the last panic of a piece of work was, on any of its threads.
#[derive(Debug, Clone, Default)]
pub struct Heard(Option<Arc<Mutex<Option<String>>>>);

thread_local! {
    static HEARD: RefCell<Heard> = const { RefCell::new(Heard(None)) };
}

/// Does this.
///
/// # Errors
/// What a panic says, and where it was.
pub fn guarded<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    hear();
    let place = Arc::new(Mutex::new(None));
    let heard = Heard(Some(Arc::clone(&place)));
    let done = catch_unwind(AssertUnwindSafe(|| during(heard, work)));
    done.map_err(|panic| {
        let place = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        said(panic.as_ref(), place.as_deref())
    })
}

/// The record of this thread's panics, for the other threads of its work.
pub fn heard() -> Heard {
    HEARD.with_borrow(Clone::clone)
}

/// Does this as a part of the work whose panics are `heard`.
pub fn during<R>(heard: Heard, work: impl FnOnce() -> R) -> R {
    within(&HEARD, heard, work).0
}

/// Installs the hook that records panics of guarded work; they are not printed a second time.
fn hear() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let more = env::var_os("RUST_BACKTRACE").is_some_and(|asked| asked != "0");
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // Threads that end have no thread-locals, and work that is borrowed elsewhere none.
            let heard = HEARD.try_with(|heard| heard.try_borrow().ok().and_then(|h| h.0.clone()));
            let heard = heard.ok().flatten();
            if let (Some(heard), Some(place)) = (&heard, panic.location()) {
                let place = format!("{}:{}", place.file(), place.line());
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
            }
            if heard.is_none() || more {
                usual(panic);
            }
        }));
    });
}

/// Does this with `value` in a thread-local; returns its final value. Afterwards, and after a
/// panic, the previous value is there again.
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
fn said(panic: &(dyn Any + Send), place: Option<&str>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    format!("a bug, in Paternoster or in a scheduler of your own: panic: {text}{place}")
}

#[cfg(all(test, feature = "instruments"))]
mod tests {
    use super::*;
    use crate::parallel::each;

    /// Does a panic give its words and its place, whatever it carries, on a thread of its work too,
    /// and work without one its value?
    #[test]
    fn a_panic_is_told() {
        let told = |work: fn()| {
            let told = guarded(work).expect_err("it panics");
            let told = told.rsplit_once("panic: ").expect("it says so").1.to_owned();
            let (words, place) = told.rsplit_once(" (").expect("it has a place");
            assert!(place.starts_with(file!()) && place.ends_with(')'), "{place}");
            words.to_owned()
        };
        assert_eq!(told(|| panic!("seven")), "seven");
        assert_eq!(told(|| panic!("{} of 8", 7)), "7 of 8");
        assert_eq!(told(|| panic::panic_any(7)), "no words");
        let on_a_thread = told(|| drop(each(2, &[1], |_: &u32| panic!("eight"))));
        assert_eq!(on_a_thread, "eight");
        assert_eq!(guarded(|| 7), Ok(7));
    }

    /// Is a panic of guarded work told by its error alone, on its threads too, and any other one by
    /// the process's hook, as all are that a backtrace is asked of?
    #[test]
    fn a_panic_is_told_once() {
        const CHILD: &str = "PATERNOSTER_TEST_TELLS_ONCE";
        if env::var_os(CHILD).is_some() {
            let _error = guarded(|| panic!("guarded"));
            let _error = guarded(|| {
                each(2, &[1, 2], |step: &u32| panic!("step {step}"));
            });
            let _panic = catch_unwind(|| panic!("plain"));
            return;
        }
        let heard = |backtrace: &str| {
            let mut child = std::process::Command::new(env::current_exe().expect("it has a path"));
            child.args(["--exact", "guard::tests::a_panic_is_told_once", "--nocapture"]);
            let told = child.env(CHILD, "1").env("RUST_BACKTRACE", backtrace).output();
            let told = told.expect("it starts");
            assert!(told.status.success(), "{told:?}");
            let told = String::from_utf8(told.stderr).expect("text");
            ["guarded", "step ", "plain"].map(|words| told.contains(&format!("\n{words}")))
        };
        assert_eq!((heard("0"), heard("1")), ([false, false, true], [true; 3]));
    }

    thread_local! {
        static PLACE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }

    /// Does nested work have its own value, and the outer work its own again afterwards, even after
    /// a panic?
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
