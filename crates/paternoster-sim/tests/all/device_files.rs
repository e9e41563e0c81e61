// SPDX-License-Identifier: MIT OR Apache-2.0
//! Untrusted device files: refused with the place of the error, or sound; never a panic.

use std::path::Path;

use paternoster_core::{Device, Nanos};
use paternoster_sim::{Description, Simulated};
use proptest::prelude::*;

/// Reads `text` as a device file; what is accepted has to work, what is refused has to say where.
fn check(text: &str) {
    match Description::parse("any.toml", text) {
        Ok(device) => {
            let mut simulated = Simulated::new(device.model());
            assert_eq!(simulated.wait(Some(Nanos::from_secs(1))), None);
            assert_eq!(simulated.now(), Nanos::from_secs(1));
        }
        Err(error) => {
            assert!(error.to_string().starts_with("any.toml:") && !error.message.is_empty());
        }
    }
}

/// Is every input of the fuzzer's corpus refused or sound?
#[test]
fn corpus_is_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/device_file");
    let entries: Vec<_> = std::fs::read_dir(&corpus).expect("the corpus").flatten().collect();
    assert!(entries.len() >= 8, "{} inputs", entries.len());
    for entry in entries {
        let bytes = std::fs::read(entry.path()).unwrap();
        check(&String::from_utf8_lossy(&bytes));
    }
}

/// Untrusted rules of faults.
const RULES: &str = include_str!("../../../../fuzz/corpus/device_file/faults");

const CARD: &str = include_str!("../../devices/flash-card-2010.toml");

proptest! {
    /// Is arbitrary text refused without a panic?
    #[test]
    fn arbitrary_text_never_panics(text in "(\\PC|\n){0,200}") {
        check(&text);
    }

    /// Are damaged rules of faults refused or sound?
    #[test]
    fn damaged_rules_never_panic(
        at in 0usize..160, cut in 0usize..9, put in "[-0-9a-z=, .]{0,9}"
    ) {
        let rules = RULES.find("rules =").unwrap();
        let mut bytes = RULES.as_bytes().to_vec();
        let at = (rules + 20 + at).min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        check(&String::from_utf8_lossy(&bytes));
    }

    /// The same for a sound file with a piece cut out and another put in, which gets further.
    #[test]
    fn damaged_files_never_panic(
        at in 0usize..1800, cut in 0usize..60, put in "[-0-9a-zA-Z{}=\" .\n]{0,12}"
    ) {
        let mut bytes = CARD.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        check(&String::from_utf8_lossy(&bytes));
    }
}

/// Are times and rates refused whose sums would come close to overflow?
#[test]
fn endless_times_are_refused() {
    let ssd = include_str!("../../devices/ssd-870evo.toml");
    for (name, value, words) in [
        ("controller", "18000000000 s", "more than an hour"),
        ("program", "2000000 ms", ""),
        ("link_rate", "1 B/s", ""),
        ("link_rate", "100 s/B", "more than an hour"),
    ] {
        let lines = ssd.lines().map(|line| match line.split_whitespace().next() {
            Some(word) if word == name => {
                format!("{name} = {{ value = \"{value}\", source = \"test\" }}\n")
            }
            _ => format!("{line}\n"),
        });
        let text: String = lines.collect();
        match Description::parse("long.toml", &text) {
            Ok(_) => assert!(words.is_empty(), "{name} = {value}"),
            Err(error) => {
                assert!(error.to_string().contains(words) && !words.is_empty(), "{error}");
            }
        }
    }
}
