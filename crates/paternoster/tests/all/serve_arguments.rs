// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster serve` as an administrator meets it: what it would serve, what it refuses, and what
//! remains after its end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::skipped;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A folder of one test, gone with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("paternoster-serve-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder");
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    /// A disk of 1 MiB.
    pub(crate) fn disk(&self, name: &str) -> String {
        let file = fs::File::create(self.path(name)).expect("a file");
        file.set_len(1 << 20).expect("its size");
        self.text(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("serve").args(arguments).current_dir(ROOT).stdin(Stdio::null());
    command.env_remove("XDG_RUNTIME_DIR");
    command
}

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = serve(arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

/// The output of `--check`, with runs of blanks reduced to one.
fn checked(arguments: &[&str]) -> String {
    let (status, told, complaints) = output(&[arguments, &["--check"]].concat());
    assert_eq!(status, Some(0), "{complaints}");
    squeezed(&told)
}

fn squeezed(text: &str) -> String {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(squeezed).collect()
}

fn refused(arguments: &[&str]) -> String {
    let (status, told, complaints) = output(&[arguments, &["--check"]].concat());
    assert_eq!((status, told.as_str()), (Some(2), ""), "{complaints}");
    complaints
}

/// Does `--check` list sockets, exports, devices, tenants and rules of the example?
#[test]
fn the_example_is_told() {
    // Its disks do not exist, which is reported, with the status for mistakes.
    let (status, told, complaints) = output(&["docs/serve/example.toml", "--check"]);
    assert_eq!(status, Some(2), "{complaints}");
    assert!(complaints.contains("/srv/images/shared.img: it is not there"), "{complaints}");
    let told = squeezed(&told);
    for line in [
        "unix:/run/paternoster/nbd.sock 0660 off",
        "tcp:127.0.0.1:10809 - off",
        "vm3 nbd+unix:///vm3?socket=/run/paternoster/nbd.sock disk /srv/images/shared.img \
         (not there)",
        "disk bfq slice_idle=0 32 auto auto 64MiB 50ms",
        "archive mq-deadline auto threads auto 64MiB -",
        "customers (group) 500 - 50% -",
        "silver customers 100 best-effort 4 - 200MB/s",
        "backup 100 background 4 5% -",
        "export=vm1 gold",
        "address=127.0.0.0/8 local-$export weight 100",
    ] {
        assert!(told.contains(&format!("{line}\n")), "{line}\n{told}");
    }
}

/// Do flags mean what the file would say?
#[test]
fn the_simple_case_is_told() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.disk("one.img"), scratch.disk("two.img"));
    let told = checked(&[
        &one,
        &two,
        "--name=first",
        "--listen=tcp:[::1]:10809",
        "--scheduler=deadline:fifo_batch=1",
        "--depth=8",
        "--engine=threads",
        "--direct=no",
        "--memory=2MiB",
        "--readonly",
        "--allow=uid=7",
        "--allow=address=10.0.0.0/8",
        "--tenant=db=300",
        "--rule=uid=1000 tenant=db",
    ]);
    for line in [
        format!("first nbd://[::1]:10809/first disk {one} 1MiB from 0B read-only"),
        format!("two.img nbd://[::1]:10809/two.img disk {two} 1MiB from 0B read-only"),
        "first uid=7, address=10.0.0.0/8 nobody -".to_owned(),
        "disk deadline fifo_batch=1 8 threads no 2MiB -".to_owned(),
        "db 300 best-effort 4 - -".to_owned(),
        "uid=1000 db".to_owned(),
    ] {
        assert!(told.contains(&format!("{line}\n")), "{line}\n{told}");
    }
}

/// Are mistakes refused with what would be right, in file and flags alike?
#[test]
fn refusals() {
    let scratch = Scratch::new();
    let file = scratch.text("serve.toml");
    fs::write(&file, "[server]\nlisten = \"unix:/s\"\n[volume.a]\npaht = \"/f\"\n").unwrap();
    let message = refused(&[&file]);
    let expected = format!("paternoster: {file}:3: `volume.a.path` is missing: ");
    assert!(message.starts_with(&expected), "{message}");
    assert!(refused(&[&file, "--depth=1"]).contains("--depth belongs into"));
    assert!(refused(&[&file, "disk.img"]).contains("stands alone"));
    assert!(refused(&["/nowhere/serve.toml"]).contains("it cannot be read: No such file"));
    for (arguments, expected) in [
        (&["a.img", "--listen=tcp:0.0.0.0:1"][..], "everybody who reaches it could read and write"),
        (&["a.img", "--listen=tcp:host:1"], "--listen cannot be `tcp:host:1`: address and port"),
        (&["a.img", "--scheduler=bqf"], "there is no scheduler `bqf`"),
        (&["a.img", "--scheduler=bfq:x=1"], "bfq has no such attribute"),
        (&["a.img", "--depth=0"], "`device.disk.depth` cannot be `0`: 1 to 4096"),
        (&["a.img", "--engine=fast"], "--engine cannot be `fast`: one of auto, io_uring,"),
        (&["a.img", "--direct=maybe"], "--direct cannot be `maybe`: one of auto, yes, no"),
        (&["a.img", "--memory=1"], "`device.disk.memory` cannot be `1B`: 1MiB to 1TiB"),
        (&["a.img", "--metrics=10.0.0.1:1"], "beyond loopback they need TLS"),
        (&["a.img", "--metrics=x"], "--metrics cannot be `x`: address and port"),
        (&["a.img", "--tenant=db"], "--tenant cannot be `db`: a name and a weight"),
        (&["a.img", "--tenant=db=0"], "`tenant.db.weight` cannot be `0`: 1 to 10000"),
        (&["a.img", "--rule=uid=1000"], "--rule cannot be `uid=1000`: it has no `tenant=NAME`"),
        (&["x/a.img", "y/a.img"], "two exports would be named `a.img`; --name gives others"),
        (&["a.img", "--name=x", "--name=y"], "2 times --name for 1 paths"),
        (&["a.img", "a.img", "--name=b"], "volumes overlap in it"),
        (&["a.img", "--tls-cert=c.pem"], "--tls-key"),
        (&["/"], "no file has such a name; see --name"),
        (&[], "required"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

/// Do files need no socket, and does the output say where they are, which weights count and which
/// users may use them?
#[test]
fn files_are_told() {
    let scratch = Scratch::new();
    let (disk, folder) = (scratch.disk("disk.img"), scratch.text("files"));
    fs::create_dir(&folder).unwrap();
    let fuse = format!("--fuse={folder}");
    let told = checked(&[&disk, &fuse]);
    for line in [
        "files in cgroups realtime users others processes".to_owned(),
        format!("{folder} - 0 may not 1024"),
        format!("disk.img {folder}/disk.img disk {disk} 1MiB from 0B"),
    ] {
        assert!(told.contains(&format!("{line}\n")), "{line}\n{told}");
    }
    assert!(!told.contains("nbd"), "no socket was asked for\n{told}");
    let cgroups = format!("--cgroups={}", scratch.0.display());
    let told = checked(&[&disk, &fuse, &cgroups, "--allow-other", "--socket=/s"]);
    let line = format!("{folder} {} 0 may 1024\n", scratch.0.display());
    assert!(told.contains(&line), "{line}\n{told}");
    let line = format!("disk.img nbd+unix:///disk.img?socket=/s disk {disk} 1MiB from 0B\n");
    assert!(told.contains(&line), "{line}\n{told}");
}

/// Is a missing folder reported, with the name of the file that names it, if any?
#[test]
fn missing_folders() {
    let scratch = Scratch::new();
    let (disk, file) = (scratch.disk("disk.img"), scratch.text("serve.toml"));
    let missing = "there is no such folder; make it first: `mkdir -p /nowhere/x`";
    let text = format!("[server]\nfuse.mount = '/nowhere/x'\n[volume.a]\npath = '{disk}'\n");
    fs::write(&file, text).unwrap();
    let message = refused(&[&file]);
    let expected =
        format!("paternoster: {file}: `server.fuse.mount` cannot be `/nowhere/x`: {missing}");
    assert!(message.starts_with(&expected), "{message}");
    assert!(refused(&[&disk, "--fuse=/nowhere/x"]).contains(missing));
    // Not only --check checks.
    let (status, _, message) = output(&[&disk, "--fuse=/nowhere/x"]);
    assert_eq!(status, Some(2));
    assert!(message.contains(missing), "{message}");
    assert!(refused(&[&disk, "--cgroups=/sys/fs/cgroup"]).contains("--fuse"));
    assert!(refused(&[&disk, "--allow-other"]).contains("--fuse"));
    assert!(refused(&[&file, "--fuse=/x"]).contains("--fuse belongs into"));
    let inside = format!("--fuse={}", scratch.0.display());
    assert!(refused(&[&disk, &inside]).contains("the volume `disk.img` would be in it"));
}

/// Does a command get the URI of a private socket, is its exit status ours, and does nothing remain
/// after its end?
#[test]
fn a_command_is_served() {
    let scratch = Scratch::new();
    let disk = scratch.disk("disk.img");
    let script = "test -S \"$unixsocket\" && stat -c %a \"$unixsocket\" && echo \"$uri\" && exit 7";
    let mut command = serve(&[&disk, "--engine=threads", "--run", script]);
    let output = command.env("TMPDIR", scratch.path("")).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let (mode, uri) = told.split_once('\n').unwrap();
    assert_eq!(mode, "600");
    let prefix = format!("nbd+unix:///disk.img?socket={}/paternoster-", scratch.0.display());
    assert!(uri.starts_with(&prefix) && uri.trim_end().ends_with("/nbd.sock"), "{uri}");
    let left: Vec<_> = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Is the number in the pidfile ours while we serve, and the file gone afterwards?
#[test]
fn the_pidfile_comes_and_goes() {
    let scratch = Scratch::new();
    let (disk, pidfile) = (scratch.disk("disk.img"), scratch.text("pid"));
    let script = format!("test $(cat {pidfile}) = $PPID");
    let (status, _, told) =
        output(&[&disk, "--engine=threads", "--pidfile", &pidfile, "--run", &script]);
    assert_eq!(status, Some(0), "{told}");
    assert!(!Path::new(&pidfile).exists());
}

/// Does a signal end a server in good order, with its socket?
#[test]
fn a_signal_ends_it() {
    let scratch = Scratch::new();
    let (disk, socket) = (scratch.disk("disk.img"), scratch.text("s"));
    let mut command = serve(&[&disk, "--engine=threads", "--socket", &socket]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let uri = format!(" info paternoster: disk.img at nbd+unix:///disk.img?socket={socket} (");
    assert!(line.contains(&uri), "{line}");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    // A second server does not take the place of a living one.
    let other = scratch.disk("other.img");
    let (status, _, message) = output(&[&other, "--engine=threads", "--socket", &socket]);
    assert_eq!(status, Some(1), "{message}");
    assert!(message.contains("another server is listening there"), "{message}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!Path::new(&socket).exists());
}

/// Does a second signal end it at once, when its command ignores the first?
#[test]
fn a_second_signal_ends_it_at_once() {
    let scratch = Scratch::new();
    let disk = scratch.disk("disk.img");
    // It waits for a line that never comes, and ends when we are gone.
    let script = "trap '' TERM; echo ready; read line";
    let mut command = serve(&[&disk, "--engine=threads", "--run", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).env("TMPDIR", scratch.path(""));
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let _open = child.stdin.take();
    let pid = child.id().to_string();
    // Two of one kind could become one on their way.
    for signal in ["-TERM", "-INT"] {
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
    // As a shell reports SIGINT: 128 + 2.
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "only the disk is left");
}

/// Does a server started by root run as another user once it serves, with a socket owned by that
/// user? (As root only.)
#[test]
fn it_becomes_somebody_else() {
    let scratch = Scratch::new();
    let disk = scratch.disk("disk.img");
    let own = Command::new("id").arg("-u").output().unwrap().stdout;
    if own != b"0\n" {
        return skipped("it takes root");
    }
    let script = "id -u; stat -c '%u %a' \"$unixsocket\"";
    let (status, told, complaints) =
        output(&[&disk, "--engine=threads", "--user", "54321", "--run", script]);
    assert_eq!((status, told.as_str()), (Some(0), "54321\n54321 600\n"), "{complaints}");
    let (status, _, message) = output(&[&disk, "--user", "no-such-user", "--run", "true"]);
    assert_eq!(status, Some(2));
    assert!(message.contains("user no-such-user: there is no such user"), "{message}");
}

/// Is a socket that was open before the program used unchanged?
#[test]
fn inherited_sockets_are_used() {
    let scratch = Scratch::new();
    let disk = scratch.disk("disk.img");
    let listener = UnixListener::bind(scratch.path("s")).unwrap();
    // A shell sets it as a service manager would; `exec` keeps the process number.
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\" 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_paternoster"), "serve", &disk]);
    command.args(["--engine=threads", "--run", "echo $uri${LISTEN_FDS}"]);
    command.stdin(Stdio::from(OwnedFd::from(listener)));
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let uri = format!("nbd+unix:///disk.img?socket={}\n", scratch.text("s"));
    assert_eq!(told, uri, "{}", String::from_utf8_lossy(&output.stderr));
    let missing = self::output(&[&disk, "--engine=threads", "--listen=inherited:3", "--run=true"]);
    assert_eq!(missing.0, Some(1));
    assert!(missing.2.contains("inherited:3: 0 sockets were inherited"), "{}", missing.2);
}

/// Is a mounted device served to no one for writing, unless forced? Nothing is served.
#[test]
fn a_mounted_device_is_not_served() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let sources = mounts.lines().filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(1));
    let is_device = |source: &&str| {
        let metadata = fs::metadata(source);
        metadata.is_ok_and(|it| it.file_type().is_block_device() && it.rdev() != 0)
    };
    let Some(device) = sources.filter(|source| source.starts_with('/')).find(is_device) else {
        return skipped("no block device of this machine is mounted where we see it");
    };
    let (status, _, message) = output(&[device, "--check"]);
    assert_eq!(status, Some(2));
    assert!(message.contains("is mounted at") && message.contains("--force"), "{message}");
    for allowed in [&[device, "--check", "--readonly"], &[device, "--check", "--force"]] {
        assert_eq!(output(allowed).0, Some(0));
    }
}

/// Is an image under two names refused by `--check` and by the start, with status 2, and served
/// when forced or shared?
#[test]
fn an_image_has_one_owner() {
    let scratch = Scratch::new();
    let (disk, other) = (scratch.disk("disk.img"), scratch.text("other.img"));
    std::os::unix::fs::symlink(&disk, &other).unwrap();
    let message = refused(&[&disk, &other]);
    assert!(message.contains("`disk.img`") && message.contains("same file"), "{message}");
    let (status, _, message) = output(&[&disk, &other, "--run", "true"]);
    assert_eq!(status, Some(2), "{message}");
    let (status, _, told) = output(&[&disk, &other, "--force", "--run", "true"]);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("--force serves both"), "{told}");
    let file = scratch.text("serve.toml");
    let volume = |name, path| format!("[volume.{name}]\npath = '{path}'\nshare = true\n");
    let text =
        ["[server]\nlisten = 'unix:/s'\n".to_owned(), volume("a", &disk), volume("b", &other)];
    fs::write(&file, text.concat()).unwrap();
    assert!(checked(&[&file]).contains("disk.img 1MiB from 0B shared"), "it is told");
}

/// Is a running server's disk refused to a second server and to jobs that write, with status 2 and
/// the process that has it, and not to jobs that read?
#[test]
fn what_a_server_has_is_its_own() {
    let scratch = Scratch::new();
    let disk = scratch.disk("disk.img");
    let program = env!("CARGO_BIN_EXE_paternoster");
    for (command, status, expected) in [
        (format!("{program} serve {disk} --check"), 2, "has it open to write"),
        (format!("{program} serve {disk} --run true"), 2, "has it open to write"),
        (format!("{program} serve {disk} --force --run true"), 0, "--force uses it"),
        (job(&scratch, program, &disk, "write", ""), 2, "these jobs would write over it"),
        (job(&scratch, program, &disk, "write", "--force"), 0, ""),
        (job(&scratch, program, &disk, "read", ""), 0, ""),
    ] {
        let (found, _, told) = output(&[&disk, "--run", &command]);
        assert_eq!(found, Some(status), "{command}\n{told}");
        assert!(told.contains(expected), "{command}\n{told}");
        assert!(status == 0 || told.contains("paternoster (process "), "{told}");
    }
}

/// The command for one small job on the real file.
fn job(scratch: &Scratch, program: &str, disk: &str, rw: &str, force: &str) -> String {
    let file = scratch.text(&format!("{rw}.fio"));
    fs::write(&file, format!("[j]\nrw={rw}\ndirect=1\nsize=64k\n")).unwrap();
    format!("{program} run {file} --device {disk} {force}")
}

/// Is a file that is plainly not a raw disk refused with status 2, by `--check` and the start, and
/// served when declared raw: a text, the configuration itself, an image of qemu's format?
#[test]
fn only_raw_disks_are_served() {
    let scratch = Scratch::new();
    let text = scratch.text("notes.txt");
    fs::write(&text, "one line, and\nanother one\n".repeat(100)).unwrap();
    let image = scratch.disk("disk.qcow2");
    let header = [&b"QFI\xfb\0\0\0\x03"[..], &[0; 504]].concat();
    std::os::unix::fs::FileExt::write_all_at(
        &fs::File::options().write(true).open(&image).unwrap(),
        &header,
        0,
    )
    .unwrap();
    let file = scratch.text("serve.toml");
    let config = format!("[server]\nlisten = 'unix:/s'\n[volume.a]\npath = '{file}'\n");
    fs::write(&file, config.clone() + &"# of itself\n".repeat(100)).unwrap();
    for (path, what) in [(&text, "a text"), (&image, "a qcow2 image"), (&file, "a text")] {
        let message = refused(&[path]);
        assert!(message.contains(&format!("this is {what} and no raw disk")), "{message}");
        if path == &file {
            continue;
        }
        let (status, _, message) = output(&[path, "--run", "true"]);
        assert_eq!(status, Some(2), "{message}");
        let (status, _, message) = output(&[path, "--raw", "--run", "true"]);
        assert_eq!(status, Some(0), "{message}");
    }
    fs::write(&file, config.replace(&file, &text) + "raw = true\n").unwrap();
    assert!(checked(&[&file]).contains("notes.txt"));
    assert!(refused(&[&file, "--raw"]).contains("--raw belongs into"));
}

/// If a client has made its volume look like a qemu image, is the volume left out, which is
/// reported at the start and fails `--check`, while the other volumes are served?
#[test]
fn one_client_does_not_keep_others_from_theirs() {
    let scratch = Scratch::new();
    let (rude, other) = (scratch.disk("rude.img"), scratch.disk("other.img"));
    let header = [&b"QFI\xfb\0\0\0\x03"[..], &[0; 504]].concat();
    let disk = fs::File::options().write(true).open(&rude).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&disk, &header, 0).unwrap();
    let file = scratch.text("serve.toml");
    let (socket, out) = (scratch.text("s"), "left out: volume `rude`");
    let volumes = format!(
        "[server]\nlisten = 'unix:{socket}'\n\
         [device.a]\n[device.b]\n\
         [volume.rude]\npath = '{rude}'\ndevice = 'a'\n\
         [volume.other]\npath = '{other}'\ndevice = 'b'\n"
    );
    fs::write(&file, &volumes).unwrap();
    let (status, told, message) = output(&[&file, "--check"]);
    assert_eq!(status, Some(2), "{message}");
    assert!(message.contains(out) && message.contains("a qcow2 image"), "{message}");
    assert!(told.contains("other.img") && !told.contains("rude.img"), "{told}");
    let (status, told, message) = output(&[&file, "--run", "echo served"]);
    assert_eq!((status, told.as_str()), (Some(0), "served\n"), "{message}");
    assert!(message.contains(out) && message.contains("other at nbd+unix"), "{message}");
    // It is served once the administrator says that it is raw.
    fs::write(&file, volumes.replace("device = 'a'", "device = 'a'\nraw = true")).unwrap();
    let (status, _, message) = output(&[&file, "--run", "true"]);
    assert_eq!(status, Some(0), "{message}");
    assert!(!message.contains(out) && message.contains("rude at nbd+unix"), "{message}");
    // Named by hand, they are refused.
    assert!(refused_with_any(&[&rude, &other]).contains("a qcow2 image"));
}

fn refused_with_any(arguments: &[&str]) -> String {
    let (status, _, complaints) = output(&[arguments, &["--run", "true"]].concat());
    assert_eq!(status, Some(2), "{complaints}");
    complaints
}

/// Does `--check` end with status 2 and name everything missing: disks that do not exist, are too
/// small or a folder, certificates, folders of sockets?
#[test]
fn a_check_finds_what_is_missing() {
    let scratch = Scratch::new();
    let (disk, gone, small) = (scratch.disk("disk"), scratch.text("gone"), scratch.text("small"));
    fs::write(&small, [0; 511]).unwrap();
    let folder = scratch.text("folder");
    fs::create_dir(&folder).unwrap();
    let certificate = format!("--tls-cert={gone}.pem");
    let key = format!("--tls-key={gone}.key");
    let control = "--control=/nonexistent/control.sock";
    let (status, told, complaints) =
        output(&[&disk, &gone, &small, &folder, &certificate, &key, control, "--check"]);
    assert_eq!(status, Some(2), "{complaints}");
    assert!(told.contains("(not there)"), "what would be served is told all the same: {told}");
    for expected in [
        format!("{gone}: it is not there"),
        format!("{small}: it has 511 bytes, and the volume needs 512"),
        format!("{folder}: it is no file and no block device"),
        format!("{gone}.pem: no certificate in PEM"),
        "`server.control`: /nonexistent/control.sock: there is no folder /nonexistent".to_owned(),
    ] {
        assert!(complaints.contains(&expected), "{expected}\n{complaints}");
    }
    let (status, ..) = output(&[&disk, "--check"]);
    assert_eq!(status, Some(0));
}

/// Do control and metrics answer though as many clients have come as files may be open? With
/// `ulimit -n 100` some of 150 connections fit, a note says how many, and 48 descriptors are
/// reserved.
#[test]
fn control_has_descriptors_left() {
    let scratch = Scratch::new();
    let (disk, socket, control) =
        (scratch.disk("disk"), scratch.text("nbd.sock"), scratch.text("control.sock"));
    let program = env!("CARGO_BIN_EXE_paternoster");
    let line = format!(
        "ulimit -n 100; exec {program} serve {disk} --listen unix:{socket} --control {control}"
    );
    let mut server = Command::new("sh")
        .args(["-c", &line])
        .current_dir(ROOT)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut lines = BufReader::new(server.stderr.take().expect("a pipe")).lines();
    let note = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("ulimit -n")));
    assert!(note.is_some(), "it is said that fewer connections fit");
    let clients: Vec<_> =
        (0..150).filter_map(|_| std::os::unix::net::UnixStream::connect(&socket).ok()).collect();
    let told = Command::new(program).args(["ctl", "--socket", &control, "list"]).output();
    let told = told.expect("the program starts");
    drop(clients);
    server.kill().expect("it is there");
    let _status = server.wait();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    assert!(String::from_utf8_lossy(&told.stdout).contains("disk"));
}
