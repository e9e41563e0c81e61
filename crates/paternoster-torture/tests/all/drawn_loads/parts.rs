// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts: how much of its part, by cost, the worst client of each drawn load misses.
//!
//! ```text
//! each scheduler, each load     the most that a client misses, and what all used of the device
//! printed at the end            the median and nine tenths of the loads, the mean use, and the
//!                               longest wait of a client, in the median and nine tenths
//! ```
//!
//! One load is checked every day; with `PATERNOSTER_LOADS=80` a quarter as many. A variable of the
//! table's own draws as many as it says, and compares with other schedulers. The first of many is
//! that of `PATERNOSTER_LOADS_SEED`.

use paternoster_sim::chance::Chance;
use paternoster_torture::bench::Bench;
use paternoster_torture::draw::any;
use paternoster_torture::load::{Client, Device, Kind, Load};
use paternoster_workload::entitlement::{Use, misses, tree};

use crate::number;

/// One of these, at random.
pub(super) fn of<T: Copy>(chance: &mut Chance, choice: &[T]) -> T {
    choice[usize::try_from(chance.below(choice.len() as u64)).unwrap_or(0)]
}

/// Disks of the catalog with a cache for writes.
const CACHED: [&str; 4] = ["hdd-7200", "hdd-7200-no-ncq", "hdd-7200-enterprise", "hdd-mhx2300bt"];

/// A disk with a cache for writes: of eight seeds four have one of the catalog, four a drawn one.
pub(super) fn cached_disk(seed: u64) -> Device {
    if let Some(name) = CACHED.get(usize::try_from(seed % 8).unwrap_or(0)) {
        return Device::named(name);
    }
    let mut drawn = (seed..).map(|seed| any(seed).device);
    let has_cache = |device: &Device| {
        device.name().starts_with("drawn-hdd") && device.description.facts.write_cache
    };
    drawn.find(has_cache).expect("some are drawn")
}

/// Clients of drawn kinds, each in a group of its own: 2, and fewer than `more` others. None if not
/// some of them are of a sort and some are not.
pub(super) fn some_of(
    chance: &mut Chance,
    more: u64,
    mut kind: impl FnMut(&mut Chance) -> Kind,
    is_of_sort: impl Fn(&Kind) -> bool,
) -> Option<Vec<Client>> {
    let weighted = chance.below(2) == 0;
    let count = 2 + chance.below(more);
    let client = |place| {
        let kind = kind(chance);
        let weight = if weighted { of(chance, &[100, 200, 400]) } else { 100 };
        Client::new(kind, Some(format!("g{place}")), weight)
    };
    let clients: Vec<Client> = (0..count).map(client).collect();
    let of_sort = clients.iter().filter(|client| is_of_sort(&client.kind)).count();
    (0 < of_sort && of_sort < clients.len()).then_some(clients)
}

/// Loads of one sort, and what may be missed in them.
pub(super) struct Table {
    /// The first is checked, the others are compared with it.
    pub(super) schedulers: &'static [&'static str],
    /// The variable that says how many loads to compare.
    pub(super) compares: &'static str,
    /// The seed of the load that is quick to simulate.
    pub(super) every_day: u64,
    /// The load of a seed, and how long it runs.
    pub(super) draw: fn(u64) -> Load,
    pub(super) seconds: fn(&Load) -> f64,
    /// What may be missed every day, and by half of many.
    pub(super) most: [f64; 2],
}

impl Table {
    /// Runs the loads, prints what is missed, and panics if it is too much.
    pub(super) fn check(&self) {
        let mut bench = Bench::default();
        let compared = number(self.compares);
        let many = compared.or_else(|| number("PATERNOSTER_LOADS").map(|loads| loads.div_ceil(4)));
        let first = number("PATERNOSTER_LOADS_SEED").unwrap_or(0);
        let seeds = match many {
            Some(many) => first..first + many,
            None => self.every_day..self.every_day + 1,
        };
        let schedulers = if compared.is_some() { self.schedulers } else { &self.schedulers[..1] };
        let mut all = vec![Vec::new(); schedulers.len()];
        for seed in seeds {
            let load = (self.draw)(seed);
            let mut line = String::new();
            for (all, scheduler) in all.iter_mut().zip(schedulers) {
                let found = judge(&mut bench, &load, scheduler, (self.seconds)(&load));
                let [missed, used, waited] = found;
                line += &format!(" {missed:.3} at {used:.2} ({waited:.1} s),");
                all.push(found);
            }
            println!("{line} {}", load.tell());
        }
        for (all, scheduler) in all.iter_mut().zip(schedulers) {
            let used = all.iter().map(|one| one[1]).sum::<f64>() / all.len() as f64;
            let mut at = |figure: usize, part: usize| {
                all.sort_by(|one, other| one[figure].total_cmp(&other[figure]));
                all[(all.len() - 1) * part / 100][figure]
            };
            let waits = format!("waits {:.1} s, {:.1}", at(2, 50), at(2, 90));
            println!(
                "{scheduler}: {:.3}, in 90 % {:.3}; used {used:.3}; {waits}",
                at(0, 50),
                at(0, 90)
            );
        }
        let [every_day, of_many] = self.most;
        let missed: Vec<f64> = all[0].iter().map(|one| one[0]).collect();
        if many.is_some() {
            let above = missed.iter().filter(|&&missed| missed > of_many).count();
            let margin = if first == 0 { 0 } else { margin_of(missed.len()) };
            let most = missed.len() / 2 + margin;
            assert!(above <= most, "{above} loads miss more than {of_many}, at most {most} may");
        } else {
            assert!(missed[0] <= every_day, "{:.3} are missed", missed[0]);
        }
    }
}

/// How many loads of other seeds than those that the bound was measured with may miss more, besides
/// a half: three standard deviations of a toss, sqrt(n) / 2 each. Of 30 that is 8; fewer than 9
/// loads prove nothing.
fn margin_of(loads: usize) -> usize {
    (3 * loads.isqrt()).div_ceil(2)
}

/// The most that a client misses of what it is entitled to, the device's total use, and the longest
/// wait in seconds.
fn judge(bench: &mut Bench, load: &Load, scheduler: &str, seconds: f64) -> [f64; 3] {
    let got = bench.run(load, scheduler, seconds).clients;
    let member = |client: &Client| {
        let alone = bench.alone(&load.device, client.kind);
        // One that syncs keeps the device busy, alone.
        let syncs = client.kind.fsync > 0;
        (alone, if syncs { alone } else { bench.saturated(&load.device, client.kind) })
    };
    let known: Vec<(f64, f64)> = load.clients.iter().map(member).collect();
    let uses = got.iter().zip(known);
    let uses: Vec<Use> =
        uses.map(|(got, (alone, saturated))| Use { rate: got.rate, alone, saturated }).collect();
    let groups = load.clients.iter();
    let groups: Vec<(Option<&str>, f64)> =
        groups.map(|client| (client.group.as_deref(), f64::from(client.weight))).collect();
    let missed = misses(&tree(&groups), &uses);
    let most = |figures: &mut dyn Iterator<Item = f64>| figures.fold(0.0, f64::max);
    let waited = most(&mut got.iter().map(|got| got.waited));
    [most(&mut missed.into_iter()), uses.iter().map(Use::cost).sum(), waited]
}
