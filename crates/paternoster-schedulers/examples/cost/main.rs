// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a number of requests through the library, to count instructions:
//!
//! ```text
//! valgrind --tool=callgrind target/dist/examples/cost mq-deadline 100000
//! ```
//!
//! Two runs of different length differ by the cost of the requests alone; `./test` does that.

mod rig;

use std::process::ExitCode;

use rig::{Load, Rig};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let scheduler = arguments.next();
    let requests = arguments.next().and_then(|text| text.parse().ok());
    let (Some(scheduler), Some(requests)) = (scheduler, requests) else {
        eprintln!(
            "usage: cost SCHEDULER[:half|:weighted|:roaming|:backlogged|:NAME=VALUE]… REQUESTS \
             [CLIENTS]"
        );
        return ExitCode::from(2);
    };
    let mut words = scheduler.split(':');
    let scheduler = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    let said = |word: &str| words.contains(&word);
    let (weighted, roaming) = (said("weighted") || said("roaming"), said("roaming"));
    // Of 256 bios so many continue a stream.
    let sequential = if said("half") { 128 } else { 0 };
    let mut load = Load { weighted, roaming, sequential, ..Load::sixteen() };
    // 16 with 8 bios each, or so many with one each.
    if let Some(clients) = arguments.next().and_then(|text| text.parse().ok()) {
        load = Load { clients, waiting: clients, ..load };
    }
    if load.roaming {
        load.waiting = 128;
    }
    if said("backlogged") {
        // Four times as many bios for each client as the device takes: no queue is ever empty.
        load.waiting = 128 * load.clients;
    }
    let mut rig = Rig::new(scheduler, load);
    for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
        rig.set(name, value);
    }
    rig.turn(requests);
    ExitCode::SUCCESS
}
