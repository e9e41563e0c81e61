// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plan: what a case consists of, drawn from its seed, and how it is made smaller.

use std::ops::Range;

use paternoster_core::{Class, Nanos};
use paternoster_sim::chance::Chance;

use super::engine::Engine;
use super::life::{self, End, When};
use super::medium::{Faults, Flaw, Lacks};
use super::renewal::{self, Renewal};
use super::shake::ShakePlan;
use super::succession::{self, How};
use crate::config::{Caps, ServiceClass};
use crate::control::order::Order;

pub(super) const READ: u16 = 0;
pub(super) const WRITE: u16 = 1;
pub(super) const FLUSH: u16 = 3;
pub(super) const TRIM: u16 = 4;
pub(super) const CACHE: u16 = 5;
pub(super) const ZEROES: u16 = 6;
pub(super) const STATUS: u16 = 7;
/// The client wants to go, and hears the answers to all before.
pub(super) const DISC: u16 = 2;
/// Not of the protocol: the client hangs up.
pub(super) const LEAVE: u16 = 100;
/// Nor this: a request with an extended header, which was not negotiated.
pub(super) const EXTENDED: u16 = 101;

pub(super) const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
pub(super) const DF: u16 = 4;
pub(super) const REQ_ONE: u16 = 8;
pub(super) const FAST_ZERO: u16 = 16;

const EPERM: u32 = 1;
const EINVAL: u32 = 22;
pub(super) const ENOTSUP: u32 = 95;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;

/// A planned request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) at: u64,
    pub(super) length: u32,
    /// The request's one mistake, if it has one.
    pub(super) due: u32,
}

/// A planned client.
#[derive(Debug, Clone)]
pub(super) struct ClientPlan {
    pub(super) volume: usize,
    pub(super) tenant: usize,
    pub(super) structured: bool,
    pub(super) knows_blocks: bool,
    pub(super) depth: usize,
    pub(super) shake: ShakePlan,
    /// It begins with a flush when it comes to another server.
    pub(super) flushes_first: bool,
    pub(super) asks: Vec<Ask>,
}

/// A planned volume: a range of the medium's bytes.
#[derive(Debug, Clone)]
pub(super) struct VolumePlan {
    /// Number of its file.
    pub(super) file: usize,
    pub(super) start: usize,
    pub(super) size: usize,
    /// What its configured length has beyond whole blocks: less than one, and in no volume.
    pub(super) odd: usize,
    pub(super) readonly: bool,
    /// The range in which its clients' requests meet.
    pub(super) reach: Range<u64>,
    /// It is not in the configuration now.
    pub(super) is_out: bool,
    /// How often its name has changed, and which name of its file it has.
    pub(super) renamed: usize,
    pub(super) path: usize,
}

/// A planned tenant.
#[derive(Debug, Clone)]
pub(super) struct TenantPlan {
    /// It is not in the configuration.
    pub(super) is_stranger: bool,
    /// Which of the groups it is in, if not the root.
    pub(super) group: Option<usize>,
    pub(super) weight: u32,
    pub(super) class: ServiceClass,
    pub(super) floor: Option<u16>,
    pub(super) caps: Caps,
}

impl TenantPlan {
    /// A tenant that is not configured, as most are.
    fn plain() -> TenantPlan {
        TenantPlan {
            is_stranger: true,
            group: None,
            weight: 100,
            class: ServiceClass::Kernel(Class::BestEffort),
            floor: None,
            caps: Caps::default(),
        }
    }
}

/// A case.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Which of the lives that the case may have: 0 as drawn, others where it is made smaller.
    pub(super) life: u64,
    pub(super) scheduler: &'static str,
    pub(super) depth: u32,
    pub(super) sectors_kb: u32,
    pub(super) block: usize,
    /// Bytes of the medium.
    pub(super) bytes: usize,
    /// Where in it each file begins; one ends where the next begins.
    pub(super) files: Vec<usize>,
    pub(super) volumes: Vec<VolumePlan>,
    /// Weights of the groups; each is within the one before.
    pub(super) groups: Vec<u32>,
    pub(super) tenants: Vec<TenantPlan>,
    pub(super) delay_bound: Option<Nanos>,
    /// Whether zeroes may become holes: the calls to the medium have to respect that.
    pub(super) holes: bool,
    /// Bytes of the loop's memory that are left to it.
    pub(super) memory: usize,
    pub(super) connection_memory: u64,
    pub(super) alone: bool,
    pub(super) engine: Engine,
    /// Past the page cache: whole blocks are moved.
    pub(super) direct: bool,
    /// A ring takes the loop's memory.
    pub(super) registers: bool,
    pub(super) lacks: Lacks,
    /// The disk's lie, if any.
    pub(super) flaw: Option<Flaw>,
    pub(super) faults: Faults,
    pub(super) lazy: u64,
    pub(super) clients: Vec<ClientPlan>,
    /// Ends of the server, and orders to it.
    pub(super) ends: Vec<When<End>>,
    pub(super) orders: Vec<When<Order>>,
    pub(super) handovers: Vec<When<How>>,
    pub(super) reloads: Vec<When<Renewal>>,
    /// Nanoseconds that a volume, or a server, has for what it has accepted.
    pub(super) drain_timeout: u64,
    /// A reload has let the users of the first two tenants change places.
    pub(super) is_swapped: bool,
}

fn index(chance: &mut Chance, count: usize) -> usize {
    usize::try_from(chance.below(count as u64)).unwrap()
}

pub(super) fn pick<T: Copy>(chance: &mut Chance, from: &[T]) -> T {
    from[index(chance, from.len())]
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Plan {
        Plan::of(seed, None)
    }

    /// A case of this many clients, each with a few requests.
    pub(super) fn crowd(seed: u64, clients: u64) -> Plan {
        Plan::of(seed, Some(clients))
    }

    fn of(seed: u64, clients: Option<u64>) -> Plan {
        let chance = &mut Chance::new(seed, 0);
        let fails = !chance.once_in(3);
        // Few kinds at a time, so that a fault that needs one of them is not hidden by the others.
        let often =
            |chance: &mut Chance| if fails { pick(chance, &[0, 0, 0, 0, 10, 40]) } else { 0 };
        let block = pick(chance, &[512, 4096]);
        let (files, volumes, bytes) = lay_out(chance, block);
        let groups = pick(chance, &[&[][..], &[], &[300], &[50, 1000]]).to_vec();
        // Tenants that differ would keep apart in time what has to meet.
        let tenants: Vec<_> = match chance.once_in(2) {
            true => vec![TenantPlan::plain()],
            false => (0..=chance.below(3)).map(|_| tenant(chance, groups.len())).collect(),
        };
        let holes = chance.once_in(2);
        let mix = Mix::draw(chance);
        let crowd = if chance.once_in(80) { 40 } else { 0 };
        let count = 1 + chance.below(5) + crowd;
        let ends = life::ends(chance);
        let requests = pick(chance, &[4, 12, 40]);
        let (count, requests) = clients.map_or((count, requests), |clients| (clients, 4));
        let reloads = renewal::reloads(&mut Chance::new(seed, 4), &mut Chance::new(seed, 5));
        Plan {
            seed,
            life: 0,
            scheduler: pick(chance, &["noop", "bfq", "mq-deadline", "cfq", "deadline", "kyber"]),
            depth: pick(chance, &[1, 2, 8, 32]),
            sectors_kb: pick(chance, &[4, 8, 16, 64]),
            block,
            bytes,
            files,
            groups,
            delay_bound: pick(chance, &[None, None, Some(Nanos::from_millis(1))]),
            holes,
            memory: pick(chance, &[64 << 10, 128 << 10, 1 << 20, 4 << 20]),
            connection_memory: pick(chance, &[16 << 10, 256 << 10, 16 << 20]),
            alone: chance.once_in(2),
            engine: pick(chance, &[Engine::Ring, Engine::Ring, Engine::Threads, Engine::Inline]),
            direct: chance.once_in(2),
            registers: chance.once_in(2),
            lacks: Lacks {
                punch: chance.once_in(6),
                zero_range: chance.once_in(4),
                dsync: chance.once_in(6),
            },
            flaw: super::FLAW.get(),
            faults: Faults {
                reads: often(chance),
                writes: often(chance),
                syncs: often(chance),
                clears: often(chance),
                seeks: often(chance),
                shorts: pick(chance, &[0, 0, 3, 20]),
                hangs: pick(chance, &[0, 0, 0, 0, 30]),
                refusals: pick(chance, &[0, 0, 5]),
                // The next server does not know which errors the one before was given.
                write_backs: match fails && ends.is_empty() {
                    true => pick(chance, &[0, 2, 2, 3]),
                    false => 0,
                },
            },
            lazy: pick(chance, &[2, 3, 8]),
            clients: (0..count)
                .map(|_| {
                    let volume = index(chance, volumes.len());
                    let tenant = index(chance, tenants.len());
                    let places = (volume, &volumes[volume], block as u64);
                    client(chance, places, tenant, (&mix, holes), requests)
                })
                .collect(),
            orders: life::orders(chance),
            handovers: succession::handovers(&mut Chance::new(seed, 3)),
            reloads,
            drain_timeout: pick(&mut Chance::new(seed, 6), &[10_000_000_000, 5_000_000]),
            is_swapped: false,
            ends,
            tenants,
            volumes,
        }
    }

    /// What happens during it, besides the requests.
    pub(super) fn chance(&self, stream: u64) -> Chance {
        Chance::new(self.seed.wrapping_add(self.life << 48), stream)
    }

    /// Plans with something left out, the coarsest first.
    pub(super) fn smaller(&self) -> Vec<Plan> {
        let mut plans = Vec::new();
        for which in 0..self.clients.len() {
            let mut plan = self.clone();
            plan.clients.remove(which);
            plans.push(plan);
        }
        if let Some(plain) = self.without_tenants() {
            plans.push(plain);
        }
        plans.extend(self.without_idle_volumes());
        plans.extend(life::smaller(self));
        plans.extend(self.faults.fewer().map(|faults| Plan { faults, ..self.clone() }));
        for which in 0..self.clients.len() {
            let count = self.clients[which].asks.len();
            let mut run = count / 2;
            while run > 0 {
                for from in (0..count).step_by(run) {
                    let mut plan = self.clone();
                    plan.clients[which].asks.drain(from..(from + run).min(count));
                    plans.push(plan);
                }
                run /= 2;
            }
        }
        plans
    }

    /// The same with one tenant, which nothing limits, unless it is that.
    fn without_tenants(&self) -> Option<Plan> {
        let one = TenantPlan::plain();
        let has_more = self.tenants.len() > 1 || !self.groups.is_empty();
        if !has_more && self.tenants[0].is_stranger && self.delay_bound.is_none() {
            return None;
        }
        let mut plan = self.clone();
        (plan.tenants, plan.groups, plan.delay_bound) = (vec![one], Vec::new(), None);
        plan.clients.iter_mut().for_each(|client| client.tenant = 0);
        Some(plan)
    }

    /// The same without a volume that no client uses; its bytes stay, in no volume.
    fn without_idle_volumes(&self) -> impl Iterator<Item = Plan> {
        let used = |volume| self.clients.iter().any(|client| client.volume == volume);
        let idle = (0..self.volumes.len()).filter(move |&volume| !used(volume));
        idle.filter(|_| self.volumes.len() > 1).map(|volume| {
            let mut plan = self.clone();
            plan.volumes.remove(volume);
            for client in &mut plan.clients {
                client.volume -= usize::from(client.volume > volume);
            }
            plan
        })
    }

    pub(super) fn requests(&self) -> usize {
        self.clients.iter().map(|client| client.asks.len()).sum()
    }
}

/// Files, the volumes in them, and the bytes of it all.
///
/// ```text
/// around │ volume 0 ││ volume 1 │odd│   │ around │ around │ volume 2 (of another file) │ around
/// ```
///
/// A volume directly follows the one before; or follows a block of which that one's configured
/// length has a piece; or is in a file of its own; or, both being shared, overlaps it.
fn lay_out(chance: &mut Chance, block: usize) -> (Vec<usize>, Vec<VolumePlan>, usize) {
    // If all requests fall into a few blocks, changes of one block are often under way together; if
    // these lie at a border of two volumes, so are changes on both sides of it.
    let is_narrow = chance.once_in(3);
    let around = pick(chance, &[0, 3 * block]);
    let (mut files, mut volumes, mut end) = (vec![0], Vec::<VolumePlan>::new(), around);
    for number in 0..pick(chance, &[1, 1, 2, 3]) {
        let sizes = if number == 0 { [64 << 10, 192 << 10] } else { [block, 32 << 10] };
        let size = pick(chance, &sizes) + index(chance, 4) * block;
        if let Some(below) = volumes.last().filter(|_| chance.once_in(5)).cloned() {
            volumes.push(upon(chance, below, block));
            continue;
        }
        if number > 0 && chance.once_in(4) {
            files.push(end + around);
            end += 2 * around;
        }
        let odd = if chance.once_in(3) { 1 + index(chance, block - 1) } else { 0 };
        let (file, start) = (files.len() - 1, end);
        end += (size + odd).next_multiple_of(block);
        let near = size.min(3 * block);
        let reach = match is_narrow {
            false => 0..size,
            true if number == 0 || chance.once_in(3) => size - near..size,
            true => 0..near,
        };
        let reach = reach.start as u64..reach.end as u64;
        let readonly = number > 0 && chance.once_in(8);
        let (is_out, renamed, path) = (false, 0, 0);
        volumes.push(VolumePlan { file, start, size, odd, readonly, reach, is_out, renamed, path });
    }
    (files, volumes, end + around)
}

/// A volume upon another, from one of its blocks on: their clients meet in the same bytes.
fn upon(chance: &mut Chance, below: VolumePlan, block: usize) -> VolumePlan {
    let Range { start, end } = below.reach;
    let blocks = if start > 0 { start / block as u64 + 1 } else { end / block as u64 };
    let skipped = chance.below(blocks) * block as u64;
    let bytes = usize::try_from(skipped).unwrap();
    VolumePlan {
        start: below.start + bytes,
        size: below.size - bytes,
        reach: start.max(skipped) - skipped..end - skipped,
        ..below
    }
}

fn tenant(chance: &mut Chance, groups: usize) -> TenantPlan {
    let kernel = ServiceClass::Kernel;
    let plain = kernel(Class::BestEffort);
    let background = ServiceClass::Background { minimum: 50 };
    let others = [plain, plain, kernel(Class::Realtime), kernel(Class::Idle), background];
    TenantPlan {
        is_stranger: chance.once_in(4),
        group: (groups > 0 && chance.once_in(2)).then(|| index(chance, groups)),
        weight: pick(chance, &[1, 100, 100, 1000]),
        class: pick(chance, &others),
        floor: pick(chance, &[None, None, Some(200)]),
        caps: Caps {
            bytes: pick(chance, &[0, 0, 0, 4 << 20]),
            requests: pick(chance, &[0, 0, 0, 200]),
        },
    }
}

/// Of what a case consists. Each leaves half of it out, so that what needs two rare things together
/// is not among thousands of others.
struct Mix {
    kinds: Vec<u16>,
    /// One change in this many is to last.
    fua: u64,
    is_wrong: bool,
}

impl Mix {
    fn draw(chance: &mut Chance) -> Mix {
        let mut kinds = vec![WRITE; 12];
        // A flush after a flush shows what the first one was believed to cover.
        let flushes = pick(chance, &[4, 4, 4, 24]);
        let others =
            [(READ, 14), (ZEROES, 4), (TRIM, 2), (FLUSH, flushes), (CACHE, 1), (STATUS, 2)];
        for (kind, often) in others {
            if chance.once_in(2) {
                kinds.extend((0..often).map(|_| kind));
            }
        }
        Mix { kinds, fua: pick(chance, &[2, 2, 1000]), is_wrong: chance.once_in(2) }
    }

    fn kind(&self, chance: &mut Chance, structured: bool) -> u16 {
        match pick(chance, &self.kinds) {
            _ if chance.once_in(320) => LEAVE,
            _ if chance.once_in(320) => EXTENDED,
            STATUS if !structured => READ,
            kind => kind,
        }
    }
}

fn client(
    chance: &mut Chance,
    (volume, place, block): (usize, &VolumePlan, u64),
    tenant: usize,
    (mix, holes): (&Mix, bool),
    requests: u64,
) -> ClientPlan {
    let (size, reach) = (place.size as u64, &place.reach);
    let structured = chance.once_in(2);
    let knows_blocks = chance.once_in(4);
    let most = pick(chance, &[2 * block, 16 << 10, size]).min(reach.end - reach.start);
    let depth = usize::try_from(pick(chance, &[1, 4, 16, 64])).unwrap();
    let asks = (0..=chance.below(requests)).map(|_| {
        let unit = if knows_blocks || chance.once_in(2) { block } else { 1 };
        let mut ask = ask(chance, mix, (reach, unit, most), structured);
        if ask.kind == ZEROES && !holes {
            ask.flags |= NO_HOLE;
        }
        if !matches!(ask.kind, LEAVE | EXTENDED) && mix.is_wrong && chance.once_in(6) {
            spoil(chance, &mut ask, (size, block), structured, knows_blocks);
        }
        if place.readonly && matches!(ask.kind, WRITE | ZEROES | TRIM) {
            ask.due = EPERM;
        }
        let is_ragged = [ask.at, ask.length.into()].iter().any(|it| !it.is_multiple_of(block));
        if ask.due == 0 && ask.kind == ZEROES && ask.flags & FAST_ZERO != 0 && is_ragged {
            ask.due = ENOTSUP;
        }
        ask
    });
    let mut asks: Vec<Ask> = asks.collect();
    // Without one at the end little is ever promised.
    if chance.once_in(2) {
        asks.push(Ask { kind: FLUSH, flags: 0, at: 0, length: 0, due: 0 });
    }
    match chance.below(12) {
        0 => asks.push(Ask { kind: EXTENDED, flags: 0, at: reach.start, length: 512, due: 0 }),
        1..6 => asks.push(Ask { kind: DISC, flags: 0, at: 0, length: 0, due: 0 }),
        _ => {}
    }
    let shake = ShakePlan::draw(chance, knows_blocks);
    let flushes_first = chance.once_in(2);
    ClientPlan { volume, tenant, structured, knows_blocks, depth, shake, flushes_first, asks }
}

fn ask(
    chance: &mut Chance,
    mix: &Mix,
    (reach, unit, most): (&Range<u64>, u64, u64),
    structured: bool,
) -> Ask {
    let length = (chance.below(most) / unit * unit).max(unit);
    let at = reach.start + chance.below(reach.end - reach.start - length + 1) / unit * unit;
    let kind = mix.kind(chance, structured);
    let (at, length) = if kind == FLUSH { (0, 0) } else { (at, u32::try_from(length).unwrap()) };
    let mut flags = 0;
    if matches!(kind, WRITE | ZEROES | TRIM) && chance.once_in(mix.fua) {
        flags |= FUA;
    }
    match kind {
        ZEROES => flags |= pick(chance, &[0, 0, 0, FAST_ZERO]),
        READ if structured && chance.once_in(6) => flags |= DF,
        STATUS => flags |= pick(chance, &[0, REQ_ONE]),
        _ => {}
    }
    Ask { kind, flags, at, length, due: 0 }
}

/// Makes a request wrong in one way.
fn spoil(
    chance: &mut Chance,
    ask: &mut Ask,
    (size, block): (u64, u64),
    structured: bool,
    knows_blocks: bool,
) {
    let writes = matches!(ask.kind, WRITE | ZEROES);
    match chance.below(6) {
        // An unknown one, or one of other commands.
        0 => {
            let own = match ask.kind {
                READ => DF,
                ZEROES => NO_HOLE | FAST_ZERO,
                STATUS => REQ_ONE,
                _ => 0,
            };
            let strange = pick(chance, &[0x4000, NO_HOLE, DF, REQ_ONE, FAST_ZERO]);
            let strange = if strange & own == 0 { strange } else { 0x4000 };
            (ask.flags, ask.due) = (ask.flags | strange, EINVAL);
        }
        // Its end is beyond all numbers, or is 0.
        5 if ask.kind != FLUSH => {
            ask.at = 0u64.wrapping_sub(pick(chance, &[512, 4096]));
            ask.length = ask.length.max(4096).next_multiple_of(4096);
            ask.due = if writes { ENOSPC } else { EINVAL };
        }
        1 if ask.kind == FLUSH => (ask.at, ask.due) = (512, EINVAL),
        1 => (ask.length, ask.due) = (0, EINVAL),
        // It begins or ends beyond the volume's end, where another volume may be: often by one
        // byte.
        2 if ask.kind != FLUSH => {
            let within = pick(chance, &[0, block, block]);
            let beyond = pick(chance, &[1, block, u64::from(ask.length)]);
            ask.at = size - within;
            ask.length = u32::try_from(within + beyond).unwrap();
            ask.due = if writes { ENOSPC } else { EINVAL };
        }
        3 if ask.kind == READ => (ask.length, ask.due) = ((32 << 20) + 4096, EOVERFLOW),
        3 if !structured && ask.kind != WRITE => {
            *ask = Ask { kind: STATUS, flags: 0, due: EINVAL, ..*ask }
        }
        4 if ask.kind == READ && !structured => (ask.flags, ask.due) = (DF, EINVAL),
        4 if knows_blocks && ask.kind != FLUSH => {
            (ask.length, ask.due) = (ask.length - 1, EINVAL);
        }
        _ if ask.kind != WRITE => *ask = Ask { kind: 77, flags: 0, due: EINVAL, ..*ask },
        _ => {}
    }
}
