// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disk, as a simulator uses it: each file tests one thing.

mod episodes;
mod face;
mod laws;
mod promises;
mod timing;
