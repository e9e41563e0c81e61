// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission: the caps that an ask must pass before the queue's order applies, and how a floor
//! bypasses that order.
//!
//! ```text
//!         cap closed: kept        open                    floor behind
//! ask ──▶ line of its class ──▶ queue, usual client ──▶ queue, urgent client ──▶ granted
//!         └ below one cap the classes' lines go by weight
//! ```
//!
//! A class with a floor has a second client in the queue, of the urgent kind and below no other.
//! While the class is behind its floor, its oldest ask is withdrawn from the usual client and
//! submitted for the urgent one, one ask at a time. The floor's clock counts every permit of the
//! class, so a class whose weight already gives it its floor is never moved.
//!
//! # Invariants (see `check`)
//! I1  `kept` counts the asks that wait for a cap; each is in its class's `kept`, and has no bio.
//!     Every other ask that waits has one.
//! I2  A cap's promises are those of all asks in the queue for its class or a class below it.
//! I3  While a class has a floor, `queued` has its asks that wait for its usual client, oldest
//!     first.

use alloc::vec::Vec;

use paternoster_core::{Bio, Class as Urgency, ClientSpec, Flags, Nanos};

use super::Core;
use super::class::{Class, ClassId, Kind, WEIGHT};
use super::classes::ClassError;
use super::entry::{Lane, Stage};
use super::rates::Rate;
use super::settings::sectors;

/// Virtual time of a byte at weight 1. A permit below a cap in requests counts as 4 KiB.
const SHARE: u64 = 1 << 10;
/// Bytes beyond this do not count.
const COST_MOST: u64 = 1 << 30;

impl Core {
    /// Sets the cap and the floor of a class, from now on; [`Rate::NONE`] for none.
    ///
    /// Asks already in the queue are not affected.
    ///
    /// # Errors
    /// [`ClassError::NoClass`] if it was closed, [`ClassError::Kind`] if a floor is set and others
    /// are below it, [`ClassError::Full`] if there is no place; nothing has changed then.
    pub fn set_rates(
        &mut self,
        now: Nanos,
        id: ClassId,
        cap: Rate,
        floor: Rate,
    ) -> Result<(), ClassError> {
        self.now = self.now.max(now);
        let set = self.give_rates(id, cap, floor);
        if set.is_ok() {
            self.pump();
        }
        if let Some(record) = &mut self.record {
            let of = |rate: Rate| [rate.bytes, rate.requests];
            let ([cb, cr], [fb, fr]) = (of(cap), of(floor));
            record.call("rates", &[now.0, id.0.bits(), cb, cr, fb, fr], &set);
        }
        set
    }

    pub(super) fn give_rates(
        &mut self,
        id: ClassId,
        cap: Rate,
        floor: Rate,
    ) -> Result<(), ClassError> {
        let class = self.classes.get(id).ok_or(ClassError::NoClass)?;
        if floor.is_said() && class.below > 0 {
            return Err(ClassError::Kind);
        }
        let mut urgent = class.urgent;
        if floor.is_said() && urgent.is_none() {
            let client = ClientSpec::new()
                .priority(Urgency::Realtime, class.priority().level)
                .weight(class.effective_weight());
            urgent = Some(self.queue.attach(self.now, client)?);
        }
        let (now, had_floor) = (self.now, class.floor.rate());
        let is_rated = self.rated.iter().position(|other| *other == id);
        match (is_rated, cap.is_said() || floor.is_said()) {
            (None, true) => self.rated.push(id),
            (Some(place), false) => drop(self.rated.remove(place)),
            _ => {}
        }
        let Some(class) = self.classes.get_mut(id) else { return Err(ClassError::NoClass) };
        class.urgent = urgent;
        class.cap.set(cap);
        if had_floor != floor {
            class.floor.set(now, floor);
            self.line_up(id, floor.is_said());
        }
        // I2: counts its promises again.
        let lens: Vec<u64> = self
            .waiting_in_queue()
            .filter(|(of, _)| self.is_at_or_below(*of, id))
            .map(|(_, len)| len)
            .collect();
        if let Some(class) = self.classes.get_mut(id) {
            lens.into_iter().for_each(|len| class.cap.promise(len));
        }
        Ok(())
    }

    /// The class and the length of each ask that waits in the queue.
    pub(super) fn waiting_in_queue(&self) -> impl Iterator<Item = (ClassId, u64)> {
        let waits = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.stage == Stage::Waiting && entry.lane != Lane::Kept);
        waits.filter_map(|(_, entry)| Some((entry.class?, entry.len)))
    }

    pub(super) fn is_at_or_below(&self, class: ClassId, above: ClassId) -> bool {
        self.chain(class).any(|at| at == above)
    }

    /// A class and those above it.
    fn chain(&self, class: ClassId) -> impl Iterator<Item = ClassId> {
        core::iter::successors(Some(class), |at| self.classes.get(*at)?.above)
    }

    /// Lines up the waiting asks of a class (I3), or dissolves the line.
    fn line_up(&mut self, id: ClassId, is_wanted: bool) {
        let Some(class) = self.classes.get_mut(id) else { return };
        while class.queued.pop_front(&mut self.lines).is_some() {}
        if !is_wanted {
            return;
        }
        let waits = self.entries.iter().filter(|(_, entry)| {
            entry.class == Some(id) && entry.stage == Stage::Waiting && entry.lane == Lane::Usual
        });
        let mut waits: Vec<_> = waits.map(|(key, entry)| (entry.asked, key.index())).collect();
        waits.sort_unstable();
        for (_, index) in waits {
            class.queued.push_back(&mut self.lines, index);
        }
    }

    /// When all caps of a class are open.
    pub(super) fn opens(&self, class: ClassId) -> Nanos {
        let caps = self.chain(class).filter_map(|at| self.classes.get(at));
        caps.filter(|at| at.cap.rate().is_said())
            .map(|at| at.cap.opens(self.now))
            .max()
            .unwrap_or(Nanos::ZERO)
    }

    /// The name of the class whose cap opens last, if it is closed.
    pub(super) fn closed_cap(&self, class: ClassId) -> Option<&str> {
        let caps = self.chain(class).filter_map(|at| self.classes.get(at));
        let closed = caps.filter(|at| at.cap.opens(self.now) > self.now);
        closed.max_by_key(|at| at.cap.opens(self.now)).map(|at| at.name.as_str())
    }

    /// Whether an ask for a class has to wait in its line.
    pub(super) fn is_kept(&self, class: ClassId) -> bool {
        if self.rated.is_empty() {
            return false;
        }
        let stands = self.classes.get(class).is_some_and(|own| !own.kept.is_empty());
        stands || self.opens(class) > self.now
    }

    /// Puts an ask in the line of its class.
    pub(super) fn keep(&mut self, class: ClassId, index: u32) {
        self.entries.at_mut(index).lane = Lane::Kept;
        let is_first = self.classes.get(class).is_some_and(|own| own.kept.is_empty());
        if is_first {
            self.begins_to_share(class);
        }
        if let Some(own) = self.classes.get_mut(class) {
            own.kept.push_back(&mut self.lines, index);
            self.kept += 1;
        }
    }

    /// Puts an ask into the queue, for its class's usual client or the urgent one. `false`: the
    /// queue has no place, which cannot happen, since it has as many places as there are entries.
    pub(super) fn submit(&mut self, index: u32, lane: Lane) -> bool {
        let entry = self.entries.at_mut(index);
        let Some(own) = entry.class.and_then(|class| self.classes.get_mut(class)) else {
            return false;
        };
        let client = own.urgent.filter(|_| lane == Lane::Urgent).unwrap_or(own.client);
        let bio = Bio::new(client, entry.op.in_queue(), entry.sector, sectors(entry.len))
            .flags(Flags::SYNC | Flags::NOMERGE)
            .cookie(index.into());
        let submitted = self.queue.submit(self.now, bio);
        let Ok(bio) = submitted else { return false };
        self.is_empty = false;
        (entry.bio, entry.lane) = (Some(bio), lane);
        if lane == Lane::Usual && own.floor.rate().is_said() {
            own.queued.push_back(&mut self.lines, index);
        }
        true
    }

    /// Changes each class that an ask counts for.
    fn each_above(&mut self, class: ClassId, mut change: impl FnMut(&mut Class)) {
        if self.rated.is_empty() {
            return;
        }
        let mut at = Some(class);
        while let Some(class) = at.and_then(|id| self.classes.get_mut(id)) {
            change(class);
            at = class.above;
        }
    }

    pub(super) fn promise(&mut self, class: ClassId, len: u64) {
        self.each_above(class, |class| class.cap.promise(len));
    }

    /// An ask no longer waits, in its line or in the queue. `granted`: it is paid for.
    #[inline]
    pub(super) fn leaves(&mut self, index: u32, granted: bool) {
        let now = self.now;
        let entry = self.entries.at(index);
        let (class, lane, len) = (entry.class, entry.lane, entry.len);
        if lane == Lane::Kept {
            self.kept -= 1;
        }
        let Some(id) = class else { return };
        let Some(own) = self.classes.get_mut(id) else { return };
        if self.lines.contains(index) {
            let line = if lane == Lane::Kept { &mut own.kept } else { &mut own.queued };
            line.remove(&mut self.lines, index);
        }
        if granted && own.floor.rate().is_said() {
            own.floor.pay(now, len);
        }
        if lane == Lane::Urgent {
            own.moved -= 1;
        }
        if lane != Lane::Kept {
            self.each_above(id, |class| {
                class.cap.release(len);
                if granted {
                    class.cap.pay(now, len);
                }
            });
        }
    }

    /// Admits to the queue what caps allow, and moves what floors are owed. `rates_wake` says when
    /// there is more to do.
    pub(super) fn admit(&mut self) {
        if self.rated.is_empty() && self.kept == 0 {
            self.rates_wake = None;
            return;
        }
        // Once the last cap is removed all of them are open.
        while let Some(class) = self.next_kept() {
            self.let_in(class);
        }
        for place in 0..self.rated.len() {
            self.move_one(self.rated[place]);
        }
        self.rates_wake = self.next_rate();
    }

    fn let_in(&mut self, class: ClassId) {
        let Some(own) = self.classes.get_mut(class) else { return };
        let Some(index) = own.kept.pop_front(&mut self.lines) else { return };
        self.kept -= 1;
        let len = self.entries.at(index).len;
        self.shares(class, len);
        self.promise(class, len);
        let submitted = self.submit(index, Lane::Usual);
        debug_assert!(submitted, "as many places as entries");
    }

    fn kept_classes(&self) -> impl Iterator<Item = ClassId> {
        let classes = self.classes.iter().filter(|(_, class)| !class.kept.is_empty());
        classes.map(|(key, _)| ClassId(key))
    }

    /// Among the classes with open caps and asks in line, the one that has had least for its
    /// weight.
    fn next_kept(&self) -> Option<ClassId> {
        if self.kept == 0 {
            return None;
        }
        let open = self.kept_classes().filter(|class| self.opens(*class) <= self.now);
        open.reduce(|one, other| if self.goes_before(other, one) { other } else { one })
    }

    /// The oldest ask of a class bypasses the order, if the class is behind its floor and no other
    /// ask does so already.
    fn move_one(&mut self, id: ClassId) {
        let now = self.now;
        let Some(own) = self.classes.get_mut(id) else { return };
        if own.moved > 0 || own.floor.behind().is_none_or(|at| at > now) {
            return;
        }
        let Some(index) = own.queued.pop_front(&mut self.lines) else { return };
        own.moved += 1;
        if let Some(bio) = self.entries.at_mut(index).bio.take() {
            self.cancel(bio);
        }
        let submitted = self.submit(index, Lane::Urgent);
        debug_assert!(submitted, "as many places as entries");
    }

    /// When a cap opens for an ask, or a class falls behind its floor.
    fn next_rate(&self) -> Option<Nanos> {
        let opens = match self.kept {
            0 => None,
            _ => self.kept_classes().map(|class| self.opens(class)).min(),
        };
        let floors = self.rated.iter().filter_map(|id| self.classes.get(*id));
        let behind = floors
            .filter(|class| class.moved == 0 && !class.queued.is_empty())
            .filter_map(|class| class.floor.behind())
            .min();
        opens.into_iter().chain(behind).min()
    }

    /// A class closes: its asks in line go into the queue, and no longer count for the classes
    /// above.
    pub(super) fn stops_rating(&mut self, id: ClassId) {
        while self.classes.get(id).is_some_and(|own| !own.kept.is_empty()) {
            self.let_in(id);
        }
        self.line_up(id, false);
        let lens: Vec<u64> =
            self.waiting_in_queue().filter(|(of, _)| *of == id).map(|(_, len)| len).collect();
        for len in lens {
            self.each_above(id, |class| class.cap.release(len));
        }
        let urgent = self.classes.get_mut(id).and_then(|own| own.urgent.take());
        if let Some(client) = urgent {
            let left = self.queue.detach(self.now, client);
            debug_assert!(left.is_ok(), "it was attached");
        }
        self.rated.retain(|other| *other != id);
    }

    // Lines below one cap go by weight: each class has a start tag among its siblings.

    /// A class and those above it begin to compete with siblings: their start tags are no earlier
    /// than the siblings'.
    fn begins_to_share(&mut self, class: ClassId) {
        if let Some(own) = self.classes.get_mut(class) {
            own.own_tag = own.own_tag.max(own.tag_below);
        }
        let mut at = Some(class);
        while let Some(id) = at {
            let above = self.classes.get(id).and_then(|own| own.above);
            let tag = self.tag_of_siblings(above);
            let Some(own) = self.classes.get_mut(id) else { return };
            own.tag = own.tag.max(tag);
            at = above;
        }
    }

    fn tag_of_siblings(&self, above: Option<ClassId>) -> u64 {
        above.and_then(|above| self.classes.get(above)).map_or(self.tag, |above| above.tag_below)
    }

    /// An ask of `len` bytes is let in: charges its class and those above it.
    fn shares(&mut self, class: ClassId, len: u64) {
        let caps = self.chain(class).filter_map(|at| self.classes.get(at));
        let by_bytes =
            caps.map(|at| at.cap.rate()).find(Rate::is_said).is_some_and(|r| r.bytes > 0);
        let cost = if by_bytes { len.clamp(1, COST_MOST) } else { 1 << 12 };
        if let Some(own) = self.classes.get_mut(class) {
            own.tag_below = own.own_tag;
            own.own_tag = own.own_tag.saturating_add(cost * SHARE / u64::from(WEIGHT));
        }
        let mut at = Some(class);
        while let Some(own) = at.and_then(|id| self.classes.get_mut(id)) {
            let tag = own.tag;
            own.tag = tag.saturating_add(cost * SHARE / own.weight_in_line());
            at = own.above;
            match at.and_then(|above| self.classes.get_mut(above)) {
                Some(above) => above.tag_below = tag,
                None => self.tag = tag,
            }
        }
    }

    /// Whether one class has had less for its weight than another, at the level where their paths
    /// part.
    fn goes_before(&self, one: ClassId, other: ClassId) -> bool {
        let meet = self.chain(one).find(|at| self.is_at_or_below(other, *at));
        self.place_below(one, meet) < self.place_below(other, meet)
    }

    /// A class's place among those below `above`: asks for `above` itself count as a sibling of
    /// those.
    fn place_below(&self, class: ClassId, above: Option<ClassId>) -> (bool, u64) {
        if above == Some(class) {
            return (true, self.classes.get(class).map_or(0, |own| own.own_tag));
        }
        let mut on_the_way = self.chain(class).filter_map(|at| self.classes.get(at));
        let at = on_the_way.find(|at| at.above == above);
        at.map_or((true, 0), |at| (at.kind != Kind::Urgent, at.tag))
    }
}
