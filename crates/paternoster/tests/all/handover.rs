// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handover: the built program takes over from a running one, under clients that must not notice.
//!
//! ```text
//! client  ── 8 requests at a time, half of one, a read whose answer it leaves ──▶ one connection
//! servers    old ─▶ new ─▶ newer …         or ✗ kill -9 of the new one at a drawn moment
//! disk at the end = what was acknowledged, block by block
//! ```
//!
//! Our clients are those of `upgrade.rs`; there they reconnect, here they must connect only once.
//! So must qemu's, which is not set to reconnect: it fails if its server hangs up. Servers are in
//! their sandbox.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paternoster_sim::chance::Chance;

use crate::common::skipped;
use crate::upgrade::{
    BLOCK, House, READ, Running, SIZE, Stops, WRITE, connect, must_succeed, program, qemu, request,
    under_load, until, until_answered,
};

impl House {
    /// A server that is to take over.
    pub(crate) fn taker(&self) -> Running {
        let log = fs::File::options().append(true).create(true).open(self.scratch.text("log"));
        let mut command = Command::new(program());
        command.args(["serve", &self.scratch.text("serve.toml"), "--take-over"]);
        command.stdin(Stdio::null()).stderr(log.expect("a log"));
        Running(command.spawn().expect("the program starts"))
    }

    /// Another server takes over from this one.
    fn hand_over(&self, old: &mut Running) {
        let new = self.taker();
        let status = wait(old);
        assert!(status.success(), "{status}: {}", self.log());
        *old = new;
    }

    /// How often the log has said this.
    fn said(&self, words: &str) -> usize {
        self.log().matches(words).count()
    }
}

/// Waits for a process to end.
fn wait(process: &mut Running) -> ExitStatus {
    let number = process.0.id();
    let ended = || process.0.try_wait().expect("a child");
    until(ended, || format!("process {number} does not end"))
}

/// Whether another program would find that no one guards its writes: qemu's byte for that, as in
/// `device/lock.rs`.
fn is_free(disk: &fs::File) -> bool {
    // SAFETY: a flock is plain numbers; all zeroes is one.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(libc::F_WRLCK).expect("small");
    (lock.l_start, lock.l_len) = (201, 1);
    // SAFETY: the descriptor is open, and the lock outlives the call.
    let done = unsafe { libc::fcntl(disk.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    i32::from(lock.l_type) == libc::F_UNLCK
}

/// Do clients notice nothing while eight servers follow each other under load, is nothing lost of
/// what was acknowledged, and is the disk locked all the while?
#[test]
fn clients_do_not_notice() {
    let seed = 29;
    eprintln!("seed {seed}");
    let mut chance = Chance::new(seed, 0);
    let house = House::new(false);
    let free = AtomicU64::new(0);
    let came = under_load(&house, |house, server, answered| {
        let status = fs::read_to_string(format!("/proc/{}/status", server.0.id()));
        if !status.expect("it is there").contains("Seccomp:\t2") {
            skipped("the sandbox: no seccomp here");
        }
        let disk = fs::File::open(house.scratch.text("disk")).expect("a disk");
        let over = AtomicBool::new(false);
        // It is not set to reconnect.
        let mut qemu = qemu(house, "", 40_000);
        std::thread::scope(|scope| {
            let _over = Stops(&over);
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    free.fetch_add(u64::from(is_free(&disk)), Ordering::SeqCst);
                }
            });
            for _ in 0..8 {
                until_answered(answered, 1 + chance.below(300));
                house.hand_over(server);
            }
        });
        if let Some(qemu) = &mut qemu {
            must_succeed(house, qemu);
        }
    });
    assert_eq!(came, [1, 1, 1], "{}", house.log());
    assert_eq!(free.into_inner(), 0, "the disk was not locked for a moment");
    assert_eq!(house.said("handed over to process"), 8, "{}", house.log());
    for name in ["s", "control"] {
        assert!(!fs::exists(house.scratch.text(name)).expect("a folder"), "{name} is left");
    }
}

/// Does the old server go on whenever the new one is killed before it has taken over, and do
/// clients reconnect only after servers that were killed later?
#[test]
fn a_new_one_that_is_killed_changes_nothing() {
    let seed = 30;
    eprintln!("seed {seed}");
    let mut chance = Chance::new(seed, 0);
    let house = House::new(false);
    let (mut before, mut behind) = (0, 0);
    let came = under_load(&house, |house, server, answered| {
        for round in 0..40 {
            // How long a hand-over takes depends on the machine: drawn from what the last one took.
            let begun = Instant::now();
            if round == 0 {
                house.hand_over(server);
            }
            let most = 1 + u64::try_from(begun.elapsed().as_millis()).unwrap_or(1).max(60);
            let refused = house.said("this one goes on");
            let mut new = house.taker();
            std::thread::sleep(Duration::from_micros(chance.below(1000 * most)));
            new.0.kill().expect("a child");
            new.0.wait().expect("a child");
            let limit = Instant::now() + Duration::from_millis(500);
            // It may have been killed before it asked for anything: then nothing is logged.
            let is_gone = loop {
                if server.0.try_wait().expect("a child").is_some() {
                    break true;
                }
                if house.said("this one goes on") > refused || Instant::now() > limit {
                    break false;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            if is_gone {
                behind += 1;
                *server = house.start();
            } else {
                before += 1;
            }
            until_answered(answered, 50);
        }
    });
    println!("killed {before} times before, {behind} times behind it");
    assert!(before > 0);
    assert!(came.iter().all(|came| *came <= 1 + behind), "{came:?}, {behind}: {}", house.log());
}

/// A simple reply of success.
fn answered(stream: &mut UnixStream, cookie: u64) {
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("an answer");
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    assert_eq!(reply[8..], cookie.to_be_bytes());
}

/// Do requests arrive whole if hand-overs cut them at random places: in a header, or in a payload
/// of which a part is on the disk already? And does a client that was slow to read find all its
/// answers, though they exceed the device's memory?
#[test]
fn half_a_request_goes_over() {
    let house = House::new(false);
    let socket = house.scratch.text("s");
    for seed in 0..6 {
        eprintln!("seed {seed}");
        let mut chance = Chance::new(seed, 0);
        let mut server = house.start();
        let mut stream = connect(&socket).expect("a server");
        let mut deaf = connect(&socket).expect("a server");
        let length = BLOCK * usize::try_from(1 + chance.below(700)).expect("few");
        let fill: Vec<u8> = (0..length).map(|_| chance.below(256).to_le_bytes()[0]).collect();
        let short = u32::try_from(length).expect("short");
        let bytes = request(WRITE, 7, 0, short, &fill);
        // All that this test reads is after what it writes.
        let whole = u32::try_from(SIZE).expect("short") - short;
        deaf.write_all(&request(READ, 8, length as u64, whole, &[])).expect("it listens");
        let first = usize::try_from(chance.below(40)).expect("few");
        let second = first + usize::try_from(chance.below((bytes.len() - first) as u64)).unwrap();
        for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
            stream.write_all(piece).expect("it listens");
            std::thread::sleep(Duration::from_millis(chance.below(20)));
            house.hand_over(&mut server);
        }
        answered(&mut stream, 7);
        let before = fs::read(house.scratch.text("disk")).expect("a disk");
        assert!(
            before[..length] == fill[..],
            "seed {seed}: {length} bytes, cut at {first}, {second}"
        );
        answered(&mut deaf, 8);
        let mut data = vec![0; whole as usize];
        deaf.read_exact(&mut data).expect("all of it");
        assert!(data == before[length..], "seed {seed}");
        // Both work still.
        for (stream, cookie) in [(&mut stream, 9), (&mut deaf, 10)] {
            stream.write_all(&request(READ, cookie, 0, 4096, &[])).expect("it listens");
            answered(stream, cookie);
            let mut block = vec![0; 4096];
            stream.read_exact(&mut block).expect("a block");
            assert!(block == before[..4096]);
        }
        drop((stream, deaf));
        house.end(&mut server);
    }
}

/// Does a server go on, and keep its clients, when its successor has a configuration with a
/// mistake, or one that cannot be served, speaks another version, or comes while a volume is
/// drained?
#[test]
fn what_cannot_follow_changes_nothing() {
    let house = House::new(false);
    let file = house.scratch.text("serve.toml");
    let good = fs::read_to_string(&file).expect("a configuration");
    let came = under_load(&house, |house, server, answered| {
        let wrong = [
            good.replace("memory", "memery"),
            format!("{good}[volume.more]\npath = '/nowhere/at/all'\n"),
            good.replace("[server]", "[server]\nmetrics = '192.0.2.1:1'"),
            String::new(),
        ];
        for text in wrong {
            fs::write(&file, text).expect("a configuration");
            assert!(!wait(&mut house.taker()).success(), "{}", house.log());
            until_answered(answered, 50);
        }
        fs::write(&file, &good).expect("a configuration");
        let mut control = UnixStream::connect(house.scratch.text("control")).expect("a socket");
        control.write_all(b"{\"do\":\"handover\",\"version\":7}\n").expect("it listens");
        let mut answer = vec![0; 200];
        let read = control.read(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(answer.contains("by version 1, not by 7"), "{answer}");
        house.order(r#"{"do":"drain","volume":"qemu"}"#);
        assert!(!wait(&mut house.taker()).success(), "{}", house.log());
        // The old one's log and the new one's last words; the log may be late.
        assert!(house.said("volume qemu is drained") >= 1, "{}", house.log());
        house.order(r#"{"do":"resume","volume":"qemu"}"#);
        assert_eq!(server.0.try_wait().expect("a child"), None);
        house.hand_over(server);
    });
    assert_eq!(came, [1, 1, 1], "{}", house.log());
}

/// Does each reload that is ordered during a hand-over get an answer or the end of the old server,
/// while clients notice nothing and the new server has what the file says?
#[test]
fn reloads_beside_a_hand_over() {
    let house = House::new(false);
    let file = house.scratch.text("serve.toml");
    let good = fs::read_to_string(&file).expect("a configuration");
    let came = under_load(&house, |house, server, answered| {
        for round in 1..6 {
            let weight = format!("weight = {}", 100 * round);
            fs::write(&file, good.replace("weight = 100", &weight)).expect("a configuration");
            let over = &AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    while !over.load(Ordering::SeqCst) {
                        let Ok(mut control) = UnixStream::connect(house.scratch.text("control"))
                        else {
                            continue;
                        };
                        // The one that was asked may have gone over; then it is the next one's.
                        let _gone = control.write_all(b"{\"do\":\"reload\"}\n");
                        let mut answer = Vec::new();
                        let mut byte = [0];
                        while byte != *b"\n" && control.read(&mut byte).is_ok_and(|n| n == 1) {
                            answer.push(byte[0]);
                        }
                        let answer = String::from_utf8_lossy(&answer);
                        // A loop that has gone over to the new process changes nothing more.
                        let is_known = answer.is_empty()
                            || answer.contains("\"ok\":")
                            || answer.contains("nothing was changed: ")
                                && answer.contains("thread has ended");
                        assert!(is_known, "{answer}");
                    }
                });
                let _over = Stops(over);
                house.hand_over(server);
                until_answered(answered, 50);
            });
            let list = house.ask(r#"{"do":"list"}"#);
            let weight = format!("\"weight\":{}", 100 * round);
            assert!(list.contains(&weight), "{weight}: {list}");
        }
    });
    assert_eq!(came, [1, 1, 1], "{}", house.log());
}

/// Is a client closed, and this logged, if the new configuration lacks its volume, or does not open
/// it to the client?
#[test]
fn a_client_without_a_place_is_closed() {
    let house = House::new(false);
    let file = house.scratch.text("serve.toml");
    let good = fs::read_to_string(&file).expect("a configuration");
    let (path, gone) = (house.scratch.text("disk"), good.find("[volume.disk]").expect("it"));
    let end = good.find("[volume.qemu]").expect("it");
    let without = [&good[..gone], &good[end..]].concat().replace("[tenant.disk]", "[tenant.x]");
    let raw = format!("path = '{path}'\nraw = true\n");
    let closed = good.replace(&raw, &format!("{raw}allow = ['uid=4711']\n"));
    assert_ne!(closed, good);
    for (text, why) in [(without, "no volume disk"), (closed, "no volume disk is open to it here")]
    {
        fs::write(&file, &good).expect("a configuration");
        let mut server = house.start();
        let mut stream = connect(&house.scratch.text("s")).expect("a server");
        fs::write(&file, &text).expect("a configuration");
        house.hand_over(&mut server);
        assert_eq!(stream.read(&mut [0; 8]).expect("its end"), 0, "{}", house.log());
        let is_told = || house.log().contains(why).then_some(());
        until(is_told, || format!("{why}: {}", house.log()));
        house.end(&mut server);
    }
}
