// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does a server that reads its configuration again become what a fresh start with it would be,
//! while its clients are at work?
//!
//! ```text
//! file 1 ─▶ start ─▶ clients that write and read
//! file 2 ─▶ reload ─▶ status ═ that of a fresh start with file 2 and the same clients?
//! file 3, with a mistake ─▶ reload ─▶ refused with its line; status as before
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paternoster_serve::config::{Address, Config};
use paternoster_serve::control::order::Order;
use paternoster_serve::control::snapshot::Snapshot;
use paternoster_serve::reload::Source;
use paternoster_serve::server::{Options, Server};

use crate::common::client::{READ, WRITE};
use crate::common::flood::Dice;
use crate::common::{Client, Folder, end, secure, start_with};

const VOLUMES: [&str; 3] = ["a", "b", "c"];
const SIZE: u64 = 1 << 20;

/// A server with a file, and the file.
pub(crate) struct Reloading {
    pub(crate) folder: Folder,
    pub(crate) file: PathBuf,
    engine: &'static str,
}

impl Reloading {
    pub(crate) fn new(name: &str) -> Reloading {
        let folder = Folder::in_memory(name);
        for volume in VOLUMES {
            folder.file(volume, SIZE);
        }
        let file = folder.path("serve.toml");
        Reloading { folder, file, engine: "auto" }
    }

    /// Writes the file: the same head each time, then this text.
    pub(crate) fn write(&self, text: &str) {
        let socket = self.folder.path("nbd.sock");
        let mut whole = format!("[server]\nlisten = \"unix:{}\"\n", socket.display());
        whole += "connections = 64\n";
        whole += text;
        std::fs::write(&self.file, whole).unwrap();
    }

    pub(crate) fn start(&self) -> Server {
        let config = Config::load(&self.file).unwrap();
        let source = Some(Source::new(&self.file));
        start_with(config, Options { source, ..Options::default() })
    }

    pub(crate) fn connect(&self, socket: &str, volume: &str) -> std::io::Result<Client> {
        Client::connect(&self.folder.path(socket), volume)
    }

    /// The status of a fresh start with the file and clients of these volumes.
    fn fresh(&self, volumes: &[&str]) -> String {
        let mut config = Config::load(&self.file).unwrap();
        let path = self.folder.path("fresh.sock");
        config.server.listen[0].at = Address::Unix { path, mode: 0o600 };
        // The images belong to the other server.
        let server = start_with(config, Options { force: true, ..Options::default() });
        let clients: Vec<Client> =
            volumes.iter().map(|volume| self.connect("fresh.sock", volume).unwrap()).collect();
        let status = settled(&server, volumes.len());
        drop(clients);
        end(&server);
        status
    }
}

pub(crate) fn snapshot(server: &Server) -> Snapshot {
    serde_json::from_value(server.device_loops()[0].ask(Order::Snapshot).unwrap()).unwrap()
}

/// The parts of a status that a fresh start has too; and the attributes.
fn status(server: &Server) -> String {
    let Snapshot {
        backend, scheduler, depth, memory, volumes, mut tenants, mut connections, ..
    } = snapshot(server);
    tenants.iter_mut().for_each(|tenant| tenant.figures = Default::default());
    connections
        .sort_by(|one, other| (&one.volume, &one.tenant).cmp(&(&other.volume, &other.tenant)));
    let clients = connections.iter().map(|one| (&one.volume, &one.tenant));
    let clients: Vec<_> = clients.collect();
    let mut attributes =
        server.device_loops()[0].ask(Order::Attributes).unwrap()["attributes"].take();
    // bfq tunes these by itself.
    attributes
        .as_array_mut()
        .unwrap()
        .retain(|line| line["name"] != "max_budget" && line["name"] != "peak_rate");
    format!(
        "{backend} {scheduler} {depth} {memory}\n{volumes:#?}{tenants:#?}{clients:#?}{attributes:#}"
    )
}

/// The status once there are that many clients.
fn settled(server: &Server, clients: usize) -> String {
    while snapshot(server).connections.len() != clients {
        std::thread::sleep(Duration::from_millis(1));
    }
    status(server)
}

/// Waits until the status is as expected: clients change tenants when their requests have ended.
fn becomes(server: &Server, expected: &str, what: &str) {
    let begun = Instant::now();
    let mut found = status(server);
    while found != expected {
        let differs = found.lines().zip(expected.lines()).find(|(one, other)| one != other);
        assert!(begun.elapsed() < Duration::from_secs(20), "{differs:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
        found = status(server);
    }
}

/// Blocks that a client writes. Each block may hold the content acknowledged last, or content sent
/// since.
const BLOCKS: usize = 4;
const ESHUTDOWN: u32 = 108;

struct Worker<'a> {
    house: &'a Reloading,
    volume: &'static str,
    may_be: [Vec<u8>; BLOCKS],
    value: u8,
    done: u64,
}

impl Worker<'_> {
    /// Writes the blocks, four at a time, and reads them back, for as long as it is connected.
    fn works(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            match self.house.connect("nbd.sock", self.volume) {
                // The connection was closed, or the test is over.
                Ok(client) => drop(self.talks(client, stop)),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn talks(&mut self, mut client: Client, stop: &AtomicBool) -> std::io::Result<()> {
        self.reads(&mut client)?;
        while !stop.load(Ordering::SeqCst) {
            self.value = self.value % 250 + 1;
            let mut cookies = Vec::new();
            for (block, may_be) in self.may_be.iter_mut().enumerate() {
                may_be.push(self.value);
                cookies.push(client.send(
                    WRITE,
                    0,
                    block as u64 * 4096,
                    4096,
                    &[self.value; 4096],
                )?);
            }
            for _ in 0..BLOCKS {
                let told = client.told()?;
                let block = cookies.iter().position(|cookie| *cookie == told.cookie).unwrap();
                match told.errno {
                    0 => self.may_be[block] = vec![self.value],
                    ESHUTDOWN => {}
                    other => panic!("{}: {other}: {told:?}", self.volume),
                }
            }
            self.reads(&mut client)?;
            self.done += 1;
        }
        Ok(())
    }

    fn reads(&mut self, client: &mut Client) -> std::io::Result<()> {
        for block in 0..BLOCKS {
            client.send(READ, 0, block as u64 * 4096, 4096, &[])?;
        }
        for _ in 0..BLOCKS {
            let told = client.told()?;
            if told.errno == ESHUTDOWN {
                continue;
            }
            assert_eq!(told.errno, 0, "{}: {told:?}", self.volume);
            let (at, data) = &told.data[0];
            let block = usize::try_from(at / 4096).unwrap();
            let found = data[0];
            assert!(data.iter().all(|byte| *byte == found), "half a write");
            assert!(self.may_be[block].contains(&found), "{}: {found} in {block}", self.volume);
        }
        Ok(())
    }
}

/// Stops the clients, even if the test has failed.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn one_of(dice: &mut Dice, count: usize) -> usize {
    usize::try_from(dice.below(count as u64)).unwrap()
}

/// A configuration, the line in it that is wrong, and its volumes.
struct Drawn {
    text: String,
    line: Option<usize>,
    volumes: Vec<&'static str>,
}

/// A random configuration; one of its lines is wrong if `is_wrong`.
fn drawn(dice: &mut Dice, house: &Reloading, is_wrong: bool) -> Drawn {
    let mut text = String::new();
    let timeout = 10 + dice.below(5);
    let _fits = writeln!(text, "stall-timeout = \"{timeout}s\"");
    let scheduler = ["bfq", "cfq", "mq-deadline", "none"][one_of(dice, 4)];
    let _fits = writeln!(text, "[device.dev]\nscheduler = \"{scheduler}\"\nmemory = \"4MiB\"");
    let _fits = writeln!(text, "engine = \"{}\"", house.engine);
    if scheduler == "bfq" && dice.below(2) == 0 {
        let _fits = writeln!(text, "attributes = {{ slice_idle = {} }}", dice.below(3));
    }
    let mut volumes: Vec<&str> = VOLUMES.into_iter().filter(|_| dice.below(4) != 0).collect();
    if volumes.is_empty() {
        volumes.push("b");
    }
    if dice.below(2) == 0 {
        volumes.reverse();
    }
    for volume in &volumes {
        let path = house.folder.path(volume);
        let _fits = writeln!(text, "[volume.{volume}]\npath = \"{}\"", path.display());
        match dice.below(4) {
            0 => text.push_str("length = \"512KiB\"\n"),
            1 => text.push_str("description = \"another\"\n"),
            _ => {}
        }
    }
    let groups = dice.below(3);
    for group in 0..groups {
        let _fits = writeln!(text, "[group.g{group}]\nweight = {}", 1 + dice.below(1000));
        if group > 0 && dice.below(2) == 0 {
            let _fits = writeln!(text, "parent = \"g0\"");
        }
    }
    for tenant in ["a", "b", "gold", "silver"] {
        if dice.below(3) == 0 {
            continue;
        }
        let _fits = writeln!(text, "[tenant.{tenant}]\nweight = {}", 1 + dice.below(1000));
        if groups > 0 && dice.below(2) == 0 {
            let _fits = writeln!(text, "group = \"g{}\"", dice.below(groups));
        }
        match dice.below(5) {
            0 => text.push_str("floor = \"10%\"\n"),
            1 => text.push_str("cap = \"50MB/s\"\n"),
            2 => text.push_str("class = \"background\"\nminimum = \"5%\"\n"),
            3 => text.push_str("level = 2\n"),
            _ => {}
        }
    }
    for _ in 0..dice.below(3) {
        let export = ["a", "b", "*"][one_of(dice, 3)];
        let tenant = ["gold", "silver", "$export", "t-$export"][one_of(dice, 4)];
        let _fits = writeln!(text, "[[rule]]\nexport = \"{export}\"\ntenant = \"{tenant}\"");
    }
    let line = is_wrong.then(|| {
        let wrong = [
            "[tenant.bad]\nweight = 0",
            "[tenant.bad]\nweigth = 100",
            "[tenant.bad]\ngroup = \"nowhere\"",
            "[group.bad]\nfloor = \"95%\"",
            "[tenant.bad]\ncap = \"much\"",
        ][one_of(dice, 5)];
        let _fits = writeln!(text, "{wrong}");
        // After the three lines of the head; the last line is the wrong one.
        text.lines().count() + 3
    });
    Drawn { text, line, volumes }
}

/// With each of a series of files, does a server become what a fresh start with that file is, and
/// lose nothing that it has acknowledged; and does it stay as it is, and report the line, if a file
/// has a mistake? A third of the files have a mistake; in the others volumes come, go and change.
fn becomes_what_files_say(engine: &'static str, files: u64) {
    let seed = 29;
    eprintln!("seed {seed}");
    let mut dice = Dice(seed);
    let house = Reloading { engine, ..Reloading::new(&format!("reload-{engine}")) };
    let first = drawn(&mut dice, &house, false);
    house.write(&first.text);
    let server = house.start();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        let workers = VOLUMES.map(|volume| {
            let may_be = std::array::from_fn(|_| vec![0]);
            let (house, stop) = (&house, &stop);
            scope.spawn(move || {
                let mut worker = Worker { house, volume, may_be, value: 0, done: 0 };
                worker.works(stop);
                worker.done
            })
        });
        becomes(&server, &house.fresh(&first.volumes), "the start");
        let mut there = first.volumes;
        for number in 0..files {
            let Drawn { text, line, volumes } = drawn(&mut dice, &house, number % 3 == 2);
            house.write(&text);
            match (server.reload(), line) {
                (Ok(told), None) => {
                    assert_eq!(told["later"].as_array().map(Vec::len), Some(0), "{told}");
                    becomes(&server, &house.fresh(&volumes), &format!("file {number}\n{text}"));
                    there = volumes;
                }
                (Err(why), Some(line)) => {
                    let place = format!("serve.toml:{line}: ");
                    assert!(why.contains(&place) && why.contains("nothing was changed"), "{why}");
                    let names: Vec<String> =
                        snapshot(&server).volumes.into_iter().map(|volume| volume.name).collect();
                    assert_eq!(names, there, "file {number}");
                }
                (came, _) => panic!("file {number}: {came:?}\n{text}"),
            }
        }
        drop(Stops(&stop));
        for worker in workers {
            assert!(worker.join().unwrap() > 0);
        }
    });
    end(&server);
}

#[test]
fn a_reload_is_a_fresh_start() {
    becomes_what_files_say("auto", 30);
}

#[test]
fn a_reload_is_a_fresh_start_with_threads() {
    becomes_what_files_say("threads", 15);
}

/// The same with io_uring, where the kernel allows it.
#[test]
fn a_reload_is_a_fresh_start_with_a_ring() {
    if !has_ring() {
        return crate::common::skipped("io_uring is refused here");
    }
    becomes_what_files_say("io_uring", 15);
}

fn has_ring() -> bool {
    let house = Reloading::new("reload-ring");
    let mut dev = crate::common::device("bfq", &[("a", &house.folder.path("a"))]);
    dev.engine = paternoster_serve::config::Engine::Uring;
    paternoster_serve::device::open::open(&dev).is_ok()
}

const DISK: &str = "[device.dev]\nmemory = \"4MiB\"\n";

/// Does a reload name what cannot be changed while it serves, and change everything else?
#[test]
fn what_cannot_be_changed_is_named() {
    let house = Reloading::new("reload-later");
    let disk = house.folder.path("a");
    let volume = format!("[volume.a]\npath = \"{}\"\n", disk.display());
    house.write(&format!("{DISK}{volume}[tenant.a]\nweight = 100\n"));
    let server = house.start();
    house.write(&format!(
        "metrics = \"127.0.0.1:0\"\n{DISK}depth = 7\n{volume}[tenant.a]\nweight = 300\n"
    ));
    let told = server.reload().unwrap();
    assert_eq!(told["changed"][0], "tenant.a.weight: 100 -> 300");
    let later: Vec<&str> =
        told["later"].as_array().unwrap().iter().filter_map(|key| key.as_str()).collect();
    assert_eq!(
        later,
        ["device.dev.depth: 7, was not there", "server.metrics: 127.0.0.1:0, was not there"]
    );
    assert_eq!(snapshot(&server).tenants[0].weight, 300);
    // The pending change is named each time until it takes effect.
    assert_eq!(server.reload().unwrap()["later"].as_array().unwrap().len(), 2);
    std::fs::remove_file(&house.file).unwrap();
    let why = server.reload().unwrap_err();
    assert!(why.contains("serve.toml: it cannot be read"), "{why}");
    assert_eq!(snapshot(&server).tenants[0].weight, 300);
    end(&server);
}

/// Do new rights after a reload apply to new clients only, and do present clients still count where
/// the number of clients is limited?
#[test]
fn rights_count_for_newcomers() {
    let house = Reloading::new("reload-rights");
    let disk = house.folder.path("a");
    let volume = format!("{DISK}[volume.a]\npath = \"{}\"\n", disk.display());
    house.write(&volume);
    let server = house.start();
    let mut writer = house.connect("nbd.sock", "a").unwrap();
    let uid = rustix::process::getuid().as_raw();
    house.write(&format!("{volume}readonly-for = \"uid={uid}\"\nmost-clients = 2\n"));
    let told = server.reload().unwrap();
    let changed = [
        "volume.a.most-clients: 2, was not there".to_owned(),
        format!("volume.a.readonly-for: [uid={uid}], was not there"),
    ];
    assert_eq!(told["changed"], serde_json::json!(changed));
    assert_eq!(writer.write(0, 0, &[1; 4096]).unwrap(), 0);
    // Flag 1 of the export's flags is READ_ONLY; 1 is EPERM.
    let mut reader = house.connect("nbd.sock", "a").unwrap();
    assert_eq!(reader.flags & 2, 2);
    assert_eq!(reader.read(0, 4096).unwrap(), [1; 4096]);
    assert_eq!(reader.write(0, 0, &[2; 4096]).unwrap(), 1);
    let third = house.connect("nbd.sock", "a").unwrap_err().to_string();
    assert!(third.contains("2 clients have opened it, and `most-clients` is 2"), "{third}");
    house.write(&format!("{volume}allow = []\n"));
    server.reload().unwrap();
    assert!(house.connect("nbd.sock", "a").is_err(), "nobody may");
    assert_eq!(writer.write(0, 0, &[3; 4096]).unwrap(), 0);
    assert_eq!(reader.read(0, 4096).unwrap(), [3; 4096]);
    house.write(&volume);
    server.reload().unwrap();
    assert_eq!(house.connect("nbd.sock", "a").unwrap().flags & 2, 0);
    end(&server);
}

/// Are orders written into the file, with its comments kept, so that a reload changes nothing and a
/// fresh start has them; and is the file never written through a symlink?
#[test]
fn what_was_ordered_is_saved() {
    let house = Reloading::new("save");
    let disk = house.folder.path("a");
    house.write(&format!(
        "# ours\n{DISK}[volume.a]\npath = \"{}\"\n[tenant.a]\nweight = 100 # for now\n",
        disk.display()
    ));
    let server = house.start();
    let _client = house.connect("nbd.sock", "a").unwrap();
    let order = |order| server.device_loops()[0].ask(order).unwrap();
    let told = order(Order::Weight { name: "a".into(), weight: 300 });
    assert_eq!((&told["before"], &told["weight"]), (&100.into(), &300.into()));
    let value = Some("0".into());
    order(Order::Attribute { name: "slice_idle".into(), value });
    let saved = server.save().unwrap();
    let changed =
        ["device.dev.attributes.slice_idle: 0, was not there", "tenant.a.weight: 100 -> 300"];
    assert_eq!(saved["changed"], serde_json::json!(changed));
    let text = std::fs::read_to_string(&house.file).unwrap();
    assert!(text.contains("# ours") && text.contains("weight = 300 # for now"), "{text}");
    assert_eq!(server.save().unwrap()["changed"], serde_json::json!([]));
    let before = settled(&server, 1);
    assert_eq!(server.reload().unwrap()["changed"], serde_json::json!([]));
    assert_eq!(status(&server), before);
    assert_eq!(house.fresh(&["a"]), before);
    let real = house.folder.path("real.toml");
    std::fs::rename(&house.file, &real).unwrap();
    std::os::unix::fs::symlink(&real, &house.file).unwrap();
    order(Order::Weight { name: "a".into(), weight: 200 });
    let why = server.save().unwrap_err();
    assert!(why.contains("it is no plain file"), "{why}");
    assert_eq!(std::fs::read_to_string(&real).unwrap(), text);
    end(&server);
}

/// If an order sets the default and the file has another value, is the order written, and does a
/// fresh start have it? `low_latency` is 0, and `nr_requests` is all there are. And after several
/// changes of scheduler, does a reload name nothing that cannot be set?
#[test]
fn orders_that_are_defaults_are_saved() {
    let house = Reloading::new("save-defaults");
    let disk = house.folder.path("a");
    let volume = format!("[volume.a]\npath = \"{}\"\n", disk.display());
    let attribute = |server: &Server, name: &str, value: Option<&str>| {
        let order = Order::Attribute { name: name.into(), value: value.map(Into::into) };
        let told = server.device_loops()[0].ask(order).unwrap();
        told["value"].as_str().unwrap().to_owned()
    };
    house.write(&format!("{DISK}{volume}"));
    let server = house.start();
    let most = attribute(&server, "nr_requests", None);
    end(&server);
    house.write(&format!("{DISK}attributes = {{ low_latency = 1, nr_requests = 64 }}\n{volume}"));
    let server = house.start();
    let mut client = house.connect("nbd.sock", "a").unwrap();
    attribute(&server, "low_latency", Some("0"));
    attribute(&server, "nr_requests", Some(&most));
    let changed = [
        "device.dev.attributes.low_latency: 1 -> 0".to_owned(),
        format!("device.dev.attributes.nr_requests: 64 -> {most}"),
    ];
    assert_eq!(server.save().unwrap()["changed"], serde_json::json!(changed));
    let text = std::fs::read_to_string(&house.file).unwrap();
    assert!(text.contains("low_latency = 0") && text.contains(&most), "{text}");
    assert_eq!(server.save().unwrap()["changed"], serde_json::json!([]));
    for scheduler in ["kyber", "bfq"] {
        server.device_loops()[0].ask(Order::Scheduler { name: scheduler.into() }).unwrap();
        assert_eq!(client.write(0, 0, &[3; 4096]).unwrap(), 0);
    }
    attribute(&server, "slice_idle", Some("0"));
    let told = server.reload().unwrap();
    assert_eq!(told["later"], serde_json::json!([]), "{told}");
    end(&server);
}

/// Does a reload undo what was ordered but not saved, and report it, whether the file is unchanged
/// or has another weight; and does it report nothing if the server is as the file says?
#[test]
fn what_was_ordered_and_not_saved_is_told() {
    let house = Reloading::new("ordered");
    let disk = house.folder.path("a");
    let write = |weight: u32| {
        house.write(&format!(
            "{DISK}[volume.a]\npath = \"{}\"\n[tenant.a]\nweight = {weight}\n",
            disk.display()
        ));
    };
    write(100);
    let server = house.start();
    let _client = house.connect("nbd.sock", "a").unwrap();
    let as_written = settled(&server, 1);
    let order = |order| server.device_loops()[0].ask(order).unwrap();
    let reloaded = || server.reload().unwrap()["changed"].clone();
    assert_eq!(reloaded(), serde_json::json!([]));
    order(Order::Weight { name: "a".into(), weight: 300 });
    order(Order::Attribute { name: "slice_idle".into(), value: Some("0".into()) });
    assert_ne!(status(&server), as_written);
    let told = [
        "device.dev.attributes.slice_idle: taken out, was 0 (ordered, not saved)",
        "tenant.a.weight: 300 -> 100 (ordered, not saved)",
    ];
    assert_eq!(reloaded(), serde_json::json!(told));
    assert_eq!(status(&server), as_written);
    assert_eq!(reloaded(), serde_json::json!([]));
    order(Order::Scheduler { name: "noop".into() });
    // A new scheduler brings its own `nr_requests`, which lasts as long as the scheduler.
    let told = reloaded();
    let line = "device.dev.scheduler: noop -> bfq (ordered, not saved)";
    assert!(told.as_array().unwrap().contains(&line.into()), "{told}");
    assert_eq!(status(&server), as_written);
    assert_eq!(reloaded(), serde_json::json!([]));
    // The file now says what the server already does: only the change of the file is reported.
    order(Order::Weight { name: "a".into(), weight: 200 });
    write(200);
    assert_eq!(reloaded(), serde_json::json!(["tenant.a.weight: 100 -> 200"]));
    // Both have changed: the report says from which value of the server.
    order(Order::Weight { name: "a".into(), weight: 300 });
    write(400);
    assert_eq!(reloaded(), serde_json::json!(["tenant.a.weight: 300 -> 400 (ordered, not saved)"]));
    end(&server);
}

/// Are certificates read again: does a new client or monitor get the new certificate, while a
/// connected client goes on; and is one that does not match the key refused, with nothing changed?
#[test]
fn certificates_are_read_again() {
    let (folder, config, old) = secure::secure_setting("reload-tls");
    let file = folder.path("serve.toml");
    let paths = ["nbd.sock", "server.pem", "server.key", "disk"].map(|name| folder.path(name));
    let [socket, certificate, key, disk] = paths.each_ref().map(|path| path.display());
    let text = format!(
        "[server]\nlisten = {{ at = \"unix:{socket}\", tls = \"required\" }}\nconnections = 64\n\
         metrics = \"0.0.0.0:0\"\n\
         [server.tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n[device.dev]\n\
         memory = \"4MiB\"\n[volume.disk]\npath = \"{disk}\"\n"
    );
    std::fs::write(&file, text).unwrap();
    drop(config);
    let source = Some(Source::new(&file));
    let server = start_with(Config::load(&file).unwrap(), Options { source, ..Options::default() });
    let mut there = secure::connect(&folder, &old);
    let metrics = |of| secure::metrics(server.metrics().unwrap(), of);
    assert!(metrics(&old).unwrap().contains("paternoster_up"));
    let made = rcgen::generate_simple_self_signed(vec!["server.example".to_owned()]).unwrap();
    std::fs::write(&paths[1], made.cert.pem()).unwrap();
    let why = server.reload().unwrap_err();
    assert!(why.contains("server.pem") && why.contains("nothing was changed"), "{why}");
    secure::read(&mut secure::connect(&folder, &old), 512);
    std::fs::write(&paths[2], made.signing_key.serialize_pem()).unwrap();
    let told = server.reload().unwrap();
    assert_eq!(told["changed"][0], "server.tls: the certificates were read");
    secure::read(&mut secure::connect(&folder, made.cert.der()), 512);
    assert!(metrics(made.cert.der()).unwrap().contains("paternoster_up"));
    assert!(metrics(&old).is_err());
    secure::read(&mut there, 512);
    end(&server);
}
