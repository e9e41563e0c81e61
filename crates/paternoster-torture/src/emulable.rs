// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emulable: loads that can also run on a kernel, on devices slow enough to be emulated.
//!
//! A device in user space keeps its times to within a few per cent if each command takes a
//! millisecond or more, and a loop device has at least four tags. So a third kind of loads is
//! drawn, for `paternoster versus-kernel`:
//!
//! ```text
//! seed 3 ──▶ one server, 4 tags, 2 ms, 8 ms more after a jump; 3 clients: psync read 64k, …
//! ```
//!
//! Each client is direct, since our page cache is not the kernel's, and has as many requests
//! outstanding as it can for the whole run; every other load has groups, every fourth weights.

use std::fmt::Write;

use paternoster_sim::Description;
use paternoster_sim::chance::Chance;

use crate::draw::Draw;
use crate::load::{Client, Device, Engine, Kind, Load};

/// The place of these loads in the seed.
const PLACE: u64 = 3;

/// The load of a seed that can also run on a kernel.
#[must_use]
pub fn emulable(seed: u64) -> Load {
    let mut draw = Draw(Chance::new(seed, PLACE));
    let device = device(seed, &mut draw);
    let count = draw.between(2, 6);
    let kinds = if draw.one_in(3) { 1 } else { draw.between(2, 3) };
    let kinds: Vec<Kind> = (0..kinds).map(|_| kind(&mut draw)).collect();
    let grouped = draw.one_in(2);
    let weighted = grouped && draw.one_in(2);
    let client = |draw: &mut Draw, place: u64| {
        let weight = if weighted { draw.of(&[100, 200, 300, 500]) } else { 100 };
        Client::new(draw.of(&kinds), grouped.then(|| format!("g{place}")), weight)
    };
    let clients = (0..count).map(|place| client(&mut draw, place)).collect();
    Load { seed, device, clients }
}

fn kind(draw: &mut Draw) -> Kind {
    let engine = draw.of(&[Engine::Psync, Engine::Libaio]);
    let rw =
        draw.of(&["randread", "randread", "randwrite", "read", "read", "write", "randrw", "rw"]);
    let block_kib = draw.of(&[4, 4, 16, 64, 128]);
    let depth = if engine == Engine::Libaio { draw.of(&[2, 4, 8, 16, 32]) } else { 1 };
    Kind::greedy(engine, rw, block_kib, depth)
}

/// A device of equal servers: each command takes a base time, a time for each byte, and on a
/// rotating device a penalty where it does not follow the last one.
fn device(seed: u64, draw: &mut Draw) -> Device {
    let name = format!("emulable-{seed}");
    let rotational = draw.one_in(2);
    let servers = if rotational { 1 } else { draw.of(&[1, 2, 4, 8]) };
    let depth = draw.of(&[4, 4, 8, 16, 32]).max(servers);
    // At most some 1,300 commands a second: as many as two processors emulate in time.
    let base = if rotational { draw.of(&[1000, 2000]) } else { 1000 * servers };
    let rate = draw.of(&[25, 100, 400]);
    let mut file = format!(
        "name = \"{name}\"\nmodel = \"linear\"\nsummary = \"drawn\"\nvalid = \"versus-kernel\"\n"
    );
    let mut line = |text: &str| {
        let _infallible = writeln!(file, "{text}");
    };
    line("\n[facts]");
    line("capacity = { value = \"8 GiB\", source = \"drawn\" }");
    line(&format!("depth = {{ value = {depth}, source = \"drawn\" }}"));
    line(&format!("rotational = {{ value = {rotational}, source = \"drawn\" }}"));
    line("\n[linear]");
    line(&format!("servers = {{ value = {servers}, source = \"drawn\" }}"));
    line(&format!("base = {{ value = \"{base} us\", source = \"drawn\" }}"));
    line(&format!("rate = {{ value = \"{rate} MB/s\", source = \"drawn\" }}"));
    if rotational {
        let penalty = draw.of(&[2, 4, 8]);
        line(&format!("penalty = {{ value = \"{penalty} ms\", source = \"drawn\" }}"));
    }
    line("\n[host]\nsubmit_cost = { value = \"20 us\", source = \"versus-kernel measures it\" }");
    let description = Description::parse(&name, &file);
    let description = description.unwrap_or_else(|error| panic!("{error}\n{file}"));
    Device { description, file: Some(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a command of each drawn device long enough to be emulated, and is the device not too
    /// fast: at most 1,000 commands a second for each server's millisecond, whatever the seed?
    #[test]
    fn devices_can_be_emulated() {
        for seed in 0..200 {
            let load = emulable(seed);
            let facts = &load.device.description.facts;
            assert!((4..=32).contains(&facts.depth), "seed {seed}: {}", facts.depth);
            assert!((2..=6).contains(&load.clients.len()), "seed {seed}");
            assert!(load.clients.iter().all(|client| client.kind.engine != Engine::Buffered));
            // `base` is as many milliseconds as there are servers: 1,000 commands a second.
            let file = load.device.file.expect("a drawn device has a file");
            let number = |name: &str| {
                let line = file.lines().find(|line| line.starts_with(name)).expect("a line");
                let digits: String = line.chars().filter(char::is_ascii_digit).collect();
                digits.parse::<u64>().expect("a number")
            };
            assert!(number("base") >= 1000 * number("servers"), "seed {seed}\n{file}");
        }
    }
}
