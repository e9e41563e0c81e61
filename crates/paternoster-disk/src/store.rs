// SPDX-License-Identifier: MIT OR Apache-2.0
//! Store: what the disk holds, as bytes: pages of the medium, and data that are only in the cache.
//!
//! The crash test's [`Contents`] decides what lands, what a flush covers and what a power cut
//! leaves; this file gives it a medium that stores bytes, only where something was written.
//!
//! ```text
//! Image     pages of 4 KiB, shared until they differ      what a power cut leaves, without numbers
//! Sparse    Image + the number of each sector's landing   the medium
//! Contents  Sparse + writes in the cache                  the disk
//! ```

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use paternoster_sim::chance::Chance;
use paternoster_sim::power::{Cached, Contents, Medium, Survival};

pub(crate) const SECTOR: usize = 512;
const PAGE: usize = 4096;
const SECTORS_A_PAGE: usize = PAGE / SECTOR;

type Page = [u8; PAGE];

/// The content of a disk: after a power cut, or to begin with. Bytes that were never written are 0.
#[derive(Debug, Clone, Default)]
pub struct Image {
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Image {
    /// A disk on which nothing was written.
    #[must_use]
    pub const fn new() -> Image {
        Image { pages: BTreeMap::new() }
    }

    /// Fills `buffer` with the bytes from `offset` on; any offset and length are allowed.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        for (page, at, from, len) in spans(offset, buffer.len()) {
            if let Some(bytes) = self.pages.get(&page) {
                buffer[from..from + len].copy_from_slice(&bytes[at..at + len]);
            }
        }
    }

    /// Writes `data` from `offset` on; any offset and length are allowed.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for (page, at, from, len) in spans(offset, data.len()) {
            let bytes = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(bytes)[at..at + len].copy_from_slice(&data[from..from + len]);
        }
    }

    /// Pieces of 4096 bytes in which something was written, with their offsets, in order.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().map(|(page, bytes)| (page * PAGE as u64, bytes.as_slice()))
    }

    /// A number that is the same for equal contents, on every machine.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        // A page of zeroes equals no page.
        for (offset, bytes) in self.pieces().filter(|(_, bytes)| bytes.iter().any(|b| *b != 0)) {
            digest.mix(offset);
            for word in bytes.chunks_exact(8) {
                digest.mix(word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
            }
        }
        digest.0
    }
}

impl PartialEq for Image {
    /// Whether every byte is the same.
    fn eq(&self, other: &Image) -> bool {
        let zeroes = [0; PAGE];
        let has = |image: &Image, (page, bytes): (&u64, &Arc<Page>)| {
            image.pages.get(page).map_or(&zeroes, |it| &**it) == &**bytes
        };
        self.pages.iter().all(|page| has(other, page))
            && other.pages.iter().all(|page| has(self, page))
    }
}

impl Eq for Image {}

/// The pages of a range of bytes: which page, where in it, where in the range, how many bytes.
fn spans(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut from = 0;
    core::iter::from_fn(move || {
        // Beyond the last byte that has a number there is nothing.
        let begins = offset.checked_add(from as u64)?;
        let at = usize::try_from(begins % PAGE as u64).unwrap_or(0);
        let piece = (PAGE - at).min(len - from);
        let span = (begins / PAGE as u64, at, from, piece);
        from += piece;
        (piece > 0).then_some(span)
    })
}

/// Multiplies and rotates numbers into 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digest(pub(crate) u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(crate) const fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
}

/// The data of a write, and whether a power cut may tear it.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) torn: bool,
}

/// The bytes of one sector of a write.
fn bytes_of(write: &Cached<Load>, sector: u64) -> &[u8] {
    let at = usize::try_from(sector - write.first()).unwrap_or(usize::MAX) * SECTOR;
    &write.load().bytes[at..at + SECTOR]
}

/// The medium: what is durable, and since which landing.
#[derive(Debug, Clone, Default)]
struct Sparse {
    image: Image,
    landed: BTreeMap<u64, [u64; SECTORS_A_PAGE]>,
}

fn place(sector: u64) -> (u64, usize) {
    let page = SECTORS_A_PAGE as u64;
    (sector / page, usize::try_from(sector % page).unwrap_or(0))
}

impl Medium for Sparse {
    type Load = Load;

    fn landed(&self, sector: u64) -> u64 {
        let (page, place) = place(sector);
        self.landed.get(&page).map_or(0, |landed| landed[place])
    }

    fn take(&mut self, sector: u64, write: &Cached<Load>) {
        let (page, place) = place(sector);
        self.landed.entry(page).or_default()[place] = write.landed();
        self.image.write(sector * SECTOR as u64, bytes_of(write, sector));
    }
}

/// The content of the disk.
#[derive(Debug)]
pub(crate) struct Store {
    contents: Contents<Sparse>,
    chance: Chance,
}

impl Store {
    pub(crate) fn new(image: Image, chance: Chance) -> Store {
        let medium = Sparse { image, landed: BTreeMap::new() };
        Store { contents: Contents::new(medium), chance }
    }

    /// The power is back, and this is on the medium.
    pub(crate) fn restart(&mut self, image: Image) {
        self.contents = Contents::new(Sparse { image, landed: BTreeMap::new() });
    }

    /// What a flush that begins now must cover.
    pub(crate) const fn mark(&self) -> u64 {
        self.contents.ended()
    }

    pub(crate) fn land(&mut self, write: Cached<Load>) {
        self.contents.land(write);
    }

    pub(crate) fn end(&mut self, serial: u64, durable: bool) {
        self.contents.end(serial, durable);
    }

    pub(crate) fn flush(&mut self, mark: u64) {
        self.contents.flush(mark, false, &mut self.chance);
    }

    /// A fair coin.
    pub(crate) fn coin(&mut self) -> bool {
        self.chance.once_in(2)
    }

    pub(crate) const fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    /// What a read of these sectors finds: the medium, overlaid with the cache.
    pub(crate) fn read(&self, first: u64, buffer: &mut [u8]) {
        let sectors = (buffer.len() / SECTOR) as u64;
        let medium = self.contents.medium();
        medium.image.read(first * SECTOR as u64, buffer);
        for write in self.contents.touching(first, first + sectors) {
            for sector in write.first().max(first)..write.end().min(first + sectors) {
                if medium.landed(sector) < write.landed() {
                    let at = usize::try_from(sector - first).unwrap_or(usize::MAX) * SECTOR;
                    buffer[at..at + SECTOR].copy_from_slice(bytes_of(write, sector));
                }
            }
        }
    }

    /// What a power cut leaves; `flying` are writes that have not landed.
    pub(crate) fn cut(&self, flying: impl Iterator<Item = Cached<Load>>, seed: u64) -> Image {
        let mut chance = Chance::new(seed, 1);
        let survival = Survival::draw(&mut chance);
        let mut image = self.contents.medium().image.clone();
        let tears = |load: &Load| load.torn;
        self.contents.cut(survival, flying, tears, &mut chance, |sector, write| {
            image.write(sector * SECTOR as u64, bytes_of(write, sector));
        });
        image
    }
}
