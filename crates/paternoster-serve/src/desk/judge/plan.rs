// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plan: what a case consists of, drawn from its seed, and how it is made smaller.

use paternoster_sim::chance::Chance;

use super::medium::Faults;

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

pub(super) const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
pub(super) const DF: u16 = 4;
pub(super) const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;

const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;

/// One request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) at: u64,
    pub(super) length: u32,
    /// Its one error, if it has one.
    pub(super) due: u32,
}

/// One client.
#[derive(Debug, Clone)]
pub(super) struct ClientPlan {
    pub(super) structured: bool,
    pub(super) knows_blocks: bool,
    pub(super) depth: usize,
    pub(super) asks: Vec<Ask>,
}

/// A case.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) scheduler: &'static str,
    pub(super) depth: u32,
    pub(super) sectors_kb: u32,
    pub(super) block: usize,
    pub(super) size: usize,
    /// Bytes of the file before the volume and behind it.
    pub(super) around: usize,
    /// Zeroes may become holes, or none may: what the medium is asked for has to be that.
    pub(super) holes: bool,
    /// Bytes of the desk's memory that are left to it.
    pub(super) memory: usize,
    pub(super) connection_memory: u64,
    pub(super) alone: bool,
    pub(super) faults: Faults,
    pub(super) lazy: u64,
    pub(super) clients: Vec<ClientPlan>,
}

fn pick<T: Copy>(chance: &mut Chance, from: &[T]) -> T {
    from[usize::try_from(chance.below(from.len() as u64)).unwrap()]
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Plan {
        let chance = &mut Chance::new(seed, 0);
        let fails = !chance.once_in(3);
        let often = |chance: &mut Chance| if fails { pick(chance, &[0, 0, 10, 40]) } else { 0 };
        let block = pick(chance, &[512, 4096]);
        let size = pick(chance, &[64 << 10, 192 << 10]);
        let around = pick(chance, &[0, 3 * block]);
        // Where all meet in a few blocks, changes of one block are often under way together.
        let reach = if chance.once_in(3) { 3 * block } else { size };
        let holes = chance.once_in(2);
        let mix = Mix::draw(chance);
        let count = 1 + chance.below(5);
        let requests = pick(chance, &[4, 12, 40]);
        Plan {
            seed,
            scheduler: pick(chance, &["noop", "bfq", "mq-deadline", "cfq", "deadline", "kyber"]),
            depth: pick(chance, &[1, 2, 8, 32]),
            sectors_kb: pick(chance, &[4, 8, 16, 64]),
            block,
            size,
            around,
            holes,
            memory: pick(chance, &[64 << 10, 128 << 10, 1 << 20, 4 << 20]),
            connection_memory: pick(chance, &[16 << 10, 256 << 10, 16 << 20]),
            alone: chance.once_in(2),
            faults: Faults {
                reads: often(chance),
                writes: often(chance),
                write_backs: if fails { pick(chance, &[0, 2, 3]) } else { 0 },
            },
            lazy: pick(chance, &[2, 3, 8]),
            clients: (0..count)
                .map(|_| {
                    let places = (size as u64, reach as u64, block as u64);
                    client(chance, places, (&mix, holes), requests)
                })
                .collect(),
        }
    }

    /// Plans with something left out, the coarsest first.
    pub(super) fn smaller(&self) -> Vec<Plan> {
        let mut plans = Vec::new();
        for which in 0..self.clients.len() {
            let mut plan = self.clone();
            plan.clients.remove(which);
            plans.push(plan);
        }
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

    pub(super) fn requests(&self) -> usize {
        self.clients.iter().map(|client| client.asks.len()).sum()
    }
}

/// Of what a case consists. Each leaves half of it out, so that what needs two rare things together
/// is not among thousands of others.
struct Mix {
    kinds: Vec<u16>,
    /// One change in so many is to last.
    fua: u64,
    is_wrong: bool,
}

impl Mix {
    fn draw(chance: &mut Chance) -> Mix {
        let mut kinds = vec![WRITE; 12];
        let others = [(READ, 14), (ZEROES, 4), (TRIM, 2), (FLUSH, 4), (CACHE, 1), (STATUS, 2)];
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
            STATUS if !structured => READ,
            kind => kind,
        }
    }
}

fn client(
    chance: &mut Chance,
    (size, reach, block): (u64, u64, u64),
    (mix, holes): (&Mix, bool),
    requests: u64,
) -> ClientPlan {
    let structured = chance.once_in(2);
    let knows_blocks = chance.once_in(4);
    let most = pick(chance, &[2 * block, 16 << 10, size]).min(reach);
    let depth = usize::try_from(pick(chance, &[1, 4, 16, 64])).unwrap();
    let asks = (0..=chance.below(requests)).map(|_| {
        let unit = if knows_blocks || chance.once_in(2) { block } else { 1 };
        let mut ask = ask(chance, mix, (reach, unit, most), structured);
        if ask.kind == ZEROES && !holes {
            ask.flags |= NO_HOLE;
        }
        if ask.kind != LEAVE && mix.is_wrong && chance.once_in(6) {
            spoil(chance, &mut ask, size, structured, knows_blocks.then_some(block));
        }
        ask
    });
    let mut asks: Vec<Ask> = asks.collect();
    // Without one at the end little is ever promised.
    if chance.once_in(2) {
        asks.push(Ask { kind: FLUSH, flags: 0, at: 0, length: 0, due: 0 });
    }
    if chance.once_in(2) {
        asks.push(Ask { kind: DISC, flags: 0, at: 0, length: 0, due: 0 });
    }
    ClientPlan { structured, knows_blocks, depth, asks }
}

fn ask(
    chance: &mut Chance,
    mix: &Mix,
    (size, unit, most): (u64, u64, u64),
    structured: bool,
) -> Ask {
    let length = (chance.below(most) / unit * unit).max(unit);
    let at = chance.below(size - length + 1) / unit * unit;
    let kind = mix.kind(chance, structured);
    let (at, length) = if kind == FLUSH { (0, 0) } else { (at, u32::try_from(length).unwrap()) };
    let mut flags = 0;
    if matches!(kind, WRITE | ZEROES | TRIM) && chance.once_in(mix.fua) {
        flags |= FUA;
    }
    match kind {
        ZEROES => flags |= pick(chance, &[0, FAST_ZERO]),
        READ if structured && chance.once_in(6) => flags |= DF,
        STATUS => flags |= pick(chance, &[0, REQ_ONE]),
        _ => {}
    }
    Ask { kind, flags, at, length, due: 0 }
}

/// Makes a request wrong in one way.
fn spoil(chance: &mut Chance, ask: &mut Ask, size: u64, structured: bool, block: Option<u64>) {
    let writes = matches!(ask.kind, WRITE | ZEROES);
    match chance.below(6) {
        // One that nobody knows, or of other commands.
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
        2 if ask.kind != FLUSH => {
            ask.at = size;
            ask.due = if writes { ENOSPC } else { EINVAL };
        }
        3 if ask.kind == READ => (ask.length, ask.due) = ((32 << 20) + 4096, EOVERFLOW),
        3 if !structured && ask.kind != WRITE => {
            *ask = Ask { kind: STATUS, flags: 0, due: EINVAL, ..*ask }
        }
        4 if ask.kind == READ && !structured => (ask.flags, ask.due) = (DF, EINVAL),
        4 if block.is_some() && ask.kind != FLUSH => {
            (ask.length, ask.due) = (ask.length - 1, EINVAL);
        }
        _ if ask.kind != WRITE => *ask = Ask { kind: 77, flags: 0, due: EINVAL, ..*ask },
        _ => {}
    }
}
