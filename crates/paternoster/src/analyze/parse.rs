// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--format blkparse`: the options of that program, and its text.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use paternoster_frame::Failure;
use paternoster_trace::Source;
use paternoster_trace::blkparse::{Inputs, Options, Text};
use paternoster_trace::blktrace::Writer;
use paternoster_trace::filter::{Mask, Window};

use super::letters::{Letter, read};
use super::options::{AnalyzeOptions, Selection};
use crate::trace_input::tell_problems;

/// The letters of blkparse that are known, as getopt has them.
const LETTERS: &str = "tshqf:F:a:A:w:MOd:v";
/// Long names of blkparse's options.
const LONG: [(&str, char); 12] = [
    ("track-ios", 't'),
    ("per-program-stats", 's'),
    ("hash-by-name", 'h'),
    ("quiet", 'q'),
    ("format", 'f'),
    ("format-spec", 'F'),
    ("act-mask", 'a'),
    ("set-mask", 'A'),
    ("stopwatch", 'w'),
    ("no-msgs", 'M'),
    ("no-text-output", 'O'),
    ("dump-binary", 'd'),
];

pub(super) fn run(options: &AnalyzeOptions, selection: &Selection) -> Result<(), Failure> {
    let names: Vec<&String> = super::distinct(&options.traces).collect();
    let [name] = names[..] else {
        let message = "--format blkparse reads one trace at a time";
        return Err(Failure::Request(message.to_owned()));
    };
    let letters = read(&options.words, LETTERS, &LONG).map_err(Failure::Request)?;
    let mut asked = Options::of(match &name[..] {
        "-" => Inputs::Devices,
        name => Inputs::Named(vec![prefix(name)]),
    });
    asked.window = selection.window;
    let (mut dump, mut no_messages, mut mask) = (None, false, selection.mask);
    for Letter { name, value } in letters {
        let wrong = |why| Failure::Request(format!("-{name} {value}: {why}"));
        match name {
            't' => asked.elapsed = true,
            's' => asked.programs = true,
            'h' => asked.by_name = true,
            'q' => asked.quiet = true,
            'O' => asked.silent = true,
            'f' => asked.formats.set_all(&value).map_err(wrong)?,
            'F' => asked.formats.set_one(&value).map_err(wrong)?,
            'w' => asked.window = Some(Window::parse(&value).map_err(wrong)?),
            'a' | 'A' => {
                let new = if name == 'a' { Mask::parse(&value) } else { Mask::parse_hex(&value) };
                let new = new.map_err(wrong)?;
                mask = Some(mask.map_or(new, |mask| mask | new));
            }
            'M' => no_messages = true,
            'd' => dump = Some(value),
            _ => {}
        }
    }
    asked.mask = mask.unwrap_or_default();
    let mut source = options.input.open(name)?;
    let done = match (&options.output, dump) {
        (None, dump) => {
            write(&mut *source, asked, selection, io::stdout().lock(), dump, no_messages)
        }
        (Some(path), dump) => {
            let file = File::create(path)
                .map_err(|error| Failure::Request(format!("{}: {error}", path.display())))?;
            write(&mut *source, asked, selection, BufWriter::new(file), dump, no_messages)
        }
    };
    tell_problems(&*source);
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn write(
    source: &mut dyn Source,
    asked: Options,
    selection: &Selection,
    out: impl Write,
    dump: Option<String>,
    no_messages: bool,
) -> io::Result<()> {
    let window = asked.window;
    let mut text = Text::new(asked, out);
    let mut dump = match dump {
        None => None,
        Some(name) => {
            let writer = Writer::new(BufWriter::new(File::create(name)?));
            Some(if no_messages { writer.without_messages() } else { writer })
        }
    };
    while let Some(entry) = source.next() {
        if selection
            .device
            .is_some_and(|device| device != entry.record.device && !entry.record.is_note())
        {
            continue;
        }
        text.record(&entry)?;
        let within = window.is_none_or(|window| {
            entry.record.is_note()
                || window.start <= entry.record.at && entry.record.at <= window.end
        });
        if let (Some(dump), true) = (&mut dump, within) {
            dump.record(&entry)?;
        }
    }
    text.finish()?;
    dump.map_or(Ok(()), |mut dump| dump.finish())
}

/// The name as blkparse has it: without `.blktrace.N`.
fn prefix(name: &str) -> String {
    name.rfind(".blktrace.").map_or(name, |at| &name[..at]).to_owned()
}
