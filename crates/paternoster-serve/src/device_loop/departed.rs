// SPDX-License-Identifier: MIT OR Apache-2.0
//! Departed: what departed tenants got is kept, so that sums never decrease.
//!
//! A tenant that is not configured goes with its last client. A monitor that adds up all tenants
//! would then see a smaller sum, and that tenant's errors would be lost.
//!
//! ```text
//! tenant goes ──▶ the last 1,024, by name ──the oldest──▶ sums by its last client's volume:
//!      ▲                │                                 one for each of the first 1,024 volumes,
//!      └──── comes back: its figures continue             one without a name for all others
//! ```
//!
//! Volumes come and go with reloads, so the number of their names is bounded too.
//!
//! Invariants: I1 what a tenant got is in its node, here by its name, or in one sum; I2 there are
//! at most 1,024 names of tenants and 1,024 of volumes; I3 a tenant that got nothing is not kept.

use std::collections::{BTreeMap, VecDeque};

use super::tenants::{Node, Tenants};
use crate::control::snapshot::{EarlierLine, Figures, TenantLine};

/// Tenants that are kept by name.
const KEPT: usize = 1024;

#[derive(Debug)]
struct Kept {
    name: String,
    volume: String,
    figures: Figures,
}

/// The figures of tenants that have gone.
#[derive(Debug, Default)]
pub(super) struct Departed {
    /// The oldest first.
    kept: VecDeque<Kept>,
    /// For each volume: the number of tenants, and what they got. The empty name stands for all
    /// other volumes.
    earlier: BTreeMap<String, (u64, Figures)>,
}

impl Departed {
    /// A tenant has gone, whose last client used that volume.
    pub(super) fn keep(&mut self, name: &str, volume: &str, figures: Figures) {
        let Figures { reads, writes, flushes, errors, served_ns, .. } = figures;
        if [reads, writes, flushes, errors, served_ns] == [0; 5] {
            return;
        }
        // There may have been two nodes of this name, one of them about to go.
        let mut figures = figures;
        if let Some(before) = self.take(name) {
            figures.add(&before);
        }
        let (name, volume) = (name.to_owned(), volume.to_owned());
        self.kept.push_back(Kept { name, volume, figures });
        if self.kept.len() > KEPT
            && let Some(Kept { volume, figures, .. }) = self.kept.pop_front()
        {
            let has_room = self.earlier.len() < KEPT || self.earlier.contains_key(&volume);
            let place = if has_room { volume } else { String::new() };
            let (count, sum) = self.earlier.entry(place).or_default();
            *count += 1;
            sum.add(&figures);
        }
    }

    /// A tenant of this name comes back: returns what it got before.
    pub(super) fn take(&mut self, name: &str) -> Option<Figures> {
        let place = self.kept.iter().position(|one| one.name == name)?;
        self.kept.remove(place).map(|one| one.figures)
    }

    /// Lines of tenants that are kept by name.
    pub(super) fn lines(&self) -> Vec<TenantLine> {
        let line = |one: &Kept| TenantLine {
            name: one.name.clone(),
            figures: one.figures.clone(),
            ..TenantLine::default()
        };
        self.kept.iter().map(line).collect()
    }

    /// Sums of the tenants before those.
    pub(super) fn earlier(&self) -> Vec<EarlierLine> {
        let line = |(volume, (tenants, figures)): (&String, &(u64, Figures))| EarlierLine {
            volume: volume.clone(),
            tenants: *tenants,
            figures: figures.clone(),
        };
        self.earlier.iter().map(line).collect()
    }
}

impl Tenants {
    /// Keeps what a departed node got, unless another node of its name continues it.
    pub(super) fn keep(&mut self, gone: Option<Node>) {
        let is_last = |gone: &Node| !gone.is_group && self.find(&gone.name).is_none();
        if let Some(gone) = gone.filter(is_last) {
            self.departed.keep(&gone.name, &gone.volume, gone.figures);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(reads: u64) -> Figures {
        Figures { reads, latency_log2_us: vec![0, reads], ..Figures::default() }
    }

    fn sum(departed: &Departed) -> u64 {
        let kept: u64 = departed.lines().iter().map(|line| line.figures.reads).sum();
        kept + departed.earlier().iter().map(|line| line.figures.reads).sum::<u64>()
    }

    /// Is nothing lost of 3,000 tenants that come and go, 1,024 of them by name and the others by
    /// volume? Tenant n got n + 1: 3,000 · 3,001 / 2 in all.
    #[test]
    fn sums_never_go_backwards() {
        let (mut departed, mut before) = (Departed::default(), 0);
        for n in 0..3000 {
            let volume = if n % 2 == 0 { "even" } else { "odd" };
            departed.keep(&format!("tenant {n}"), volume, reads(n + 1));
            assert_eq!(sum(&departed), before + n + 1);
            before += n + 1;
        }
        assert_eq!(before, 3000 * 3001 / 2);
        assert_eq!(departed.lines().len(), 1024);
        let earlier = departed.earlier();
        // 3,000 - 1,024 are 1,976, half of each.
        let told: Vec<_> = earlier.iter().map(|line| (&*line.volume, line.tenants)).collect();
        assert_eq!(told, [("even", 988), ("odd", 988)]);
        assert_eq!(earlier[0].figures.latency_log2_us, [0, earlier[0].figures.reads]);
    }

    /// I2: is nothing lost, and nothing without bound, of 4,000 tenants with a volume each? 2,976
    /// are no longer kept by name: 1,024 have their volume's sum, 1,952 are together.
    #[test]
    fn volumes_are_bounded() {
        let mut departed = Departed::default();
        for n in 0..4000 {
            departed.keep(&format!("tenant {n}"), &format!("volume {n}"), reads(1));
        }
        let earlier = departed.earlier();
        assert_eq!(earlier.len(), 1024 + 1);
        assert_eq!((&*earlier[0].volume, earlier[0].tenants), ("", 4000 - 2 * 1024));
        assert_eq!(sum(&departed), 4000);
    }

    /// Does a tenant that comes again go on from where it was, and is it then listed once?
    #[test]
    fn one_that_comes_again_goes_on() {
        let mut departed = Departed::default();
        departed.keep("vm1", "disk", reads(7));
        departed.keep("idle", "disk", reads(0));
        assert_eq!(departed.lines().len(), 1, "what got nothing is not kept");
        assert_eq!(departed.take("vm1"), Some(reads(7)));
        assert_eq!(departed.take("vm1"), None);
        departed.keep("vm1", "disk", reads(9));
        departed.keep("vm1", "disk", reads(1));
        assert_eq!(departed.lines()[0].figures, reads(10));
    }
}
