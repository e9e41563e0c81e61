// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of queue and schedulers from outside, in one program: each program links the whole
//! library, and linking one is faster than linking a dozen. The queue is tested here, not in its
//! own crate, since it does nothing without an elevator.
//!
//! A new test file goes in here, with a line below. A test that may not share a process with others
//! has a program of its own: `no_allocation` counts the allocations of the whole process.

#[path = "../common/mod.rs"]
mod common;

mod attribute_law;
mod bfq_late_raise;
mod bfq_rules;
mod blk_rules;
mod builder;
mod cfq_rules;
mod embed;
mod flush_rules;
mod kyber_rules;
mod members;
mod noop_deadline_rules;
// These two need bugs to plant: `./test` asks for the feature.
#[cfg(feature = "planted-bugs")]
mod planted_bugs;
#[cfg(feature = "planted-bugs")]
mod properties;
#[path = "../../../paternoster-core/tests/all/public_items.rs"]
mod public_items;
mod queue_contract;
mod slices_fixture;
mod tag_laws;
