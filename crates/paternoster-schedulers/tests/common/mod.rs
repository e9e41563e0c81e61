// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this crate share: rigs, a fixture of an elevator, a naive model.

#[cfg(feature = "planted-bugs")]
pub(crate) mod bare;
pub(crate) mod closed_loop;
pub(crate) mod driver;
pub(crate) mod slices;
#[cfg(feature = "planted-bugs")]
pub(crate) mod world;
