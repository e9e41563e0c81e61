// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ctl` and `top` against a real control socket with made-up device loops.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use paternoster_serve::control::order::{Answer, Order};
use paternoster_serve::control::server::{ControlServer, Host};
use paternoster_serve::control::snapshot::{Figures, Snapshot, TenantLine, VolumeLine};
use paternoster_serve::device_loop::DeviceLoopHandle;
use serde_json::json;

use crate::formats;

/// A server at a socket of its own.
struct Server {
    folder: PathBuf,
    orders: Receiver<Order>,
    stopped: Receiver<()>,
    server: Option<ControlServer>,
}

/// A server that reports its end, and whose configuration has one change.
struct Told(Sender<()>);

impl Host for Told {
    fn stop(&self) {
        self.0.send(()).expect("the test listens");
    }

    fn reload(&self) -> Answer {
        Ok(json!({ "ok": true, "changed": ["tenant.db.weight: 100 -> 300"], "later": [] }))
    }
}

impl Server {
    fn start(devices: &[&str]) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("paternoster-ctl-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let (sender, orders) = channel();
        let device_loops = devices.iter().map(|device| {
            let (device, sender) = ((*device).to_owned(), Mutex::new(sender.clone()));
            let name = device.clone();
            let second = AtomicU64::new(0);
            DeviceLoopHandle::new(name, vec![format!("{device}-vm")], move |order| {
                sender.lock().expect("sound").send(order.clone()).expect("the test listens");
                device_loop(&device, &second, order)
            })
        });
        let (sender, stopped) = channel();
        let host = Told(sender);
        let server =
            ControlServer::start(&folder.join("control.sock"), device_loops.collect(), host);
        Server { server: Some(server.expect("a socket")), folder, orders, stopped }
    }

    fn socket(&self) -> String {
        self.folder.join("control.sock").to_str().expect("text").to_owned()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = paternoster(&self.socket(), arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn orders(&self) -> Vec<Order> {
        self.orders.try_iter().collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A loop that advances a second with every snapshot: its tenant reads 1000 times 1000 bytes.
fn device_loop(device: &str, second: &AtomicU64, order: Order) -> Answer {
    match order {
        Order::Snapshot => {
            let second = second.fetch_add(1, Ordering::Relaxed) + 1;
            let figures = Figures {
                reads: 1000 * second,
                read_bytes: 1_000_000 * second,
                served_ns: 500_000_000 * second,
                latency_ns: 2_000_000_000 * second,
                latency_log2_us: [vec![0; 11], vec![1000 * second], vec![0; 4]].concat(),
                ..Figures::default()
            };
            let tenant = TenantLine {
                name: "db".to_owned(),
                weight: 300,
                effective_weight: 300,
                class: "best-effort".to_owned(),
                level: 4,
                figures,
                ..TenantLine::default()
            };
            let snapshot = Snapshot {
                device: device.to_owned(),
                backend: "a model".to_owned(),
                scheduler: "bfq".to_owned(),
                depth: 8,
                now_ns: 1_000_000_000 * second,
                busy_ns: 500_000_000 * second,
                memory: 1 << 20,
                volumes: vec![VolumeLine {
                    name: format!("{device}-vm"),
                    size: 1 << 30,
                    ..VolumeLine::default()
                }],
                tenants: vec![tenant],
                ..Snapshot::default()
            };
            Ok(serde_json::to_value(snapshot).expect("plain data"))
        }
        Order::Weight { name, .. } if name != "db" => Err(format!("there is no tenant {name}")),
        Order::Attribute { name, value: None } => Ok(json!({ "name": name, "value": "250" })),
        _ => Ok(json!({ "ok": true })),
    }
}

fn paternoster(socket: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(arguments).env("PATERNOSTER_CONTROL", socket).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// The standard error of a command that ends with this status.
fn fails(socket: &str, arguments: &[&str], status: i32) -> String {
    let output = paternoster(socket, arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// Does a server that accepts and never answers end `ctl` and `top` in time, with a message and
/// status 1?
#[test]
fn a_server_that_hangs() {
    let folder = std::env::temp_dir().join(format!("paternoster-hangs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = folder.join("s");
    let _listens = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let socket = socket.to_str().expect("text");
    for order in [&["list"][..], &["stop"], &["drain", "v"]] {
        let said = fails(socket, &[&["ctl", "--timeout", "100ms"], order].concat(), 1);
        assert!(said.contains("no answer within 100ms: the server hangs"), "{said}");
    }
    let said = fails(socket, &["ctl", "--timeout", "0s", "list"], 2);
    assert!(said.contains("--timeout cannot be `0s`: 1ms to 1h"), "{said}");
    std::fs::remove_dir_all(&folder).expect("gone");
}

/// Does a list show what there is?
#[test]
fn a_list() {
    let server = Server::start(&["disk0"]);
    let expected = "\
disk0: bfq, depth 8, a model

 volume    size
 disk0-vm  1.0 GiB

 tenant  class        level  weight  effective  connections
 db      best-effort      4     300        300            0
";
    assert_eq!(server.succeeds(&["ctl", "list"]), expected);
}

/// Do orders reach the loops, silently, and those that print a value print it?
#[test]
fn orders_arrive() {
    let server = Server::start(&["disk0"]);
    for arguments in [
        &["ctl", "weight", "db", "200"][..],
        &["ctl", "set", "hz=100", "slice_idle=0"],
        &["ctl", "drain", "disk0-vm", "--device", "disk0"],
        &["ctl", "trace", "stop"],
    ] {
        assert_eq!(server.succeeds(arguments), "", "{arguments:?}");
    }
    let set = |name: &str, value: &str| Order::Attribute {
        name: name.to_owned(),
        value: Some(value.to_owned()),
    };
    let expected = [
        Order::Weight { name: "db".to_owned(), weight: 200 },
        set("hz", "100"),
        set("slice_idle", "0"),
        Order::Drain { volume: "disk0-vm".to_owned() },
        Order::Trace { prefix: None },
    ];
    assert_eq!(server.orders(), expected);
    assert_eq!(server.succeeds(&["ctl", "get", "hz"]), "250\n");
    let raw = server.succeeds(&["ctl", "raw", r#"{"do":"get","attribute":"hz"}"#]);
    let json =
        "{\"devices\":[{\"device\":\"disk0\",\"name\":\"hz\",\"value\":\"250\"}],\"ok\":true}\n";
    assert_eq!(raw, json);
    assert_eq!(server.succeeds(&["ctl", "get", "hz", "--format", "json"]), json);
    assert_eq!(server.succeeds(&["ctl", "get", "hz", "--json"]), json);
    assert_eq!(server.succeeds(&["ctl", "reload"]), "tenant.db.weight: 100 -> 300\n");
    assert_eq!(server.succeeds(&["ctl", "stop"]), "");
    server.stopped.recv().expect("told");
}

/// Do answers, also to an order, come in all formats, with a line for each tenant and its device;
/// and does `raw`, which prints what came, refuse formats that would change it, before the order is
/// sent?
#[test]
fn answers_have_all_formats() {
    let server = Server::start(&["disk0", "disk1"]);
    let asked: [&[&str]; 6] = [
        &["list"],
        &["status"],
        &["attributes"],
        &["explain"],
        &["get", "hz"],
        &["weight", "db", "300"],
    ];
    for order in asked {
        let told = |format: &str| {
            let format = format!("--format={format}");
            server.succeeds(&[&["ctl"], order, &[&format]].concat())
        };
        let lines = formats::csv(&told("csv")).unwrap_or_else(|why| panic!("{order:?}: {why}"));
        assert!(lines[0].iter().any(|head| head == "device"), "{order:?}: {lines:?}");
        formats::markdown(&told("markdown")).unwrap_or_else(|why| panic!("{order:?}: {why}"));
        formats::html(&told("html")).unwrap_or_else(|why| panic!("{order:?}: {why}"));
    }
    let before = server.orders().len();
    let said = fails(&server.socket(), &["ctl", "raw", "{\"do\":\"list\"}", "--format=csv"], 2);
    assert!(said.contains("ctl raw prints an answer as it came: --format json"), "{said}");
    assert!(before > 0 && server.orders().is_empty());
}

/// Is what goes wrong said, with the exit status that scripts go by?
#[test]
fn what_goes_wrong() {
    let server = Server::start(&["disk0", "disk1"]);
    let socket = server.socket();
    let said = fails(&socket, &["ctl", "weight", "web", "200"], 1);
    assert_eq!(said, "paternoster: disk0: there is no tenant web; disk1: there is no tenant web\n");
    let said = fails(&socket, &["ctl", "weight", "db", "0"], 1);
    assert!(said.contains("field \"weight\" is 0: it takes a whole number from 1 to"), "{said}");
    let said = fails(&socket, &["ctl", "scheduler", "noop"], 1);
    assert!(said.contains("\"device\" must say which: there are disk0, disk1"), "{said}");
    assert!(fails(&socket, &["ctl", "set", "hz"], 2).contains("ATTRIBUTE=VALUE"));
    let nowhere = server.folder.join("nowhere");
    let nowhere = nowhere.to_str().expect("text");
    let said = fails(&socket, &["ctl", "list", "--socket", nowhere], 1);
    assert_eq!(said, format!("paternoster: {nowhere}: there is no server: no such socket\n"));
    assert!(fails(nowhere, &["top", "--once"], 1).contains("no such socket"));
    assert!(fails(&socket, &["top", "--interval", "0"], 2).contains("from 1ms to 4m"));
}

/// Does `top` print one interval, for the second between its two snapshots?
#[test]
fn one_interval() {
    let server = Server::start(&["disk0"]);
    let expected = "\
disk0: bfq on a model
busy 50.0 %, 0 of 8 in device, 0 waiting, 1000 IOPS, 1.0 MB/s, memory 0 B of 1.0 MiB

tenant     ↓share                      entitled     MB/s  reads/s  writes/s  mean ms   p99 ms   open
db        100.0 % ####################  100.0 %      1.0     1000         0     2.00    <2.05      0
";
    assert_eq!(server.succeeds(&["top", "--once", "--interval", "1ms"]), expected);
    assert_eq!(server.orders(), [Order::Snapshot, Order::Snapshot]);
}

/// Is every order that the pages and the alerts tell to type one that the program takes? (No server
/// is there: 1. What it does not take: 2.)
#[test]
fn orders_of_the_pages_are_taken() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let pages = std::fs::read_dir(root.join("docs/serve")).expect("a folder");
    let pages = pages.map(|page| page.expect("an entry").path());
    let pages = pages.filter(|page| page.extension().is_some_and(|name| name == "md"));
    let alerts = root.join("packaging/monitoring/paternoster.rules.yaml");
    let mut count = 0;
    for page in pages.chain([alerts]) {
        let text = std::fs::read_to_string(&page).expect("text");
        for rest in text.split("paternoster ctl ").skip(1) {
            let end = rest.find(['`', '|', '#', '&', '\n', '<', '"']).unwrap_or(rest.len());
            let words: Vec<&str> = rest[..end].split_whitespace().collect();
            // Names that a reader fills in, and an order that is but named.
            if words.iter().any(|word| word.contains(['{', '…'])) || words == ["weight"] {
                continue;
            }
            let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
            command.arg("ctl").args(&words).args(["--socket", "/nowhere"]);
            let output = command.stdin(Stdio::null()).output().expect("it starts");
            assert_eq!(output.status.code(), Some(1), "{}: {words:?}", page.display());
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}
