// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of the program as a user meets it, in one test program: each links the whole crate,
//! and linking one is faster than linking thirty. Every test here also does its work in debug, and
//! does not depend on how fast the machine is.
//!
//! A new test file goes in here, with a line below. `judges` has verdicts that need release,
//! `heavy` file systems and databases, `real_time` tests that a slow or busy machine decides.

#[path = "../common/mod.rs"]
mod common;
mod timeline;

mod at_hand;
mod buffered;
mod builtin;
mod compare;
mod completions;
mod ctl;
mod decisions;
mod emulate;
mod entitled;
mod features;
mod fio_examples_run;
mod formats;
mod guarantees;
mod handover;
mod hostile;
mod journal;
mod kubernetes;
mod language;
mod monitoring;
mod operation;
mod outputs;
mod own_device;
mod own_elevator;
mod page;
mod perfetto;
mod players;
mod plots;
mod program;
mod real_device;
mod replay;
mod replay_again;
mod reproduce;
mod results;
mod rules;
mod runs;
mod serve_arguments;
mod serve_fuse;
mod serve_log;
mod serve_loss;
mod serve_memory;
mod serve_notify;
mod serve_sandbox;
mod serve_signals;
mod soak;
mod startup;
mod syncs;
mod sysbench;
mod systemd;
mod thinks;
mod tidy;
mod torture;
mod traces;
mod units;
mod upgrade;
mod versus_kernel;
mod walk;
mod watched;
mod words;
