// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be asked of `paternoster analyze`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use paternoster_frame::Failure;
use paternoster_frame::format::{Form, Format};
use paternoster_trace::blktrace::DeviceNumber;
use paternoster_trace::filter::{Mask, Window};

use crate::trace_input::InputOptions;

/// Show what block traces say: latencies by phase, merges, seeks, what each process got; as btt or
/// blkparse
#[derive(Debug, Args)]
#[command(after_help = "A trace is the prefix of blktrace's files (sda for sda.blktrace.0 and so \
     on), a file of any format that can be read, or `-` for standard input.

Behind `--` stand the options of btt (--format btt: -A -X -o -s -m -B -q -l -z -L -Q -u -p -P -I -S
-M -a -d -D -t -T -Z) or blkparse (--format blkparse: -t -s -h -q -f -F -a -A -w -M -O -d), which
mean what they mean there.

Examples:
  paternoster analyze sda
  paternoster analyze sda --window 10:20 --plot access=access.svg --plot queue-depth=depth.svg
  paternoster analyze sda --html sda.html
  paternoster analyze kernel-a kernel-b --plot queue-depth=both.svg
  blktrace -d /dev/sda -o - | paternoster analyze - --format json
  paternoster analyze sda --format btt -- -A -o sda -q sda -Q sda
  paternoster analyze sda --format blkparse -- -t -f '%5T.%9t %p %a %d %S + %n\\n'

Exit status: 0 done, 2 the request or a trace was wrong.")]
pub(crate) struct AnalyzeOptions {
    /// Traces; several are compared in one picture
    #[arg(value_name = "TRACE", required = true)]
    pub(super) traces: Vec<String>,

    /// How to print the analysis
    #[arg(long, alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    pub(super) format: Form<Own>,

    /// Only this span, in seconds from the first event
    #[arg(long, value_name = "START:END")]
    window: Option<String>,

    /// Only these kinds of events: read, write, flush, sync, queue, requeue, issue, complete, fs,
    /// pc, ahead, meta, discard, fua; or a mask as 0xc0
    #[arg(long, value_name = "KIND,…")]
    mask: Option<String>,

    /// Only this device
    #[arg(long, value_name = "MAJOR,MINOR")]
    device: Option<String>,

    #[command(flatten)]
    pub(super) input: InputOptions,

    /// Draws all traces into one picture; kinds as with `run`; may be given several times
    #[arg(long, value_name = "KIND=FILE.svg")]
    pub(super) plot: Vec<String>,

    /// Writes a page for a browser: every table, every picture, values under the pointer; it needs
    /// no network
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Write the result to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Options of btt or blkparse
    #[arg(last = true, value_name = "OPTION")]
    pub(super) words: Vec<String>,
}

/// The formats of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Own {
    /// What btt prints, to the byte
    Btt,
    /// What blkparse prints, to the byte
    Blkparse,
}

/// The selection of events.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Selection {
    pub(crate) window: Option<Window>,
    pub(crate) mask: Option<Mask>,
    pub(crate) device: Option<DeviceNumber>,
}

impl AnalyzeOptions {
    /// The analysis that was asked for, as it was written.
    pub(super) fn asked(&self) -> String {
        let options = [("window", &self.window), ("mask", &self.mask), ("device", &self.device)];
        let given = options.iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        let given: Vec<String> = given.map(|(name, text)| format!("--{name} {text}")).collect();
        if given.is_empty() { String::new() } else { format!(" ({})", given.join(", ")) }
    }

    /// Reads which events are looked at.
    pub(super) fn selection(&self) -> Result<Selection, Failure> {
        let wrong = |option: &str, text: &str, why: String| {
            Failure::Request(format!("{option} {text}: {why}"))
        };
        let window = self
            .window
            .as_deref()
            .map(|text| Window::parse(text).map_err(|why| wrong("--window", text, why)));
        let mask = self
            .mask
            .as_deref()
            .map(|text| Mask::parse(text).map_err(|why| wrong("--mask", text, why)));
        let device = self.device.as_deref().map(|text| {
            device_number(text).ok_or_else(|| {
                wrong("--device", text, "a device is MAJOR,MINOR, as 8,0".to_owned())
            })
        });
        Ok(Selection {
            window: window.transpose()?,
            mask: mask.transpose()?,
            device: device.transpose()?,
        })
    }

    /// Whether a page with every picture is made.
    pub(super) fn draws_all(&self) -> bool {
        self.html.is_some() || self.format == Form::Shared(Format::Html)
    }

    /// Refuses options of other programs where they mean nothing.
    pub(super) fn no_words(&self) -> Result<(), Failure> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(Failure::Request(format!(
                "{word}: options behind `--` are for --format btt and --format blkparse"
            ))),
        }
    }
}

/// `8,0` or `8:0`.
pub(crate) fn device_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once([',', ':'])?;
    let (major, minor): (u32, u32) = (major.trim().parse().ok()?, minor.trim().parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then(|| DeviceNumber::new(major, minor))
}
