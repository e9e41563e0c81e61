// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tails of single reads compared with measured or stated ones.
//!
//! *Fitted*: points of the device file were made from these figures, so the row shows that the
//! arithmetic holds. *Follows*: no number was chosen for it.

use paternoster_core::{Nanos, Op};

use crate::common::closed_loop::{Figures, Load, device, run};
use crate::ssd_figures::near;

const READ_1: Load = Load::random(Op::Read, 4, 1);

fn single_reads(name: &str, millis: u64) -> Figures {
    let description = device(name);
    run(&description, description.submit_cost, (0, millis), &[READ_1]).remove(0)
}

/// Do a Micron 9100's reads have the measured distribution (MicronSSD/unvme, issue 18)? A hundred
/// thousand reads: p99.9 rests on a hundred of them; p99.99 would rest on ten and is not checked.
#[test]
fn the_reads_of_a_9100() {
    let figures = single_reads("nvme-9100", 10_500);
    for (part, of, published) in [
        (1, 100, 89.0),
        (5, 100, 97.0),
        (10, 100, 98.0),
        (50, 100, 101.0),
        (60, 100, 111.0),
        (90, 100, 114.0),
        (99, 100, 116.0),
        (999, 1000, 124.0),
    ] {
        // Fitted.
        let what = format!("9100 4K read us, {part} of {of}");
        near(&what, figures.quantile(part, of), published, 1.0);
    }
    // Follows from the points alone: between them the distribution is not known.
    near("9100 4K read us, mean", figures.mean(), 104.17, 1.0);
    near("9100 4K read us, deviation", figures.deviation(), 7.09, 10.0);
    near("9100 4K reads/s", figures.per_second, 9567.0, 1.0);
}

/// Does the seed alone determine the draws: the same seed the same draws, another one others?
#[test]
fn a_seed_decides_the_draws() {
    use paternoster_core::{ClientId, Command, Device, Flags, Tag};
    let description = device("nvme-9100");
    let ends = |seed: u64| -> Vec<Nanos> {
        let mut device = paternoster_sim::Simulated::new(description.faulty_model(&[], seed));
        let read = |sector: u64| Command {
            tag: Tag::of_slot(0),
            op: Op::Read,
            sector,
            sectors: 8,
            flags: Flags::NONE,
            client: ClientId::NOBODY,
        };
        (0..100)
            .map(|nth| {
                device.submit(read(nth * 8)).unwrap();
                device.wait(None).unwrap().at
            })
            .collect()
    };
    assert_eq!(ends(7), ends(7));
    assert_ne!(ends(7), ends(8));
}
