// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server in its sandbox that has no helper to mount for it, because its process had threads
//! before: it mounts and unmounts by itself, without the bounds that would keep it from that.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::mpsc::channel;

use paternoster_serve::host::activation::Inherited;
use paternoster_serve::host::listen;
use paternoster_serve::host::privileges::Account;
use paternoster_serve::host::sandbox::Sandbox;
use paternoster_serve::server::{Options, Server};

use super::files::{MIB, can, shown_by};
use super::with_processes;
use crate::common::{Folder, end, skipped, start_with};

const CHILD: &str = "PATERNOSTER_TEST_NO_HELPER";
const WHY: &str = "a process with threads cannot start a helper that unmounts";
const TRIED: &str = "all was tried";

fn in_sandbox() -> Options {
    Options { sandbox: Some(Sandbox::default()), ..Options::default() }
}

/// What the child of [`without_a_helper_the_server_mounts_by_itself`] does; nothing otherwise.
#[test]
fn serves_as_a_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let (go, wait) = channel::<()>();
    let beside = std::thread::spawn(move || wait.recv());
    // Nothing could unmount the folder once the server has another user: refused, before anything
    // is bounded.
    let folder = Folder::in_memory("files-no-helper-user");
    let (config, _) = shown_by(&folder, MIB, |config| {
        config.server.user = Some("65534".to_owned());
    });
    assert!(Account::of(&config.server).expect("a number").is_some());
    let sockets = listen::open(&config.server, &mut Inherited::default(), None);
    let refused = Server::start(config, in_sandbox(), sockets.expect("sockets")).unwrap_err();
    let why = format!(
        "a server that becomes another user cannot take its files away at the end: {WHY}; leave \
         out `user` or [server.fuse]"
    );
    assert_eq!(refused, why);

    let folder = Folder::in_memory("files-no-helper");
    let (config, disk) = shown_by(&folder, MIB, |_| {});
    let own = |field: &str| {
        let status = fs::read_to_string("/proc/self/status").expect("it is there");
        let value = status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        value.and_then(|value| value.parse::<u64>().ok())
    };
    let filters = own("Seccomp_filters:");
    let server = start_with(config, in_sandbox());
    let notes = server.notes().join("\n");
    let told = notes.contains("sandbox: files are not bounded: with Landlock the folder of");
    assert!(told && notes.contains(WHY), "{notes}");
    // Calls are, or it says so; files are not.
    let more = own("Seccomp_filters:") > filters;
    assert!(more || notes.contains("calls are not bounded"), "{notes}");
    fs::write(folder.path("new"), "").expect("nothing bounds files");
    let file = OpenOptions::new().read(true).write(true).open(&disk).expect("it is shown");
    file.write_all_at(&[7; 4096], 8192).expect("it is served");
    let mut found = [0; 4096];
    file.read_exact_at(&mut found, 8192).expect("it is served");
    assert_eq!(found, [7; 4096]);
    drop(file);
    end(&server);
    let mount = disk.parent().expect("a folder");
    assert_eq!(fs::read_dir(mount).expect("it is bare").count(), 0);
    drop(go);
    beside.join().expect("no panic").expect_err("it was let go");
    println!("{TRIED}");
}

/// If a server's process has threads, so that no helper can be forked, does it log that its access
/// to files is not bounded, show its volumes, and unmount the folder at its end; and is it refused
/// if it is to become another user?
#[test]
fn without_a_helper_the_server_mounts_by_itself() {
    if !can() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skipped("a server without a helper: only root mounts within seccomp");
    }
    let _turn = with_processes();
    let mut child = Command::new(std::env::current_exe().expect("a program"));
    child.args(["--exact", "no_helper::serves_as_a_child", "--nocapture"]).env(CHILD, "");
    let output = child.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains(TRIED), "{told} {said}");
}
