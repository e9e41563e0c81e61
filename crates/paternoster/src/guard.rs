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
//! I1  Work is given what it shares with nothing else: what is half done behind a panic is dropped.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does this.
///
/// # Errors
/// What a panic says.
pub fn guarded<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| said(panic.as_ref()))
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
}
