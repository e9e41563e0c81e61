// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `paternoster replay`, and their checks.

use std::path::PathBuf;

use clap::Args;
use paternoster_frame::Failure;
use paternoster_frame::results::Format;
use paternoster_frame::setting::SettingOptions;
use paternoster_trace::filter::Window;
use paternoster_workload::replay::{Fit, Manner, Speed};

use super::read::Part;
use crate::trace_input::InputOptions;

/// Replay a recorded trace under other schedulers, on other devices
#[derive(Debug, Args)]
#[command(mut_arg("device", |device| device.default_value("hdd-7200")))]
#[command(mut_arg("seed", |seed| seed.help("Seeds what faults leave to chance")))]
#[command(mut_arg("submit_cost", |option| option.hide(true)))]
#[command(mut_arg("start_jitter", |option| option.hide(true)))]
#[command(mut_arg("host", |option| option.hide(true)))]
#[command(mut_arg("placement", |option| option.hide(true)))]
#[command(after_help = "What each process asked for comes again: under `timed` at the recorded \
times, whatever the device does; under `think` as long after the I/O that it followed as in the \
recording, so that a faster device is used faster; under `asap` at once after it. The default is \
think, if the trace tells when I/Os ended.

Examples:
  blktrace -d /dev/sda -w 60
  paternoster replay sda --scheduler none --scheduler mq-deadline --scheduler bfq
  paternoster replay sda --device hdd-7200 --device ssd-870evo --scheduler bfq
  paternoster replay sda --manner timed --speed 2 --scheduler kyber --format json
  paternoster replay merged.bin --from-device 8,16 --window 10:20 --plot queue-depth=depth.svg
  blktrace -d /dev/sda -w 10 -o - | paternoster replay - --scheduler cfq
  paternoster replay --decisions live.sda.decisions --dispatch order.csv --trace again

Exit status: 0 done, 1 I/Os failed or decisions differ, 2 the request was wrong, 130 interrupted:
the replays until then were printed.")]
pub(crate) struct ReplayOptions {
    /// A trace of any format that can be read: blktrace's files by their prefix (sda for
    /// sda.blktrace.0 and so on), one file, or `-` for standard input
    #[arg(value_name = "TRACE", required_unless_present = "decisions")]
    recording: Option<String>,
    /// Instead of a trace the record of a server's decisions (`paternoster serve --decisions`), or
    /// `-`: every call is repeated, every answer compared with the recorded one
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_TRACES)]
    pub(super) decisions: Option<String>,
    /// With --decisions: writes what went to the device, in this order (time_ns, op, sector,
    /// sectors, client)
    #[arg(long, value_name = "OUT.csv", requires = "decisions")]
    pub(super) dispatch: Option<PathBuf>,
    /// When I/Os are submitted [default: think, or timed if the trace does not say when they ended]
    #[arg(long, value_name = "HOW", value_parser = named(&MANNERS))]
    pub(super) manner: Option<Manner>,
    /// Speed factor: divides recorded times and think times (0.1 to 1000)
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    speed: String,
    /// Only arrivals in this time of the trace, in seconds (10:20, 10:, :20)
    #[arg(long, value_name = "START:END")]
    window: Option<String>,
    /// Which of the trace's devices (8,16, or its name) [default: the one with the most bytes]
    #[arg(long, value_name = "DEVICE")]
    from_device: Option<String>,
    /// What happens to sectors beyond the end of the device: they wrap around to the front,
    /// everything is moved closer in pieces of 64 MiB, or the replay is refused
    #[arg(long, value_name = "HOW", default_value = "wrap", value_parser = named(&FITS))]
    pub(super) fit: Fit,
    /// How many processes the table shows, those with the most bytes
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(super) processes: usize,
    /// How to print the results
    #[arg(long, alias = "output-format", value_name = "FORMAT")]
    #[arg(default_value = "table")]
    pub(super) format: Format,
    /// Also write a page for a browser: each process over time, a timeline of who had the device
    /// and what waited for what, tables; it needs no network
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Say what the longest wait of each process was for, in parts that sum to it
    #[arg(long)]
    pub(super) explain: bool,
    #[command(flatten)]
    pub(super) input: InputOptions,
    #[command(flatten)]
    pub(super) setting: SettingOptions,
}

/// Options that mean nothing for a record of decisions.
const OF_TRACES: [&str; 21] = [
    "recording",
    "manner",
    "speed",
    "window",
    "from_device",
    "fit",
    "processes",
    "format",
    "html",
    "explain",
    "input_format",
    "device",
    "scheduler",
    "set",
    "fault",
    "seed",
    "submit_cost",
    "start_jitter",
    "host",
    "plot",
    "perfetto",
];

/// Names of the manners of replaying.
const MANNERS: [(&str, Manner); 3] =
    [("timed", Manner::Timed), ("think", Manner::Think), ("asap", Manner::Asap)];
/// Names of the ways to fit.
const FITS: [(&str, Fit); 3] = [("wrap", Fit::Wrap), ("scale", Fit::Scale), ("fail", Fit::Fail)];

/// A parser of names for values.
fn named<T: Copy + Send + Sync + 'static>(
    names: &'static [(&'static str, T)],
) -> impl clap::builder::TypedValueParser<Value = T> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let parser = PossibleValuesParser::new(names.iter().map(|(name, _)| *name));
    parser.try_map(|text| {
        let found = names.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or("no such name")
    })
}

impl ReplayOptions {
    /// The trace, as it was named.
    pub(super) fn trace(&self) -> &str {
        self.recording.as_deref().unwrap_or_default()
    }

    /// The part of the trace to replay.
    pub(super) fn part(&self) -> Result<Part, Failure> {
        let wrong = |text: &str, why| Failure::Request(format!("--window {text}: {why}"));
        let window = match &self.window {
            None => (None, None),
            Some(text) => {
                let Window { start, end } = Window::parse(text).map_err(|why| wrong(text, why))?;
                (Some(start), Some(end))
            }
        };
        Ok(Part { window, device: self.from_device.clone() })
    }

    /// The speed of the replay.
    pub(super) fn speed(&self) -> Result<Speed, Failure> {
        let speed = self.speed.parse().ok().and_then(speed);
        speed.ok_or_else(|| {
            let message = format!("--speed {}: a number from 0.1 to 1000", self.speed);
            Failure::Request(message)
        })
    }

    /// Options that all runs have and that mean nothing here are refused.
    pub(super) fn check_setting(&self) -> Result<(), Failure> {
        let SettingOptions { submit_cost, start_jitter, host, placement, .. } = &self.setting;
        let given = [
            ("--submit-cost", submit_cost.is_some(), "computing is part of the recorded times"),
            ("--start-jitter", start_jitter.is_some(), "processes begin when they began"),
            ("--host", !host.is_empty(), "what was recorded is behind the page cache"),
            ("--dispatch", self.dispatch.is_some(), "it goes with --decisions"),
            ("--placement", placement != "near", "sectors are those of the recording; see --fit"),
        ];
        match given.into_iter().find(|(_, given, _)| *given) {
            None => Ok(()),
            Some((option, _, why)) => {
                Err(Failure::Request(format!("{option} means nothing to a replay: {why}")))
            }
        }
    }
}

fn speed(factor: f64) -> Option<Speed> {
    let millionths = (factor * 1e6).round();
    if !(0.0..=1e12).contains(&millionths) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within 0 to 10^12"
    )]
    Speed::millionths(millionths as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are speeds read, and others refused?
    #[test]
    fn speeds_are_read() {
        assert_eq!(speed(2.0), Speed::millionths(2_000_000));
        for wrong in [0.0, -1.0, 1001.0, f64::NAN, f64::INFINITY] {
            assert_eq!(speed(wrong), None, "{wrong}");
        }
    }
}
