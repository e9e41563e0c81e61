// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks, measured as counted work: what each costs the server for each event, and what another
//! client gets meanwhile. `benches/hostile` runs the same attacks in real time.
//!
//! ```text
//! a turn    the attackers send what they may; the victim, if it was answered, asks for a block
//! an event  a request, a connect, an option; a command of the device; 8 KiB that moved
//! ```
//!
//! Each attack is run with a number of connections and with four times as many: the work for an
//! event is below the same constants, and the victim is answered in nearly every turn.
//!
//! ```text
//! calls    7   a read that finds it, one that finds no more, its answer; if the socket is full,
//!              one more try and one `epoll_ctl`; if memory is short, two queries of the socket
//! looks    4   a ready connection, one that is let go, a segment that is locked and freed
//! copied   its payload once; what was read and is not parsed yet, at most 4 KiB, whenever a
//!        fragment of it was parsed; heads of answers, of which that to a question
//!          for holes is the longest: 256 runs of 8 bytes
//! ```

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use paternoster_core::Nanos;
use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::clock::Clock;
use crate::config::Tenant;
use crate::device_loop::NO_TIME;
use crate::device_loop::inbox::{Slot, inbox};
use crate::device_loop::judge::house::Street;
use crate::device_loop::planted::{Bug, plant};
use crate::device_loop::rig::{BLOCK, Client, READ, Rig, STATUS, TRIM, WRITE, ZEROES};
use crate::export_table::ExportTable;
use crate::negotiation::Negotiation;
use crate::reload::Word;
use crate::tally::{self, Tally};

const FLUSH: u16 = 3;
const FUA: u16 = 1;
/// Turns that are judged, and the turns before them, in which all begin: bfq makes its first 194
/// budgets 10,922 sectors each, 1,365 of the victim's reads, whatever `max_budget` is.
const TURNS: u64 = 200;
const FIRST: u64 = 1500;
const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
const GO: u32 = 7;
const LIST: u32 = 3;

/// System calls, and list entries that are looked at, for an event at most.
const CALLS: u64 = 7;
const LOOKS: u64 = 4;
/// Bytes that are copied at most: for an event, and for each byte that a client sends.
const COPIED: u64 = 2560;
const COPIES: u64 = 3;
/// Bytes of the log for the flood of one user: 20 warnings of at most 1 KiB, and as many of the
/// server's own.
const SAID: u64 = 40 << 10;
/// The most runs in the answer to a question for holes; a turn has one such question.
const RUNS: u32 = 256;

/// A connection of an attacker.
struct Attacker {
    client: Client,
    sent: u64,
    bytes: u64,
}

/// What a request is: flags, kind, where, how long; its payload.
type Request = (u16, u16, u64, u64, &'static [u8]);

impl Attacker {
    fn send(&mut self, (flags, kind, at, length, payload): Request) {
        self.client.send_flagged(flags, kind, at, length, payload);
        self.sent += 1;
        self.bytes += 28 + payload.len() as u64;
    }

    /// Keeps `depth` of these under way; returns how many were sent.
    fn flood(&mut self, depth: u64, each: impl Fn(u64) -> Request) -> u64 {
        let free = if self.sent == 0 { depth } else { self.client.answers().len() as u64 };
        (0..free).for_each(|_| self.send(each(self.sent)));
        free
    }

    /// Sends these in the first turn, and takes no answer.
    fn once(&mut self, many: u64, each: impl Fn(u64) -> Request) -> u64 {
        let many = if self.sent == 0 { many } else { 0 };
        (0..many).for_each(|_| self.send(each(self.sent)));
        many
    }

    /// A read of 512 bytes, a byte in each turn.
    fn drip(&mut self, _: u64) -> u64 {
        let mut head = [0; 28];
        head[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
        head[24..].copy_from_slice(&512u32.to_be_bytes());
        let byte = head[usize::try_from(self.bytes % 28).expect("a place")];
        self.client.answers();
        // If the server does not read, the client's socket is full in the end: each byte takes a
        // page.
        let sent = u64::from(self.client.stream.write(&[byte]).is_ok());
        self.bytes += sent;
        sent
    }
}

/// What a connection does in a turn; returns how many events that is.
type Act = fn(&mut Attacker, u64) -> u64;

/// Attackers past the handshake: how many, and what each does.
const CHOSEN: [(&str, usize, Act); 13] = [
    ("begun writes", 100, |one, _| one.once(1, |_| (0, WRITE, 0, 32 << 20, &[1; 1000]))),
    ("single bytes", 16, |one, _| one.flood(16, |at| (0, WRITE, at % 90 * BLOCK + 7, 1, &[1]))),
    ("block status", 16, |one, _| one.flood(16, |_| (0, STATUS, 0, 256 << 20, &[]))),
    ("refused", 16, |one, _| one.flood(64, |_| (0, READ, 1, u32::MAX.into(), &[]))),
    ("deaf", 60, |one, _| one.once(16, |at| (0, READ, at << 20, 1 << 20, &[]))),
    ("zeroes", 16, |one, _| one.flood(4, |_| (0, ZEROES, 0, 64 << 20, &[]))),
    ("trims", 16, |one, _| one.flood(4, |_| (0, TRIM, 0, 64 << 20, &[]))),
    ("flushes", 16, |one, _| one.flood(64, |_| (0, FLUSH, 0, 0, &[]))),
    ("unknown", 16, |one, _| one.flood(64, |_| (0, 77, 0, 0, &[]))),
    ("drips", 100, Attacker::drip),
    ("large reads", 16, |one, _| one.flood(4, |_| (0, READ, 0, 8 << 20, &[]))),
    ("durable writes", 16, |one, _| {
        one.flood(16, |at| (FUA, WRITE, at % 4096 * BLOCK, BLOCK, &[1; 4096]))
    }),
    ("small reads", 16, |one, _| one.flood(64, |at| (0, READ, at * 977 % 65536 * BLOCK, 512, &[]))),
];

/// A loop with a negotiation before it.
struct Town {
    rig: Rig,
    negotiation: Negotiation<Street>,
    street: Street,
    _door: Slot<Word>,
    /// Connections of each of [`IN_HANDSHAKE`].
    held: [Vec<UnixStream>; 4],
}

impl Town {
    fn new() -> Town {
        let rig = Rig::new("bfq", |config| {
            config.server.connections = 2000;
            // Otherwise the tenant that is served first keeps the device for 8 MiB: 2,048 turns of
            // a client that reads one block in each.
            let budget = ("max_budget".to_owned(), "64".to_owned());
            config.devices[0].attributes = vec![budget];
            let tenant = |name, weight| Tenant { weight, ..Tenant::new(name) };
            config.tenants = vec![tenant("attacker", 100), tenant("victim", 100)];
        });
        let street = Street::new();
        let mut export_table = ExportTable::default();
        export_table.add(rig.exports.clone(), &rig.messages);
        let (door, inbox) = inbox().expect("an inbox");
        let config = Arc::new(rig.config.clone());
        let negotiation = Negotiation::new(config, export_table, vec![street.clone()], None, inbox);
        Town {
            rig,
            negotiation: negotiation.expect("a negotiation"),
            street,
            _door: door,
            held: Default::default(),
        }
    }

    fn turn(&mut self) {
        self.negotiation.clock = Clock::Told(self.rig.now);
        self.negotiation.round(&NO_TIME);
        // As long as a request takes on a fast device: a client that is answered asks again before
        // the scheduler would idle.
        self.rig.turn(Nanos::from_micros(10));
    }

    /// Totals so far: looks at locks, device commands, bytes moved, and bytes that attackers have
    /// sent.
    fn so_far(&self, attackers: &[(Attacker, Act)]) -> [u64; 4] {
        let Rig { device_loop, commands, .. } = &self.rig;
        let moved =
            device_loop.connections.iter().map(|(_, connection)| bytes_of(connection)).sum();
        let sent = attackers.iter().map(|(one, _)| one.bytes).sum();
        [
            device_loop.requests.changes().steps(),
            commands.load(Ordering::SeqCst).into(),
            moved,
            sent,
        ]
    }

    /// A client that connects and sends this.
    fn visit(&mut self, says: &[u8]) -> UnixStream {
        let (mut stream, theirs) = UnixStream::pair().expect("sockets");
        theirs.set_nonblocking(true).expect("a socket");
        stream.set_nonblocking(true).expect("a socket");
        self.street.come(OwnedFd::from(theirs), 0, None);
        stream.write_all(says).expect("room in the socket");
        stream
    }

    /// Clients that connect, send this, and disconnect in the next turn.
    fn come_and_go(&mut self, which: usize, many: usize, says: &[u8]) -> u64 {
        self.held[which] = (0..many).map(|_| self.visit(says)).collect();
        2 * many as u64
    }

    /// Clients in handshake that send nothing.
    fn stay(&mut self, which: usize, many: usize) -> u64 {
        let new = many - self.held[which].len();
        (0..new).for_each(|_| {
            let one = self.visit(&[]);
            self.held[which].push(one);
        });
        new as u64
    }

    /// Clients in handshake that list exports; one that has reached the limit of a handshake
    /// connects again.
    fn list(&mut self, which: usize, many: usize) -> u64 {
        for place in 0..many {
            let asks = |one: &mut UnixStream| {
                while matches!(one.read(&mut [0; 4096]), Ok(read) if read != 0) {}
                one.write_all(&option(LIST, &[])).is_ok()
            };
            if self.held[which].get_mut(place).is_none_or(|one| !asks(one)) {
                let one = self.visit(&[0, 0, 0, 3]);
                self.held[which].truncate(place);
                self.held[which].push(one);
            }
        }
        many as u64
    }
}

fn option(which: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = IHAVEOPT.to_be_bytes().to_vec();
    bytes.extend(which.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).expect("a length").to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Flags, and GO for the disk.
fn choice() -> Vec<u8> {
    let data = [&4u32.to_be_bytes()[..], b"disk", &[0; 2]].concat();
    [&3u32.to_be_bytes()[..], &option(GO, &data)].concat()
}

/// What that many clients in handshake do in a turn; returns how many events that is.
type Visit = fn(&mut Town, usize) -> u64;

const IN_HANDSHAKE: [(&str, usize, Visit); 4] = [
    ("rubbish", 8, |town, many| town.come_and_go(0, many, &[0xff; 64])),
    ("come and go", 8, |town, many| town.come_and_go(1, many, &choice())),
    ("silent", 100, |town, many| town.stay(2, many)),
    ("lists", 16, |town, many| town.list(3, many)),
];

/// The work of [`TURNS`] turns after the first ones, and what the victim got.
#[derive(Debug, Default)]
struct Had {
    tally: Tally,
    events: u64,
    bytes: u64,
    reads: u64,
    latest: u64,
    /// Runs of hole and data in a turn, at most.
    runs: u32,
}

/// Clients of these attacks, all at once, and a victim.
fn run(chosen: &[(&str, usize, Act)], in_handshake: &[(&str, usize, Visit)], times: usize) -> Had {
    let mut town = Town::new();
    let mut victim = town.rig.connect("victim");
    let mut attackers: Vec<(Attacker, Act)> = Vec::new();
    for &(_, many, act) in chosen {
        for _ in 0..many * times {
            let client = town.rig.connect("attacker");
            attackers.push((Attacker { client, sent: 0, bytes: 0 }, act));
        }
    }
    let mut had = Had::default();
    let (mut asked, mut before) = (None, [0; 4]);
    for turn in 0..FIRST + TURNS {
        if turn == FIRST {
            crate::log::count_anew();
            tally::take();
            had = Had::default();
            before = town.so_far(&attackers);
        }
        for (one, act) in &mut attackers {
            had.events += act(one, turn);
        }
        for &(_, many, visit) in in_handshake {
            had.events += visit(&mut town, many * times);
        }
        if asked.is_none() {
            victim.send(READ, turn * BLOCK, BLOCK, &[]);
            had.events += 1;
            asked = Some(turn);
        }
        let told = town.rig.runs_told.load(Ordering::SeqCst);
        town.turn();
        had.runs = had.runs.max(town.rig.runs_told.load(Ordering::SeqCst) - told);
        if !victim.answers().is_empty() {
            had.reads += 1;
            had.latest = had.latest.max(turn - asked.take().expect("it has asked"));
        }
    }
    let after = town.so_far(&attackers);
    let [steps, commands, moved, bytes] = std::array::from_fn(|which| after[which] - before[which]);
    had.tally = tally::take();
    had.tally.looks += steps;
    had.events += commands + moved / (8 << 10);
    had.bytes = bytes;
    had
}

fn bytes_of(connection: &crate::device_loop::connection::Connection) -> u64 {
    connection.figures.read_bytes + connection.figures.write_bytes
}

impl Had {
    /// Which bound was broken, if one was.
    fn fault(&self) -> Option<&'static str> {
        let Had { tally, events, bytes, reads, latest, runs } = *self;
        // Each turn looks at the sockets of negotiation and loop.
        let turns = 2 * TURNS;
        let kept = [
            (tally.calls <= CALLS * events + turns, "system calls"),
            (tally.looks <= LOOKS * events + turns, "looks"),
            (tally.copied <= COPIED * events + COPIES * bytes, "bytes copied"),
            (tally.said <= SAID, "bytes of the log"),
            (runs <= RUNS, "runs of hole and data in a turn"),
            (reads >= TURNS * 9 / 10, "the victim's reads"),
            (latest <= 2, "how late the victim's are"),
        ];
        kept.iter().find(|(kept, _)| !kept).map(|(_, what)| *what)
    }
}

/// Prints the work for each event, and returns what is wrong with it, if anything.
fn judge(name: &str, times: usize, had: &Had) -> Option<String> {
    let each = |what: u64| what as f64 / had.events as f64;
    println!(
        "{name:>15} x{times}: {} events, each {:.2} calls, {:.2} looks, {:.0} copied; {} said; \
         victim {} of {TURNS}, latest {} turns behind",
        had.events,
        each(had.tally.calls),
        each(had.tally.looks),
        each(had.tally.copied),
        had.tally.said,
        had.reads,
        had.latest,
    );
    had.fault().map(|what| format!("{name} x{times}: {what}: {had:?}"))
}

/// Is the work for each event bounded in attacks by clients past the handshake, however many they
/// are, and does a victim get its answers?
#[test]
fn attacks_of_clients_cost_so_much_an_event() {
    let both = CHOSEN.iter().flat_map(|attack| [(attack, 1), (attack, 4)]);
    let faults =
        both.filter_map(|(attack, times)| judge(attack.0, times, &run(&[*attack], &[], times)));
    assert_eq!(faults.collect::<Vec<_>>(), Vec::<String>::new());
}

/// And in attacks by clients in handshake?
#[test]
fn attacks_of_handshakings_cost_so_much_an_event() {
    let both = IN_HANDSHAKE.iter().flat_map(|attack| [(attack, 1), (attack, 4)]);
    let faults =
        both.filter_map(|(attack, times)| judge(attack.0, times, &run(&[], &[*attack], times)));
    assert_eq!(faults.collect::<Vec<_>>(), Vec::<String>::new());
}

/// And all at once?
#[test]
fn all_attacks_together_cost_so_much_an_event() {
    assert_eq!(judge("all together", 1, &run(&CHOSEN, &IN_HANDSHAKE, 1)), None);
}

/// Do these bounds catch three bugs that a review had found, when they are put back: all memory
/// lent to those that ask first, a completion that looks at all waiters, a block status request
/// answered whole in one round?
#[test]
fn planted_findings_are_found() {
    for (bug, attack, bound) in [
        (Bug::LendsAll, "begun writes", "the victim's reads"),
        (Bug::LooksAtAll, "single bytes", "looks"),
        (Bug::TellsAllRuns, "block status", "runs of hole and data in a turn"),
    ] {
        let attack = CHOSEN.into_iter().find(|(name, ..)| *name == attack).expect("an attack");
        plant(Some(bug));
        let had = run(&[attack], &[], 4);
        plant(None);
        assert_eq!(had.fault(), Some(bound), "{bug:?}: {had:?}");
    }
}

/// Does a client in handshake that sends without end have its turn with the others, and is all of
/// what it has sent heard in the end? (An option of 1 MiB that is not known is skipped.)
#[test]
fn who_never_stops_is_heard_in_turns() {
    let mut town = Town::new();
    let unknown = [&[0, 0, 0, 3][..], &option(77, &[0; 1 << 20])].concat();
    let mut endless = town.visit(&[]);
    let _as_much_as_it_may = set_socket_send_buffer_size(&endless, 4 << 20);
    let sent = endless.write(&unknown).expect("room in the socket") as u64;
    assert!(sent > 160 << 10, "{sent} bytes are too few to tell");
    let mut heard = Vec::new();
    for _ in 0..100 {
        tally::take();
        town.negotiation.round(&NO_TIME);
        heard.push(tally::take().copied);
    }
    assert!(heard.iter().all(|&copied| copied <= 132 << 10), "{heard:?}");
    assert!(heard.iter().sum::<u64>() >= sent, "{heard:?} of {sent}");
    assert_eq!(heard[99], 0, "it is not looked at for nothing");
}
