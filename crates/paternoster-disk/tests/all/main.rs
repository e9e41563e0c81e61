// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disk, as a simulator meets it: each file asks one thing of it.

mod episodes;
mod face;
mod laws;
mod promises;
mod timing;
