// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command priorities: I/Os of one job that go with another class and level than the job.
//!
//! With `cmdprio_percentage=30` three of ten I/Os, drawn one by one, have `cmdprio_class` (default
//! 1, real time) and `cmdprio` (level, default 0); the others have the job's own. `cmdprio_bssplit`
//! gives the shares by block size, and may name classes and levels itself:
//!
//! ```text
//! cmdprio_bssplit=64k/25/1/1:64k/75/3/2:1024k/0
//!     a draw of 1..25 for a block of 64k is class 1 level 1, 26..100 is class 3 level 2;
//!     blocks of 1024k and of sizes that are not listed go as the job does
//! ```
//!
//! One generator (fio's number 19) serves reads and writes; a draw is made only if a share is given
//! for the direction and size. Trims have no shares.
//!
//! Source: FIO-68; the draws were measured on fio 3.33 (libaio, `log_prio=1`).

use paternoster_core::{Class, Priority};

use crate::direction::Direction;

use super::job::{Engine, Job};
use super::random::{Choice, Seeds, Taus88};
use super::value::{self, Reader};

/// Entries of one list.
const SPLITS_MAX: usize = 64;
/// The largest block that a list may name.
const BLOCK_SIZE_MAX: u64 = 1 << 30;

/// Class and level of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoPriority {
    /// 0 none, 1 real time, 2 best effort, 3 idle.
    pub class: u8,
    /// 0 (first) to 7.
    pub level: u8,
}

impl IoPriority {
    /// As Linux packs it: the class in the bits from 13 on. `log_prio` prints this.
    #[must_use]
    pub fn packed(self) -> u16 {
        (u16::from(self.class) << 13) | u16::from(self.level)
    }

    /// As the request queue knows it; no class is best effort.
    #[must_use]
    pub fn in_queue(self) -> Priority {
        let class = match self.class {
            1 => Class::Realtime,
            3 => Class::Idle,
            _ => Class::BestEffort,
        };
        Priority { class, level: self.level }
    }
}

/// One entry of `cmdprio_bssplit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrioritySplit {
    /// Blocks of this size.
    pub bytes: u64,
    /// Their share in percent.
    pub percent: u8,
    /// The priority of these I/Os; `None`: that of `cmdprio_class` and `cmdprio`.
    pub priority: Option<IoPriority>,
}

/// The options: reads, writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPriority {
    /// `cmdprio_percentage`.
    pub percentage: [u8; 2],
    /// `cmdprio_class` and `cmdprio`.
    pub priority: [IoPriority; 2],
    /// `cmdprio_bssplit`, in the order given; empty without.
    pub splits: [Vec<PrioritySplit>; 2],
}

impl Default for CommandPriority {
    fn default() -> CommandPriority {
        CommandPriority {
            percentage: [0; 2],
            priority: [IoPriority { class: 1, level: 0 }; 2],
            splits: [Vec::new(), Vec::new()],
        }
    }
}

impl CommandPriority {
    /// Whether any I/O may get another priority.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.percentage != [0; 2] || self.splits.iter().any(|split| !split.is_empty())
    }

    /// Refuses options that do not go together.
    pub(super) fn check(&self, engine: Engine) -> Result<(), String> {
        if self.percentage != [0; 2] && self.splits.iter().any(|split| !split.is_empty()) {
            return Err("cmdprio_percentage and cmdprio_bssplit exclude each other".to_owned());
        }
        if self.is_used() && engine != Engine::Async {
            return Err("cmdprio needs ioengine=libaio or io_uring".to_owned());
        }
        Ok(())
    }

    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        let texts = value::triple(text)?;
        let given = texts.into_iter().take(2).enumerate();
        let given = given.filter_map(|(place, text)| Some((place, text?)));
        for (place, text) in given {
            match name {
                "cmdprio_percentage" => self.percentage[place] = read.small(text, 0, 100)?,
                "cmdprio_class" => self.priority[place].class = read.small(text, 0, 3)?,
                "cmdprio" => self.priority[place].level = read.small(text, 0, 7)?,
                "cmdprio_bssplit" => self.splits[place] = splits(text, read)?,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// `size/percent[/class/level]:...`
fn splits(text: &str, read: &mut Reader<'_>) -> Result<Vec<PrioritySplit>, String> {
    let mut entries = Vec::new();
    for part in text.split(':') {
        let words: Vec<&str> = part.split('/').collect();
        let (size, percent, priority) = match words[..] {
            [size, percent] => (size, percent, None),
            [size, percent, class, level] => {
                let (class, level) = (read.small(class, 0, 3)?, read.small(level, 0, 7)?);
                (size, percent, Some(IoPriority { class, level }))
            }
            _ => {
                return Err(format!("`{part}` is neither size/percent nor with /class/level"));
            }
        };
        let bytes = read.integer(size, 1, BLOCK_SIZE_MAX)?;
        entries.push(PrioritySplit { bytes, percent: read.small(percent, 0, 100)?, priority });
        if entries.len() > SPLITS_MAX {
            return Err(format!("`{text}` has more than {SPLITS_MAX} entries"));
        }
        let of_this = entries.iter().filter(|entry| entry.bytes == bytes);
        let sum: u32 = of_this.map(|entry| u32::from(entry.percent)).sum();
        if sum > 100 {
            return Err(format!("the shares of blocks of {bytes} bytes add up to {sum} %"));
        }
    }
    Ok(entries)
}

/// Draws the priorities of one clone's I/Os.
#[derive(Debug, Clone)]
pub struct PriorityDraw {
    options: CommandPriority,
    generator: Taus88,
}

impl PriorityDraw {
    /// The draws of a clone with these seeds.
    #[must_use]
    pub fn new(job: &Job, seeds: &Seeds) -> PriorityDraw {
        let generator = seeds.generator(Choice::Priority);
        PriorityDraw { options: job.priority.command_priority.clone(), generator }
    }

    /// The priority of the next I/O, if it is not the job's. Call it once for each I/O, in the
    /// order in which they are issued.
    pub fn next(&mut self, direction: Direction, bytes: u64) -> Option<IoPriority> {
        let place = match direction {
            Direction::Read => 0,
            Direction::Write => 1,
            Direction::Trim => return None,
        };
        let usual = self.options.priority[place];
        let percentage = u64::from(self.options.percentage[place]);
        if percentage > 0 {
            return (self.generator.percent() <= percentage).then_some(usual);
        }
        let entries = &self.options.splits[place];
        if !entries.iter().any(|entry| entry.bytes == bytes && entry.percent > 0) {
            return None;
        }
        let draw = self.generator.percent();
        let mut cumulative = 0;
        for entry in entries.iter().filter(|entry| entry.bytes == bytes) {
            cumulative += u64::from(entry.percent);
            if draw <= cumulative {
                return Some(entry.priority.unwrap_or(usual));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(options: &[(&str, &str)]) -> PriorityDraw {
        let mut job = Job::default();
        for (name, text) in options {
            let mut notes = Vec::new();
            let read = &mut Reader::new(1024, &mut notes);
            assert!(job.priority.command_priority.set(name, text, read).unwrap());
        }
        PriorityDraw::new(&job, &Seeds::new(None, true, false, 1, 0))
    }

    /// Are the drawn I/Os those of fio 3.33? `cmdprio_percentage=30,60`, class 1,3, level 2,5: the
    /// log of a randrw job began r 0x2002, r -, r 0x2002, w 0x6005, r -, r -, w -, w 0x6005, ...
    #[test]
    fn percentages_equal_fio() {
        let mut draw =
            draw(&[("cmdprio_percentage", "30,60"), ("cmdprio_class", "1,3"), ("cmdprio", "2,5")]);
        let measured = [
            (Direction::Read, 0x2002),
            (Direction::Read, 0),
            (Direction::Read, 0x2002),
            (Direction::Write, 0x6005),
            (Direction::Read, 0),
            (Direction::Read, 0),
            (Direction::Write, 0),
            (Direction::Write, 0x6005),
            (Direction::Write, 0x6005),
            (Direction::Read, 0),
            (Direction::Write, 0x6005),
            (Direction::Read, 0),
            (Direction::Write, 0x6005),
            (Direction::Read, 0x2002),
        ];
        for (direction, packed) in measured {
            let drawn = draw.next(direction, 4096).map_or(0, IoPriority::packed);
            assert_eq!(drawn, packed);
        }
    }

    /// Is a draw made only for sizes that have a share, divided as in the example?
    #[test]
    fn splits_go_by_size() {
        let lists = "64k/25/1/1:64k/75/3/2:1024k/0,4k/100";
        let mut draw = draw(&[("cmdprio_bssplit", lists)]);
        let before = draw.generator.clone();
        assert_eq!(draw.next(Direction::Read, 1 << 20), None);
        assert_eq!(draw.next(Direction::Read, 4096), None);
        assert_eq!(draw.next(Direction::Trim, 4096), None);
        assert_eq!(draw.generator.clone().next_u32(), before.clone().next_u32());
        let first =
            (0..1000).filter(|_| draw.next(Direction::Read, 65_536).unwrap().class == 1).count();
        // 250 expected; three standard deviations of sqrt(1000 * 0.25 * 0.75) = 13.7 are 41.
        assert!((209..=291).contains(&first), "{first}");
        let usual = IoPriority { class: 1, level: 0 };
        assert_eq!(draw.next(Direction::Write, 4096), Some(usual));
    }

    /// Are lists that cannot be refused with a reason?
    #[test]
    fn wrong_lists_are_refused() {
        let mut options = CommandPriority::default();
        let mut notes = Vec::new();
        let mut read = Reader::new(1024, &mut notes);
        for text in ["4k", "4k/10/1", "4k/10/4/0", "4k/10/1/8", "4k/60:4k/60", "4k/101"] {
            assert!(options.set("cmdprio_bssplit", text, &mut read).is_err(), "{text}");
        }
        options.set("cmdprio_percentage", "5", &mut read).unwrap();
        assert!(options.check(Engine::Sync).unwrap_err().contains("libaio"));
        options.set("cmdprio_bssplit", "4k/10", &mut read).unwrap();
        assert!(options.check(Engine::Async).unwrap_err().contains("exclude"));
    }
}
