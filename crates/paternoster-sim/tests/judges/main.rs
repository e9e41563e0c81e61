// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of what elevators do on a model over many seconds of virtual time. `cargo test` skips
//! this; `./test --judges` runs it in release:
//!
//! ```text
//! cargo test --release -p paternoster-sim --test judges
//! ```

mod cfq_climb;
mod cooperators;
mod readers;
