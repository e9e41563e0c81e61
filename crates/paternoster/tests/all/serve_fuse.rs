// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster serve` with `[server.fuse]`, in its sandbox: what is mounted is unmounted by a
//! helper that was forked before, however the server ends.
//!
//! ```text
//! start ─▶ bounded, files served ─▶ reload ─▶ SIGTERM │ SIGKILL │ --take-over ─▶ a bare folder
//! ```
//!
//! As root, which mounts by itself, and as another user, which has `fusermount3` do it. What a
//! machine lacks is skipped, and told.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::skipped;
use crate::serve_arguments::Scratch;
use crate::upgrade::{Running, until};

/// Another user than root, named by its number.
const USER: &str = "65534";

/// A folder with a disk of that user, and a configuration.
struct House {
    scratch: Scratch,
    user: Option<&'static str>,
    /// Started as root, it becomes [`USER`].
    becomes: bool,
}

impl House {
    fn new(user: Option<&'static str>) -> House {
        let scratch = Scratch::new();
        let own = |path: &str, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        own(&scratch.text("."), 0o777);
        for folder in ["m", "traces"] {
            fs::create_dir(scratch.text(folder)).expect("a folder");
            own(&scratch.text(folder), 0o777);
        }
        own(&scratch.disk("disk"), 0o666);
        let house = House { scratch, user, becomes: false };
        house.configure(100);
        house
    }

    fn configure(&self, weight: u32) {
        let [control, mount, disk, traces] =
            ["control", "m", "disk", "traces"].map(|name| self.scratch.text(name));
        let becomes = if self.becomes { format!("user = '{USER}'\n") } else { String::new() };
        // A name is looked up in a file that the sandbox hides.
        let text = format!(
            "[server]\ncontrol = '{control}'\ntraces = '{traces}'\n{becomes}[server.fuse]\n\
             mount = '{mount}'\nrealtime = ['root']\n[volume.disk]\npath = '{disk}'\nraw = true\n\
             [tenant.disk]\nweight = {weight}\n"
        );
        fs::write(self.scratch.text("serve.toml"), text).expect("a configuration");
    }

    /// The program, as the house's user.
    fn program(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_paternoster");
        let mut command = match self.user {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("setpriv");
                let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
                command.args([&uid, &gid, "--clear-groups", program]);
                command
            }
        };
        command.stdin(Stdio::null());
        command
    }

    /// A server that shows its file.
    fn start(&self, more: &[&str]) -> Running {
        let log = OpenOptions::new().append(true).create(true).open(self.scratch.text("log"));
        let mut command = self.program();
        command.args(["serve", &self.scratch.text("serve.toml")]).args(more);
        Running(command.stderr(log.expect("a log")).spawn().expect("the program starts"))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.text("log")).unwrap_or_default()
    }

    fn mounts(&self) -> usize {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("it is there");
        let mount = format!(" {} fuse.paternoster ", self.scratch.text("m"));
        mounts.matches(&mount).count()
    }

    fn until_mounted(&self) {
        let listens = || {
            let control = Path::new(&self.scratch.text("control")).exists();
            (self.mounts() == 1 && control).then_some(())
        };
        until(listens, || format!("it does not serve: {}", self.log()));
    }

    /// Asks by `ctl`: whether it was done, and what was said.
    fn ctl(&self, words: &[&str]) -> (bool, String) {
        let mut command = self.program();
        command.arg("ctl").args(words).args(["--socket", &self.scratch.text("control")]);
        let output = command.output().expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes to the file and reads it, as the user it is shown to.
    fn serves(&self, value: u8) {
        let file = self.scratch.text("m/disk");
        if self.user.is_none() {
            let open = OpenOptions::new().read(true).write(true).open(file).expect("it is shown");
            open.write_all_at(&[value; 4096], 8192).expect("it is served");
            let mut found = [0; 4096];
            open.read_exact_at(&mut found, 8192).expect("it is served");
            assert_eq!(found, [value; 4096]);
            return;
        }
        let script = format!(
            "printf '\\{value:03o}' | dd of={file} bs=1 seek=8192 conv=notrunc 2>&1 && \
             dd if={file} bs=1 skip=8192 count=1 2>/dev/null | od -An -tu1"
        );
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
        let output = command.args(["sh", "-c", &script]).output().expect("a shell");
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told.trim().rsplit('\n').next().map(str::trim), Some(&*value.to_string()));
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // A test that fails leaves nothing mounted; a helper may be at it.
        let is_bare = |_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            self.mounts() == 0
        };
        if self.mounts() != 0 && !(0..300).any(is_bare) {
            let _gone = Command::new("umount").arg("-l").arg(self.scratch.text("m")).status();
        }
    }
}

/// Users as which the test can run.
fn users() -> Vec<Option<&'static str>> {
    let may = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
        && rustix::process::geteuid().is_root();
    if !may {
        skipped("no right to mount, or no /dev/fuse");
        return Vec::new();
    }
    let house = House::new(Some(USER));
    let runs = house.program().arg("--version").stdout(Stdio::null()).status();
    let has_helper =
        Command::new("fusermount3").arg("--version").stdout(Stdio::null()).status().is_ok();
    let mode = fs::metadata("/dev/fuse").map_or(0, |device| device.permissions().mode());
    let is_for_all = mode & 0o006 == 0o006;
    if runs.is_ok_and(|status| status.success()) && has_helper && is_for_all {
        return vec![None, Some(USER)];
    }
    skipped(
        "as another user than root: no setpriv, no fusermount3, /dev/fuse is not for all, or the \
         program is hidden",
    );
    vec![None]
}

/// How many filters of calls a process has, by its status.
fn filters(status: &str) -> u32 {
    let count = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    count.and_then(|count| count.trim().parse().ok()).expect("Linux 5.9 tells it")
}

/// Is a server with files in its sandbox like any other, does it reload its configuration, and is
/// its folder empty after it has ended, even if it was killed?
#[test]
fn files_go_with_their_server() {
    for (user, signal) in users()
        .into_iter()
        .flat_map(|user| [(user, Signal::TERM), (user, Signal::INT), (user, Signal::KILL)])
    {
        let house = House::new(user);
        let mut server = house.start(&[]);
        house.until_mounted();
        house.serves(7);
        let status = fs::read_to_string(format!("/proc/{}/status", server.0.id()));
        let status = status.expect("it is there");
        // In a container all processes have a filter, from outside: it must have more than we.
        let own = fs::read_to_string("/proc/self/status").expect("it is there");
        let calls = status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n");
        assert!(calls && filters(&status) > filters(&own), "{status} {}", house.log());
        // Files are bounded: a trace is not written where there is no folder of ours.
        let away = Scratch::new();
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(away.text("."), open).expect("ours");
        let (done, said) = house.ctl(&["trace", "start", &away.text("x")]);
        let bounded = said.contains("`sandbox = false` is without");
        assert!(bounded || house.log().contains("no Landlock"), "{done} {said} {}", house.log());
        assert!(!house.log().contains("not bounded"), "{}", house.log());
        // And the file of users is hidden, but `root` was looked up.
        house.configure(300);
        let (done, said) = house.ctl(&["reload"]);
        assert!(done && said.contains("tenant.disk.weight: 100 -> 300"), "{said}");
        house.serves(9);
        let number = Pid::from_child(&server.0);
        if signal == Signal::INT {
            // As a terminal sends it: to the helper, too.
            let children = format!("/proc/{0}/task/{0}/children", server.0.id());
            for child in fs::read_to_string(children).expect("it is there").split_whitespace() {
                let child = child.parse().ok().and_then(Pid::from_raw).expect("a number");
                kill_process(child, signal).expect("it is there");
            }
        }
        kill_process(number, signal).expect("it is ours");
        let ended = server.0.wait().expect("it ends");
        assert_eq!(ended.success(), signal != Signal::KILL, "{}", house.log());
        until(|| (house.mounts() == 0).then_some(()), || format!("left: {}", house.log()));
        assert_eq!(fs::read_dir(house.scratch.text("m")).expect("it is bare").count(), 0);
        let disk = fs::read(house.scratch.text("disk")).expect("a disk");
        assert_eq!(disk[8192], 9, "{user:?} {signal:?}");
    }
}

/// Does a server that is started as root and becomes another user show its files, also to root and
/// in its sandbox? Is the folder unmounted after its end and after `kill -9`, and does it belong to
/// the next server after a hand-over? Without the sandbox, and so without a helper, is it refused?
#[test]
fn files_of_a_server_that_becomes_another_user() {
    if users().is_empty() {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        let mut house = House::new(None);
        house.becomes = true;
        house.configure(100);
        let mut server = house.start(&[]);
        house.until_mounted();
        house.serves(7);
        let status = fs::read_to_string(format!("/proc/{}/status", server.0.id()));
        let status = status.expect("it is there");
        let uids = format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}\n");
        assert!(status.contains(&uids), "{status}");
        house.configure(300);
        let (done, said) = house.ctl(&["reload"]);
        assert!(done && said.contains("tenant.disk.weight: 100 -> 300"), "{said}");
        house.serves(9);
        if signal == Signal::TERM {
            let new = house.start(&["--take-over"]);
            let ended = until(
                || server.0.try_wait().expect("a child"),
                || format!("the old one does not end: {}", house.log()),
            );
            assert!(ended.success(), "{}", house.log());
            server = new;
            house.until_mounted();
            house.serves(11);
        }
        kill_process(Pid::from_child(&server.0), signal).expect("it is ours");
        let ended = server.0.wait().expect("it ends");
        assert_eq!(ended.success(), signal != Signal::KILL, "{}", house.log());
        until(|| (house.mounts() == 0).then_some(()), || format!("left: {}", house.log()));
        if signal == Signal::TERM {
            let file = house.scratch.text("serve.toml");
            let text = fs::read_to_string(&file).expect("it is there");
            let text = text.replace("[server]", "[server]\nsandbox = false");
            fs::write(&file, text).expect("room");
            let refused = house.program().args(["serve", &file]).output().expect("it runs");
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(said.contains("the helper of `sandbox = true` does"), "{said}");
            assert_eq!(refused.status.code(), Some(2), "{said}");
        }
    }
}

/// Does the folder belong to the other server once that has taken over, and is it unmounted after
/// the last one?
#[test]
fn files_go_over_within_the_sandbox() {
    for user in users() {
        let house = House::new(user);
        let mut server = house.start(&[]);
        house.until_mounted();
        for value in [3, 4] {
            house.serves(value);
            let new = house.start(&["--take-over"]);
            let ended = until(
                || server.0.try_wait().expect("a child"),
                || format!("the old one does not end: {}", house.log()),
            );
            assert!(ended.success(), "{}", house.log());
            server = new;
            house.until_mounted();
        }
        house.serves(5);
        assert!(!house.log().contains("not bounded"), "{}", house.log());
        kill_process(Pid::from_child(&server.0), Signal::TERM).expect("it is ours");
        assert!(server.0.wait().expect("it ends").success(), "{}", house.log());
        assert_eq!(house.mounts(), 0, "{}", house.log());
    }
}

/// Is a process that has written, and becomes another program with its file open, no end of the
/// server? The file is closed in the midst of that, and what /proc tells of it waits meanwhile.
#[test]
fn a_program_begins_while_a_file_is_open() {
    if users().is_empty() {
        return;
    }
    let house = House::new(None);
    let server = house.start(&[]);
    house.until_mounted();
    let file = OpenOptions::new().write(true).open(house.scratch.text("m/disk"));
    let file = file.expect("it is shown");
    for value in 0..50 {
        file.write_all_at(&[value; 512], 0).expect("it is served");
        // Of a hundred at least one hung, before.
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().expect("a program");
        let ended = || child.try_wait().expect("a child");
        until(ended, || format!("it hangs: {}", house.log()));
    }
    drop((file, server));
}
