// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/serve/operation.md as written: its commands and its configuration are taken from the page
//! and run unchanged under a running systemd (`systemd`).
//!
//! ```text
//! ## Reboot   units start ─▶ a guest's service ─▶ shutdown ─▶ boot ─▶ power cut ─▶ boot ─▶ kill -9
//! ## Disk errors   a cut image, a drain; a flush that fails; a frozen file system, a stop
//! ## A full disk   ENOSPC, a discard, a larger file system
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

/// Starts systemd's journal there.
fn journal(manager: &Manager) {
    manager.must("mkdir -p /run/systemd/journal; /lib/systemd/systemd-journald >/dev/null 2>&1 &");
    let listens = "test -S /run/systemd/journal/stdout";
    until(|| manager.run(listens).0.then_some(()), || "no journal".to_owned());
}

/// A configuration with everything that the pages about disks ask.
const DISKS: &str = "metrics = \"127.0.0.1:9809\"\ndrain-timeout = \"1s\"\n\
                     device-timeout = \"1s\"\n[device.disk0]\nengine = \"threads\"\n\
                     direct = false\n[volume.vm1]\npath = \"/srv/images/vm1.img\"\n\
                     raw = true\n";

/// The commands of a block, without remarks.
fn lines(block: &str) -> Vec<&str> {
    block.lines().map(|line| line.split(" #").next().unwrap_or_default().trim()).collect()
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
        self::journal(manager);
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
    // And it gives the thread of handshakes a lower priority than the loops.
    let main = manager.show("MainPID");
    let threads = manager.must(&format!("ps -L -o comm=,ni= -p {main}"));
    let nice = threads.lines().find_map(|line| line.strip_prefix("negotiation"));
    assert_eq!(nice.map(str::trim), Some("10"), "{threads}");
}

/// Does a disk that fails show as the page says: in the log's lines, in status and health, with a
/// drain and a resume? Is a failed flush reported until the restart, also by the status; and does a
/// device that hangs show in the metrics, and does a stop give up on it and name it?
#[test]
fn disk_errors_as_written() {
    if !is_there("qemu-io") || !is_there("curl") {
        return;
    }
    let all = blocks(PAGE, "Disk errors");
    let [log, look, stop, lost, hangs] = &all[..] else { panic!("{all:#?}") };
    let Some(manager) = Manager::new() else { return };
    fs::write(manager.scratch.text("etc/serve.toml"), format!("{SERVER}{DISKS}")).expect("room");
    journal(&manager);
    manager.must("systemctl daemon-reload && systemctl start paternoster.service");
    // Every read fails: the file ends before.
    manager.must("truncate -s 512K /srv/images/vm1.img");
    let failing = qemu_io("read 1M 4k");
    let reads = "-c 'read 1M 4k' ".repeat(531);
    assert!(!manager.run(&failing.replace("-c flush", &reads)).0, "it cannot be read");
    // systemd has the level for itself.
    let log: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("error ")).collect();
    let [first, more] = log[..] else { panic!("{log:?}") };
    let told = || manager.run("journalctl -u paternoster --no-pager -o cat").1;
    until(|| told().contains(first).then_some(()), told);
    // As many others as the page has, in one line, or more if more than ten seconds went by.
    let (before, after) = more.split_once("531").expect("the page's number");
    let counted = || {
        let told = told();
        let of = |line: &str| line.strip_prefix(before)?.strip_suffix(after)?.parse::<u64>().ok();
        (told.lines().filter_map(of).sum::<u64>() == 531).then_some(())
    };
    until(counted, told);
    let [status, health] = lines(look)[..] else { panic!("{look}") };
    let said = manager.must(status);
    assert!(said.contains("532"), "{said}");
    let said = manager.must(health);
    assert!(said.contains("disk0") && said.contains("532"), "{said}");
    assert!(said.contains("Input/output error"), "{said}");
    let code = health.replace("curl -s", "curl -s -o /dev/null -w '%{http_code}'");
    assert_eq!(manager.must(&code).trim(), "503");

    let [drain, resume] = lines(stop)[..] else { panic!("{stop}") };
    let working = qemu_io("read 0 4k");
    manager.must("truncate -s 4M /srv/images/vm1.img");
    manager.must(drain);
    let (is_done, said) = manager.run(&working);
    assert!(!is_done || said.contains("shutdown"), "it is drained: {said}");
    manager.must(resume);
    manager.must(&working);

    // The kernel refuses to sync: io_uring would go round such a filter.
    let [metric, restart] = lines(lost)[..] else { panic!("{lost}") };
    let drop_in = "mkdir -p /run/systemd/system; mkdir -p \"$D\"; \
                   printf '[Service]\\nSystemCallFilter=~fdatasync:EIO\\n' >\"$D/sync.conf\"";
    let folder = manager.scratch.text("units/paternoster.service.d");
    manager.must(&format!("D={folder}; {drop_in}; systemctl daemon-reload; {restart}"));
    assert!(manager.must(metric).trim_end().ends_with(" 0"), "nothing is lost yet");
    assert!(!manager.run(&qemu_io("write -P 3 0 4k")).0, "its flush fails");
    assert!(!manager.run(&qemu_io("read 0 4k")).0, "and so does the next client's");
    let said = manager.must(metric);
    assert!(said.lines().any(|line| line.ends_with(" 1")), "{said}");
    assert!(told().contains("a flush failed"), "{}", told());
    manager.must(&format!("rm -r {folder}; systemctl daemon-reload"));
    manager.must(restart);
    // Its status is 1 (`serve_loss`), and its last words say why.
    assert!(told().contains("compare the volumes with what their clients know"), "{}", told());
    manager.must(&qemu_io("write -P 4 0 4k"));
    assert!(manager.must(metric).trim_end().ends_with(" 0"), "a new server knows of nothing");

    let [metric, stop] = lines(hangs)[..] else { panic!("{hangs}") };
    let (has_frozen, why) = manager.run(
        "systemctl stop paternoster; truncate -s 400M /run/xfs && mkfs.xfs -q /run/xfs && \
         mkdir -p /run/frozen && mount -o loop /run/xfs /run/frozen && \
         truncate -s 4M /run/frozen/vm1.img && chown -R paternoster /run/frozen",
    );
    if !has_frozen {
        return skipped(&format!("no file system that can be frozen: {}", why.trim()));
    }
    manager.must("mount --bind /run/frozen /srv/images && systemctl start paternoster");
    manager.must(&qemu_io("write -P 5 0 4k"));
    manager.must("fsfreeze -f /run/frozen");
    let write = qemu_io("write -P 6 0 4k");
    manager.must(&format!("({write}) >/dev/null 2>&1 &"));
    let oldest = || {
        let said = manager.run(metric).1;
        let last = said.lines().rfind(|line| !line.starts_with('#'))?.rsplit(' ').next()?;
        last.parse::<f64>().ok().filter(|seconds| *seconds > 1.0)
    };
    until(oldest, || manager.run(metric).1);
    manager.must(&format!("{stop} --no-block"));
    let hangs = "disk0 did not end as it should: it hangs: 1 commands: Write of 4096 bytes at 0";
    let gives_up = || told().contains(hangs).then_some(());
    until(gives_up, told);
    manager.must("fsfreeze -u /run/frozen");
    until(|| (manager.show("ActiveState") == "failed").then_some(()), || manager.status());
    assert_eq!(manager.show("ExecMainStatus"), "1", "{}", manager.status());
}

/// Does a full disk behave as the page says: does the client get the error, has the log the line,
/// do reads go on; and do writes go on without a restart once a discard or more space has made
/// room?
#[test]
fn a_full_disk_as_written() {
    if !is_there("qemu-io") {
        return;
    }
    let all = blocks(PAGE, "A full disk");
    let [look] = &all[..] else { panic!("{all:#?}") };
    let [room, errors] = lines(look)[..] else { panic!("{look}") };
    let Some(manager) = Manager::new() else { return };
    fs::write(manager.scratch.text("etc/serve.toml"), format!("{SERVER}{DISKS}")).expect("room");
    journal(&manager);
    manager.must(
        "mount -t tmpfs -o size=2m none /srv/images && truncate -s 8M /srv/images/vm1.img && \
         chown paternoster /srv/images/vm1.img && systemctl daemon-reload && \
         systemctl start paternoster.service",
    );
    let main = manager.show("MainPID");
    manager.must(&qemu_io("write -P 1 0 1M"));
    let (is_done, said) = manager.run(&qemu_io("write -P 2 1M 3M"));
    assert!(!is_done && said.contains("No space left on device"), "{said}");
    let said = manager.must(room);
    assert!(said.contains("/srv/images"), "{said}");
    let line = "No space left on device (os error 28)";
    assert!(PAGE.contains(&format!("`{line}`")));
    let told = || manager.run(errors).1;
    until(|| told().contains(line).then_some(()), told);
    manager.must(&qemu_io("read -P 1 0 1M"));
    // Room by what the guest does not need, then by more of it.
    manager.must(&qemu_io("discard 1M 3M"));
    manager.must(&qemu_io("write -P 3 4M 512k"));
    assert!(!manager.run(&qemu_io("write -P 4 5M 3M")).0, "it is full again");
    manager.must("mount -o remount,size=16m /srv/images");
    manager.must(&qemu_io("write -P 4 5M 3M"));
    for read in ["read -P 1 0 1M", "read -P 3 4M 512k", "read -P 4 5M 3M"] {
        manager.must(&qemu_io(read));
    }
    assert_eq!(manager.show("MainPID"), main, "nothing was started again");
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
