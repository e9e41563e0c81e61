// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals to a real server: what does each of them do?

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

/// A server with a configuration of one tenant.
struct Server {
    folder: PathBuf,
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Server {
    fn start() -> Server {
        let folder = std::env::temp_dir().join(format!("paternoster-hup-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::File::create(folder.join("disk")).expect("a file").set_len(1 << 20).expect("room");
        write(&folder, "100");
        let mut child = Command::new(env!("CARGO_BIN_EXE_paternoster"))
            .arg("serve")
            .arg(folder.join("serve.toml"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a server");
        let log = BufReader::new(child.stderr.take().expect("its log"));
        let mut server = Server { folder, child, log };
        server.says("paternoster: disk at nbd+unix:");
        server
    }

    /// Reads the log until it says this; returns the line.
    fn says(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).expect("text"), 0, "it ended before {words}");
        }
        line
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("kill is there");
        assert!(sent.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

fn write(folder: &std::path::Path, weight: &str) {
    let (socket, disk) = (folder.join("nbd.sock"), folder.join("disk"));
    let text = format!(
        "[server]\nlisten = \"unix:{}\"\nconnections = 16\n[volume.disk]\npath = \"{}\"\n\
         [tenant.disk]\nweight = {weight}\n",
        socket.display(),
        disk.display()
    );
    std::fs::write(folder.join("serve.toml"), text).expect("room");
}

/// Does SIGHUP read the configuration again, do SIGUSR1 and SIGUSR2 have no effect, a mistake none
/// but a line, and does SIGTERM end it in good order after all of them?
#[test]
fn signals_that_end_nothing() {
    let mut server = Server::start();
    server.signal("-USR1");
    server.signal("-USR2");
    write(&server.folder, "300");
    server.signal("-HUP");
    server.says("paternoster: reload: tenant.disk.weight: 100 -> 300");
    write(&server.folder, "0");
    server.signal("-HUP");
    let told = server.says("paternoster: reload: nothing was changed");
    assert!(told.contains("serve.toml:7: `tenant.disk.weight` cannot be `0`"), "{told}");
    server.signal("-TERM");
    assert!(server.child.wait().expect("it ends").success());
    assert!(!server.folder.join("nbd.sock").exists(), "the socket's file has gone");
}
