// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server holds of the system's memory: is what a reload or another scheduler needed for a
//! moment given back?
//!
//! Live bytes are counted in `live_bytes` (paternoster-serve); here it is what the allocator keeps
//! of those that are free.

use std::fs;
use std::process::Stdio;

use crate::common::skipped;
use crate::serve_arguments::{Scratch, serve};
use crate::serve_log::connect;
use crate::upgrade::Running;

/// KiB, resident.
fn resident(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.0.id())).expect("it serves");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.split_whitespace().next().and_then(|text| text.parse().ok()).expect("a number")
}

/// Has a server that was reloaded, and given other schedulers, 90 times what it had at its start,
/// and a few megabytes more? (It had 70 MiB more after 30 of them, before it told the allocator to
/// give memory back.)
#[test]
fn a_reload_gives_its_memory_back() {
    if cfg!(not(target_env = "gnu")) {
        return skipped("memory behind reloads: this is not glibc's allocator");
    }
    const SLACK: u64 = 8 << 10;
    let scratch = Scratch::new();
    let (disk, socket, control) = (scratch.disk("disk"), scratch.text("s"), scratch.text("c"));
    let file = scratch.text("serve.toml");
    let text = format!(
        "[server]\nlisten = 'unix:{socket}'\ncontrol = '{control}'\n[volume.d]\npath = '{disk}'\n"
    );
    fs::write(&file, text).expect("room");
    let server = Running(serve(&[&file]).stderr(Stdio::null()).spawn().expect("a server"));
    let order = |line: &str| {
        use std::io::{BufRead, Write};
        // A thread of its own hears each.
        let mut control = connect(&control);
        writeln!(control, "{line}").expect("it listens");
        let mut answer = String::new();
        std::io::BufReader::new(control).read_line(&mut answer).expect("an answer");
        assert!(answer.contains("\"ok\":true"), "{line}: {answer}");
    };
    order(r#"{"do":"reload"}"#);
    let first = resident(&server);
    for round in 0..90 {
        order(r#"{"do":"reload"}"#);
        let name = ["bfq", "noop", "kyber", "paternoster", "mq-deadline"][round % 5];
        order(&format!(r#"{{"do":"scheduler","name":"{name}"}}"#));
    }
    let last = resident(&server);
    println!("KiB resident: {first} at first, {last} behind 90 reloads");
    assert!(last <= first + SLACK, "{first} KiB, then {last}");
}
