// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on what elevators do on a model over many seconds of its time. `cargo test` passes this
//! by; `./test --judges` runs it in release:
//!
//! ```text
//! cargo test --release -p paternoster-sim --test judges
//! ```

mod cfq_climb;
mod cooperators;
mod readers;
