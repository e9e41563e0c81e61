// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the program understand the lines with which `reproduce --commands` says that its runs are
//! repeated by hand? (The laboratory writes them, and does not know how arguments are read.)

use clap::Parser;
use paternoster_core::Nanos;
use paternoster_lab::command;
use paternoster_workload::builtin::startup::Startup;
use paternoster_workload::builtin::startup::profile::by_name;
use paternoster_workload::builtin::sysbench::{IoMode, Mode, SyncCall, Sysbench};
use paternoster_workload::fio::syncs::FileSync;

use crate::arguments::{Command, Program};
use crate::split::split_off_fio;

/// A line's words, which begin with the program, as it reads them.
fn parsed(line: &str) -> Program {
    let words = line.split_whitespace().map(str::to_owned).collect();
    let parsed = Program::try_parse_from(split_off_fio(words).unwrap().0);
    parsed.unwrap_or_else(|wrong| panic!("{line}: {wrong}"))
}

/// Does the program itself understand every line that it prints?
#[test]
fn every_line_is_understood() {
    let lines = command::all_lines();
    assert!(lines.len() > 100, "{} lines", lines.len());
    lines.iter().for_each(|line| drop(parsed(line)));
}

/// Does the line of a start-up have all its settings?
#[test]
fn startups_are_told_whole() {
    let startup = Startup {
        writers: 0,
        random_readers: 2,
        direct: true,
        file_size: Some(1 << 30),
        warmup: Nanos::from_millis(1500),
        ..Startup::new(by_name("xterm").expect("a profile"))
    };
    let line = format!("paternoster {}", command::startup(&startup, 100).join(" "));
    let Command::Startup(options) = parsed(&line).command else { panic!("{line}") };
    let asked = crate::startup::asked(&options).unwrap_or_else(|_| panic!("{line}"));
    assert_eq!(format!("{asked:?}"), format!("{startup:?}"));
}

/// Does the line of a sysbench have all its settings, with every option and with none?
#[test]
fn sysbenches_are_told_whole() {
    let plain = Sysbench::new(Mode::RandomWrite);
    let every = Sysbench {
        threads: 8,
        time: Some(Nanos::from_millis(2500)),
        events: Some(1000),
        rate: Some(70),
        percentile: 99,
        report_interval: Some(Nanos::from_secs(1)),
        files: 16,
        block: 4096,
        total: 1 << 30,
        mode: Mode::RandomReadWrite,
        io_mode: IoMode::Async(4),
        open: FileSync::Dsync,
        direct: true,
        sync_every: 10,
        sync_all: false,
        sync_end: false,
        sync_call: SyncCall::Fdatasync,
        merged: 2,
        ratio: 0.5,
    };
    let safe = Sysbench { sync_all: true, time: None, events: Some(9), ..plain.clone() };
    for sysbench in [plain, every, safe] {
        let line = format!("paternoster {}", command::sysbench(&sysbench).join(" "));
        let Command::Sysbench(options) = parsed(&line).command else { panic!("{line}") };
        let asked = crate::sysbench::asked(&options).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(format!("{asked:?}"), format!("{sysbench:?}"), "{line}");
    }
}
