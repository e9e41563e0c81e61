// SPDX-License-Identifier: MIT OR Apache-2.0
//! CFQ-53: does `slice_idle` climb to the value with the highest throughput?
//!
//! Kara's idea from seed 001, on models of the two devices that it was about: an array that several
//! readers keep busier than one, and a disk that they only make seek. Readers are sequential, 128
//! KiB at a time, the next request 20 us after each end, in adjacent files of 1 GiB. (All over the
//! disk, four of them complete fewer than the 100 requests a second that the climber wants to see
//! before it judges.) A window of the climber is 1 s.

use paternoster_core::{ClientSpec, Device, Limits, Nanos};

use crate::readers::World;

const SECTORS: u32 = 256;
const FILE: u64 = 1 << 21;

/// `count` readers of a device under cfq.
fn readers_of(device: &str, elevator: &str, count: u64) -> World {
    let mut world = World::new(device, elevator, Limits::default());
    for number in 0..count {
        world.join(ClientSpec::new(), number * FILE, SECTORS, u64::from(SECTORS));
    }
    world
}

impl World {
    fn set(&mut self, name: &str, value: &str) {
        self.queue.set_attribute(self.device.now(), name, value).expect("an attribute of cfq");
    }

    fn slice_idle(&self) -> u64 {
        let mut shown = String::new();
        self.queue.show_attribute("slice_idle", &mut shown).expect("an attribute of cfq");
        shown.parse().expect("a number")
    }
}

/// What `slice_idle` was at the end of each of twenty windows, from `start` ms on.
fn climb(device: &str, preset: &str, readers: u64, start: &str) -> [u64; 20] {
    let mut run = readers_of(device, preset, readers);
    run.set("slice_idle", start);
    run.set("slice_idle_tuning", "1");
    let mut window = 0;
    [(); 20].map(|()| {
        window += 1;
        run.run(Nanos::from_secs(window));
        run.slice_idle()
    })
}

/// Given an array with eight sequential readers and 8 ms, is slice_idle at most 1 ms within twenty
/// windows, and does it stay there? Given a single disk with four and 0, at least 4? (It looks at
/// the other end of a plateau from time to time.)
#[test]
fn cfq_53_slice_idle_climbs() {
    for preset in ["cfq", "cfq-3.6", "cfq-4.19"] {
        let array = climb("array-eva", preset, 8, "8");
        assert!(array.iter().skip_while(|&&idle| idle > 1).all(|&idle| idle <= 1), "{array:?}");
        assert!(array[19] <= 1, "{preset}: {array:?}");
        let disk = climb("hdd-7200", preset, 4, "0");
        assert!(disk[19] >= 4, "{preset}: {disk:?}");
    }
}
