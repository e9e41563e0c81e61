// SPDX-License-Identifier: MIT OR Apache-2.0
//! Desk: the thread in front of a device.

mod handle;

pub use handle::DeskHandle;
