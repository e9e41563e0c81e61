// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renewal: a server reloads its configuration in the middle of a case, or refuses it.
//!
//! ```text
//! loop        look: is there room? ─▶ take: caps, weights, classes, rules     (in this order)
//! negotiation                                                     ─▶ changed
//! ```
//!
//! Claiming, opening, the two messages to the loop and the one to the negotiation are those of
//! production; the thread that reads files and waits for the answers is not here. Volumes go, come,
//! and change their name or their path; meanwhile a file is renamed, a path leads to another file,
//! or a call fails. A server that takes over reads the configuration that is in force; one that
//! starts again finds the first file.
//!
//! Laws: R1 after an accepted reload everything is as the new configuration says, and after a
//! refused one nothing has changed; O1 a reload is answered; T2 holds from one reload to the next;
//! N1 afterwards another server cannot have what is served, and can have what is not
//! (`succession`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;

use paternoster_sim::chance::Chance;
use rustix::io::Errno;

use super::engine::open_file;
use super::life::When;
use super::names::{NAMES, Names};
use super::plan::{Plan, VolumePlan, pick};
use super::tenants::{Since, are_kept_to_their_caps, name};
use super::{Stage, config};
use crate::config::{Caps, Config, Group, Volume};
use crate::device::NewFile;
use crate::device::claim::{ClaimError, Claims};
use crate::device_loop::DeviceLoop;
use crate::device_loop::Message;
use crate::device_loop::reload::{Reload, Seen, Step};
use crate::device_loop::volumes::Going;
use crate::export_table::ExportTable;
use crate::reload::{Changed, Word, differing, take};

/// More groups than any loop has room for.
const TOO_MANY: usize = 1_000;

/// The configuration that a reload brings.
#[derive(Debug, Clone)]
pub(super) struct Renewal {
    /// One for each tenant; a case may have fewer tenants.
    weights: Vec<u32>,
    caps: Vec<Caps>,
    /// The users of the first two tenants change places.
    swaps: bool,
    /// The server has no room for the whole new configuration.
    is_refused: bool,
    /// What becomes of each volume; a plan may have fewer.
    volumes: [Change; 3],
    /// What happens to the paths while it runs.
    race: Race,
    /// After how many calls on paths one fails, and its errno.
    fails: Option<(u64, i32)>,
    /// Another server tries to open a served file afterwards.
    has_rival: bool,
}

/// What the reload does to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Stays,
    Goes,
    Comes,
    Renamed,
    /// Its path is another link to the same file.
    Moves,
}

/// What happens to paths while a configuration is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Race {
    None,
    /// A file is renamed, and its old name becomes a link to the new one.
    Renames,
    /// A path leads to another file when it is opened: the reload must be refused.
    Replaces,
}

/// The claims and the opened files of a configuration.
type Prepared = (Claims, Vec<(Volume, NewFile)>);

/// In one case of four there are up to three reloads; in half of these volumes change, too.
pub(super) fn reloads(chance: &mut Chance, volumes: &mut Chance) -> Vec<When<Renewal>> {
    let changes = volumes.once_in(2);
    let count = if chance.once_in(4) { 1 + chance.below(3) } else { 0 };
    let mut round = 0;
    let each = (0..count).map(|_| {
        // A volume may come where one has just gone.
        let soon = changes && volumes.once_in(2);
        round = if soon { round + 1 + volumes.below(6) } else { 1 + chance.below(60) };
        let caps = |chance: &mut Chance| Caps {
            bytes: pick(chance, &[0, 0, 1 << 20]),
            requests: pick(chance, &[0, 0, 50]),
        };
        let what = Renewal {
            weights: (0..4).map(|_| pick(chance, &[1, 100, 1000])).collect(),
            caps: (0..4).map(|_| caps(chance)).collect(),
            swaps: chance.once_in(3),
            is_refused: chance.once_in(3) && !(changes && volumes.once_in(2)),
            volumes: if changes { [(); 3].map(|()| change(volumes)) } else { [Change::Stays; 3] },
            race: match changes {
                true => pick(volumes, &[Race::None, Race::None, Race::Renames, Race::Replaces]),
                false => Race::None,
            },
            fails: (changes && volumes.once_in(6))
                .then(|| (volumes.below(8), pick(volumes, &[libc::EMFILE, libc::EIO]))),
            has_rival: changes,
        };
        When { round, what }
    });
    each.collect()
}

/// Whether a client reads no answers: around a reload that changes volumes some clients do not, so
/// that they have answers left when the volumes go.
pub(super) fn stalls(plan: &Plan, round: u64, client: usize) -> bool {
    let near = |due: &&When<Renewal>| due.round <= round + 8 && round < due.round + 12;
    let mut near = plan.reloads.iter().filter(near).filter(|due| due.what.changes());
    near.any(|due| (due.round + client as u64).is_multiple_of(2))
}

fn change(chance: &mut Chance) -> Change {
    let all = [Change::Stays, Change::Goes, Change::Comes, Change::Renamed, Change::Moves];
    pick(chance, &all)
}

impl Renewal {
    /// Whether volumes may change.
    pub(super) const fn changes(&self) -> bool {
        self.has_rival
    }

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
        for (volume, change) in renewed.volumes.iter_mut().zip(self.volumes) {
            match change {
                Change::Stays => {}
                Change::Goes => volume.is_out = true,
                Change::Comes => volume.is_out = false,
                Change::Renamed => volume.renamed += 1,
                Change::Moves => volume.path = (volume.path + 1) % NAMES,
            }
        }
        // A device has at least one volume.
        if renewed.volumes.iter().all(|volume| volume.is_out) {
            renewed.volumes[0].is_out = false;
        }
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
    let (memory, times) =
        (it.shared.of_one(), [it.settings.stall_timeout, it.settings.drain_timeout]);
    let volumes: Vec<String> = it.volumes.lines().into_iter().map(|line| line.name).collect();
    format!(
        "{tenants:?} {:?} {} {memory} {times:?} {volumes:?}",
        it.settings.rules(),
        it.naps.is_capped()
    )
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
        let before = has(&self.house.device_loop);
        let mut asked = config(&renewed).0;
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
        let running = config(&now).0;
        let (prepared, may_fail) = self.prepare(renewal, &renewed, (&running, &asked));
        let looked = match prepared {
            Err(why) if may_fail => Err(why),
            Err(why) => return Err(format!("R1: a reload was refused: {why}")),
            Ok((claims, files)) => {
                let coming = files.iter().map(|(_, file)| file.clone()).collect();
                match self.look(&asked, coming)? {
                    Ok(seen) => Ok((claims, files, seen)),
                    Err(why) => {
                        // In production's order: a file is closed before its lock goes.
                        drop(files);
                        drop(claims);
                        Err(why)
                    }
                }
            }
        };
        let is_full = |why: &str| why.contains("cannot have");
        let (mut claims, files, seen) = match (looked, renewal.is_refused) {
            (Ok(_), true) => return Err("R1: there is room for too many groups".to_owned()),
            (Ok(looked), false) => looked,
            (Err(why), is_refused) => {
                if !is_refused && !may_fail && !is_full(&why) {
                    return Err(format!("R1: a reload was refused: {why}"));
                }
                let after = has(&self.house.device_loop);
                return (before == after).then_some(()).ok_or_else(|| {
                    format!("R1: a refused reload has changed {before} to {after}")
                });
            }
        };
        are_kept_to_their_caps(&now, &self.clients, &self.since, self.now)?;
        let mut take = take(&asked.devices[0], files, seen)?;
        let gone = differing(&asked, &running);
        let all: Vec<&Volume> = gone.iter().map(|(_, volume)| *volume).collect();
        let held = claims.keep(&asked.devices, &all);
        let going = all.iter().zip(held);
        take.going =
            going.map(|(volume, held)| Going { name: volume.name.clone(), held }).collect();
        let accepted = self.accepted_now();
        let (answer, answers) = channel();
        let step = Step::Take(Box::new(take), answer);
        self.house.reload(Reload { config: Arc::clone(&asked), device: 0, step });
        self.turn(1);
        let taken = answers.try_recv().map_err(|_| "O1: no answer to a reload")??;
        let names: Vec<&str> = taken.exports.iter().map(|facts| &*facts.name).collect();
        let wanted: Vec<&str> = asked.devices[0].volumes.iter().map(|it| &*it.name).collect();
        if names != wanted || !taken.later.is_empty() {
            return Err(format!("R1: {names:?} where {wanted:?} are; later {:?}", taken.later));
        }
        self.is_as_it_says(&asked)?;
        self.claims = Some(claims);
        self.oust(plan, &now, &renewed, &accepted);
        self.since = Since::now(&self.clients, self.now);
        let mut export_table = ExportTable::default();
        export_table.add(taken.exports, self.house.messages());
        let (heard, hears) = channel();
        let changed = Changed { config: asked, export_table, tls: None, heard };
        self.house.door.put(Word::Changed(changed)).expect("the negotiation is there");
        self.turn(1);
        hears.try_recv().map_err(|_| "O1: a negotiation does not hear of a reload")?;
        self.renewed = Some(renewed);
        if renewal.has_rival {
            self.is_any_kept_out(&self.current(plan))?;
        }
        Ok(())
    }

    /// Claims and opens the new volumes while paths change; the flag says whether that may fail.
    fn prepare(
        &self,
        renewal: &Renewal,
        renewed: &Plan,
        (running, asked): (&Config, &Config),
    ) -> (Result<Prepared, String>, bool) {
        let (names, device) = (&self.names, &asked.devices[0]);
        if let Some((after, errno)) = renewal.fails {
            names.fail(after, Errno::from_raw_os_error(errno));
        }
        let path = &device.volumes[0].path;
        let file = renewed.volumes.iter().find(|volume| !volume.is_out).expect("one is there").file;
        let put_back = names.keep(path);
        let is_replaced = renewal.race == Race::Replaces && renewed.files.len() > 1;
        let prepared = (|| {
            let told = |error: ClaimError| error.to_string();
            let has = self.claims.as_ref().expect("it serves");
            let claims = has.more(&asked.devices, false).map_err(told)?;
            match renewal.race {
                Race::Renames => {
                    let from = Names::path(file, 0);
                    names.rename(&from, &from.with_extension(self.round.to_string()));
                }
                Race::Replaces if is_replaced => {
                    names.repoint(path, (file + 1) % renewed.files.len());
                }
                _ => {}
            }
            let mut files = Vec::new();
            for (_, volume) in differing(running, asked) {
                let file = open_file(renewed, &self.house.own.system, device, volume);
                files.push((volume.clone(), NewFile(file.map_err(|error| error.to_string())?)));
            }
            claims.confirm().map_err(told)?;
            Ok((claims, files))
        })();
        if is_replaced {
            put_back();
        }
        let has_failed = renewal.fails.is_some() && names.forgive();
        (prepared, has_failed || is_replaced)
    }

    fn look(
        &mut self,
        asked: &Arc<Config>,
        files: Vec<NewFile>,
    ) -> Result<Result<Seen, String>, String> {
        let (answer, answers) = channel();
        let step = Step::Look { files, answer };
        self.house.reload(Reload { config: Arc::clone(asked), device: 0, step });
        self.turn(1);
        answers.try_recv().map_err(|_| "O1: no answer to a reload".to_owned())
    }

    /// The cookies of requests that are accepted and not answered.
    fn accepted_now(&self) -> BTreeSet<u64> {
        let heard = self.house.device_loop.requests.ios().iter().filter(|(_, io)| !io.silent);
        heard.map(|(_, io)| io.request.cookie).collect()
    }

    /// Tells the clients of volumes that go, or that change their name or path.
    fn oust(&mut self, plan: &Plan, now: &Plan, renewed: &Plan, accepted: &BTreeSet<u64>) {
        let by = self.now + self.house.device_loop.settings.drain_timeout;
        for (client, planned) in self.clients.iter_mut().zip(&plan.clients) {
            let [before, after] = [now, renewed].map(|it| &it.volumes[planned.volume]);
            let what = |it: &VolumePlan| (it.is_out, it.renamed, it.path);
            if !before.is_out && what(before) != what(after) {
                client.is_ousted(accepted, by, &mut self.book, self.beat);
            }
        }
    }

    /// R1 for a reload that was taken.
    fn is_as_it_says(&self, asked: &Config) -> Result<(), String> {
        let it = &self.house.device_loop;
        if it.settings.rules() != asked.rules {
            return Err(format!("R1: the rules are {:?}", it.settings.rules()));
        }
        // A name may be there twice for a while: which one goes?
        let there: Vec<_> = it.volumes.places().map(|place| (&*place.path, place.start)).collect();
        let said: Vec<_> =
            asked.devices[0].volumes.iter().map(|it| (&*it.path, it.start)).collect();
        if there != said {
            return Err(format!("R1: volumes are {there:?}, not {said:?}"));
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

/// The present name of a tenant.
pub(super) fn name_now(plan: &Plan, tenant: usize) -> String {
    name(now_of(plan, tenant))
}

impl super::house::House {
    /// Tells the loop of a reload.
    fn reload(&self, reload: Reload) {
        self.messages().put(Message::Reload(Box::new(reload))).expect("the loop is there");
    }
}
