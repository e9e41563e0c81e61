// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per I/O: the steps of each bio as it completes, in full or as a line for each request.
//!
//! ```text
//!   8,64 :     0.000002000 Q       1008+8        the bio
//!              0.000002350 M       1008+8
//!              0.000007000 D       1000+32       the request
//!              0.000900000 C       1000+32
//! ```
//!
//! Source: recorded golden files and the real tool (`-p`, `-P`).

use super::files::{Files, Output, Outputs};
use super::outstanding::Bio;
use super::times::{Exact, NEVER};
use crate::blktrace::DeviceNumber;

/// A completion: when, from which sector, how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    pub(super) at: u64,
    pub(super) sector: u64,
    pub(super) sectors: u64,
}

/// Writes all steps of a completed bio.
pub(super) fn steps(
    device: DeviceNumber,
    bio: &Bio,
    done: Completion,
    (output, outputs): (Output, &mut Outputs<impl Files>),
) {
    let own = (bio.start, bio.end.saturating_sub(bio.start));
    let device = format!("{:3},{:<3}: ", device.major(), device.minor());
    let steps = [
        ('Q', bio.queued, own),
        ('G', bio.got, own),
        ('I', bio.inserted, own),
        ('M', bio.merged, own),
        ('D', bio.issued, bio.request),
        ('C', done.at, (done.sector, done.sectors)),
    ];
    for (step, at, (sector, sectors)) in steps.into_iter().filter(|step| step.1 != NEVER) {
        let device = if step == 'Q' { device.as_str() } else { "         " };
        let line = format_args!("{device}{:5} {step} {sector:10}+{sectors:<4}\n", Exact(at));
        outputs.write(output, line);
    }
    outputs.write(output, format_args!("\n"));
}

/// Writes the line under the bios of a completed request.
pub(super) fn rule(output: Output, outputs: &mut Outputs<impl Files>) {
    outputs.write(output, format_args!("{}\n", "-".repeat(41)));
}

/// Writes the times of a completed request's bios, of its issue and its completion.
pub(super) fn tree_line<'a>(
    bios: impl Iterator<Item = &'a Bio>,
    at: u64,
    (output, outputs): (Output, &mut Outputs<impl Files>),
) {
    let mut issued = NEVER;
    for bio in bios {
        outputs.write(output, format_args!("{} ", Exact(bio.queued)));
        if bio.issued != NEVER {
            issued = bio.issued;
        }
    }
    outputs.write(output, format_args!("| {} | {}\n", Exact(issued), Exact(at)));
}
