// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renewal: a server reloads its configuration in the middle of a case, or refuses it.
//!
//! ```text
//! loop        look: is there room? ─▶ take: caps, weights, classes, rules     (in this order)
//! negotiation                                                     ─▶ changed
//! ```
//!
//! The two messages to the loop and the one to the negotiation are those of production; the thread
//! that reads files and waits for the answers is not here. Volumes stay as they are. A server that
//! takes over reads the configuration that is in force; one that starts again finds the first file.
//!
//! Laws: R1 after a reload that was taken everything is as it says, and after one that was refused
//! nothing has changed; O1 a reload is answered; T2 holds from one reload to the next.

use std::sync::Arc;
use std::sync::mpsc::channel;

use paternoster_sim::chance::Chance;

use super::life::When;
use super::plan::{Plan, pick};
use super::tenants::{Since, are_kept_to_their_caps, name};
use super::{Stage, config};
use crate::config::{Caps, Config, Group};
use crate::device_loop::DeviceLoop;
use crate::device_loop::reload::{Reload, Step, Take};
use crate::device_loop::{Message, attributes};
use crate::export_table::ExportTable;
use crate::reload::{Changed, Word};

/// More groups than any loop has room for.
const TOO_MANY: usize = 1_000;

/// What a reload says.
#[derive(Debug, Clone)]
pub(super) struct Renewal {
    /// One for each tenant; a case may have fewer tenants.
    weights: Vec<u32>,
    caps: Vec<Caps>,
    /// The users of the first two tenants change places.
    swaps: bool,
    /// There is no room for all that it says.
    is_refused: bool,
}

/// In one case of four there are up to three reloads.
pub(super) fn reloads(chance: &mut Chance) -> Vec<When<Renewal>> {
    let count = if chance.once_in(4) { 1 + chance.below(3) } else { 0 };
    let each = (0..count).map(|_| {
        let round = 1 + chance.below(60);
        let caps = |chance: &mut Chance| Caps {
            bytes: pick(chance, &[0, 0, 1 << 20]),
            requests: pick(chance, &[0, 0, 50]),
        };
        let what = Renewal {
            weights: (0..4).map(|_| pick(chance, &[1, 100, 1000])).collect(),
            caps: (0..4).map(|_| caps(chance)).collect(),
            swaps: chance.once_in(3),
            is_refused: chance.once_in(3),
        };
        When { round, what }
    });
    each.collect()
}

impl Renewal {
    /// Whether it caps a configured tenant.
    pub(super) fn is_capped(&self) -> bool {
        !self.is_refused && self.caps.iter().any(|caps| *caps != Caps::default())
    }

    /// Whether clients are another tenant's once it was taken.
    pub(super) fn moves_clients(&self) -> bool {
        !self.is_refused && self.swaps
    }

    /// The plan as it is once this was taken.
    fn of(&self, plan: &Plan) -> Plan {
        let mut renewed = plan.clone();
        for (tenant, (&weight, &caps)) in
            renewed.tenants.iter_mut().zip(self.weights.iter().zip(&self.caps))
        {
            (tenant.weight, tenant.caps) = (weight, caps);
        }
        renewed.is_swapped ^= self.swaps;
        renewed
    }
}

/// The configuration that a loop has, as text.
fn has(it: &DeviceLoop) -> String {
    // Tenants that are not configured come and go with their clients.
    let configured = it.tenants.iter().filter(|(_, node)| !node.is_stranger);
    let tenants = configured.map(|(_, node)| {
        let (weight, floor, caps) = (node.weight, node.floor, node.cap.is_limited_to());
        format!("{} {weight} {floor} {caps:?} {:?} {}", node.name, node.class, node.level)
    });
    let tenants: Vec<String> = tenants.collect();
    let (memory, times) = (it.connection_memory, [it.stall_timeout, it.drain_timeout]);
    format!("{tenants:?} {:?} {} {memory} {times:?}", it.rules, it.capped)
}

impl Stage {
    /// The plan that is in force.
    pub(super) fn current(&self, plan: &Plan) -> Plan {
        self.renewed.as_ref().unwrap_or(plan).clone()
    }

    /// A reload, if it is time for one.
    pub(super) fn renew(&mut self, plan: &Plan) -> Result<(), String> {
        let due = plan.reloads.iter().find(|due| due.round == self.round);
        let Some(renewal) = due.map(|due| &due.what) else { return Ok(()) };
        if self.stops.is_some() || self.passing.is_some() {
            return Ok(());
        }
        let now = self.current(plan);
        let renewed = renewal.of(&now);
        let (mut asked, device) = config(&renewed);
        if renewal.is_refused {
            asked.groups.extend((0..TOO_MANY).map(|number| Group {
                name: format!("more{number}"),
                parent: None,
                weight: 100,
                caps: Caps::default(),
                floor: None,
            }));
        }
        let asked = Arc::new(asked);
        let before = has(&self.house.device_loop);
        let (answer, answers) = channel();
        self.house.reload(Reload {
            config: Arc::clone(&asked),
            device: 0,
            step: Step::Look { files: Vec::new(), answer },
        });
        self.turn(1);
        let seen = answers.try_recv().map_err(|_| "O1: no answer to a reload")?;
        let seen = match (seen, renewal.is_refused) {
            (Ok(seen), false) => seen,
            (Ok(_), true) => return Err("R1: there is room for too many groups".to_owned()),
            (Err(why), false) => return Err(format!("R1: a reload was refused: {why}")),
            (Err(_), true) => {
                let after = has(&self.house.device_loop);
                return (before == after).then_some(()).ok_or_else(|| {
                    format!("R1: a refused reload has changed {before} to {after}")
                });
            }
        };
        are_kept_to_their_caps(&now, &self.clients, &self.since, self.now)?;
        let attributes = attributes(&device, seen.facts, seen.limits)?;
        let take = Take { attributes, line: seen.line, ..Take::default() };
        let (answer, answers) = channel();
        let step = Step::Take(Box::new(take), answer);
        self.house.reload(Reload { config: Arc::clone(&asked), device: 0, step });
        self.turn(1);
        let taken = answers.try_recv().map_err(|_| "O1: no answer to a reload")??;
        self.is_as_it_says(&asked)?;
        self.since = Since::now(&self.clients, self.now);
        let mut export_table = ExportTable::default();
        export_table.add(taken.exports, self.house.messages());
        let (heard, hears) = channel();
        let changed = Changed { config: asked, export_table, tls: None, heard };
        self.house.door.put(Word::Changed(changed)).expect("the negotiation is there");
        self.turn(1);
        hears.try_recv().map_err(|_| "O1: a negotiation does not hear of a reload")?;
        self.renewed = Some(renewed);
        Ok(())
    }

    /// R1 for a reload that was taken.
    fn is_as_it_says(&self, asked: &Config) -> Result<(), String> {
        let it = &self.house.device_loop;
        if it.rules != asked.rules {
            return Err(format!("R1: the rules are {:?}", it.rules));
        }
        for (number, tenant) in asked.tenants.iter().enumerate() {
            let node = it.tenants.find(&tenant.name).map(|place| it.tenants.at(place));
            let is_so = node.is_some_and(|node| {
                let mut cap = node.cap;
                cap.limit(tenant.caps);
                (node.weight, node.class) == (tenant.weight, tenant.class) && cap == node.cap
            });
            if !is_so {
                return Err(format!("R1: {number}: {tenant:?} is {node:?}"));
            }
        }
        Ok(())
    }
}

/// The tenant that users of another one belong to.
pub(super) fn now_of(plan: &Plan, tenant: usize) -> usize {
    let is_one_of_two = plan.tenants.len() > 1 && tenant < 2;
    if plan.is_swapped && is_one_of_two { 1 - tenant } else { tenant }
}

/// Its name.
pub(super) fn name_now(plan: &Plan, tenant: usize) -> String {
    name(now_of(plan, tenant))
}

impl super::house::House {
    /// Tells the loop of a reload.
    fn reload(&self, reload: Reload) {
        self.messages().put(Message::Reload(Box::new(reload))).expect("the loop is there");
    }
}
