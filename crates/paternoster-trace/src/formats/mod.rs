// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats: other people's traces, each as a [`Source`](crate::Source) of blktrace's records.
//!
//! * [`blkparse_text`]: the lines that blkparse prints; [`ftrace_text`]: a kernel's tracer's.

pub mod blkparse_text;
pub mod ftrace_text;
mod traced;
