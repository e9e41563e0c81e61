// SPDX-License-Identifier: MIT OR Apache-2.0
//! Offsets: the fixed lists measured on fio 3.33 (FIO-31 to FIO-33, FIO-47, FIO-94), and the
//! invariants.

use proptest::prelude::*;

use super::*;
use crate::fio::jobfile::parse_command_line;

const MIB: u64 = 1 << 20;

fn job(options: &str) -> Job {
    let args = format!("--name=j --size=1m {options}");
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    parse_command_line(&args, &|_| None).unwrap().jobs.remove(0)
}

/// One pass over 256 blocks of 4k from 0, as thread `thread`.
fn pass(options: &str, thread: u32) -> Vec<Piece> {
    pass_of(options, thread, MIB, MIB)
}

fn pass_of(options: &str, thread: u32, region: u64, io: u64) -> Vec<Piece> {
    let options = format!("{options} --io_size={io}");
    let mut offsets = Offsets::new(&job(&options), thread, 0, region, io, 0);
    let mut pieces = Vec::new();
    loop {
        pieces.extend(core::iter::from_fn(|| offsets.next()).take(100_000));
        if !offsets.next_pass() {
            return pieces;
        }
    }
}

/// The pieces' numbers of 4k blocks.
fn blocks(pieces: &[Piece]) -> Vec<u64> {
    pieces.iter().map(|piece| piece.offset / 4096).collect()
}

/// Are the first offsets those of fio (FIO-94)? Six of job 1, four of job 2 with norandommap.
#[test]
fn random_offsets_equal_fio() {
    let offsets = |pieces: Vec<Piece>| -> Vec<u64> { pieces.iter().map(|p| p.offset).collect() };
    let first = offsets(pass("--rw=randread", 1));
    assert_eq!(first[..6], [61_440, 774_144, 880_640, 491_520, 417_792, 884_736]);
    let second = offsets(pass("--rw=randread --norandommap", 2));
    assert_eq!(second[..4], [266_240, 188_416, 626_688, 40_960]);
    assert_eq!((first.len(), second.len()), (256, 256));
}

/// Do suffixes of random and sequential patterns give the blocks of FIO-31 and FIO-32?
#[test]
fn suffixes_equal_fio() {
    let every_fourth = blocks(&pass("--rw=randread:4", 1));
    assert_eq!(every_fourth[..9], [15, 16, 17, 18, 189, 190, 191, 192, 215]);
    let identical = blocks(&pass("--rw=randread:2 --rw_sequencer=identical", 1));
    assert_eq!(identical[..4], [15, 15, 189, 189]);
    assert_eq!(blocks(&pass("--rw=read:4k", 1))[..4], [0, 2, 4, 6]);
    assert_eq!(blocks(&pass("--rw=read:-8k", 1))[..4], [0, 254, 253, 252]);
    assert_eq!(pass("--rw=read:4k", 1).len(), 256);
}

/// Is a mixed sequential job two independent streams, in fio's order?
#[test]
fn mixed_directions_equal_fio() {
    let text = |piece: &Piece| format!("{}{}", &piece.direction.name()[..1], piece.offset / 4096);
    let mixed: Vec<String> = pass("--rw=rw", 1).iter().map(text).collect();
    assert_eq!(mixed[..10], ["r0", "r1", "r2", "w0", "r3", "r4", "w1", "w2", "w3", "r5"]);
    let reads =
        |options| pass(options, 1).iter().filter(|p| p.direction == Direction::Read).count();
    assert_eq!(reads("--rw=randrw --rwmixread=100"), 256);
    assert_eq!(reads("--rw=randrw --rwmixread=0"), 0);
    // 70 % of 256 are 179; three standard deviations of sqrt(256 * 0.7 * 0.3) = 7.3 are 22.
    assert!((157..=201).contains(&reads("--rw=randrw --rwmixwrite=30")));
}

/// Do loops repeat the order, and does a time_based job go on with it (FIO-47)?
#[test]
fn passes_equal_fio() {
    let four = 4 * 4096;
    let mut looped = Offsets::new(&job("--rw=randread --loops=2"), 1, 0, four, four, 0);
    let timed_job = job("--rw=randread --time_based --runtime=1");
    let mut timed = Offsets::new(&timed_job, 1, 0, four, four, 0);
    let (mut repeated, mut continued) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        repeated.extend(core::iter::from_fn(|| looped.next()));
        continued.extend((0..4).map(|_| timed.next().unwrap()));
        let _none_is_wanted = looped.next_pass();
    }
    assert_eq!(blocks(&repeated)[..8], [0, 2, 3, 1, 0, 2, 3, 1]);
    assert_eq!(blocks(&continued)[..10], [0, 2, 3, 1, 3, 1, 2, 0, 3, 2]);
    let sequential_job = job("--rw=read --time_based --runtime=1");
    let mut sequential = Offsets::new(&sequential_job, 1, 0, four, four, 0);
    let endless: Vec<Piece> = core::iter::from_fn(|| sequential.next()).take(6).collect();
    assert_eq!(blocks(&endless), [0, 1, 2, 3, 0, 1]);
}

/// Does io_size wrap over the region or stop before its end? 100k of a 64k region are 25 blocks.
#[test]
fn io_size_may_differ_from_the_region() {
    let wrapped = blocks(&pass_of("--rw=read", 1, 64 << 10, 100 << 10));
    assert_eq!(wrapped.len(), 25);
    assert_eq!(wrapped[15..18], [15, 0, 1]);
    assert_eq!(pass_of("--rw=randread", 1, 64 << 10, 100 << 10).len(), 25);
    assert_eq!(pass_of("--rw=read", 1, MIB, 64 << 10).len(), 16);
    // Random offsets are still drawn from the whole region: the first two are 15 and 189.
    let short = blocks(&pass_of("--rw=randread", 1, MIB, 64 << 10));
    assert_eq!((short.len(), &short[..2]), (16, &[15, 189][..]));
}

/// Do number_ios and a region without room end a job for good?
#[test]
fn some_ends_are_final() {
    let mut counted = Offsets::new(&job("--rw=randread --number_ios=3"), 1, 0, MIB, MIB, 0);
    assert_eq!(core::iter::from_fn(|| counted.next()).count(), 3);
    counted.restart();
    assert!(counted.next().is_none() && counted.is_finished());
    for options in ["--rw=randread", "--rw=read", "--rw=read:-4k", "--rw=randread:3"] {
        for io in [100, 4000, MIB] {
            let mut small = Offsets::new(&job(options), 1, 0, 4000, io, 0);
            assert!(small.next().is_none() && small.is_finished());
        }
    }
}

/// Is each block trimmed and then written, once in the job's size?
#[test]
fn trimwrite_alternates() {
    let pieces = pass("--rw=randtrimwrite", 1);
    assert_eq!(pieces.len(), 512);
    for pair in pieces.chunks(2) {
        assert_eq!((pair[0].direction, pair[1].direction), (Direction::Trim, Direction::Write));
        assert_eq!(pair[0].offset, pair[1].offset);
    }
}

/// Do syncs take turns among the files as fio's do? Both orders were measured.
#[test]
fn syncs_take_turns() {
    let order = |options: &str, every: usize| -> String {
        let names = ["a", "b"];
        let extents =
            names.map(|file| Extent { file, start: 0, bytes: 8 * 4096, room: 0, later: 0 });
        let mut offsets = Offsets::over(&job(options), 1, &extents, 16 * 4096, 0);
        let mut order = String::new();
        for write in 0..12 {
            if write > 0 && write % every == 0 {
                order += &names[offsets.sync_file().unwrap()].to_uppercase();
            }
            order += names[offsets.next().unwrap().file];
        }
        order
    };
    assert_eq!(order("--rw=write --nrfiles=2", 4), "ababAbabaBabab");
    let two = "--rw=write --nrfiles=2 --file_service_type=roundrobin:2";
    assert_eq!(order(two, 3), "aabBaabBaabBaab");
}

/// Does percentage_random mix both kinds? At 0 % the job is sequential.
#[test]
fn percentage_random_mixes() {
    let none = blocks(&pass("--rw=randread --percentage_random=0", 1));
    assert_eq!(none, (0..256).collect::<Vec<u64>>());
    let half = blocks(&pass("--rw=randread --percentage_random=50", 1));
    let steps = half.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!((95..=165).contains(&steps), "{steps}");
}

/// Does ba align offsets, with as many places as leave room for a block?
#[test]
fn blockalign_moves_offsets() {
    let pieces = pass("--rw=randread --bs=4k --ba=512", 1);
    assert_eq!(pieces.len(), 256);
    assert!(pieces.iter().any(|piece| piece.offset % 4096 != 0));
    assert!(pieces.iter().all(|piece| piece.offset % 512 == 0));
}

/// Does a range cover the region exactly once, with its last I/Os cut short by the map?
#[test]
fn ranges_cover_the_region_once() {
    for options in ["--bsrange=4k-16k", "--bssplit=4k/50:8k/30:16k/20"] {
        let mut pieces = pass(&format!("--rw=randwrite {options}"), 1);
        pieces.sort_by_key(|piece| piece.offset);
        let mut end = 0;
        for piece in pieces {
            assert_eq!(piece.offset, end);
            end += piece.bytes;
        }
        assert_eq!(end, MIB);
    }
}

proptest! {
    /// Do I1 and I2 hold for any mixture of options? Ends within twice the blocks of the region.
    #[test]
    fn pieces_stay_in_the_region(
        pattern in prop::sample::select(&[
            "read", "randread", "rw", "randrw", "randrw:3", "write:-12k", "read:3k",
            "randtrimwrite",
        ][..]),
        sizes in prop::sample::select(&[
            "--bs=4k", "--bs=4k,8k", "--bs=6k,4k", "--bsrange=1k-64k",
            "--bsrange=3k-10k --bs_unaligned",
            "--bssplit=4k/10:64k/90,8k", "--bs=4k,16k --bs_is_seq_rand=1", "--ba=512",
        ][..]),
        draws in prop::sample::select(&[
            "", "", "--random_generator=lfsr", "--random_generator=tausworthe64",
            "--random_distribution=zipf:0.8", "--random_distribution=pareto:0.3:0.5",
            "--random_distribution=normal:30:0.1", "--random_distribution=zoned:60/10:40/",
            "--random_distribution=zoned_abs:50/9k:50/100k",
            "--zonemode=strided --zonesize=20k --zoneskip=5k",
            "--zonemode=strided --zonesize=8k --zonerange=3k --zoneskip=1k",
        ][..]),
        files in prop::sample::select(&[
            "", "--nrfiles=3", "--nrfiles=2 --file_service_type=random:2",
            "--nrfiles=3 --file_service_type=zipf --loops=2",
        ][..]),
        share in 0_u8..=100,
        thread in 1_u32..5,
        start in prop::sample::select(&[0, 4096, 1 << 40, u64::MAX - 100_000][..]),
        region in 0_u64..400_000,
        io in 0_u64..800_000,
        norandommap in any::<bool>(),
    ) {
        let map = u8::from(norandommap);
        let options = format!(
            "--rw={pattern} {sizes} --norandommap={map} --percentage_random={share} {draws} {files}"
        );
        let job = job(&options);
        let names = job.file_names(0);
        let (bytes, room, later) = (region, 0, start);
        let extents: Vec<Extent<'_>> =
            names.iter().map(|file| Extent { file, start, bytes, room, later }).collect();
        let mut offsets = Offsets::over(&job, thread, &extents, io, 0);
        for pass in 0..3 {
            let mut used = std::collections::HashSet::new();
            let unique = share == 100 && !norandommap && ["randread", "randrw"].contains(&pattern)
                && sizes == "--bs=4k" && io <= region && draws.is_empty() && files.is_empty()
                && pass == 0;
            let mut bytes = 0;
            while let Some(piece) = offsets.next() {
                prop_assert!(piece.bytes > 0 && piece.offset >= start);
                prop_assert!(piece.offset - start + piece.bytes <= region);
                prop_assert!(piece.file < names.len());
                prop_assert!(!unique || used.insert(piece.offset), "twice in pass {pass}");
                bytes += piece.bytes;
                prop_assert!(bytes < 2 * (io + (1 << 20)));
            }
            let _none_is_wanted = offsets.next_pass();
        }
    }
}
