// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this crate share: recordings, made-up traces and scenes, and a word about what
//! is missing.

pub(crate) mod golden;
pub(crate) mod random;
pub(crate) mod recordings;

use paternoster_core::{ClientId, ClientSpec, DeviceFacts, Nanos, RequestQueue};
use paternoster_schedulers::Noop;

/// Four clients of a queue.
pub(crate) fn clients() -> [ClientId; 4] {
    let queue = RequestQueue::builder(DeviceFacts::default(), Box::new(Noop::new())).build();
    let mut queue = queue.expect("its limits work");
    [(); 4].map(|()| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("room for a client"))
}

/// Says that the current test checks nothing, and why: a line that `./test` collects.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {why}");
}
