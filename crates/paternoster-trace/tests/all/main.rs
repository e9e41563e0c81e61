// SPDX-License-Identifier: MIT OR Apache-2.0
//! All external tests of traces and pictures, in one program: each test program links everything,
//! and linking one is faster than linking a dozen.
//!
//! A new file of tests gets a line below.

mod common;

mod blkparse_golden;
mod blkparse_real;
mod btt_any_events;
mod btt_golden;
mod btt_latencies;
mod btt_real;
mod formats_any_bytes;
mod formats_real;
mod ftrace_any_text;
mod ftrace_calls;
mod ftrace_logs;
mod ftrace_summary;
mod naive;
mod one_matcher;
mod properties;
mod text_any;
mod text_readers;
