// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recordings of a running bfq, where they are at hand. Each is unpacked once.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use super::skipped;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/kernel-traces");

/// The text of a recording by its path in the folder; `None`, with a message, without it.
pub(crate) fn log(name: &str) -> Option<&'static str> {
    static LOGS: LazyLock<Mutex<BTreeMap<String, &'static str>>> = LazyLock::new(Mutex::default);
    let mut logs = LOGS.lock().expect("no test panics while it unpacks");
    if let Some(text) = logs.get(name) {
        return Some(text);
    }
    let text: &'static str = unpacked(name)?.leak();
    logs.insert(name.to_owned(), text);
    Some(text)
}

fn unpacked(name: &str) -> Option<String> {
    let path = Path::new(FOLDER).join(name);
    let Ok(file) = std::fs::File::open(&path) else {
        skipped(&format!("no recording {}", path.display()));
        return None;
    };
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(BufReader::new(file));
    unpacked.read_to_string(&mut text).expect("a log's text");
    Some(text)
}
