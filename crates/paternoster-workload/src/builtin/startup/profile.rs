// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles: what programs read while they start, from published counts, as data.
//!
//! A profile is a relay of *legs*: one process makes a number of reads, with a number of KiB; then
//! the next goes on. In the recordings no two processes take turns within a leg, though they have
//! several CPUs: one waits for the other.
//!
//! ```text
//! process            requests   KiB  at random  ahead
//! xterm                   376  3264         60    288
//! Xorg                      1     4          1      0       its answer to xterm
//! xterm                   124   752         19     93
//! ```
//!
//! *At random* means not after the request before it. *Ahead* are reads that nothing waits for:
//! with a block of a table of inodes the file system reads the 31 blocks after it. All other
//! requests are waited for, one after the other.
//!
//! Counts of `gnome-terminal`, `libreoffice` and `xterm` were taken from the start-ups that come
//! with the S suite (github.com/Algodev-github/S, commit 27fa2b229ec6, `comm_startup_lat/*.trace`);
//! two requests of a journal's thread are left out. Those of `lxterminal` were never published: see
//! there.
//!
//! What is not counted there is the same for all:
//!
//! * Requests are of 4 KiB, as most of the recorded ones are (2546 of 2781, 798 of 1268, 643 of
//!   718), or of one larger size, the mean of the others; which are large is drawn.
//! * A request that is not at random follows the one before it. In the recordings about a sixth of
//!   these is a short hop away.
//! * Jumps are drawn from 16 GiB. On a disk of 300 GB that makes seeks about as long as those of
//!   the recorded jumps.
//! * Between the end of a request that is waited for and the next one a process thinks; between two
//!   legs 2 ms pass. The think time was fitted: with it gnome-terminal takes the 0.51 s of its
//!   recording, which was made on flash, alone on `ssd-870evo`.

use paternoster_core::Nanos;

/// Time between the end of a request that is waited for and the next one.
pub(super) const THINK: Nanos = Nanos::from_micros(460);
/// Time between two legs.
pub(super) const PAUSE: Nanos = Nanos::from_millis(2);

/// The reads of one process until another one goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// The process, by its index in [`Profile::processes`].
    pub process: u32,
    /// Requests.
    pub requests: u32,
    /// KiB of all of them, a multiple of 4.
    pub kib: u32,
    /// Requests that do not follow the one before.
    pub random: u32,
    /// Requests of 4 KiB that are read ahead with others; none of those at random.
    pub ahead: u32,
}

impl Leg {
    /// Requests that are waited for.
    #[must_use]
    pub const fn waited_for(&self) -> u32 {
        self.requests - self.ahead
    }
}

const fn leg(process: u32, requests: u32, kib: u32, random: u32, ahead: u32) -> Leg {
    Leg { process, requests, kib, random, ahead }
}

/// A program's start.
#[derive(Debug)]
pub struct Profile {
    /// The name it is requested by.
    pub name: &'static str,
    /// The source of its counts.
    pub source: &'static str,
    /// Its processes.
    pub processes: &'static [&'static str],
    /// KiB of a large one among those that are waited for.
    pub large_kib: u32,
    /// Which process reads what, in order.
    pub legs: &'static [Leg],
}

impl Profile {
    /// Requests of all legs.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.legs.iter().map(|leg| u64::from(leg.requests)).sum()
    }

    /// Bytes of all legs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.legs.iter().map(|leg| u64::from(leg.kib) << 10).sum()
    }

    /// Requests of all legs that are waited for.
    #[must_use]
    pub fn waited_for(&self) -> u64 {
        self.legs.iter().map(|leg| u64::from(leg.waited_for())).sum()
    }

    /// Requests at random of all legs.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.legs.iter().map(|leg| u64::from(leg.random)).sum()
    }
}

/// All profiles.
pub static PROFILES: &[Profile] = &[
    Profile {
        name: "gnome-terminal",
        source: "S suite, comm_startup_lat/gnometerm.trace: 2781 requests, 21.1 MB, 14.5 % random",
        processes: &[
            "gnome-terminal",
            "gnome-terminal.",
            "dbus-launch",
            "dbus-daemon",
            "gnome-terminal--",
            "true",
        ],
        large_kib: 44,
        legs: &[
            leg(0, 852, 8676, 128, 602),
            leg(1, 662, 4988, 140, 457),
            leg(2, 40, 188, 8, 30),
            leg(3, 4, 16, 2, 2),
            leg(4, 75, 616, 10, 59),
            leg(3, 96, 384, 2, 90),
            leg(4, 1012, 5084, 104, 660),
            leg(1, 1, 68, 1, 0),
            leg(5, 33, 156, 3, 28),
            leg(1, 4, 336, 4, 0),
        ],
    },
    // Seed 004 has only the time: 6.5 s on a FUJITSU MHX2300BT with sequential readers and writers,
    // under a scheduler that lets almost none of them in between; 7.5 s when queues of others were
    // merged with those of "processes that had to do some urgent but little I/O". The counts are
    // gnome-terminal's, in one process and four that do little; those at random were fitted so that
    // it takes 6.2 s alone on `hdd-mhx2300bt`, 0.4 s of which it computes.
    Profile {
        name: "lxterminal",
        source: "the mail of 20 December 2017: 6.5 s on an MHX2300BT beside readers and writers; \
                 counts after gnome-terminal's, fitted to 6.2 s alone on hdd-mhx2300bt",
        processes: &["lxterminal", "dbus-launch", "dbus-daemon", "menu", "shell"],
        large_kib: 44,
        legs: &[
            leg(0, 900, 9000, 150, 620),
            leg(1, 40, 188, 8, 30),
            leg(0, 680, 5200, 145, 460),
            leg(2, 96, 384, 2, 90),
            leg(0, 1000, 5200, 135, 640),
            leg(3, 33, 156, 3, 28),
            leg(0, 60, 600, 15, 30),
            leg(4, 33, 156, 3, 28),
        ],
    },
    Profile {
        name: "libreoffice",
        source: "S suite, comm_startup_lat/lowriter.trace: 1268 requests, 48.6 MB, 27 % random \
                 (BFQ's commentary: at most 110,000 sectors = 56.3 MB in one queue)",
        processes: &["lowriter", "oosplash", "javaldx", "soffice.bin"],
        large_kib: 96,
        legs: &[
            leg(0, 72, 292, 7, 62),
            leg(1, 389, 2148, 53, 316),
            leg(2, 164, 2452, 41, 98),
            leg(3, 643, 42_592, 242, 162),
        ],
    },
    Profile {
        name: "xterm",
        source: "S suite, comm_startup_lat/xterm.trace: 718 requests, 6.2 MB, 15 % random",
        processes: &["xterm", "Xorg"],
        large_kib: 48,
        legs: &[
            leg(0, 376, 3264, 60, 288),
            leg(1, 1, 4, 1, 0),
            leg(0, 124, 752, 19, 93),
            leg(1, 38, 152, 4, 31),
            leg(0, 13, 188, 5, 0),
            leg(1, 47, 616, 6, 30),
            leg(0, 119, 1060, 14, 93),
        ],
    },
];

/// The profile of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}
