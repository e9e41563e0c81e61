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

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let scheduler = arguments.next();
    let requests = arguments.next().and_then(|text| text.parse().ok());
    let (Some(scheduler), Some(requests)) = (scheduler, requests) else {
        eprintln!("usage: cost SCHEDULER REQUESTS [CLIENTS]");
        return ExitCode::from(2);
    };
    // 16 with 8 bios each, or so many with one each.
    match arguments.next().and_then(|text| text.parse().ok()) {
        None => rig::Rig::new(&scheduler, 16, 128, 0).turn(requests),
        Some(clients) => rig::Rig::new(&scheduler, clients, clients, 0).turn(requests),
    }
    ExitCode::SUCCESS
}
