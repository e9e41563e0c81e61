// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile: what a client of weight 1 gets during attacks, compared with well-behaved clients.
//!
//! ```text
//! victim, 4 KiB reads one by one ──▶ server ◀── N connections that read one by one: its due
//!                                           ◀── N connections that attack:          what it gets
//! ```
//!
//! Both are measured one after the other, round by round; the medians of the rounds' ratios are
//! printed. `benches/hostile` starts the server and runs this: `hostile SOCKET ROUNDS MILLISECONDS
//! [ATTACK]`. Attackers and victim are threads of one process and share its processors, as the
//! well-behaved ones do.

#[allow(dead_code, reason = "the tests' client, of which a part is used here")]
#[path = "../tests/common/client.rs"]
mod client;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Client, FLUSH, READ, STATUS, TRIM, WRITE, ZEROES, request};

const FUA: u16 = 1;
/// Bytes of the attackers' volume.
const WHOLE: u32 = 256 << 20;
const SIZE: u64 = WHOLE as u64;
/// How long anything is waited for before it is asked whether the measurement is over.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long attackers have before the victim is measured.
const RAMP: Duration = Duration::from_millis(300);

/// The work of one thread of an attack, with this many connections, until it is told to stop.
type Run = fn(&Side, usize) -> io::Result<()>;

struct Attack {
    name: &'static str,
    threads: usize,
    /// Connections of each thread.
    connections: usize,
    run: Run,
}

const fn attack(name: &'static str, threads: usize, connections: usize, run: Run) -> Attack {
    Attack { name, threads, connections, run }
}

/// The attacks of a review, then others.
const ATTACKS: [Attack; 16] = [
    attack("400 begin a write of 32 MiB", 4, 100, begun_writes),
    attack("16 write single bytes of 90 blocks", 16, 1, single_bytes),
    attack("16 ask for block status", 16, 1, block_status),
    attack("16 ask for 4 GiB that are refused", 16, 1, refused),
    attack("16 connect, say rubbish, go", 16, 1, rude),
    attack("500 connect and say nothing", 4, 125, silent),
    attack("200 never take their answers", 4, 50, deaf),
    attack("16 connect, choose, go", 16, 1, come_and_go),
    attack("16 zero all of their volume", 16, 1, zeroes),
    attack("16 trim all of their volume", 16, 1, trims),
    attack("16 flush, 64 at a time", 16, 1, flushes),
    attack("16 ask for what there is not", 16, 1, unknown),
    attack("100 send a byte at a time", 4, 25, drips),
    attack("16 list exports for ever", 16, 1, lists),
    attack("16 read 32 MiB, 4 at a time", 16, 1, large_reads),
    attack("16 write durably, 64 at a time", 16, 1, durable_writes),
];

/// Where the server is, and whether it is over.
#[derive(Clone)]
struct Side {
    socket: PathBuf,
    over: Arc<AtomicBool>,
}

impl Side {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn connect(&self) -> io::Result<Client> {
        let client = Client::connect(&self.socket, "attacker")?;
        client.stream.set_read_timeout(Some(PATIENCE))?;
        client.stream.set_write_timeout(Some(PATIENCE))?;
        Ok(client)
    }

    fn greet(&self) -> io::Result<Client> {
        let client = Client::greet(&self.socket)?;
        client.stream.set_read_timeout(Some(PATIENCE))?;
        Ok(client)
    }

    fn hold(&self) {
        while self.goes_on() {
            std::thread::sleep(PATIENCE);
        }
    }

    /// One connection that keeps `depth` of these requests under way.
    fn flood(&self, depth: u64, each: impl Fn(u64) -> Vec<u8>) -> io::Result<()> {
        let mut client = self.connect()?;
        for number in 0..depth {
            client.stream.write_all(&each(number))?;
        }
        for number in depth.. {
            if !self.goes_on() {
                break;
            }
            client.told()?;
            client.stream.write_all(&each(number))?;
        }
        Ok(())
    }
}

/// Reads of 4 KiB, one at a time on each connection.
fn polite(side: &Side, connections: usize) -> io::Result<()> {
    let clients: Result<Vec<Client>, _> = (0..connections).map(|_| side.connect()).collect();
    let (mut clients, mut at) = (clients?, 0);
    while side.goes_on() {
        for client in &mut clients {
            at = (at + 4096 * 977) % SIZE;
            client.send(READ, 0, at, 4096, &[])?;
        }
        for client in &mut clients {
            client.told()?;
        }
    }
    Ok(())
}

fn begun_writes(side: &Side, connections: usize) -> io::Result<()> {
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut client = side.connect()?;
        client.stream.write_all(&request(WRITE, 0, 1, 0, 32 << 20, &[1; 1000]))?;
        held.push(client);
    }
    side.hold();
    Ok(())
}

fn single_bytes(side: &Side, _: usize) -> io::Result<()> {
    side.flood(256, |number| request(WRITE, 0, number + 1, number % 90 * 4096 + 7, 1, &[1]))
}

fn block_status(side: &Side, _: usize) -> io::Result<()> {
    side.flood(16, |number| request(STATUS, 0, number + 1, 0, WHOLE, &[]))
}

fn refused(side: &Side, _: usize) -> io::Result<()> {
    side.flood(64, |number| request(READ, 0, number + 1, 1, u32::MAX, &[]))
}

fn rude(side: &Side, _: usize) -> io::Result<()> {
    while side.goes_on() {
        UnixStream::connect(&side.socket)?.write_all(&[0xff; 64])?;
    }
    Ok(())
}

fn silent(side: &Side, connections: usize) -> io::Result<()> {
    let mut held = Vec::new();
    for _ in 0..connections {
        held.push(UnixStream::connect(&side.socket)?);
    }
    side.hold();
    Ok(())
}

fn deaf(side: &Side, connections: usize) -> io::Result<()> {
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut client = side.connect()?;
        for number in 0..64 {
            client.stream.write_all(&request(READ, 0, number + 1, 0, 1 << 20, &[]))?;
        }
        held.push(client);
    }
    side.hold();
    Ok(())
}

fn come_and_go(side: &Side, _: usize) -> io::Result<()> {
    while side.goes_on() {
        side.connect()?;
    }
    Ok(())
}

fn zeroes(side: &Side, _: usize) -> io::Result<()> {
    side.flood(16, |number| request(ZEROES, 0, number + 1, 0, WHOLE, &[]))
}

fn trims(side: &Side, _: usize) -> io::Result<()> {
    side.flood(16, |number| request(TRIM, 0, number + 1, 0, WHOLE, &[]))
}

fn flushes(side: &Side, _: usize) -> io::Result<()> {
    side.flood(64, |number| request(FLUSH, 0, number + 1, 0, 0, &[]))
}

fn unknown(side: &Side, _: usize) -> io::Result<()> {
    side.flood(64, |number| request(77, 0, number + 1, 0, 0, &[]))
}

fn drips(side: &Side, connections: usize) -> io::Result<()> {
    let clients: Result<Vec<Client>, _> = (0..connections).map(|_| side.connect()).collect();
    let (mut clients, mut sent) = (clients?, 0);
    let bytes = request(READ, 0, 1, 0, 512, &[]);
    let mut room = [0; 4096];
    while side.goes_on() {
        for client in &mut clients {
            client.stream.write_all(&bytes[sent..=sent])?;
            if sent + 1 == bytes.len() {
                let _answer = client.stream.read(&mut room)?;
            }
        }
        sent = (sent + 1) % bytes.len();
    }
    Ok(())
}

fn lists(side: &Side, _: usize) -> io::Result<()> {
    let mut client = side.greet()?;
    while side.goes_on() {
        client.option(3, &[])?;
        while client.answer()?.1 != 1 {}
    }
    Ok(())
}

/// The chunks of its replies come interleaved, so it discards what it receives, and asks for as
/// much again.
fn large_reads(side: &Side, _: usize) -> io::Result<()> {
    let mut client = side.connect()?;
    let asks = |stream: &mut UnixStream, number: u64| {
        stream.write_all(&request(READ, 0, number + 1, 0, 32 << 20, &[]))
    };
    for number in 0..4 {
        asks(&mut client.stream, number)?;
    }
    let (mut room, mut taken, mut number) = (vec![0; 1 << 20], 0, 4);
    while side.goes_on() {
        taken += client.stream.read(&mut room)?;
        if taken >= 32 << 20 {
            taken -= 32 << 20;
            asks(&mut client.stream, number)?;
            number += 1;
        }
    }
    Ok(())
}

fn durable_writes(side: &Side, _: usize) -> io::Result<()> {
    side.flood(64, |number| {
        request(WRITE, FUA, number + 1, number % 65536 * 4096, 4096, &[1; 4096])
    })
}

/// With `PINNED` set, the threads other than the victim's run on the second processor: what the
/// victim loses then is due to the server, not to the machine.
fn keep_apart() {
    if std::env::var_os("PINNED").is_some_and(|text| !text.is_empty()) {
        let mut second = rustix::thread::CpuSet::new();
        second.set(1);
        if let Err(error) = rustix::thread::sched_setaffinity(None, &second) {
            eprintln!("not pinned: {error}");
        }
    }
}

/// Starts all threads of an attack. A client that the server disconnects comes again.
fn start(side: &Side, threads: usize, connections: usize, run: Run) -> Vec<JoinHandle<()>> {
    let one = |_| {
        let side = side.clone();
        std::thread::spawn(move || {
            keep_apart();
            while side.goes_on() {
                if run(&side, connections).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        })
    };
    (0..threads).map(one).collect()
}

/// What the victim got.
#[derive(Clone, Copy)]
struct Had {
    reads: f64,
    p99: f64,
}

/// Reads 4 KiB at a time for this long, while these connections are open.
fn measure(socket: &Path, time: Duration, beside: &[(usize, usize, Run)]) -> io::Result<Had> {
    let side = Side { socket: socket.to_owned(), over: Arc::default() };
    let mut threads = Vec::new();
    for &(number, connections, run) in beside {
        threads.extend(start(&side, number, connections, run));
    }
    std::thread::sleep(RAMP);
    let mut client = Client::connect(socket, "victim")?;
    let (begun, mut times, mut at) = (Instant::now(), Vec::new(), 0);
    while begun.elapsed() < time {
        let asked = Instant::now();
        client.ask(READ, 0, at, 4096)?;
        times.push(asked.elapsed());
        at = (at + 4096 * 977) % SIZE;
    }
    let reads = times.len() as f64 / begun.elapsed().as_secs_f64();
    side.over.store(true, Ordering::Relaxed);
    for thread in threads {
        let _panicked = thread.join();
    }
    times.sort_unstable();
    Ok(Had { reads, p99: times[times.len() * 99 / 100].as_secs_f64() * 1e3 })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn line(
    name: &str,
    socket: &Path,
    rounds: usize,
    time: Duration,
    beside: &[(usize, usize, Run)],
) -> io::Result<()> {
    let good: Vec<_> =
        beside.iter().map(|&(threads, each, _)| (threads, each, polite as Run)).collect();
    let (mut due, mut got) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        due.push(measure(socket, time, &good)?);
        got.push(measure(socket, time, beside)?);
    }
    let of = |all: &[Had], which: fn(&Had) -> f64| median(all.iter().map(which).collect());
    let ratio = |which: fn(&Had) -> f64| {
        median(due.iter().zip(&got).map(|(due, got)| which(got) / which(due)).collect())
    };
    let (share, late) = (ratio(|had| had.reads), ratio(|had| had.p99));
    let verdict = if share >= 0.9 && late <= 2.0 { "kept" } else { "**missed**" };
    println!(
        "| {name} | {:.0} | {:.0} | {share:.2} | {:.2} | {:.2} | {late:.2} | {verdict} |",
        of(&due, |had| had.reads),
        of(&got, |had| had.reads),
        of(&due, |had| had.p99),
        of(&got, |had| had.p99),
    );
    io::stdout().flush()
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [socket, rounds, milliseconds, rest @ ..] = &words[..] else { return Ok(()) };
    let (socket, number) = (Path::new(socket), |word: &str| word.parse().map_err(io::Error::other));
    let time = Duration::from_millis(number(milliseconds)?);
    let rounds = usize::try_from(number(rounds)?).map_err(io::Error::other)?;
    let wanted = |name: &str| rest.is_empty() || rest.iter().any(|word| name.contains(&**word));
    let beside = |attack: &Attack| (attack.threads, attack.connections, attack.run);
    for attack in ATTACKS.iter().filter(|attack| wanted(attack.name)) {
        line(attack.name, socket, rounds, time, &[beside(attack)])?;
    }
    if wanted("all together") {
        let all: Vec<_> = ATTACKS.iter().map(beside).collect();
        line("all together", socket, rounds, time, &all)?;
    }
    Ok(())
}
