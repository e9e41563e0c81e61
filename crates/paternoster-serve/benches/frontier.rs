// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frontier: how much longer does a small reader wait while another client floods the device,
//! and what does a shorter wait cost?
//!
//! One client reads 4 KiB at a time, one request after the other, while another keeps 64
//! outstanding, over NBD at unix sockets, before a model of a device in real time. For each
//! scheduler, with attributes that one would set for this, two numbers:
//!
//! ```text
//! p99 of the small reader / its p99 alone   (1: it does not notice the flood)
//! requests a second of both / those of the flood alone under noop   (1: nothing is given away)
//! ```
//!
//! The frontier consists of those that no other beats in both. `benches/frontier` runs this and
//! writes `docs/serve/frontier.md` and a picture for each device.

#[path = "../tests/common/mod.rs"]
mod common;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::flood::Flood;
use common::watch::snapshot;
use common::{Folder, config, device, end, start, tenant, volume};
use paternoster_core::Nanos;
use paternoster_serve::config::Engine;

/// A device file, and how long each setting is looked at.
struct Model {
    name: &'static str,
    words: &'static str,
    facts: &'static str,
    /// A depth that keeps it busy, and no more.
    shallow: u32,
    seconds: u64,
    /// Number of tries; odd.
    tries: usize,
}

const MODELS: [Model; 2] = [
    Model {
        name: "flash",
        words: "eight requests at a time, 2 ms each, 32 taken: flash slowed down ten times",
        facts: "servers = { value = 8, source = \"assumed\" }\n\
                base = { value = \"2 ms\", source = \"assumed\" }",
        shallow: 8,
        seconds: 4,
        tries: 3,
    },
    Model {
        name: "disk",
        words: "one request at a time, 5 ms for each that does not follow the last, 32 taken",
        facts: "servers = { value = 1, source = \"assumed\" }\n\
                base = { value = \"100 us\", source = \"assumed\" }\n\
                penalty = { value = \"4.9 ms\", source = \"assumed\" }",
        shallow: 2,
        seconds: 20,
        tries: 1,
    },
];

/// One way to serve the two: scheduler and attributes, then what the server adds.
struct Way {
    scheduler: &'static str,
    depth: u32,
    weight: u32,
    bound: Option<Nanos>,
}

const fn way(scheduler: &'static str, depth: u32) -> Way {
    Way { scheduler, depth, weight: 100, bound: None }
}

/// The depth of the model at hand that keeps it just busy.
const SHALLOW: u32 = 0;

/// Depth 32 is what the devices take; less leaves the choice to the scheduler.
const WAYS: [Way; 22] = [
    way("noop", 32),
    way("noop", SHALLOW),
    Way { bound: Some(Nanos::from_millis(20)), ..way("noop", SHALLOW) },
    way("deadline", 32),
    way("deadline:fifo_batch=1", SHALLOW),
    way("mq-deadline:fifo_batch=1", SHALLOW),
    way("kyber", 32),
    way("kyber:read_lat_nsec=1000000", 32),
    way("cfq", 32),
    way("cfq:slice_sync=10,quantum=1", 32),
    way("cfq-4.19:slice_sync=10", SHALLOW),
    way("bfq", 32),
    way("bfq", SHALLOW),
    way("bfq:max_budget=64", 32),
    way("bfq:max_budget=64", SHALLOW),
    Way { weight: 1000, ..way("bfq:max_budget=64", SHALLOW) },
    way("bfq:slice_idle=0", 32),
    way("bfq:slice_idle=0", SHALLOW),
    Way { weight: 1000, ..way("bfq:slice_idle=0", SHALLOW) },
    way("bfq:slice_idle=0,max_budget=64", SHALLOW),
    way("bfq:low_latency=1", SHALLOW),
    way("bfq:strict_guarantees=1", SHALLOW),
];

impl Way {
    fn depth(&self, model: &Model) -> u32 {
        if self.depth == SHALLOW { model.shallow } else { self.depth }
    }

    fn label(&self, model: &Model) -> String {
        let mut label = format!("{}, depth {}", self.scheduler, self.depth(model));
        if self.weight != 100 {
            let _fits = write!(label, ", weight {}:100", self.weight);
        }
        if let Some(bound) = self.bound {
            let _fits = write!(label, ", delay bound {} ms", bound.0 / 1_000_000);
        }
        label
    }
}

/// The result of one way of setting the server.
struct Found {
    label: String,
    samples: usize,
    median: Duration,
    p99: Duration,
    /// Requests a second of both.
    rate: f64,
}

/// Which of the two clients are there.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Both,
    Small,
    Flood,
}

fn main() {
    let folder = std::env::args().find_map(|arg| arg.strip_prefix("--to=").map(PathBuf::from));
    // `cargo bench` without the script, and `cargo test --benches`: nothing is written.
    let Some(folder) = folder else {
        eprintln!("benches/frontier says where to write to");
        return;
    };
    let mut page = String::new();
    for model in &MODELS {
        let alone = look(model, &way("noop", 32), Who::Small);
        let most = look(model, &way("noop", 32), Who::Flood).rate;
        let found: Vec<Found> = WAYS.iter().map(|way| look(model, way, Who::Both)).collect();
        let points = points(&found, &alone, most);
        page += &table(model, &found, &points, &alone, most);
        let picture = folder.join(format!("frontier-{}.svg", model.name));
        std::fs::write(picture, draw(model, &found, &points)).expect("the picture is written");
    }
    std::fs::write(folder.join("frontier.tables"), page).expect("the tables are written");
}

/// The try with the middle p99: others may use the machine, too, and a fast device tells.
fn look(model: &Model, way: &Way, who: Who) -> Found {
    let mut tries: Vec<Found> = (0..model.tries).map(|_| look_once(model, way, who)).collect();
    tries.sort_by_key(|found| found.p99);
    let found = tries.swap_remove(model.tries / 2);
    eprintln!("{}: {} p99 {:?} rate {:.0}", model.name, found.label, found.p99, found.rate);
    found
}

fn look_once(model: &Model, way: &Way, who: Who) -> Found {
    let folder = Folder::in_memory("frontier");
    let mut config = config(&folder, served(&folder, model, way));
    config.tenants = vec![tenant("small", way.weight), tenant("flood", 100)];
    let server = start(config);
    let socket = folder.path("nbd.sock");
    let flood = (who != Who::Small).then(|| Flood::start(&socket, "flood", 64, 1));
    // Weights and budgets settle, and the queue fills.
    std::thread::sleep(Duration::from_secs(1));
    let small = (who != Who::Flood).then(|| Flood::start(&socket, "small", 1, 2));
    let begun = Instant::now();
    let from = reads(&server);
    std::thread::sleep(Duration::from_secs(model.seconds));
    let rate = (reads(&server) - from) as f64 / begun.elapsed().as_secs_f64();
    let mut took = small.map(Flood::stop).unwrap_or_default();
    drop(flood);
    end(&server);
    took.sort_unstable();
    let at = |percent: usize| {
        let place = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(place).copied().unwrap_or_default()
    };
    let label = way.label(model);
    Found { label, samples: took.len(), median: at(50), p99: at(99), rate }
}

fn served(folder: &Folder, model: &Model, way: &Way) -> paternoster_serve::config::Device {
    let path = folder.path("model.toml");
    let (name, facts) = (model.name, model.facts);
    let text = format!(
        "name = \"{name}\"\nmodel = \"linear\"\nsummary = \"of the frontier\"\n\
         valid = \"benches\"\n[facts]\n\
         capacity = {{ value = \"1 GiB\", source = \"assumed\" }}\n\
         depth = {{ value = 32, source = \"assumed\" }}\n\
         rotational = {{ value = {}, source = \"assumed\" }}\n\
         [linear]\n{facts}\n\
         rate = {{ value = \"999 TB/s\", source = \"assumed\" }}\n\
         [host]\nsubmit_cost = {{ value = \"1 ns\", source = \"assumed\" }}\n",
        name == "disk"
    );
    std::fs::write(&path, text).expect("a device file");
    let file = folder.file("disk", 256 << 20);
    let (scheduler, attributes) = way.scheduler.split_once(':').unwrap_or((way.scheduler, ""));
    let mut dev = device(scheduler, &[]);
    let pairs = attributes.split(',').filter_map(|pair| pair.split_once('='));
    dev.attributes = pairs.map(|(name, value)| (name.into(), value.into())).collect();
    dev.volumes = vec![volume("small", &file), volume("flood", &file)];
    dev.engine = Engine::Model(path.to_str().expect("a plain path").into());
    dev.memory = 16 << 20;
    dev.depth = Some(way.depth(model));
    dev.delay_bound = way.bound;
    dev
}

fn reads(server: &paternoster_serve::server::Server) -> u64 {
    snapshot(server).tenants.iter().map(|line| line.figures.reads).sum()
}

/// Throughput kept, how many times the p99 alone, and whether no other is better in both.
fn points(found: &[Found], alone: &Found, most: f64) -> Vec<(f64, f64, bool)> {
    let plain: Vec<(f64, f64)> = found
        .iter()
        .map(|found| (found.rate / most, found.p99.as_secs_f64() / alone.p99.as_secs_f64()))
        .collect();
    let beaten = |&(kept, times): &(f64, f64)| {
        plain.iter().any(|other| other.0 >= kept && other.1 <= times && *other != (kept, times))
    };
    plain.iter().map(|point| (point.0, point.1, !beaten(point))).collect()
}

fn table(
    model: &Model,
    found: &[Found],
    points: &[(f64, f64, bool)],
    alone: &Found,
    most: f64,
) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let mut text = format!("## {}: {}\n\n", model.name, model.words);
    let _fits = writeln!(
        text,
        "Alone, the small reader has a median of {:.2} ms and a p99 of {:.2} ms; the flood alone \
         reaches\n{most:.0} requests a second under noop.\n\n\
         ![p99 against throughput](frontier-{}.svg)\n\n\
         | setting | median | p99 | times its p99 alone | throughput kept | samples |\n\
         |---|---|---|---|---|---|",
        ms(alone.median),
        ms(alone.p99),
        model.name
    );
    for (found, &(kept, times, is_best)) in found.iter().zip(points) {
        let strong = if is_best { "**" } else { "" };
        let _fits = writeln!(
            text,
            "| {strong}`{}`{strong} | {:.2} ms | {:.2} ms | {strong}{times:.1}{strong} | \
             {strong}{:.0} %{strong} | {} |",
            found.label,
            ms(found.median),
            ms(found.p99),
            kept * 100.0,
            found.samples
        );
    }
    text.push('\n');
    text
}

/// A dot for each setting: throughput to the right, p99 up, by powers of two; numbers are the
/// rows of the table.
fn draw(model: &Model, found: &[Found], points: &[(f64, f64, bool)]) -> String {
    const WIDE: f64 = 640.0;
    const HIGH: f64 = 400.0;
    let highest = points.iter().map(|point| point.1).fold(2.0, f64::max).log2().ceil();
    let right = |kept: f64| 60.0 + kept.clamp(0.0, 1.1) / 1.1 * (WIDE - 80.0);
    let up = |times: f64| HIGH - 50.0 - times.max(0.5).log2().max(0.0) / highest * (HIGH - 80.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDE} {HIGH}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>p99 of a reader of depth 1 beside a \
         flood of depth 64, on {}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        model.name
    );
    let mut power = 0.0;
    while power <= highest {
        let (y, times) = (up(power.exp2()), power.exp2());
        let _fits = writeln!(
            svg,
            "<path d=\"M60 {y:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"52\" y=\"{:.1}\" \
             text-anchor=\"end\">{times}x</text>",
            WIDE - 20.0,
            y + 4.0
        );
        power += 1.0;
    }
    for percent in [0, 20, 40, 60, 80, 100] {
        let x = right(f64::from(percent) / 100.0);
        let _fits = writeln!(
            svg,
            "<path d=\"M{x:.1} 30V{:.1}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{percent} %</text>",
            HIGH - 50.0,
            HIGH - 34.0
        );
    }
    for (number, (found, &(kept, times, is_best))) in found.iter().zip(points).enumerate() {
        let (x, y) = (right(kept), up(times));
        let colour = if is_best { "#d55e00" } else { "#0072b2" };
        let _fits = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"><title>{}</title>\
             </circle><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            found.label,
            x + 6.0,
            y - 4.0,
            number + 1
        );
    }
    let _fits = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">throughput kept; numbers are rows \
         of the table, orange is beaten by nobody</text>\n<text x=\"10\" y=\"18\">p99, times \
         its own alone</text>\n</svg>\n",
        WIDE / 2.0,
        HIGH - 12.0
    );
    svg
}
