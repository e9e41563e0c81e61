// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own NBD client (`nbd.ko`), which has simple replies only, in a guest of QEMU
//! without KVM, on a disk that we serve.
//!
//! ```text
//! host   disk: [ known bytes, 48 MiB ][ written by the guest, 16 MiB ]
//!          └ paternoster serve ── tcp, loopback ──┐
//! guest  busybox, nbd.ko, nbd-client ── user network of QEMU ── /dev/nbd0
//!          reads of 4 MiB, each compared by its sum, together with small durable writes
//!          and small reads; then the host checks what was written
//! ```
//!
//! Long reads are sent in parts. A reply that is written between two of them is data to the kernel:
//! sums differ, or the stream breaks. Speed is not measured.
//!
//! The kernel and busybox are unpacked in `target/guest` (`checks/full.sh` puts them there; the
//! variable `PATERNOSTER_GUEST` names another folder); `nbd-client` is the host's, with its
//! libraries.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::skipped;

const MIB: usize = 1 << 20;
/// What is awaited, and what is typed then.
const KNOWN: usize = 48 * MIB;
const WRITTEN: usize = 16 * MIB;
/// Reads of 4 MiB in a round: all of the known bytes.
const READS: usize = KNOWN / (4 * MIB);
/// A guest without KVM boots in seconds; this only ends one that hangs.
const PATIENCE: Duration = Duration::from_secs(240);
/// The modules to load, with their dependencies, unless built into the kernel.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_net", "nbd"];

/// What a guest is made of, or what is missing.
pub(crate) struct Parts {
    pub(crate) kernel: PathBuf,
    /// In the order in which they are loaded.
    pub(crate) modules: Vec<(String, Vec<u8>)>,
    busybox: PathBuf,
    client: PathBuf,
}

impl Parts {
    pub(crate) fn find() -> Result<Parts, String> {
        let root = std::env::var_os("PATERNOSTER_GUEST").map(PathBuf::from);
        let root = root.unwrap_or_else(|| {
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target").join("guest")
        });
        let files = all_files(&root);
        let named = |name: &str| {
            let found = files.iter().find(|path| {
                path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
            });
            found.cloned().ok_or_else(|| format!("{name} is not below {}", root.display()))
        };
        let mut modules = Vec::new();
        for name in MODULES {
            with_what_it_needs(name, &files, &mut modules)?;
        }
        if !modules.iter().any(|(name, _)| name == "nbd") {
            return Err(format!("nbd.ko is not below {}", root.display()));
        }
        let client = ["/sbin/nbd-client", "/usr/sbin/nbd-client"].iter().map(PathBuf::from);
        let mut client = client.filter(|path| path.is_file());
        Ok(Parts {
            kernel: named("vmlinuz")?,
            modules,
            busybox: {
                let mut found = files.iter().filter(|path| path.ends_with("bin/busybox"));
                let missing = || format!("bin/busybox is not below {}", root.display());
                found.next().cloned().ok_or_else(missing)?
            },
            client: client
                .next()
                .ok_or("nbd-client is not installed (Debian package nbd-client)")?,
        })
    }

    /// The initial contents of the guest's memory.
    pub(crate) fn archive(&self, init: &str) -> Result<Vec<u8>, String> {
        let read = |path: &Path| fs::read(path).map_err(|it| format!("{}: {it}", path.display()));
        let mut archive = Archive::default();
        for folder in ["bin", "dev", "proc", "sys", "lib", "lib64", "m"] {
            archive.entry(folder, 0o040_755, &[]);
        }
        archive.entry("init", 0o100_755, init.as_bytes());
        archive.entry("bin/busybox", 0o100_755, &read(&self.busybox)?);
        archive.entry("bin/nbd-client", 0o100_755, &read(&self.client)?);
        for (name, module) in &self.modules {
            archive.entry(&format!("m/{name}.ko"), 0o100_644, module);
        }
        let libraries =
            Command::new("ldd").arg(&self.client).output().map_err(|it| it.to_string())?;
        let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
        let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        for path in paths {
            let name = Path::new(path).file_name().expect("a library").to_string_lossy();
            let folder = if path.contains("ld-linux") { "lib64" } else { "lib" };
            archive.entry(&format!("{folder}/{name}"), 0o100_755, &read(Path::new(path))?);
        }
        archive.entry("TRAILER!!!", 0, &[]);
        Ok(archive.0)
    }
}

/// Puts a module after its dependencies. One without a file is built in.
fn with_what_it_needs(
    name: &str,
    files: &[PathBuf],
    modules: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), String> {
    let file = format!("{name}.ko");
    let is_it = |path: &&PathBuf| {
        let found = path.file_name().map(|found| found.to_string_lossy().replace('-', "_"));
        found.is_some_and(|found| found == file || found == format!("{file}.xz"))
    };
    let Some(path) = files.iter().find(is_it) else { return Ok(()) };
    if modules.iter().any(|(known, _)| known == name) {
        return Ok(());
    }
    let bytes = module(path)?;
    let key = b"\0depends=";
    let at = bytes.windows(key.len()).position(|window| window == key);
    let needs = at.map_or(&[][..], |at| &bytes[at + key.len()..]);
    let needs = needs.split(|byte| *byte == 0).next().unwrap_or_default();
    for needed in String::from_utf8_lossy(needs).split(',').filter(|needed| !needed.is_empty()) {
        with_what_it_needs(needed, files, modules)?;
    }
    modules.push((name.to_owned(), bytes));
    Ok(())
}

/// A module, unpacked if it is packed.
fn module(path: &Path) -> Result<Vec<u8>, String> {
    if path.extension().is_some_and(|ending| ending == "ko") {
        return fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    }
    let unpacked = Command::new("xz").arg("-dc").arg(path).output();
    let unpacked = unpacked.map_err(|error| format!("xz: {error}"))?;
    if unpacked.status.success() { Ok(unpacked.stdout) } else { Err("xz failed".to_owned()) }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => all_files(&entry.path()),
        Ok(kind) if kind.is_file() => vec![entry.path()],
        _ => Vec::new(),
    });
    below.collect()
}

/// An archive as the kernel unpacks it: cpio, "newc" (Documentation of its initramfs buffer
/// format).
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        let number = self.0.len() + 1;
        let fields = [number, mode as usize, 0, 0, 1, 0, data.len(), 0, 0, 0, 0, name.len() + 1, 0];
        let fields: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        self.0.extend_from_slice(format!("070701{fields}{name}\0").as_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// Numbers that differ at each place: no two blocks are alike.
fn known() -> Vec<u8> {
    let mut state = 25u64;
    let words = (0..KNOWN / 8).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 17).to_le_bytes()
    });
    words.collect()
}

/// The guest's script. Each round it reads all known bytes, in long reads, while others write and
/// read small amounts after them.
fn init(modules: &[&str], port: u16) -> String {
    format!(
        r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in {modules}; do insmod /m/$m.ko; done; sleep 1
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
nbd-client 10.0.2.2 {port} /dev/nbd0 -N disk -b 512 || echo GUEST no client
cat /sys/block/nbd0/queue/max_hw_sectors_kb > /sys/block/nbd0/queue/max_sectors_kb
echo GUEST largest request $(cat /sys/block/nbd0/queue/max_sectors_kb) KiB
sum() {{ dd if=/dev/nbd0 bs=4M iflag=direct skip=$1 count=1 2>/dev/null | md5sum; }}
little() {{
    n=0
    while [ ! -e /stop ]; do
        for k in 0 1 2 3 4 5 6 7; do
            printf "writer $1 round $n block $k" | dd of=/w$1 bs=4096 count=1 conv=sync 2>/dev/null
            dd if=/w$1 of=/dev/nbd0 bs=4096 oflag=direct seek=$(({first} + $1 * 64 + k)) count=1 \
                conv=fsync,notrunc 2>/dev/null || echo GUEST write failed
            dd if=/dev/nbd0 of=/dev/null bs=4096 iflag=direct skip=$((n % 64)) count=1 2>/dev/null
        done
        n=$((n + 1))
    done
    echo $n > /done$1
}}
for w in 0 1 2 3; do little $w & done
for round in 1 2 3; do
    for r in $(seq 0 {last}); do
        o=$(((r + 5) % {reads}))
        sum $o > /other & other=$!
        echo GUEST sum $r $(sum $r)
        wait $other
        echo GUEST sum $o $(cat /other)
    done
done
touch /stop
for w in 0 1 2 3; do while [ ! -s /done$w ]; do sleep 1; done; done
for w in 0 1 2 3; do echo GUEST rounds $w $(cat /done$w); done
sync; nbd-client -d /dev/nbd0 >/dev/null
echo GUEST end
poweroff -f
"#,
        modules = modules.join(" "),
        first = KNOWN / 4096,
        last = READS - 1,
        reads = READS,
    )
}

/// Ended however the test ends.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn sum_of(bytes: &[u8]) -> String {
    let mut child = Command::new("md5sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("md5sum of coreutils");
    child.stdin.take().expect("a pipe").write_all(bytes).expect("it reads");
    let told = child.wait_with_output().expect("it ends").stdout;
    String::from_utf8(told).expect("text").split(' ').next().expect("a sum").to_owned()
}

/// Does a kernel that supports only simple replies read what is there, in long reads together with
/// small durable writes and small reads, and is each of these writes where it belongs?
#[test]
fn the_kernels_client_reads_what_is_there() {
    let parts = match Parts::find() {
        Ok(parts) => parts,
        Err(missing) => return skipped(&missing),
    };
    if !Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .is_ok_and(|it| it.status.success())
    {
        return skipped("qemu-system-x86_64 is not installed (Debian package qemu-system-x86)");
    }
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guest-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (disk, archive, log) = (folder.join("disk"), folder.join("archive"), folder.join("log"));
    let data = known();
    fs::write(&disk, &data).expect("room");
    let file = fs::File::options().write(true).open(&disk).expect("the disk");
    file.set_len((KNOWN + WRITTEN) as u64).expect("room");
    // Free again as soon as its number is known.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let port = port.expect("a port").port();
    let mut server = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    server.args(["serve", "--engine=threads", "--listen", &format!("tcp:127.0.0.1:{port}")]);
    let server = server.arg(&disk).stderr(Stdio::inherit()).spawn().expect("the server");
    let _server = Process(server);
    let modules: Vec<&str> = parts.modules.iter().map(|(name, _)| name.as_str()).collect();
    fs::write(&archive, parts.archive(&init(&modules, port)).expect("an archive")).expect("room");
    let mut guest = Command::new("qemu-system-x86_64");
    guest.args(["-accel", "tcg", "-m", "512", "-smp", "2", "-display", "none", "-no-reboot"]);
    guest.args(["-nic", "user,model=virtio-net-pci"]);
    guest.arg("-serial").arg(format!("file:{}", log.display()));
    guest.arg("-kernel").arg(&parts.kernel).arg("-initrd").arg(&archive);
    guest.args(["-append", "console=ttyS0 edd=off panic=-1 quiet"]);
    let mut guest = Process(guest.spawn().expect("qemu"));
    let until = Instant::now() + PATIENCE;
    // A kernel that has lost the stream waits for ever, and says so.
    let lost = || fs::read(&log).is_ok_and(|told| String::from_utf8_lossy(&told).contains("magic"));
    while guest.0.try_wait().expect("a child").is_none() && Instant::now() < until && !lost() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let told = fs::read(&log).expect("a log");
    let told = String::from_utf8_lossy(&told).into_owned();
    let lines = || told.lines().filter_map(|line| line.trim_end().strip_prefix("GUEST "));
    assert!(lines().any(|line| line == "end"), "the guest did not come to its end:\n{told}");
    let sums: Vec<String> = data.chunks(4 * MIB).map(sum_of).collect();
    let mut read = 0;
    for line in lines().filter_map(|line| line.strip_prefix("sum ")) {
        let (place, sum) = line.split_once(' ').expect("a place and its sum");
        let place: usize = place.parse().expect("a number");
        assert!(sum.starts_with(&sums[place]), "4 MiB at {place}: {sum}\n{told}");
        read += 1;
    }
    assert_eq!(read, 2 * 3 * READS, "{told}");
    assert!(!told.contains("write failed"), "{told}");
    // The last of each writer's rounds is where it belongs.
    let found = fs::read(&disk).expect("the disk");
    for line in lines().filter_map(|line| line.strip_prefix("rounds ")) {
        let (writer, rounds) = line.split_once(' ').expect("a writer and its rounds");
        let (writer, rounds): (usize, usize) =
            (writer.parse().expect("a number"), rounds.parse().expect("a number"));
        for block in 0..8 {
            let at = KNOWN + (writer * 64 + block) * 4096;
            let expected = format!("writer {writer} round {} block {block}", rounds - 1);
            assert!(found[at..].starts_with(expected.as_bytes()), "{expected}\n{told}");
        }
    }
    assert!(found[..KNOWN] == data, "nobody wrote there");
    fs::remove_dir_all(&folder).expect("gone");
}
