// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes do: fio job files, the processes they describe, and fio's reports.
#![forbid(unsafe_code)]

pub mod direction;
pub mod fio;
pub mod report;
pub mod statistics;
