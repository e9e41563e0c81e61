// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host: the memory of the machine in front of the device, and how its files lie, from what a
//! person writes.
//!
//! Limits have their names from `/proc/sys/vm`: `--host memory=4g,dirty_ratio=40`.

use paternoster_core::Nanos;
use paternoster_workload::fio::value::{self, Reader};
use paternoster_workload::layout::Placement;
use paternoster_workload::page_cache::HostSettings;
use paternoster_workload::page_cache::journal::JournalMode;

use crate::Failure;
use crate::choice::assignment;

/// The names that `--host` knows, for messages.
const NAMES: &str = "memory, dirty_ratio, dirty_background_ratio, dirty_expire_centisecs, \
                     dirty_writeback_centisecs, copy_cost, journal, journal_commit, \
                     journal_blocks, delayed_allocation";
/// Larger memory makes useless tables: 1 TiB.
const MEMORY_MAX: u64 = 1 << 40;
/// Blocks of the largest journal: ext4 makes at most 40 GiB.
const JOURNAL_MAX: u64 = 10_240_000;

/// The default host with the given values.
pub fn settings(given: &[String]) -> Result<HostSettings, Failure> {
    let mut host = HostSettings::default();
    for part in given.iter().flat_map(|text| text.split(',')).filter(|part| !part.is_empty()) {
        let (name, value) = assignment("--host", part)?;
        set(&mut host, &name, &value)
            .map_err(|why| Failure::Request(format!("--host {part}: {why}")))?;
    }
    Ok(host)
}

fn set(host: &mut HostSettings, name: &str, value: &str) -> Result<(), String> {
    let mut notes = Vec::new();
    let mut read = Reader::new(1024, &mut notes);
    let centiseconds = |read: &mut Reader<'_>| {
        Ok::<_, String>(Nanos::from_millis(10 * read.integer(value, 1, 360_000)?))
    };
    match name {
        "memory" => host.memory = read.integer(value, 1 << 20, MEMORY_MAX)?,
        "dirty_ratio" => host.dirty_ratio = read.small(value, 1, 100)?,
        "dirty_background_ratio" => host.dirty_background_ratio = read.small(value, 0, 100)?,
        "dirty_expire_centisecs" => host.dirty_expire = centiseconds(&mut read)?,
        "dirty_writeback_centisecs" => host.dirty_writeback = centiseconds(&mut read)?,
        "copy_cost" => host.copy_cost = read.time(value, 1000)?,
        "journal" => host.journal.mode = journal(value)?,
        "journal_commit" => host.journal.commit = commit(value, &mut read)?,
        "journal_blocks" => host.journal.blocks = read.integer(value, 1024, JOURNAL_MAX)?,
        "delayed_allocation" => host.journal.delayed_allocation = value::boolean(value)?,
        _ => return Err(format!("there is no `{name}`; there are {NAMES}")),
    }
    Ok(())
}

fn journal(text: &str) -> Result<JournalMode, String> {
    match text {
        "none" => Ok(JournalMode::None),
        "ordered" => Ok(JournalMode::Ordered),
        _ => Err(format!("`{text}` is neither none nor ordered")),
    }
}

/// How old a transaction may become, like ext4's `commit=`; in seconds without a unit.
fn commit(text: &str, read: &mut Reader<'_>) -> Result<Nanos, String> {
    let time = read.time(text, 1_000_000_000)?;
    if time == Nanos::ZERO {
        return Err("it must be longer than nothing, as 5s".to_owned());
    }
    Ok(time)
}

/// `near`, `far`, `interleaved:SIZE` or `among:SIZE`.
pub fn placement(text: &str) -> Result<Placement, Failure> {
    let (word, piece) = text.split_once(':').unwrap_or((text, ""));
    let wrong = || {
        Failure::Request(format!(
            "--placement {text}: write near, far, interleaved:SIZE or among:SIZE with pieces of a \
             multiple of 4k up to 1g, as interleaved:64k"
        ))
    };
    match (word, piece) {
        ("near", "") => Ok(Placement::Near),
        ("far", "") => Ok(Placement::Far),
        ("interleaved" | "among", piece) => {
            let mut notes = Vec::new();
            let size = Reader::new(1024, &mut notes).integer(piece, 4096, 1 << 30);
            let size = size.ok().filter(|size| size.is_multiple_of(4096)).ok_or_else(wrong)?;
            Ok(if word == "among" { Placement::Among(size) } else { Placement::Interleaved(size) })
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is what a person writes read, and are mistakes named with the remedy?
    #[test]
    fn hosts_are_read() {
        let host = settings(&["memory=1g,dirty_ratio=40".to_owned()]).unwrap();
        assert_eq!((host.memory, host.dirty_ratio), (1 << 30, 40));
        let host = settings(&["dirty_expire_centisecs=100".to_owned()]).unwrap();
        assert_eq!(host.dirty_expire, Nanos::from_secs(1));
        let text = "journal=ordered,journal_commit=30,journal_blocks=1024,delayed_allocation=0";
        let journal = settings(&[text.to_owned()]).unwrap().journal;
        assert_eq!((journal.mode, journal.commit), (JournalMode::Ordered, Nanos::from_secs(30)));
        assert_eq!((journal.bytes(), journal.delayed_allocation), (4 << 20, false));
        for (text, words) in [
            ("swap=1g", "there are memory, dirty_ratio"),
            ("dirty_ratio=200", "from 1 to 100"),
            ("memory", "is not ATTRIBUTE=VALUE"),
            ("journal=data", "neither none nor ordered"),
            ("journal_commit=0", "longer than nothing"),
            ("journal_blocks=4", "from 1024 to"),
        ] {
            let Err(Failure::Request(message)) = settings(&[text.to_owned()]) else {
                panic!("{text}")
            };
            assert!(message.contains(words), "{message}");
        }
    }

    /// Are placements read, and others refused?
    #[test]
    fn placements_are_read() {
        assert!(matches!(placement("near"), Ok(Placement::Near)));
        assert!(matches!(placement("interleaved:64k"), Ok(Placement::Interleaved(65_536))));
        assert!(matches!(placement("among:8m"), Ok(Placement::Among(8_388_608))));
        for text in ["there", "far:1", "interleaved", "interleaved:5", "interleaved:2g", "among"] {
            assert!(matches!(placement(text), Err(Failure::Request(_))), "{text}");
        }
    }
}
