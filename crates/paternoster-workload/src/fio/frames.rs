// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: a job that plays like a film: a given amount of data in every period, and late if it
//! takes longer than allowed.
//!
//! fio has nothing like it; these options are ours, and fio refuses a job that has them. A job with
//! a `frame_period` issues what a frame needs (I/Os of `bs` until `frame_size` is reached), waits
//! for all of it, and sleeps until its next frame is due:
//!
//! ```text
//! frame_period=40ms
//!
//! due at       0         40        80        120       160 ms
//! read         0##       1##       2############3#     4##
//! deadline               0         1         2         3         a period after it was due
//!                        in time   in time   13 ms late, so 3 begins at once, and is in time
//! ```
//!
//! Frame k is due at `start + k * frame_period`, whatever happened to those before it: nothing is
//! skipped or postponed. After a late frame the next one begins when it is due, or at once if that
//! has passed; so a long wait makes several frames late, until the job has caught up. A frame is
//! late if it is complete only after its deadline, `frame_deadline` (default: one period) after it
//! is due. With `frame_preroll=N` the job first reads N frames one after the other; they have no
//! deadline, and the first frame is due when they are there.
//!
//! When a job ends before its data (`runtime`, `exitall`, an error), the frames whose deadline has
//! passed by then count too: they are late, by as much as is known, and *unread*. Otherwise a job
//! that starved for the whole run would have no late frame.
//!
//! # Invariants
//! I1  Frames end in their order, one at a time.
//! I2  Frame k does not begin before it is due, nor before frame k - 1 has ended.
//!
//! Source: FIO-96; BFQ-100 (batch, completion, sleep) and BFQ-S15.

use paternoster_core::Nanos;

use super::job::{Engine, Job, SubmitMode};
use super::value::{MICROSECOND, Reader};

/// A period below this is no player's: 10,000 frames a second.
const PERIOD_MIN: Nanos = Nanos::from_micros(100);
/// The longest period and deadline.
const PERIOD_MAX: Nanos = Nanos::from_secs(3600);
/// The largest frame, as of a job's blocks: 1 GiB.
const SIZE_MAX: u64 = 1 << 30;
/// Frames read ahead at most.
const PREROLL_MAX: u64 = 1_000_000;

/// The options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameRules {
    /// `frame_period`: makes the job a player.
    pub period: Option<Nanos>,
    /// `frame_size`: bytes of a frame; one I/O if it is not given.
    pub size: Option<u64>,
    /// `frame_deadline`: how long after it is due a frame may be complete; the period by default.
    pub deadline: Option<Nanos>,
    /// `frame_preroll`: frames that are read before the first is due.
    pub preroll: u64,
}

impl FrameRules {
    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "frame_period" => self.period = Some(span(text, PERIOD_MIN, "40ms", read)?),
            "frame_size" => self.size = Some(read.integer(text, 1, SIZE_MAX)?),
            "frame_deadline" => self.deadline = Some(span(text, Nanos(1), "80ms", read)?),
            "frame_preroll" => self.preroll = read.integer(text, 0, PREROLL_MAX)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the options go together with each other and with the job's others.
    ///
    /// # Errors
    /// What is missing, or what conflicts in saying when the job may issue.
    pub(super) fn check(&self, job: &Job, notes: &mut Vec<String>) -> Result<(), String> {
        let name = &job.name;
        if self.period.is_none() {
            return match (self.size, self.deadline, self.preroll) {
                (None, None, 0) => Ok(()),
                _ => Err(format!(
                    "job `{name}` has frames but no period: write frame_period=40ms, or leave \
                     frame_size, frame_deadline and frame_preroll out"
                )),
            };
        }
        if let Some(other) = other_clock(job) {
            return Err(format!(
                "job `{name}` is a player: frame_period says when it issues, so it cannot have \
                 {other}"
            ));
        }
        notes.push(format!("job `{name}` is a player (frame_period); fio has no such option"));
        // Of a range of block sizes the frame's last one may be anything.
        let (least, most) = block_sizes(job);
        if let Some(size) = self.size
            && least == most
            && !size.is_multiple_of(most)
        {
            let whole = size.div_ceil(most) * most;
            notes.push(format!(
                "frame_size={size} is no multiple of the block size {most}: each frame is {whole}"
            ));
        }
        Ok(())
    }
}

/// A span of time between `least` and an hour.
fn span(text: &str, least: Nanos, example: &str, read: &mut Reader<'_>) -> Result<Nanos, String> {
    let time = read.time(text, MICROSECOND)?;
    if (least..=PERIOD_MAX).contains(&time) {
        return Ok(time);
    }
    Err(format!(
        "{time} is out of range: it must be from {least} to {PERIOD_MAX}; a number without a unit \
         counts microseconds, write {example}"
    ))
}

/// Another option that says when the job issues.
fn other_clock(job: &Job) -> Option<&'static str> {
    let clocks = [
        (job.pacing.rate.iter().chain(&job.pacing.rate_iops).any(Option::is_some), "a rate"),
        (job.think.thinktime > Nanos::ZERO, "a thinktime"),
        (job.pacing.flow.weight > 0, "a flow"),
        (job.pacing.latency_goal.target > Nanos::ZERO, "a latency_target"),
        (job.queue.submit_mode == SubmitMode::Offload, "io_submit_mode=offload"),
        (job.replay.is_used(), "a log to replay"),
        (job.verify.enabled, "verify, whose reads belong to no frame"),
        (job.queue.engine == Engine::Cpu, "ioengine=cpuio, which does no I/O"),
    ];
    clocks.iter().find(|(used, _)| *used).map(|(_, what)| *what)
}

fn block_sizes(job: &Job) -> (u64, u64) {
    let all = job.blocks.block_size.iter();
    let least = all.clone().map(|&(least, _)| least).min().unwrap_or(1);
    (least, all.map(|&(_, most)| most).max().unwrap_or(1).max(1))
}

/// Whether the next I/O may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It belongs to the frame that is being read, or to one that has no time of its own.
    Now,
    /// The read is the first of the next frame.
    At(Nanos),
    /// The frame is issued and not yet complete.
    AfterFrame,
}

/// The result of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameEnd {
    /// From when it was due until it was complete.
    pub took: Nanos,
    /// How long after its deadline it was complete; zero if it was in time.
    pub lateness: Nanos,
}

/// Frames that were never complete although their deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    /// Number of frames.
    pub count: u64,
    /// The first of them, as late as is known.
    pub first: FrameEnd,
}

/// The course of one player.
#[derive(Debug, Clone)]
pub struct Player {
    period: Nanos,
    deadline: Nanos,
    size: u64,
    preroll_left: u64,
    /// When frame 0 is due; known after the preroll.
    began: Nanos,
    /// The frame that is being read, or the next.
    frame: u64,
    /// Bytes of it that were issued; bytes and I/Os of it in flight.
    issued: u64,
    under_way: u64,
    /// When the last I/O was complete.
    last: Nanos,
    /// Whether the source has no I/O after those issued.
    source_ended: bool,
}

impl Player {
    /// A player by these rules; `None` if the job is no player.
    #[must_use]
    pub fn new(rules: &FrameRules) -> Option<Player> {
        let period = rules.period?;
        Some(Player {
            period,
            deadline: rules.deadline.unwrap_or(period),
            // Without a size the first I/O makes the frame.
            size: rules.size.unwrap_or(1),
            preroll_left: rules.preroll,
            began: Nanos::ZERO,
            frame: 0,
            issued: 0,
            under_way: 0,
            last: Nanos::ZERO,
            source_ended: false,
        })
    }

    /// The job begins.
    pub fn start(&mut self, now: Nanos) {
        (self.began, self.last) = (now, now);
    }

    /// Whether the next I/O may begin, or when.
    #[must_use]
    pub const fn turn(&self) -> Turn {
        if self.issued >= self.size {
            Turn::AfterFrame
        } else if self.issued > 0 || self.preroll_left > 0 {
            Turn::Now
        } else {
            Turn::At(self.due())
        }
    }

    /// An I/O of `bytes` was issued.
    pub const fn issued(&mut self, bytes: u64) {
        self.issued += bytes;
        self.under_way += bytes;
    }

    /// An I/O of `bytes` is complete. Returns how its frame came out, if that was its last.
    pub fn completed(&mut self, now: Nanos, bytes: u64) -> Option<FrameEnd> {
        self.under_way -= bytes;
        self.last = now;
        self.frame_end()
    }

    /// Nothing more will be issued, because there is no more data: the frame may stay short.
    /// Returns its result, if that completes it.
    pub fn source_ended(&mut self) -> Option<FrameEnd> {
        self.source_ended = true;
        self.frame_end()
    }

    /// The job has ended at `now`: the frames that it owes.
    #[must_use]
    pub fn unread(&self, now: Nanos) -> Option<Unread> {
        let deadline = self.due() + self.deadline;
        if self.source_ended || self.preroll_left > 0 || now <= deadline {
            return None;
        }
        let late = now - deadline;
        let first = FrameEnd { took: now - self.due(), lateness: late };
        // One whose deadline is now may still have been in time.
        Some(Unread { count: late.0.div_ceil(self.period.0), first })
    }

    /// When the frame is due.
    const fn due(&self) -> Nanos {
        let since = self.period.0.saturating_mul(self.frame);
        Nanos(self.began.0.saturating_add(since))
    }

    /// Ends the frame if all of it was issued and is complete.
    fn frame_end(&mut self) -> Option<FrameEnd> {
        let whole = self.issued >= self.size || self.source_ended && self.issued > 0;
        if !whole || self.under_way > 0 {
            return None;
        }
        self.issued = 0;
        if self.preroll_left > 0 {
            self.preroll_left -= 1;
            self.began = self.last;
            return None;
        }
        let due = self.due();
        self.frame += 1;
        Some(FrameEnd { took: self.last - due, lateness: self.last - (due + self.deadline) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> FrameRules {
        let period = Some(Nanos::from_millis(40));
        FrameRules { period, size: Some(128 << 10), ..FrameRules::default() }
    }

    fn player(rules: &FrameRules) -> Player {
        let mut player = Player::new(rules).unwrap();
        player.start(Nanos::ZERO);
        player
    }

    /// Reads a frame in two halves; in ms, how long after its due time it was complete, how late.
    fn frame(player: &mut Player, done_ms: u64) -> (u64, u64) {
        player.issued(64 << 10);
        assert_eq!(player.turn(), Turn::Now, "half of a frame is none");
        player.issued(64 << 10);
        assert_eq!(player.turn(), Turn::AfterFrame);
        assert_eq!(player.completed(Nanos::from_millis(done_ms), 64 << 10), None);
        let end = player.completed(Nanos::from_millis(done_ms), 64 << 10).unwrap();
        (end.took.as_millis(), end.lateness.as_millis())
    }

    fn at(ms: u64) -> Turn {
        Turn::At(Nanos::from_millis(ms))
    }

    /// Is the drawing above right? Frame 2, due at 80, is complete at 133: 53 ms, 13 too late.
    /// Frame 3, due at 120, begins then, is complete at 141 and in time; frame 4 is due at 160.
    #[test]
    fn a_late_frame_moves_no_other() {
        let mut player = player(&rules());
        assert_eq!(player.turn(), at(0));
        assert_eq!(frame(&mut player, 8), (8, 0));
        assert_eq!(player.turn(), at(40));
        assert_eq!(frame(&mut player, 48), (8, 0));
        assert_eq!(frame(&mut player, 133), (53, 13));
        assert_eq!(player.turn(), at(120));
        assert_eq!(frame(&mut player, 141), (21, 0));
        assert_eq!(player.turn(), at(160));
    }

    /// Is a frame in time that is complete exactly at its deadline, and may a deadline be longer
    /// than a period? Due at 0 and 40, deadlines at 100 and 140.
    #[test]
    fn deadlines_are_counted_from_due_times() {
        let mut player = player(&FrameRules { deadline: Some(Nanos::from_millis(100)), ..rules() });
        assert_eq!(frame(&mut player, 100), (100, 0));
        assert_eq!(frame(&mut player, 141), (101, 1));
    }

    /// Do frames of the preroll not count, and does the film begin after them?
    #[test]
    fn the_film_begins_behind_the_preroll() {
        let mut player = player(&FrameRules { preroll: 2, size: None, ..rules() });
        for done_ms in [500, 700] {
            assert_eq!(player.turn(), Turn::Now);
            player.issued(4096);
            assert_eq!(player.turn(), Turn::AfterFrame, "one I/O is a frame without a size");
            assert_eq!(player.completed(Nanos::from_millis(done_ms), 4096), None);
        }
        assert_eq!(player.turn(), at(700));
        player.issued(4096);
        assert!(player.completed(Nanos::from_millis(741), 4096).is_some_and(|end| {
            (end.took, end.lateness) == (Nanos::from_millis(41), Nanos::from_millis(1))
        }));
    }

    /// Are frames that a job owes at its end late? Nothing was read in 200 ms: deadlines at 40, 80,
    /// 120, 160 have passed, that at 200 is now. At the end of the data nothing is owed, and the
    /// last frame may be short.
    #[test]
    fn owed_frames_are_late() {
        let mut player = player(&rules());
        player.issued(64 << 10);
        assert_eq!(player.unread(Nanos::from_millis(40)), None);
        let (took, lateness) = (Nanos::from_millis(200), Nanos::from_millis(160));
        let first = FrameEnd { took, lateness };
        assert_eq!(player.unread(took), Some(Unread { count: 4, first }));
        assert_eq!(player.completed(Nanos::from_millis(30), 64 << 10), None);
        let end = player.source_ended().unwrap();
        assert_eq!((end.took, end.lateness), (Nanos::from_millis(30), Nanos::ZERO));
        assert_eq!(player.unread(Nanos::from_secs(9)), None);
        assert_eq!(player.source_ended(), None, "it ends once");
    }
}
