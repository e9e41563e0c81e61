// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises: what one might expect of a scheduler, each as an experiment of a few virtual seconds.
//!
//! A promise is a workload on a device, a figure of its run (perhaps compared with another run's),
//! and the range in which the figure says that the promise was kept:
//!
//! ```text
//! groups    two sequential readers in groups of weight 300 and 100, on a disk
//!           bandwidth of one divided by that of the other          kept from 2.7 to 3.3
//! ```
//!
//! Lasting effects are measured when all have run for 15 s and more (on flash 4 s): at first BFQ
//! takes every reader for a starting application.
//!
//! The devices are the emulated ones and the models that other experiments use, so nothing here was
//! fitted to favour a scheduler.
//!
//! Source: BFQ-68 to BFQ-74, BFQ-94 to BFQ-109, BFQ-180 to BFQ-188, BFQ-G1 to BFQ-G14;
//! the questions are those that administrators ask.

use crate::reproduce::experiment::Measured;

/// One server, 100 us, 8 ms if not contiguous, 150 MB/s.
const DISK: &str = "lab-disk";
/// Flash that queues 32 commands.
const FLASH: &str = "ssd-px256m5s";

/// What a figure is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// With nothing: the figure itself is judged.
    Nothing,
    /// The same scheduler with these jobs.
    Jobs(&'static str),
    /// The same jobs under `noop`.
    Noop,
}

/// An expectation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Promise {
    /// Heading of its column.
    pub(crate) word: &'static str,
    /// The question that the promise answers.
    pub(crate) question: &'static str,
    pub(crate) device: &'static str,
    pub(crate) jobs: &'static str,
    pub(crate) beside: Beside,
    /// The figure, from the run and the one it is compared with.
    pub(crate) figure: fn(&Measured, Option<&Measured>) -> Option<f64>,
    pub(crate) unit: &'static str,
    /// Kept from, to.
    pub(crate) kept: (f64, f64),
}

fn number(measured: &Measured, what: &str) -> Option<f64> {
    measured.numbers.get(what).copied()
}

fn by(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    Some(above? / below?).filter(|ratio| ratio.is_finite())
}

/// `a` divided by `b`, in bandwidth.
fn shares(run: &Measured, _: Option<&Measured>) -> Option<f64> {
    by(number(run, "a kB/s"), number(run, "b kB/s"))
}

/// Per cent of the other run's bandwidth, all jobs together.
fn total_of(run: &Measured, beside: Option<&Measured>) -> Option<f64> {
    by(number(run, "section 0 kB/s"), number(beside?, "section 0 kB/s")).map(|part| 100.0 * part)
}

/// Per cent of the other run's bandwidth, job `a` alone.
fn part_of(run: &Measured, beside: Option<&Measured>) -> Option<f64> {
    by(number(run, "a kB/s"), number(beside?, "a kB/s")).map(|part| 100.0 * part)
}

fn device_time(run: &Measured, _: Option<&Measured>) -> Option<f64> {
    number(run, "a device time %")
}

fn longest(run: &Measured, _: Option<&Measured>) -> Option<f64> {
    number(run, "a max us").map(|us| us / 1000.0)
}

const LEVELS: &str = "
[global]
rw=read
bs=128k
size=400m
time_based
ramp_time=15s
runtime=4s
direct=1
[a]
prio=0
[b]
prio=7
";
const GROUPS: &str = "
[global]
rw=read
bs=128k
size=400m
time_based
ramp_time=15s
runtime=6s
direct=1
[a]
cgroup=a
cgroup_weight=300
[b]
cgroup=b
cgroup_weight=100
";
const CROWD: &str = "
[global]
rw=randread
bs=16k
size=256m
ioengine=libaio
iodepth=8
time_based
ramp_time=30s
runtime=20s
direct=1
[a]
cgroup=a
cgroup_weight=100
[b]
cgroup=b
cgroup_weight=100
numjobs=16
";
const APPLICATION: &str = "
[a]
rw=randread
bs=16k
size=400m
direct=1
number_ios=200
";
const START: &str = "
[global]
direct=1
size=400m
[b]
rw=read
bs=128k
numjobs=5
time_based
runtime=30s
[a]
rw=randread
bs=16k
number_ios=200
startdelay=15s
";
const READ_BESIDE_WRITES: &str = "
[global]
direct=1
size=400m
time_based
ramp_time=15s
runtime=5s
[a]
rw=randread
bs=4k
thinktime=5ms
[b]
rw=write
bs=64k
ioengine=libaio
iodepth=64
";
const WRITE_BESIDE_READS: &str = "
[global]
direct=1
size=400m
time_based
ramp_time=15s
runtime=5s
[a]
rw=randwrite
bs=4k
ioengine=libaio
iodepth=1
[b]
rw=read
bs=128k
numjobs=8
";
const ONE_READER: &str =
    "[a]\nrw=read\nbs=128k\nsize=400m\ntime_based\nramp_time=15s\nruntime=4s\ndirect=1\n";
const FOUR_READERS: &str = "
[a]
rw=read
bs=128k
size=400m
time_based
ramp_time=15s
runtime=4s
direct=1
numjobs=4
";
const RANDOM: &str = "
[a]
rw=randread
bs=4k
size=400m
time_based
ramp_time=4s
runtime=1s
direct=1
numjobs=16
";
const WEIGHED_FLASH: &str = "
[global]
rw=randread
bs=4k
size=400m
time_based
ramp_time=4s
runtime=1s
direct=1
ioengine=libaio
iodepth=32
[a]
cgroup=a
cgroup_weight=300
[b]
cgroup=b
cgroup_weight=100
";
const IDLE_CLASS: &str = "
[global]
rw=read
bs=128k
size=400m
time_based
ramp_time=15s
runtime=6s
direct=1
[a]
prioclass=3
[b]
";

/// All of them, in the order of the columns.
pub(crate) const ALL: [Promise; 10] = [
    Promise {
        word: "levels",
        question: "Does a sequential reader of best-effort level 0 get more than one of level 7? \
                   (bandwidth of one by that of the other)",
        device: DISK,
        jobs: LEVELS,
        beside: Beside::Nothing,
        figure: shares,
        unit: "",
        kept: (2.0, f64::INFINITY),
    },
    Promise {
        word: "groups",
        question: "Do groups of weight 300 and 100, a sequential reader in each, share 3 to 1?",
        device: DISK,
        jobs: GROUPS,
        beside: Beside::Nothing,
        figure: shares,
        unit: "",
        kept: (2.7, 3.3),
    },
    Promise {
        word: "crowd",
        question: "Does one process, eight random reads at a time, keep half of the device time \
                   against a group of 16 such processes, of the same weight?",
        device: DISK,
        jobs: CROWD,
        beside: Beside::Nothing,
        figure: device_time,
        unit: "%",
        kept: (45.0, 55.0),
    },
    Promise {
        word: "flash groups",
        question: "Do groups of weight 300 and 100 share 3 to 1 on flash, 32 random reads of each \
                   under way?",
        device: FLASH,
        jobs: WEIGHED_FLASH,
        beside: Beside::Nothing,
        figure: shares,
        unit: "",
        kept: (2.7, 3.3),
    },
    Promise {
        word: "start",
        question: "Does an application's start, 200 random reads, keep a third of its speed beside \
                   five sequential readers? (of its speed alone)",
        device: DISK,
        jobs: START,
        beside: Beside::Jobs(APPLICATION),
        figure: part_of,
        unit: "%",
        kept: (33.0, f64::INFINITY),
    },
    Promise {
        word: "read",
        question: "How long does a small read wait at worst beside 64 writes in flight? Under a \
                   quarter of a second?",
        device: DISK,
        jobs: READ_BESIDE_WRITES,
        beside: Beside::Nothing,
        figure: longest,
        unit: "ms",
        kept: (0.0, 250.0),
    },
    Promise {
        word: "write",
        question: "How long does a small write wait at worst beside eight sequential readers? \
                   Under two seconds?",
        device: DISK,
        jobs: WRITE_BESIDE_READS,
        beside: Beside::Nothing,
        figure: longest,
        unit: "ms",
        kept: (0.0, 2000.0),
    },
    Promise {
        word: "idle class",
        question: "Does a reader of the idle class beside a best-effort one get something, and at \
                   most a tenth of the time?",
        device: DISK,
        jobs: IDLE_CLASS,
        beside: Beside::Nothing,
        figure: device_time,
        unit: "%",
        kept: (0.01, 10.0),
    },
    Promise {
        word: "disk speed",
        question: "Do four sequential readers together reach 80 % of what one does alone?",
        device: DISK,
        jobs: FOUR_READERS,
        beside: Beside::Jobs(ONE_READER),
        figure: total_of,
        unit: "%",
        kept: (80.0, f64::INFINITY),
    },
    Promise {
        word: "flash speed",
        question: "Do sixteen random readers of equal weight on flash reach 95 % of what noop \
                   does?",
        device: FLASH,
        jobs: RANDOM,
        beside: Beside::Noop,
        figure: total_of,
        unit: "%",
        kept: (95.0, f64::INFINITY),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the ranges ranges, and the words different?
    #[test]
    fn promises_are_sound() {
        for (place, promise) in ALL.iter().enumerate() {
            assert!(promise.kept.0 < promise.kept.1, "{}", promise.word);
            assert!(ALL[..place].iter().all(|other| other.word != promise.word));
            assert!(promise.question.contains('?'), "{}", promise.word);
        }
    }
}
