// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check: the invariants of a gate, checked one by one.

use alloc::format;
use alloc::string::String;

use super::Core;
use super::class::ClassId;
use super::entry::{Lane, Stage};
use super::rates::Cap;

pub(super) fn check(core: &Core) -> Result<(), String> {
    core.queue.audit().map_err(|fault| format!("{fault:?}"))?;
    core.links_are_sound()?;
    let mut deadlines = 0;
    for (key, entry) in core.entries.iter() {
        let (index, stage) = (key.index(), entry.stage);
        let is_out = core.out.contains(index);
        if is_out != (stage == Stage::Granted) {
            return Err(format!("I1: {index} is {stage:?} and out: {is_out}"));
        }
        if let Some(at) = entry.gives_up {
            deadlines += 1;
            if stage != Stage::Waiting || !core.deadlines.contains(&(at, index)) {
                return Err(format!("I4: {index} is {stage:?} and has a deadline"));
            }
        }
    }
    let waiting = core.entries.iter().filter(|(_, entry)| entry.stage == Stage::Waiting).count();
    if waiting != core.waiting as usize {
        return Err(format!("I1: {waiting} wait, {} are counted", core.waiting));
    }
    if deadlines != core.deadlines.len() {
        return Err(format!("I4: {} deadlines of {deadlines}", core.deadlines.len()));
    }
    let is_empty = core.waiting == core.kept;
    if core.untold != 0 || core.is_empty != is_empty {
        return Err(format!("pump I1: {} untold, empty: {}", core.untold, core.is_empty));
    }
    core.classes_count_their_own()?;
    core.lines_are_sound()
}

impl Core {
    fn links_are_sound(&self) -> Result<(), String> {
        self.out.check(|index| self.entries.at(index).holder)?;
        self.fresh.check(&self.fresh_links)?;
        let mut last = paternoster_core::Nanos::ZERO;
        for index in self.out.iter() {
            let granted = self.entries.at(index).granted;
            if granted < last {
                return Err(format!("I2: {index} was granted at {granted}, behind {last}"));
            }
            last = granted;
        }
        Ok(())
    }

    /// The invariants of `admission`.
    fn lines_are_sound(&self) -> Result<(), String> {
        let mut kept = 0;
        for (key, entry) in self.entries.iter() {
            let waits = entry.stage == Stage::Waiting;
            let is_kept = waits && entry.lane == Lane::Kept;
            kept += u32::from(is_kept);
            if waits && is_kept != entry.bio.is_none() {
                return Err(format!("admission I1: {} waits in {:?}", key.index(), entry.lane));
            }
        }
        if kept != self.kept {
            return Err(format!("admission I1: {kept} stand in line, {} are counted", self.kept));
        }
        let mut in_lines = 0;
        for (key, class) in self.classes.iter() {
            class.kept.check(&self.lines)?;
            class.queued.check(&self.lines)?;
            let (id, name) = (ClassId(key), &class.name);
            let mut promised = Cap::default();
            promised.set(class.cap.rate());
            let below = self.waiting_in_queue().filter(|(of, _)| self.is_at_or_below(*of, id));
            below.for_each(|(_, len)| promised.promise(len));
            if class.cap.rate().is_said() && promised.promised() != class.cap.promised() {
                return Err(format!("admission I2: {name} has promised {:?}", class.cap));
            }
            let of = |lane: Lane| {
                let own = self.entries.iter().filter(|(_, entry)| entry.class == Some(id));
                let waits = own.filter(|(_, entry)| entry.stage == Stage::Waiting);
                waits.filter(|(_, entry)| entry.lane == lane).count()
            };
            let has_floor = class.floor.rate().is_said();
            let queued = if has_floor { of(Lane::Usual) } else { 0 };
            let counted = (class.kept.len(), class.queued.len(), class.moved);
            let are = [of(Lane::Kept), queued, of(Lane::Urgent)];
            if are.map(u32::try_from) != [Ok(counted.0), Ok(counted.1), Ok(counted.2)] {
                return Err(format!("admission I3: {name} counts {counted:?} of {are:?}"));
            }
            in_lines += counted.0;
        }
        if in_lines == self.kept { Ok(()) } else { Err(format!("admission I1: {in_lines}")) }
    }

    fn classes_count_their_own(&self) -> Result<(), String> {
        for (key, class) in self.classes.iter() {
            let own =
                self.entries.iter().filter(|(_, entry)| entry.class.is_some_and(|of| of.0 == key));
            let (mut waiting, mut inside) = (0, 0);
            for (_, entry) in own {
                waiting += u32::from(entry.stage == Stage::Waiting);
                inside += u32::from(entry.stage == Stage::Granted);
            }
            let (name, counts) = (&class.name, class.counts);
            if (waiting, inside) != (class.waiting, class.inside) {
                return Err(format!("I1: {name} counts {} {}", class.waiting, class.inside));
            }
            let ended = counts.withdrawn + counts.too_late + counts.granted;
            if counts.asked != ended + u64::from(waiting) {
                return Err(format!("I3: {name}, {waiting} waiting: {counts:?}"));
            }
            if counts.granted != counts.given_back + counts.expired + u64::from(inside) {
                return Err(format!("I3: {name}, {inside} inside: {counts:?}"));
            }
        }
        Ok(())
    }
}
