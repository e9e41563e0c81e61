// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: one line on a terminal while a run takes longer than a moment; nothing anywhere else.

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

    pub(crate) fn update(&self, progress: Progress) {
        if let Some(bar) = &self.0 {
            let Progress { now, requests, ended: (ended, all) } = progress;
            let seconds = now.as_millis() / 1000;
            bar.set_message(format!(
                "{seconds} s of virtual time, {requests} requests, {ended} of {all} jobs ended"
            ));
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
