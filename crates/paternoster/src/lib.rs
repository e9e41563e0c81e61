// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `paternoster`: I/O schedulers, in virtual time and in front of real devices.
//!
//! [`main_with`] runs all of it, with a caller's own schedulers added to ours; docs/own-elevator.md
//! explains how to write one.
//!
//! ```text
//! arguments ──▶ run | tiotest … | replay | reproduce | serve | ctl … ──▶ text on stdout
//!                                                                  └─▶ messages on stderr
//! ```
//!
//! Exit status: 0 if the request was carried out and no job failed, 1 if a job failed or a judged
//! figure is outside, 2 if the request was wrong, 130 after Ctrl-C.
#![forbid(unsafe_code)]
// `say!` and `print` tolerate an output without a reader; these panic.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]
// What can be said is shared; a server says less.
#![cfg_attr(not(feature = "instruments"), allow(dead_code))]

#[cfg(not(any(feature = "instruments", feature = "serve")))]
compile_error!("a program needs the feature `instruments`, or `serve`, or both");

#[cfg(feature = "instruments")]
mod advise;
#[cfg(feature = "instruments")]
mod analyze;
mod arguments;
#[cfg(feature = "instruments")]
mod builtin;
#[cfg(feature = "instruments")]
mod call;
#[cfg(feature = "instruments")]
mod capture;
#[cfg(feature = "instruments")]
mod compare;
mod complete;
#[cfg(feature = "instruments")]
mod cost_model;
#[cfg(feature = "serve")]
mod ctl;
#[cfg(feature = "instruments")]
mod device_figures;
#[cfg(feature = "instruments")]
mod devices;
#[cfg(all(feature = "instruments", feature = "serve"))]
mod emulate;
#[cfg(feature = "instruments")]
mod evidence;
#[cfg(feature = "instruments")]
mod examples;
mod features;
mod help;
mod manual;
#[cfg(feature = "instruments")]
mod plot;
#[cfg(all(test, feature = "lab"))]
mod repeated;
#[cfg(feature = "instruments")]
mod replay;
#[cfg(feature = "serve")]
mod roff;
#[cfg(feature = "instruments")]
mod run;
mod schedulers;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "instruments")]
mod split;
#[cfg(feature = "instruments")]
mod startup;
#[cfg(feature = "instruments")]
pub mod sweep;
mod synopsis;
#[cfg(feature = "instruments")]
mod sysbench;
#[cfg(feature = "serve")]
mod top;
#[cfg(feature = "instruments")]
mod trace_input;

use std::process::ExitCode;

use paternoster_core::elevator::Entry;
use paternoster_frame::say;

#[cfg(feature = "instruments")]
pub use crate::call::{Call, Ran};
pub use paternoster_frame::{Failure, guard};

use crate::arguments::{Command, Program};

/// The whole program, with these elevators added to its own: each can be chosen by name wherever
/// ours can (`run --scheduler`, `compare`, `guarantees`, `torture`, `serve` …), and `schedulers`
/// lists it.
///
/// Call it once, from `main`: it reads the process's arguments and prints to its outputs.
#[must_use = "it is the status that the process is to end with"]
pub fn main_with(own: Vec<Entry>) -> ExitCode {
    if let Err(why) = paternoster_base::schedulers::register(own) {
        say!("paternoster: {why}");
        return ExitCode::from(2);
    }
    let words: Result<Vec<String>, _> =
        std::env::args_os().map(std::ffi::OsString::into_string).collect();
    let words = match words {
        Ok(words) => words,
        Err(word) => {
            say!("paternoster: the argument {word:?} is not UTF-8 text");
            return ExitCode::from(2);
        }
    };
    ExitCode::from(program(words))
}

/// Carries out a request in these words, the program's name first, and prints errors; returns the
/// exit status. For a process with arguments of its own, such as Python's.
#[must_use = "it is the status that the process is to end with"]
pub fn program(words: Vec<String>) -> u8 {
    let done = arguments_of(words, help::parse).and_then(|(asked, fio)| command(asked, &fio));
    let (status, message) = match done {
        Ok(()) => return 0,
        Err(failure) => failure.said(),
    };
    if let Some(message) = message {
        say!("paternoster: {message}");
    }
    status
}

/// The request in these words, and fio's options among them.
fn arguments_of(
    words: Vec<String>,
    parse: fn(Vec<String>) -> Result<Program, Failure>,
) -> Result<(Program, Vec<String>), Failure> {
    #[cfg(feature = "instruments")]
    let (own, fio) = split::split_off_fio(words)?;
    #[cfg(not(feature = "instruments"))]
    let (own, fio) = (words, Vec::new());
    match features::absent(&own).or_else(|| features::misspelt(&own)) {
        Some(refusal) => Err(refusal),
        None => Ok((parse(own)?, fio)),
    }
}

/// Carries out the request.
fn command(program: Program, fio: &[String]) -> Result<(), Failure> {
    let _of_jobs = fio;
    match program.command {
        #[cfg(feature = "instruments")]
        Command::Run(options) => run::run(&options, fio),
        #[cfg(feature = "instruments")]
        Command::Compare(options) => advise::advise(&options),
        #[cfg(feature = "instruments")]
        Command::Tiotest(options) => builtin::tiotest(&options),
        #[cfg(feature = "instruments")]
        Command::Tiobench(options) => builtin::tiobench(&options),
        #[cfg(feature = "instruments")]
        Command::Disktest(options) => builtin::disktest(&options),
        #[cfg(feature = "instruments")]
        Command::Iostest(options) => builtin::iostest(&options),
        #[cfg(feature = "instruments")]
        Command::Dd(options) => builtin::dd(&options),
        #[cfg(feature = "instruments")]
        Command::Startup(options) => startup::startup(&options),
        #[cfg(feature = "instruments")]
        Command::Sysbench(options) => sysbench::sysbench(&options),
        #[cfg(feature = "instruments")]
        Command::Replay(options) => replay::replay(&options),
        #[cfg(feature = "instruments")]
        Command::Sweep(options) => sweep::sweep(&options),
        #[cfg(feature = "lab")]
        Command::Reproduce(options) => paternoster_lab::reproduce(&options),
        #[cfg(feature = "lab")]
        Command::Guarantees(options) => paternoster_lab::guarantees(&options),
        #[cfg(feature = "lab")]
        Command::Scoreboard(options) => paternoster_lab::scoreboard(&options),
        #[cfg(feature = "lab")]
        Command::Torture(options) => paternoster_lab::torture(&options),
        #[cfg(all(feature = "lab", feature = "serve"))]
        Command::VersusKernel(options) => paternoster_lab::versus_kernel(&options),
        #[cfg(feature = "instruments")]
        Command::Analyze(options) => analyze::analyze(&options),
        #[cfg(feature = "instruments")]
        Command::Record(options) => capture::record(&options),
        #[cfg(feature = "serve")]
        Command::Ctl(options) => ctl::ctl(&options),
        #[cfg(feature = "serve")]
        Command::Top(options) => top::top(&options),
        #[cfg(feature = "serve")]
        Command::Serve(options) => serve::serve(&options),
        #[cfg(all(feature = "instruments", feature = "serve"))]
        Command::Emulate(options) => emulate::emulate(&options),
        Command::Schedulers(options) => schedulers::list(&options),
        #[cfg(feature = "instruments")]
        Command::Devices(options) => devices::list(&options),
        #[cfg(feature = "instruments")]
        Command::CostModel(options) => cost_model::cost_model(&options),
        #[cfg(feature = "instruments")]
        Command::Examples(options) => examples::examples(&options),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(&folder),
    }
}
