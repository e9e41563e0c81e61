// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outstanding: the bios in flight, found by sector.
//!
//! Events name sectors, not bios. So every bio that was queued and not completed is in its device's
//! tree by its first sector, with the times of its steps:
//!
//! ```text
//! C 1000+32 ──▶ all bios within [1000, 1032)     [1000+8] [1008+8] [1016+8] [1024+8]
//! I 1016+8  ──▶ the bio that contains 1016
//! ```
//!
//! Bios of one device should not overlap. Where they do, btt's answers depend on its tree: its
//! search goes left only if it must, so one bio can hide another. The tree here has the same shape
//! and is searched in the same way. Several bios are reported in the order of the search: a node,
//! then its left subtree, then its right.
//!
//! Limit: [`OUTSTANDING_MAX`] bios of all devices. Beyond that the oldest is dropped and counted:
//! in a trace that lost its completions bios would pile up.
//!
//! Source: BTT-6, BTT-7.

use super::chunks::Chunks;
use super::times::NEVER;
use super::tree::{Forest, NONE, Side};

/// Bios that are kept at once.
pub const OUTSTANDING_MAX: u32 = 1 << 20;

/// A bio with the times of its steps in ns, [`NEVER`] if it did not take one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bio {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) process: u32,
    pub(super) device: u32,
    pub(super) queued: u64,
    pub(super) slept: u64,
    pub(super) got: u64,
    pub(super) inserted: u64,
    pub(super) merged: u64,
    pub(super) issued: u64,
    /// The request that went to the device: first sector, sectors.
    pub(super) request: (u64, u64),
    /// The next older and the next younger one.
    older: u32,
    younger: u32,
}

impl Bio {
    /// A bio that was queued.
    pub(super) const fn new(device: u32, process: u32, extent: (u64, u64), at: u64) -> Bio {
        Bio {
            start: extent.0,
            end: extent.1,
            process,
            device,
            queued: at,
            slept: NEVER,
            got: NEVER,
            inserted: NEVER,
            merged: NEVER,
            issued: NEVER,
            request: (0, 0),
            older: NONE,
            younger: NONE,
        }
    }
}

/// What became of the bio that had to make room.
#[derive(Debug, Clone, Copy)]
pub(super) enum Room {
    /// There was room.
    Enough,
    /// One of the same first sector was put out.
    Replaced(Bio),
    /// The oldest of all fell out.
    FellOut(Bio),
}

/// All bios in flight.
#[derive(Debug)]
pub(super) struct Outstanding {
    bios: Chunks<Bio>,
    forest: Forest,
    /// Root of the tree of each device.
    roots: Vec<u32>,
    free: Vec<u32>,
    oldest: u32,
    youngest: u32,
    limit: u32,
    path: Vec<u32>,
}

impl Outstanding {
    pub(super) const fn new(limit: u32) -> Outstanding {
        Outstanding {
            bios: Chunks::new(),
            forest: Forest::new(),
            roots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            youngest: NONE,
            limit,
            path: Vec::new(),
        }
    }

    /// Adds a device.
    pub(super) fn add_device(&mut self) {
        self.roots.push(NONE);
    }

    pub(super) fn get(&self, bio: u32) -> &Bio {
        &self.bios[bio]
    }

    pub(super) fn get_mut(&mut self, bio: u32) -> &mut Bio {
        &mut self.bios[bio]
    }

    /// Puts a bio in.
    pub(super) fn insert(&mut self, bio: Bio) -> Room {
        let (mut parent, mut at, mut side) = (NONE, self.roots[bio.device as usize], Side::Left);
        while at != NONE {
            let start = self.bios[at].start;
            if bio.start == start {
                return self.replace(at, bio);
            }
            parent = at;
            side = if bio.start < start { Side::Left } else { Side::Right };
            at = self.forest.child(at, side);
        }
        if self.free.is_empty() && self.bios.len() >= self.limit {
            let oldest = self.bios[self.oldest];
            self.remove(self.oldest);
            // The tree has turned: the place must be looked for again.
            return match self.insert(bio) {
                Room::Enough => Room::FellOut(oldest),
                other => other,
            };
        }
        let node = self.store(bio);
        self.forest.insert(&mut self.roots[bio.device as usize], parent, side, node);
        self.age(node);
        Room::Enough
    }

    fn store(&mut self, bio: Bio) -> u32 {
        match self.free.pop() {
            Some(node) => {
                self.bios[node] = bio;
                node
            }
            None => {
                self.forest.grow();
                self.bios.push(bio)
            }
        }
    }

    /// Puts a bio where another of the same start is.
    fn replace(&mut self, at: u32, bio: Bio) -> Room {
        let old = self.bios[at];
        self.forget_age(at);
        self.bios[at] = bio;
        self.age(at);
        Room::Replaced(old)
    }

    /// Makes a node the youngest.
    fn age(&mut self, node: u32) {
        (self.bios[node].older, self.bios[node].younger) = (self.youngest, NONE);
        match self.youngest {
            NONE => self.oldest = node,
            youngest => self.bios[youngest].younger = node,
        }
        self.youngest = node;
    }

    fn forget_age(&mut self, node: u32) {
        let (older, younger) = (self.bios[node].older, self.bios[node].younger);
        match older {
            NONE => self.oldest = younger,
            older => self.bios[older].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.bios[younger].older = older,
        }
    }

    /// Takes a bio out.
    pub(super) fn remove(&mut self, node: u32) {
        self.forget_age(node);
        let device = self.bios[node].device as usize;
        self.forest.remove(&mut self.roots[device], node);
        self.free.push(node);
    }

    /// The bio of a device that contains a sector, as btt looks for it.
    pub(super) fn find(&self, device: u32, sector: u64) -> Option<u32> {
        let mut at = self.roots[device as usize];
        while at != NONE {
            let bio = &self.bios[at];
            let side = if sector < bio.start {
                Side::Left
            } else if sector >= bio.end {
                Side::Right
            } else {
                return Some(at);
            };
            at = self.forest.child(at, side);
        }
        None
    }

    /// The bios of a device that lie within some sectors, as btt looks for them, in its order.
    pub(super) fn within(&mut self, device: u32, extent: (u64, u64), found: &mut Vec<u32>) {
        found.clear();
        self.path.clear();
        let mut at = self.roots[device as usize];
        loop {
            if at == NONE {
                match self.path.pop() {
                    Some(next) => at = next,
                    None => return,
                }
            }
            let bio = &self.bios[at];
            if extent.0 <= bio.start && bio.end <= extent.1 {
                found.push(at);
            }
            let right = self.forest.child(at, Side::Right);
            if bio.end < extent.1 && right != NONE {
                self.path.push(right);
            }
            let go_left = extent.0 < bio.start;
            at = if go_left { self.forest.child(at, Side::Left) } else { NONE };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(starts: &[u64], limit: u32) -> Outstanding {
        let mut bios = Outstanding::new(limit);
        bios.add_device();
        for (at, start) in (0..).zip(starts) {
            bios.insert(Bio::new(0, 0, (*start, start + 8), at));
        }
        bios
    }

    fn within(bios: &mut Outstanding, extent: (u64, u64)) -> Vec<u64> {
        let mut found = Vec::new();
        bios.within(0, extent, &mut found);
        found.into_iter().map(|at| bios.get(at).start).collect()
    }

    /// Are bios found by any of their sectors, and reported from the top of the tree?
    #[test]
    fn bios_are_found_by_sector() {
        let mut bios = with(&[1000, 1008, 1016, 1024], 100);
        assert_eq!(bios.find(0, 1015).map(|at| bios.get(at).start), Some(1008));
        assert_eq!(bios.find(0, 1032), None);
        // 1008 is on top, 1024 below 1016.
        assert_eq!(within(&mut bios, (1000, 1032)), [1008, 1000, 1016, 1024]);
        assert_eq!(within(&mut bios, (1004, 1024)), [1008, 1016]);
        let found = bios.find(0, 1008).unwrap();
        bios.remove(found);
        assert_eq!(within(&mut bios, (0, u64::MAX)), [1016, 1000, 1024]);
    }

    /// Does a bio put out the one with its start?
    #[test]
    fn one_start_one_bio() {
        let mut bios = with(&[100], 100);
        let room = bios.insert(Bio::new(0, 7, (100, 116), 5));
        assert!(matches!(room, Room::Replaced(Bio { end: 108, queued: 0, .. })));
        assert_eq!(bios.find(0, 112).map(|at| bios.get(at).process), Some(7));
    }

    /// Does the oldest fall out where the limit is?
    #[test]
    fn the_oldest_falls_out() {
        let mut bios = with(&[300, 100, 200], 3);
        let room = bios.insert(Bio::new(0, 0, (400, 408), 3));
        assert!(matches!(room, Room::FellOut(Bio { start: 300, .. })));
        let mut left = within(&mut bios, (0, u64::MAX));
        left.sort_unstable();
        assert_eq!(left, [100, 200, 400]);
    }
}
