// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server at a socket of its own, and clients of all kinds.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use serde_json::json;

use super::super::request::FORMS;
use super::*;
use crate::control::client::{Client, ClientError};
use crate::control::order::Order;

/// A folder that goes when the test does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("paternoster-control-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A loop that knows the tenant `db`.
fn device_loops() -> Vec<DeviceLoopHandle> {
    vec![DeviceLoopHandle::new("disk0".to_owned(), vec!["a".to_owned()], |order| match order {
        Order::Weight { name, weight } if name == "db" => Ok(json!({ "weight": weight })),
        Order::Weight { name, .. } => Err(format!("there is no tenant or group {name:?}")),
        _ => Ok(json!({})),
    })]
}

/// Hears of an end.
struct Stops<F>(F);

impl<F: Fn() + Send + Sync + 'static> Host for Stops<F> {
    fn stop(&self) {
        (self.0)();
    }

    fn reload(&self) -> Answer {
        Err("there is no file".to_owned())
    }
}

fn start(folder: &Folder) -> ControlServer {
    ControlServer::start(&folder.socket(), device_loops(), Stops(|| ())).expect("a socket")
}

fn connect(folder: &Folder) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(folder.socket()).expect("a server"))
}

fn read_line(stream: &mut BufReader<UnixStream>) -> String {
    let mut text = String::new();
    stream.read_line(&mut text).expect("an answer");
    text
}

const DB: &[u8] = br#"{"do":"weight","name":"db","weight":300}"#;
const DB_DONE: &str = "{\"devices\":[{\"device\":\"disk0\",\"weight\":300}],\"ok\":true}\n";

/// May only the owner connect, and is the file gone at the end?
#[test]
fn the_file_is_private_and_goes() {
    let folder = Folder::new();
    let server = start(&folder);
    let mode = fs::metadata(folder.socket()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    server.stop();
    assert!(!folder.socket().exists());
}

/// Is a socket that a killed server left replaced, and one that a server listens on not?
#[test]
fn what_is_there_already() {
    let folder = Folder::new();
    drop(UnixListener::bind(folder.socket()).expect("a socket"));
    assert!(folder.socket().exists(), "nobody removes it");
    let server = start(&folder);
    let again = ControlServer::start(&folder.socket(), device_loops(), Stops(|| ()))
        .expect_err("it is taken");
    let path = folder.socket();
    assert_eq!(again.to_string(), format!("{}: a server listens there already", path.display()));
    server.stop();
    fs::write(&path, "mine").expect("a file");
    let error =
        ControlServer::start(&path, device_loops(), Stops(|| ())).expect_err("it is no socket");
    assert!(error.to_string().contains("not a socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("left alone"), "mine");
    let long = folder.0.join("x".repeat(200));
    let error = ControlServer::start(&long, device_loops(), Stops(|| ())).expect_err("too long");
    assert!(error.to_string().ends_with("at most 108 bytes"), "{error}");
}

/// Are lines answered in their order, whether good or not, the last one without its end too?
#[test]
fn lines_are_answered_in_order() {
    let folder = Folder::new();
    let server = start(&folder);
    let mut stream = connect(&folder);
    let mut text = [DB, b"\n\n  \r\nrubbish\n\xff\xfe\n"].concat();
    text.extend_from_slice(DB);
    stream.get_mut().write_all(&text).expect("sent");
    stream.get_mut().shutdown(std::net::Shutdown::Write).expect("done");
    assert_eq!(read_line(&mut stream), DB_DONE);
    for _ in 0..2 {
        let error = read_line(&mut stream);
        assert!(error.starts_with("{\"error\":\"expected value at column 1"), "{error}");
    }
    assert_eq!(read_line(&mut stream), DB_DONE);
    assert_eq!(read_line(&mut stream), "");
    server.stop();
}

/// Is an endless line refused and its sender disconnected, and does no other client suffer?
#[test]
fn an_endless_line() {
    let folder = Folder::new();
    let server = start(&folder);
    let mut other = connect(&folder);
    let mut stream = connect(&folder);
    // Whether all of it can be sent depends on how soon it is refused.
    let _ = stream.get_mut().write_all(&vec![b'x'; 1 << 20]);
    assert_eq!(read_line(&mut stream), "{\"error\":\"the line is longer than 65536 bytes\"}\n");
    other.get_mut().write_all(DB).and_then(|()| other.get_mut().write_all(b"\n")).expect("sent");
    assert_eq!(read_line(&mut other), DB_DONE);
    server.stop();
}

/// Is a client that stalls disconnected, in the middle of a line, between two, or while answers
/// wait?
#[test]
fn who_stalls_is_let_go() {
    let folder = Folder::new();
    let line = Patience { line: Duration::from_millis(10), ..PATIENCE };
    let idle = Patience { idle: Duration::from_millis(10), ..PATIENCE };
    let start = |patience| {
        let server = ControlServer::with_patience(
            &folder.socket(),
            Access::default(),
            device_loops(),
            Stops(|| ()),
            patience,
        );
        server.expect("a socket")
    };
    let server = start(idle);
    let mut said = String::new();
    connect(&folder).read_to_string(&mut said).expect("closed");
    assert_eq!(said, "", "let go without a word");
    server.stop();
    let server = start(line);
    let mut stream = connect(&folder);
    stream.get_mut().write_all(&DB[..10]).expect("sent");
    stream.read_to_string(&mut said).expect("closed");
    assert_eq!(said, "{\"error\":\"the line did not end within 10ms\"}\n");
    let mut deaf = UnixStream::connect(folder.socket()).expect("a server");
    let lines = [DB, b"\n"].concat().repeat(1000);
    // Answers pile up until the server takes no more, then it closes.
    while deaf.write_all(&lines).is_ok() {}
    server.stop();
}

/// Are sixteen accepted and the others refused with a reason, and is there room again when one
/// goes?
#[test]
fn twenty_connections() {
    let folder = Folder::new();
    let server = start(&folder);
    let mut inside: Vec<Client> = Vec::new();
    let ask = json!({ "do": "help" });
    for _ in 0..16 {
        let mut client = Client::connect(&folder.socket()).expect("a server");
        client.ask(&ask).expect("an answer");
        inside.push(client);
    }
    for _ in 0..4 {
        let mut client = Client::connect(&folder.socket()).expect("a server");
        match client.ask(&ask) {
            Err(ClientError::Refused(why)) => {
                assert_eq!(why, "16 connections are open, which is the most");
            }
            other => panic!("{other:?}"),
        }
    }
    inside.pop();
    // The thread of the one that went ends soon.
    let mut client = Client::connect(&folder.socket()).expect("a server");
    while client.ask(&ask).is_err() {
        std::thread::yield_now();
        client = Client::connect(&folder.socket()).expect("a server");
    }
    for client in &mut inside {
        client.ask(&ask).expect("nobody was harmed");
    }
    server.stop();
    assert!(inside[0].ask(&ask).is_err(), "closed at the end");
}

/// Are all orders refused to a client that may only query, and does it get the state?
#[test]
fn a_client_that_may_only_ask() {
    let folder = Folder::new();
    let nobody = Access { mode: 0o666, orders: Some(Vec::new()) };
    let on_stop = Stops(|| panic!("nobody may"));
    let server = ControlServer::start_for(&folder.socket(), nobody, device_loops(), on_stop);
    let server = server.expect("a socket");
    let mode = fs::metadata(folder.socket()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o666);
    let mut client = Client::connect(&folder.socket()).expect("a server");
    for form in FORMS {
        let mut line = json!({ "do": form.name });
        for field in form.fields.iter().filter(|field| !field.optional) {
            line[field.name] = match field.name {
                "weight" => json!(300),
                "class" => json!("idle"),
                "version" => json!(1),
                _ => json!("db"),
            };
        }
        if form.name == "trace" {
            line["stop"] = json!(true);
        }
        let asks = ["help", "list", "snapshot", "attributes", "get", "explain"];
        let told = client.ask(&line);
        match told {
            Ok(_) => assert!(asks.contains(&form.name), "{line}"),
            Err(ClientError::Refused(why)) => {
                assert!(!asks.contains(&form.name) && why.contains("not order"), "{line}: {why}");
            }
            Err(error) => panic!("{line}: {error}"),
        }
    }
    server.stop();
}

/// Do clients that may only ask leave half of the places to clients that may give orders?
#[test]
fn places_for_orders() {
    let folder = Folder::new();
    let uid = rustix::process::getuid().as_raw();
    // With an entry of no user the test's own may only ask.
    let other = format!("uid={}", uid + 1).parse().expect("a client");
    let access = Access { orders: Some(vec![other]), ..Access::default() };
    let patience = Patience { connections: 4, ..PATIENCE };
    let server = ControlServer::with_patience(
        &folder.socket(),
        access,
        device_loops(),
        Stops(|| ()),
        patience,
    );
    let server = server.expect("a socket");
    let mut there = Vec::new();
    for _ in 0..2 {
        let mut client = connect(&folder);
        client.get_mut().write_all(b"{\"do\":\"list\"}\n").expect("sent");
        assert!(read_line(&mut client).contains("\"ok\":true"));
        there.push(client);
    }
    let mut third = connect(&folder);
    assert!(read_line(&mut third).contains("2 that may only ask are there already"));
    server.stop();
}

/// May root and the server's user give orders by default, and those that are configured else?
#[test]
fn clients_that_may_order() {
    let may = |orders: Option<&str>, uid: u32| {
        let orders = orders.map(|text| vec![text.parse().expect("a client")]);
        let who = Identity { uid: Some(uid), ..Identity::default() };
        Access { orders, ..Access::default() }.may_order(&who, 7)
    };
    assert!(may(None, 0) && may(None, 7) && !may(None, 8));
    assert!(may(Some("uid=8"), 8) && !may(Some("uid=8"), 0) && !may(Some("gid=8"), 8));
    assert!(may(Some("anyone"), 9));
    // A peer of which nothing is known.
    assert!(!Access::default().may_order(&Identity::default(), 7));
}

/// Is an order to end answered before it is carried out?
#[test]
fn stop_is_answered_first() {
    let folder = Folder::new();
    let (sender, stopped) = channel();
    let on_stop = move || sender.send(()).expect("somebody waits");
    let server =
        ControlServer::start(&folder.socket(), device_loops(), Stops(on_stop)).expect("a socket");
    let mut client = Client::connect(&folder.socket()).expect("a server");
    assert_eq!(client.ask(&json!({ "do": "stop" })).expect("an answer"), json!({ "ok": true }));
    stopped.recv().expect("told");
    server.stop();
}
