// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manual: completion scripts and man pages, made from the definitions of the arguments, and the
//! page of the server's configuration, made from its documentation.
//!
//! A script is written once, so it contains the values known now: devices, schedulers, experiments,
//! attributes. Where a file will do as well (`--device mine.toml`), bash completes file names when
//! no known value begins with the text.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Command;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_complete::Shell;
use paternoster_base::schedulers::choices;
use paternoster_core::DeviceFacts;
use paternoster_frame::Failure;
use paternoster_frame::choice::queue;
#[cfg(feature = "instruments")]
use paternoster_frame::job_files;
#[cfg(feature = "instruments")]
use paternoster_sim::catalog;

#[cfg(feature = "serve")]
use crate::roff;
use crate::{complete, help, synopsis};

/// The documentation of the configuration; a link, so that the package has it too.
#[cfg(feature = "serve")]
const CONFIGURATION: &str = include_str!("../configuration.markdown");

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_values(help::program()), "paternoster", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    paternoster_frame::print(&complete::with_attributes(shell, script, &help::program()))
}

/// Writes a page for the program, one for each subcommand, and section 5.
pub(crate) fn pages(folder: &Path) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| Failure::Request(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let mut program = help::program();
    clap_mangen::generate_to(program.clone(), folder).map_err(wrong)?;
    program.build();
    with_synopses(&program, folder).map_err(wrong)?;
    #[cfg(feature = "serve")]
    {
        let what = "the configuration of paternoster serve";
        let page = roff::page("paternoster", 5, what, CONFIGURATION);
        std::fs::write(folder.join("paternoster.5"), page).map_err(wrong)?;
    }
    Ok(())
}

/// Writes the synopsis of each page anew: the generator leaves values out.
fn with_synopses(command: &Command, folder: &Path) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = folder.join(format!("{name}.1"));
    if path.exists() {
        let page = std::fs::read_to_string(&path)?;
        std::fs::write(path, synopsis::rewritten(&page, command))?;
    }
    command.get_subcommands().try_for_each(|below| with_synopses(below, folder))
}

/// The definitions with the values that options take from a list of ours.
fn with_values(mut command: Command) -> Command {
    let own = command.get_name().to_owned();
    let ids: Vec<String> =
        command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
    #[cfg(feature = "instruments")]
    let has = |id: &str| ids.iter().any(|one| one == id);
    // The device of a trace or a server is not one of ours.
    #[cfg(feature = "instruments")]
    let models =
        has("scheduler") || ["emulate", "versus-kernel", "cost-model"].contains(&own.as_str());
    for id in &ids {
        let values = match (own.as_str(), id.as_str()) {
            ("schedulers", "name") | (_, "scheduler") => schedulers(),
            ("scheduler", "name") => schedulers(),
            #[cfg(feature = "instruments")]
            ("devices", "name") => devices(),
            #[cfg(feature = "instruments")]
            (_, "device") if models => devices(),
            ("reproduce", "names") => experiments(),
            #[cfg(feature = "instruments")]
            ("examples", "name") => {
                job_files::EXAMPLES.map(|(path, _)| job_files::short(path)).map(Into::into).to_vec()
            }
            ("set", "assignments") | (_, "set") => assignments(),
            ("get", "attribute") => attributes().into_iter().map(PossibleValue::new).collect(),
            _ => continue,
        };
        command = command.mut_arg(id, |argument| {
            argument.value_parser(PossibleValuesParser::new(values)).hide_possible_values(true)
        });
    }
    // In zsh a colon ends the name of a value, and what follows is a command.
    for id in &ids {
        command = command.mut_arg(id, |argument| {
            let names = argument.get_value_names().unwrap_or_default();
            if names.iter().all(|name| !name.contains([':', '['])) {
                return argument;
            }
            let plain = |name: &str| name.split('[').next().unwrap_or("").replace(':', "-");
            let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
            argument.value_names(names)
        });
    }
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| command.mut_subcommand(name, with_values))
}

fn schedulers() -> Vec<PossibleValue> {
    choices().map(|entry| PossibleValue::new(entry.name).help(entry.summary)).collect()
}

#[cfg(feature = "instruments")]
fn devices() -> Vec<PossibleValue> {
    catalog::FILES.iter().map(|(name, _)| PossibleValue::new(*name)).collect()
}

#[cfg(feature = "lab")]
fn experiments() -> Vec<PossibleValue> {
    paternoster_lab::experiments().into_iter().map(PossibleValue::new).collect()
}

#[cfg(not(feature = "lab"))]
fn experiments() -> Vec<PossibleValue> {
    Vec::new()
}

/// All attributes of schedulers and of the queue that can be set, each once.
fn attributes() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in choices() {
        let Ok(queue) = queue(entry.name, DeviceFacts::default(), &[]) else { continue };
        queue.for_each_attribute(|path, _, _| {
            names.insert(path.strip_prefix("iosched/").unwrap_or(path).to_owned());
        });
    }
    names
}

fn assignments() -> Vec<PossibleValue> {
    attributes().into_iter().map(|name| PossibleValue::new(name + "=")).collect()
}
