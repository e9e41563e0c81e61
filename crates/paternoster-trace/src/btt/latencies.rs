// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies: files of single times from Q to C, D to C, Q to D, and of their averages by windows.
//!
//! ```text
//! samples    | |  ||  |        |   |        a window closes with the first sample that is as long
//! windows    ├────────┤        ├───┘        after its first, which opens the next
//!                ▲ printed as the middle between its first and last sample, with the mean
//! ```
//!
//! Source: BTT-32.

use super::files::{Files, Output, Outputs};
use super::times::in_one;

/// The samples of a window.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    first: f64,
    last: f64,
    sum: f64,
    count: u32,
}

/// One kind of latency of one device.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    single: Option<Output>,
    averaged: Option<(Output, f64)>,
    window: Window,
}

impl Latencies {
    /// Writes samples to the first file, averages over this many seconds to the second.
    pub(super) fn new(single: Option<Output>, averaged: Option<(Output, f64)>) -> Latencies {
        Latencies { single, averaged, window: Window::default() }
    }

    /// A latency, both in ns.
    #[inline]
    pub(super) fn add(&mut self, at: u64, latency: u64, outputs: &mut Outputs<impl Files>) {
        if self.single.is_some() || self.averaged.is_some() {
            self.write(in_one(at), in_one(latency), outputs);
        }
    }

    fn write(&mut self, at: f64, latency: f64, outputs: &mut Outputs<impl Files>) {
        if let Some(output) = self.single {
            outputs.write(output, format_args!("{at:.6} {latency:.6}\n"));
        }
        let Some((_, length)) = self.averaged else { return };
        if self.window.count == 0 {
            self.window.first = at;
        } else if at - self.window.first >= length {
            self.close(outputs);
            self.window = Window { first: at, ..Window::default() };
        }
        self.window.last = at;
        self.window.sum += latency;
        self.window.count += 1;
    }

    /// Prints the open window.
    pub(super) fn close(&self, outputs: &mut Outputs<impl Files>) {
        let Window { first, last, sum, count } = self.window;
        if let (Some((output, _)), true) = (self.averaged, count > 0) {
            let middle = first + (last - first) / 2.0;
            let mean = sum / f64::from(count);
            outputs.write(output, format_args!("{middle:.6} {mean:.6}\n"));
        }
    }
}
