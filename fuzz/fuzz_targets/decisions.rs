// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the replay of decisions: as a file, and as calls within sound blocks, so that they
//! get as far as the queue.
//!
//! What must hold: no panic, an end; messages that say something.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_core::{DeviceFacts, Limits};
use paternoster_serve::decisions::block::BlockWriter;
use paternoster_serve::decisions::{Header, replay};

fn look(record: &[u8]) {
    if let Err(error) = replay(record) {
        assert!(!error.to_string().is_empty());
    }
}

fuzz_target!(|data: &[u8]| {
    look(data);
    let Some((&first, calls)) = data.split_first() else { return };
    let place = usize::from(first) % paternoster_schedulers::ALL.len();
    let elevator = paternoster_schedulers::ALL[place].name.to_owned();
    let facts = DeviceFacts {
        capacity: 1 << 20,
        depth: 4,
        write_cache: first & 0x80 != 0,
        flush_queueable: first & 0x40 != 0,
        ..DeviceFacts::default()
    };
    let limits = Limits { requests: 24, bios: 40, clients: 5, groups: 4, notes: 64 };
    let header = Header { program: "fuzz".to_owned(), elevator, facts, limits };
    let mut file = Vec::new();
    let written = BlockWriter::new(&mut file, &header).and_then(|mut blocks| blocks.calls(calls));
    assert!(written.is_ok(), "a vector takes everything");
    look(&file);
});
