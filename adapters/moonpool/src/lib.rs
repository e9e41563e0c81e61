// SPDX-License-Identifier: MIT OR Apache-2.0
//! paternoster-disk under moonpool: a `StorageProvider` whose files are on a disk that takes a
//! device's time, and that loses what a device loses when its power fails.
//!
//! ```text
//! let storage = SimStorage::new(&device, seed, ctx.providers().time().clone());
//! storage.open("wal", OpenOptions::create_write()).await?      storage.disk().crash(seed);
//! ```
//!
//! # Time
//! The disk's time is that of the [`TimeProvider`], to the nanosecond under moonpool-sim.
//!
//! # Files
//! A file is made of MiBs of the disk, in the order in which they are first needed ([`layout`]).
//! Names, lengths and places cost no I/O: they take no time, and survive a crash, as with a journal
//! that is always up to date. A crash affects content: data that were not synced may be zeros, or
//! the old content. There is no page cache: each read and write goes to the device, and a write of
//! partial sectors reads these first. A sync is the disk's, for all files. Space is never reused,
//! so no file finds another's data.

mod file;
mod layout;
#[path = "../../sim_disk.rs"]
mod sim_disk;

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moonpool_core::{OpenOptions, StorageProvider, TimeError, TimeProvider};
use paternoster_disk::{Device, Nanos};

pub use file::SimFile;
use layout::{Inode, Space};
pub use sim_disk::{Clock, SimDisk};

/// The time of a provider. (A pointer, so that any provider can be moved.)
#[derive(Debug, Clone)]
pub struct SimTime<T>(Arc<T>);

impl<T: TimeProvider> Clock for SimTime<T> {
    fn elapsed(&self) -> Option<Nanos> {
        Some(Nanos(u64::try_from(self.0.now().as_nanos()).unwrap_or(u64::MAX)))
    }

    async fn at_most(&self, wait: Nanos, event: impl Future<Output = ()> + Send) {
        if let Err(TimeError::Shutdown) = self.0.timeout(Duration::from_nanos(wait.0), event).await
        {
            // The simulation is over: whatever waits for it waits forever.
            pending().await
        }
    }
}

#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<String, Arc<Inode>>,
    space: Arc<Space>,
}

/// Files on a disk. Clones are the same files: a test keeps one, a process has the other.
#[derive(Debug, Clone)]
pub struct SimStorage<T> {
    disk: SimDisk<SimTime<T>>,
    names: Arc<Mutex<Names>>,
}

impl<T: TimeProvider> SimStorage<T> {
    /// No files yet, on a new disk of this kind.
    #[must_use]
    pub fn new(device: &Device, seed: u64, time: T) -> SimStorage<T> {
        let disk = SimDisk::with_clock(device, seed, SimTime(Arc::new(time)));
        let names = Names { space: Arc::new(Space::new(device.capacity())), ..Names::default() };
        SimStorage { disk, names: Arc::new(Mutex::new(names)) }
    }

    /// The disk, for crashes and episodes.
    #[must_use]
    pub const fn disk(&self) -> &SimDisk<SimTime<T>> {
        &self.disk
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: TimeProvider> StorageProvider for SimStorage<T> {
    type File = SimFile<T>;

    async fn open(&self, path: &str, options: OpenOptions) -> io::Result<SimFile<T>> {
        let writes = options.is_write() || options.is_append();
        let creates = options.is_create() || options.is_create_new();
        if (creates || options.is_truncate()) && !writes {
            let text = format!("{path}: only what is opened for writing is created or truncated");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let inode = {
            let mut names = self.names();
            match names.files.get(path) {
                Some(_) if options.is_create_new() => {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Some(inode) => Arc::clone(inode),
                None if creates => {
                    let inode = Arc::new(Inode::new(Arc::clone(&names.space)));
                    names.files.insert(path.into(), Arc::clone(&inode));
                    inode
                }
                None => return Err(io::ErrorKind::NotFound.into()),
            }
        };
        if options.is_truncate() {
            // Not during another handle's write.
            let _alone = inode.order.write().await;
            inode.forget();
        }
        Ok(SimFile::new(self.disk.clone(), inode, options))
    }

    async fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.names().files.contains_key(path))
    }

    async fn delete(&self, path: &str) -> io::Result<()> {
        let gone = self.names().files.remove(path);
        gone.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.names();
        let inode = names.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.files.insert(to.into(), inode);
        Ok(())
    }
}
