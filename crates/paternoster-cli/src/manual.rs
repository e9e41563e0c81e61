// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manual: completion scripts and man pages, made from the definitions of the arguments.

use std::path::Path;

use clap::CommandFactory;

use crate::Failure;
use crate::arguments::Program;

/// Prints a completion script.
#[expect(clippy::unnecessary_wraps, reason = "every command may fail")]
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    clap_complete::generate(shell, &mut Program::command(), "paternoster", &mut std::io::stdout());
    Ok(())
}

/// Writes a page for the program and one for each subcommand.
pub(crate) fn pages(folder: &Path) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| Failure::Request(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    clap_mangen::generate_to(Program::command(), folder).map_err(wrong)
}
