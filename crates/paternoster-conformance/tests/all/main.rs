// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our elevators beside real ones: the same requests come at the same times; is the same decided?
//!
//! * [`recordings`]: whether all that was recorded is there.

mod recordings;
