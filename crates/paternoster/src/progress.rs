// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: one line on a terminal while runs, or traces, take longer than a moment; nothing
//! anywhere else.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use paternoster_workload::Progress;

/// The line.
#[derive(Debug)]
pub(crate) struct Display(Option<ProgressBar>);

impl Display {
    /// A line for this run, if standard error is a terminal.
    pub(crate) fn new(quiet: bool, what: &str) -> Display {
        let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}");
        match (quiet, style) {
            (false, Ok(style)) => {
                let bar = ProgressBar::new_spinner().with_style(style).with_prefix(what.to_owned());
                bar.enable_steady_tick(Duration::from_millis(200));
                Display(Some(bar))
            }
            _ => Display(None),
        }
    }

    /// So many events of a trace were read.
    pub(crate) fn read(&self, events: u64) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("{events} events"));
        }
    }

    pub(crate) fn update(&self, progress: Progress) {
        if let Some(bar) = &self.0 {
            let Progress { now, requests, ended: (ended, all) } = progress;
            let seconds = now.as_millis() / 1000;
            bar.set_message(format!(
                "{seconds} s on its clock, {requests} requests, {ended} of {all} jobs ended"
            ));
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// The line of many runs that threads do.
#[derive(Debug)]
pub(crate) struct Steps(Option<ProgressBar>);

impl Steps {
    /// A line for so many runs, if standard error is a terminal.
    pub(crate) fn new(quiet: bool, count: usize) -> Steps {
        let style = ProgressStyle::with_template("{spinner} {pos} of {len} runs done: {msg}");
        match (quiet, style) {
            (false, Ok(style)) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                let bar = ProgressBar::new(count).with_style(style);
                bar.enable_steady_tick(Duration::from_millis(200));
                Steps(Some(bar))
            }
            _ => Steps(None),
        }
    }

    /// One more is done, and it was this one.
    pub(crate) fn done(&self, name: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(name.to_owned());
            bar.inc(1);
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
