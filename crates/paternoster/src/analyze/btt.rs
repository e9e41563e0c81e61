// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--format btt`: the options of that program, its report and its files.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use paternoster_frame::Failure;
use paternoster_frame::say;
use paternoster_trace::btt::{Analysis, Figures, Files, Folder, Options};

use super::each;
use super::letters::{Letter, read};
use super::options::{AnalyzeOptions, Selection, device_number};
use crate::trace_input::tell_problems;

/// The known letters of btt, as getopt has them. `-i` is the trace that we are given.
const LETTERS: &str = "AaB:d:D:I:l:L:m:M:o:p:P:q:Q:rs:S:t:T:u:vXz:Z";
/// Long names of btt's options.
const LONG: [(&str, char); 24] = [
    ("all-data", 'A'),
    ("seek-absolute", 'a'),
    ("dump-blocknos", 'B'),
    ("range-delta", 'd'),
    ("devices", 'D'),
    ("iostat", 'I'),
    ("d2c-latencies", 'l'),
    ("periodic-latencies", 'L'),
    ("seeks-per-second", 'm'),
    ("dev-maps", 'M'),
    ("output-file", 'o'),
    ("per-io-dump", 'p'),
    ("per-io-trees", 'P'),
    ("q2c-latencies", 'q'),
    ("active-queue-depth", 'Q'),
    ("no-remaps", 'r'),
    ("seeks", 's'),
    ("iostat-interval", 'S'),
    ("time-start", 't'),
    ("time-end", 'T'),
    ("unplug-hist", 'u'),
    ("easy-parse-avgs", 'X'),
    ("q2d-latencies", 'z'),
    ("do-active", 'Z'),
];

pub(super) fn run(options: &AnalyzeOptions, selection: &Selection) -> Result<(), Failure> {
    let names: Vec<&String> = super::distinct(&options.traces).collect();
    let [name] = names[..] else {
        let message = "--format btt reads one trace at a time";
        return Err(Failure::Request(message.to_owned()));
    };
    let letters = read(&options.words, LETTERS, &LONG).map_err(Failure::Request)?;
    let asked = asked(letters)?;
    let mut source = options.input.open(name)?;
    let done = match &options.output {
        None => analyse(&mut *source, selection, asked, Folder::new(".")),
        Some(path) => {
            let report = File::create(path)
                .map_err(|error| Failure::Request(format!("{}: {error}", path.display())))?;
            let files = Redirected { report, folder: Folder::new(".") };
            analyse(&mut *source, selection, asked, files)
        }
    };
    tell_problems(&*source);
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => {
            tell_left_out(&done?);
            Ok(())
        }
    }
}

fn analyse(
    source: &mut dyn paternoster_trace::Source,
    selection: &Selection,
    asked: Options,
    files: impl Files,
) -> io::Result<Figures> {
    let mut analysis = Analysis::new(asked, files);
    each(source, selection, |entry| analysis.record(entry));
    analysis.finish()
}

/// Reports what had no room in the analysis.
fn tell_left_out(figures: &Figures) {
    let left = &figures.left_out;
    let parts = [
        (left.events, "events of too many devices"),
        (left.bios, "I/Os that never ended"),
        (left.processes, "names of processes"),
    ];
    for (count, what) in parts {
        if count > 0 {
            say!("note: {count} {what} were left out");
        }
    }
}

/// Reads btt's options.
fn asked(letters: Vec<Letter>) -> Result<Options, Failure> {
    let mut asked = Options::default();
    for Letter { name, value } in letters {
        let wrong = |why: &str| Failure::Request(format!("-{name} {value}: {why}"));
        let seconds = || {
            let seconds: Option<f64> = value.parse().ok();
            let sound = seconds.filter(|seconds| (0.0..1e10).contains(seconds));
            sound.ok_or_else(|| wrong("it is a time in seconds"))
        };
        let text = Some(value.clone());
        match name {
            'A' => asked.all = true,
            'a' => asked.absolute_seeks = true,
            'r' => asked.no_remaps = true,
            'X' => asked.easy = true,
            'Z' => asked.live = true,
            'd' => asked.range_delta = seconds()?,
            't' => asked.start = Some(seconds()?),
            'T' => asked.end = Some(seconds()?),
            'L' => asked.periodic = Some(seconds()?),
            'o' => asked.output = text,
            's' => asked.seeks = text,
            'm' => asked.seeks_per_second = text,
            'B' => asked.blocks = text,
            'q' => asked.q2c = text,
            'l' => asked.d2c = text,
            'z' => asked.q2d = text,
            'Q' => asked.depth = text,
            'u' => asked.unplugs = text,
            'p' => asked.per_io = text,
            'P' => asked.per_io_trees = true,
            'I' => asked.iostat = text,
            'S' => {
                let interval = value.parse().ok().filter(|seconds| *seconds > 0);
                asked.iostat_interval =
                    interval.ok_or_else(|| wrong("it is a number of seconds"))?;
            }
            'D' => {
                let list = value.split([';', ' ']).filter(|part| !part.is_empty());
                let devices: Option<Vec<_>> = list.map(device_number).collect();
                asked.devices =
                    devices.ok_or_else(|| wrong("it is a list of devices, as `8,0;8,16`"))?;
            }
            'M' => {
                let map = std::fs::read_to_string(&value).map_err(|why| wrong(&why.to_string()))?;
                let names = Options::read_names(&map);
                asked.names = names.map_err(|why| Failure::Request(format!("{value}: {why}")))?;
            }
            _ => {}
        }
    }
    Ok(asked)
}

/// Side files in a folder, the report in its own file.
struct Redirected {
    report: File,
    folder: Folder,
}

impl Files for Redirected {
    fn create(&mut self, name: &str) -> io::Result<()> {
        if is_report(name) { Ok(()) } else { self.folder.create(name) }
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if is_report(name) { self.report.write_all(bytes) } else { self.folder.append(name, bytes) }
    }
}

fn is_report(name: &str) -> bool {
    Path::new(name) == Path::new(paternoster_trace::btt::STANDARD_OUTPUT)
}
