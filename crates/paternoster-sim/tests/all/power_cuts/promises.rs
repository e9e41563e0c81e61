// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises: which data may be on the medium after a cut, given what callers have been told.
//!
//! The oracle of the crash test. It knows nothing of queue, elevator or disk: only which bios were
//! submitted, and how and when each was handed back. All of that is numbered by *beats*.
//!
//! # What is promised
//! * P1  A write is promised when it is acknowledged (`Done` with `Ok`) and had FUA.
//! * P2 Otherwise it is promised when a flush is acknowledged that was submitted after the write's
//!   acknowledgement: an empty flush, or the preflush of a write.
//! * P3 The data of a write with PREFLUSH are not on the medium before the writes that were
//!   acknowledged when it was submitted, whether it is acknowledged or not. Journals rely on this.
//! * P4 A failed write promises nothing. A withdrawn write is never written.
//!
//! # What is a loss
//! A sector holds some write x. Writes that were in flight together have no order: any of them may
//! be the one that stays. But if a promised write w was *submitted after the end of x*, x came
//! before w for every caller, and w is lost:
//!
//! ```text
//! beat   1   2   3   4   5   6   7   8   9
//! a      |-------|                               ends at 3
//! b                  |-------|                   submitted at 4, ends at 6
//! c                      |-----------|           5 to 8: overlaps b
//! flush                          |-------|       7 to 9: covers a and b, not c
//!
//! a cut at 8 may leave   the old content, a, b or c
//! a cut at 9 may leave   b or c; a ended at 3 and b, submitted at 4, is promised: a is a loss
//! ```
//!
//! So a sector needs one number, its *floor*: the latest submission of a write to it that is
//! promised. Whatever ended before its floor is a loss there. A write that has not ended is never a
//! loss: it may still be on its way. A failed write is on its way until it is handed back. The
//! initial content has the number 0 and ended at beat 0.
//!
//! Source: FLUSH-1 to FLUSH-3, FLUSH-16.

use paternoster_core::{Bio, Cookie, Flags, Op, Status};

/// The beat of an event that has not happened.
const NEVER: u64 = u64::MAX;

/// What a caller knows of one bio.
#[derive(Debug, Clone, Copy)]
struct Known {
    op: Op,
    flags: Flags,
    first: usize,
    end: usize,
    submitted: u64,
    ended: u64,
    withdrawn: bool,
}

impl Known {
    fn is_flush(&self) -> bool {
        self.op == Op::Flush || self.flags.contains(Flags::PREFLUSH)
    }
}

/// The latest promised submission to a sector, and its cookie.
#[derive(Debug, Clone, Copy, Default)]
struct Floor {
    beat: u64,
    of: Cookie,
}

/// All that has been promised so far.
#[derive(Debug)]
pub(crate) struct Promises {
    beat: u64,
    /// By their cookies, which count from 1.
    known: Vec<Known>,
    floors: Vec<Floor>,
    /// Writes that are acknowledged and not promised.
    acknowledged: Vec<Cookie>,
    /// Writes with PREFLUSH that have not been acknowledged, and the writes that must precede them.
    fences: Vec<(Cookie, Vec<Cookie>)>,
    /// Sectors that were promised, in all.
    pub(crate) promised: u64,
}

impl Promises {
    pub(crate) fn new(sectors: usize) -> Promises {
        let before = Known {
            op: Op::Write,
            flags: Flags::NONE,
            first: 0,
            end: sectors,
            submitted: 0,
            ended: 0,
            withdrawn: false,
        };
        Promises {
            beat: 0,
            known: vec![before],
            floors: vec![Floor::default(); sectors],
            acknowledged: Vec::new(),
            fences: Vec::new(),
            promised: 0,
        }
    }

    /// The cookie that the next bio must have.
    pub(crate) fn next_cookie(&self) -> Cookie {
        self.known.len() as Cookie
    }

    /// How many events have been told so far.
    pub(crate) const fn beat(&self) -> u64 {
        self.beat
    }

    fn of(&self, cookie: Cookie) -> &Known {
        &self.known[usize::try_from(cookie).expect("a cookie of ours")]
    }

    /// A bio with the next cookie was accepted.
    pub(crate) fn submitted(&mut self, bio: &Bio) {
        self.beat += 1;
        let known = Known {
            op: bio.op,
            flags: bio.flags,
            first: usize::try_from(bio.sector).expect("a sector of a small disk"),
            end: usize::try_from(bio.end()).expect("a sector of a small disk"),
            submitted: self.beat,
            ended: NEVER,
            withdrawn: false,
        };
        self.known.push(known);
        if bio.op == Op::Write && bio.flags.contains(Flags::PREFLUSH) {
            self.fences.push((bio.cookie, self.acknowledged.clone()));
        }
    }

    /// The bio was handed back.
    pub(crate) fn ended(&mut self, cookie: Cookie, status: Status) {
        self.beat += 1;
        let place = usize::try_from(cookie).expect("a cookie of ours");
        self.known[place].ended = self.beat;
        let known = self.known[place];
        match status {
            Status::Ok => {
                if known.is_flush() {
                    self.flushed(known.submitted);
                    self.fences.retain(|(fence, _)| *fence != cookie);
                }
                if known.op == Op::Write && known.flags.contains(Flags::FUA) {
                    self.promise(cookie);
                } else if known.op == Op::Write {
                    self.acknowledged.push(cookie);
                }
            }
            Status::Cancelled => self.known[place].withdrawn = true,
            Status::Failed(_) => {}
        }
    }

    /// A flush that was submitted at `beat` is acknowledged (P2).
    fn flushed(&mut self, beat: u64) {
        let acknowledged = std::mem::take(&mut self.acknowledged);
        let (covered, left) = acknowledged.into_iter().partition(|&w| self.of(w).ended < beat);
        self.acknowledged = left;
        let covered: Vec<Cookie> = covered;
        for cookie in covered {
            self.promise(cookie);
        }
    }

    fn promise(&mut self, cookie: Cookie) {
        let Known { first, end, submitted, .. } = *self.of(cookie);
        self.promised += (end - first) as u64;
        for floor in &mut self.floors[first..end] {
            if floor.beat < submitted {
                *floor = Floor { beat: submitted, of: cookie };
            }
        }
    }

    /// Checks whether the medium may hold these writes, by sector; the error says what is lost.
    pub(crate) fn judge(&self, medium: &[Cookie]) -> Result<(), String> {
        for (sector, (&held, floor)) in medium.iter().zip(&self.floors).enumerate() {
            if self.of(held).withdrawn {
                let it = self.tell(held);
                return Err(format!("P4: sector {sector} holds {it}, which was withdrawn"));
            }
            if self.of(held).ended < floor.beat {
                let (held, lost) = (self.tell(held), self.tell(floor.of));
                return Err(format!("lost: sector {sector} holds {held}; promised is {lost}"));
            }
        }
        self.fences.iter().try_for_each(|(fence, before)| self.stands(*fence, before, medium))
    }

    /// P3: if any data of `fence` are there, so is everything `before` it.
    fn stands(&self, fence: Cookie, before: &[Cookie], medium: &[Cookie]) -> Result<(), String> {
        let known = self.of(fence);
        if !medium[known.first..known.end].contains(&fence) {
            return Ok(());
        }
        for &write in before {
            let Known { first, end, submitted, .. } = *self.of(write);
            for (sector, &held) in medium.iter().enumerate().take(end).skip(first) {
                if self.of(held).ended < submitted {
                    let (fence, held) = (self.tell(fence), self.tell(held));
                    let write = self.tell(write);
                    return Err(format!(
                        "P3: {fence} is there before {write}: sector {sector} holds {held}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether some acknowledged write that was not promised is missing: an allowed loss.
    pub(crate) fn forgives(&self, medium: &[Cookie]) -> bool {
        self.acknowledged.iter().any(|&write| {
            let Known { first, end, submitted, .. } = *self.of(write);
            medium[first..end].iter().any(|&held| self.of(held).ended < submitted)
        })
    }

    fn tell(&self, cookie: Cookie) -> String {
        if cookie == 0 {
            return String::from("what was there before");
        }
        let known = self.of(cookie);
        let mut words = format!("write {cookie} (beats {} to ", known.submitted);
        match known.ended {
            NEVER => words.push_str("now"),
            ended => words.push_str(&ended.to_string()),
        }
        if known.flags.contains(Flags::PREFLUSH) {
            words.push_str(", PREFLUSH");
        }
        if known.flags.contains(Flags::FUA) {
            words.push_str(", FUA");
        }
        words + ")"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::{ClientId, ClientSpec, DeviceFacts, Nanos, RequestQueue};

    /// Any client; promises do not depend on which.
    fn somebody() -> ClientId {
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        let facts = DeviceFacts::default();
        let mut queue = RequestQueue::builder(facts, noop).build().expect("its limits work");
        queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap()
    }

    fn submit(promises: &mut Promises, op: Op, sector: u64, flags: Flags) -> Cookie {
        let cookie = promises.next_cookie();
        let sectors = if op == Op::Flush { 0 } else { 2 };
        let bio = Bio::new(somebody(), op, sector, sectors).cookie(cookie).flags(flags);
        promises.submitted(&bio);
        cookie
    }

    fn write(promises: &mut Promises, sector: u64, flags: Flags) -> Cookie {
        submit(promises, Op::Write, sector, flags)
    }

    /// Does the drawing above hold, beat by beat?
    #[test]
    fn the_drawing_holds() {
        let mut promises = Promises::new(2);
        let beats = |p: &Promises, beat| assert_eq!(p.beat(), beat);
        let allowed = |p: &Promises| (0..4).map(|held| p.judge(&[held; 2]).is_ok()).collect();
        let a = write(&mut promises, 0, Flags::NONE);
        promises.beat += 1;
        promises.ended(a, Status::Ok);
        beats(&promises, 3);
        let b = write(&mut promises, 0, Flags::NONE);
        let c = write(&mut promises, 0, Flags::NONE);
        promises.ended(b, Status::Ok);
        beats(&promises, 6);
        let flush = submit(&mut promises, Op::Flush, 0, Flags::NONE);
        promises.ended(c, Status::Ok);
        let at_8: Vec<bool> = allowed(&promises);
        assert_eq!(at_8, [true; 4], "before, a, b, c");
        promises.ended(flush, Status::Ok);
        let at_9: Vec<bool> = allowed(&promises);
        assert_eq!(at_9, [false, false, true, true]);
        assert!(promises.judge(&[b, c]).is_ok(), "b and c have no order, also torn");
    }

    /// Is FUA a promise at its end, and a failed flush none?
    #[test]
    fn fua_promises_and_failures_do_not() {
        let mut promises = Promises::new(4);
        let a = write(&mut promises, 0, Flags::NONE);
        promises.ended(a, Status::Ok);
        let flush = submit(&mut promises, Op::Flush, 0, Flags::NONE);
        promises.ended(flush, Status::Failed(5));
        assert!(promises.judge(&[0; 4]).is_ok());
        let fua = write(&mut promises, 2, Flags::FUA);
        assert!(promises.judge(&[0; 4]).is_ok());
        promises.ended(fua, Status::Ok);
        let fault = promises.judge(&[0; 4]).unwrap_err();
        assert_eq!(
            fault,
            "lost: sector 2 holds what was there before; promised is write 3 (beats 5 to 6, FUA)"
        );
        assert!(promises.judge(&[0, 0, fua, fua]).is_ok());
        assert!(promises.forgives(&[0, 0, fua, fua]), "a is gone, and may be");
    }

    /// May the data of a PREFLUSH write be there before those that it flushes?
    #[test]
    fn a_preflush_is_a_fence() {
        let mut promises = Promises::new(4);
        let journal = write(&mut promises, 0, Flags::NONE);
        promises.ended(journal, Status::Ok);
        let commit = write(&mut promises, 2, Flags::PREFLUSH | Flags::FUA);
        assert!(promises.judge(&[0, 0, 0, 0]).is_ok(), "nothing is acknowledged");
        assert!(promises.judge(&[journal, journal, commit, 0]).is_ok(), "torn, behind the journal");
        assert!(promises.judge(&[journal, 0, commit, 0]).unwrap_err().starts_with("P3"));
    }

    /// May a withdrawn write be there? May a failed write, until a later one is promised?
    #[test]
    fn withdrawn_is_never_there_and_failed_may_be() {
        let mut promises = Promises::new(2);
        let withdrawn = write(&mut promises, 0, Flags::NONE);
        promises.ended(withdrawn, Status::Cancelled);
        assert!(promises.judge(&[withdrawn; 2]).unwrap_err().starts_with("P4"));
        let failed = write(&mut promises, 0, Flags::NONE);
        promises.ended(failed, Status::Failed(5));
        assert!(promises.judge(&[failed; 2]).is_ok() && promises.judge(&[0; 2]).is_ok());
        let fua = write(&mut promises, 0, Flags::FUA);
        promises.ended(fua, Status::Ok);
        assert!(promises.judge(&[failed; 2]).is_err() && promises.judge(&[fua; 2]).is_ok());
    }
}
