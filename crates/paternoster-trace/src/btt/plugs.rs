// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plugs: how long a device's queue was plugged, and how many requests an unplug let go.
//!
//! ```text
//! P    P     U(3)        P          T(2)         end
//! └──── plugged ┘        └─ plugged ┘
//! ```
//!
//! A plug within a plug is ignored, and an unplug outside of one. One that is still open at the end
//! counts as if it ended there, with no requests.
//!
//! Source: BTT-20, BTT-21.

use super::times::{NEVER, seconds};

/// The plugs of one device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plugs {
    since: u64,
    /// Time plugged, in ns: below 0 if the queue was last plugged after the device's last event.
    time: i64,
    unplugs: u64,
    timer_unplugs: u64,
    requests: u64,
    timer_requests: u64,
}

/// The reported figures of a device's plugs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PlugFigures {
    /// Unplugs that were no timer's.
    pub unplugs: u64,
    /// Unplugs by the timer.
    pub timer_unplugs: u64,
    /// Requests that the former let go.
    pub requests: u64,
    /// Requests that the latter let go.
    pub timer_requests: u64,
    /// How much of the time the queue was plugged, in percent; below 0 if it was last plugged after
    /// the device's last event, where btt ends it; infinite or NaN if there was just one event.
    pub percent: f64,
}

impl Plugs {
    pub(super) const fn new() -> Plugs {
        let (time, unplugs, timer_unplugs) = (0, 0, 0);
        let (requests, timer_requests) = (0, 0);
        Plugs { since: NEVER, time, unplugs, timer_unplugs, requests, timer_requests }
    }

    pub(super) const fn plug(&mut self, at: u64) {
        if self.since == NEVER {
            self.since = at;
        }
    }

    /// An unplug; whether there was a plug.
    pub(super) const fn unplug(&mut self, at: u64, requests: u64, timer: bool) -> bool {
        if self.since == NEVER {
            return false;
        }
        self.time = self.time.saturating_add(at.wrapping_sub(self.since).cast_signed());
        self.since = NEVER;
        if timer {
            self.timer_unplugs += 1;
            self.timer_requests = self.timer_requests.saturating_add(requests);
        } else {
            self.unplugs += 1;
            self.requests = self.requests.saturating_add(requests);
        }
        true
    }

    /// The figures of a device whose events lie between these times, in ns.
    #[expect(clippy::cast_precision_loss, reason = "a share, in percent")]
    pub(super) fn figures(mut self, started: u64, ended: u64) -> PlugFigures {
        self.unplug(ended, 0, false);
        let (time, span) = (self.time as f64 / 1e9, seconds(ended) - seconds(started));
        PlugFigures {
            unplugs: self.unplugs,
            timer_unplugs: self.timer_unplugs,
            requests: self.requests,
            timer_requests: self.timer_requests,
            percent: 100.0 * time / span,
        }
    }
}

/// Part of a whole, or 0 of none.
#[expect(clippy::cast_precision_loss, reason = "a ratio, as btt has it")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl PlugFigures {
    /// Requests that an unplug let go, on average.
    #[must_use]
    pub fn requests_per_unplug(&self) -> f64 {
        ratio(self.requests, self.unplugs)
    }

    /// Requests that the timer let go, on average.
    #[must_use]
    pub fn requests_per_timer_unplug(&self) -> f64 {
        ratio(self.timer_requests, self.timer_unplugs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are nested plugs one, and is an open one closed at the end?
    #[test]
    fn plugs_are_counted_as_btt_does() {
        let mut plugs = Plugs::new();
        assert!(!plugs.unplug(5, 9, false));
        plugs.plug(10);
        plugs.plug(20);
        assert!(plugs.unplug(30, 3, false));
        plugs.plug(50);
        assert!(plugs.unplug(60, 4, true));
        plugs.plug(90);
        let figures = plugs.figures(0, 100);
        // 20 + 10 + 10 of 100 ns; three requests in the two unplugs that are no timer's.
        assert_eq!((figures.unplugs, figures.timer_unplugs, figures.percent), (2, 1, 40.0));
        assert_eq!(figures.requests_per_unplug(), 1.5);
        assert_eq!(figures.requests_per_timer_unplug(), 4.0);
    }
}
