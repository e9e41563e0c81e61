// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forecast: how precise an emulation can be, said before it begins.
//!
//! What a thread, the kernel and the way through FUSE add varies by some tens of microseconds: much
//! for a device that answers in 80 us, little for one that takes 8 ms. So a fresh model is asked in
//! virtual time how long it takes, and the time says what to expect:
//!
//! ```text
//! hdd-7200    random reads of 4 KiB at depth 1: 12 ms     within 2 to 5 %
//! nvme-kc3000                                   60 us     not precise
//! ```

use paternoster_core::{ClientId, Command, Device as _, Flags, Nanos, Op, Tag};
use paternoster_sim::{Description, Simulated};

/// Reads of the forecast.
const READS: u64 = 99;
/// From which duration on emulated times are close, and how close p50 is at least.
const EXPECTED: [(Nanos, &str); 3] = [
    (Nanos::from_millis(5), "within 2 to 5 %"),
    (Nanos::from_millis(1), "within 6 to 9 %"),
    (Nanos::from_micros(500), "within 15 %"),
];

/// How long a random read of 4 KiB takes on the device when nothing else is under way: the median.
#[must_use]
pub fn typical_read(device: &Description) -> Nanos {
    let mut simulated = Simulated::new(device.model());
    let places = (device.facts.capacity / 8).max(1);
    let (mut times, mut place) = (Vec::new(), 0u64);
    for _ in 0..READS {
        // Any odd multiplier spreads; this one is Knuth's for 64 bits.
        place =
            place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sector = (place >> 20) % places * 8;
        let (tag, op, flags, client) = (Tag::of_slot(0), Op::Read, Flags::NONE, ClientId::NOBODY);
        let sectors = u32::try_from(device.facts.capacity).unwrap_or(8).min(8);
        let began = simulated.now();
        let taken = simulated.submit(Command { tag, op, sector, sectors, flags, client });
        if taken.is_ok() && simulated.wait(None).is_some() {
            times.push(simulated.now() - began);
        }
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(Nanos::ZERO)
}

/// The expected precision of commands that take this long; `None`: there is no forecast for them.
#[must_use]
pub fn expected(time: Nanos) -> Option<&'static str> {
    EXPECTED.iter().find(|(from, _)| time >= *from).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use paternoster_sim::catalog;

    use super::*;

    /// Are a disk, a card and a fast drive told apart?
    #[test]
    fn devices_are_told_apart() {
        let read = |name| typical_read(&catalog::by_name(name).unwrap().unwrap());
        // 100 us + 8 ms for the way there + 4 KiB at 150 MB/s, 27.3 us.
        let disk = read("lab-disk");
        assert!((8_127..8_128).contains(&disk.as_micros()), "{disk}");
        assert_eq!(expected(disk), Some("within 2 to 5 %"));
        assert_eq!(read("null"), Nanos::from_micros(10));
        assert_eq!(expected(read("null")), None);
        assert_eq!(expected(read("lab-flash")), Some("within 6 to 9 %"));
    }
}
