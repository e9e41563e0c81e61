// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matcher against cases made by hand, and against a naive one that keeps every sector of every
//! I/O.

use proptest::prelude::*;

use super::*;
use crate::progress::{GAPS_MAX, ISSUED, MIXED, UNISSUED};

const fn of(sector: u64, sectors: u64) -> Extent {
    Extent::new(0, false, sector, sectors)
}

/// What a part says: whose, its first sector, how many, whether the first and the last.
type Told = (char, u64, u64, bool, bool);

fn told(part: &Part<'_, char>) -> Told {
    (*part.value, part.sector, part.sectors, part.first, part.last)
}

fn ended(all: &mut InFlight<char>, extent: Extent) -> Vec<Told> {
    let mut parts = Vec::new();
    all.complete(extent, |part| parts.push(told(&part)));
    parts
}

/// The essay's drawing.
fn drawn() -> InFlight<char> {
    let mut all = InFlight::default();
    for (name, sector, sectors) in [('A', 8, 8), ('B', 16, 8), ('C', 64, 32), ('D', 8, 8)] {
        assert_eq!(all.insert(of(sector, sectors), name).1, None);
    }
    all
}

/// Do the ends of the drawing belong to those that it shows?
#[test]
fn the_drawing() {
    let mut all = drawn();
    let merged = [('A', 8, 8, true, true), ('B', 16, 8, true, true)];
    assert_eq!(ended(&mut all, of(8, 16)), merged);
    assert_eq!(ended(&mut all, of(64, 16)), [('C', 64, 16, true, false)]);
    assert_eq!(all.len(), 2);
    assert_eq!(ended(&mut all, of(80, 16)), [('C', 80, 16, false, true)]);
    assert_eq!(ended(&mut all, of(8, 8)), [('D', 8, 8, true, true)]);
    assert!(all.is_empty());
    assert_eq!((ended(&mut all, of(8, 8)), all.lost()), (vec![], 0));
}

/// Is one of exactly these sectors preferred to an older one at the place, and not once a part of
/// it has ended?
#[test]
fn the_exact_one_is_meant() {
    let mut all = InFlight::default();
    all.insert(of(0, 32), 'L');
    all.insert(of(8, 8), 'S');
    all.insert(of(8, 8), 'T');
    assert_eq!(ended(&mut all, of(8, 4)), [('L', 8, 4, true, false)]);
    assert_eq!(ended(&mut all, of(8, 4)), [('S', 8, 4, true, false)]);
    assert_eq!(ended(&mut all, of(8, 8)), [('T', 8, 8, true, true)]);
    // Of the long one 12 to 32 is left, of the short one 12 to 16: the older one first.
    assert_eq!(ended(&mut all, of(12, 4)), [('L', 12, 4, false, false)]);
    assert_eq!(ended(&mut all, of(12, 4)), [('S', 12, 4, false, true)]);
}

/// Do devices and directions have nothing to do with each other, and is a flush found by its place
/// and not by sectors around it?
#[test]
fn strangers_do_not_end() {
    let mut all = InFlight::default();
    all.insert(of(0, 8), 'r');
    for other in [Extent::new(1, false, 0, 8), Extent::new(0, true, 0, 8)] {
        assert_eq!(ended(&mut all, other), []);
    }
    all.insert(of(0, 0), 'f');
    all.insert(of(0, 0), 'g');
    all.insert(of(4, 0), 'h');
    assert_eq!(ended(&mut all, of(0, 8)), [('r', 0, 8, true, true)]);
    assert_eq!(ended(&mut all, of(0, 0)), [('f', 0, 0, true, true)]);
    assert_eq!(ended(&mut all, of(0, 0)), [('g', 0, 0, true, true)]);
    assert_eq!(all.len(), 1);
}

/// Are parts issued, refused and issued again, each once?
#[test]
fn a_split_io_is_issued_in_parts() {
    fn issued(all: &mut InFlight<char>, extent: Extent) -> Vec<Told> {
        let mut parts = Vec::new();
        all.issue(extent, |part| parts.push(told(&part)));
        parts
    }
    let mut all = InFlight::default();
    all.insert(of(0, 16), 'a');
    assert_eq!(issued(&mut all, of(0, 8)), [('a', 0, 8, true, false)]);
    assert_eq!(issued(&mut all, of(0, 8)), []);
    assert_eq!(issued(&mut all, of(8, 8)), [('a', 8, 8, false, true)]);
    let mut refused = Vec::new();
    all.requeue(of(8, 8), |part| refused.push(told(&part)));
    assert_eq!(refused, [('a', 8, 8, true, false)]);
    assert_eq!(ended(&mut all, of(0, 8)), [('a', 0, 8, true, false)]);
    assert_eq!(issued(&mut all, of(0, 16)), [('a', 8, 8, false, true)]);
    assert_eq!(ended(&mut all, of(8, 8)), [('a', 8, 8, false, true)]);
}

/// Is an event about a whole I/O about the one with its sectors, or its first sector, and of those
/// about the oldest that may be meant?
#[test]
fn whole_ios_are_found() {
    let mut all = drawn();
    // Of A, which is in the stage 1, an event that wants another stage is not meant.
    fn find(all: &mut InFlight<char>, extent: Extent, not: u8) -> Option<char> {
        all.find(extent, |stage| stage != not, |io, _| *io)
    }
    let passed =
        all.find(of(8, 8), |stage| stage == 0, |io, stage| (*io, core::mem::replace(stage, 1)));
    assert_eq!(passed, Some(('A', 0)));
    assert_eq!(find(&mut all, of(8, 8), 9), Some('A'));
    assert_eq!(find(&mut all, of(8, 8), 1), Some('D'));
    assert_eq!(find(&mut all, of(8, 16), 9), Some('A'));
    assert_eq!(find(&mut all, of(66, 2), 0), Some('C'), "it may not, but there is no other");
    assert_eq!(find(&mut all, of(24, 8), 9), None);
    let mut at: Vec<char> = all.at(of(15, 50)).map(|(_, io)| *io).collect();
    at.sort_unstable();
    assert_eq!(at, ['A', 'B', 'C', 'D']);
}

/// Is the oldest dropped where there is no room, and counted?
#[test]
fn the_oldest_makes_room() {
    let mut all = drawn();
    all.set_limit(4);
    let (id, dropped) = all.insert(of(0, 8), 'E');
    assert_eq!((dropped, all.len(), all.lost()), (Some('A'), 4, 1));
    assert_eq!((all.remove(id), all.remove(id)), (Some('E'), None));
    all.clear();
    assert_eq!((all.len(), all.lost()), (0, 1));
    assert_eq!(ended(&mut all, of(0, 100)), []);
}

/// Do pieces stay within their memory, and count again once there is room?
///
/// Every other sector of each I/O ends. A piece makes a gap among the sectors that are left, and
/// one among those that were not issued: 2 [`GAPS_MAX`] of an I/O, which fill the room of all with
/// [`IN_FLIGHT_MAX`] / 2 / 1024 = 32 I/Os.
#[test]
fn gaps_are_bounded() {
    let mut all = InFlight::default();
    let (ios, long) = (IN_FLIGHT_MAX / 2 / GAPS_MAX, 4 * GAPS_MAX as u64);
    for (nth, count) in (0..=ios as u64).zip(1..) {
        all.insert(of(nth * long, long), 'a');
        for piece in 0..long / 2 - 1 {
            all.complete(of(nth * long + 2 * piece + 1, 1), |_| ());
        }
        let gaps = 2 * GAPS_MAX * count;
        assert_eq!(all.gaps, gaps.min(IN_FLIGHT_MAX));
    }
    // The last one has no gap; a gap cannot be made at its front.
    let last = ios as u64 * long;
    for (piece, left) in [((2, 2), long), ((0, 2), long - 2)] {
        all.complete(of(last + piece.0, piece.1), |_| ());
        assert_eq!(all.ios.get(&32).map(|io| io.state.left.count()), Some(left), "{piece:?}");
    }
    all.complete(of(0, last + long), |part| assert!(part.last));
    assert_eq!((all.len(), all.gaps), (0, 0));
}

/// Sectors that the naive matcher knows.
const PLACES: usize = 24;

/// An I/O of the naive matcher.
#[derive(Debug, Clone)]
struct Naive {
    id: u32,
    extent: Extent,
    unissued: [bool; PLACES],
    left: [bool; PLACES],
    /// Whether an I/O without sectors was issued.
    is_issued: bool,
    stage: u8,
}

/// The rule, sector by sector.
#[derive(Debug, Default)]
struct Model(Vec<Naive>);

impl Model {
    /// The one that an event is about which wants a stage, or the oldest; it is in the next then.
    fn find(&mut self, extent: Extent, wanted: u8) -> Option<(u32, u8)> {
        let is_exact = |io: &Naive| io.extent == extent;
        let has_first = |io: &Naive| {
            (io.extent.device, io.extent.write) == (extent.device, extent.write)
                && (io.extent.sector..io.extent.end).contains(&extent.sector)
        };
        let any_is_exact = self.0.iter().any(is_exact);
        let at = |io: &&mut Naive| if any_is_exact { is_exact(io) } else { has_first(io) };
        let mut there: Vec<&mut Naive> = self.0.iter_mut().filter(at).collect();
        let nth = there.iter().position(|io| io.stage == wanted).unwrap_or(0);
        let io = there.get_mut(nth)?;
        io.stage = (io.stage + 1) % 3;
        Some((io.id, io.stage))
    }

    /// In order of place: the I/O's id, first sector, number of sectors.
    fn event(&mut self, extent: Extent, by: Concerns) -> Vec<(u32, u64, u64)> {
        let alike =
            |io: &&mut Naive| (io.extent.device, io.extent.write) == (extent.device, extent.write);
        let within =
            |extent: &Extent, place: usize| (extent.sector..extent.end).contains(&(place as u64));
        let concerned = |io: &Naive, place: usize| match by {
            Concerns::Unissued => io.unissued[place],
            Concerns::Issued => io.left[place] && !io.unissued[place],
            Concerns::Left => io.left[place],
        };
        let exact = self.0.iter().position(|io| {
            let whole = |place| concerned(io, place) == within(&extent, place);
            let wants = extent.sector < extent.end
                || match by {
                    Concerns::Unissued => !io.is_issued,
                    Concerns::Issued => io.is_issued,
                    Concerns::Left => true,
                };
            io.extent == extent && wants && (0..PLACES).all(whole)
        });
        if let Some(nth) = exact {
            self.0[nth].is_issued = by == Concerns::Unissued;
        }
        let only = exact.map(|nth| self.0[nth].id);
        let mut told: Vec<(u32, u64, u64)> = Vec::new();
        if extent.sector == extent.end {
            told.extend(only.map(|id| (id, extent.sector, 0)));
        }
        for place in (0..PLACES).filter(|place| within(&extent, *place)) {
            let mut may = self.0.iter_mut().filter(alike);
            let own = may.find(|io| only.is_none_or(|id| io.id == id) && concerned(io, place));
            let Some(io) = own else { continue };
            match by {
                Concerns::Unissued => io.unissued[place] = false,
                Concerns::Issued => io.unissued[place] = true,
                Concerns::Left => (io.unissued[place], io.left[place]) = (false, false),
            }
            match told.iter_mut().find(|part| part.0 == io.id) {
                Some(part) => part.2 += 1,
                None => told.push((io.id, place as u64, 1)),
            }
        }
        if by == Concerns::Left {
            let over =
                |io: &Naive| told.iter().any(|part| part.0 == io.id) && io.left == [false; PLACES];
            self.0.retain(|io| !over(io));
        }
        told
    }
}

/// Number of entries of each table.
fn tables<T>(all: &InFlight<T>) -> [u32; 4] {
    [UNISSUED, ISSUED, MIXED, ALL].map(|table| all.places.len(table))
}

/// Number of entries that each table should have (I3).
fn listed<T>(all: &InFlight<T>) -> [u32; 4] {
    let mut entries = [0; 4];
    for io in all.ios.values() {
        io.state.listed(&io.extent, |(table, ..)| entries[usize::from(table)] += 1);
        entries[usize::from(ALL)] += 1;
    }
    entries
}

fn extents() -> impl Strategy<Value = Extent> {
    // Lengths of 4 and places of 4 often, so that some are exact; flushes sometimes.
    let sector = prop_oneof![(0..5u64).prop_map(|four| four * 4), 0..16u64];
    let sectors = prop_oneof![Just(4u64), Just(8), 0..9u64];
    let other = prop_oneof![9 => Just((0, false)), 1 => (0..2u32, any::<bool>())];
    (other, sector, sectors)
        .prop_map(|((device, write), sector, sectors)| Extent::new(device, write, sector, sectors))
}

/// Where a trace tells no end, does an event at a hot place cost as much as at another?
///
/// 100,000 times Q, G and D of 8 sectors at one place; the 65,536 last stay, issued. G is found
/// among two stages, those that passed and the new one: 2 steps. D is exact: 1 step.
///
/// Then Q 8+8, Q 16+8 and D 8+16, likewise. Each D finds nothing exact, and of the sectors that are
/// not issued two ranges: 2 steps. R of 16 sectors finds two ranges that are issued, C one in each
/// of those tables that have any: here 2 issued ones.
#[test]
fn a_hot_place_without_ends_costs_no_more() {
    let steps = |all: &InFlight<u64>| all.places.steps.replace(0);
    let mut all = InFlight::default();
    for nth in 0..100_000 {
        all.insert(of(8, 8), nth);
        all.find(of(8, 8), |stage| stage == 0, |io, stage| (*stage, _) = (1, assert_eq!(*io, nth)));
        assert!(steps(&all) <= 2);
        all.issue(of(8, 8), |part| assert_eq!(*part.value, nth));
        assert_eq!(steps(&all), 1);
    }
    assert_eq!(all.len(), IN_FLIGHT_MAX);
    let mut all = InFlight::default();
    for nth in 0..50_000 {
        all.insert(of(8, 8), nth);
        all.insert(of(16, 8), nth);
        let mut parts = 0;
        all.issue(of(8, 16), |part| parts += u64::from(*part.value == nth));
        assert_eq!((parts, steps(&all)), (2, 2));
    }
    all.requeue(of(8, 16), |part| assert!(part.last));
    assert_eq!(steps(&all), 2);
    all.complete(of(8, 16), |part| assert!(part.last));
    assert_eq!(steps(&all), 4, "two ranges not issued, the refused ones, and two issued");
}

/// Where only pieces are issued and nothing ends, is a step taken for each different rest alone?
///
/// Q 8+8 and D 8+4, 50,000 times: 12..16 of each is never issued. D 8+4 finds the new one's 8..16,
/// and not the old ones, which end beyond it; D 12+4 finds the oldest of them in one step.
#[test]
fn rests_alike_cost_one_step() {
    let mut all = InFlight::default();
    for nth in 0..50_000_u64 {
        all.insert(of(8, 8), nth);
        all.issue(of(8, 4), |part| assert_eq!((*part.value, part.sectors), (nth, 4)));
        assert!(all.places.steps.replace(0) <= 2);
    }
    all.issue(of(12, 4), |part| assert_eq!((*part.value, part.last), (0, true)));
    assert!(all.places.steps.replace(0) <= 2);
}

/// Are two flushes at one place issued once each, the refused one again, and ended each once?
#[test]
fn flushes_at_one_place_are_issued_each_once() {
    let mut all = InFlight::default();
    all.insert(of(0, 0), 'f');
    all.insert(of(0, 0), 'g');
    let mut issued = String::new();
    for _ in 0..3 {
        all.issue(of(0, 0), |part| issued.push(*part.value));
    }
    assert_eq!(issued, "fg");
    all.requeue(of(0, 0), |part| assert_eq!(*part.value, 'f'));
    all.issue(of(0, 0), |part| assert_eq!(*part.value, 'f'));
    assert_eq!(ended(&mut all, of(0, 0)), [('f', 0, 0, true, true)]);
    all.issue(of(0, 0), |_| panic!("g was issued"));
    assert_eq!(ended(&mut all, of(0, 0)), [('g', 0, 0, true, true)]);
    assert!(all.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2048, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Does each event concern the parts of the same I/Os in the same order as sector by sector,
    /// and does the same end, is the same dropped, and is the same found by its stage?
    #[test]
    fn equals_the_naive_one(
        events in prop::collection::vec((0..10u8, extents()), 1..60), limit in 1..9usize,
    ) {
        let (mut all, mut model) = (InFlight::default(), Model::default());
        all.set_limit(limit);
        let (mut next, mut lost) = (0, 0);
        for (what, extent) in events {
            let mut parts = Vec::new();
            let mut visit =
                |part: Part<'_, u32>| parts.push((*part.value, part.sector, part.sectors));
            let by = match what {
                0..=2 => {
                    let oldest = (model.0.len() >= limit).then(|| model.0.remove(0).id);
                    lost += u64::from(oldest.is_some());
                    let (id, dropped) = all.insert(extent, next);
                    prop_assert_eq!((id, dropped), (IoId(next.into()), oldest));
                    let own = core::array::from_fn(|place| {
                        (extent.sector..extent.end).contains(&(place as u64))
                    });
                    let (unissued, left) = (own, own);
                    let io = Naive { id: next, extent, unissued, left, is_issued: false, stage: 0 };
                    model.0.push(io);
                    next += 1;
                    continue;
                }
                8 | 9 => {
                    let wanted = what - 8;
                    let found = all.find(extent, |stage| stage == wanted, |io, stage| {
                        *stage = (*stage + 1) % 3;
                        (*io, *stage)
                    });
                    prop_assert_eq!(found, model.find(extent, wanted));
                    prop_assert_eq!(tables(&all), listed(&all));
                    continue;
                }
                3 | 4 => {
                    all.issue(extent, &mut visit);
                    Concerns::Unissued
                }
                5 => {
                    all.requeue(extent, &mut visit);
                    Concerns::Issued
                }
                _ => {
                    all.complete(extent, &mut visit);
                    Concerns::Left
                }
            };
            prop_assert_eq!(parts, model.event(extent, by));
            prop_assert_eq!((all.len(), all.lost()), (model.0.len(), lost));
            let gaps: usize = all.ios.values().map(|io| io.state.gaps()).sum();
            prop_assert_eq!(all.gaps, gaps);
            prop_assert_eq!(tables(&all), listed(&all));
        }
        prop_assert!(all.ios.values().map(|io| io.value).eq(model.0.iter().map(|io| io.id)));
    }
}
