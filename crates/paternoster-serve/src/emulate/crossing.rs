// SPDX-License-Identifier: MIT OR Apache-2.0
//! Crossing: what a request takes on its way through the kernel and back, beside the model.
//!
//! ```text
//! process ──▶ kernel ──▶ front reads it │ model │ answer written ──▶ kernel ──▶ process
//! |------------ a ----------------------|       |------------- b ---------------------|
//! ```
//!
//! A process waits for a + model + b. The front cannot see a and b, so they are measured when an
//! emulation begins, by reading from it as a process would while it answers at once: the median of
//! some hundred reads of 4 KiB, and of some of 256 KiB for what a larger one costs more.
//!
//! What was measured is taken for the time by which the request had been asked before the front has
//! read it. So a model of 1 ms with a crossing of 25 us is asked 25 us ago and answers in 975: the
//! process sees 1 ms. An answer is at most one crossing early by the front's own clock, never early
//! by the model's, and a model that is busy does not become faster: who comes early waits in line.
//!
//! Invariant: a crossing is at most [`MOST`] and 1 us per KiB, whatever a busy machine says.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use paternoster::Nanos;

use super::line::{Errand, Kind};
use crate::device::memory::Memory;

/// More than this is not the way but the traffic.
const MOST: Nanos = Nanos::from_micros(100);
const SMALL: usize = 4 << 10;
const LARGE: usize = 256 << 10;

/// What a request costs beside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crossing {
    /// Any request.
    pub(super) base: Nanos,
    /// Nanoseconds for each KiB of its data.
    per_kib: u64,
}

impl Crossing {
    /// From the times of a small and a large read.
    fn new(small: Nanos, large: Nanos) -> Crossing {
        let kib = |bytes: usize| bytes as u64 >> 10;
        let per_kib = (large - small.min(large)).0 / kib(LARGE - SMALL);
        let per_kib = per_kib.min(1_000);
        let base = small - Nanos(per_kib * kib(SMALL)).min(small);
        Crossing { base: base.min(MOST), per_kib }
    }

    /// Of this errand.
    pub(super) fn of(self, errand: Errand) -> Nanos {
        match errand.kind {
            Kind::Read | Kind::Write => self.base + Nanos((errand.length >> 10) * self.per_kib),
            Kind::Discard | Kind::Flush => self.base,
        }
    }

    /// Measures it at a file that answers at once.
    pub(super) fn measure(file: &Path) -> io::Result<Crossing> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file)?;
        let room = usize::try_from(opened.metadata()?.len()).unwrap_or(LARGE);
        let mut memory = Memory::new(LARGE)?;
        let mut median = |times: usize, bytes: usize| -> io::Result<Nanos> {
            let bytes = bytes.min(room);
            let mut all = Vec::with_capacity(times);
            for _ in 0..times {
                let began = Instant::now();
                opened.read_exact_at(&mut memory.bytes_mut()[..bytes], 0)?;
                all.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            all.sort_unstable();
            Ok(Nanos(all[times / 2]))
        };
        Ok(Crossing::new(median(300, SMALL)?, median(50, LARGE)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 KiB in 30 us, 256 KiB in 156: 126 us for 252 KiB more are 500 ns a KiB, and 30 us less
    /// four of them the base. Is that what comes out, and is what a busy machine says bounded?
    #[test]
    fn two_points_make_a_line() {
        let [small, large] = [30, 156].map(Nanos::from_micros);
        let crossing = Crossing::new(small, large);
        assert_eq!(crossing, Crossing { base: Nanos::from_micros(28), per_kib: 500 });
        let errand = |kind| Errand { kind, offset: 0, length: 128 << 10, lasting: false };
        // 28 us and 128 times 0.5.
        assert_eq!(crossing.of(errand(Kind::Write)), Nanos::from_micros(92));
        assert_eq!(crossing.of(errand(Kind::Discard)), Nanos::from_micros(28));
        let busy = Crossing::new(Nanos::from_millis(3), Nanos::from_millis(900));
        assert_eq!(busy, Crossing { base: MOST, per_kib: 1_000 });
        let odd = Crossing::new(Nanos::from_micros(50), Nanos::from_micros(20));
        assert_eq!(odd, Crossing { base: Nanos::from_micros(50), per_kib: 0 });
    }
}
