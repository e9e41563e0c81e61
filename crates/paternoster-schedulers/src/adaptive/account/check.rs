// SPDX-License-Identifier: MIT OR Apache-2.0
//! The audit of the accounts: counts, orders, rests and estimates.

use alloc::format;
use alloc::vec;

use super::{Accounts, CLASSES, CROWD, Group, STREAM};
use paternoster_core::Class;
use paternoster_core::elevator::Fault;
use paternoster_core::slab::NIL;

/// The sums over the children of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    queued: [u32; 2],
    flying: u32,
    held: u32,
    busy_weight: u64,
    held_weight: [u64; CLASSES],
    asking: u32,
    idlers_flying: u32,
    holds: [u32; CLASSES],
}

impl Accounts {
    /// Verifies I1, I2 and I4. O(n).
    pub(in super::super) fn check(&self) -> Result<(), Fault> {
        let mut sums = vec![Sum::default(); self.nodes.len()];
        for child in self.nodes.iter().filter(|child| child.parent != NIL) {
            let sum = &mut sums[child.parent as usize];
            sum.queued = [sum.queued[0] + child.queued[0], sum.queued[1] + child.queued[1]];
            sum.flying += child.flying;
            sum.held += child.held;
            sum.busy_weight += if child.is_busy() { u64::from(child.weight) } else { 0 };
            if child.shares() {
                sum.held_weight[usize::from(child.class)] += u64::from(child.weight);
            }
            sum.asking += u32::from(child.asks);
            let idles = child.class == Class::Idle as u8;
            sum.idlers_flying += if idles { child.flying } else { 0 };
            if child.class != Class::BestEffort as u8 {
                sum.holds[usize::from(child.class)] += child.held;
            }
        }
        let mut of_class = [0; CLASSES];
        for node in self.nodes.iter().filter(|node| node.class != Class::BestEffort as u8) {
            of_class[usize::from(node.class)] += 1;
        }
        if of_class != self.of_class {
            return Err(format!("account I2: {of_class:?} by class, knows {:?}", self.of_class));
        }
        let all = self.nodes.iter().zip(&sums).enumerate();
        for (group, (node, sum)) in all.skip(self.clients as usize) {
            let (queued, flying, held) = (node.queued, node.flying, node.held);
            let own = &self.groups[group - self.clients as usize];
            let Group { busy_weight, held_weight, asking, idlers_flying, holds, .. } = *own;
            let known = Sum {
                queued,
                flying,
                held,
                busy_weight,
                held_weight,
                asking,
                idlers_flying,
                holds,
            };
            if *sum != known {
                return Err(format!("account I2: group {group} has {sum:?}, knows {known:?}"));
            }
            for kind in [CROWD, STREAM] {
                for (class, order) in (0u8..).zip(&own.ready[kind]) {
                    order.check(&self.orders[kind])?;
                    let mut all = order.iter(&self.orders[kind]).map(|child| self.at(child));
                    if all.any(|child| (child.parent as usize, child.class) != (group, class)) {
                        return Err(format!("account I1: a stranger stands in group {group}"));
                    }
                }
            }
        }
        for (number, node) in (0u32..).zip(&self.nodes) {
            if node.parent == NIL {
                continue;
            }
            for kind in [CROWD, STREAM] {
                let key = self.orders[kind].key(number);
                let right = (node.queued[kind] > 0).then_some(node.vt);
                if key != right {
                    return Err(format!("account I1: {number} stands at {key:?}, not {right:?}"));
                }
            }
            if node.rest >= node.weight {
                return Err(format!("account I4: {number} has a rest of {}", node.rest));
            }
            if node.flying == 0 && node.estimated != 0 {
                return Err(format!(
                    "account G1: {number} owes {} ns of estimates",
                    node.estimated
                ));
            }
        }
        Ok(())
    }
}
