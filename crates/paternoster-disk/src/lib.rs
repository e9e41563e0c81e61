// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk for deterministic simulation: validated timing, a volatile cache, power cuts, faults.
//!
//! A database in a simulator needs a disk that takes a real disk's time, loses what a real disk
//! loses and fails as a real disk fails, in the same way for the same seed. This is one, without
//! I/O, clock or threads: the caller says what time it is.
//!
//! ```text
//!  submit(now, …) ─▶ ┌──────────────────────────────┐
//!  write(now, …)  ─▶ │ waiting ▶ faults ▶ model     │ ─▶ next(now): Done | Wait(at) | Idle
//!                    │        cache ▶ medium        │
//!                    └──────────────────────────────┘ ─▶ crash(now, seed): Image
//! ```
//!
//! ```
//! use paternoster_disk::{Device, Disk, Nanos, Op};
//!
//! let mut disk = Disk::new(&Device::named("ssd-870evo")?, 7);
//! disk.write(Nanos::ZERO, 0, &[1; 4096], false)?; // offsets and lengths in bytes
//! let write = disk.wait().expect("something is under way");
//! assert_eq!((write.result, write.at), (Ok(()), Nanos(27_814)));
//!
//! // Done, and yet only in the drive's cache: some power cut leaves it, and some does not.
//! let is_there = |disk: &mut Disk, seed| {
//!     let mut found = [0; 4096];
//!     disk.image_if_crashed(write.at, seed).read(0, &mut found);
//!     found == [1; 4096]
//! };
//! assert!((0..100).any(|seed| is_there(&mut disk, seed)));
//! assert!(!(0..100).all(|seed| is_there(&mut disk, seed)));
//!
//! disk.submit(write.at, Op::Flush, 0, 0)?;
//! let flush = disk.wait().expect("something is under way");
//! disk.submit(flush.at, Op::Read, 0, 4096)?;
//! disk.wait();
//! assert_eq!(disk.data(), [1; 4096]);
//! assert!((0..100).all(|seed| is_there(&mut disk, seed)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//! * A write that completed before a flush was submitted survives every crash after that flush
//!   completes; so does a write with forced unit access once it completes.
//! * Any other write is there or not after a crash, as a whole; by sectors of 512 bytes if it may
//!   tear (below). Writes of different operations are kept or lost in any combination.
//! * A read returns what was written last, and for a write under way the old or the new data.
//! * Times are those of a run of Paternoster under the scheduler `none`, to the nanosecond.
//! * The same calls with the same seed have the same answers, on every machine.
//!
//! # What goes wrong
//! [`Disk::episode`] takes a line: what, and which operations. The last two are about written data;
//! the others show in [`Done::at`] and [`Done::result`].
//!
//! ```text
//! stall time=2s from=10s count=1              the first that comes after 10 s: all stop for 2 s
//! throttle rate=50MiB from=10s to=20s         no more than 50 MiB/s are answered
//! slow factor=20 op=read from=10s to=20s      what comes then takes 20 times as long
//! delay time=30ms probability=0.001           one in a thousand completes 30 ms late
//! error errno=5 op=write range=1m-2m          whatever touches the second MiB ends with EIO
//! error op=flush count=1                      the next flush fails, and promises nothing
//! torn op=write                               a crash may leave some sectors of a write
//! misdirect op=write every=1000               every thousandth write goes to another place
//!
//! which: op=read,write,discard,flush range=1m-2m from=1s to=2s every=100 probability=0.01 count=3
//! ```
//!
//! # Limits
//! Times come from the model of a device; the pages below `docs/models` of the repository say what
//! each was fitted to and where it stops being valid. The cache holds 256 writes and writes back
//! only to make room: it loses as much as a drive may. Without `misdirect` the content is what an
//! honest drive leaves. A crash costs no start-up time.
//!
//! This crate is `no_std` with `alloc`; the models behind it read device files, and need `std`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod device;
mod disk;
mod operation;
mod store;
mod way;

pub use device::{Device, DeviceError, EpisodeError};
pub use disk::Disk;
pub use operation::{Done, Id, Next, Op, Refusal};
pub use paternoster_core::Nanos;
pub use store::Image;

/// The READMEs of the repository and of the package, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/disk.md")]
#[doc = include_str!("../README.md")]
struct Pages;
