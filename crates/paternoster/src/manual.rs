// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manual: completion scripts and man pages, made from the definitions of the arguments.

use std::path::Path;

use clap::CommandFactory;

use crate::Failure;
use crate::arguments::Program;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Program::command(), "paternoster", &mut script);
    crate::print(&String::from_utf8_lossy(&script))
}

/// Writes a page for the program and one for each subcommand.
pub(crate) fn pages(folder: &Path) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| Failure::Request(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    clap_mangen::generate_to(Program::command(), folder).map_err(wrong)
}
