// SPDX-License-Identifier: MIT OR Apache-2.0
//! File: a handle with a position, as moonpool's `StorageFile` requires.
//!
//! As in moonpool, a read or write that was begun goes on, whatever buffer the next poll brings:
//! even one whose future was dropped still happens, unless a seek comes first. If the handle is
//! dropped too, or a write failed, bytes may remain beyond the file's end: they are zeroed before
//! the file grows over them, by a write that waits for all others and keeps them out.

use std::future::Future;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures::io::{AsyncRead, AsyncSeek, AsyncWrite};
use moonpool_core::{OpenOptions, StorageFile, TimeProvider};

use crate::SimTime;
use crate::layout::{EXTENT, Inode, SECTOR, UnderWay};
use crate::sim_disk::SimDisk;

/// One read or write has at most this many bytes.
const MOST: u64 = 64 << 20;

type Begun<O> = Mutex<Option<Pin<Box<dyn Future<Output = io::Result<O>> + Send>>>>;

/// The file that a handle is for.
#[derive(Debug, Clone)]
struct Place<T> {
    disk: SimDisk<SimTime<T>>,
    inode: Arc<Inode>,
}

impl<T: TimeProvider> Place<T> {
    /// Reads bytes that the file has.
    async fn get(&self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let sectors = at / SECTOR * SECTOR..(at + len).next_multiple_of(SECTOR);
        let pieces = self.inode.extents().pieces(sectors);
        let mut data = Vec::new();
        for piece in pieces {
            let bytes = self.disk.read_at(piece.start, piece.end - piece.start).await?;
            data.extend(bytes);
        }
        data.drain(..usize::try_from(at % SECTOR).unwrap_or(usize::MAX));
        data.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(data)
    }

    /// Writes; the rest of partly filled sectors is read first.
    async fn put(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let end = at.saturating_add(data.len() as u64);
        self.inode.reserve(end).ok_or(io::ErrorKind::StorageFull)?;
        let sectors = at / SECTOR * SECTOR..end.next_multiple_of(SECTOR);
        let mut whole = self.get(sectors.start, at - sectors.start).await?;
        whole.extend_from_slice(data);
        whole.extend(self.get(end, sectors.end - end).await?);
        let pieces = self.inode.extents().pieces(sectors);
        let mut rest = &whole[..];
        for piece in pieces {
            let len = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
            let (bytes, behind) = rest.split_at(len);
            self.disk.write_at(piece.start, bytes).await?;
            rest = behind;
        }
        Ok(())
    }

    /// Makes everything from the file's end to `to` zero, even if a write there was abandoned. No
    /// I/O may be under way: `order` is held exclusively.
    async fn clear(&self, to: u64) -> io::Result<()> {
        loop {
            let Some(stale) = self.inode.extents().stale_up_to(to) else { return Ok(()) };
            let zeros = vec![0; usize::try_from(stale.end - stale.start).unwrap_or(0)];
            self.put(stale.start, &zeros).await?;
            self.inode.extents().cleared(stale.end);
        }
    }

    /// Writes at a place, or at the file's end; returns where that ended.
    async fn write(self, at: Option<u64>, data: Vec<u8>) -> io::Result<(u64, usize)> {
        let len = data.len() as u64;
        let order = &self.inode.order;
        let mut beside = None;
        if let Some(at) = at.filter(|at| at.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR)) {
            let shared = order.read().await;
            // The file would grow over what lies before a write beyond its end: what others have
            // under way there may still be given up. Held, it gets no shorter.
            if at <= self.inode.extents().len {
                beside = Some(shared);
            }
        }
        let _alone = if beside.is_none() { Some(order.write().await) } else { None };
        let at = at.unwrap_or_else(|| self.inode.extents().len);
        let end = at.saturating_add(len);
        self.inode.reserve(end).ok_or(io::ErrorKind::StorageFull)?;
        if beside.is_none() {
            self.clear(at).await?;
        }
        let under_way = UnderWay(&self.inode, at..end);
        self.put(at, &data).await?;
        std::mem::forget(under_way);
        let mut extents = self.inode.extents();
        extents.len = extents.len.max(at + len);
        Ok((at + len, data.len()))
    }
}

/// An open file.
pub struct SimFile<T> {
    place: Place<T>,
    options: OpenOptions,
    at: u64,
    reads: Begun<Vec<u8>>,
    writes: Begun<(u64, usize)>,
}

impl<T> std::fmt::Debug for SimFile<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimFile").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<T: TimeProvider> SimFile<T> {
    pub(crate) fn new(
        disk: SimDisk<SimTime<T>>,
        inode: Arc<Inode>,
        options: OpenOptions,
    ) -> SimFile<T> {
        let place = Place { disk, inode };
        SimFile { place, options, at: 0, reads: Mutex::new(None), writes: Mutex::new(None) }
    }

    fn may(is_allowed: bool) -> io::Result<()> {
        is_allowed.then_some(()).ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }
}

impl<T: TimeProvider> StorageFile for SimFile<T> {
    async fn sync_all(&self) -> io::Result<()> {
        self.place.disk.sync().await.map(drop)
    }

    async fn sync_data(&self) -> io::Result<()> {
        self.sync_all().await
    }

    async fn size(&self) -> io::Result<u64> {
        Ok(self.place.inode.extents().len)
    }

    async fn set_len(&self, size: u64) -> io::Result<()> {
        SimFile::<T>::may(self.options.is_write() || self.options.is_append())?;
        let inode = &self.place.inode;
        let _alone = inode.order.write().await;
        let len = inode.extents().len;
        if size >= len {
            inode.reserve(size).ok_or(io::ErrorKind::StorageFull)?;
            self.place.clear(size).await?;
        } else if let Ok(more @ 1..) =
            usize::try_from(len.min(size.next_multiple_of(EXTENT)) - size)
        {
            // The file may grow again, and must then have zeros there.
            self.place.put(size, &vec![0; more]).await?;
        }
        inode.extents().cut(size);
        Ok(())
    }
}

impl<T: TimeProvider> AsyncRead for SimFile<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        SimFile::<T>::may(this.options.is_read())?;
        let begun = this.reads.get_mut().unwrap_or_else(PoisonError::into_inner);
        let read = begun.get_or_insert_with(|| {
            let (place, at) = (this.place.clone(), this.at);
            let left = place.inode.extents().len.saturating_sub(at);
            let len = left.min(buffer.len() as u64).min(MOST);
            Box::pin(async move { place.get(at, len).await })
        });
        let data = ready!(read.as_mut().poll(context));
        *begun = None;
        let data = data?;
        let len = data.len().min(buffer.len());
        buffer[..len].copy_from_slice(&data[..len]);
        this.at += len as u64;
        Poll::Ready(Ok(len))
    }
}

impl<T: TimeProvider> AsyncWrite for SimFile<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        SimFile::<T>::may(this.options.is_write() || this.options.is_append())?;
        let begun = this.writes.get_mut().unwrap_or_else(PoisonError::into_inner);
        if begun.is_none() && buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let write = begun.get_or_insert_with(|| {
            let at = (!this.options.is_append()).then_some(this.at);
            let most = usize::try_from(MOST).unwrap_or(usize::MAX).min(buffer.len());
            Box::pin(this.place.clone().write(at, buffer[..most].to_vec()))
        });
        let written = ready!(write.as_mut().poll(context));
        *begun = None;
        let (end, len) = written?;
        this.at = end;
        Poll::Ready(Ok(len))
    }

    /// Nothing is buffered; only a sync makes data durable.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<T: TimeProvider> AsyncSeek for SimFile<T> {
    fn poll_seek(self: Pin<&mut Self>, _: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        let this = self.get_mut();
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => this.place.inode.extents().len.checked_add_signed(by),
            SeekFrom::Current(by) => this.at.checked_add_signed(by),
        };
        let at = at.ok_or(io::ErrorKind::InvalidInput)?;
        *this.reads.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        *this.writes.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        this.at = at;
        Poll::Ready(Ok(at))
    }
}
