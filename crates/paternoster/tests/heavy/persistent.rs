// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own NBD client during upgrades, under load, in the guest of `guest.rs`.
//!
//! ```text
//! guest  4 writers, each block made durable and then told at the console ── /dev/nbd0
//! host   hand-overs, or a restart; and then every block that was told is there
//! ```
//!
//! It notices no hand-over, and survives no restart, whatever its options: docs/serve/upgrade.md
//! says both, and this test fails if one is no longer true.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::skipped;
use crate::guest::{Parts, Process};

const PATIENCE: Duration = Duration::from_secs(200);
/// Hand-overs.
const TIMES: usize = 4;
/// Blocks that are written between two of them.
const MORE: usize = 40;

fn init(modules: &[&str], port: u16, options: &str) -> String {
    format!(
        r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in {modules}; do insmod /m/$m.ko; done; sleep 1
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
nbd-client 10.0.2.2 {port} /dev/nbd0 -N disk -b 512 {options} || echo GUEST no client
writer() {{
    n=0
    while [ ! -e /stop ]; do
        k=$(($1 * 64 + n % 64))
        printf "writer $1 number $n." | dd of=/w$1 bs=4096 count=1 conv=sync 2>/dev/null
        if dd if=/w$1 of=/dev/nbd0 bs=4096 oflag=direct seek=$k count=1 conv=fsync,notrunc 2>/e$1
        then echo GUEST wrote $k writer $1 number $n.
        else echo GUEST failed $k $(cat /e$1); fi
        n=$((n + 1))
        sleep 0.05
    done
    echo > /done$1
}}
for w in 0 1 2 3; do writer $w & done
read line < /dev/ttyS0
touch /stop
for w in 0 1 2 3; do while [ ! -s /done$w ]; do sleep 1; done; done
sync; echo GUEST end
poweroff -f
"#,
        modules = modules.join(" "),
    )
}

struct House {
    folder: PathBuf,
    file: PathBuf,
}

impl House {
    fn start(&self, takes_over: bool) -> Process {
        let mut server = Command::new(env!("CARGO_BIN_EXE_paternoster"));
        server.arg("serve").arg(&self.file).args(takes_over.then_some("--take-over"));
        Process(server.stdin(Stdio::null()).spawn().expect("the server"))
    }

    fn told(&self) -> String {
        let told = fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&told).into_owned()
    }

    /// Waits until this many more blocks have been reported.
    fn until(&self, what: &str, more: usize, guest: &mut Process) {
        let words = format!("GUEST {what}");
        let count = || self.told().matches(&words).count();
        let (from, limit) = (count(), Instant::now() + PATIENCE);
        while count() < from + more {
            let is_there = guest.0.try_wait().expect("a child").is_none();
            assert!(is_there && Instant::now() < limit, "the guest is stuck:\n{}", self.told());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn ends(server: &mut Child) {
    let limit = Instant::now() + PATIENCE;
    while server.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < limit, "the server does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a guest has reported.
struct Outcome {
    wrote: usize,
    failed: usize,
    log: String,
}

/// A kernel's client, connected with these options, writes while `act` does something with the
/// server; every block that was reported as written must be there. `None` if a program for this is
/// missing.
fn with_a_guest(
    options: &str,
    act: impl FnOnce(&House, &mut Process, &mut Process),
) -> Option<Outcome> {
    let parts = match Parts::find() {
        Ok(parts) => parts,
        Err(missing) => {
            skipped(&missing);
            return None;
        }
    };
    let name = format!("up-{}-{}", std::process::id(), options.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let (disk, archive) = (folder.join("disk"), folder.join("archive"));
    fs::File::create(&disk).expect("a disk").set_len(4 << 20).expect("room");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let port = port.expect("a port").port();
    let house = House { file: folder.join("serve.toml"), folder: folder.clone() };
    let text = format!(
        "[server]\nlisten = 'tcp:127.0.0.1:{port}'\ncontrol = '{}'\n[volume.disk]\npath = '{}'\n\
         raw = true\n",
        folder.join("control").display(),
        disk.display()
    );
    fs::write(&house.file, text).expect("room");
    let mut server = house.start(false);
    let modules: Vec<&str> = parts.modules.iter().map(|(name, _)| name.as_str()).collect();
    fs::write(&archive, parts.archive(&init(&modules, port, options)).expect("an archive"))
        .expect("room");
    let mut guest = Command::new("qemu-system-x86_64");
    guest.args(["-accel", "tcg", "-m", "512", "-smp", "2", "-display", "none", "-no-reboot"]);
    guest.args(["-nic", "user,model=virtio-net-pci"]);
    let log = folder.join("log").display().to_string();
    guest.args(["-chardev", &format!("stdio,id=c,logfile={log}"), "-serial", "chardev:c"]);
    guest.arg("-kernel").arg(&parts.kernel).arg("-initrd").arg(&archive);
    guest.args(["-append", "console=ttyS0 edd=off panic=-1 quiet"]);
    let guest = guest.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut guest = match guest {
        Ok(child) => Process(child),
        Err(error) => {
            skipped(&format!("qemu-system-x86_64: {error} (Debian package qemu-system-x86)"));
            return None;
        }
    };
    house.until("wrote", MORE, &mut guest);
    act(&house, &mut server, &mut guest);
    let mut stdin = guest.0.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, b"stop\n").expect("it listens");
    ends(&mut guest.0);
    let told = house.told();
    assert!(told.contains("GUEST end"), "{told}");
    assert!(!told.contains("no client"), "{told}");
    let found = fs::read(&disk).expect("the disk");
    let mut last = std::collections::BTreeMap::new();
    for line in told.lines().filter_map(|line| line.trim_end().strip_prefix("GUEST wrote ")) {
        let (block, text) = line.split_once(' ').expect("a block and its text");
        last.insert(block.parse::<usize>().expect("a number"), text);
    }
    assert!(!last.is_empty());
    for (block, text) in last {
        assert!(found[block * 4096..].starts_with(text.as_bytes()), "{block}: {text}\n{told}");
    }
    fs::remove_dir_all(&folder).expect("gone");
    let count = |what: &str| told.matches(what).count();
    let (wrote, failed) = (count("GUEST wrote"), count("GUEST failed"));
    Some(Outcome { wrote, failed, log: told })
}

/// Does a kernel's client see no error and lose nothing while servers follow each other by
/// hand-over?
#[test]
fn the_kernels_client_notices_no_hand_over() {
    let told = with_a_guest("", |house, server, guest| {
        for _ in 0..TIMES {
            let new = house.start(true);
            ends(&mut server.0);
            *server = new;
            house.until("wrote", MORE, guest);
        }
    });
    if let Some(Outcome { wrote, failed, log }) = told {
        assert!(failed == 0 && wrote >= (TIMES + 1) * MORE, "{failed}, {wrote}: {log}");
    }
}

/// Is it true what docs/serve/upgrade.md says of `-persist`, with netlink and without: after a
/// restart every request fails, and what was written before is there?
#[test]
fn the_kernels_client_outlives_no_restart() {
    for options in ["-persist -timeout 60", "-nonetlink -persist -timeout 60"] {
        let told = with_a_guest(options, |house, server, guest| {
            let number = rustix::process::Pid::from_child(&server.0);
            let ended = rustix::process::kill_process(number, rustix::process::Signal::TERM);
            ended.expect("it is ours");
            ends(&mut server.0);
            *server = house.start(false);
            house.until("failed", MORE, guest);
        });
        let Some(Outcome { wrote, failed, log }) = told else { return };
        println!("nbd-client {options}: {wrote} written, then {failed} failed");
        let last =
            log.lines().rev().find(|line| line.starts_with("GUEST ") && !line.contains("end"));
        let is_dead = last.is_some_and(|line| line.starts_with("GUEST failed"));
        assert!(is_dead, "{options}: it came again, so that the page is wrong: {log}");
    }
}
