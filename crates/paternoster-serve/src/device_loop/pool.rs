// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pools: the limited resources of a device, and how much of them each tenant may have.
//!
//! Half of a pool is guaranteed to tenants, half is lent to those that ask first. One half of the
//! guaranteed part is divided by weight and one equally, among the present tenants and one of
//! weight 100 that is yet to come: the next tenant finds its part free, whatever the others hold.
//!
//! ```text
//! 64 MiB     |--- guaranteed, 32 MiB --------------|--- lent, 32 MiB ---|
//! one tenant |  a 8 + 8 MiB   | the next 8 + 8 MiB |
//! a 300, b 100, the next 100: 16 MiB by weight are 9.6, 3.2, 3.2; 16 MiB equally 5.33 each
//! ```
//!
//! What a tenant holds above its guarantee is lent. Weights are those of the tree: a tenant has its
//! part of its group's part. Connections of a node that has child nodes compete with these, with a
//! weight of 100.
//!
//! Invariants: I1 `lent` is the sum of what tenants hold above their guarantees; I2 more is lent
//! only while less than the lent half is.

use super::tenants::{ROOT, Tenants};

/// Weight of connections of a node that has others below it, and of the tenant that may come.
const USUAL: u64 = 100;
/// A whole, in the unit of shares.
pub(super) const WHOLE: u64 = 1 << 32;

/// Each tenant's part by weight, of [`WHOLE`], and the number of tenants with the next one.
#[derive(Debug)]
pub(super) struct Shares {
    /// By place; `None`: it has no connections.
    by_weight: Vec<Option<u64>>,
    count: u64,
}

impl Shares {
    /// By place; `None`: it has no connections.
    pub(super) fn by_weight(&self) -> impl Iterator<Item = Option<u64>> {
        self.by_weight.iter().copied()
    }
}

impl Tenants {
    /// The shares of the tenants that have connections. The cost grows with their number: call it
    /// only when a connection comes or goes, or a weight changes.
    pub(super) fn shares(&self) -> Shares {
        let places = self.iter().map(|(place, _)| place as usize + 1).max().unwrap_or(0);
        let mut below = vec![0; places];
        let mut is_active = vec![false; places];
        // The one yet to come.
        let mut count = 1;
        below[ROOT as usize] += USUAL;
        for (place, node) in self.iter().filter(|(_, node)| node.connections != 0) {
            count += 1;
            below[place as usize] += USUAL;
            let (mut place, mut node) = (place, node);
            while place != ROOT && !std::mem::replace(&mut is_active[place as usize], true) {
                below[node.parent as usize] += u64::from(node.effective);
                place = node.parent;
                node = self.at(place);
            }
        }
        let mut by_weight = vec![None; places];
        for (place, node) in self.iter().filter(|(_, node)| node.connections != 0) {
            let mut share = WHOLE * USUAL / below[place as usize];
            let (mut at, mut node) = (place, node);
            while at != ROOT {
                share = share * u64::from(node.effective) / below[node.parent as usize];
                at = node.parent;
                node = self.at(at);
            }
            by_weight[place as usize] = Some(share);
        }
        Shares { by_weight, count }
    }
}

/// What a tenant has of a pool.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    held: u64,
    guaranteed: u64,
}

impl Part {
    const fn lent(self) -> u64 {
        self.held.saturating_sub(self.guaranteed)
    }
}

/// A limited resource.
#[derive(Debug)]
pub(super) struct Pool {
    all: u64,
    lent: u64,
    /// The part of each tenant.
    parts: Vec<Part>,
}

impl Pool {
    /// A pool of which no tenant holds anything.
    pub(super) const fn new(all: u64) -> Pool {
        Pool { all, lent: 0, parts: Vec::new() }
    }

    const fn guaranteed_in_all(&self) -> u64 {
        self.all / 2
    }

    /// Divides what is guaranteed.
    pub(super) fn divide(&mut self, shares: &Shares) {
        let half = self.guaranteed_in_all() / 2;
        if self.parts.len() < shares.by_weight.len() {
            self.parts.resize(shares.by_weight.len(), Part::default());
        }
        self.lent = 0;
        let by_weight = shares.by_weight.iter().copied().chain(std::iter::repeat(None));
        for (part, share) in self.parts.iter_mut().zip(by_weight) {
            part.guaranteed = share.map_or(0, |share| {
                let weighed = u128::from(half) * u128::from(share) / u128::from(WHOLE);
                u64::try_from(weighed).unwrap_or(half) + half / shares.count
            });
            self.lent += part.lent();
        }
    }

    fn part(&mut self, tenant: u32) -> &mut Part {
        let place = tenant as usize;
        if self.parts.len() <= place {
            self.parts.resize(place + 1, Part::default());
        }
        &mut self.parts[place]
    }

    /// A tenant holds `now` instead of `before`, in addition to what else it holds.
    pub(super) fn hold(&mut self, tenant: u32, before: u64, now: u64) {
        let part = self.part(tenant);
        let was_lent = part.lent();
        part.held = part.held - before + now;
        let is_lent = part.lent();
        self.lent = self.lent - was_lent + is_lent;
    }

    /// How much a tenant holds.
    pub(super) fn held(&self, tenant: u32) -> u64 {
        self.parts.get(tenant as usize).map_or(0, |part| part.held)
    }

    /// What a tenant may still get of its guarantee.
    pub(super) fn owed_to(&self, tenant: u32) -> u64 {
        let part = self.parts.get(tenant as usize).copied().unwrap_or_default();
        part.guaranteed.saturating_sub(part.held)
    }

    /// How much more a tenant may get.
    pub(super) fn may_get(&self, tenant: u32) -> u64 {
        self.owed_to(tenant) + (self.all - self.guaranteed_in_all()).saturating_sub(self.lent)
    }

    /// Whether a tenant may have one more. A tenant that holds none always may.
    pub(super) fn has_one_for(&self, tenant: u32) -> bool {
        self.held(tenant) == 0 || self.may_get(tenant) != 0
    }

    /// How much is lent in all.
    #[cfg(test)]
    pub(super) const fn lent(&self) -> u64 {
        self.lent
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{DeviceFacts, Limits, Nanos, NoObserver};

    use super::*;
    use crate::config::{Config, Group, Tenant};
    use crate::recorded_queue::RecordedQueue;

    const MIB: u64 = 1 << 20;

    fn tenants(config: &Config) -> (Tenants, RecordedQueue<NoObserver>) {
        let elevator = paternoster_schedulers::by_name("bfq").unwrap();
        let limits = Limits { groups: 64, ..Limits::default() };
        let mut recorded_queue =
            RecordedQueue::new(DeviceFacts::default(), limits, elevator, NoObserver).unwrap();
        let made = Tenants::new(config, &mut recorded_queue).unwrap();
        (made, recorded_queue)
    }

    fn of_weight(weights: &[(&str, u32)]) -> Config {
        let tenant = |&(name, weight): &(&str, u32)| Tenant { weight, ..Tenant::new(name) };
        Config { tenants: weights.iter().map(tenant).collect(), ..Config::default() }
    }

    /// What is guaranteed, to the nearest KiB.
    fn guaranteed(pool: &Pool, tenant: u32) -> u64 {
        (pool.parts[tenant as usize].guaranteed + 512) / 1024
    }

    /// Does the example of the essay hold?
    #[test]
    fn a_part_for_each_and_for_the_next() {
        let (mut tenants, mut recorded_queue) = tenants(&of_weight(&[("a", 300), ("b", 100)]));
        let mut pool = Pool::new(64 * MIB);
        let a = tenants.enter(Nanos::ZERO, &mut recorded_queue, "a");
        pool.divide(&tenants.shares());
        // 16 MiB * 300 / 400 by weight, 16 / 2 equally.
        assert_eq!(guaranteed(&pool, a), (12 + 8) * 1024);
        let b = tenants.enter(Nanos::ZERO, &mut recorded_queue, "b");
        pool.divide(&tenants.shares());
        // In KiB: 9830.4 + 5461.3, and 3276.8 + 5461.3.
        assert_eq!([a, b].map(|tenant| guaranteed(&pool, tenant)), [15_292, 8_738]);
    }

    /// Has a tenant its part of its group's part? Of 16 MiB by weight the group has half, the next
    /// tenant the other half, and each of the group's two tenants half of the group's; of 16
    /// equally a third.
    #[test]
    fn groups_share_what_they_have() {
        let member = |name: &str| Tenant { group: Some("g".into()), ..Tenant::new(name) };
        let config = Config {
            groups: vec![Group::new("g")],
            tenants: vec![member("a"), member("b")],
            ..Config::default()
        };
        let (mut tenants, mut recorded_queue) = tenants(&config);
        let mut pool = Pool::new(64 * MIB);
        let a = tenants.enter(Nanos::ZERO, &mut recorded_queue, "a");
        let b = tenants.enter(Nanos::ZERO, &mut recorded_queue, "b");
        pool.divide(&tenants.shares());
        let each = 4 * 1024 + 16 * 1024 / 3;
        assert_eq!([a, b].map(|tenant| guaranteed(&pool, tenant)), [each, each]);
    }

    /// Does the next tenant find its part free, though the first has taken all that it may?
    #[test]
    fn what_is_guaranteed_is_free() {
        let (mut tenants, mut recorded_queue) = tenants(&of_weight(&[("a", 100), ("b", 100)]));
        let mut pool = Pool::new(64 * MIB);
        let a = tenants.enter(Nanos::ZERO, &mut recorded_queue, "a");
        pool.divide(&tenants.shares());
        let all_of_a = pool.may_get(a);
        assert_eq!(all_of_a, (16 + 32) * MIB);
        pool.hold(a, 0, all_of_a);
        assert_eq!(pool.may_get(a), 0);
        let b = tenants.enter(Nanos::ZERO, &mut recorded_queue, "b");
        pool.divide(&tenants.shares());
        // A third of 32 MiB, and nothing is lent.
        let of_b = pool.may_get(b);
        assert!((2 * (16 * MIB / 3) - 2..=2 * (16 * MIB / 3)).contains(&of_b), "{of_b}");
        assert!(all_of_a + of_b <= 64 * MIB);
        pool.hold(a, all_of_a, 0);
        assert_eq!(pool.lent(), 0);
    }
}
