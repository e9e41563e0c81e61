// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does a running server follow orders, and report what it does?

use std::path::Path;

use paternoster_serve::config::{Group, ServiceClass};
use paternoster_serve::control::order::Order;
use paternoster_serve::control::snapshot::Snapshot;
use paternoster_serve::server::Server;
use serde_json::Value;

use crate::common::client::READ;
use crate::common::{Client, Folder, config, device, end, start, tenant, uneven};

const SIZE: u64 = 4 << 20;

fn ask(server: &Server, order: Order) -> Result<Value, String> {
    server.device_loops()[0].ask(order)
}

fn snapshot(server: &Server) -> Snapshot {
    serde_json::from_value(ask(server, Order::Snapshot).unwrap()).unwrap()
}

fn level<'a>(explained: &'a Value, name: &str) -> &'a Value {
    let levels = explained["levels"].as_array().unwrap();
    levels.iter().find(|level| level["name"] == name).unwrap()
}

/// Are weights changed, with floors as they are, and explained? `low` has a floor of 20 %: compared
/// with 300 that is 75, on the fine scale 1000 and 250.
#[test]
fn weights_are_changed_and_explained() {
    let folder = Folder::in_memory("orders");
    let file = folder.file("high", SIZE);
    let other = folder.file("low", SIZE);
    let dev = device("bfq", &[("high", &file), ("low", &other)]);
    let mut config = config(&folder, dev);
    config.tenants = vec![tenant("high", 100), tenant("low", 100)];
    config.tenants[1].floor = Some(200);
    let server = start(config);
    let _high = Client::connect(&folder.path("nbd.sock"), "high").unwrap();
    let _low = Client::connect(&folder.path("nbd.sock"), "low").unwrap();

    let told = ask(&server, Order::Weight { name: "high".into(), weight: 300 }).unwrap();
    assert_eq!(told["effective_weight"], 300, "25 % is above the floor");
    ask(&server, Order::Weight { name: "low".into(), weight: 10 }).unwrap();
    let explained = ask(&server, Order::Explain { tenant: None }).unwrap();
    let (high, low) = (level(&explained, "high"), level(&explained, "low"));
    assert_eq!((&high["effective"], &low["effective"]), (&1000.into(), &250.into()));
    assert_eq!(low["share_of_device_percent"], 20.0);
    assert!(low["why"].as_str().unwrap().contains("floor"), "{low}");

    let refused = ask(&server, Order::Weight { name: "nobody".into(), weight: 1 }).unwrap_err();
    assert!(refused.contains("nobody"), "{refused}");
    let class = Order::Class {
        name: "high".into(),
        class: ServiceClass::Background { minimum: 100 },
        level: 4,
    };
    ask(&server, class).unwrap();
    let line = snapshot(&server).tenants.into_iter().find(|line| line.name == "high").unwrap();
    assert_eq!((line.class.as_str(), line.connections), ("background", 1));
    end(&server);
}

/// Does the refusal name the scheduler that lacks the attribute, and the attribute that was meant?
#[test]
fn an_attribute_that_the_scheduler_does_not_have() {
    let folder = Folder::in_memory("kyber");
    let file = folder.file("disk", SIZE);
    let server = start(config(&folder, device("kyber", &[("disk", &file)])));
    let get = |name: &str| Order::Attribute { name: name.into(), value: None };
    let why = ask(&server, get("slice_idle")).unwrap_err();
    assert!(why.starts_with("kyber has no attribute `slice_idle`; known are "), "{why}");
    let set = Order::Attribute { name: "read_lat".into(), value: Some("1".into()) };
    let why = ask(&server, set).unwrap_err();
    let meant = "kyber has no attribute `read_lat`; did you mean `read_lat_nsec`?";
    assert!(why.starts_with(meant), "{why}");
    end(&server);
}

/// Do requests survive a change of scheduler in the middle of them, and are attributes those of
/// the new one?
#[test]
fn the_scheduler_is_changed_under_load() {
    let folder = Folder::in_memory("change");
    let file = folder.path("disk");
    let data = uneven(SIZE);
    std::fs::write(&file, &data).unwrap();
    let mut config = config(&folder, device("bfq", &[("disk", &file)]));
    config.tenants = vec![tenant("disk", 100)];
    let server = start(config);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut client = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
            for round in 0..300u64 {
                let at = round * 7919 % (SIZE - 8192);
                for _ in 0..4 {
                    client.send(READ, 0, at, 8192, &[]).unwrap();
                }
                for _ in 0..4 {
                    let told = client.told().unwrap();
                    let from = usize::try_from(at).unwrap();
                    assert!(told.data[0].1 == data[from..from + 8192], "round {round}");
                }
            }
        });
        for name in ["cfq", "mq-deadline", "kyber", "noop", "bfq"] {
            ask(&server, Order::Scheduler { name: name.into() }).unwrap();
            assert_eq!(snapshot(&server).scheduler, name);
        }
        reader.join().unwrap();
    });
    let set = Order::Attribute { name: "slice_idle".into(), value: Some("0".into()) };
    assert_eq!(ask(&server, set).unwrap()["value"], "0");
    let wrong = Order::Attribute { name: "slice_idle".into(), value: Some("soon".into()) };
    assert!(ask(&server, wrong).unwrap_err().contains("soon"));
    // What is out of range is refused with the range, and not brought into it in silence.
    let far = u64::MAX.to_string();
    let wrong = Order::Attribute { name: "slice_idle".into(), value: Some(far) };
    assert!(ask(&server, wrong).unwrap_err().contains("a whole number from 0 to 10000"));
    let get = Order::Attribute { name: "slice_idle".into(), value: None };
    assert_eq!(ask(&server, get).unwrap()["value"], "0");
    assert!(ask(&server, Order::Scheduler { name: "elevator".into() }).is_err());
    assert_eq!(snapshot(&server).tenants[0].figures.reads, 1200);
    end(&server);
}

/// Does a drained volume finish what it has begun, refuse what comes, and accept requests again
/// after a resume?
#[test]
fn a_volume_is_drained_and_taken_up_again() {
    let folder = Folder::in_memory("drain");
    let (one, two) = (folder.file("one", SIZE), folder.file("two", SIZE));
    let dev = device("mq-deadline", &[("one", &one), ("two", &two)]);
    let server = start(config(&folder, dev));
    let mut client = Client::connect(&folder.path("nbd.sock"), "one").unwrap();
    let mut other = Client::connect(&folder.path("nbd.sock"), "two").unwrap();
    assert_eq!(client.write(0, 0, &[1; 512]).unwrap(), 0);
    ask(&server, Order::Drain { volume: "one".into() }).unwrap();
    assert_eq!(client.write(0, 0, &[2; 512]).unwrap(), 108, "ESHUTDOWN");
    assert_eq!(other.write(0, 0, &[2; 512]).unwrap(), 0, "another volume");
    ask(&server, Order::Resume { volume: "one".into() }).unwrap();
    assert_eq!(client.read(0, 512).unwrap(), [1; 512]);
    end(&server);
}

/// Are groups above tenants, and do connections come and go with their figures kept?
#[test]
fn figures_outlive_connections() {
    let folder = Folder::in_memory("groups");
    let file = folder.file("disk", SIZE);
    let mut config = config(&folder, device("bfq", &[("disk", &file)]));
    let mut group = Group::new("customers");
    group.weight = 300;
    config.groups = vec![group];
    config.tenants = vec![tenant("disk", 200)];
    config.tenants[0].group = Some("customers".into());
    let server = start(config);
    let mut client = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    client.read(0, 4096).unwrap();
    client.read(4096, 4096).unwrap();
    drop(client);
    while !snapshot(&server).connections.is_empty() {
        std::thread::yield_now();
    }
    let after = snapshot(&server);
    let names: Vec<_> = after.tenants.iter().map(|line| (&*line.name, &*line.parent)).collect();
    assert_eq!(names, [("customers", ""), ("disk", "customers")]);
    assert_eq!((after.tenants[1].figures.reads, after.tenants[1].figures.read_bytes), (2, 8192));
    assert_eq!((after.memory_used, after.in_device), (0, 0));
    end(&server);
}

/// Is a trace of the live server one that our own reader understands, with every request in it?
#[test]
fn a_live_server_is_traced() {
    let folder = Folder::in_memory("traced");
    let file = folder.file("disk", SIZE);
    let server = start(config(&folder, device("bfq", &[("disk", &file)])));
    let mut client = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    client.read(0, 4096).unwrap();
    let prefix = folder.path("live");
    ask(&server, Order::Trace { prefix: Some(prefix.clone()) }).unwrap();
    for round in 0..10u64 {
        client.write(0, round * 65_536, &[7; 4096]).unwrap();
    }
    let told = ask(&server, Order::Trace { prefix: None }).unwrap();
    assert_eq!(told["dropped"], 0);
    assert!(ask(&server, Order::Trace { prefix: None }).is_err(), "it has ended");
    assert_eq!(queued_writes(&folder.path("live.blktrace.0")), 10);
    end(&server);
}

/// How many writes a trace says were queued: records of 48 bytes and a payload, action 1 = Q.
fn queued_writes(file: &Path) -> usize {
    let bytes = std::fs::read(file).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (0, 0);
    while at < bytes.len() {
        let (length, action) = (number(at + 24), number(at + 28));
        // The low half is the action, bit 17 of the whole says that it is a write.
        found += usize::from(action & 0xffff == 1 && action >> 17 & 1 == 1 && length == 4096);
        at += 48 + usize::from(u16::from_le_bytes([bytes[at + 46], bytes[at + 47]]));
    }
    found
}
