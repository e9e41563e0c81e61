// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control: orders to a running server, and what it tells of itself.

pub mod order;
pub mod snapshot;
