// SPDX-License-Identifier: MIT OR Apache-2.0
//! Minimal jobs: former differences from fio, each as small as the shrinker made it.
//!
//! The answers are fio 3.33's: how many I/Os there are, and one of them by its number. So they are
//! judged even where fio is not installed; where it is, all I/Os are compared.

use super::both::{self, difference};
use super::folder;
use crate::common::skipped;

/// Options of a job on 4k blocks, how many I/Os it makes, and one of them: number, what it is.
type Minimal = (&'static str, usize, (usize, &'static str));

const MINIMAL: &[Minimal] = &[
    // The map has 64 blocks of 4k, of which 32 are drawn: after the last of these block 32 is free,
    // beyond the end, which ends the pass.
    ("rw=randread bs=8k,4k size=256k", 25, (24, "a.0.0 read 253952+8192")),
    // 44k is inside 46k, and has no room for a block: the end. At 48k a random one is made instead.
    ("rw=randread:4 size=46k", 7, (6, "a.0.0 read 40960+4096")),
    ("rw=randread:4 size=48k", 12, (10, "a.0.0 read 20480+4096")),
    // 7 * 4608 = 32256 of 32768: no room. 24k + 8k is the end itself: from the start again. An I/O
    // that ends at the end, 32k + 4k, is the last.
    ("rw=write:512 size=32k", 7, (6, "a.0.0 write 27648+4096")),
    ("rw=write:4k size=32k", 8, (4, "a.0.0 write 0+4096")),
    ("rw=write:4k size=36k", 5, (4, "a.0.0 write 32768+4096")),
    // From an offset it does not start again.
    ("rw=trim:8k size=32k", 8, (3, "a.0.0 trim 0+4096")),
    ("rw=trim:8k size=32k offset=12k", 3, (2, "a.0.0 trim 36864+4096")),
    // bsrange and bssplit win over bs in any order; 12k and 32k with a least of 12k are 12k and
    // 24k.
    ("rw=write bsrange=4k-16k bs=4k size=80k", 9, (2, "a.0.0 write 8192+8192")),
    ("rw=write bssplit=12k/50:32k/50 size=200k", 11, (3, "a.0.0 write 36864+24576")),
    // A bsrange after a bssplit bounds it: 16k become 12k, and 2k nothing.
    ("bssplit=16k/30:8k/ bsrange=4k-12k size=204288", 20, (0, "a.0.0 read 0+12288")),
    ("bssplit=2k/30:32k/ bsrange=8k-16k size=120k", 0, (0, "")),
    ("rw=randread ba=8k,16k size=64k", 16, (0, "a.0.0 read 0+4096")),
    // Passes of 4 blocks: 4 + 1; 4 and less than a block; 2 * 12k = 4 + 2; two passes, by then
    // 20k are made; three, because 36k - 32k is a block; 3 * 3.
    ("size=16k io_size=20k", 5, (4, "a.0.0 read 0+4096")),
    ("size=16k io_size=17k", 4, (3, "a.0.0 read 12288+4096")),
    ("size=16k loops=2 io_size=12k", 6, (4, "a.0.0 read 0+4096")),
    ("size=16k loops=2 io_size=20k", 8, (7, "a.0.0 read 12288+4096")),
    ("size=16k loops=2 io_size=36k", 12, (11, "a.0.0 read 12288+4096")),
    ("size=16k loops=3 number_ios=3", 9, (8, "a.0.0 read 0+4096")),
    // A pass ends when its reads would pass 30k, after 13; 90k are 22.5 blocks.
    ("rw=rw size=30k loops=3", 23, (13, "a.0.0 read 0+4096")),
    // The region is the file, after the offset: 48k of 64k, at most size.
    ("size=64k filesize=64k offset=16k", 12, (11, "a.0.0 read 61440+4096")),
    ("rw=randread size=64k filesize=128k", 16, (1, "a.0.0 read 94208+4096")),
    ("size=96k filesize=40k nrfiles=2", 20, (19, "a.0.1 read 36864+4096")),
    // 30 % of 67584 are 20275, rounded up 20480. 1k + 10 % of 32k are 4300, rounded up 8k.
    ("size=66k offset=30%", 16, (0, "a.0.0 read 20480+4096")),
    ("size=32k numjobs=2 offset_increment=10% offset=1k", 16, (8, "a.1.0 read 8192+4096")),
    // A later pass begins at 25 % of 80k, as far as the first one came; its end stays. Of random
    // ones the first beyond it is the end.
    ("size=64k offset=25% loops=4", 61, (16, "a.0.0 read 20480+4096")),
    ("rw=randread size=64k offset=25% loops=2", 24, (21, "a.0.0 read 77824+4096")),
    ("size=272k numjobs=2 offset_increment=24% loops=2", 268, (204, "a.1.0 read 86016+4096")),
    // The second of three clones is thread 3, whose first blocks are 0, 6, 5.
    ("rw=randread size=32k numjobs=3", 24, (9, "a.1.0 read 24576+4096")),
    // One after the other in each file; sequential trims and writes have sizes of their own.
    ("rw=trimwrite nrfiles=2 size=32k", 16, (1, "a.0.1 trim 0+4096")),
    ("rw=trimwrite bs=4k,8k,16k size=32k", 5, (3, "a.0.0 write 8192+8192")),
    ("rw=trimwrite bsrange=4k-16k size=80k", 18, (4, "a.0.0 trim 8192+8192")),
    ("rw=randtrimwrite:4 size=48k", 24, (4, "a.0.0 trim 32768+4096")),
    ("rw=randtrimwrite number_ios=5 size=32k", 10, (9, "a.0.0 write 16384+4096")),
    ("rw=trimwrite fsync=4 size=32k", 16, (8, "a.0.0 trim 16384+4096")),
    // Two blocks of 8k are in a zone of 20k, whose remainder ends the pass. 7 blocks of two files
    // leave the first zone: y, whose turn it is, starts again.
    ("rw=randread bs=8k size=64k zonemode=strided zonesize=20k", 2, (1, "a.0.0 read 8192+8192")),
    ("size=42k zonemode=strided zonesize=28k filename=x:y", 11, (7, "y read 0+4096")),
    // Two of three files are served by turns until one is at its end.
    ("size=48k nrfiles=3 openfiles=2", 12, (2, "a.0.0 read 4096+4096")),
    // At the end of a pass the due sync is made, and once more when the next begins.
    ("rw=write fsync=2 size=16k loops=2", 12, (6, "a.0.0 sync 0+0")),
    ("rw=write fsync=2 size=16k nrfiles=2 loops=2", 12, (6, "a.0.0 sync 0+0")),
    ("rw=write fdatasync=2 size=16k", 5, (2, "a.0.0 datasync 0+0")),
    ("rw=write sync_file_range=write:2 size=16k", 5, (2, "a.0.0 sync_file_range 0+0")),
    // A randseed of one's own: the second pass is another, of all generators.
    ("rw=randwrite size=24k loops=2 randseed=7", 12, (6, "a.0.0 write 8192+4096")),
    ("rw=randwrite size=24k loops=2 allrandrepeat=1", 12, (6, "a.0.0 write 0+4096")),
    ("rw=randread size=64k numjobs=2 randseed=7", 32, (16, "a.1.0 read 36864+4096")),
    // null has no file that ends: I/O begins within filesize, and reaches at most to size. A range
    // that has the size in it is not drawn from.
    ("size=30k filesize=25k", 7, (6, "a.0.0 read 24576+4096")),
    ("size=27k filesize=25k", 6, (5, "a.0.0 read 20480+4096")),
    ("size=100k filesize=25k rw=read:2000", 5, (4, "a.0.0 read 24384+4096")),
    // Random I/O, too; sizes that vary have to end within filesize.
    ("rw=randread bs=32k,12k size=252k filesize=216k", 6, (5, "a.0.0 read 196608+32768")),
    ("bssplit=4k/50:64k/50 filesize=98k size=200k randseed=1", 9, (8, "a.0.0 read 94208+4096")),
    ("size=30k filesize=20k-50k", 7, (6, "a.0.0 read 24576+4096")),
    // The last of 24 whole blocks: what comes after it cuts nothing.
    ("rw=randread bsrange=4k-10k bs_unaligned size=100000", 13, (5, "a.0.0 read 94208+5330")),
    // lfsr is over blocks of the least size of all directions, used or not: the fourth of 32 is 14
    // or more, 14 * 4k of 64k. Of 16 the first is 15: 15 * 8k are beyond 64k, and end the pass. A
    // zone's first block is added to each: 60 44 36, 56 + 4.
    ("rw=randwrite bs=4k,4k,2k size=64k random_generator=lfsr", 3, (0, "a.0.0 write 45056+4096")),
    ("rw=randwrite bs=4k,8k size=64k random_generator=lfsr", 0, (0, "")),
    (
        "rw=randread size=64k random_generator=lfsr random_distribution=zoned:60/10:40/90",
        16,
        (3, "a.0.0 read 61440+4096"),
    ),
    // The second zone is from 20k to 64k, in blocks of 16k 1 to 3.
    (
        "rw=randtrim bs=4k ba=16k size=112k random_distribution=zoned_abs:60/20k:40/44k",
        28,
        (8, "a.0.0 trim 49152+4096"),
    ),
    // In zones an lfsr is over a zone's blocks, and begins again with each.
    (
        "rw=randread size=64k random_generator=lfsr zonemode=strided zonesize=16k",
        16,
        (5, "a.0.0 read 16384+4096"),
    ),
    // Of 7 blocks 6 is the state before the first: last in the first pass, first in the second.
    // Beside an lfsr zones are chosen as in the first pass.
    ("rw=randread size=28k random_generator=lfsr loops=2", 14, (7, "a.0.0 read 24576+4096")),
    (
        "rw=randread size=64k random_generator=lfsr random_distribution=zoned:60/10:40/90 loops=2",
        32,
        (19, "a.0.0 read 61440+4096"),
    ),
    // The seed of the third thread ends in three ones, which an lfsr of 7 blocks cannot leave.
    ("rw=randread size=28k random_generator=lfsr numjobs=3", 14, (13, "a.2.0 read 12288+4096")),
    // (220962 - 4000 + 1024) / 1024 = 212 places: 212 * 189 / 256 = 156.
    ("rw=randread ba=1024 bs=4000 size=220962", 56, (1, "a.0.0 read 159744+4000")),
    // 51 % are 44k; 4k before the end 16k are drawn, as the later start of 51 % of 128k would have
    // room for them.
    ("bssplit=4k/10:16k/90 size=84k offset=51%", 5, (4, "a.0.0 read 110592+16384")),
    // A pass that ends with a continuation that found no place leaves the next draw, block 0, out
    // of the map, so that 0 is drawn once more; not if a sync comes between.
    ("rw=randread:3 size=12k loops=7", 21, (12, "a.0.0 read 0+4096")),
    ("rw=randwrite:3 size=12k loops=7 end_fsync=1", 25, (13, "a.0.0 write 4096+4096")),
    ("rw=randtrim percentage_random=40 size=154k loops=2", 58, (49, "a.0.0 trim 8192+4096")),
    // Each trim has its write, and only writes count: 12 of 47k are 48k.
    ("rw=randtrimwrite size=47k norandommap", 24, (23, "a.0.0 write 28672+4096")),
    ("rw=trimwrite bs=4k,4k,8k size=40k io_size=22k", 10, (9, "a.0.0 write 20480+4096")),
    ("rw=trimwrite size=16k number_ios=1 loops=2", 8, (4, "a.0.0 trim 0+4096")),
    // number_ios is so many trims and as many writes, of whichever file: 6 of 3. With three loops 6
    // by the end of the first pass, 12 of the second, 24 of the third.
    ("rw=trimwrite size=32k nrfiles=2 number_ios=3", 6, (5, "a.0.1 trim 4096+4096")),
    ("rw=trimwrite size=256k number_ios=1 loops=3", 24, (23, "a.0.0 write 20480+4096")),
    // Of the mix, too, a pass begins as the first one did: with a write.
    ("rw=randrw bs=16k,1k size=136k loops=2 rwmixwrite=97", 140, (70, "a.0.0 write 8192+1024")),
    // But it counts its reads and writes from the job's beginning, and so departs from it.
    ("rw=randrw size=100k rwmixread=27 loops=3 allrandrepeat=1", 75, (31, "a.0.0 read 36864+4096")),
    // Each pass begins with a read, after the writes of the one before: with 8 writes made reads
    // are kept until there are 4, and 2 were made.
    ("rw=randrw bs=4k,32k size=144k loops=3 numjobs=2", 37, (32, "a.1.0 read 24576+4096")),
    // An io_size in percent of the files is at most the size, and begins no further pass. Two
    // blocks of 16k use up a zone of 36k.
    (
        "rw=randread bs=16k size=236k io_size=34% zonemode=strided zonesize=48k zonerange=36k",
        2,
        (1, "a.0.0 read 16384+16384"),
    ),
    ("size=100k filesize=200k io_size=95%", 25, (24, "a.0.0 read 98304+4096")),
    ("size=20k nrfiles=3 bs=8k", 0, (0, "")),
    // Turns go on from pass to pass: the first sync of the second is of file 0.
    ("rw=randwrite size=12k nrfiles=2 loops=2 fdatasync=1", 9, (4, "a.0.0 datasync 0+0")),
    // A job that may write syncs all files at the end of a pass. number_ios leaves nothing for a
    // second pass, which is begun and ends with its sync; of four loops only the second is.
    ("rw=randrw rwmixread=100 size=8k end_fsync=1", 3, (2, "a.0.0 sync 0+0")),
    ("rw=write size=16k number_ios=1 loops=4 end_fsync=1", 6, (5, "a.0.0 sync 0+0")),
    ("rw=write size=16k loops=2 fsync_on_close=1", 10, (4, "a.0.0 sync 0+0")),
    // A sync that is due where a pass ends, with bytes left, is made; the pass's own are not.
    ("rw=write fdatasync=2 end_fsync=1 size=18k", 6, (5, "a.0.0 datasync 0+0")),
    ("rw=write fdatasync=2 end_fsync=1 size=16k loops=3 nrfiles=2", 21, (7, "a.0.1 write 0+4096")),
    // In zones: a draw of 9 blocks in a region of 3 ends the pass when it is beyond; I/Os between
    // two draws go from a zone's start over its end; a step beyond the region is the end; and a
    // file's used-up zone is free again only where the bytes of all files are whole zones.
    ("rw=randread size=12k zonemode=strided zonesize=36k", 1, (0, "a.0.0 read 0+4096")),
    ("rw=randwrite:5 size=76k zonemode=strided zonesize=16k", 19, (7, "a.0.0 write 16384+4096")),
    ("rw=trim:12k size=120k zonemode=strided zonesize=36k", 28, (27, "a.0.0 trim 110592+4096")),
    (
        "rw=randread nrfiles=2 size=64k zonemode=strided zonesize=8k",
        16,
        (5, "a.0.0 read 20480+4096"),
    ),
    // Reads of 4k look for a place of the map of 512 bytes, and find one beyond the zone.
    (
        "rw=randrw bs=,512 size=388k zonemode=strided zonesize=44k number_ios=50",
        50,
        (32, "a.0.0 read 90112+4096"),
    ),
    // A zone begins again for both directions when they have made its 20k together.
    (
        "rw=rw rwmixread=55 size=100k zonemode=strided zonesize=32k zonerange=20k",
        25,
        (5, "a.0.0 read 0+4096"),
    ),
    // Zones under null go on after filesize.
    (
        "size=192k filesize=68k zonemode=strided zonesize=44k zoneskip=12k",
        17,
        (14, "a.0.0 read 69632+4096"),
    ),
    // A step back from a start that is not the file's own.
    ("rw=read:-8k offset=8k size=64k", 16, (0, "a.0.0 read 57344+4096")),
    // After the last zone it goes on where a later pass begins: at 15 % of 180k.
    (
        "size=156k offset=15% zonemode=strided zonesize=20k zoneskip=44k",
        39,
        (15, "a.0.0 read 28672+4096"),
    ),
    // So do sizes that vary, but they end within filesize: after 72k even 8k would end at 80k of
    // 78k.
    (
        "bsrange=8k-16k size=90k filesize=78k zonemode=strided zonesize=16k zoneskip=16k",
        4,
        (3, "a.0.0 read 65536+8192"),
    ),
    // 40k is not the end of what null reads, and still no place for an I/O that continues; where it
    // is the end, a random one is made.
    ("rw=randread:4 size=48k filesize=40k", 7, (6, "a.0.0 read 36864+4096")),
    ("rw=randread:4 size=40k filesize=40k", 10, (7, "a.0.0 read 32768+4096")),
    // A step back from the end of filesize, 32k, goes to 28k, where an I/O begins; from 36k to 32k,
    // where none does.
    ("rw=read:-4k bs=8k size=64k filesize=32k io_size=80k", 10, (7, "a.0.0 read 28672+8192")),
    // 48k of the file are before a start at 52k: of the region, 100k. A step longer than the region
    // ends the pass.
    ("rw=read:-16k size=64k offset=52k", 16, (0, "a.0.0 read 102400+4096")),
    ("rw=trim:-32k size=28k", 1, (0, "a.0.0 trim 0+4096")),
    ("rw=read:-32k size=28k offset=4k", 0, (0, "")),
    // 31 % of 40k are 12697.
    ("bs=12k size=8m filesize=40k io_size=31%", 2, (1, "a.0.0 read 12288+12288")),
    ("bs=12k size=30k filesize=400k io_size=11%", 3, (2, "a.0.0 read 24576+12288")),
    // A file of a skewed choice starts over in its zone, the third, which lacks a block of its two.
    (
        "size=20k zonemode=strided zonesize=8k loops=3 file_service_type=normal:20",
        15,
        (5, "a.0.0 read 16384+4096"),
    ),
    // Block 5 of the map of 4k is 40k in blocks of 8k, beyond filesize.
    ("rw=randrw bs=8k,4k size=312k filesize=39429", 5, (4, "a.0.0 read 8192+8192")),
    // The ninth place of 33333 bytes has no room for a block, and zipf draws it seven times in a
    // row.
    (
        "rw=randread random_distribution=zipf size=100000 nrfiles=3 file_service_type=normal:20",
        25,
        (8, "a.0.1 read 4096+4096"),
    ),
    // A zone that reaches beyond the file ends each pass at its fourth draw, of zones as of blocks.
    (
        "rw=randread size=24k io_size=64k random_distribution=zoned_abs:60/20k:40/44k",
        16,
        (4, "a.0.0 read 12288+4096"),
    ),
    // A write finds block 8 of the map of 2k, which is 32k in blocks of 4k: beyond the end, though
    // other blocks are free. A file of a skewed choice starts over then, and all is drawn again.
    ("rw=randrw bs=2k,4k size=32k file_service_type=zipf", 12, (10, "a.0.0 read 20480+2048")),
    // The third clone begins at the end of its file, and the last sync is all that it does.
    (
        "rw=write size=4k filesize=104k numjobs=3 offset_increment=52k end_fsync=1",
        5,
        (4, "a.2.0 sync 0+0"),
    ),
    // With one file open a drawn file stays to its end.
    ("size=60k nrfiles=3 file_service_type=zipf openfiles=1", 15, (6, "a.0.1 read 4096+4096")),
    // A share of 0 is a blank one: 8k has 50 %. A size alone without a share has none, which a
    // range after it shows.
    ("bssplit=8k/0:4k/ size=64k", 10, (0, "a.0.0 read 0+8192")),
    ("bssplit=8k/ bsrange=4k-16k size=64k", 0, (0, "")),
    // With openfiles above 1 there are no zones: 8k of I/O do not restart file 1.
    ("size=20k nrfiles=2 openfiles=3 zonemode=strided zonesize=8k", 4, (2, "a.0.0 read 4096+4096")),
    // (32k - 2k) / 2k = 15 places of a zone, of which 12 is drawn; of 16 it would be 13.
    (
        "rw=randread ba=2k size=64k zonemode=strided zonesize=32k zoneskip=8k",
        8,
        (2, "a.0.0 read 24576+4096"),
    ),
    // The seed of a clone after the first is 0xb1899bed * T + 6 with both.
    ("rw=randread size=32k numjobs=2 randseed=7 allrandrepeat=1", 16, (8, "a.1.0 read 12288+4096")),
    ("rw=randread size=32k randrepeat=0 allrandrepeat=1", 8, (0, "a.0.0 read 20480+4096")),
    // A random I/O instead of a continuation at the end is as long as a continuation.
    ("rw=randwrite:3 bs=8k,4k bs_is_seq_rand=1 size=64k", 10, (8, "a.0.0 write 28672+8192")),
    // Zones longer than a file: where a block was drawn beyond it, or none is free, a skewed choice
    // draws a file anew instead of another block.
    (
        "rw=randread size=24k nrfiles=3 file_service_type=pareto:0.4 zonemode=strided zonesize=16k \
         loops=2",
        12,
        (10, "a.0.1 read 4096+4096"),
    ),
    // A zone of less than a block has no place, but a skewed draw is one of the file's.
    (
        "rw=randwrite bs=32k size=296k random_distribution=zipf zonemode=strided zonesize=4k",
        3,
        (0, "a.0.0 write 229376+32768"),
    ),
    // tausworthe64 draws sizes and files, too.
    ("bsrange=1k-5k size=4k random_generator=tausworthe64", 2, (0, "a.0.0 read 0+2048")),
    (
        "size=412k nrfiles=2 file_service_type=random:3 random_generator=tausworthe64",
        102,
        (0, "a.0.0 read 0+4096"),
    ),
];

fn text(options: &str) -> String {
    let lines: Vec<&str> = options.split(' ').collect();
    format!("[a]\nioengine=null\nwrite_iolog=log\n{}\n", lines.join("\n"))
}

/// Does each job make the number of I/Os that fio made, and the one that was wrong?
#[test]
fn minimal_jobs_make_what_fio_made() {
    let mut wrong = Vec::new();
    for (options, count, (nth, io)) in MINIMAL {
        let logs = both::ours(&text(options)).unwrap_or_else(|why| panic!("{options}: {why}"));
        let ios = &logs["log"];
        let show =
            |(file, action, offset, bytes): &both::Io| format!("{file} {action} {offset}+{bytes}");
        let found = ios.get(*nth).map(show).unwrap_or_default();
        if ios.len() != *count || found != *io {
            let ours = ios.len();
            wrong.push(format!("{options}: {ours} for {count}; I/O {nth} {found} for {io}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Are those answers, and all other I/Os of these jobs, still the installed fio's?
#[test]
fn minimal_jobs_equal_the_installed_fio() {
    if !super::fio_is_here() {
        return;
    }
    let folder = folder("minimal").join("minimal");
    let mut wrong = Vec::new();
    for (options, ..) in MINIMAL {
        let text = text(options);
        let (ours, theirs) = (both::ours(&text), both::theirs(&text, &folder));
        if theirs.as_ref().is_err_and(|why| why == both::LATE) {
            skipped(&format!("{options}: fio did not end in time"));
            continue;
        }
        let both = ours.and_then(|ours| Ok((ours, theirs?)));
        let (ours, theirs) = both.unwrap_or_else(|why| panic!("{options}: {why}"));
        if let Some(found) = difference(&ours["log"], &theirs["log"]) {
            wrong.push(format!("{options}: {found}"));
        }
    }
    let _left = std::fs::remove_dir_all(folder);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
