// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a number of requests through the library, to count instructions:
//!
//! ```text
//! valgrind --tool=callgrind target/release/examples/cost mq-deadline 100000
//! ```
//!
//! Two runs of different length differ by the cost of the requests alone; `./test` does that.

#[path = "../benches/common/rig.rs"]
mod rig;

use std::process::ExitCode;

use rig::{Load, Rig};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let scheduler = arguments.next();
    let requests = arguments.next().and_then(|text| text.parse().ok());
    let (Some(scheduler), Some(requests)) = (scheduler, requests) else {
        eprintln!("usage: cost SCHEDULER[:weighted|:roaming] REQUESTS [CLIENTS]");
        return ExitCode::from(2);
    };
    let (scheduler, how) = scheduler.split_once(':').unwrap_or((&scheduler, ""));
    let mut load = Load { weighted: !how.is_empty(), roaming: how == "roaming", ..Load::sixteen() };
    // 16 with 8 bios each, or so many with one each.
    if let Some(clients) = arguments.next().and_then(|text| text.parse().ok()) {
        load = Load { clients, waiting: clients, ..load };
    }
    if load.roaming {
        load.waiting = 128;
    }
    Rig::new(scheduler, load).turn(requests);
    ExitCode::SUCCESS
}
