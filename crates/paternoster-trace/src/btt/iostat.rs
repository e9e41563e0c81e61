// SPDX-License-Identifier: MIT OR Apache-2.0
//! iostat: rates per interval in the columns of iostat.
//!
//! A table is written with the first event that is this long after the last table, before that
//! event counts. The columns are btt's, with what they hold there:
//!
//! ```text
//! rrqm/s    merges
//! r/s       requests that go to the device
//! rsec/s    their sectors
//! avgrq-sz  sectors of a request
//! avgqu-sz  requests from G to C, where every bio leaves
//! await     from I (or M) to C, over requests and merges
//! svctm     from Q to C, over requests
//! %util     while more or fewer bios came back than requests went out
//! ```
//!
//! So with merges the queue goes below zero, and a device seems busy for ever. The row of all
//! devices has means, no sums, and rates in the last table only, with reads and writes exchanged.
//!
//! Source: BTT-36; for what it omits, outputs of the real tool.

use core::fmt;

use super::files::{Files, Output, Outputs};
use super::numbers::Number;
use super::times::{NEVER, seconds};

const HEADING: &str = "Device:       rrqm/s   wrqm/s     r/s     w/s    rsec/s    wsec/s     \
                       rkB/s     wkB/s avgrq-sz avgqu-sz   await   svctm  %util   Stamp\n";

/// The counts of a span of time; reads and writes separately.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    merges: [u64; 2],
    requests: [u64; 2],
    sectors: [u64; 2],
    /// Requests times ns.
    queue: i128,
    waited: u64,
    served: u64,
    busy: u64,
}

impl Counts {
    /// Adds another one's merges, requests and sectors, reads as writes and writes as reads.
    fn add_exchanged(&mut self, other: &Counts) {
        for (own, other) in [
            (&mut self.merges, other.merges),
            (&mut self.requests, other.requests),
            (&mut self.sectors, other.sectors),
        ] {
            own[0] = own[0].saturating_add(other[1]);
            own[1] = own[1].saturating_add(other[0]);
        }
    }
}

/// One device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    window: Counts,
    total: Counts,
    queued: i64,
    queued_since: u64,
    /// Requests that went out less bios that came back.
    in_device: i64,
    busy_since: u64,
    /// Whether the device has had a row.
    told: bool,
}

impl Load {
    fn both(&mut self, change: impl Fn(&mut Counts)) {
        change(&mut self.window);
        change(&mut self.total);
    }

    fn queue_until(&mut self, at: u64) {
        let span = at.saturating_sub(core::mem::replace(&mut self.queued_since, at));
        let area = i128::from(self.queued) * i128::from(span);
        self.both(|counts| counts.queue = counts.queue.saturating_add(area));
    }

    fn busy_until(&mut self, at: u64) {
        let span = at.saturating_sub(core::mem::replace(&mut self.busy_since, at));
        if self.in_device != 0 {
            self.both(|counts| counts.busy = counts.busy.saturating_add(span));
        }
    }

    pub(super) fn got(&mut self, at: u64) {
        self.queue_until(at);
        self.queued += 1;
    }

    pub(super) fn merged(&mut self, write: bool) {
        self.both(|counts| counts.merges[usize::from(write)] += 1);
    }

    pub(super) fn issued(&mut self, at: u64, write: bool, sectors: u64) {
        let kind = usize::from(write);
        self.both(|counts| {
            counts.requests[kind] += 1;
            counts.sectors[kind] = counts.sectors[kind].saturating_add(sectors);
        });
        self.busy_until(at);
        self.in_device += 1;
    }

    /// A bio came back, which was queued then, and in the scheduler (or merged) then.
    pub(super) fn completed(&mut self, at: u64, queued: u64, inserted: u64) {
        self.queue_until(at);
        self.queued -= 1;
        self.busy_until(at);
        self.in_device -= 1;
        let waited = if inserted == NEVER { 0 } else { at.saturating_sub(inserted) };
        let served = at.saturating_sub(queued);
        self.both(|counts| {
            counts.waited = counts.waited.saturating_add(waited);
            counts.served = counts.served.saturating_add(served);
        });
    }
}

/// The columns of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    rates: [f64; 8],
    request: f64,
    queue: f64,
    wait: f64,
    service: f64,
    busy: f64,
}

#[expect(clippy::cast_precision_loss, reason = "rates, as btt has them")]
fn row(counts: &Counts, span: u64) -> Row {
    let rate = |count: u64| count as f64 / seconds(span);
    let mean = |sum: f64, count: u64| if count == 0 { 0.0 } else { sum / count as f64 };
    let [merges, requests, sectors] = [counts.merges, counts.requests, counts.sectors];
    let (ios, all) = (requests[0] + requests[1], merges[0] + merges[1]);
    let columns = [merges, requests, sectors, sectors.map(|sectors| sectors / 2)];
    let [[m0, m1], [r0, r1], [s0, s1], [k0, k1]] = columns.map(|pair| pair.map(rate));
    Row {
        rates: [m0, m1, r0, r1, s0, s1, k0, k1],
        request: mean(sectors[0] as f64 + sectors[1] as f64, ios),
        queue: counts.queue as f64 / 1e9 / seconds(span),
        wait: mean(1000.0 * seconds(counts.waited), ios + all),
        service: mean(1000.0 * seconds(counts.served), ios),
        busy: share(counts.busy, span),
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (value, width) in self.rates.into_iter().zip([8, 8, 7, 7, 9, 9, 9, 9]) {
            write!(f, " {:width$.2}", Number(value))?;
        }
        write!(f, " {:8.2} {:8.2}", Number(self.request), Number(self.queue))?;
        write!(f, " {:7.2} {:7.2}", Number(self.wait), Number(self.service))?;
        write!(f, " {:6.2}", Number(self.busy))
    }
}

/// Part of a span, in percent.
fn share(part: u64, span: u64) -> f64 {
    100.0 * seconds(part) / seconds(span)
}

/// The tables.
#[derive(Debug)]
pub(super) struct Iostat {
    output: Output,
    interval: u64,
    /// The first event, or the last table.
    last: Option<u64>,
    now: u64,
}

impl Iostat {
    /// Tables every `every` seconds.
    pub(super) fn new(name: &str, every: u64, outputs: &mut Outputs<impl Files>) -> Iostat {
        let output = outputs.make(name.to_owned());
        outputs.write(output, format_args!("{HEADING}"));
        Iostat { output, interval: every.saturating_mul(1_000_000_000), last: None, now: 0 }
    }

    /// Whether a table is due before an event at this time.
    pub(super) fn is_due(&mut self, at: u64) -> bool {
        self.now = at;
        at.saturating_sub(*self.last.get_or_insert(at)) >= self.interval
    }

    /// Writes a table of all devices.
    pub(super) fn write<'a>(
        &mut self,
        devices: impl Iterator<Item = (String, &'a mut Load)>,
        outputs: &mut Outputs<impl Files>,
    ) {
        let (at, stamp) = (self.now, format!("{:8.2}", seconds(self.now)));
        let last = self.last.replace(at).unwrap_or(at);
        let span = at.saturating_sub(last);
        let (mut sum, mut count) = (Row::default(), 0);
        for (name, load) in devices {
            load.queue_until(at);
            load.busy_since = at;
            let window = core::mem::take(&mut load.window);
            let mut row = row(&window, span);
            // A device's time before this table counts as idle in its first row.
            if !core::mem::replace(&mut load.told, true) {
                row.busy = share(window.busy.saturating_sub(last), span);
            }
            outputs.write(self.output, format_args!("{name:<11}{row}{stamp}\n"));
            add_means(&mut sum, &row);
            count += 1;
        }
        if count > 1 {
            let row = Row { queue: 0.0, ..mean(&sum, count) };
            outputs.write(self.output, format_args!("{:<11}{row}{stamp}\n", "TOTAL"));
        }
        if count > 0 {
            outputs.write(self.output, format_args!("\n"));
        }
    }

    /// Writes the table of the whole time.
    pub(super) fn finish<'a>(
        &self,
        devices: impl Iterator<Item = (String, &'a mut Load)>,
        outputs: &mut Outputs<impl Files>,
    ) {
        outputs.write(self.output, format_args!("\n{HEADING}"));
        let (mut sum, mut all, mut count) = (Row::default(), Counts::default(), 0);
        for (name, load) in devices {
            load.queue_until(self.now);
            let row = row(&load.total, self.now);
            outputs.write(self.output, format_args!("{name:<11}{row}   TOTAL\n"));
            add_means(&mut sum, &row);
            all.add_exchanged(&load.total);
            count += 1;
        }
        if count > 1 {
            let mut row = Row { rates: row(&all, self.now).rates, ..mean(&sum, count) };
            // Here half a kilobyte counts.
            (row.rates[6], row.rates[7]) = (row.rates[4] / 2.0, row.rates[5] / 2.0);
            outputs.write(self.output, format_args!("{:<11}{row}   TOTAL\n", "TOTAL"));
        }
    }
}

fn add_means(sum: &mut Row, row: &Row) {
    sum.request += row.request;
    sum.queue += row.queue;
    sum.wait += row.wait;
    sum.service += row.service;
    sum.busy += row.busy;
}

/// Means of this many devices, without rates.
fn mean(sum: &Row, count: u32) -> Row {
    let mean = |value: f64| value / f64::from(count);
    Row {
        rates: [0.0; 8],
        request: mean(sum.request),
        queue: mean(sum.queue),
        wait: mean(sum.wait),
        service: mean(sum.service),
        busy: mean(sum.busy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the columns what they hold in btt: two bios in one request, read in 300 ms?
    #[test]
    fn columns_hold_what_they_do_in_btt() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut load = Load::default();
        load.got(ms(200));
        load.merged(false);
        load.issued(ms(600), false, 24);
        load.completed(ms(900), ms(100), ms(300));
        load.completed(ms(900), ms(400), ms(450));
        load.queue_until(ms(1000));
        let row = row(&load.total, ms(1000));
        assert_eq!(row.rates, [1.0, 0.0, 1.0, 0.0, 24.0, 0.0, 12.0, 0.0]);
        // One waits from 200 ms to 900 ms, but two leave: 0.7 - 0.1.
        assert_eq!((row.request, format!("{:.2}", row.queue)), (24.0, "0.60".to_owned()));
        // (600 + 450) ms over a request and a merge; (800 + 500) ms over a request.
        assert_eq!((row.wait, row.service), (525.0, 1300.0));
        // From D to the first bio; for the second one the device is idle, then busy with -1.
        assert_eq!(format!("{:.2}", row.busy), "30.00");
        assert_eq!(load.in_device, -1);
    }
}
