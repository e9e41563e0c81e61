// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats: other people's traces, each as a [`Source`](crate::Source) of blktrace's records.
//!
//! ```text
//! stream ─▶ open ─▶ recognise ─▶ Lined<Msr> … ─▶ Spread ─▶ Window ─▶ Events ─▶ Source
//!                                lines, fields   whole     order     Q D C,
//!                                = accesses      seconds             notes
//! ```
//!
//! * [`open()`], [`open_path`]: any trace; [`recognise()`]: which format it has, by its content.
//! * A file for each format, which opens with a line of it. Formats with arrivals only give `Q`;
//!   those with an I/O's duration also `D` and `C`.
//! * [`write_iolog`], [`write_msr`]: any trace in a form that other programs read.
//!
//! Devices with names get numbers ([`MAJOR`], in order of appearance), and
//! [`device_name`](crate::Source::device_name) their names. Times count from the first arrival.
//!
//! Invariants, for all of them: I1 no bytes make a reader panic; I2 times do not go back; I3 memory
//! is bounded: by [`WINDOW`], [`PENDING_MAX`], [`SECOND_MAX`], [`LINE_MAX`], [`DEVICES_MAX`],
//! [`PROCESSES_MAX`]; I4 a refused line is counted, with its place, and the next one read.
//!
//! Source: TRACE-20 to TRACE-26, TRACE-40 to TRACE-55, TRACE-58.

mod access;
mod alibaba;
mod biosnoop;
pub mod blkparse_text;
mod blkreplay;
mod cloudphysics;
mod disksim;
mod events;
mod fields;
mod fiu;
mod form;
pub mod ftrace_text;
mod iolog;
mod k5;
mod lines;
mod mqsim;
mod msr;
mod names;
mod open;
mod packed;
mod recognise;
mod spc;
mod spread;
mod startup;
mod systor;
mod tencent;
mod traced;
mod vscsi;
mod window;

pub use events::PENDING_MAX;
pub use iolog::write as write_iolog;
pub use lines::LINE_MAX;
pub use msr::write as write_msr;
pub use names::{DEVICES_MAX, MAJOR, PROCESSES_MAX};
pub use open::{OpenError, open, open_path, processors_of};
pub use recognise::{HEAD, recognise};
pub use spread::SECOND_MAX;
pub use window::WINDOW;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The kernel's binary records.
    Blktrace,
    /// The same as blkparse prints them.
    Blkparse,
    /// The text of the kernel's own tracer.
    Ftrace,
    /// A hypervisor's binary records.
    Vscsi,
    /// fio's logs.
    Iolog,
    /// bcc's tool.
    Biosnoop,
    /// Microsoft Research Cambridge.
    Msr,
    /// Storage Performance Council.
    Spc,
    /// Alibaba's cloud.
    Alibaba,
    /// Tencent's cloud.
    Tencent,
    /// Fujitsu's virtual desktops.
    Systor,
    /// Fujitsu's cloud.
    K5,
    /// CloudPhysics, as text.
    CloudPhysics,
    /// The flash simulator.
    Mqsim,
    /// The disk simulator.
    Disksim,
    /// The disk simulator's traces of real drives.
    Validation,
    /// Florida International University.
    Fiu,
    /// The S suite's start-ups.
    Startup,
    /// A list of sectors.
    Blocks,
    /// blkreplay's loads.
    Blkreplay,
}

impl Format {
    /// All of them; where two read a text alike, the first one counts.
    pub const ALL: [Format; 20] = [
        Format::Blktrace,
        Format::Blkparse,
        Format::Ftrace,
        Format::Vscsi,
        Format::Iolog,
        Format::Biosnoop,
        Format::Msr,
        Format::Spc,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor,
        Format::K5,
        Format::CloudPhysics,
        Format::Mqsim,
        Format::Disksim,
        Format::Validation,
        Format::Fiu,
        Format::Startup,
        Format::Blocks,
        Format::Blkreplay,
    ];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Blkparse => "blkparse",
            Format::Ftrace => "ftrace",
            Format::Vscsi => "vscsi",
            Format::Iolog => "iolog",
            Format::Biosnoop => "biosnoop",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
            Format::K5 => "k5",
            Format::CloudPhysics => "cloudphysics",
            Format::Mqsim => "mqsim",
            Format::Disksim => "disksim",
            Format::Validation => "disksim-drive",
            Format::Fiu => "fiu",
            Format::Startup => "startup",
            Format::Blocks => "blocks",
            Format::Blkreplay => "blkreplay",
        }
    }

    /// A description in one line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Format::Blktrace => "binary records of Linux's block tracer, versions 7 and 8",
            Format::Blkparse => "the default lines of blkparse",
            Format::Ftrace => "block events of trace_pipe, trace-cmd, perf; the tracer blk",
            Format::Vscsi => "binary records of a virtual disk (CloudPhysics), versions 1 and 2",
            Format::Iolog => "fio's I/O logs, versions 2 and 3",
            Format::Biosnoop => "output of bcc's biosnoop, with or without -Q",
            Format::Msr => "Microsoft Research Cambridge: seven fields, 100 ns since 1601",
            Format::Spc => "Storage Performance Council: Financial, WebSearch",
            Format::Alibaba => "Alibaba's cloud block traces",
            Format::Tencent => "Tencent's cloud block storage",
            Format::Systor => "SYSTOR '17: Fujitsu's virtual desktops",
            Format::K5 => "volumes of Fujitsu's K5 cloud",
            Format::CloudPhysics => "CloudPhysics as text: version,time,op,size,lbn",
            Format::Mqsim => "plain traces of MQSim: ns, device, sector, sectors, type",
            Format::Disksim => "plain traces of DiskSim: ms, device, block, blocks, flags",
            Format::Validation => "DiskSim's traces of real drives, with response times",
            Format::Fiu => "Florida International University, with hashes of the content",
            Format::Startup => "the S suite's logs of programs that start",
            Format::Blocks => "a list of sectors, one in a line, without times",
            Format::Blkreplay => "loads and replays of blkreplay: start; sector; length; op; …",
        }
    }

    /// The format of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Counts of what was written of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// I/Os that were written.
    pub ios: u64,
    /// I/Os for which the form has no place.
    pub left_out: u64,
}

#[cfg(test)]
mod tests;
