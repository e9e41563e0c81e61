// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/serve/operation.md as written: its commands and its configuration are taken from the page
//! and run unchanged under a running systemd (`systemd`).
//!
//! ```text
//! ## Reboot   units start ─▶ a guest's service ─▶ shutdown ─▶ boot ─▶ power cut ─▶ boot ─▶ kill -9
//! ## Backup   drain, copy, resume; the volume of the page in the background, nbdcopy; save
//! ```
//!
//! What a machine lacks (qemu-io, nbdcopy, a file system with reflinks) is skipped, and reported.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::skipped;
use crate::systemd::Manager;
use crate::upgrade::until;

const PAGE: &str = include_str!("../../../../docs/serve/operation.md");
const SERVER: &str = "[server]\nlisten = \"unix:/run/paternoster/nbd.sock\"\n\
                      control = \"/run/paternoster/control.sock\"\n";

/// The blocks of a section of a page, each as text without its indentation.
pub(crate) fn blocks(page: &str, section: &str) -> Vec<String> {
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).expect("the section");
    let section = rest.split("\n## ").next().unwrap_or_default();
    let mut blocks: Vec<String> = Vec::new();
    let mut indent = None;
    for line in section.lines() {
        let is_fence = line.trim_start().starts_with("```");
        match (is_fence, indent) {
            (true, None) => {
                indent = Some(line.len() - line.trim_start().len());
                blocks.push(String::new());
            }
            (true, Some(_)) => indent = None,
            (false, Some(by)) => {
                let block = blocks.last_mut().expect("it is begun");
                *block += line.get(by..).unwrap_or_default();
                *block += "\n";
            }
            (false, None) => {}
        }
    }
    blocks
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    if found.is_err() {
        skipped(&format!("{program} is not installed: the page is not walked"));
    }
    found.is_ok()
}

/// A command of qemu-io on the volume `vm1` there.
fn qemu_io(command: &str) -> String {
    let at = "'nbd+unix:///vm1?socket=/run/paternoster/nbd.sock'";
    format!("qemu-io -f raw -c '{command}' -c flush {at}")
}

/// Is a reboot as the page says: do services ordered after ours find their disks, and end before
/// it; is what they wrote in their last moment on the disk; is flushed data still there after a
/// power cut, and does a killed server come back on its own sockets?
#[test]
fn a_reboot_as_written() {
    if !is_there("qemu-io") {
        return;
    }
    let [told] = &blocks(PAGE, "Reboot")[..] else { panic!("one block of commands") };
    let commands: Vec<&str> = told.lines().filter_map(|line| line.split('#').next()).collect();
    let [status, journal] = commands[..] else { panic!("{told}") };
    let Some(mut manager) = Manager::new() else { return };
    fs::write(
        manager.scratch.text("etc/serve.toml"),
        format!(
            "{SERVER}pidfile = \"/run/paternoster/pid\"\n[volume.vm1]\n\
             path = \"/srv/images/vm1.img\"\n"
        ),
    )
    .expect("room");
    // Ordered only by the service's own `Before=`, which names it.
    let guest = format!(
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={}\nExecStop={}\n",
        qemu_io("write -P 5 0 4k"),
        qemu_io("write -P 7 8k 4k")
    );
    fs::write(manager.scratch.text("units/libvirt-guests.service"), guest).expect("room");
    let wants = manager.scratch.text("units/multi-user.target.wants");
    fs::create_dir(&wants).expect("a folder");
    for unit in ["libvirt-guests.service", "paternoster.service"] {
        std::os::unix::fs::symlink(format!("../{unit}"), format!("{wants}/{unit}"))
            .expect("a link");
    }
    let starts = |manager: &Manager| {
        manager
            .must("mkdir -p /run/systemd/journal; /lib/systemd/systemd-journald >/dev/null 2>&1 &");
        let listens = "test -S /run/systemd/journal/stdout";
        until(|| manager.run(listens).0.then_some(()), || "no journal".to_owned());
        manager.must("systemctl daemon-reload && systemctl start multi-user.target");
        let guest = "systemctl is-active libvirt-guests.service";
        until(|| manager.run(guest).0.then_some(()), || manager.run("journalctl -n 50").1);
        let said = manager.must(&format!("{status} --no-pager"));
        assert!(said.contains("serving 1 volumes of 1 devices"), "{said}");
    };
    let image = manager.scratch.text("srv/images/vm1.img");
    let holds = |at: usize, value: u8| {
        let disk = fs::read(&image).expect("a disk");
        assert!(disk[at..at + 4096].iter().all(|byte| *byte == value), "{at}: {}", disk[at]);
    };
    starts(&manager);
    holds(0, 5);
    holds(8192, 0);
    manager.must("systemctl start shutdown.target");
    let ended = || (manager.show("ActiveState") == "inactive").then_some(());
    until(ended, || manager.status());
    assert_eq!(manager.show("Result"), "success", "{}", manager.status());
    holds(8192, 7);
    manager.loses_power();
    starts(&manager);
    manager.must(&qemu_io("write -P 9 16k 4k"));
    manager.loses_power();
    holds(16_384, 9);
    starts(&manager);
    let main = manager.show("MainPID");
    manager.must(&format!("kill -KILL {main}"));
    until(|| (manager.show("NRestarts") == "1").then_some(()), || manager.status());
    let comes = || manager.run(&qemu_io("read -P 9 16k 4k")).0.then_some(());
    until(comes, || manager.status());
    // Mistakes are warnings or worse: they are found, and nothing else is.
    fs::write(manager.scratch.text("etc/serve.toml"), "[server]\nlisen = 1\n").expect("room");
    manager.must("systemctl reload paternoster.service");
    let said = || {
        let said = manager.run(&format!("{journal} --no-pager")).1;
        said.contains("nothing was changed").then_some(said)
    };
    let said = until(said, || manager.status());
    assert!(said.contains("`server.listen` is missing") && !said.contains("serving"), "{said}");
    // The unit's own filter lets the server restrict itself.
    assert!(!said.contains("calls are not bounded"), "{said}");
    // And it lets the thread of handshakes go behind the loops.
    let main = manager.show("MainPID");
    let threads = manager.must(&format!("ps -L -o comm=,ni= -p {main}"));
    let nice = threads.lines().find_map(|line| line.strip_prefix("negotiation"));
    assert_eq!(nice.map(str::trim), Some("10"), "{threads}");
}

/// Do the backups of the page work as written: a drained volume is copied and resumes; a background
/// volume is copied while it is in use, with no client able to write to it; and is the ordered
/// setting saved, under the unit of the documents?
#[test]
fn a_backup_as_written() {
    if !is_there("qemu-io") || !is_there("nbdcopy") {
        return;
    }
    let [drained, volume, copy] = &blocks(PAGE, "Backup")[..] else { panic!("three blocks") };
    let Some(manager) = Manager::new() else { return };
    let (has_reflinks, why) = manager
        .run("truncate -s 400M /run/xfs && mkfs.xfs -q /run/xfs && mount -o loop /run/xfs /srv");
    let drained = if has_reflinks {
        drained.clone()
    } else {
        skipped(&format!("no file system with reflinks, copied in full: {}", why.trim()));
        drained.replace("--reflink=always", "--reflink=auto")
    };
    manager.must(
        "mkdir -p /srv/images /srv/backup; touch /srv/archive.img; \
         truncate -s 4M /srv/images/vm1.img; \
         chown paternoster /srv/images/vm1.img /srv/archive.img",
    );
    let file =
        format!("{SERVER}{volume}[tenant.vm1]\n[[rule]]\nexport = \"vm1\"\ntenant = \"vm1\"\n");
    fs::write(manager.scratch.text("etc/serve.toml"), file).expect("room");
    manager.must("systemctl start paternoster.service");
    manager.must(&qemu_io("write -P 3 0 1M"));
    manager.must(&format!("set -e\n{drained}"));
    let same = "cmp /srv/images/vm1.img /srv/backup/vm1.img";
    manager.must(same);
    manager.must(&qemu_io("write -P 4 1M 1M"));
    assert!(!manager.run(same).0, "it goes on");
    manager.must(copy);
    manager.must(same);
    let backup = qemu_io("write -P 6 0 4k").replace("///vm1?", "///vm1-backup?");
    assert!(!manager.run(&backup).0, "it is read-only");
    manager.must(same);
    // A client of the volume belongs to the page's tenant, in the background.
    let size = "nbdinfo --size 'nbd+unix:///vm1-backup?socket=/run/paternoster/nbd.sock'";
    assert_eq!(manager.must(size).trim(), "4194304");
    let told = manager.must("paternoster ctl list --format json");
    assert!(told.contains("\"backup\"") && told.contains("background"), "{told}");
    manager.must("paternoster ctl weight vm1 300");
    let save = "paternoster ctl save";
    assert!(PAGE.contains(&format!("`{save}` first, if weights were changed")));
    let why = manager.run(save).1;
    assert!(why.contains("must be able to write into its folder"), "{why}");
    let chown = "chown paternoster /etc/paternoster";
    assert!(PAGE.contains(&format!("`{chown}`, once")));
    let said = manager.must(&format!("{chown} && {save}"));
    assert!(said.contains("tenant.vm1.weight: 100 -> 300"), "{said}");
    let saved = fs::read_to_string(manager.scratch.text("etc/serve.toml")).expect("it is there");
    assert!(saved.contains("weight = 300"), "{saved}");
    manager.must("systemctl restart paternoster.service");
    let told = manager.must("paternoster ctl list --format json");
    assert!(told.contains("\"weight\":300") || told.contains("\"weight\": 300"), "{told}");
}
