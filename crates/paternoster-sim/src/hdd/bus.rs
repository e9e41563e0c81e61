// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bus: the time a disk on a shared bus spends to leave it while the mechanism works, and to
//! return.
//!
//! A SCSI disk of the 1990s shared its bus, so it left it between command and data. Leaving
//! overlaps with the mechanism's work; coming back does too, but data wait for it, and the end
//! waits for both:
//!
//! ```text
//! read     command | leave                 come back | data ─────────▶ | done
//!                  | seek, wait | medium ────────────▶
//! write    command | (leave, come back) | data ──▶ | leave      come back | done
//!              (rest) | seek, wait .... medium ───────────────▶
//! ```
//!
//! A disk that leaves the bus between a write's command and its data may let its arm rest a while
//! before it moves, and hold a write that follows no other back from the medium.
//!
//! A disk on a link of its own spends none of it: [`Bus::default`].
//!
//! # Invariants
//! I1  With nothing spent a read ends when the slower of medium and link has its last sector, and
//!     the link has each sector only when it has passed the head; a write ends when it is on the
//!     medium.
//!
//! Source: the steps that DiskSim's reference manual names (disconnect, reselect, data preparation
//! and completion overheads, extra write disconnect, its seek delta, minimum seek delay).

use paternoster_core::Nanos;

/// Time spent on the bus in addition to the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bus {
    /// How much of a read must have come from the medium before the link begins, in thousandths of
    /// its sectors, rounded down to whole ones. 0: they are passed on as they come; old disks
    /// gathered first, to hold the bus only briefly.
    pub read_mark: u32,
    /// To leave before a read from the medium: after a read, after a write.
    pub read_leave: [Nanos; 2],
    /// To come back and prepare when there are data to transfer.
    pub read_return: Nanos,
    /// To say that a read is done.
    pub read_done: Nanos,
    /// From the command of a write until its data begin to come.
    pub write_data: Nanos,
    /// From the command of a write until the arm begins to move.
    pub write_rest: Nanos,
    /// From the command of a write until the medium may take it, at least, unless it begins where
    /// the command before it ended.
    pub write_least: Nanos,
    /// Time to leave the bus once written data have arrived.
    pub write_leave: Nanos,
    /// To come back when a write is on the medium, and to report it.
    pub write_done: Nanos,
}

/// A read as controller and medium have done it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromMedium {
    /// When it had left the bus.
    pub(crate) left: u64,
    /// When enough was read for the link to begin.
    pub(crate) gathered: u64,
    /// When a link that was there throughout would have passed on all, sector by sector.
    pub(crate) end: u64,
}

impl Bus {
    /// How long data gather before the link begins, for a read of `sectors` that takes the medium
    /// `read`: whole sectors, as many as the mark has room for, but one at least.
    pub(crate) fn gathers(&self, read: u64, sectors: u64) -> u64 {
        if self.read_mark == 0 {
            return 0;
        }
        let sectors = sectors.max(1);
        let marked = sectors * u64::from(self.read_mark.min(1000)) / 1000;
        read * marked.max(1) / sectors
    }

    /// When a read that the controller has decoded at `ready` has left the bus.
    pub(crate) fn read_leaves(&self, ready: u64, after_write: usize) -> u64 {
        ready + self.read_leave[after_write].0
    }

    /// When a read ends; the link transfers what the cache held of it in `held`, and what the
    /// medium had to give in `rest`.
    pub(crate) fn read_ends(&self, read: FromMedium, held: u64, rest: u64) -> u64 {
        let held = read.left + held;
        let link = read.gathered.max(held) + self.read_return.0 + rest;
        link.max(read.end) + self.read_done.0
    }

    /// When the arm begins to move for a write whose command is decoded at `ready`.
    pub(crate) fn write_moves(&self, ready: u64) -> u64 {
        ready + self.write_rest.0
    }

    /// When the medium may begin a write; `gathered` is how long the data needed to begin take to
    /// come, `follows` whether it begins where the command before it ended.
    pub(crate) fn write_begins(&self, ready: u64, gathered: u64, follows: bool) -> u64 {
        let least = if follows { 0 } else { self.write_least.0 };
        ready + least.max(self.write_data.0 + gathered)
    }

    /// When a write ends that is on the medium at `end`, whose data take `all` to come, and for
    /// which the arm began to move at `moves`.
    pub(crate) fn write_ends(&self, moves: u64, end: u64, all: u64) -> u64 {
        let ready = moves.saturating_sub(self.write_rest.0);
        let left = ready + self.write_data.0 + all + self.write_leave.0;
        end.max(left) + self.write_done.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do the times of the drawing add up? A read whose command is decoded at 100 has left at 130;
    /// half is gathered at 500, all is passed on as it comes at 610; it comes back in 20 and the
    /// link takes 200: 720, and 5 to report it. If half is gathered at 110, it waits until it has
    /// left: 130 + 20 + 200 = 350, and the medium is later: 610 + 5. If 20 of the link's 200 are
    /// for what the cache held, 180 are left at 520; if those are 400 long, they end at 530. Half
    /// of 6 sectors that take 300 are 150; half of 5 are two, 120; half of one is that one.
    ///
    /// A write's data come from 100 + 40 on; all take 200 and 30 to leave: 370, before the medium's
    /// 900; 7 to come back. Its arm rests for 25, until 125, and the bus does not wait for that. A
    /// write that follows no other may not begin before 100 + 95; its data are there at 190.
    #[test]
    fn the_steps_add_up() {
        let bus = Bus {
            read_mark: 500,
            read_leave: [Nanos(30), Nanos(60)],
            read_return: Nanos(20),
            read_done: Nanos(5),
            write_data: Nanos(40),
            write_rest: Nanos(25),
            write_least: Nanos(95),
            write_leave: Nanos(30),
            write_done: Nanos(7),
        };
        let read = FromMedium { left: bus.read_leaves(100, 0), gathered: 500, end: 610 };
        assert_eq!(bus.read_ends(read, 0, 200), 725);
        assert_eq!(bus.read_ends(FromMedium { gathered: 110, ..read }, 0, 200), 615);
        assert_eq!(bus.read_ends(read, 20, 180), 705);
        assert_eq!(bus.read_ends(read, 400, 180), 735);
        assert_eq!([(300, 6), (300, 5), (50, 1)].map(|(r, n)| bus.gathers(r, n)), [150, 120, 50]);
        assert_eq!(bus.write_moves(100), 125);
        assert_eq!(bus.write_begins(100, 50, true), 190);
        assert_eq!(bus.write_begins(100, 50, false), 195);
        assert_eq!(bus.write_begins(100, 60, false), 200);
        assert_eq!(bus.write_ends(125, 900, 200), 907);
        assert_eq!(bus.write_ends(125, 300, 200), 377);
    }

    /// Does a disk on a link of its own spend nothing (I1)?
    #[test]
    fn an_own_link_costs_nothing() {
        let bus = Bus::default();
        let read = FromMedium { left: bus.read_leaves(100, 1), gathered: 100, end: 610 };
        assert_eq!(bus.read_ends(read, 0, 200), 610);
        assert_eq!(bus.read_ends(read, 0, 900), 1000);
        assert_eq!(bus.write_ends(100, 900, 200), 900);
    }
}
