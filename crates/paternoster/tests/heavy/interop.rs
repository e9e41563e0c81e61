// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other projects' clients against the program: qemu, libnbd, and nbdkit between the two. Random
//! requests in pipelines; every byte that comes back, and every byte of the disk after the end, is
//! compared with what must be there.
//!
//! ```text
//! qemu-io, qemu-img ──────────────────────────┐
//! interop.py (libnbd) ────────────────────────┼── paternoster serve ── disk
//! interop.py, nbdcopy ── nbdkit's nbd plugin ─┘
//! ```
//!
//! The kernel's client is in `guest`. Single requests are covered by `paternoster-serve`'s
//! conformance tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::skipped;

const MIB: usize = 1 << 20;
const SIZE: usize = 32 * MIB;
/// Debian's, because that has its libnbd.
const PYTHON: &str = "/usr/bin/python3";
/// How servers are run: a scheduler, and an engine.
const WAYS: [(&str, &str); 3] = [("bfq", "auto"), ("noop", "io_uring"), ("mq-deadline", "threads")];

/// A folder with a disk, gone with its test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("paternoster-interop-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _old = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Place(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn uri(&self, socket: &str) -> String {
        format!("nbd+unix:///disk?socket={}", self.path(socket).display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// A server, ended with its test at the latest.
struct Server(Child);

impl Server {
    /// A server, ready once its socket exists.
    fn start(command: &mut Command, socket: &Path) -> Server {
        let _old = fs::remove_file(socket);
        let mut server = Server(command.stderr(Stdio::inherit()).spawn().expect("it starts"));
        let limit = Instant::now() + Duration::from_secs(60);
        while !socket.exists() {
            assert_eq!(server.0.try_wait().expect("a child"), None, "{command:?} has ended");
            assert!(Instant::now() < limit, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Our server with one disk of zeroes; `None` if io_uring is not available.
    fn ours(place: &Place, (scheduler, engine): (&str, &str)) -> Option<Server> {
        let disk = fs::File::create(place.path("disk")).expect("a disk");
        disk.set_len(SIZE as u64).expect("room");
        let config = format!(
            "[server]\nlisten = ['unix:{}']\n[device.d]\nscheduler = '{scheduler}'\n\
             engine = '{engine}'\nmemory = '4MiB'\n[volume.disk]\npath = '{}'\nraw = true\n",
            place.path("s").display(),
            place.path("disk").display()
        );
        fs::write(place.path("serve.toml"), config).expect("a configuration");
        let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
        command.arg("serve").arg(place.path("serve.toml"));
        if engine == "io_uring" {
            let mut tried = Command::new(env!("CARGO_BIN_EXE_paternoster"));
            tried.arg("serve").arg(place.path("disk")).args(["--engine=io_uring", "--run", "true"]);
            if !tried.output().is_ok_and(|tried| tried.status.success()) {
                skipped("there is no io_uring here");
                return None;
            }
        }
        Some(Server::start(&mut command, &place.path("s")))
    }

    /// Ends it in good order, and returns the contents of its disk.
    fn end(mut self, place: &Place) -> Vec<u8> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        assert!(self.0.wait().expect("a child").success(), "the server ends well");
        fs::read(place.path("disk")).expect("the disk")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Whether these are installed; says what is not.
fn has(tools: &[(&str, &str)]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = |tool: &str| std::env::split_paths(&path).any(|at| at.join(tool).is_file());
    let missing = tools.iter().find(|(tool, _)| !is_here(tool));
    if let Some((tool, package)) = missing {
        skipped(&format!("{tool} is not installed (Debian package {package})"));
    }
    missing.is_none()
}

fn has_libnbd() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    let there = found.is_ok_and(|found| found.status.success());
    if !there {
        skipped("libnbd for /usr/bin/python3 is not installed (Debian package python3-libnbd)");
    }
    there
}

/// Runs a tool that must end well, in four minutes; returns its output.
fn succeeds(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    let output = command.args(["-k", "5", "240", program]).args(arguments).output();
    let output = output.expect("timeout of coreutils is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{program} {}: {told}", arguments.last().unwrap_or(&""));
    told
}

/// Numbers that look random: the upper half of a linear congruential generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// Commands of qemu-io, and the disk's contents after them. The disk is cut into runs; in each
/// round every run is written, zeroed or discarded, all at a time, then all are read.
fn rounds(chance: &mut Chance) -> (Vec<String>, Vec<u8>) {
    let mut commands = Vec::new();
    let mut disk = vec![0; SIZE];
    for round in 0..6 {
        let (mut at, mut runs) = (0, Vec::new());
        while at < SIZE {
            let longest = [3000, 40_000, 300_000, 2 * MIB][chance.below(4)];
            let end = (at + 512 + chance.below(longest)).min(SIZE);
            runs.push((at, end));
            at = end;
        }
        for place in (1..runs.len()).rev() {
            runs.swap(place, chance.below(place + 1));
        }
        let mut known = Vec::new();
        for &(at, end) in &runs {
            let (length, byte) = (end - at, u8::try_from(1 + chance.below(255)).expect("a byte"));
            let fua = ["", "-f "][usize::from(chance.below(8) == 0)];
            let (command, byte) = match chance.below(10) {
                0 => (format!("aio_write {fua}-z {at} {length}"), 0),
                1 => (format!("aio_write {fua}-z -u {at} {length}"), 0),
                // What a discard leaves is undefined; the last round has none. Of whole sectors:
                // for others qemu 7.2 passes on what NBD forbids, and fails.
                2 if round < 5 => {
                    let (start, end) = (at.next_multiple_of(512), end / 512 * 512);
                    let length = end.saturating_sub(start);
                    commands.extend((length > 0).then(|| format!("discard {start} {length}")));
                    continue;
                }
                _ => (format!("aio_write {fua}-P {byte} {at} {length}"), byte),
            };
            commands.push(command);
            disk[at..end].fill(byte);
            known.push((at, length, byte));
            if chance.below(40) == 0 {
                commands.push("flush".to_owned());
            }
        }
        commands.push("aio_flush".to_owned());
        let read = |(at, length, byte)| format!("aio_read -P {byte} {at} {length}");
        commands.extend(known.into_iter().map(read));
        commands.push("aio_flush".to_owned());
    }
    (commands, disk)
}

/// Does qemu find what it wrote, in any order, zeroed and discarded, with and without FUA; do
/// images go out and in whole; and is the disk the same after the end?
#[test]
fn qemu_finds_what_it_wrote() {
    if !has(&[("qemu-io", "qemu-utils"), ("qemu-img", "qemu-utils")]) {
        return;
    }
    for (seed, way) in (1..).zip(WAYS) {
        let place = Place::new(&format!("qemu-{seed}"));
        let Some(server) = Server::ours(&place, way) else { continue };
        let (uri, copy) = (place.uri("s"), place.path("copy").display().to_string());
        let (commands, expected) = rounds(&mut Chance(seed));
        let mut arguments = vec!["-f", "raw"];
        arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
        arguments.push(&uri);
        let told = succeeds("qemu-io", &arguments);
        assert!(!told.contains("failed"), "{way:?}: {told}");
        let convert = ["convert", "-W", "-m", "16", "-f", "raw", "-O", "raw"];
        succeeds("qemu-img", &[&convert[..], &[&uri, &copy]].concat());
        assert!(fs::read(&copy).expect("a copy") == expected, "{way:?}: what went out");
        // In again, reversed: every byte goes somewhere else.
        let turned: Vec<u8> = expected.iter().rev().copied().collect();
        fs::write(&copy, &turned).expect("room");
        succeeds("qemu-img", &[&convert[..], &["-n", &copy, &uri]].concat());
        succeeds("qemu-img", &["compare", "-f", "raw", "-F", "raw", &copy, &uri]);
        assert!(server.end(&place) == turned, "{way:?}: the disk");
    }
}

/// Runs random requests; at the end the disk must be what libnbd read.
fn random_requests(place: &Place, uri: &str, seed: u64, replies: &str, shape: &str) -> Vec<u8> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/heavy/interop.py");
    let seed = seed.to_string();
    let read = place.path("read").display().to_string();
    succeeds(PYTHON, &["-B", script, uri, &seed, "4000", "4", replies, shape, &read]);
    fs::read(read).expect("what was read")
}

/// Does libnbd find what must be there, with structured replies and simple ones, on four
/// connections with up to 32 requests each, while memory is scarce?
#[test]
fn libnbd_finds_what_it_wrote() {
    if !has_libnbd() {
        return;
    }
    for (seed, way) in (1..).zip(WAYS) {
        for replies in ["structured", "simple"] {
            let place = Place::new(&format!("libnbd-{replies}-{seed}"));
            let Some(server) = Server::ours(&place, way) else { continue };
            let read = random_requests(&place, &place.uri("s"), seed, replies, "any");
            assert!(server.end(&place) == read, "{way:?}, {replies}: the disk");
        }
    }
}

/// Does all of this hold with nbdkit in between, as a client of ours with many requests at a time
/// and a server of libnbd's; and does nbdcopy transfer everything through it, both ways?
#[test]
fn nbdkit_passes_everything_on() {
    let tools = [("nbdkit", "nbdkit"), ("nbdcopy", "libnbd-bin")];
    if !has(&tools) || !has_libnbd() {
        return;
    }
    for (seed, way) in (1..).zip(WAYS) {
        let place = Place::new(&format!("nbdkit-{seed}"));
        let Some(server) = Server::ours(&place, way) else { continue };
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.arg("-f").arg("-U").arg(place.path("proxy")).arg("nbd");
        nbdkit.arg(format!("uri={}", place.uri("s")));
        let proxy = Server::start(&mut nbdkit, &place.path("proxy"));
        let uri = place.uri("proxy");
        // Its plugin refuses partial blocks, as it was told to.
        let read = random_requests(&place, &uri, seed, "structured", "whole");
        assert!(fs::read(place.path("disk")).expect("the disk") == read, "{way:?}");
        let (from, to) = (place.path("from"), place.path("to"));
        let data: Vec<u8> = read.iter().map(|byte| byte.wrapping_add(1)).collect();
        fs::write(&from, &data).expect("room");
        for (from, to) in [(from.to_str(), Some(&*uri)), (Some(&*uri), to.to_str())] {
            let names = [from.expect("text"), to.expect("text")];
            succeeds("nbdcopy", &[&["--flush"], &names[..]].concat());
        }
        assert!(fs::read(&to).expect("a copy") == data, "{way:?}: what came out");
        drop(proxy);
        assert!(server.end(&place) == data, "{way:?}: the disk");
    }
}
