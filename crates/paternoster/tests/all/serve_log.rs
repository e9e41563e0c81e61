// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a real server: does a day of it show an operator, and a machine, what happened?

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::serve_arguments::{Scratch, serve};
use crate::serve_loss::negotiate;

const READ: u16 = 0;
const DISCONNECT: u16 = 2;
const EIO: u32 = 5;

/// A connection to a server that may not listen yet.
pub(crate) fn connect(socket: &str) -> UnixStream {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
                return stream;
            }
            Err(error) => assert!(Instant::now() < limit, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(stream: &mut UnixStream, kind: u16, length: u32) {
    let (magic, flags, offset) = (0x2560_9513u32.to_be_bytes(), [0; 2], [0; 8]);
    let (kind, length) = (kind.to_be_bytes(), length.to_be_bytes());
    let request = [&magic[..], &flags, &kind, b"a cookie", &offset, &length].concat();
    stream.write_all(&request).expect("it listens");
}

/// Reads the first 4 KiB; returns the errno.
fn read(stream: &mut UnixStream) -> u32 {
    send(stream, READ, 4096);
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("an answer");
    let errno = u32::from_be_bytes(*reply[4..].first_chunk().expect("four bytes"));
    if errno == 0 {
        stream.read_exact(&mut [0; 4096]).expect("data");
    }
    errno
}

/// Asks for an export of that name, until the server hangs up.
fn ask_for(socket: &str, name: &[u8]) {
    let mut stream = connect(socket);
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    let length = u32::try_from(name.len()).expect("a short name").to_be_bytes();
    let ask: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x01";
    stream.write_all(&[ask, &length, name].concat()).expect("it listens");
    let _hung_up = stream.read_to_end(&mut Vec::new());
}

/// Is each line of a JSON log one object, whatever a client calls itself, and is there one for each
/// connect, disconnect, order and stop, and one for a disk that fails 50 reads, with the other 49
/// counted?
#[test]
fn a_log_for_machines() {
    let scratch = Scratch::new();
    let (disk, socket, control) = (scratch.disk("disk.img"), scratch.text("s"), scratch.text("c"));
    let mut command =
        serve(&[&disk, "--engine=threads", "--socket", &socket, "--control", &control]);
    let mut child =
        command.arg("--log-format=json").stderr(Stdio::piped()).spawn().expect("a server");
    let all: Vec<u8> = (0..=255).collect();
    ask_for(&socket, &all);
    let every: String = (1..=0xff).filter_map(char::from_u32).chain(['\u{2028}', '😀']).collect();
    ask_for(&socket, every.as_bytes());
    let mut client = connect(&socket);
    negotiate(&mut client);
    assert_eq!(read(&mut client), 0);
    // The disk disappears under it.
    std::fs::File::create(&disk).expect("the file is there");
    for _ in 0..50 {
        assert_eq!(read(&mut client), EIO);
    }
    send(&mut client, DISCONNECT, 0);
    let _gone = client.read_to_end(&mut Vec::new());
    let order = Command::new(env!("CARGO_BIN_EXE_paternoster"))
        .args(["ctl", "set", "slice_idle=0", "--socket", &control])
        .output()
        .expect("the program starts");
    assert!(order.status.success(), "{order:?}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    let mut log = String::new();
    child.stderr.take().expect("its log").read_to_string(&mut log).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{log}");

    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    for line in &lines {
        let time = line["time"].as_str().expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    assert_eq!(of("client").len(), 2, "two were refused: {log}");
    let [connect] = of("connect")[..] else { panic!("{log}") };
    assert_eq!((&connect["volume"], &connect["level"]), (&"disk.img".into(), &"info".into()));
    let [went] = of("disconnect")[..] else { panic!("{log}") };
    assert_eq!((&went["peer"], &went["tenant"]), (&connect["peer"], &connect["tenant"]));
    assert_eq!(went["reason"], "it said good-bye");
    // 51 were requested, 50 failed.
    assert_eq!((&went["reads"], &went["errors"]), (&51.into(), &50.into()), "{went}");
    assert!(went["duration_ms"].is_u64(), "{went}");
    let errors = of("io-error");
    let [first, others @ ..] = &errors[..] else { panic!("{log}") };
    assert_eq!((&first["device"], &first["volume"]), (&"disk".into(), &"disk.img".into()));
    assert_eq!((&first["errno"], &first["level"]), (&EIO.into(), &"error".into()));
    assert!(first["count"].is_null(), "{first}");
    // In one line, or two if ten seconds went by.
    assert_eq!(others.iter().filter_map(|line| line["count"].as_u64()).sum::<u64>(), 49, "{log}");
    assert!(others.len() <= 2, "{log}");
    let [order] = of("order")[..] else { panic!("{log}") };
    assert_eq!(order["outcome"], "done", "{order}");
    assert!(order["uid"].is_u64(), "{order}");
    assert_eq!((of("stop").len(), of("end").len()), (1, 1), "{log}");
}

/// Does `log-level` leave out what matters less: everything of a server that starts, serves and
/// ends in good order, but not a failing disk?
#[test]
fn a_log_of_what_is_wrong() {
    let scratch = Scratch::new();
    let (disk, socket) = (scratch.disk("disk.img"), scratch.text("s"));
    let mut command = serve(&[&disk, "--engine=threads", "--socket", &socket]);
    let mut child =
        command.arg("--log-level=warning").stderr(Stdio::piped()).spawn().expect("a server");
    let mut client = connect(&socket);
    negotiate(&mut client);
    std::fs::File::create(&disk).expect("the file is there");
    assert_eq!(read(&mut client), EIO);
    send(&mut client, DISCONNECT, 0);
    let _gone = client.read_to_end(&mut Vec::new());
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    let mut log = String::new();
    child.stderr.take().expect("its log").read_to_string(&mut log).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{log}");
    let told = " error paternoster: device disk: disk.img: read of 4096 bytes at 0 failed: ";
    let wrong: Vec<&str> = log.lines().filter(|line| !line.contains(" warning ")).collect();
    assert_eq!(wrong.len(), 1, "{log}");
    assert!(wrong[0].contains(told), "{log}");
}
