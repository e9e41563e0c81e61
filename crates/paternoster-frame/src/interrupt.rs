// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt: Ctrl-C during runs asks for the results so far; a second one ends the program.
//!
//! ```text
//! first SIGINT ─▶ heard() ─▶ no further run begins, the present one stops ─▶ results, status 130
//! second ───────▶ status 130 at once
//! ```
//!
//! Commands that do not call [`hear`] end by SIGINT as usual. A call (`context.rs`) handles no
//! signal: the program around it does, and stops it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::{Failure, context};

/// The exit status that a shell gives to a command that SIGINT ended.
const STATUS: u8 = 130;

static HEARD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT is handled.
pub fn hear() -> Result<(), Failure> {
    if context::is_present() {
        return Ok(());
    }
    let heard = Arc::clone(HEARD.get_or_init(Arc::default));
    // In this order: the second signal finds the flag that the first one has set.
    flag::register_conditional_shutdown(SIGINT, STATUS.into(), Arc::clone(&heard))?;
    flag::register(SIGINT, heard)?;
    Ok(())
}

/// Whether there was one.
pub fn heard() -> bool {
    HEARD.get().is_some_and(|heard| heard.load(Ordering::Relaxed)) || context::is_stopped()
}

/// The note that the results of an interrupted command contain, wherever they go, since exit
/// statuses get lost.
pub fn note() -> Option<String> {
    let text = "Interrupted: this is what was there when Ctrl-C came, and not what was asked for.";
    heard().then(|| text.to_owned())
}

/// The result of a command that has printed its results: `Ok`, or what was left undone after a
/// SIGINT.
pub fn end(undone: impl FnOnce() -> String) -> Result<(), Failure> {
    if !heard() {
        return Ok(());
    }
    if !context::is_present() {
        say!("paternoster: interrupted: {}", undone());
    }
    Err(Failure::Status(STATUS))
}
