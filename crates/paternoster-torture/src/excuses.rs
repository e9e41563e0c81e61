// SPDX-License-Identifier: MIT OR Apache-2.0
//! Excuses: behaviour of the kernel's schedulers that breaks a law, with the rule that explains it.
//!
//! An excuse names a scheduler, a law and the rule; a case that it fits is counted for it and is
//! not a fault. Without a rule or a recorded run of a kernel there is no excuse, and `paternoster`
//! has none.

use crate::laws::Fault;
use crate::load::{Class, Client, Engine, Kind, Load};

/// A rule that explains why a law is broken.
#[derive(Debug, Clone, Copy)]
pub struct Excuse {
    /// The beginning of the scheduler's name.
    pub scheduler: &'static str,
    /// The law.
    pub law: &'static str,
    /// The rule in words, with its source.
    pub rule: &'static str,
    /// Whether it applies to such a load under a scheduler with these attributes.
    applies: fn(&Load, &str, &Fault) -> bool,
}

/// A turn of bfq's, in seconds (BFQ-41).
const BFQ_TURN: f64 = 0.125;
/// A round of turns by weight is at most this many times as long: a 6.18 on an emulated disk of 32
/// tags (drawn load 412) made a client of weight 1 of 36 wait 6.14 s (p99); 36 turns are 4.5 s.
const BFQ_ROUNDS: f64 = 2.0;

fn has_classes(load: &Load, _: &str, _: &Fault) -> bool {
    load.clients.iter().any(|client| client.class != Class::BestEffort)
}

/// Readers that overtake writers.
fn has_both(load: &Load, _: &str, _: &Fault) -> bool {
    let has = |kind: fn(&Kind) -> bool| load.clients.iter().any(|client| kind(&client.kind));
    has(Kind::writes) && has(Kind::reads)
}

/// Queues are raised unless `low_latency` is 0.
fn raises(_: &Load, attributes: &str, _: &Fault) -> bool {
    !attributes.contains("low_latency=0")
}

/// A client waits for the turns of all others, each as long as its own, by weight.
fn waits_for_turns(load: &Load, _: &str, fault: &Fault) -> bool {
    let Fault::Waited { place, waited, .. } = *fault else { return false };
    let weights: u32 = load.clients.iter().map(|client| client.weight).sum();
    let turns = f64::from(weights) / f64::from(load.clients[place].weight);
    waited <= BFQ_ROUNDS * BFQ_TURN * turns
}

/// Two requests for all clients: one for each group of a pair.
fn has_two_requests(load: &Load, _: &str, _: &Fault) -> bool {
    load.device.description.facts.depth == 1
}

/// Several clients are sync (readers and direct writers): those preempt each other.
fn has_syncs(load: &Load, _: &str, _: &Fault) -> bool {
    let is_sync = |client: &&Client| client.kind.reads() || client.kind.engine != Engine::Buffered;
    load.clients.iter().filter(is_sync).count() > 1
}

/// All excuses.
pub const ALL: &[Excuse] = &[
    Excuse {
        scheduler: "mq-deadline",
        law: "waits",
        rule: "mq-deadline: a lower class waits for prio_aging_expire, 10 s",
        applies: has_classes,
    },
    Excuse {
        scheduler: "deadline",
        law: "waits",
        rule: "deadline: readers pass writers for write_expire, 5 s, and batches behind it",
        applies: has_both,
    },
    Excuse {
        scheduler: "bfq",
        law: "waits",
        rule: "BFQ-100: a raised queue is served before all others for seconds",
        applies: raises,
    },
    Excuse {
        scheduler: "bfq",
        law: "waits",
        rule: "BFQ-41: turns of 125 ms, by weight; kernel 6.18, drawn load 412: 6.14 s",
        applies: waits_for_turns,
    },
    Excuse {
        scheduler: "bfq",
        law: "shares",
        rule: "BFQ-36: two requests, each group has one however much it weighs",
        applies: has_two_requests,
    },
    Excuse {
        scheduler: "bfq",
        law: "equals",
        rule: "BFQ-100: of clients alike one is raised, another is not",
        applies: raises,
    },
    Excuse {
        scheduler: "bfq",
        law: "shares",
        rule: "BFQ-100: raised queues are not weighed as their groups are",
        applies: raises,
    },
    Excuse {
        scheduler: "cfq",
        law: "waits",
        rule: "CFQ-63, CFQ-68: what preempts goes to the front, and again; of ten recorded readers \
               six had 2 % of the rate of two",
        applies: has_syncs,
    },
    Excuse {
        scheduler: "cfq",
        law: "equals",
        rule: "CFQ-68: preemption among equals",
        applies: has_syncs,
    },
    Excuse {
        scheduler: "cfq",
        law: "shares",
        rule: "CFQ-68: preemption among readers, whatever they weigh",
        applies: has_syncs,
    },
];

/// The first excuse that fits.
#[must_use]
pub fn excuse(load: &Load, scheduler: &str, fault: &Fault) -> Option<&'static Excuse> {
    let (name, attributes) = scheduler.split_once(':').unwrap_or((scheduler, ""));
    ALL.iter().find(|excuse| {
        name.starts_with(excuse.scheduler)
            && excuse.law == fault.law()
            && (excuse.applies)(load, attributes, fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Device, Kind};

    fn load(weights: &[u32]) -> Load {
        let kind = Kind::greedy(Engine::Psync, "randread", 4, 1);
        let client = |&weight: &u32| Client::new(kind, Some(format!("g{weight}")), weight);
        let clients = weights.iter().map(client).collect();
        Load { seed: 1, device: Device::named("hdd-7200"), clients }
    }

    fn waited(waited: f64) -> Fault {
        Fault::Waited { place: 0, waited, bound: 1.0 }
    }

    /// Is a wait excused by turns only while they explain it? A client of weight 100 of 600 waits
    /// for 6 turns of 125 ms, 0.75 s; twice that is 1.5 s.
    #[test]
    fn turns_excuse_what_they_last() {
        let load = load(&[100, 500]);
        assert!(excuse(&load, "bfq:low_latency=0", &waited(1.4)).is_some());
        assert!(excuse(&load, "bfq:low_latency=0", &waited(1.6)).is_none());
        // Raised queues have another excuse.
        assert!(excuse(&load, "bfq", &waited(1.6)).is_some_and(|one| one.rule.contains("BFQ-100")));
    }

    /// Does a single reader preempt no client?
    #[test]
    fn one_sync_client_has_none_to_preempt() {
        assert!(excuse(&load(&[100, 500]), "cfq-4.19", &waited(9.0)).is_some());
        assert!(excuse(&load(&[100]), "cfq-4.19", &waited(9.0)).is_none());
    }

    /// Has our own elevator no excuse?
    #[test]
    fn paternoster_has_no_excuse() {
        assert!(excuse(&load(&[100, 500]), "paternoster", &waited(1.01)).is_none());
    }
}
