// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disk: the interface. `way.rs` carries operations through, `store.rs` keeps what they write.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use paternoster_core::{Flags, Nanos, Tag};
use paternoster_sim::Rule;
use paternoster_sim::chance::Chance;
use paternoster_sim::faults::{Effect, Faulty, Watch};

use crate::device::{Device, EpisodeError};
use crate::operation::{Done, Id, LEN_MAX, Next, Op, Refusal};
use crate::store::{Digest, Image, Load, SECTOR, Store};
use crate::way::Operation;

/// The store's place in the random numbers; the rules have the small ones.
const STORE: u64 = 1 << 32;
/// A misdirected write is at most this many of its own lengths away.
const MISDIRECTED_WITHIN: u64 = 16;

/// A disk in virtual time, without I/O, clock or threads: the caller says what time it is, and asks
/// what has ended. See the crate's documentation for an example.
///
/// Calls come in order of time: a `now` before the latest one counts as the latest, except that a
/// submit with one is refused. Operations are handed to the device in the order of their submits,
/// as many at a time as it takes; they may end in another order. The same seed and calls give the
/// same answers, on every machine.
#[derive(Debug)]
pub struct Disk {
    pub(crate) device: Device,
    pub(crate) model: Faulty,
    pub(crate) store: Option<Store>,
    /// Rules about written data.
    watches: Vec<Watch>,
    seed: u64,
    /// Numbers the rules, so that each has its own random numbers.
    rules: u64,
    pub(crate) now: Nanos,
    ids: u64,
    pub(crate) operations: Vec<Option<Operation>>,
    pub(crate) free: Vec<usize>,
    /// Operations that the device has not taken, or only in part.
    pub(crate) waiting: VecDeque<usize>,
    /// Which operation a command in the device belongs to, by tag.
    pub(crate) tags: Vec<Option<usize>>,
    pub(crate) free_tags: Vec<u32>,
    /// Whether the device has refused; and when to retry if nothing is inside.
    pub(crate) refused: bool,
    pub(crate) retry: Option<Nanos>,
    pub(crate) ended: VecDeque<(Done, Vec<u8>)>,
    told: Vec<u8>,
    pub(crate) digest: Digest,
}

impl Disk {
    /// A new disk of this kind at time zero, on which nothing was written. `seed` determines the
    /// random choices of its episodes and its content.
    #[must_use]
    pub fn new(device: &Device, seed: u64) -> Disk {
        Disk::with_image(device, seed, Image::new())
    }

    /// Like [`Disk::new`], with initial content. Without data (see [`Device::without_data`]) the
    /// image is ignored.
    #[must_use]
    pub fn with_image(device: &Device, seed: u64, image: Image) -> Disk {
        let depth = device.depth();
        let store = device.keeps_data.then(|| Store::new(image, Chance::new(seed, STORE)));
        Disk {
            model: device.description.faulty(&[], seed),
            store,
            watches: Vec::new(),
            seed,
            // After those of the device file.
            rules: 1 << 16,
            now: Nanos::ZERO,
            ids: 0,
            operations: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            tags: (0..depth).map(|_| None).collect(),
            free_tags: (0..depth).rev().collect(),
            refused: false,
            retry: None,
            ended: VecDeque::new(),
            told: Vec::new(),
            digest: Digest::default(),
            device: device.clone(),
        }
    }

    /// Submits an operation of `len` bytes from byte `offset` on at time `now`. [`Disk::next`] will
    /// report its end. On a disk that keeps data, writes go through [`Disk::write`].
    ///
    /// # Errors
    /// [`Refusal`]; nothing has happened then.
    pub fn submit(&mut self, now: Nanos, op: Op, offset: u64, len: u64) -> Result<Id, Refusal> {
        if op.is_write() && self.store.is_some() {
            return Err(Refusal::NoData);
        }
        self.take(now, op, offset, len, None)
    }

    /// Submits a write of `data` from byte `offset` on; with `fua` it is durable when it is done
    /// ([`Op::WriteFua`]). A disk that keeps no data discards them.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has happened then.
    pub fn write(
        &mut self,
        now: Nanos,
        offset: u64,
        data: &[u8],
        fua: bool,
    ) -> Result<Id, Refusal> {
        let op = if fua { Op::WriteFua } else { Op::Write };
        let data_kept = self.store.is_some().then_some(data);
        self.take(now, op, offset, data.len() as u64, data_kept)
    }

    /// What has ended by `now`, one operation per call, in order of ending; or when to call again,
    /// which is always later.
    pub fn next(&mut self, now: Nanos) -> Next {
        self.settle(now);
        if let Some((done, data)) = self.ended.pop_front() {
            self.told = data;
            return Next::Done(done);
        }
        self.first_event().map_or(Next::Idle, Next::Wait)
    }

    /// Lets time pass until an operation has ended, and returns it; `None` if nothing is under way.
    /// For a loop that has nothing else to do meanwhile: the disk's time is then later than the
    /// caller's.
    pub fn wait(&mut self) -> Option<Done> {
        let mut now = self.now;
        loop {
            match self.next(now) {
                Next::Done(done) => return Some(done),
                Next::Wait(at) => now = at,
                Next::Idle => return None,
            }
        }
    }

    /// The bytes of the read that [`Disk::next`] last reported; none if that was no read, or
    /// failed, or the disk keeps no data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.told
    }

    /// The power fails at `now` and is back at once: operations that had not ended are never
    /// reported, writes that were not durable are there or not, as `seed` decides, and the disk
    /// goes on with that. Operations that had ended by `now` and were not yet fetched are never
    /// reported either.
    ///
    /// Returns what is then on the disk; nothing on one that keeps no data.
    pub fn crash(&mut self, now: Nanos, seed: u64) -> Image {
        let image = self.image_if_crashed(now, seed);
        self.model.restart(self.device.description.sound_model());
        if let Some(store) = &mut self.store {
            store.restart(image.clone());
        }
        self.operations.clear();
        self.free.clear();
        self.waiting.clear();
        self.tags.fill(None);
        self.free_tags = (0..self.device.depth()).rev().collect();
        self.refused = false;
        self.retry = None;
        self.ended.clear();
        self.told.clear();
        self.digest.mix(image.digest());
        image
    }

    /// What [`Disk::crash`] would leave. The disk itself does not change: so one run can be checked
    /// at each of its instants, with many seeds.
    #[must_use]
    pub fn image_if_crashed(&mut self, now: Nanos, seed: u64) -> Image {
        self.settle(now);
        let Some(store) = &self.store else { return Image::new() };
        let flying = self.operations.iter().flatten().filter_map(Operation::flying);
        store.cut(flying, seed)
    }

    /// Adds a fault from now on; see the crate's documentation for the language. Its times are the
    /// disk's, which begin at zero.
    ///
    /// # Errors
    /// [`EpisodeError`] says what would be valid.
    pub fn episode(&mut self, text: &str) -> Result<(), EpisodeError> {
        let rule = Rule::with_data(text).map_err(EpisodeError)?;
        let place = self.rules;
        if !rule.is_about_data() {
            self.model.add(&rule, self.seed, place);
        } else if self.store.is_some() {
            self.watches.push(Watch::new(&rule, self.seed, place));
        } else {
            return Err(EpisodeError::without_data(text));
        }
        self.rules += 1;
        Ok(())
    }

    /// The device it imitates.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// The latest `now` it was given.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Operations that were submitted and have not ended.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    /// A number that is equal for two runs if the same operations ended at the same times in the
    /// same way, with the same power cuts between them.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest.0
    }

    fn take(
        &mut self,
        now: Nanos,
        op: Op,
        offset: u64,
        len: u64,
        data: Option<&[u8]>,
    ) -> Result<Id, Refusal> {
        let (first, end) = self.sectors(op, offset, len)?;
        if now < self.now {
            return Err(Refusal::Past { latest: self.now });
        }
        self.settle(now);
        if self.waiting.len() >= self.device.queue {
            return Err(Refusal::Full);
        }
        self.ids += 1;
        let id = Id(self.ids);
        let mut operation = Operation::new(id, op, now, first, end);
        if let Some(data) = data {
            let (torn, place) = self.fate(&operation);
            operation.place = place;
            operation.load = Some(Load { bytes: data.into(), torn });
        }
        self.enter(operation);
        Ok(id)
    }

    /// The sectors of an operation: the first, and the one after the last.
    const fn sectors(&self, op: Op, offset: u64, len: u64) -> Result<(u64, u64), Refusal> {
        if matches!(op, Op::Flush) {
            return Ok((0, 0));
        }
        let sector = SECTOR as u64;
        if !offset.is_multiple_of(sector) || !len.is_multiple_of(sector) || len == 0 {
            return Err(Refusal::Unaligned);
        }
        if len > LEN_MAX {
            return Err(Refusal::TooLong);
        }
        let capacity = self.device.capacity();
        match offset.checked_add(len) {
            Some(end) if end <= capacity => Ok((offset / sector, end / sector)),
            _ => Err(Refusal::BeyondEnd { capacity }),
        }
    }

    /// What the rules about data do to a write: whether it may tear, and where it goes.
    fn fate(&mut self, operation: &Operation) -> (bool, u64) {
        let (first, sectors) = (operation.first, operation.end - operation.first);
        let command = operation.command(Tag::of_slot(0), Flags::NONE, u32::MAX);
        let (mut torn, mut place) = (false, first);
        for watch in &mut self.watches {
            if !watch.selects(self.now, &command) {
                continue;
            }
            match watch.effect() {
                Effect::Torn => torn = true,
                _ => {
                    if let Some(store) = &mut self.store {
                        let room = self.device.capacity() / SECTOR as u64;
                        place = elsewhere(store.chance(), first, sectors, room);
                    }
                }
            }
        }
        (torn, place)
    }
}

/// Another place for `sectors` sectors, some of their lengths away; the same if there is none.
fn elsewhere(chance: &mut Chance, first: u64, sectors: u64, room: u64) -> u64 {
    let away = (1 + chance.below(MISDIRECTED_WITHIN)) * sectors;
    let back = first.checked_sub(away);
    let forth = first.checked_add(away + sectors).filter(|end| *end <= room).map(|_| first + away);
    let forth_first = chance.once_in(2);
    let choice = if forth_first { forth.or(back) } else { back.or(forth) };
    choice.unwrap_or(first)
}
