// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real server under a service manager played by the test: what is reported to it, in which
//! order?

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::serve_arguments::{Scratch, serve};

/// The next message other than a sign of life; and how many of these came before it.
fn heard(manager: &UnixDatagram) -> (String, usize) {
    let (mut buffer, mut signs) = ([0; 1024], 0);
    loop {
        let read = manager.recv(&mut buffer).expect("it says something in time");
        let told = String::from_utf8(buffer[..read].to_vec()).expect("text");
        if told != "WATCHDOG=1" {
            return (told, signs);
        }
        signs += 1;
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().expect("kill").success());
}

/// Starts a server for the manager at that socket, reloads it, and ends it.
fn a_life(scratch: &Scratch, manager: &UnixDatagram, socket: &str) {
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let (disk, file) = (scratch.disk("disk"), scratch.text("serve.toml"));
    let listen = scratch.text("s");
    let text = format!("[server]\nlisten = 'unix:{listen}'\n[volume.disk]\npath = '{disk}'\n");
    std::fs::write(&file, text).expect("room");
    let mut command = serve(&[&file]);
    // A sign each 20 ms.
    command.env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", "60000");
    let mut child = command.stderr(Stdio::null()).spawn().expect("a server");
    let (told, _) = heard(manager);
    assert_eq!(told, "READY=1\nSTATUS=serving 1 volumes of 1 devices");
    assert!(std::path::Path::new(&listen).exists(), "it is ready when its socket is there");
    // Signs come without anything else to say.
    let mut buffer = [0; 64];
    for _ in 0..5 {
        let read = manager.recv(&mut buffer).expect("a sign of life");
        assert_eq!(&buffer[..read], b"WATCHDOG=1");
    }
    signal(&child, "-HUP");
    let (told, _) = heard(manager);
    assert!(told.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{told}");
    let micros = told.lines().nth(1).and_then(|line| line.split_once('=')).expect("a time").1;
    assert!(micros.parse::<u64>().expect("a number") > 0);
    assert_eq!(heard(manager).0, "READY=1\nSTATUS=serving 1 volumes of 1 devices");
    std::fs::write(&file, "[server]\nlisten = 7\n").expect("room");
    signal(&child, "-HUP");
    assert!(heard(manager).0.starts_with("RELOADING=1\n"));
    let (told, _) = heard(manager);
    assert!(
        told.starts_with("READY=1\n") && told.contains("reload: nothing was changed"),
        "{told}"
    );
    signal(&child, "-TERM");
    assert!(heard(manager).0.starts_with("STOPPING=1\n"));
    assert!(child.wait().expect("it ends").success());
}

/// Is a manager told at its socket's path that the server is ready, alive, reading its
/// configuration again (and why that failed) and stopping?
#[test]
fn a_service_manager_is_told() {
    let scratch = Scratch::new();
    let at = scratch.text("manager");
    let manager = UnixDatagram::bind(&at).expect("a socket");
    a_life(&scratch, &manager, &at);
}

/// Is one told at an abstract socket, from within the sandbox?
#[test]
fn a_manager_at_an_abstract_socket() {
    let scratch = Scratch::new();
    let name = format!("paternoster-manager-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    a_life(&scratch, &manager, &format!("@{name}"));
}
