// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device with blocks of 4096 bytes, whatever the machine's disks have: a backend in front of
//! the real one says so, and holds the loop to it as O_DIRECT would.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use paternoster_core::{DeviceFacts, Nanos};
use paternoster_serve::device::{Backend, Extent, FileFacts, Finished, Full, Job, Work};
use paternoster_serve::host::activation::Inherited;
use paternoster_serve::host::listen;
use paternoster_serve::server::{Options, Server};
use serde_json::Value;

use super::fio::{PART, fio};
use super::tools::{succeeds, tool, uri};
use crate::common::client::ZEROES;
use crate::common::{Client, Folder, config, device, end};

const BLOCK: u32 = 4096;

struct LargeBlocks(Box<dyn Backend>);

// SAFETY: jobs and reports go to another backend and come from it.
unsafe impl Backend for LargeBlocks {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn facts(&self) -> DeviceFacts {
        self.0.facts()
    }

    fn file(&self, file: u16) -> FileFacts {
        FileFacts { block: BLOCK, ..self.0.file(file) }
    }

    unsafe fn submit(&mut self, now: Nanos, job: Job<'_>) -> Result<(), Full> {
        let block = u64::from(BLOCK);
        // A hint may have any range.
        if job.work != Work::Prefetch {
            let whole = job.offset.is_multiple_of(block) && job.length.is_multiple_of(block);
            assert!(whole, "{job:?}");
        }
        for piece in job.pieces {
            let at = piece.at.as_ptr() as usize;
            assert!(at.is_multiple_of(4096) && piece.length.is_multiple_of(4096), "{job:?}");
        }
        // SAFETY: the caller keeps what the pieces point to until the job has been reported.
        unsafe { self.0.submit(now, job) }
    }

    fn kick(&mut self) {
        self.0.kick();
    }

    fn reap(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.0.reap(now, finished);
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.0.wakeup()
    }

    fn deadline(&self) -> Option<Nanos> {
        self.0.deadline()
    }

    unsafe fn register(&mut self, arena: NonNull<[u8]>) {
        // SAFETY: the caller keeps the memory longer than this value, and this value longer than
        // what borrows it.
        unsafe { self.0.register(arena) }
    }

    fn extents(
        &mut self,
        file: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        self.0.extents(file, offset, length, each)
    }
}

fn served(folder: &Folder, scheduler: &str) -> Server {
    let disk = folder.file("disk", 2 * PART);
    let config = config(folder, device(scheduler, &[("disk", &disk)]));
    let sockets = listen::open(&config.server, &mut Inherited::default(), None).unwrap();
    let wrap: fn(Box<dyn Backend>) -> Box<dyn Backend> = |backend| Box::new(LargeBlocks(backend));
    let options = Options { wrap: Some(wrap), ..Options::default() };
    Server::start(config, options, sockets).unwrap()
}

/// Do clients that ask learn of blocks of 4096, and do fio's checksums hold on them?
#[test]
fn checksums_hold_on_large_blocks() {
    let folder = Folder::in_memory("blocks");
    let server = served(&folder, "mq-deadline");
    let ran = fio(&folder, "4k-128k");
    let nbdinfo = tool("nbdinfo", "libnbd-bin");
    if let (Some(()), Some(mut nbdinfo)) = (ran, nbdinfo) {
        let uri = uri("disk", &folder.path("nbd.sock"));
        let told: Value = serde_json::from_str(&succeeds(nbdinfo.args(["--json", &uri]))).unwrap();
        assert_eq!(told["exports"][0]["block_size_minimum"], BLOCK);
    }
    end(&server);
}

/// Do clients that do not know the block size write a sector, or three bytes, and nothing else?
/// QEMU knows them, and puts its requests into whole blocks by itself.
#[test]
fn parts_of_large_blocks() {
    let folder = Folder::in_memory("parts");
    let server = served(&folder, "bfq");
    let socket = folder.path("nbd.sock");
    let mut client = Client::connect(&socket, "disk").unwrap();
    assert_eq!(client.write(0, 0, &[1; 16384]).unwrap(), 0);
    assert_eq!(client.write(0, 512, &[2; 512]).unwrap(), 0);
    assert_eq!(client.write(0, 4095, &[3; 3]).unwrap(), 0);
    assert_eq!(client.ask(ZEROES, 0, 6000, 9000).unwrap().errno, 0);
    let mut expected = [1; 16384];
    expected[512..1024].fill(2);
    expected[4095..4098].fill(3);
    expected[6000..15000].fill(0);
    if let Some(mut qemu_io) = tool("qemu-io", "qemu-utils") {
        let commands = ["-c", "write -P 4 15500 512", "-c", "read -P 2 512 512"];
        let told = succeeds(qemu_io.args(["-f", "raw"]).args(commands).arg(uri("disk", &socket)));
        assert!(!told.contains("failed"), "{told}");
        expected[15500..16012].fill(4);
    }
    assert!(client.read(0, 16384).unwrap() == expected);
    drop(client);
    end(&server);
    assert!(std::fs::read(folder.path("disk")).unwrap()[..16384] == expected);
}
