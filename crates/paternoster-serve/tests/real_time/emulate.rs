// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled device as a file: does it take the time that the model says?
//!
//! Times are asserted from below only: how late a busy machine is, is measured elsewhere. What else
//! such a file does is in `tests/mounts/emulate.rs`.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use paternoster_core::Nanos;

use crate::common::emulated::{Rig, can, catalogued, two_at_a_time};

/// A command is assumed to have been issued at most this long before it was seen, with 1 us a KiB
/// more.
const OVERHEAD: Duration = Duration::from_micros(100);

fn took(what: impl FnOnce()) -> Duration {
    let began = Instant::now();
    what();
    began.elapsed()
}

/// Does an fsync reach the model, alone and as long as it says, and a write that is to last as
/// long? A flush of this drive takes 3.2 ms after what was written was programmed.
#[test]
fn flushes_take_their_time() {
    if !can() {
        return;
    }
    let flush = Duration::from_micros(3_200);
    let rig = Rig::new(catalogued("ssd-870evo"), |_| {});
    let file = rig.open();
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert!(took(|| file.sync_all().unwrap()) >= flush - OVERHEAD);
    let told = rig.kind("flush");
    assert_eq!(told.commands, 1);
    // Reported values are within 1/128.
    assert!(told.set.p50.0 >= 3_200_000 * 127 / 128, "{}", told.set.p50);
    let mut lasting = OpenOptions::new();
    let lasting = lasting.write(true).custom_flags(libc::O_DSYNC).open(rig.emulation.file());
    let lasting = lasting.unwrap();
    assert!(took(|| lasting.write_all_at(&[1; 4096], 0).unwrap()) >= flush - OVERHEAD);
    // The flush belonged to the write; there was no fsync.
    assert_eq!((rig.kind("flush").commands, rig.kind("write").commands), (1, 2));
}

/// Do commands take as long as the model says, as many at a time as it says, and never less? 40
/// commands of 5 ms by two servers take 100 ms; a command that waits in line takes longer than 5.
#[test]
fn the_model_says_how_long() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open();
    let one = took(|| drop(file.read_exact_at(&mut [0; 512], 0)));
    assert!(one >= Duration::from_millis(5) - OVERHEAD, "{one:?}");
    let all = took(|| {
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..5 {
                        file.read_exact_at(&mut [0; 512], 0).unwrap();
                    }
                });
            }
        });
    });
    // An overhead is saved where the line is empty: once.
    assert!(all >= Duration::from_millis(100) - OVERHEAD, "{all:?}");
    drop(file);
    let told = rig.emulation.finish().unwrap();
    assert_eq!(told.commands, 41);
    assert!(told.set.p50 >= Nanos::from_millis(5));
    assert!(told.served.p50 >= told.set.p50 && told.served.p99 >= told.set.p99, "{told:?}");
    assert!(told.overhead <= Nanos::from_micros(100));
}

/// Is a large read as many commands of the model as it takes? 64 KiB at a time, 1 MiB is 16, by
/// two servers in 40 ms.
#[test]
fn large_requests_are_cut() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open_direct();
    let mut memory = paternoster_serve::device::memory::Memory::new(1 << 20).unwrap();
    let time = took(|| file.read_exact_at(memory.bytes_mut(), 0).unwrap());
    // 1 us a KiB is the most that the way through the kernel is taken for.
    let overhead = OVERHEAD + Duration::from_micros(1_024);
    assert!(time >= Duration::from_millis(40) - overhead, "{time:?}");
}
