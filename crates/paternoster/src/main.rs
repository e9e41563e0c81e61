// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program with its built-in schedulers; everything else is in the library next to it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    paternoster::main_with(Vec::new())
}
