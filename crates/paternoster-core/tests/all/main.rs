// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be tested of the library without a scheduler: which items are public, when it audits
//! itself, and what an elevator is told. What a queue does is tested in
//! `paternoster-schedulers/tests/all`, with every scheduler.

mod audit;
mod ends;
mod public_items;
