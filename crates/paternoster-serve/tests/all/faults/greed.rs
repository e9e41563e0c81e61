// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that want all the memory, all the places, or one block for themselves.

use std::io::{Read, Write};
use std::net::Shutdown;

use paternoster_core::Nanos;
use paternoster_serve::config::Caps;

use crate::common::client::{READ, TRIM, WRITE, ZEROES, request};
use crate::common::disk::{SIZE, connect, setting, works};
use crate::common::watch::{snapshot, until, until_quiet};
use crate::common::{Client, end, slow, start, start_behind, tenant};

/// Does a client that takes no answers leave memory to others, though it asked for all there is? No
/// connection has more than a quarter of the 4 MiB.
#[test]
fn one_connection_does_not_have_all_memory() {
    let (folder, config) = setting("memory");
    let server = start(config);
    let mut other = connect(&folder);
    let mut deaf = connect(&folder);
    for at in 0..200 {
        deaf.send(READ, 0, (at % 8) << 20, 1 << 20, &[]).unwrap();
    }
    until("memory in use", || snapshot(&server).memory_used > 0);
    for round in 0..20 {
        works(&mut other, 1 << 20, round);
    }
    assert!(snapshot(&server).memory_used <= 1 << 20, "a quarter, and nothing of the other's");
    drop(deaf);
    until_quiet(&server, 1);
    end(&server);
}

/// Ends floods, which others wait for.
struct Silenced<'a>(&'a [Client]);

impl Drop for Silenced<'_> {
    fn drop(&mut self) {
        for flood in self.0 {
            let _gone = flood.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Is a client that wants a large piece of memory served at last, while others take every small
/// piece that comes back?
#[test]
fn large_requests_do_not_starve() {
    let (folder, config) = setting("starve");
    let server = start_behind(config, slow);
    let floods: Vec<Client> = (0..5).map(|_| connect(&folder)).collect();
    std::thread::scope(|scope| {
        for (number, flood) in (0..).zip(&floods) {
            // 64 KiB at a time, as fast as they are taken: 16 of them are the quarter of the memory
            // that a connection may have.
            let bytes = request(READ, 0, 1, number << 16, 64 << 10, &[]).repeat(100);
            scope.spawn(move || while (&flood.stream).write_all(&bytes).is_ok() {});
            scope.spawn(move || {
                let mut taken = vec![0; 1 << 20];
                while (&flood.stream).read(&mut taken).is_ok_and(|taken| taken > 0) {}
            });
        }
        let _also_if_this_fails = Silenced(&floods);
        until("much memory in use", || snapshot(&server).memory_used > 1 << 20);
        let mut large = connect(&folder);
        for at in 0..3 {
            assert_eq!(large.read(at << 20, 1 << 20).unwrap().len(), 1 << 20);
            assert_eq!(large.write(0, (at << 20) + 7, &vec![1; 1 << 20]).unwrap(), 0);
        }
    });
    drop(floods);
    until_quiet(&server, 0);
    end(&server);
}

/// Do requests without data, of 4 GiB each in theory, leave places to others?
#[test]
fn long_requests_leave_places() {
    let (folder, config) = setting("places");
    let server = start_behind(config, slow);
    let mut greedy = connect(&folder);
    let whole = u32::try_from(SIZE).unwrap();
    let cookies: Vec<u64> =
        (0..200).map(|_| greedy.send(ZEROES, 0, 0, whole, &[]).unwrap()).collect();
    let mut other = connect(&folder);
    assert_eq!(other.write(0, 0, &[0; 4096]).unwrap(), 0);
    drop(other);
    for _ in cookies {
        assert_eq!(greedy.told().unwrap().errno, 0);
    }
    drop(greedy);
    until_quiet(&server, 0);
    end(&server);
}

/// Are hundreds of changes of one block all answered, even those of no bytes? And is a client
/// forgotten that dies with hundreds of them waiting for each other?
#[test]
fn changes_of_one_block() {
    let (folder, config) = setting("block");
    let server = start_behind(config, slow);
    for dies in [false, true] {
        let mut clients: Vec<_> = (0..3).map(|_| connect(&folder)).collect();
        for client in &mut clients {
            client.send(WRITE, 0, 5, 10, &[1; 10]).unwrap();
            for at in 0..150 {
                client.send(TRIM, 0, at + 1, 10, &[]).unwrap();
                if at % 50 == 0 {
                    client.send(WRITE, 0, at, 3, &[2; 3]).unwrap();
                }
            }
        }
        if !dies {
            for client in &mut clients {
                for _ in 0..1 + 150 + 3 {
                    assert_eq!(client.told().unwrap().errno, 0);
                }
            }
        }
        drop(clients);
        until_quiet(&server, 0);
    }
    end(&server);
}

/// Does a write within a block come to its turn, though others change the whole block without end?
#[test]
fn a_short_write_does_not_starve() {
    let (folder, config) = setting("short");
    let server = start_behind(config, slow);
    // As fast as they are taken, until the socket is closed.
    let stream = [connect(&folder)];
    std::thread::scope(|scope| {
        let flood = &stream[0].stream;
        let bytes = request(WRITE, 0, 1, 0, 4096, &[1; 4096]).repeat(16);
        scope.spawn(move || while { flood }.write_all(&bytes).is_ok() {});
        scope.spawn(move || {
            let mut taken = vec![0; 1 << 16];
            while { flood }.read(&mut taken).is_ok_and(|taken| taken > 0) {}
        });
        let _also_if_this_fails = Silenced(&stream);
        until("many writes", || snapshot(&server).connections[0].figures.writes > 50);
        let mut other = connect(&folder);
        for at in 0..5 {
            assert_eq!(other.write(0, 100 + at, &[2; 10]).unwrap(), 0);
        }
    });
    drop(stream);
    until_quiet(&server, 0);
    end(&server);
}

/// Is a tenant charged once for a request that had to wait for a place; and is nothing kept of a
/// tenant that went while it was above its cap?
#[test]
fn who_is_above_its_cap_may_go() {
    let (folder, mut config) = setting("cap");
    let mut capped = tenant("disk", 100);
    // 36,000 bytes, one part: the second request waits for an hour.
    capped.caps = Caps { bytes: 10, requests: 0 };
    config.tenants.push(capped);
    config.devices[0].delay_bound = Some(Nanos::from_millis(50));
    let server = start(config);
    for round in 0..20 {
        let mut client = connect(&folder);
        client.send(READ, 0, 0, 36_000, &[]).unwrap();
        if round == 0 {
            assert_eq!(client.told().unwrap().errno, 0);
        }
    }
    until_quiet(&server, 0);
    end(&server);
}
