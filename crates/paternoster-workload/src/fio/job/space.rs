// SPDX-License-Identifier: MIT OR Apache-2.0
//! Space: how large I/Os are, and of which files, through the page cache or not.
//!
//! Fields have the names of fio's options.
//!
//! Source: FIO-40; fio's manual.

use super::super::file_choice::FileService;
use super::super::strides::Strides;
use super::super::value::Amount;

/// fio's block size when nothing is said.
const BLOCK_SIZE: u64 = 4096;

/// Options of block sizes.
#[derive(Debug, Clone)]
pub struct Blocks {
    /// Smallest and largest block in bytes: reads, writes, trims.
    pub block_size: [(u64, u64); 3],
    /// Whether `bsrange` or `bssplit` sets it: they win over `bs`, in any order.
    pub ranged: [bool; 3],
    /// Block sizes in bytes with their shares in percent, rising; empty without `bssplit`.
    pub bssplit: [Vec<(u64, u8)>; 3],
    /// `ba`: alignment of random offsets, by direction; turns the random map off.
    pub block_align: [Option<u64>; 3],
    /// `bs_unaligned`: sizes drawn from a range need not be multiples of its smallest size.
    pub bs_unaligned: bool,
    /// The block sizes of reads and writes are those of sequential and random I/O.
    pub bs_is_seq_rand: bool,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks {
            block_size: [(BLOCK_SIZE, BLOCK_SIZE); 3],
            ranged: [false; 3],
            bssplit: [const { Vec::new() }; 3],
            block_align: [None; 3],
            bs_unaligned: false,
            bs_is_seq_rand: false,
        }
    }
}

/// Which part of the files, and how much of it.
#[derive(Debug, Clone)]
pub struct Region {
    /// Size of the region; `None` is all of the file or device.
    pub size: Option<Amount>,
    /// Amount of I/O; `None` is the size.
    pub io_size: Option<Amount>,
    /// Start of the region.
    pub offset: Amount,
    /// Added to the offset once for each clone before this one.
    pub offset_increment: Amount,
    /// What an offset in percent is rounded up to a multiple of; 0 is the least block.
    pub offset_align: u64,
    /// Zones with gaps between them.
    pub strides: Strides,
    /// Stop after this many I/Os.
    pub number_ios: Option<u64>,
    /// Repetitions of the job, at least 1.
    pub loops: u64,
}

impl Default for Region {
    fn default() -> Region {
        Region {
            size: None,
            io_size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            strides: Strides::default(),
            number_ios: None,
            loops: 1,
        }
    }
}

/// Options of files and devices.
#[derive(Debug, Clone)]
pub struct Files {
    /// Files or devices; empty: one file named after the job, see
    /// [`Job::file_names`](super::Job::file_names).
    pub filenames: Vec<String>,
    /// The directory of the files.
    pub directory: Option<String>,
    /// Form of the names of files.
    pub filename_format: Option<String>,
    /// Number of files; 1.
    pub nrfiles: u32,
    /// Size of a file; of a range the largest.
    pub filesize: Option<u64>,
    /// Least and greatest size of each file, if they differ.
    pub filesize_range: Option<(u64, u64)>,
    /// How many files are open at one time; by default all.
    pub open_files: Option<usize>,
    /// Which file an I/O goes to next.
    pub file_service: FileService,
}

impl Default for Files {
    fn default() -> Files {
        Files {
            filenames: Vec::new(),
            directory: None,
            filename_format: None,
            nrfiles: 1,
            filesize: None,
            filesize_range: None,
            open_files: None,
            file_service: FileService::RoundRobin(1),
        }
    }
}

/// What the page cache has to do with it.
#[derive(Debug, Clone)]
pub struct Caching {
    /// Bypass the page cache; `None`: not said, which means no, as in fio.
    pub direct: Option<bool>,
    /// Files are read into the cache before the job.
    pub pre_read: bool,
    /// Cached pages are dropped before the job.
    pub invalidate: bool,
    /// Files that are written have their data from the beginning.
    pub overwrite: bool,
}

impl Default for Caching {
    fn default() -> Caching {
        Caching { direct: None, pre_read: false, invalidate: true, overwrite: false }
    }
}
