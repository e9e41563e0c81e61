// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program with the schedulers that come with it; all else is in the library beside it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    paternoster::main_with(Vec::new())
}
