// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU load: what a job with `ioengine=cpuio` does instead of I/O.
//!
//! It burns CPU in chunks and sleeps between them, so that the burning is `cpuload` percent:
//!
//! ```text
//! cpuload=85 cpuchunks=50000     50 ms busy, 50 * 15 / 85 = 8.8 ms idle, and again
//! ```
//!
//! Such a job never ends by itself: it ends with its runtime, or with the last job that does I/O
//! if `exit_on_io_done` is set.
//!
//! Source: FIO-55; manual of fio 3.33.

use paternoster_core::Nanos;

use super::value::{self, MICROSECOND, Reader};

/// The load that `cpuio` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLoad {
    /// `cpuload`: percent of one CPU, 1 to 100; 0 until it is given.
    pub percent: u64,
    /// `cpuchunks`: how long it burns at one time.
    pub chunk: Nanos,
    /// `exit_on_io_done`.
    pub ends_with_io: bool,
}

impl Default for CpuLoad {
    fn default() -> CpuLoad {
        CpuLoad { percent: 0, chunk: Nanos::from_millis(50), ends_with_io: false }
    }
}

impl CpuLoad {
    /// How long it burns, and how long it then sleeps.
    #[must_use]
    pub fn cycle(&self) -> (Nanos, Nanos) {
        let percent = self.percent.clamp(1, 100);
        let idle = u128::from(self.chunk.0) * u128::from(100 - percent) / u128::from(percent);
        (self.chunk, Nanos(u64::try_from(idle).unwrap_or(u64::MAX)))
    }

    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            // fio takes more than 100 for 100.
            "cpuload" => self.percent = read.integer(text, 1, u64::MAX)?.min(100),
            "cpuchunks" => {
                self.chunk = read.time(text, MICROSECOND)?;
                if self.chunk == Nanos::ZERO {
                    return Err("a chunk of CPU time cannot be empty".to_owned());
                }
            }
            "exit_on_io_done" => self.ends_with_io = value::boolean(text)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the example above right? 50 ms * 15 / 85 = 8.823529 ms.
    #[test]
    fn load_is_the_share_of_burning() {
        let load = CpuLoad { percent: 85, ..CpuLoad::default() };
        assert_eq!(load.cycle(), (Nanos::from_millis(50), Nanos(8_823_529)));
        let full = CpuLoad { percent: 100, ..CpuLoad::default() };
        assert_eq!(full.cycle().1, Nanos::ZERO);
    }
}
