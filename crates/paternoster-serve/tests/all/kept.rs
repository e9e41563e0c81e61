// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the server remembers of clients that have gone, and of a device's failures.

use paternoster_core::Nanos;
use paternoster_serve::control::snapshot::{Figures, Snapshot};
use paternoster_serve::device::Backend;
use paternoster_serve::device::faulty::{Effect, Often, Which};

use crate::common::client::READ;
use crate::common::disk::{connect, setting};
use crate::common::watch::{snapshot, until};
use crate::common::{end, start_behind, with_fault};

fn second_read_fails(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    with_fault(inner, Which::Reads, Often::Every(2), Effect::Fails(libc::EIO))
}

/// Reads and errors of all that there are and were: what a monitor adds up.
fn sums(s: &Snapshot) -> (u64, u64) {
    let present = s.tenants.iter().filter(|line| !line.is_group).map(|line| &line.figures);
    let gone = s.departed.iter().map(|line| &line.figures);
    let all = present.chain(gone).chain(s.earlier.iter().map(|line| &line.figures));
    let add = |(reads, errors), figures: &Figures| (reads + figures.reads, errors + figures.errors);
    all.fold((0, 0), add)
}

/// Are a client's counters there when it has gone, and does it go on from them when it comes again?
/// Of four reads two fail, of the fifth none; the device tells of two.
#[test]
fn counters_outlive_their_client() {
    let (folder, config) = setting("kept");
    let server = start_behind(config, second_read_fails);
    let mut client = connect(&folder);
    let told = (0..4).map(|_| client.ask(READ, 0, 0, 4096).unwrap().errno);
    assert_eq!(told.collect::<Vec<u32>>(), [0, 5, 0, 5]);
    assert_eq!(sums(&snapshot(&server)), (4, 2));
    drop(client);
    until("its end", || snapshot(&server).connections.is_empty());
    let after = snapshot(&server);
    assert_eq!(sums(&after), (4, 2));
    let names: Vec<&str> = after.departed.iter().map(|line| &*line.name).collect();
    assert_eq!((names, after.tenants.len()), (vec!["disk"], 0), "nobody configured it");
    assert_eq!(after.errors, [(5, 2)].into());
    let last = after.last_error.expect("two failed").what;
    assert!(last.starts_with("disk: read of 4096 bytes at 0 failed: "), "{last}");
    let mut client = connect(&folder);
    assert_eq!(client.ask(READ, 0, 0, 4096).unwrap().errno, 0);
    let again = snapshot(&server);
    assert_eq!((sums(&again), again.departed.len(), again.tenants.len()), ((5, 2), 0, 1));
    drop(client);
    end(&server);
}

/// Is it reported how long a command has been in the device, so that one that hangs is seen, and
/// nothing if there is no command?
#[test]
fn a_command_in_the_device_has_an_age() {
    fn late(inner: Box<dyn Backend>) -> Box<dyn Backend> {
        with_fault(inner, Which::Reads, Often::Every(1), Effect::Late(Nanos::from_millis(200)))
    }
    let (folder, config) = setting("age");
    let server = start_behind(config, late);
    let mut client = connect(&folder);
    assert_eq!(snapshot(&server).oldest_command_ns, 0);
    client.send(READ, 0, 0, 4096, &[]).unwrap();
    until("its age", || snapshot(&server).oldest_command_ns >= 100_000_000);
    until("its end", || snapshot(&server).oldest_command_ns == 0);
    drop(client);
    end(&server);
}
