// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units of docs/serve under a running systemd: it is process 1 of its own namespaces, with a
//! control group, and with overlays on `/etc` and `/usr/bin` that exist only there.
//!
//! ```text
//! the test, a client under load ──▶ /proc/PID/root/run/paternoster/nbd.sock
//! nsenter ─▶ systemctl start, reload, restart, stop; the commands of upgrade.md, verbatim
//! ```
//!
//! `/srv` and `/etc/paternoster` are folders of the test, so that they outlive a reboot;
//! `operation` has the pages about an operator's tasks.
//!
//! Its network is its own, too: pages name ports.
//!
//! It needs root, a control group of version 2 and overlayfs; without one of them it is skipped.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::skipped;
use crate::serve_arguments::Scratch;
use crate::upgrade::{Client, Running, Stops, until, until_answered};

const SERVICE: &str = include_str!("../../../../docs/serve/paternoster.service");
const SOCKET: &str = include_str!("../../../../docs/serve/paternoster.socket");
const UPGRADE: &str = include_str!("../../../../docs/serve/upgrade.md");

/// What process 1 does before it becomes systemd; `$1` is the folder, `$2` the program.
const BOOT: &str = r#"
set -e
mount --make-rprivate /
mount -t proc proc /proc
groups=$(awk '$2 ~ "^/sys/fs/cgroup" { print $2 }' /proc/self/mounts | sort -r)
for at in $groups; do umount "$at"; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
ip link set lo up
for at in etc usr/bin; do
  mkdir -p "/run/over/$at/upper" "/run/over/$at/work"
  over=lowerdir=/$at,upperdir=/run/over/$at/upper,workdir=/run/over/$at/work
  mount -t overlay overlay -o "$over" "/$at"
done
mkdir -p "$1/srv" "$1/etc" /etc/paternoster
mount --bind "$1/srv" /srv
mount --bind "$1/etc" /etc/paternoster
useradd --system paternoster
install -m 755 "$2" /usr/bin/paternoster
mkdir -p /srv/images /run/new
install -m 755 "$2" /run/new/paternoster
truncate -s 4M /srv/images/vm1.img
touch /srv/archive.img
chown paternoster /srv/images/vm1.img
: >"$1/booted"
exec env -i container=other "SYSTEMD_UNIT_PATH=$1/units" PATH="$PATH" \
  /lib/systemd/systemd --unit=basic.target --log-target=console
"#;

/// A systemd that ends with its test.
pub(crate) struct Manager {
    pub(crate) scratch: Scratch,
    /// `unshare`, whose child is process 1 there.
    parent: Option<Running>,
    group: String,
    first: String,
}

impl Manager {
    /// A manager; none, and a message, where none can run.
    pub(crate) fn new() -> Option<Manager> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let at = words.next()?;
            (words.next() == Some("cgroup2")).then(|| at.to_owned())
        });
        let has = |path| Path::new(path).exists();
        if !has("/lib/systemd/systemd") || !has("/usr/bin/nsenter") {
            skipped("systemd: it is not installed");
            return None;
        }
        let scratch = Scratch::new();
        // Tests of one process have folders of their own, which name their groups.
        let own = scratch.text(".");
        let own = Path::new(&own).components().next_back().expect("a name").as_os_str();
        let group = root.map(|root| format!("{root}/{}", own.display()));
        let made = group.ok_or_else(|| "no cgroups of version 2".to_owned()).and_then(|group| {
            fs::create_dir(&group).map(|()| group).map_err(|error| error.to_string())
        });
        let group = match made {
            Ok(group) => group,
            Err(why) => {
                skipped(&format!("systemd: no control group can be made: {why}"));
                return None;
            }
        };
        let mut manager = Manager { scratch, parent: None, group, first: String::new() };
        manager.boot().then_some(manager)
    }

    fn boot(&mut self) -> bool {
        let (folder, boot) = (self.scratch.text("."), self.scratch.text("boot"));
        fs::create_dir_all(self.scratch.text("units")).expect("a folder");
        fs::write(&boot, BOOT).expect("room");
        let mut units = vec![
            ("paternoster.service".to_owned(), SERVICE.to_owned()),
            ("paternoster.socket".to_owned(), SOCKET.to_owned()),
        ];
        let targets =
            ["sysinit", "basic", "sockets", "shutdown", "multi-user", "local-fs", "network"];
        for name in targets {
            let text = "[Unit]\nDefaultDependencies=no\n".to_owned();
            units.push((format!("{name}.target"), text));
        }
        for (name, text) in units {
            fs::write(self.scratch.text(&format!("units/{name}")), text).expect("room");
        }
        let console = fs::File::create(self.scratch.text("console")).expect("a file");
        let again = console.try_clone().expect("a descriptor");
        let program = env!("CARGO_BIN_EXE_paternoster");
        let script = "echo $$ >\"$1/cgroup.procs\" && exec unshare --pid --fork --mount --cgroup \
                      --uts --ipc --net --kill-child sh \"$2\" \"$3\" \"$4\"";
        let child = Command::new("sh")
            .args(["-c", script, "-", &self.group, &boot, &folder, program])
            .stdin(Stdio::null())
            .stdout(console)
            .stderr(again)
            .spawn()
            .expect("a shell");
        let mut parent = Running(child);
        let booted = self.scratch.text("booted");
        let is_there = || {
            let ended = parent.0.try_wait().expect("a child").is_some();
            (ended || Path::new(&booted).exists()).then_some(!ended)
        };
        let console = || fs::read_to_string(self.scratch.text("console")).unwrap_or_default();
        if !until(is_there, console) {
            skipped(&format!("systemd: name spaces cannot be made here: {}", console().trim()));
            return false;
        }
        let number = parent.0.id();
        let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
        children.expect("it is there").trim().clone_into(&mut self.first);
        self.parent = Some(parent);
        let answers =
            || self.run("systemctl is-system-running || true").1.contains("ing").then_some(());
        until(answers, console);
        true
    }

    /// The power goes, and comes back: all processes are killed, `/run` is empty.
    pub(crate) fn loses_power(&mut self) {
        self.kill();
        fs::remove_file(self.scratch.text("booted")).expect("it has booted");
        assert!(self.boot(), "it has booted before");
    }

    fn kill(&mut self) {
        let first = self.first.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(first) = first {
            let _ended = rustix::process::kill_process(first, rustix::process::Signal::KILL);
        }
        self.parent = None;
    }

    /// Runs a command there: whether it succeeds, and its output.
    pub(crate) fn run(&self, script: &str) -> (bool, String) {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.first, "-p", "-m", "-C", "-i", "-u", "-n", "sh", "-c", script]);
        let output = command.stdin(Stdio::null()).output().expect("nsenter");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// A command that must succeed.
    pub(crate) fn must(&self, script: &str) -> String {
        let (is_done, said) = self.run(script);
        assert!(is_done, "{script}: {said}\n{}", self.status());
        said
    }

    pub(crate) fn status(&self) -> String {
        self.run("systemctl status paternoster.service --no-pager -n 20").1
    }

    pub(crate) fn show(&self, property: &str) -> String {
        let told = self.must(&format!("systemctl show paternoster.service -p {property} --value"));
        told.trim().to_owned()
    }

    fn configure(&self, listen: &str) {
        self.must(&format!(
            "cat >/etc/paternoster/serve.toml <<'E'\n[server]\nlisten = \"{listen}\"\n\
             control = \"/run/paternoster/control.sock\"\n[volume.disk]\n\
             path = \"/srv/images/vm1.img\"\nraw = true\nE"
        ));
    }

    /// A path there, as it is written here.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("/proc/{}/root{path}", self.first)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.kill();
        // Groups are removed from below, once their processes have gone.
        let script = "for try in 1 2 3 4 5 6 7 8 9; do find \"$1\" -depth -type d -exec rmdir {} + \
                      2>/dev/null; [ -d \"$1\" ] || break; sleep 0.1; done";
        let _gone = Command::new("sh").args(["-c", script, "-", &self.group]).status();
    }
}

/// The block of commands after these words of upgrade.md.
fn commands_behind(words: &str) -> &'static str {
    let (_, rest) = UPGRADE.split_once(words).expect("the words");
    rest.split("```\n").nth(1).expect("a block")
}

/// A client works through a socket there while `act` does something; returns how often it
/// connected, once all acknowledged data is on the disk.
fn under_load(manager: &Manager, socket: &str, act: impl FnOnce(&AtomicU64)) -> u64 {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let socket = manager.path(socket);
    let (came, known) = std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        let client = Client::new(&socket, 0, &answered);
        let worker = scope.spawn(|| client.work(&stop));
        until_answered(&answered, 100);
        act(&answered);
        until_answered(&answered, 100);
        stop.store(true, Ordering::SeqCst);
        worker.join().expect("a client")
    });
    manager.must("systemctl stop paternoster.service");
    let disk = fs::read(manager.path("/srv/images/vm1.img")).expect("a disk");
    for (block, value) in known.iter().enumerate() {
        let bytes = value.to_be_bytes().repeat(512);
        assert!(disk[block * 4096..][..4096] == bytes[..], "block {block}");
    }
    came
}

/// Does the service of the documents start, reload, and hand over with the command of upgrade.md as
/// written, so that the manager knows the new main process and a client notices nothing; and is a
/// server whose threads hang restarted?
#[test]
fn the_service_of_the_documents() {
    let Some(manager) = Manager::new() else { return };
    manager.configure("unix:/run/paternoster/nbd.sock");
    // A hanging server is not waited for as long as in production.
    let drop_in = "mkdir -p /run/systemd/system; sed -i s/WatchdogSec=30s/WatchdogSec=3s/ ";
    let unit = manager.scratch.text("units/paternoster.service");
    manager.must(&format!("{drop_in}{unit} && systemctl daemon-reload"));
    manager.must("systemctl start paternoster.service");
    assert_eq!(manager.show("StatusText"), "serving 1 volumes of 1 devices");
    let came = under_load(&manager, "/run/paternoster/nbd.sock", |answered| {
        let old = manager.show("MainPID");
        manager.must("systemctl reload paternoster.service");
        assert_eq!(manager.show("MainPID"), old, "a reload is no new process");
        let take_over = commands_behind("with these units):").replace("/new/", "/run/new/");
        assert!(take_over.contains("--take-over"), "{take_over}");
        manager.must(&format!("({take_over}) >/dev/null 2>&1 &"));
        let is_new = || (manager.show("MainPID") != old).then_some(());
        until(is_new, || manager.status());
        assert_eq!(manager.show("ActiveState"), "active");
        assert_eq!(manager.show("NRestarts"), "0");
        let program = format!("readlink /proc/{}/exe", manager.show("MainPID"));
        assert_eq!(manager.must(&program).trim(), "/run/new/paternoster");
        until_answered(answered, 100);
        manager.must("systemctl reload paternoster.service");
    });
    assert_eq!(came, 1, "a hand-over has sent it away");
    manager.must("systemctl start paternoster.service");
    let hangs = manager.show("MainPID");
    manager.must(&format!("kill -STOP {hangs}"));
    let is_new = || (manager.show("NRestarts") == "1").then_some(());
    until(is_new, || manager.status());
}

/// Does a client that reconnects lose nothing while the service is restarted and the manager keeps
/// the socket?
#[test]
fn the_socket_of_the_documents() {
    let Some(manager) = Manager::new() else { return };
    manager.configure("inherited:3");
    manager.must("systemctl start paternoster.socket");
    // The client starts the service.
    assert_ne!(manager.show("ActiveState"), "active");
    let came = under_load(&manager, "/run/paternoster-nbd.sock", |answered| {
        for _ in 0..3 {
            manager.must("systemctl restart paternoster.service");
            until_answered(answered, 100);
        }
    });
    assert_eq!(came, 4);
}
