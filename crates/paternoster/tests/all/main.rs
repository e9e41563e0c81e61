// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of the program as a person meets it, in one program of tests: each links everything
//! there is, and one is linked sooner than thirty. Every test here does its work in debug, too, and
//! does not hang on how fast the machine is.
//!
//! A new file of tests goes in here, with a line below. In `judges` are verdicts that take release,
//! in `heavy` file systems and databases, in `real_time` what a slow or busy machine decides.

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
mod serve_log;
mod serve_loss;
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
