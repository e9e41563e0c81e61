// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk of a simulated host, for runtimes of futures: the part that turmoil's, madsim's and
//! moonpool's adapters share. Each adapter's [`Clock`] says what time it is, and how to wait.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paternoster_disk::{Device, Disk, Done, Id, Image, Nanos, Next, Op, Refusal};
use tokio::sync::Notify;

/// The time of a runtime.
pub trait Clock: Clone + Send + Sync + 'static {
    /// Time since the simulation began; `None` where there is no simulation.
    fn elapsed(&self) -> Option<Nanos>;

    /// Waits for `event`, and no longer than `wait`.
    fn at_most(
        &self,
        wait: Nanos,
        event: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = ()> + Send;
}

/// Operations that were not fetched yet; `None` while they are under way.
type Ends = BTreeMap<Id, Option<(Done, Vec<u8>)>>;

/// A disk of a simulated host. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk<C> {
    clock: C,
    inside: Arc<Mutex<(Disk, Ends)>>,
    changed: Arc<Notify>,
}

impl<C: Clock> SimDisk<C> {
    /// A new disk of this kind.
    #[must_use]
    pub fn new(device: &Device, seed: u64) -> SimDisk<C>
    where
        C: Default,
    {
        SimDisk::with_clock(device, seed, C::default())
    }

    /// A new disk of this kind, with this clock.
    #[must_use]
    pub fn with_clock(device: &Device, seed: u64, clock: C) -> SimDisk<C> {
        let inside = Arc::new(Mutex::new((Disk::new(device, seed), Ends::new())));
        SimDisk { clock, inside, changed: Arc::default() }
    }

    /// Reads `len` bytes from `offset` on.
    ///
    /// # Errors
    /// Those of [`SimDisk::write_at`].
    pub async fn read_at(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let id = self.ask(|disk, now| disk.submit(now, Op::Read, offset, len))?;
        self.end(id).await.map(|(_, data)| data)
    }

    /// Writes; on completion the data may still be in the drive's cache.
    ///
    /// # Errors
    /// `InvalidInput` if the disk refuses it, the errno of an episode, `NotConnected` if the power
    /// has failed meanwhile.
    pub async fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<Done> {
        let id = self.ask(|disk, now| disk.write(now, offset, data, false))?;
        self.end(id).await.map(|(done, _)| done)
    }

    /// Like fsync: earlier writes are durable when this ends well.
    ///
    /// # Errors
    /// Those of [`SimDisk::write_at`].
    pub async fn sync(&self) -> io::Result<Done> {
        let id = self.ask(|disk, now| disk.submit(now, Op::Flush, 0, 0))?;
        self.end(id).await.map(|(done, _)| done)
    }

    /// The power fails now; see [`Disk::crash`]. From the host, or from the test.
    pub fn crash(&self, seed: u64) -> Image {
        let mut inside = self.lock();
        let now = self.now(&inside.0);
        inside.1.clear();
        let image = inside.0.crash(now, seed);
        drop(inside);
        self.changed.notify_waiters();
        image
    }

    /// The disk itself, for episodes and everything else it can do.
    pub fn with<T>(&self, act: impl FnOnce(&mut Disk) -> T) -> T {
        act(&mut self.lock().0)
    }

    fn lock(&self) -> MutexGuard<'_, (Disk, Ends)> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the simulation; outside of hosts, where there is none, the latest that the disk
    /// knows.
    fn now(&self, disk: &Disk) -> Nanos {
        self.clock.elapsed().map_or(disk.now(), |now| now.max(disk.now()))
    }

    fn ask(&self, ask: impl FnOnce(&mut Disk, Nanos) -> Result<Id, Refusal>) -> io::Result<Id> {
        let mut inside = self.lock();
        let now = self.now(&inside.0);
        let invalid = |refusal| io::Error::new(io::ErrorKind::InvalidInput, refusal);
        let id = ask(&mut inside.0, now).map_err(invalid)?;
        inside.1.insert(id, None);
        drop(inside);
        // Other waiters may have to wake earlier than they planned.
        self.changed.notify_waiters();
        Ok(id)
    }

    /// Waits until an operation has ended. Every waiter wakes at each event of the disk, so no task
    /// is needed to drive it.
    async fn end(&self, id: Id) -> io::Result<(Done, Vec<u8>)> {
        let _forget = Forget(self, id);
        loop {
            let changed = self.changed.notified();
            let wait = {
                let mut inside = self.lock();
                let (disk, ends) = &mut *inside;
                let now = self.now(disk);
                let wait = loop {
                    match disk.next(now) {
                        // Results that no task waits for any more are dropped.
                        Next::Done(done) => {
                            if let Some(end) = ends.get_mut(&done.id) {
                                *end = Some((done, disk.data().to_vec()));
                                self.changed.notify_waiters();
                            }
                        }
                        Next::Wait(at) => break at - now,
                        Next::Idle => break Nanos::MAX,
                    }
                };
                match ends.get_mut(&id).map(Option::take) {
                    None => return Err(io::ErrorKind::NotConnected.into()),
                    Some(Some((done, data))) => {
                        let failed = |errno| Err(io::Error::from_raw_os_error(errno));
                        return done.result.map_or_else(failed, |()| Ok((done, data)));
                    }
                    Some(None) => wait,
                }
            };
            self.clock.at_most(wait, changed).await;
        }
    }
}

/// Forgets an operation that no task waits for any more.
struct Forget<'a, C: Clock>(&'a SimDisk<C>, Id);

impl<C: Clock> Drop for Forget<'_, C> {
    fn drop(&mut self) {
        self.0.lock().1.remove(&self.1);
    }
}
