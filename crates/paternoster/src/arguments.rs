// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments: what the command line can request.
//!
//! `paternoster run` takes fio's options next to its own (`--name=a --rw=randread --bs=4k`);
//! [`crate::split`] takes them apart before ours are parsed.

use std::path::PathBuf;

#[cfg(feature = "instruments")]
use clap::ValueEnum;
use clap::{Args, Parser, Subcommand};
use paternoster_frame::results::Format;
#[cfg(feature = "instruments")]
use paternoster_frame::setting::{START_JITTER, SettingOptions};
#[cfg(all(feature = "lab", feature = "serve"))]
use paternoster_lab::VersusOptions;
#[cfg(feature = "lab")]
use paternoster_lab::{GuaranteesOptions, ReproduceOptions, ScoreboardOptions, TortureOptions};
#[cfg(feature = "instruments")]
use paternoster_workload::report::TerseVersion;

#[cfg(feature = "instruments")]
use crate::advise::CompareOptions;
#[cfg(feature = "instruments")]
use crate::analyze::AnalyzeOptions;
#[cfg(feature = "instruments")]
use crate::builtin::{DdOptions, DisktestOptions, IostestOptions, TiobenchOptions, TiotestOptions};
#[cfg(feature = "instruments")]
use crate::capture::RecordOptions;
#[cfg(feature = "instruments")]
use crate::cost_model::CostModelOptions;
#[cfg(feature = "serve")]
use crate::ctl::CtlOptions;
#[cfg(all(feature = "instruments", feature = "serve"))]
use crate::emulate::EmulateOptions;
#[cfg(feature = "instruments")]
use crate::examples::ExamplesOptions;
#[cfg(feature = "instruments")]
use crate::replay::ReplayOptions;
#[cfg(feature = "serve")]
use crate::serve::ServeOptions;
#[cfg(feature = "instruments")]
use crate::startup::StartupOptions;
#[cfg(feature = "instruments")]
use crate::sweep::SweepOptions;
#[cfg(feature = "instruments")]
use crate::sysbench::SysbenchOptions;
#[cfg(feature = "serve")]
use crate::top::TopOptions;

/// Linux's I/O schedulers: fio jobs in virtual time or for real, and a server that shares devices
#[derive(Debug, Parser)]
#[command(name = "paternoster", version, arg_required_else_help = true)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "instruments")]
    Run(Box<RunOptions>),
    #[cfg(feature = "instruments")]
    Compare(CompareOptions),
    #[cfg(feature = "instruments")]
    Tiotest(Box<TiotestOptions>),
    #[cfg(feature = "instruments")]
    Tiobench(Box<TiobenchOptions>),
    #[cfg(feature = "instruments")]
    Disktest(Box<DisktestOptions>),
    #[cfg(feature = "instruments")]
    Iostest(Box<IostestOptions>),
    #[cfg(feature = "instruments")]
    Dd(Box<DdOptions>),
    #[cfg(feature = "instruments")]
    Startup(Box<StartupOptions>),
    #[cfg(feature = "instruments")]
    Sysbench(Box<SysbenchOptions>),
    #[cfg(feature = "instruments")]
    Replay(Box<ReplayOptions>),
    #[cfg(feature = "instruments")]
    Sweep(SweepOptions),
    #[cfg(feature = "lab")]
    Reproduce(ReproduceOptions),
    #[cfg(feature = "lab")]
    Guarantees(GuaranteesOptions),
    #[cfg(feature = "lab")]
    Scoreboard(Box<ScoreboardOptions>),
    #[cfg(feature = "lab")]
    Torture(TortureOptions),
    #[cfg(all(feature = "lab", feature = "serve"))]
    VersusKernel(Box<VersusOptions>),
    #[cfg(feature = "instruments")]
    Analyze(Box<AnalyzeOptions>),
    #[cfg(feature = "instruments")]
    Record(RecordOptions),
    #[cfg(feature = "serve")]
    Ctl(Box<CtlOptions>),
    #[cfg(feature = "serve")]
    Top(TopOptions),
    #[cfg(feature = "serve")]
    Serve(Box<ServeOptions>),
    #[cfg(all(feature = "instruments", feature = "serve"))]
    Emulate(EmulateOptions),
    Schedulers(SchedulersOptions),
    #[cfg(feature = "instruments")]
    Devices(DevicesOptions),
    #[cfg(feature = "instruments")]
    CostModel(CostModelOptions),
    #[cfg(feature = "instruments")]
    Examples(ExamplesOptions),
    /// Print a completion script for a shell: commands, options, devices, schedulers, experiments,
    /// attributes
    #[command(after_help = "Example:
  paternoster completions bash > /etc/bash_completion.d/paternoster

Exit status: 0 done, 2 the request was wrong.")]
    Completions {
        /// The shell that the completions are for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder: section 1, and 5 for the server's configuration
    #[command(after_help = "Example:
  paternoster man pages && cp pages/*.1 /usr/local/share/man/man1

Exit status: 0 done, 2 the pages cannot be written.")]
    Man {
        /// The folder; made if it does not exist
        folder: PathBuf,
    },
}

#[cfg(feature = "instruments")]
/// Run fio jobs on a modelled device in virtual time, or on a file or block device for real, under
/// one scheduler or several
#[derive(Debug, Args)]
#[command(mut_arg("start_jitter", |option| option.default_value(START_JITTER)))]
#[command(after_help = "fio's own options may stand beside these: before a job file or the first \
     --name they are \
defaults for all jobs, after --name they belong to that job. --option=value and --option value \
are the same.

The first line writes the job files of the others.

Examples:
  paternoster examples --write jobs
  paternoster run jobs/recipes/database.fio --scheduler noop --scheduler mq-deadline --scheduler bfq
  paternoster run jobs/fair.fio --device flash-card-2010 --scheduler noop --scheduler mq-deadline
  paternoster run jobs/fair.fio --section=test30 --scheduler noop --format json
  paternoster run jobs/fair.fio --scheduler noop --minimal
  paternoster run --name=a --rw=randread --bs=4k --size=64m --direct=1 --runtime=5 --scheduler noop
  generate-jobs | paternoster run - --device my-disk.toml --set nr_requests=32
  paternoster run jobs/fair.fio --scheduler noop --plot queue-depth=depth.svg --plot access=a.svg
  paternoster run jobs/recipes/database.fio --scheduler none --scheduler bfq --html page.html
  paternoster run jobs/recipes/database.fio --scheduler bfq --explain
  paternoster run jobs/recipes/database.fio --scheduler bfq --runtime 1s --perfetto bfq.pftrace
  paternoster run jobs/fair.fio --device disk.img --scheduler noop --scheduler bfq
  paternoster run jobs/fair.fio --fault 'delay every=100 op=read time=50ms' --fault 'error count=1'

Exit status: 0 done, 1 a job failed, 2 the request was wrong, 130 interrupted: the results until
then were printed.")]
pub(crate) struct RunOptions {
    /// Job files; `-` is standard input
    #[arg(value_name = "JOB.fio")]
    pub(crate) files: Vec<String>,

    #[command(flatten)]
    pub(crate) setting: SettingOptions,

    /// Ends every job after this time, whatever it says (5s, 300ms, 2m; seconds without a unit)
    #[arg(long, value_name = "TIME")]
    pub(crate) runtime: Option<String>,

    /// Only the sections of this name, and the globals
    #[arg(long, value_name = "NAME")]
    pub(crate) section: Vec<String>,

    /// Read and check everything, run nothing
    #[arg(long)]
    pub(crate) parse_only: bool,

    /// Write for real also where the device is mounted, swapped to, has partitions or is held
    #[arg(long)]
    pub(crate) force: bool,

    /// How to print the results [default: a table, below fio's report if there is one run]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,

    /// One of fio's output formats instead
    #[arg(long, value_name = "FORM", value_enum, value_delimiter = ',', conflicts_with = "format")]
    pub(crate) output_format: Vec<Form>,

    /// As --output-format terse
    #[arg(long, conflicts_with_all = ["output_format", "format"])]
    pub(crate) minimal: bool,

    /// Which fields the terse form has, 2 to 5; see fio's manual
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = terse_version)]
    pub(crate) terse_version: u8,

    /// Write the results to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Also write a page for a browser: each client over time, a timeline of who had the device and
    /// what waited for what, tables; it needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Say what the longest wait of each client was for, in parts that sum to it
    #[arg(long)]
    pub(crate) explain: bool,

    /// Add a digest of the event stream to the JSON: equal digests, equal runs
    #[arg(long)]
    pub(crate) event_hash: bool,

    /// Do not find out what each job is entitled to: saves a short run of each kind of job alone
    #[arg(long)]
    pub(crate) no_entitlement: bool,
}

#[cfg(feature = "instruments")]
/// fio's forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// fio's report
    Normal,
    /// fio's JSON; one document for each run
    Json,
    /// The same with all bins of latencies
    #[value(name = "json+")]
    JsonPlus,
    /// fio's fields between semicolons, one line for each job
    Terse,
    /// The report of fio 1.x, with its `Run status` lines in bytes per millisecond
    Normal1,
    /// Now `--format csv`, with other columns
    #[value(hide = true)]
    Csv,
    /// Now `--format table`
    #[value(hide = true)]
    Table,
}

/// List the schedulers, or one with its attributes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster schedulers
  paternoster schedulers mq-deadline
  paternoster schedulers deadline --grep
  paternoster schedulers bfq --format json | jq -r '.attributes[].name'

Exit status: 0 done, 2 the request was wrong.")]
pub(crate) struct SchedulersOptions {
    /// Only this one, with every attribute and its meaning
    pub(crate) name: Option<String>,
    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    #[arg(conflicts_with = "grep")]
    pub(crate) format: Format,
    /// As --format json, as it was called
    #[arg(long, hide = true, conflicts_with_all = ["grep", "format"])]
    pub(crate) json: bool,
    /// Print as `grep -r . .` does in /sys/block/DEVICE/queue
    #[arg(long)]
    pub(crate) grep: bool,
}

#[cfg(feature = "instruments")]
/// List the devices, or one with every number and its source
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster devices
  paternoster devices flash-card-2010
  paternoster devices my-disk.toml --grep
  paternoster devices array-eva --grep=2.6.34 --scheduler deadline --set read_ahead_kb=512
  paternoster devices --format json | jq -r '.devices[].name'

Exit status: 0 done, 2 the request was wrong.")]
pub(crate) struct DevicesOptions {
    /// Only this one; a name or a device file
    pub(crate) name: Option<String>,
    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    #[arg(conflicts_with = "grep")]
    pub(crate) format: Format,
    /// As --format json, as it was called
    #[arg(long, hide = true, conflicts_with_all = ["grep", "format"])]
    pub(crate) json: bool,
    /// Print as `grep -r . .` does in /sys/block/DEVICE/queue: everything there is, or what one
    /// kernel has, in its order
    #[arg(long, value_name = "KERNEL", value_enum, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "all", requires = "name")]
    pub(crate) grep: Option<Listing>,
    /// The scheduler for --grep [default: mq-deadline, or cfq for 2.6.34]
    #[arg(long, value_name = "NAME", requires = "grep")]
    pub(crate) scheduler: Option<String>,
    /// An attribute for --grep, by its sysfs name
    #[arg(long, value_name = "ATTRIBUTE=VALUE", value_delimiter = ',', requires = "grep")]
    pub(crate) set: Vec<String>,
}

#[cfg(feature = "instruments")]
/// The attributes to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// Everything that exists here
    All,
    /// What Linux 2.6.34 has
    #[value(name = "2.6.34")]
    Linux2634,
}

#[cfg(feature = "instruments")]
impl Listing {
    /// The scheduler that is listed unless one is named.
    pub(crate) const fn scheduler(self) -> &'static str {
        match self {
            Listing::All => "mq-deadline",
            Listing::Linux2634 => "cfq",
        }
    }
}

#[cfg(feature = "instruments")]
fn terse_version(text: &str) -> Result<u8, String> {
    let known = text.parse().ok().filter(|number| TerseVersion::of(*number).is_some());
    known.ok_or_else(|| "the versions are 2, 3, 4 and 5".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use paternoster_frame::format::goes_to_stdout_as_parquet;

    /// Are the definitions sound by clap's own check?
    #[test]
    fn definitions_are_sound() {
        Program::command().debug_assert();
    }

    /// Does the help of every command say what its exit status means?
    #[test]
    fn every_command_tells_its_exit_status() {
        let program = Program::command();
        let told = |command: &&clap::Command| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            help.contains("Exit status: 0 ")
        };
        let silent = program.get_subcommands().filter(|command| !told(command));
        assert_eq!(silent.map(clap::Command::get_name).collect::<Vec<_>>(), [""; 0]);
    }

    /// Does every option `--format` of every command take all shared formats, by one parser, and
    /// refuse another word with the near one and the list?
    #[test]
    fn all_commands_take_all_formats() {
        let mut seen = 0;
        let program = Program::command();
        for command in program.get_subcommands() {
            let Some(format) =
                command.get_arguments().find(|argument| argument.get_long() == Some("format"))
            else {
                continue;
            };
            seen += 1;
            let names: Vec<String> = format
                .get_possible_values()
                .iter()
                .map(|value| value.get_name().to_owned())
                .collect();
            for shared in ["table", "json", "csv", "html", "markdown", "parquet"] {
                assert!(
                    names.iter().any(|name| name == shared),
                    "{}: {names:?}",
                    command.get_name()
                );
            }
            let words = ["paternoster", command.get_name(), "--format=jsn"];
            let told = Program::command().try_get_matches_from(words).expect_err("it is wrong");
            let told = told.to_string();
            let expected = "--format jsn: there is no such format; did you mean `json`? Known are ";
            assert!(told.contains(expected), "{told}");
        }
        let least = if cfg!(feature = "instruments") { 10 } else { 2 };
        assert!(seen >= least, "{seen} commands have the option");
    }

    /// Is Parquet without a file for it seen with every command that has the option, whatever the
    /// type of its value: so that it is refused on a terminal before anything runs?
    #[test]
    fn parquet_is_seen_before_anything_runs() {
        // The argument that a command requires besides its options.
        let more = |name: &str| match name {
            "analyze" | "replay" | "sysbench" | "disktest" | "ctl" | "reproduce" => Some("x"),
            _ => None,
        };
        let mut seen = 0;
        for command in Program::command().get_subcommands_mut() {
            let arguments = || command.get_arguments();
            let Some(format) = arguments().find(|it| it.get_long() == Some("format")) else {
                continue;
            };
            let id = format.get_id().clone();
            let output = arguments().find(|it| it.get_id() == "output");
            let output = output.and_then(clap::Arg::get_long);
            let asked = |words: &[&str]| {
                let name = command.get_name();
                // Any parser of the value would do, as the program may be without Parquet.
                let plain =
                    command.clone().mut_arg(&id, |it| it.value_parser(clap::value_parser!(String)));
                let plain = plain.subcommand_required(false).ignore_errors(true);
                let words = [name].into_iter().chain(words.iter().copied()).chain(more(name));
                let matches = plain.try_get_matches_from(words).expect("errors are ignored");
                goes_to_stdout_as_parquet(&matches)
            };
            let name = command.get_name();
            assert!(asked(&["--format=parquet"]), "{name}");
            assert!(!asked(&["--format=csv"]), "{name}");
            if let Some(output) = output {
                let output = format!("--{output}=x");
                assert!(!asked(&["--format=parquet", &output]), "{name}");
            }
            seen += 1;
        }
        // The server alone: `top` and `ctl`.
        let least = if cfg!(feature = "instruments") { 10 } else { 2 };
        assert!(seen >= least, "{seen} commands have the option");
    }
}
