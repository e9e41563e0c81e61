// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does an image have only one owner: among a server's volumes, whatever its names; among servers;
//! and with respect to other programs, in both directions, with a real qemu?

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use paternoster_serve::config::{Config, Device, Volume};
use paternoster_serve::device::claim;
use paternoster_serve::host::activation::Inherited;
use paternoster_serve::host::listen;
use paternoster_serve::server::{Options, Server};

use crate::common::{Folder, config, device, end, skipped, start_with, volume};
use crate::conformance::tools::{fails, succeeds, tool};

const SIZE: u64 = 1 << 20;

/// Starts a server with a socket in a folder of its own.
fn try_start(config: &Config, force: bool) -> Result<(Server, Folder), String> {
    let folder = Folder::in_memory("owner");
    let mut config = config.clone();
    let socket = folder.path("nbd.sock").display().to_string();
    config.server.listen[0].at = format!("unix:{socket}").parse().expect("an address");
    let sockets = listen::open(&config.server, &mut Inherited::default(), None).expect("a socket");
    let options = Options { force, ..Options::default() };
    Ok((Server::start(config, options, sockets)?, folder))
}

/// Starts one on a block device that another had until now: a process just started by a concurrent
/// test may have that one's descriptors for a moment, and with them the kernel's own lock.
fn start_soon(config: &Config) -> Server {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match try_start(config, false) {
            Ok((server, _folder)) => return server,
            Err(refusal) => {
                assert!(refusal.contains("O_EXCL") && Instant::now() < until, "{refusal}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Each volume on a device of its own.
fn devices(volumes: &[Volume]) -> Vec<Device> {
    let devices = volumes.iter().map(|volume| {
        let mut one = device("noop", &[]);
        one.name.clone_from(&volume.name);
        one.volumes.push(volume.clone());
        one
    });
    devices.collect()
}

fn serving(folder: &Folder, volumes: &[Volume]) -> Config {
    let mut all = config(folder, device("noop", &[]));
    all.devices = devices(volumes);
    all
}

fn whole(path: &Path, readonly: bool, share: bool) -> Volume {
    Volume { readonly, share, ..volume("disk", path) }
}

/// Is one file under two names found (symlink, hard link), at a start and by a check, on one device
/// and on two; and is it served if all volumes share it, only read, use separate parts, or are
/// forced?
#[test]
fn two_names_of_one_file() {
    let folder = Folder::on_disk("two-names");
    let image = folder.file("image", SIZE);
    let (soft, hard) = (folder.path("soft"), folder.path("hard"));
    symlink(&image, &soft).unwrap();
    std::fs::hard_link(&image, &hard).unwrap();
    for other in [&soft, &hard] {
        let pair =
            |first: Volume, second: Volume| [first, Volume { name: "other".into(), ..second }];
        let own = pair(whole(&image, false, false), whole(other, false, false));
        let apart = on_two_devices_and_one(&folder, &own);
        for config in &apart {
            let refusal = try_start(config, false).unwrap_err();
            assert!(
                refusal.contains("volumes `disk`") && refusal.contains("same file"),
                "{refusal}"
            );
            assert_eq!(claim::ask(&config.devices).unwrap_err().to_string(), refusal);
            let (server, _folder) = try_start(config, true).unwrap();
            assert!(server.notes().iter().any(|note| note.contains("same file")), "it is said");
            end(&server);
        }
        let half = |volume: Volume, start| Volume { start, length: Some(SIZE / 2), ..volume };
        for fine in [
            pair(whole(&image, true, false), whole(other, true, false)),
            pair(whole(&image, false, true), whole(other, false, true)),
            pair(half(whole(&image, false, false), 0), half(whole(other, false, false), SIZE / 2)),
        ] {
            for config in on_two_devices_and_one(&folder, &fine) {
                claim::ask(&config.devices).unwrap();
                end(&try_start(&config, false).unwrap().0);
            }
        }
        let mixed = pair(whole(&image, false, true), whole(other, false, false));
        assert!(try_start(&serving(&folder, &mixed), false).is_err(), "both must share");
    }
}

fn on_two_devices_and_one(folder: &Folder, volumes: &[Volume]) -> [Config; 2] {
    let mut one = config(folder, device("noop", &[]));
    one.devices[0].volumes = volumes.to_vec();
    [serving(folder, volumes), one]
}

/// Do two servers keep off each other's files, in one process or in two, except reader and reader?
#[test]
fn two_servers() {
    let folder = Folder::on_disk("two-servers");
    let image = folder.file("image", SIZE);
    for (first, second, together) in [
        // (only reads, is shared): a table of which may coexist.
        ((false, false), (false, false), false),
        ((false, false), (true, false), false),
        ((true, false), (true, false), true),
        ((false, true), (false, true), true),
        ((false, true), (false, false), false),
        ((false, false), (true, true), true),
    ] {
        let of = |(readonly, share)| serving(&folder, &[whole(&image, readonly, share)]);
        for (one, other) in [(of(first), of(second)), (of(second), of(first))] {
            let (running, _folder) = try_start(&one, false).unwrap();
            let asked = claim::ask(&other.devices);
            assert_eq!(asked.is_ok(), together, "{first:?} {second:?} {asked:?}");
            let started = try_start(&other, false);
            assert_eq!(started.is_ok(), together, "{first:?} {second:?}");
            match started {
                Ok((server, _folder)) => end(&server),
                Err(refusal) => {
                    assert!(refusal.contains("is in use: another program has it"), "{refusal}");
                    let (forced, _folder) = try_start(&other, true).unwrap();
                    assert!(forced.notes().iter().any(|note| note.contains("--force uses it")));
                    end(&forced);
                }
            }
            end(&running);
            // What has ended has given everything back.
            end(&try_start(&other, false).unwrap().0);
        }
    }
}

/// A qemu-io that has an image open until it is dropped.
struct Open(Child);

impl Open {
    fn image(image: &Path, options: &[&str]) -> Open {
        let mut command = Command::new("qemu-io");
        command.args(["-f", "raw"]).args(options).arg(image);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("qemu-io");
        let open = Open(child);
        // The other process has opened it once its locks exist.
        let inode = format!(":{} ", inode(image));
        let until = Instant::now() + Duration::from_secs(60);
        let has_it = || std::fs::read_to_string("/proc/locks").unwrap().contains(&inode);
        while !has_it() {
            assert!(Instant::now() < until, "qemu-io did not open it");
            std::thread::sleep(Duration::from_millis(10));
        }
        open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).expect("a file").ino()
}

/// Does a real qemu fail on files that we serve (always to write, never to read); and do we fail on
/// files that a real qemu writes to, and name it?
#[test]
fn a_real_qemu_is_noticed_and_notices() {
    let folder = Folder::on_disk("qemu-owner");
    let image = folder.file("image", SIZE);
    let qemu_io = |options: &[&str], line: &str| {
        let mut command = tool("qemu-io", "qemu-utils")?;
        command.args(["-f", "raw"]).args(options).args(["-c", line]).arg(&image);
        Some(command)
    };
    let (write, read) = ("write -P 7 0 512", "read 0 512");
    let Some(mut first) = qemu_io(&[], write) else { return };
    succeeds(&mut first);
    for (readonly, share, may_write) in
        [(false, false, false), (true, false, false), (false, true, true), (true, true, true)]
    {
        let served = serving(&folder, &[whole(&image, readonly, share)]);
        let (server, _folder) = try_start(&served, false).unwrap();
        let mut writes = qemu_io(&[], write).unwrap();
        if may_write {
            succeeds(&mut writes);
        } else {
            let told = fails(&mut writes);
            assert!(told.contains("Failed to get \"write\" lock"), "{told}");
        }
        succeeds(&mut qemu_io(&["-r"], read).unwrap());
        end(&server);
        succeeds(&mut qemu_io(&[], write).unwrap());

        // qemu first: a reader is in no one's way, a writer is, unless we share.
        let reader = Open::image(&image, &["-r"]);
        end(&try_start(&served, false).unwrap().0);
        drop(reader);
        let writer = Open::image(&image, &[]);
        let started = try_start(&served, false);
        if may_write {
            end(&started.unwrap().0);
        } else {
            let refusal = started.unwrap_err();
            let expected = format!("qemu-io (process {}) has it open to write", writer.0.id());
            assert!(refusal.contains(&expected), "{refusal}");
            assert_eq!(claim::ask(&served.devices).unwrap_err().to_string(), refusal);
            end(&try_start(&served, true).unwrap().0);
        }
        drop(writer);
    }
}

/// A loop device, detached at the end.
struct Loop(PathBuf);

impl Loop {
    /// `None`, said aloud, where there can be none.
    fn over(image: &Path, options: &[&str]) -> Option<Loop> {
        let mut command = Command::new("losetup");
        let made = command.args(["-f", "--show"]).args(options).arg(image).output();
        match made {
            Ok(made) if made.status.success() => {
                let name = String::from_utf8(made.stdout).expect("text");
                Some(Loop(PathBuf::from(name.trim())))
            }
            _ => {
                skipped("no loop device can be made here");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _gone = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// Is a loop device found to share bytes with its own file, within one server and between two; is a
/// second loop over another part of the file allowed; and does the kernel's own lock keep a second
/// owner off a device, but not readers?
#[test]
fn a_loop_and_its_file() {
    let folder = Folder::on_disk("loop-owner");
    let image = folder.file("image", SIZE);
    let Some(all) = Loop::over(&image, &[]) else { return };
    let pair =
        [whole(&image, false, false), Volume { name: "l".into(), ..whole(&all.0, false, false) }];
    let refusal = try_start(&serving(&folder, &pair), false).unwrap_err();
    assert!(refusal.contains("are on the same file"), "{refusal}");
    let by_loop = serving(&folder, &pair[1..]);
    let (server, _folder) = try_start(&by_loop, false).unwrap();
    let refusal = try_start(&serving(&folder, &pair[..1]), false).unwrap_err();
    assert!(refusal.contains("is in use"), "{refusal}");
    let refusal = try_start(&by_loop, false).unwrap_err();
    assert!(refusal.contains("O_EXCL"), "{refusal}");
    let excl = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&all.0).output();
    if let Ok(excl) = excl {
        assert!(!excl.status.success(), "mkfs asks the kernel, too");
    }
    end(&server);
    let readers = serving(&folder, &[whole(&all.0, true, false)]);
    let (server, _folder) = try_start(&readers, false).unwrap();
    end(&try_start(&readers, false).unwrap().0);
    end(&server);
    drop(all);

    // Two halves of one file, each a loop: neither is in the other's way.
    let half = SIZE / 2;
    let (offset, limit) = (format!("-o{half}"), format!("--sizelimit={half}"));
    let Some(front) = Loop::over(&image, &[&limit]) else { return };
    let Some(back) = Loop::over(&image, &[&offset]) else { return };
    let halves = [
        whole(&front.0, false, false),
        Volume { name: "b".into(), ..whole(&back.0, false, false) },
    ];
    let (server, _folder) = try_start(&serving(&folder, &halves), false).unwrap();
    end(&server);
    let one = start_soon(&serving(&folder, &halves[..1]));
    end(&start_soon(&serving(&folder, &halves[1..])));
    end(&one);
    let mixed = [whole(&image, false, false), halves[1].clone()];
    assert!(try_start(&serving(&folder, &mixed), false).is_err(), "the file has both halves");
}

/// Is a disk that a program changes (with flock, as udev's convention has it) refused, and kept
/// from being changed while it is served?
#[test]
fn a_disk_that_is_being_changed() {
    let folder = Folder::on_disk("flock-owner");
    let image = folder.file("image", SIZE);
    let Some(disk) = Loop::over(&image, &[]) else { return };
    let served = serving(&folder, &[whole(&disk.0, false, false)]);
    let node = std::fs::File::open(&disk.0).unwrap();
    node.lock().unwrap();
    let refusal = try_start(&served, false).unwrap_err();
    assert!(refusal.contains("flock"), "{refusal}");
    node.unlock().unwrap();
    let (server, _folder) = try_start(&served, false).unwrap();
    assert!(node.try_lock().is_err(), "it is served");
    node.try_lock_shared().expect("udev may look at it");
    drop(node);
    end(&server);
}

/// Does a name that is given to another file between claim and opening end the start?
#[test]
fn a_name_that_is_given_away() {
    let folder = Folder::on_disk("given-away");
    let image = folder.file("image", SIZE);
    let served = devices(&[whole(&image, false, false)]);
    let claims = claim::Claims::take(&served, false).unwrap();
    claims.confirm().unwrap();
    drop(claims);
    std::fs::remove_file(&image).unwrap();
    let claims = claim::Claims::take(&served, false).unwrap();
    folder.file("image", SIZE);
    assert!(claims.confirm().is_err(), "it was not there when it was claimed");
    let claims = claim::Claims::take(&served, false).unwrap();
    std::fs::remove_file(&image).unwrap();
    folder.file("image", SIZE);
    let message = claims.confirm().unwrap_err().to_string();
    assert!(message.contains("it was replaced"), "{message}");
    let other =
        start_with(config(&folder, device("noop", &[("disk", &image)])), Options::default());
    end(&other);
}
