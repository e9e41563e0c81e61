// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upgrade: the program is ended and restarted under load, and clients that reconnect lose nothing.
//!
//! ```text
//! client  ── 8 writes at a time ──▶ server ──✗            ┌──▶ the next server
//!   └ what was not answered is kept ──────── reconnects ──┘  and sent again
//! disk at the end = what was acknowledged, block by block
//! ```
//!
//! Clients are ours, and qemu's with `reconnect-delay` where it is installed. The kernel's client
//! is tested in a guest (`heavy/guest.rs`). Sockets are the server's own, or a service manager's.
//!
//! `PATERNOSTER_UPGRADE_SECONDS` makes a long soak of the last test, which has reloads, orders and
//! clients that leave in the middle of a request, and reports the server's memory and descriptors.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paternoster_sim::chance::Chance;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::skipped;
use crate::serve_arguments::Scratch;

pub(crate) const BLOCK: usize = 4096;
/// Blocks of each of our clients, one after the other.
const BLOCKS: u64 = 64;
const CLIENTS: u64 = 3;
/// Bytes of a disk.
pub(crate) const SIZE: u64 = 4 << 20;
/// Requests in flight of one client.
const DEPTH: usize = 8;
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
const FLUSH: u16 = 3;
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A process, which ends with its test at the latest.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// The program that serves: the built one, or `PATERNOSTER_PROGRAM`.
pub(crate) fn program() -> String {
    let built = env!("CARGO_BIN_EXE_paternoster").to_owned();
    std::env::var("PATERNOSTER_PROGRAM").unwrap_or(built)
}

/// A place with a disk, for successive servers.
pub(crate) struct House {
    pub(crate) scratch: Scratch,
    /// A service manager's.
    listener: Option<UnixListener>,
}

impl House {
    pub(crate) fn new(inherits: bool) -> House {
        let scratch = Scratch::new();
        for name in ["disk", "qemu"] {
            let disk = fs::File::create(scratch.text(name)).expect("a disk");
            disk.set_len(SIZE).expect("room");
        }
        let listener = inherits.then(|| UnixListener::bind(scratch.text("s")).expect("a socket"));
        let house = House { scratch, listener };
        house.configure(100);
        house
    }

    fn configure(&self, weight: u64) {
        let names = ["s", "control", "disk", "qemu"];
        let [socket, control, disk, qemu] = names.map(|name| self.scratch.text(name));
        let listen = match self.listener {
            Some(_) => "inherited:3".to_owned(),
            None => format!("unix:{socket}"),
        };
        let text = format!(
            "[server]\nlisten = '{listen}'\ncontrol = '{control}'\nconnections = 64\n\
             [device.d]\nmemory = '4MiB'\n[volume.disk]\npath = '{disk}'\nraw = true\n\
             [volume.qemu]\npath = '{qemu}'\nraw = true\n[tenant.disk]\nweight = {weight}\n"
        );
        fs::write(self.scratch.text("serve.toml"), text).expect("a configuration");
    }

    pub(crate) fn start(&self) -> Running {
        let log = fs::File::options().append(true).create(true).open(self.scratch.text("log"));
        // A shell sets the socket as a service manager would; `exec` keeps the process number.
        let script = "export LISTEN_PID=$$; exec \"$0\" serve \"$1\" 3<&0 </dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script, &program(), &self.scratch.text("serve.toml")]);
        command.stdin(Stdio::null()).stderr(log.expect("a log"));
        if let Some(listener) = &self.listener {
            let again = listener.try_clone().expect("a descriptor");
            command.env("LISTEN_FDS", "1").stdin(Stdio::from(OwnedFd::from(again)));
        }
        let mut server = Running(command.spawn().expect("the program starts"));
        let listens = || {
            assert_eq!(server.0.try_wait().expect("a child"), None, "it ended: {}", self.log());
            UnixStream::connect(self.scratch.text("control")).ok()
        };
        until(listens, || format!("it does not listen: {}", self.log()));
        server
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.text("log")).unwrap_or_default()
    }

    /// Ends a server in good order.
    pub(crate) fn end(&self, server: &mut Running) {
        kill_process(Pid::from_child(&server.0), Signal::TERM).expect("it is ours");
        assert!(server.0.wait().expect("it ends").success(), "{}", self.log());
    }

    pub(crate) fn order(&self, line: &str) {
        let answer = self.ask(line);
        assert!(answer.contains("\"ok\":true"), "{line}: {answer}");
    }

    /// The answer to an order.
    pub(crate) fn ask(&self, line: &str) -> String {
        let mut control = UnixStream::connect(self.scratch.text("control")).expect("a socket");
        writeln!(control, "{line}").expect("it listens");
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while byte != *b"\n" && control.read(&mut byte).is_ok_and(|read| read == 1) {
            answer.push(byte[0]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Waits until something exists; `late` says what has failed if it never does.
pub(crate) fn until<T>(mut found: impl FnMut() -> Option<T>, late: impl Fn() -> String) -> T {
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < limit, "{}", late());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A connection that has chosen the disk; none while there is no server.
pub(crate) fn connect(socket: &str) -> std::io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut [0; 18])?;
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk")?;
    stream.read_exact(&mut [0; 10])?;
    Ok(stream)
}

/// A block full of a number.
fn block_of(value: u64) -> Vec<u8> {
    value.to_be_bytes().repeat(BLOCK / 8)
}

/// A request as bytes.
pub(crate) fn request(kind: u16, cookie: u64, at: u64, length: u32, payload: &[u8]) -> Vec<u8> {
    flagged(0, kind, cookie, at, length, payload)
}

/// The same with flags.
pub(crate) fn flagged(
    flags: u16,
    kind: u16,
    cookie: u64,
    at: u64,
    length: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(at.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A request that is not answered.
#[derive(Clone, Copy)]
struct Asked {
    kind: u16,
    block: u64,
    value: u64,
}

/// A client that reconnects, and sends again what was not answered.
pub(crate) struct Client<'a> {
    socket: &'a str,
    first: u64,
    pending: BTreeMap<u64, Asked>,
    /// Acknowledged content of each block.
    known: Vec<u64>,
    cookie: u64,
    answered: &'a AtomicU64,
    came: u64,
}

impl<'a> Client<'a> {
    /// The client of this number, which knows its part of the disk to be empty.
    pub(crate) fn new(socket: &'a str, number: u64, answered: &'a AtomicU64) -> Client<'a> {
        let (pending, known) = (BTreeMap::new(), vec![0; usize::try_from(BLOCKS).expect("few")]);
        let first = number * BLOCKS;
        Client { socket, first, pending, known, cookie: 0, answered, came: 0 }
    }

    /// Works until told to stop, and then until nothing is owed.
    pub(crate) fn work(mut self, stop: &AtomicBool) -> (u64, Vec<u64>) {
        while !stop.load(Ordering::SeqCst) || !self.pending.is_empty() {
            let mut stream = until(|| connect(self.socket).ok(), || "no server".to_owned());
            self.came += 1;
            if let Err(error) = self.talk(&mut stream, stop) {
                let is_end =
                    [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                assert!(
                    is_end.contains(&error.kind()),
                    "{}: {error}; {}",
                    self.name(),
                    self.owed()
                );
            }
        }
        (self.came, self.known)
    }

    /// Which client it is, in its how many-th connection.
    fn name(&self) -> String {
        format!("client {}, connection {}", self.first / BLOCKS, self.came)
    }

    /// What is not answered: the requests that were lost, if no answer comes.
    fn owed(&self) -> String {
        let each = self.pending.iter().map(|(cookie, asked)| {
            format!("cookie {cookie} (type {}, block {})", asked.kind, asked.block)
        });
        format!("not answered: {}", each.collect::<Vec<_>>().join(", "))
    }

    fn talk(&mut self, stream: &mut UnixStream, stop: &AtomicBool) -> std::io::Result<()> {
        let again: Vec<(u64, Asked)> = self.pending.iter().map(|(at, it)| (*at, *it)).collect();
        for (cookie, asked) in again {
            self.send(stream, cookie, asked)?;
        }
        loop {
            while self.pending.len() < DEPTH && !stop.load(Ordering::SeqCst) {
                self.cookie += 1;
                let block = self.cookie * 7 % BLOCKS;
                let kind = match self.cookie % 16 {
                    0 => FLUSH,
                    5 | 11 => READ,
                    _ => WRITE,
                };
                if self.pending.values().any(|asked| asked.block == block) {
                    break;
                }
                let asked = Asked { kind, block, value: self.cookie };
                self.pending.insert(self.cookie, asked);
                self.send(stream, self.cookie, asked)?;
            }
            if self.pending.is_empty() {
                return Ok(());
            }
            self.hear(stream)?;
        }
    }

    fn send(&self, stream: &mut UnixStream, cookie: u64, asked: Asked) -> std::io::Result<()> {
        let Asked { kind, block, value } = asked;
        let (at, length) = match kind {
            FLUSH => (0, 0),
            _ => ((self.first + block) * BLOCK as u64, 4096u32),
        };
        let payload = if kind == WRITE { block_of(value) } else { Vec::new() };
        stream.write_all(&request(kind, cookie, at, length, &payload))
    }

    fn hear(&mut self, stream: &mut UnixStream) -> std::io::Result<()> {
        let mut reply = [0; 16];
        stream.read_exact(&mut reply)?;
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        let errno = u32::from_be_bytes(*reply[4..].first_chunk().expect("four"));
        assert_eq!(errno, 0, "a server that goes refuses nothing");
        let cookie = u64::from_be_bytes(*reply[8..].first_chunk().expect("eight"));
        let Some(&asked) = self.pending.get(&cookie) else {
            let what = if cookie <= self.cookie { "answered twice" } else { "never asked" };
            panic!("{}: cookie {cookie} is {what}; {}", self.name(), self.owed());
        };
        let known = &mut self.known[usize::try_from(asked.block).expect("a block")];
        match asked.kind {
            WRITE => *known = asked.value,
            READ => {
                let mut data = vec![0; BLOCK];
                stream.read_exact(&mut data)?;
                assert_eq!(data[..8], known.to_be_bytes(), "block {}", asked.block);
                assert_eq!(data, block_of(*known), "half a write");
            }
            _ => {}
        }
        self.pending.remove(&cookie);
        self.answered.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Lets clients end, even after a failed test.
pub(crate) struct Stops<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// qemu, which writes its disk over and over, 64 KiB at a time; `options` are of its driver.
pub(crate) fn qemu(house: &House, options: &str, count: u32) -> Option<Running> {
    let image = format!(
        "driver=nbd,server.type=unix,server.path={},export=qemu{options}",
        house.scratch.text("s")
    );
    let count = count.to_string();
    let bench = ["bench", "-q", "-w", "--pattern=90", "-d", "16", "-s", "65536", "-c", &count];
    let started = Command::new("qemu-img")
        .args(bench)
        .args(["--image-opts", &image])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    match started {
        Ok(child) => Some(Running(child)),
        Err(error) => {
            skipped(&format!("qemu-img: {error} (Debian package qemu-utils)"));
            None
        }
    }
}

/// qemu, which waits half a minute for a server: that must be in effect from here on.
fn patient_qemu(house: &House, count: u32) -> Option<Running> {
    let mut qemu = qemu(house, ",reconnect-delay=30", count)?;
    let words = format!("pid {}: connected", qemu.0.id());
    let has_come = || (house.log().contains(&words) || !is_there(&mut qemu)).then_some(());
    until(has_come, || format!("qemu does not come: {}", house.log()));
    Some(qemu)
}

/// Whether it has not ended.
fn is_there(process: &mut Running) -> bool {
    process.0.try_wait().is_ok_and(|ended| ended.is_none())
}

/// Waits for qemu, which must have seen no error.
pub(crate) fn must_succeed(house: &House, qemu: &mut Running) {
    let mut said = String::new();
    qemu.0.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(qemu.0.wait().expect("a child").success(), "qemu: {said}; {}", house.log());
}

/// Waits until clients were answered this many more requests.
pub(crate) fn until_answered(answered: &AtomicU64, more: u64) {
    let from = answered.load(Ordering::SeqCst);
    let is_so = || (answered.load(Ordering::SeqCst) >= from + more).then_some(());
    until(is_so, || "too little is answered".to_owned());
}

/// Clients work, `act` does something with the server; returns how often each connected, and
/// compares the disk.
pub(crate) fn under_load(
    house: &House,
    act: impl FnOnce(&House, &mut Running, &AtomicU64),
) -> Vec<u64> {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let socket = house.scratch.text("s");
    let mut server = house.start();
    let known = std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        let workers = (0..CLIENTS).map(|number| {
            let client = Client::new(&socket, number, &answered);
            let stop = &stop;
            scope.spawn(move || client.work(stop))
        });
        let workers: Vec<_> = workers.collect();
        until_answered(&answered, 200);
        act(house, &mut server, &answered);
        until_answered(&answered, 200);
        drop(Stops(&stop));
        let each = workers.into_iter().map(|worker| worker.join().expect("a client"));
        each.collect::<Vec<_>>()
    });
    house.end(&mut server);
    let disk = fs::read(house.scratch.text("disk")).expect("a disk");
    for (number, (_, known)) in known.iter().enumerate() {
        let first = number * known.len();
        for (block, value) in known.iter().enumerate() {
            let at = (first + block) * BLOCK;
            assert!(disk[at..at + BLOCK] == block_of(*value)[..], "client {number}, {block}");
        }
    }
    known.into_iter().map(|(came, _)| came).collect()
}

/// What happens next.
enum Next {
    /// Another server.
    Upgrade,
    /// The same one goes on.
    Stay,
    /// The run is over.
    Over,
}

/// Clients work, and `next` says now and then what happens; returns how many servers followed the
/// first.
fn upgrade(house: &House, mut writes: u32, mut next: impl FnMut(&House, &Running) -> Next) -> u32 {
    let (mut servers, mut more, mut outlived) = (0, 0, 0);
    let came = under_load(house, |house, server, answered| {
        let mut qemu = patient_qemu(house, writes);
        loop {
            until_answered(answered, 200);
            match next(house, server) {
                Next::Stay => continue,
                // If qemu was too fast each time, that is no reason to see none of it.
                Next::Over if outlived == 0 && qemu.is_some() && more < 4 => more += 1,
                Next::Over => break,
                Next::Upgrade => servers += 1,
            }
            if outlived == 0
                && let Some(ended) = &mut qemu
                && !is_there(ended)
            {
                must_succeed(house, ended);
                // It was too fast to see a server end: another one has more to write.
                writes *= 3;
                qemu = patient_qemu(house, writes);
                until_answered(answered, 200);
            }
            house.end(server);
            outlived += u32::from(qemu.as_mut().is_some_and(is_there));
            *server = house.start();
        }
        assert!(outlived > 0 || qemu.is_none(), "qemu had ended before the first server did");
        if let Some(qemu) = &mut qemu {
            must_succeed(house, qemu);
        }
    });
    for (number, came) in came.into_iter().enumerate() {
        assert!(came > u64::from(servers + more), "client {number} came {came} times");
    }
    servers
}

/// This many upgrades, one after the other.
fn times(mut left: u32) -> impl FnMut(&House, &Running) -> Next {
    move |_, _| {
        let next = if left == 0 { Next::Over } else { Next::Upgrade };
        left = left.saturating_sub(1);
        next
    }
}

/// Do clients that reconnect lose nothing and see no error while four servers follow each other,
/// with a socket of their own?
#[test]
fn reconnecting_clients_lose_nothing() {
    assert_eq!(upgrade(&House::new(false), 8_000, times(4)), 4);
}

/// And through a socket that stays, like a service manager's?
#[test]
fn nor_through_a_socket_that_stays() {
    assert_eq!(upgrade(&House::new(true), 8_000, times(4)), 4);
}

/// Clients that connect, and leave in the middle of a header, of a payload, or of a handshake.
fn visitors(house: &House) {
    let socket = house.scratch.text("s");
    let header = [&0x2560_9513u32.to_be_bytes()[..], &[0, 0, 0, 1], &[7; 8], &[0; 8]].concat();
    for part in [&header[..11], &[&header[..], &[0, 1, 0, 0], &[7; 999]].concat()] {
        let mut stream = connect(&socket).expect("a server");
        stream.write_all(part).expect("it listens");
    }
    let mut stream = UnixStream::connect(&socket).expect("a server");
    stream.write_all(b"\0\0\0\x03IHAVE").expect("it listens");
}

/// Memory (KiB, resident) and descriptors of a server.
fn held(server: &Running) -> (u64, usize) {
    let at = format!("/proc/{}", server.0.id());
    let status = fs::read_to_string(format!("{at}/status")).expect("it is there");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    let memory = line.split_whitespace().nth(1).and_then(|text| text.parse().ok());
    (memory.expect("a number"), fs::read_dir(format!("{at}/fd")).expect("it is there").count())
}

/// The same with reloads, orders and clients that leave in the middle of everything, with one
/// server for some thirty rounds: is nothing lost, and does an old server hold what a young one
/// holds? A second; `PATERNOSTER_UPGRADE_SECONDS` says how long otherwise.
#[test]
fn a_soak_of_upgrades() {
    let seconds = std::env::var("PATERNOSTER_UPGRADE_SECONDS").ok();
    let seconds = seconds.map_or(1, |text| text.parse().expect("seconds"));
    let (seed, ends) = (29, Instant::now() + Duration::from_secs(seconds));
    eprintln!("seed {seed}");
    let mut chance = Chance::new(seed, 0);
    let (mut rounds, mut young, mut old) = (0u64, None, (0, 0));
    let servers = upgrade(&House::new(true), 8_000, |house, server| {
        rounds += 1;
        match chance.below(6) {
            0 => {
                house.configure(100 + chance.below(900));
                house.order(r#"{"do":"reload"}"#);
            }
            1 => house.order(r#"{"do":"weight","name":"disk","weight":300}"#),
            2 => {
                let place = usize::try_from(chance.below(4)).expect("few");
                let name = ["bfq", "noop", "mq-deadline", "paternoster"][place];
                house.order(&format!(r#"{{"do":"scheduler","name":"{name}"}}"#));
            }
            3 => house.order(r#"{"do":"explain"}"#),
            _ => visitors(house),
        }
        let now = held(server);
        young.get_or_insert(now);
        old = (now.0.max(old.0), now.1.max(old.1));
        match Instant::now() < ends {
            true if rounds == 2 || chance.once_in(30) => Next::Upgrade,
            true => Next::Stay,
            false => Next::Over,
        }
    });
    let young = young.expect("a round");
    println!(
        "{rounds} rounds, {servers} upgrades; KiB, descriptors: first {young:?}, most {old:?}"
    );
    // Three visitors may still be there, and one that gives orders.
    assert!(old.1 <= young.1 + 16, "descriptors: first {}, most {}", young.1, old.1);
}
