// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the driver did, from a log's lines: when it asked, what left, what came back.
//!
//! A `D` line is written when the SCSI layer first *looks* at the command that is next. Mostly it
//! takes it at once; not always:
//!
//! ```text
//! 60.544882 lg        D FN         the flush leaves ...
//! 60.544903 lg        R FN         ... and comes back: writes are in the device
//! 60.544931 kworker   D FN         looked at; the device is not asked before something ends
//! 60.545166 <idle>    C WS 8192000 now the flush leaves, without a line of its own ...
//! 60.545210 <idle>    R FN         ... and comes back
//! ```
//!
//! # The rules
//! 1. A command leaves at its `D`; if the device has refused one since the last completion, at the
//!    next completion.
//! 2. The device refuses at once. An `R` after a completion that interrupted the driver belongs
//!    directly after the leaving (`nohold.w4.noop` 58.457723 to 58.458254: `D`, the end of a flush,
//!    `R`).
//! 3. The driver has asked, and got nothing more, once a command has ended or left or a read or
//!    flush was inserted, and something else begins: all these run the queue to its end. A write is
//!    inserted from a plug, and a work queue runs the queue for it, some 20 us later or, while
//!    processes keep the processor busy, after the next lines. It has certainly run when the idle
//!    task writes a line.
//! 4. The driver's own commands (`N`, some in a log's last lines) bypass scheduler and flushes.
//!    When one of them ends, a refused flush is tried once more; it is left out here, with its
//!    refusal, because a queue does not learn of commands that it did not give. They are counted.
//!
//! Source: the logs; CFQ-35, FLUSH-19 (the SCSI layer looks one ahead).

use paternoster_core::{Nanos, Op};

use super::log::{Line, Shape, Step};

/// An event at the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A process goes on: all that it submitted before has ended.
    GoesOn { pid: u32 },
    /// A bio comes to the queue.
    Comes { pid: u32, shape: Shape },
    /// The driver asks and gets nothing.
    Nothing,
    /// The driver asks though the device takes nothing.
    Looks,
    /// The driver asks and gets this.
    Leaves(Shape),
    /// The device does not take it.
    ComesBack(Shape),
    /// A command ends.
    Ends(Shape),
    /// The end of a bio that waited for the flush that ended last.
    FlushedBio,
}

/// An event, and the log's line for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) line: u64,
    pub(super) at: Nanos,
    pub(super) what: What,
}

/// What is known of the driver, line by line.
#[derive(Default)]
pub(super) struct Driver {
    pub(super) moments: Vec<Moment>,
    /// Refusals caused only by the driver's own commands (rule 4).
    pub(super) own: u32,
    /// Refusals logged after a completion that came between (rule 2).
    pub(super) late: u32,
    /// The device has refused a command, and none has ended since.
    refused: bool,
    /// The command that was looked at meanwhile.
    looked: Option<Shape>,
    /// A command that is being requeued: its `I` is no submission.
    returning: Option<Shape>,
    /// After the last moment at which a command left.
    left: usize,
    /// Whether the driver has asked since anything came (rule 3).
    asked: bool,
}

impl Driver {
    /// Reads a log.
    pub(super) fn read(lines: &[Line]) -> Driver {
        let mut driver = Driver::default();
        for line in lines {
            driver.line(line);
        }
        if let Some(last) = lines.last() {
            driver.push(last, What::Nothing);
        }
        driver
    }

    fn push(&mut self, line: &Line, what: What) {
        self.moments.push(Moment { line: line.number, at: line.at, what });
    }

    fn line(&mut self, line: &Line) {
        match line.step {
            Step::Queue(_) => self.begins(line, What::GoesOn { pid: line.pid }),
            Step::Insert(shape) if self.returning == Some(shape) => self.returning = None,
            Step::Insert(shape) => {
                self.begins(line, What::Comes { pid: line.pid, shape });
                self.asked = shape.op != Op::Write;
            }
            Step::Look(shape) if self.refused => {
                assert_eq!(self.looked, None, "line {}: looks at two", line.number);
                self.looked = Some(shape);
                self.push(line, What::Looks);
            }
            Step::Look(shape) => self.leaves(line, shape),
            Step::Refuse(shape) => self.comes_back(line, shape),
            Step::End(shape) => {
                self.begins(line, What::Ends(shape));
                (self.refused, self.asked) = (false, true);
                if let Some(shape) = self.looked.take() {
                    self.leaves(line, shape);
                }
            }
            Step::FlushedBio => self.push(line, What::FlushedBio),
            Step::OwnEnd => {}
        }
    }

    /// Something else begins: if the driver has asked, it has got all it would get.
    fn begins(&mut self, line: &Line, what: What) {
        if self.asked || line.is_idle() {
            self.push(line, What::Nothing);
        }
        self.push(line, what);
    }

    fn leaves(&mut self, line: &Line, shape: Shape) {
        self.push(line, What::Leaves(shape));
        self.left = self.moments.len();
        self.asked = true;
    }

    fn comes_back(&mut self, line: &Line, shape: Shape) {
        self.returning = Some(shape);
        if self.looked == Some(shape) {
            self.looked = None;
            self.own += 1;
            return;
        }
        let left = self.moments[self.left - 1];
        assert_eq!(left.what, What::Leaves(shape), "line {}: had not left", line.number);
        self.moments.insert(self.left, Moment { what: What::ComesBack(shape), ..left });
        let ended = |later: &Moment| matches!(later.what, What::Ends(_));
        // A completion between them has let the device take a command again.
        self.refused = !self.moments[self.left..].iter().any(ended);
        self.late += u32::from(!self.refused);
    }
}
