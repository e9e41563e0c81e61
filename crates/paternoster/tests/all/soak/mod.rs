// SPDX-License-Identifier: MIT OR Apache-2.0
//! The soak of a server: reloads, upgrades by hand-over and by restart, orders, failing devices,
//! and clients that come and go, for as long as requested.
//!
//! ```text
//! disk    3 clients: simple, structured replies; unix, TCP ─┐   each byte is judged by
//! broken  EIO in half of the commands, now and then        ├─▶ what was acknowledged,
//! full    ENOSPC, now and then                             ─┘   each stream by the protocol
//! visits  clients that are cut off in the middle of a request
//! idle    clients that say nothing during hand-overs, and are answered after them
//! ```
//!
//! The last third of the time one server stays. `PATERNOSTER_SOAK_SECONDS` says how long (two
//! otherwise), `PATERNOSTER_SOAK_SEED` with what seed, `PATERNOSTER_SOAK_SAMPLES` where figures
//! over time go, tab-separated, while it runs; `PATERNOSTER_PROGRAM` which program is the server.
//! `./test --soak` has it in each round.

mod client;
mod faults;
mod model;
mod samples;
mod stream;
mod visits;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paternoster_sim::chance::Chance;

use self::client::{Client, Gone, Kind, Met, REGION};
use self::faults::{Broken, Full, SIZE};
use self::samples::{Sample, judge};
use self::stream::Door;
use self::visits::Visits;
use crate::upgrade::{House, Running, Stops, until};

/// A variable's value, or this default.
fn asked(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// A port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// The place, and what is judged there.
struct Place {
    house: House,
    broken: Option<Broken>,
    full: Option<Full>,
    port: u16,
    metrics: u16,
}

impl Place {
    fn new() -> Place {
        let house = House::new(false);
        // As /proc/self/mounts has it.
        let at = house.scratch.text(".").trim_end_matches("/.").to_owned();
        let (broken, full) = (Broken::new(&at), Full::new(&at));
        let place = Place { house, broken, full, port: free_port(), metrics: free_port() };
        place.configure(100, false);
        place
    }

    fn configure(&self, weight: u64, has_spare: bool) {
        let names = ["s", "control", "disk", "qemu"].map(|name| self.house.scratch.text(name));
        let [socket, control, disk, qemu] = names;
        let (port, metrics) = (self.port, self.metrics);
        let folder = self.house.scratch.text(".");
        let mut text = format!(
            "[server]\nlisten = ['unix:{socket}', 'tcp:127.0.0.1:{port}']\ncontrol = '{control}'\n\
             metrics = '127.0.0.1:{metrics}'\nconnections = 64\nimage-folders = '{folder}'\n\
             [device.d]\nmemory = '4MiB'\n\
             [volume.disk]\npath = '{disk}'\nraw = true\ndevice = 'd'\n\
             [tenant.disk]\nweight = {weight}\n"
        );
        if has_spare {
            let _ = write!(text, "[volume.spare]\npath = '{qemu}'\nraw = true\ndevice = 'd'\n");
        }
        let broken = self.broken.as_ref().map(|broken| ("broken", &broken.image));
        let full = self.full.as_ref().map(|full| ("full", &full.image));
        for (name, image) in broken.into_iter().chain(full) {
            let _ = write!(
                text,
                "[device.{name}]\nmemory = '2MiB'\n[volume.{name}]\npath = '{image}'\nraw = true\n\
                 device = '{name}'\n"
            );
        }
        fs::write(self.house.scratch.text("serve.toml"), text).expect("a configuration");
    }

    /// Clients that stay.
    fn clients(&self, pause: Duration, seed: u64) -> Vec<Kind> {
        let unix = Door::Unix(self.house.scratch.text("s"));
        let tcp = Door::Tcp(self.port);
        let kind = |door: &Door, export, first: u64, is_structured, fault| Kind {
            door: door.clone(),
            export,
            first: first * REGION as u64,
            is_structured,
            fault,
            pause,
            seed: seed * 100 + first,
        };
        let mut kinds = vec![
            kind(&unix, "disk", 0, false, None),
            kind(&tcp, "disk", 1, true, None),
            kind(&tcp, "disk", 2, false, None),
        ];
        if self.broken.is_some() {
            kinds.push(kind(&unix, "broken", 3, true, Some(5)));
            kinds.push(kind(&unix, "broken", 4, false, Some(5)));
        }
        if self.full.is_some() {
            kinds.push(kind(&tcp, "full", 5, true, Some(28)));
        }
        kinds
    }

    /// The first line of a page of the metrics' port.
    fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics)).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it listens");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        text.lines().next().unwrap_or_default().to_owned()
    }
}

/// The servers' last output, if the test has failed: the folder is removed with it.
impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.house.log();
            let lines = log.lines().collect::<Vec<_>>();
            eprintln!("{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
}

/// How often things have happened.
#[derive(Debug, Default)]
struct Counts {
    acts: u64,
    hand_overs: u64,
    refused_hand_overs: u64,
    restarts: u64,
    reloads: u64,
    refused_files: u64,
    orders: u64,
    faults: u64,
    visits: u64,
    unwell: u64,
}

/// One thing that an operator, a device or a visitor does.
fn act(place: &Place, chance: &mut Chance, counts: &mut Counts, visits: &mut Visits) {
    let house = &place.house;
    match chance.below(10) {
        0 => {
            place.configure(100 + chance.below(900), chance.once_in(2));
            house.order(r#"{"do":"reload"}"#);
            counts.reloads += 1;
        }
        1 => {
            let file = house.scratch.text("serve.toml");
            let good = fs::read_to_string(&file).expect("a configuration");
            fs::write(&file, good.replace("memory", "memery")).expect("a configuration");
            let answer = house.ask(r#"{"do":"reload"}"#);
            assert!(answer.contains("memery"), "{answer}");
            fs::write(&file, good).expect("a configuration");
            counts.refused_files += 1;
        }
        2 => {
            let weight = 1 + chance.below(1000);
            house.order(&format!(r#"{{"do":"weight","name":"disk","weight":{weight}}}"#));
            house.order(r#"{"do":"save"}"#);
            counts.orders += 2;
        }
        3 => {
            let names = ["bfq", "noop", "mq-deadline", "paternoster", "kyber"];
            let name = names[usize::try_from(chance.below(5)).expect("few")];
            house.order(&format!(r#"{{"do":"scheduler","device":"d","name":"{name}"}}"#));
            counts.orders += 1;
        }
        4 => {
            for order in ["explain", "snapshot", "list", "attributes"] {
                house.order(&format!(r#"{{"do":"{order}"}}"#));
                counts.orders += 1;
            }
            assert_eq!(place.page("/metrics"), "HTTP/1.1 200 OK");
        }
        5 | 6 => {
            let (broken, full) = (chance.once_in(2), chance.once_in(2));
            if let Some(it) = &place.broken {
                it.fail(broken);
            }
            if let Some(it) = &place.full {
                it.fill(full);
            }
            counts.faults += u64::from(broken) + u64::from(full);
            counts.unwell += u64::from(place.page("/healthz").contains("503"));
        }
        7 => visits.idle(chance),
        _ => {
            visits.cut(chance);
            counts.visits += 1;
        }
    }
}

/// Whether a region of an image is what it must be, according to its writer.
fn check(image: &[u8], gone: Gone) {
    let Gone { export, first, mut model, .. } = gone;
    let first = usize::try_from(first).expect("short");
    let seen = model.saw(0, &image[first..first + REGION]);
    seen.unwrap_or_else(|what| panic!("{export}, on the disk: region at {first}: {what}"));
}

/// Is every byte as acknowledged, every stream in order, no client dropped by a hand-over, and does
/// no server hold more at the end than at the beginning?
#[test]
fn a_soak_of_everything() {
    let seconds = asked("PATERNOSTER_SOAK_SECONDS", 2);
    let seed = asked("PATERNOSTER_SOAK_SEED", 29);
    eprintln!("seed {seed}");
    let mut chance = Chance::new(seed, 0);
    let place = Place::new();
    let house = &place.house;
    let total = Duration::from_secs(seconds);
    // The longer it lasts, the less of the machine it uses.
    let between = (total / 40).min(Duration::from_secs(1));
    let pause = (total / 1000).min(Duration::from_millis(50));
    let mut server = house.start();
    let begun = Instant::now();
    let (stop, met) = (AtomicBool::new(false), Met::default());
    let (mut counts, mut samples) = (Counts::default(), Vec::new());
    let mut visits = Visits::new(Door::Unix(house.scratch.text("s")));
    let mut file = std::env::var("PATERNOSTER_SOAK_SAMPLES").ok().map(|path| {
        let mut file = fs::File::create(&path).expect("a file for the samples");
        writeln!(file, "s\tserver\tKiB\tfds\tthreads\tticks\tanswers\tfailures").expect("room");
        file
    });
    let gone = std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        let workers = place.clients(pause, seed).into_iter().map(|kind| {
            let client = Client::new(kind, &met);
            let stop = &stop;
            scope.spawn(move || client.work(stop))
        });
        let workers = workers.collect::<Vec<_>>();
        while begun.elapsed() < total {
            assert!(workers.iter().all(|worker| !worker.is_finished()), "a client has failed");
            std::thread::sleep(between);
            counts.acts += 1;
            act(&place, &mut chance, &mut counts, &mut visits);
            let number = u32::try_from(counts.hand_overs + counts.restarts).expect("few");
            let sample = Sample::new(begun.elapsed(), number, server.0.id(), visits.idle.len());
            samples.push(sample);
            if let Some(file) = &mut file {
                let Sample { at, number, memory, descriptors, threads, ticks } = sample;
                let at = at.as_secs();
                let (answers, failures) =
                    (met.answers.load(Ordering::SeqCst), met.failures.load(Ordering::SeqCst));
                let figures = [memory, descriptors, threads, ticks, answers, failures];
                let figures = figures.map(|figure| format!("\t{figure}")).concat();
                writeln!(file, "{at}\t{number}{figures}").expect("room");
            }
            // The last third of the time one server stays.
            if begun.elapsed() < total * 2 / 3 {
                upgrade(&place, &mut server, &mut chance, &mut counts, &mut visits);
            }
        }
        if let Some(broken) = &place.broken {
            broken.fail(false);
        }
        drop(Stops(&stop));
        let each = workers.into_iter().map(|worker| worker.join().expect("a client"));
        each.collect::<Vec<_>>()
    });
    visits.leave();
    house.end(&mut server);
    let answers = met.answers.into_inner();
    let failures = met.failures.into_inner();
    let mib = met.bytes.into_inner() >> 20;
    println!("{counts:?}; {answers} answers, {mib} MiB, {failures} of them errors of the devices");
    let disk = fs::read(house.scratch.text("disk")).expect("a disk");
    visits.check(&disk);
    let broken = place.broken.as_ref().map(|it| fs::read(&it.below).expect("an image"));
    let full = place.full.as_ref().map(|it| fs::read(&it.image).expect("an image"));
    for gone in gone {
        let Gone { export, came, .. } = gone;
        assert!(came <= 1 + counts.restarts, "{export}: a hand-over has sent it away: {came}");
        let image = match export {
            "broken" => broken.as_ref(),
            "full" => full.as_ref(),
            _ => Some(&disk),
        };
        check(image.expect("it is there"), gone);
    }
    let told = judge(&samples).unwrap_or_else(|grown| panic!("{grown}"));
    print!("{told}");
    // One that is too slow on a busy machine is refused, and changes nothing.
    assert!(counts.hand_overs > 20 * counts.refused_hand_overs, "{counts:?}");
    assert!(seconds < 60 || place.broken.is_none() || (failures > 0 && counts.unwell > 0));
    assert_eq!(SIZE % REGION as u64, 0);
}

/// Now and then another server.
fn upgrade(
    place: &Place,
    server: &mut Running,
    chance: &mut Chance,
    counts: &mut Counts,
    visits: &mut Visits,
) {
    let house = &place.house;
    if counts.acts % 8 == 3 || chance.once_in(20) {
        let mut new = house.taker();
        let is_over = || {
            let ended = |it: &mut Running| it.0.try_wait().expect("a child").is_some();
            if ended(server) { Some(true) } else { ended(&mut new).then_some(false) }
        };
        if until(is_over, || format!("nor over nor refused: {}", house.log())) {
            *server = new;
            counts.hand_overs += 1;
        } else {
            counts.refused_hand_overs += 1;
        }
        visits.still_there(chance);
    } else if chance.once_in(80) {
        visits.leave();
        house.end(server);
        *server = house.start();
        counts.restarts += 1;
    }
}
