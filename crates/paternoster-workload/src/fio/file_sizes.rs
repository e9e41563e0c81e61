// SPDX-License-Identifier: MIT OR Apache-2.0
//! File sizes: how large each file of a clone is.
//!
//! ```text
//! size=50k nrfiles=3                17066 each: the size divided, without the rest
//! filesize=100k nrfiles=3           100k each; size then is the amount of I/O only
//! filesize=8k-64k nrfiles=4         16k 24k 24k 56k: 8k + floor(56k * r), down to a whole block
//! ```
//!
//! Under fio's engine null a range is not drawn from where each file's part of the size is in it.
//!
//! The draws are of generator 7, with `tausworthe64` of that kind; a block is the least of all
//! directions.
//!
//! Source: FIO-41; the sizes equal those of files that fio 3.33 laid out.

use super::job::{Engine, Job};
use super::random::{Choice, Draw, Seeds};
use super::value::Amount;

/// The sizes of a clone's files in bytes, in the job's order; `None` if no option says one and a
/// device has its own. Percentages are of `whole`.
#[must_use]
pub fn file_sizes(job: &Job, files: u32, whole: u64, seeds: &Seeds) -> Vec<Option<u64>> {
    let count = usize::try_from(files).unwrap_or(usize::MAX);
    if let Some((low, high)) = job.files.filesize_range {
        // fio's engine null takes the size where the range has it.
        let part = job.region.size.map(|size| size.of(whole) / u64::from(files.max(1)));
        let part =
            part.filter(|part| job.queue.engine == Engine::Null && (low..=high).contains(part));
        if part.is_some() {
            return vec![part; count];
        }
        let block = job.blocks.block_size.iter().map(|(least, _)| *least).min().unwrap_or(1).max(1);
        let mut generator = Draw::of(job, seeds, Choice::FileSize);
        let mut draw = || {
            let size = low + generator.below(high - low);
            Some(size - size % block)
        };
        return (0..count).map(|_| draw()).collect();
    }
    let of_size = |size: Amount| size.of(whole) / u64::from(files.max(1));
    let size = job.files.filesize.or(job.region.size.map(of_size)).filter(|size| *size > 0);
    vec![size; count]
}

#[cfg(test)]
mod tests {
    use super::super::job::Generator;
    use super::*;

    fn sizes(thread: u32, files: u32, change: impl Fn(&mut Job)) -> Vec<u64> {
        let mut job = Job::default();
        change(&mut job);
        let seeds = Seeds::new(None, true, false, thread, 0);
        file_sizes(&job, files, 0, &seeds).into_iter().map(Option::unwrap).collect()
    }

    /// Are files as large as those that fio laid out?
    #[test]
    fn sizes_equal_fio() {
        let range = |job: &mut Job| job.files.filesize_range = Some((8 << 10, 64 << 10));
        assert_eq!(sizes(1, 4, range), [16_384, 24_576, 24_576, 57_344]);
        assert_eq!(sizes(2, 2, range), [20_480, 57_344]);
        let fine = |job: &mut Job| {
            job.blocks.block_size = [(1024, 1024), (16_384, 16_384), (16_384, 16_384)];
            job.files.filesize_range = Some((100 << 10, 640 << 10));
        };
        assert_eq!(sizes(1, 4, fine), [181_248, 273_408, 266_240, 596_992]);
        let wide = |job: &mut Job| {
            job.blocks.block_size = [(1024, 1024); 3];
            job.files.filesize_range = Some((20 << 10, 200 << 10));
            job.random.random_generator = Generator::Tausworthe64;
        };
        assert_eq!(sizes(1, 6, wide), [88_064, 80_896, 156_672, 104_448, 64_512, 94_208]);
        let divided = |job: &mut Job| job.region.size = Some(Amount::Bytes(50 << 10));
        assert_eq!(sizes(1, 3, divided), [17_066; 3]);
        assert_eq!(
            file_sizes(&Job::default(), 2, 0, &Seeds::new(None, true, false, 1, 0)),
            [None; 2]
        );
    }
}
