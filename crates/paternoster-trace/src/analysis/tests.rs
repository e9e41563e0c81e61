// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures by hand.

use super::*;
use crate::blktrace::{Categories, Record};

const DEVICE: DeviceNumber = DeviceNumber::new(8, 0);

fn event(at: u64, pid: u32, code: Code, sector: u64, sectors: u32) -> Record {
    Record {
        at: Nanos(at),
        pid,
        code,
        sector,
        bytes: sectors * 512,
        device: DEVICE,
        categories: Categories::READ | Categories::FS,
        ..Record::default()
    }
}

fn findings(records: &[Record]) -> Findings {
    let mut analysis = Analysis::default();
    for record in records {
        analysis.record(&Entry { record: *record, payload: &[] });
    }
    analysis.finish()
}

/// A read with all phases and one that is merged after it: are the phases those of the drawing?
#[test]
fn phases_are_those_of_the_drawing() {
    use Code as C;
    let found = findings(&[
        event(100, 1, C::QUEUE, 0, 8),
        event(110, 1, C::SLEEP, 0, 8),
        event(150, 1, C::GET, 0, 8),
        event(170, 1, C::INSERT, 0, 8),
        event(200, 2, C::QUEUE, 8, 8),
        event(205, 2, C::BACK_MERGE, 8, 8),
        event(300, 9, C::ISSUE, 0, 16),
        event(1300, 0, C::COMPLETE, 0, 16),
    ]);
    let device = &found.devices[0];
    let of = |phase: Phase| {
        let phase = &device.phases[phase as usize];
        (phase.count(), u64::try_from(phase.sum()).unwrap())
    };
    assert_eq!(of(Phase::Sleep), (1, 150 - 110));
    assert_eq!(of(Phase::Get), (1, 150 - 100));
    assert_eq!(of(Phase::Plug), (1, 170 - 150));
    assert_eq!(of(Phase::Schedule), (1, 300 - 170));
    assert_eq!(of(Phase::Merge), (1, 205 - 200));
    assert_eq!(of(Phase::MergedWait), (1, 300 - 205));
    assert_eq!(of(Phase::Device), (2, 2 * 1000));
    assert_eq!(of(Phase::Whole), (2, 1200 + 1100));
    // From 100 to 300, the second from 200.
    assert_eq!((device.waiting.most(), device.waiting.busy()), (2, Nanos(200)));
    assert_eq!((device.in_device.most(), device.in_device.busy()), (1, Nanos(1000)));
    // All of the command's time is its first bio's.
    let got: Vec<(u32, u64)> = device.processes.iter().map(|p| (p.pid, p.device_time.0)).collect();
    assert_eq!(got, [(1, 1000), (2, 0)]);
    assert_eq!((found.events, found.span()), (8, Nanos(1200)));
}

/// Two commands side by side: is each charged half of the time that they share?
///
/// 1 alone 0 to 100 (100), both 100 to 300 (100 each), 2 alone 300 to 400 (100). Jain: all equal.
#[test]
fn time_that_is_shared_is_halved() {
    use Code as C;
    let found = findings(&[
        event(0, 1, C::QUEUE, 0, 8),
        event(0, 1, C::ISSUE, 0, 8),
        event(100, 2, C::QUEUE, 64, 8),
        event(100, 2, C::ISSUE, 64, 8),
        event(300, 0, C::COMPLETE, 0, 8),
        event(400, 0, C::COMPLETE, 64, 8),
    ]);
    let device = &found.devices[0];
    let got: Vec<u64> = device.processes.iter().map(|p| p.device_time.0).collect();
    assert_eq!((got, device.fairness), (vec![200, 200], Some(1.0)));
    assert!((device.in_device.mean(found.span()) - 600.0 / 400.0).abs() < 1e-9);
    assert_eq!((device.in_device.periods(), device.in_device.busy()), (1, Nanos(400)));
    // One seek, of 64 - 8 sectors: near, and not sequential.
    let seeks = &device.seeks;
    assert_eq!((seeks.count, seeks.near, seeks.sequential, seeks.distance), (1, 1, 0, 56));
}

/// A refused command and a refused flush: does the first wait again, and is the second counted
/// once, from its last D to C?
#[test]
fn refusals_and_flushes_are_counted() {
    use Code as C;
    let flush = |at, code| Record {
        categories: Categories::WRITE | Categories::FLUSH,
        ..event(at, 3, code, 0, 0)
    };
    let found = findings(&[
        event(0, 1, C::QUEUE, 80, 8),
        event(10, 1, C::ISSUE, 80, 8),
        event(20, 0, C::REQUEUE, 80, 8),
        flush(25, C::QUEUE),
        flush(25, C::ISSUE),
        flush(28, C::REQUEUE),
        flush(30, C::ISSUE),
        flush(530, C::COMPLETE),
        event(600, 1, C::ISSUE, 80, 8),
        event(700, 0, C::COMPLETE, 80, 8),
    ]);
    let device = &found.devices[0];
    assert_eq!((device.counts.requeued, device.counts.flushes), (2, 1));
    assert_eq!((device.flush.count(), device.flush.most()), (1, Nanos(500)));
    assert_eq!(device.phases[Phase::Device as usize].most(), Nanos(100));
    // Waiting from 0 to 10 and from 20 to 600.
    assert_eq!(device.waiting.busy(), Nanos(590));
}

/// A bio of 16 sectors that goes to the device in two parts: is it one I/O, issued with its first
/// part and ended with its last? Q 0, D 100 and 200, C 400 and 1000: 1000 in all, 900 from D.
#[test]
fn a_split_bio_is_one() {
    use Code as C;
    let found = findings(&[
        event(0, 1, C::QUEUE, 0, 16),
        event(50, 1, C::SPLIT, 0, 8),
        event(100, 1, C::ISSUE, 0, 8),
        event(200, 1, C::ISSUE, 8, 8),
        event(400, 0, C::COMPLETE, 0, 8),
        event(1000, 0, C::COMPLETE, 8, 8),
    ]);
    let device = &found.devices[0];
    let of = |phase: Phase| {
        let phase = &device.phases[phase as usize];
        (phase.count(), phase.most())
    };
    assert_eq!((of(Phase::Whole), of(Phase::Device)), ((1, Nanos(1000)), (1, Nanos(900))));
    assert_eq!((device.processes[0].done, device.processes[0].read_bytes), (1, 16 * 512));
    assert_eq!((device.waiting.busy(), device.lost), (Nanos(100), 0));
}

/// A kernel's flush: the process's `Q FW`, the device's `D FN` and `C FN`, then `C W 0`, which ends
/// nothing. Is it one flush of 8 us, and no read and no write?
#[test]
fn a_kernels_flush_ends_once() {
    use Code as C;
    let flush = |at, code, more: Categories| Record {
        categories: more | Categories::FS,
        ..event(at, 3, code, 0, 0)
    };
    let (write, fua) = (Categories::WRITE, Categories::FLUSH);
    let found = findings(&[
        flush(0, C::QUEUE, write | fua),
        flush(10, C::ISSUE, fua),
        flush(15, C::COMPLETE, write),
        flush(8010, C::COMPLETE, fua),
        flush(8011, C::COMPLETE, write),
    ]);
    let device = &found.devices[0];
    assert_eq!((device.flush.count(), device.flush.most()), (1, Nanos(8000)));
    let counts = &device.counts;
    assert_eq!((counts.issued, counts.completed, counts.queued), ([0, 0], [0, 0], [0, 0]));
}
