// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster serve` in its sandbox: it serves, takes orders, and removes what it has made.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::serve_arguments::{Scratch, serve};

/// A server that is ready.
struct Started(Child);

impl Started {
    fn of(file: &str, arguments: &[&str]) -> Started {
        let mut command = serve(&[&[file], arguments].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut told = String::new();
        while !told.contains(" at nbd") {
            assert_ne!(lines.read_line(&mut told).expect("a line"), 0, "{told}");
        }
        // The rest is read, so that nothing blocks.
        std::thread::spawn(move || lines.read_to_string(&mut told));
        Started(child)
    }

    fn status(&self) -> String {
        fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it is there")
    }
}

fn asked(socket: &str, line: &str) -> String {
    let mut control = UnixStream::connect(socket).expect("a control socket");
    writeln!(control, "{line}").expect("it listens");
    let mut answer = String::new();
    BufReader::new(control).read_line(&mut answer).expect("an answer");
    answer
}

/// Within the sandbox: ordered settings are saved, and read again; a new image is opened in a
/// folder of images, and not elsewhere, and the answer says why.
fn saves_and_reloads(server: &Started, control: &str, file: &str, scratch: &Scratch) {
    fs::set_permissions(file, Permissions::from_mode(0o640)).expect("it is ours");
    let weight = r#"{"do":"weight","name":"disk","weight":300}"#;
    assert!(asked(control, weight).contains("\"ok\":true"));
    let saved = asked(control, r#"{"do":"save"}"#);
    assert!(saved.contains("tenant.disk.weight: 100 -> 300"), "{saved}");
    let text = fs::read_to_string(file).expect("it is there");
    assert!(text.contains("weight = 300"), "{text}");
    let mode = fs::metadata(file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert!(!fs::exists(format!("{file}.new")).expect("its folder is there"));
    fs::write(file, text.replace("weight = 300", "weight = 200")).expect("it is ours");
    let told = asked(control, r#"{"do":"reload"}"#);
    assert!(told.contains("tenant.disk.weight: 300 -> 200"), "{told}");
    let reload = |image: &str| {
        fs::write(file, format!("{text}[volume.new]\npath = '{image}'\n")).expect("it is ours");
        asked(control, r#"{"do":"reload"}"#)
    };
    let told = reload(&scratch.disk("new.img"));
    // As above: without Landlock it is opened.
    let why = "images are those of the start and what is in a folder of `image-folders`";
    assert!(told.contains(why) || told.contains("\"ok\""), "{told}");
    let image = scratch.disk("images/new.img");
    let told = reload(&image);
    assert!(told.contains("\"ok\":true") && told.contains("volume.new"), "{told}");
    assert!(asked(control, r#"{"do":"list"}"#).contains("\"new\""));
    let open = fs::read_dir(format!("/proc/{}/fd", server.0.id())).expect("it is there");
    let open = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    assert!(open.into_iter().any(|file| file == *image), "{image}");
}

/// Does a server that gave up all it does not need serve, write traces where they belong and
/// nowhere else, save and reload, and end in good order, with its sockets and pidfile gone? And is
/// everything kept on request?
#[test]
fn a_server_in_its_sandbox() {
    let scratch = Scratch::new();
    let [run, traces, etc, images] =
        ["run", "traces", "etc", "images"].map(|name| scratch.text(name));
    for folder in [&run, &traces, &etc, &images] {
        fs::create_dir(folder).expect("a folder");
    }
    let (image, file) = (scratch.disk("disk.img"), format!("{etc}/serve.toml"));
    let text = format!(
        "[server]\nlisten = 'unix:{run}/nbd'\ncontrol = '{run}/control'\n\
         pidfile = '{run}/pid'\nmetrics = '127.0.0.1:0'\ntraces = '{traces}'\n\
         image-folders = ['{images}', '{images}/none']\n\
         [volume.disk]\npath = '{image}'\n[tenant.disk]\nweight = 100\n"
    );
    fs::write(&file, &text).expect("a file");
    let checked = serve(&[&file, "--check"]).output().expect("the program starts");
    let missing = format!("image-folders: {images}/none: there is no such folder");
    assert!(String::from_utf8_lossy(&checked.stderr).contains(&missing), "{checked:?}");
    let mut server = Started::of(&file, &[]);
    let status = server.status();
    assert!(status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"), "{status}");
    // The greeting of NBD.
    let mut client = UnixStream::connect(format!("{run}/nbd")).expect("a server");
    let mut greeting = [0; 8];
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGIC");
    drop(client);
    let control = format!("{run}/control");
    assert!(asked(&control, r#"{"do":"list"}"#).contains("\"ok\":true"));
    let trace =
        |folder: &str| asked(&control, &format!(r#"{{"do":"trace","prefix":"{folder}/x"}}"#));
    let outside = trace(&run);
    // A kernel without Landlock has no such bounds; the server said so.
    assert!(outside.contains("`sandbox = false` is without") || outside.contains("\"ok\""));
    assert!(asked(&control, r#"{"do":"trace","stop":true}"#).contains('{'));
    assert!(trace(&traces).contains("\"ok\":true"));
    assert!(asked(&control, r#"{"do":"trace","stop":true}"#).contains("\"ok\":true"));
    saves_and_reloads(&server, &control, &file, &scratch);
    let pid = Pid::from_child(&server.0);
    kill_process(pid, Signal::TERM).expect("it is ours");
    assert!(server.0.wait().expect("it ends").success());
    let _trace = fs::remove_file(format!("{run}/x.blktrace.0"));
    assert_eq!(fs::read_dir(&run).expect("it is there").count(), 0, "sockets and pidfile");

    fs::write(&file, text.replace("[volume", "sandbox = false\n[volume")).expect("a file");
    let mut server = Started::of(&file, &[]);
    assert!(server.status().contains("Seccomp:\t0\n"));
    kill_process(Pid::from_child(&server.0), Signal::TERM).expect("it is ours");
    assert!(server.0.wait().expect("it ends").success());
}

/// Is a volume on an image that the sandbox does not reach refused by a reload, with the way to get
/// it, and does it come with a process that takes over?
#[test]
fn what_a_reload_cannot_reach_comes_by_hand_over() {
    let scratch = Scratch::new();
    let (run, elsewhere) = (scratch.text("run"), scratch.text("elsewhere"));
    // Where the configuration lies the sandbox reaches.
    for folder in [&run, &elsewhere, &scratch.text("etc")] {
        fs::create_dir(folder).expect("a folder");
    }
    let (image, file) = (scratch.disk("disk.img"), scratch.text("etc/serve.toml"));
    let text = format!(
        "[server]\nlisten = 'unix:{run}/nbd'\ncontrol = '{run}/control'\n\
         [volume.disk]\npath = '{image}'\n"
    );
    fs::write(&file, &text).expect("a file");
    let mut server = Started::of(&file, &[]);
    let new = scratch.disk("elsewhere/new.img");
    fs::write(&file, format!("{text}[volume.new]\npath = '{new}'\n")).expect("it is ours");
    let control = format!("{run}/control");
    let told = asked(&control, r#"{"do":"reload"}"#);
    if told.contains("\"ok\":true") {
        // It is open already, since nothing bounds files here.
        crate::common::skipped("a path out of reach: this kernel has no Landlock");
    } else {
        assert!(told.contains("nothing was changed") && told.contains("--take-over"), "{told}");
        assert!(!asked(&control, r#"{"do":"list"}"#).contains("\"new\""));
    }
    let mut next = Started::of(&file, &["--take-over"]);
    assert!(server.0.wait().expect("it ends").success());
    assert!(asked(&control, r#"{"do":"list"}"#).contains("\"new\""));
    assert!(next.status().contains("NoNewPrivs:\t1\n"), "it is in a sandbox of its own");
    kill_process(Pid::from_child(&next.0), Signal::TERM).expect("it is ours");
    assert!(next.0.wait().expect("it ends").success());
}

/// In the sandbox, is a certificate read again that is stored as certbot does it: links in `live`
/// to files in `archive`, and to the next files after a renewal? And does a server whose link
/// points elsewhere meanwhile say so, and go on with the certificate that it has?
#[test]
fn certificates_behind_links_are_read_again() {
    let scratch = Scratch::new();
    let (run, live, archive) =
        (scratch.text("run"), scratch.text("live/example"), scratch.text("archive/example"));
    // The configuration's folder can be read: theirs are not in it.
    for folder in [&run, &live, &archive, &scratch.text("etc")] {
        fs::create_dir_all(folder).expect("a folder");
    }
    let made = |number: u32, to: &str| {
        let name = format!("server{number}.example");
        let made = std::process::Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")])
            .args(["-addext", &format!("subjectAltName=DNS:{name}")])
            .args(["-keyout", &format!("{to}/privkey{number}.pem")])
            .args(["-out", &format!("{to}/fullchain{number}.pem")])
            .stderr(Stdio::null())
            .status();
        made.is_ok_and(|status| status.success())
    };
    // As certbot does: a link is replaced by another one.
    let points = |number: u32, to: &str| {
        for name in ["privkey", "fullchain"] {
            let (link, next) = (format!("{live}/{name}.pem"), format!("{live}/{name}.next"));
            let target = format!("{to}/{name}{number}.pem");
            std::os::unix::fs::symlink(target, &next).expect("a link");
            fs::rename(&next, &link).expect("it is ours");
        }
    };
    if !made(1, &archive) {
        return crate::common::skipped("openssl is not installed: no certificate is renewed");
    }
    points(1, "../../archive/example");
    let (image, file) = (scratch.disk("disk.img"), scratch.text("etc/serve.toml"));
    let text = format!(
        "[server]\nlisten = {{ at = 'unix:{run}/nbd', tls = 'required' }}\n\
         control = '{run}/control'\n[server.tls]\ncertificate = '{live}/fullchain.pem'\n\
         key = '{live}/privkey.pem'\n[volume.disk]\npath = '{image}'\n"
    );
    fs::write(&file, &text).expect("a file");
    let mut server = Started::of(&file, &[]);
    let control = format!("{run}/control");
    let reload = || asked(&control, r#"{"do":"reload"}"#);
    for number in 2..4 {
        assert!(made(number, &archive));
        points(number, "../../archive/example");
        let told = reload();
        assert!(told.contains("server.tls: the certificates were read"), "{told}");
    }
    // Elsewhere: out of bounds, if there are any here.
    let elsewhere = scratch.text("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    assert!(made(4, &elsewhere));
    points(4, "../../elsewhere");
    let told = reload();
    if told.contains("were read") {
        crate::common::skipped("a link out of reach: this kernel has no Landlock");
    } else {
        assert!(told.contains("nothing was changed") && told.contains("Permission"), "{told}");
    }
    points(3, "../../archive/example");
    assert!(reload().contains("\"ok\":true"));
    kill_process(Pid::from_child(&server.0), Signal::TERM).expect("it is ours");
    assert!(server.0.wait().expect("it ends").success());
}
