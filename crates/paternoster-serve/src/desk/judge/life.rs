// SPDX-License-Identifier: MIT OR Apache-2.0
//! Life: how a server ends and begins again within a case, and what it is ordered meanwhile.
//!
//! | end | what is left |
//! |---|---|
//! | kill | the page cache; of commands under way some are done, unheard |
//! | power cut | the disk, and of the blocks that are dirty those that chance picks |
//! | stop | everything that was acknowledged, on the disk (law D4), if it says that it ended well |
//!
//! Clients whose server has gone come again and go on with what they have not asked yet. Cases with
//! an end have no failed write-backs: a server does not know what the one before was told, and
//! docs/durability.md says so.

use paternoster_sim::chance::Chance;

use super::plan::{Plan, pick};
use crate::control::order::Order;

/// Something, and the round in which it happens.
#[derive(Debug, Clone)]
pub(super) struct When<T> {
    pub(super) round: u64,
    pub(super) what: T,
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Kill,
    PowerCut,
    Stop,
}

/// In one case of three the server ends, up to three times.
pub(super) fn ends(chance: &mut Chance) -> Vec<When<End>> {
    let count = if chance.once_in(3) { 1 + chance.below(3) } else { 0 };
    let mut round = 0;
    let each = (0..count).map(|_| {
        round += 1 + chance.below(60);
        When { round, what: pick(chance, &[End::Kill, End::PowerCut, End::Stop]) }
    });
    each.collect()
}

/// In one case of three it is ordered something.
pub(super) fn orders(chance: &mut Chance) -> Vec<When<Order>> {
    let count = if chance.once_in(3) { 1 + chance.below(6) } else { 0 };
    let each = (0..count).map(|_| {
        let round = chance.below(100);
        When { round, what: order(chance) }
    });
    each.collect()
}

fn order(chance: &mut Chance) -> Order {
    let schedulers = ["noop", "bfq", "mq-deadline", "cfq", "deadline", "kyber", "paternoster"];
    match chance.below(5) {
        0 => Order::Weight { name: "t0".to_owned(), weight: pick(chance, &[1, 100, 10_000]) },
        1 | 2 => Order::Scheduler { name: pick(chance, &schedulers).to_owned() },
        3 => Order::Explain { tenant: None },
        _ => Order::Snapshot,
    }
}

/// The same with fewer ends or orders, or with simpler handshakes.
pub(super) fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for which in 0..plan.ends.len() {
        let mut less = plan.clone();
        less.ends.remove(which);
        plans.push(less);
    }
    for which in 0..plan.orders.len() {
        let mut less = plan.clone();
        less.orders.remove(which);
        plans.push(less);
    }
    for which in 0..plan.clients.len() {
        let shake = &plan.clients[which].shake;
        if shake.comes != 0 || !shake.detours.is_empty() || shake.is_eager || shake.old.is_some() {
            let mut less = plan.clone();
            let shake = &mut less.clients[which].shake;
            (shake.comes, shake.is_eager, shake.old) = (0, false, None);
            shake.detours.clear();
            plans.push(less);
        }
    }
    plans
}
