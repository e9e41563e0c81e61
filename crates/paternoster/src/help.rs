// SPDX-License-Identifier: MIT OR Apache-2.0
//! Help: the commands by purpose, examples that work anywhere, and the default device.
//!
//! ```text
//! GROUPS ──▶ --help            Simulate: run, compare …   Traces: …   Serve: …   Learn: …
//! matches ─▶ note on stderr    device ssd-870evo, as none was named
//! ```
//!
//! # Invariants
//! H1  Each command of this program is in one group (a test).

use std::io::ErrorKind;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use paternoster_frame::say;
use paternoster_frame::{Failure, format};

use crate::arguments::Program;

/// What `--help` begins and ends with; clap's own list of commands is replaced by the groups.
const TEMPLATE: &str = "{about-with-newline}
{usage-heading} {usage}

{before-help}Options:
{options}{after-help}";

/// Groups of commands, and what each does in a line.
const GROUPS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Simulate",
        &[
            ("run", "fio jobs under schedulers, in virtual time or for real"),
            ("compare", "which scheduler suits a job, and why"),
            ("sweep", "the rows of a plan, or one part of so many"),
            ("examples", "job files that are built in: list, print, write"),
            ("devices", "what can be simulated, each number with its source"),
            ("schedulers", "which there are, and their attributes"),
            ("cost-model", "what requests cost a device, measured"),
            ("startup", "how long a program takes to start beside other I/O"),
            ("sysbench", "sysbench's fileio"),
            ("tiotest, tiobench, disktest, iostest, dd", "older benchmarks, as they print"),
        ],
    ),
    (
        "Traces",
        &[
            ("replay", "a trace under other schedulers, on other devices"),
            ("analyze", "who waited where; btt, blkparse, a page for a browser"),
            ("record", "a trace of this machine's disk"),
        ],
    ),
    (
        "Serve",
        &[
            ("serve", "share files and disks by weight, over NBD and FUSE"),
            ("ctl", "ask and change a server that runs"),
            ("top", "who has how much of it, now"),
            ("emulate", "a modelled device as a file, in real time"),
        ],
    ),
    (
        "Learn and judge",
        &[
            ("reproduce", "published experiments done again"),
            ("guarantees", "what each scheduler promises, measured"),
            ("scoreboard", "all schedulers on many workloads and devices"),
            ("torture", "random loads, judged by laws"),
            ("versus-kernel", "our figures beside those of this machine's kernel"),
        ],
    ),
    (
        "Install",
        &[
            ("completions", "a script for bash, zsh, fish …"),
            ("man", "manual pages, sections 1 and 5"),
            ("help", "this, or the help of a command"),
        ],
    ),
];

/// Lines of examples; those whose command is left out of this program are left out.
const EXAMPLES: [&str; 9] = [
    "examples --write jobs                                    # for the lines below",
    "compare jobs/recipes/database.fio --device ssd-870evo --goal 'pg-read p99<5ms'",
    "run jobs/recipes/database.fio --scheduler none --scheduler bfq",
    "run --name=a --rw=randread --bs=4k --size=1g --direct=1 --runtime=5 --scheduler kyber",
    "replay sda.blktrace.0 --device ssd-870evo --scheduler none --scheduler bfq",
    "analyze sda.blktrace.0 --html report.html",
    "serve disk.img --run 'nbdinfo $uri'",
    "reproduce flash-fairness",
    "devices nvme-pm9a3",
];

/// Columns for names in the list of commands.
const NAMES: usize = 16;

/// The definition of all arguments.
pub(crate) fn program() -> Command {
    let plain = Program::command();
    let (groups, examples) = (groups(&plain), examples(&plain));
    plain.help_template(TEMPLATE).before_help(groups).after_help(examples)
}

/// Parses the request. Names the device if none was given.
pub(crate) fn parse(words: Vec<String>) -> Result<Program, Failure> {
    let old = words.iter().any(|word| word.starts_with("--output-format"));
    let matches = program().try_get_matches_from(words).map_err(|told| printed(&told))?;
    // By the requested name: clap panics when asked for a command that was left out.
    if let Some((command @ ("ctl" | "devices" | "schedulers"), own)) = matches.subcommand()
        && own.get_flag("json")
    {
        say!("note: `{command} --json` is now `--format json`");
    }
    match matches.subcommand() {
        // fio's forms are still called that.
        #[cfg(feature = "instruments")]
        Some(("run", own)) if old => old_forms(own),
        Some((name, _)) if old => say!("note: `{name} --output-format` is now `--format`"),
        _ => {}
    }
    if let Some((_, own)) = matches.subcommand() {
        format::check(own)?;
    }
    if let Some((_, own)) = matches.subcommand()
        && let Some(device) = unnamed(own)
    {
        say!("note: device {device}, as none was named; `paternoster devices` lists others");
    }
    Ok(Program::from_arg_matches(&matches)?)
}

/// Prints the requested help or version, or the error; returns how the program ends then.
fn printed(told: &clap::Error) -> Failure {
    match told.print() {
        // As with the program's own messages: the status decides.
        _ if told.use_stderr() => Failure::Status(2),
        Err(error) if error.kind() != ErrorKind::BrokenPipe => error.into(),
        _ => Failure::Status(0),
    }
}

/// Points to the new place of what was among fio's forms.
#[cfg(feature = "instruments")]
fn old_forms(own: &ArgMatches) {
    use crate::arguments::Form;
    let forms = own.get_many::<Form>("output_format").unwrap_or_default();
    for (form, name) in [(Form::Csv, "csv"), (Form::Table, "table")] {
        if forms.clone().any(|one| *one == form) {
            let more = if name == "csv" { ", which has other columns, too" } else { "" };
            say!("note: `--output-format {name}` is now `--format {name}`{more}");
        }
    }
}

/// The same, but an error is returned, and nothing is printed.
pub(crate) fn try_parse(words: Vec<String>) -> Result<Program, Failure> {
    let refused = |error: clap::Error| {
        let text = error.to_string();
        Failure::Request(text.trim_end().trim_start_matches("error: ").to_owned())
    };
    let matches = program().try_get_matches_from(words).map_err(refused)?;
    Program::from_arg_matches(&matches).map_err(refused)
}

/// The device of a command that was not given one.
fn unnamed(own: &ArgMatches) -> Option<&String> {
    let has = |id: &str| own.ids().any(|known| known == id);
    let quiet = has("quiet") && own.get_flag("quiet");
    let of_a_run = has("scheduler") && !(has("decisions") && own.contains_id("decisions"));
    let is_default = has("device") && own.value_source("device") == Some(ValueSource::DefaultValue);
    if quiet || !of_a_run || !is_default { None } else { own.get_one("device") }
}

fn is_here(program: &Command, name: &str) -> bool {
    name == "help" || program.find_subcommand(name).is_some()
}

/// The list of commands.
fn groups(program: &Command) -> String {
    let mut text = String::new();
    for (heading, commands) in GROUPS {
        let here: Vec<_> = commands
            .iter()
            .filter(|(names, _)| names.split(", ").all(|name| is_here(program, name)))
            .collect();
        if here.is_empty() {
            continue;
        }
        text += &format!("{heading}:\n");
        for (names, what) in here {
            text += &match names.len() {
                ..NAMES => format!("  {names:NAMES$}{what}\n"),
                _ => format!("  {names}\n  {:NAMES$}{what}\n", ""),
            };
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn examples(program: &Command) -> String {
    let here = |line: &&str| line.split(' ').next().is_some_and(|name| is_here(program, name));
    let lines: Vec<String> = EXAMPLES
        .into_iter()
        .filter(|line| here(line))
        .map(|line| format!("  paternoster {line}"))
        .collect();
    format!("Examples:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is each command in one group, in a line that fits 80 columns, and is the help without clap's
    /// own list?
    #[test]
    fn each_command_has_a_group() {
        let program = program();
        let listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, commands)| commands.iter())
            .flat_map(|(names, _)| names.split(", "))
            .collect();
        for command in program.get_subcommands() {
            let name = command.get_name();
            assert_eq!(listed.iter().filter(|&&one| one == name).count(), 1, "{name}");
        }
        let help = program.clone().render_help().to_string();
        assert_eq!(help.matches("a script for bash").count(), 1, "{help}");
        assert!(!help.contains("Commands:"), "{help}");
        let groups = groups(&program);
        assert!(groups.lines().all(|line| line.chars().count() <= 80), "{groups}");
    }

    /// Is a run's default device named, and none where one was given, means nothing, or nothing
    /// should be said?
    #[cfg(feature = "instruments")]
    #[test]
    fn the_default_device_is_named() {
        let named = |line: &str| {
            let words = ["paternoster"].into_iter().chain(line.split(' '));
            let matches = program().get_matches_from(words);
            unnamed(matches.subcommand().expect("one").1).cloned()
        };
        assert_eq!(named("run a.fio").as_deref(), Some("ssd-870evo"));
        assert_eq!(named("tiotest").as_deref(), Some("ssd-870evo"));
        assert_eq!(named("replay t").as_deref(), Some("hdd-7200"));
        for line in ["run a.fio -q", "run a.fio --device null", "devices", "schedulers bfq"] {
            assert_eq!(named(line), None, "{line}");
        }
    }
}
