// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the helper, with both ends in one process: the mount that a dead server leaves behind,
//! another folder put in the place of its own, answers that come too late.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags};

use super::*;
use crate::fuse::mount;
use crate::host::private_folder::PrivateFolder;

const SHORT: Duration = Duration::from_millis(1);

/// A folder with an empty one, `above/m`, to mount on; nothing is mounted below it in the end.
struct Ground(PrivateFolder);

impl Ground {
    /// `None` if this machine cannot mount; that is printed.
    fn new() -> Option<Ground> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        if device.is_err() || !rustix::process::geteuid().is_root() {
            println!("skipped: what a helper mounts: no right to mount, or no /dev/fuse");
            return None;
        }
        let ground = Ground(PrivateFolder::new("paternoster-test").unwrap());
        fs::create_dir_all(ground.path("above/m")).unwrap();
        fs::create_dir_all(ground.path("elsewhere/m")).unwrap();
        Some(ground)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn hand(&self) -> Hand {
        Hand::new(&Fuse::new(self.path("above/m")))
    }

    /// The mounts below the folder.
    fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        let below = points.filter_map(|point| Path::new(point).strip_prefix(self.0.path()).ok());
        below.map(|point| point.display().to_string()).collect()
    }

    fn other_mount(&self, at: &str) {
        let (at, flags) = (self.path(at), MountFlags::empty());
        rustix::mount::mount("none", &at, "tmpfs", flags, None).unwrap();
    }

    fn unmount(&self, at: &str) {
        rustix::mount::unmount(self.path(at), UnmountFlags::DETACH).unwrap();
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for point in self.mounts() {
            let _gone = rustix::mount::unmount(self.path(&point), UnmountFlags::DETACH);
        }
        // The folder itself goes with its value.
        for entry in fs::read_dir(self.0.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            let _gone = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}

/// Is the folder unmounted after a server dies while its helper mounts it, so that no answer
/// reaches the server?
#[test]
fn a_server_that_dies_during_a_mount_leaves_nothing() {
    let Some(ground) = Ground::new() else { return };
    let mut hand = ground.hand();
    let (ours, its) = UnixStream::pair().unwrap();
    let (ours, its) = (Line::new(ours).unwrap(), Channel::new(its).unwrap());
    // The request has arrived, and the process that sent it has gone.
    ours.ask(MOUNT, SHORT).unwrap_err();
    drop(ours);
    hand.answer(&its);
    assert_eq!(ground.mounts(), ["above/m"], "it was mounted");
    assert!(mount::is_dead(&ground.path("above/m")));
    hand.end();
    assert_eq!(ground.mounts(), [""; 0]);
}

/// And after a server dies while the helper tells it that the folder is in use?
#[test]
fn a_server_that_dies_during_an_unmount_leaves_nothing() {
    let Some(ground) = Ground::new() else { return };
    let mut hand = ground.hand();
    let (_, device) = hand.mount().unwrap();
    let user = rustix::fs::open(
        ground.path("above/m"),
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
    );
    let (ours, its) = UnixStream::pair().unwrap();
    let (ours, its) = (Line::new(ours).unwrap(), Channel::new(its).unwrap());
    ours.ask(UNMOUNT, SHORT).unwrap_err();
    drop((ours, device));
    hand.answer(&its);
    assert_eq!(ground.mounts(), ["above/m"], "it is in use");
    hand.end();
    assert_eq!(ground.mounts(), [""; 0]);
    drop(user);
}

/// Is nothing mounted on what another user puts in the place of the folder after the start: a link
/// to an empty folder, another empty folder, a file, nothing? And is the folder itself mounted on
/// where a link has come in the place of one above it?
#[test]
fn what_comes_in_place_of_the_folder_is_not_mounted_on() {
    type Swap = fn(&Ground);
    let away = |ground: &Ground| {
        fs::rename(ground.path("above/m"), ground.path("above/old")).unwrap();
    };
    let swaps: [(Swap, &str); 4] = [
        (
            |ground| symlink(ground.path("elsewhere/m"), ground.path("above/m")).unwrap(),
            "no folder",
        ),
        (|ground| fs::create_dir(ground.path("above/m")).unwrap(), "another folder"),
        (|ground| fs::write(ground.path("above/m"), "").unwrap(), "no folder"),
        (|_| {}, "no such folder"),
    ];
    for (swap, why) in swaps {
        let Some(ground) = Ground::new() else { return };
        let mut hand = ground.hand();
        away(&ground);
        swap(&ground);
        let told = hand.mount().unwrap_err();
        assert!(told.contains(why), "{told}");
        assert_eq!(ground.mounts(), [""; 0]);
    }
    let Some(ground) = Ground::new() else { return };
    let mut hand = ground.hand();
    fs::rename(ground.path("above"), ground.path("moved")).unwrap();
    symlink(ground.path("elsewhere"), ground.path("above")).unwrap();
    let (_, device) = hand.mount().unwrap();
    assert_eq!(ground.mounts(), ["moved/m"]);
    // Nor is anything unmounted elsewhere.
    ground.other_mount("elsewhere/m");
    hand.unmount(false).unwrap();
    assert_eq!(ground.mounts(), ["elsewhere/m"]);
    drop(device);
}

/// Is the right folder mounted on if a mount hid it at the start, a dead one or one that has gone
/// since; and is no link followed there either?
#[test]
fn a_folder_that_was_covered_is_mounted_on() {
    for dead in [true, false] {
        let Some(ground) = Ground::new() else { return };
        let mut before = ground.hand();
        let (_, device) = before.mount().unwrap();
        let device = Some(device).filter(|_| !dead);
        let mut hand = ground.hand();
        if device.is_some() {
            before.unmount(false).unwrap();
        }
        let (_, again) = hand.mount().unwrap();
        assert_eq!(ground.mounts(), ["above/m"], "{dead}");
        drop((device, again));
        hand.end();
        assert_eq!(ground.mounts(), [""; 0]);
    }
    let Some(ground) = Ground::new() else { return };
    let mut before = ground.hand();
    let (_, _device) = before.mount().unwrap();
    let mut hand = ground.hand();
    before.unmount(false).unwrap();
    fs::rename(ground.path("above/m"), ground.path("above/old")).unwrap();
    symlink(ground.path("elsewhere/m"), ground.path("above/m")).unwrap();
    assert!(hand.mount().unwrap_err().ends_with("it is no folder"));
    assert_eq!(ground.mounts(), [""; 0]);
}

/// Does what another process mounts there stay: on top of ours, which is in use then, and in its
/// place; and is there no second mount?
#[test]
fn mounts_of_others_are_not_unmounted() {
    let Some(ground) = Ground::new() else { return };
    let mut hand = ground.hand();
    let (_, device) = hand.mount().unwrap();
    ground.other_mount("above/m");
    for detached in [false, true] {
        let told = hand.unmount(detached).unwrap_err();
        assert_eq!(told.raw_os_error(), Some(libc::EBUSY), "{detached}");
    }
    assert_eq!(ground.mounts(), ["above/m", "above/m"]);
    ground.unmount("above/m");
    // Another process unmounts ours and mounts its own.
    ground.unmount("above/m");
    ground.other_mount("above/m");
    for detached in [false, true] {
        hand.unmount(detached).unwrap();
        assert_eq!(ground.mounts(), ["above/m"], "{detached}");
    }
    ground.unmount("above/m");
    assert_eq!(hand.mount().unwrap_err(), "it has mounted already");
    drop(device);
    hand.end();
}

/// Is a late answer not taken for the next request's, and is a helper that has ended distinguished
/// from one that is late?
#[test]
fn an_answer_that_is_late_is_no_other_ones() {
    let (ours, its) = UnixStream::pair().unwrap();
    let (ours, its) = (Line::new(ours).unwrap(), Channel::new(its).unwrap());
    let late = ours.ask(UNMOUNT, SHORT).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    let (number, _) = numbered(its.receive(None).unwrap().payload).unwrap();
    let nowhere = File::open("/dev/null").unwrap();
    let by = Instant::now() + PATIENCE;
    its.send(DONE, &number.to_le_bytes(), &[nowhere.as_fd()], by).unwrap();
    let busy = [&(number + 1).to_le_bytes()[..], &libc::EBUSY.to_le_bytes()].concat();
    its.send(ERRNO, &busy, &[], by).unwrap();
    let told = ours.ask(DETACH, PATIENCE).unwrap_err();
    assert_eq!(told.raw_os_error(), Some(libc::EBUSY));
    // Not an answer: a message that nothing asked for, and one without a number.
    its.send(DONE, &(number + 3).to_le_bytes(), &[], by).unwrap();
    let told = ours.ask(DETACH, PATIENCE).unwrap_err().to_string();
    assert_eq!(told, "the helper answers what was not asked");
    its.send(DONE, b"short", &[], by).unwrap();
    assert_eq!(ours.ask(DETACH, PATIENCE).unwrap_err().kind(), ErrorKind::InvalidData);
    drop(its);
    let told = ours.ask(DETACH, PATIENCE).unwrap_err();
    assert_eq!(
        (told.kind(), &*told.to_string()),
        (ErrorKind::UnexpectedEof, "the helper has ended")
    );
}

/// Does a server learn from its helper's end what helps?
#[test]
fn a_helper_that_has_ended_is_told_with_what_helps() {
    let (ours, its) = UnixStream::pair().unwrap();
    drop(its);
    // It is no child of ours, and so not waited for.
    let process = Pid::INIT;
    let helper = Helper { line: Line::new(ours).unwrap(), process, folder: "/m".into() };
    let told = helper.unmount(false).unwrap_err().to_string();
    assert_eq!(told, "the helper has ended; `umount -l /m` helps");
}

/// Is no helper started by a process with threads, which says so?
#[test]
fn a_process_with_threads_has_no_helper() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let beside = std::thread::spawn(move || wait.recv());
    let told = Helper::start(&Fuse::new("/nowhere".into())).unwrap_err();
    assert_eq!(told, "a process with threads cannot start a helper that unmounts");
    drop(go);
    beside.join().unwrap().unwrap_err();
}
