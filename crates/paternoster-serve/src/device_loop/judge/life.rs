// SPDX-License-Identifier: MIT OR Apache-2.0
//! Life: how a server ends and begins again within a case, and what it is ordered meanwhile.
//!
//! | end | what is left |
//! |---|---|
//! | kill | the page cache; of commands under way some are done, unheard |
//! | power cut | the disk, and of the blocks that are dirty those that chance picks |
//! | stop | everything that was acknowledged, on the disk (law D4), if it says that it ended well |
//!
//! Clients whose server has gone connect again and go on with the requests they have not sent yet.
//! Cases with an end have no failed write-backs: a server does not know which errors the one before
//! was given, and docs/durability.md says so.

use paternoster_sim::chance::Chance;

use super::house::{House, Own, Street, close_files, forget_closing};
use super::medium::Gone;
use super::plan::{Plan, pick};
use super::succession::claim;
use super::tenants::Since;
use super::{Stage, keep_memory};
use crate::control::order::Order;

/// Something, and the round in which it happens.
#[derive(Debug, Clone)]
pub(super) struct When<T> {
    pub(super) round: u64,
    pub(super) what: T,
}

/// How a server's life ends.
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

impl Stage {
    /// What happens to the server in this round, if anything does.
    pub(super) fn live(&mut self, plan: &Plan) -> Result<(), String> {
        let round = self.round;
        if self.stops.is_some() {
            return Ok(());
        }
        let mut answers = Vec::new();
        for order in plan.orders.iter().filter(|order| order.round == round) {
            answers.push((&order.what, self.house.ask(order.what.clone())));
        }
        if !answers.is_empty() {
            self.turn(1);
        }
        for (order, answer) in answers {
            answer.try_recv().map_err(|_| format!("O1: no answer to {order:?}"))?.ok();
        }
        match plan.ends.iter().find(|end| end.round == round).map(|end| end.what) {
            None => Ok(()),
            Some(End::Stop) => {
                self.stops = Some(self.house.ask(Order::Stop));
                let device_loop = &self.house.device_loop;
                let heard = device_loop.requests.ios().iter().filter(|(_, io)| !io.silent);
                self.accepted = heard.map(|(_, io)| io.request.cookie).collect();
                self.stop_by = self.now + device_loop.settings.drain_timeout;
                Ok(())
            }
            Some(End::Kill) => {
                let server = self.house.own.server;
                self.medium.state().goes(server, Gone::Killed);
                self.names.kill(server);
                self.begin_again(plan, false);
                Ok(())
            }
            Some(End::PowerCut) => {
                let left = self.medium.state().lose_power();
                self.is_admissible(&left)?;
                self.book.go_on_from(left, self.beat);
                self.names.kill_all();
                self.begin_again(plan, false);
                Ok(())
            }
        }
    }

    /// Another server takes the place of the one that is there, which ends well or has gone.
    pub(super) fn begin_again(&mut self, plan: &Plan, ends: bool) {
        self.beat += 1;
        for client in &mut self.clients {
            client.lose_server(&mut self.book, self.beat);
        }
        self.street = Street::new();
        (self.renewed, self.since) = (None, Since::now(&self.clients, self.now));
        let own = Own::new(plan, &self.medium, &self.names);
        let next = House::open(plan, &self.medium, &self.street, own.clone(), &[]);
        let last = std::mem::replace(&mut self.house, next);
        (self.passing, self.kept) = (None, Vec::new());
        self.elders.clear();
        if ends {
            close_files();
            last.device_loop.end();
            self.names.ends(last.own.server);
        } else {
            forget_closing();
        }
        self.claims = None;
        self.claims = claim(&own, plan);
        self.kept = keep_memory(plan, &mut self.house.device_loop);
    }

    /// D4, once a server that was asked to stop has nothing left to do.
    pub(super) fn stop(&mut self, plan: &Plan) -> Result<(), String> {
        let device_loop = &self.house.device_loop;
        if !(self.stops.is_some() && device_loop.stop.is_on() && device_loop.is_done()) {
            return Ok(());
        }
        let Some(answer) = self.stops.take() else { return Ok(()) };
        self.medium.state().lets_go = true;
        self.begin_again(plan, true);
        let told = answer.try_recv().map_err(|_| "O1: no answer to a stop".to_owned())?;
        if told.is_ok() {
            self.beat += 1;
            self.book.flushed(self.beat, self.beat, &[]);
            self.cut().map_err(|why| format!("D4: it has stopped, but {why}"))?;
        }
        Ok(())
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
    for which in 0..plan.handovers.len() {
        let mut less = plan.clone();
        less.handovers.remove(which);
        plans.push(less);
        if plan.handovers[which].round > 1 {
            for round in [1, plan.handovers[which].round / 2, plan.handovers[which].round - 1] {
                let mut earlier = plan.clone();
                earlier.handovers[which].round = round;
                plans.push(earlier);
            }
        }
    }
    for which in 0..plan.reloads.len() {
        let mut less = plan.clone();
        less.reloads.remove(which);
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
