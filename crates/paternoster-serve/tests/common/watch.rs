// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at a server until something is so. Everything is waited for a bounded time.

use std::time::{Duration, Instant};

use paternoster_serve::control::order::Order;
use paternoster_serve::control::snapshot::Snapshot;
use paternoster_serve::server::Server;

/// Long enough for any machine; a test that waits for ever tells nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a server's only device.
pub(crate) fn snapshot(server: &Server) -> Snapshot {
    let told = server.device_loops()[0].ask(Order::Snapshot).expect("an answer");
    serde_json::from_value(told).expect("a snapshot")
}

/// Waits until `is_so`, and fails with `what` if that never comes.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until only `connections` are connected, and nothing is under way or in memory.
pub(crate) fn until_quiet(server: &Server, connections: usize) {
    let mut last = None;
    let end = Instant::now() + PATIENCE;
    loop {
        let now = snapshot(server);
        assert!(now.memory_used <= now.memory, "{now:?}");
        let is_idle = now.memory_used == 0 && now.waiting == 0 && now.in_device == 0;
        if is_idle && now.connections.len() == connections {
            return;
        }
        assert!(Instant::now() < end, "it never gets quiet: {last:?}");
        last = Some(now);
        std::thread::sleep(Duration::from_millis(5));
    }
}
