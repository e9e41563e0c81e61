// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory: commands of the program `paternoster` that judge schedulers.
//!
//! ```text
//! experiments ─▶ reproduce       what was published, next to what comes out here
//!                    └ guarantees    what one might expect of a scheduler, each as a run
//! scoreboard      entitlement on every kind of device: figures, verdicts, frontier, a page
//! torture         drawn loads, judged by laws (`paternoster-torture`)
//! versus_kernel   the kernel's schedulers on an emulated device, next to ours
//! ```
//!
//! A command is a struct of options, which the program reads, and a function that carries them out.
//! What commands share is in `paternoster-frame`; the laboratory knows no command of the program.
#![forbid(unsafe_code)]
// `say!` and `print` tolerate an output without a reader; these panic.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod experiments;
mod guarantees;
mod reproduce;
mod scoreboard;
mod torture;
#[cfg(feature = "serve")]
mod versus_kernel;

pub use crate::guarantees::{GuaranteesOptions, guarantees};
pub use crate::reproduce::{ReproduceOptions, command, reproduce};
pub use crate::scoreboard::{ScoreboardOptions, scoreboard};
pub use crate::torture::{TortureOptions, judgement, torture};
#[cfg(feature = "serve")]
pub use crate::versus_kernel::{VersusOptions, versus_kernel};

/// The names of the published experiments, in the order in which they are printed.
#[must_use]
pub fn experiments() -> Vec<&'static str> {
    experiments::all().into_iter().map(|one| one.name).collect()
}
