// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sysfs: the queue folder of a device as one kernel lists it, and nothing that it lacks.
//!
//! `--grep` shows everything that can be set here, under sysfs's names. `--grep=2.6.34` shows what
//! `grep -r . .` printed in `/sys/block/*/queue` of that kernel, in its order: our own attributes
//! (`hz`, `ncq`, `rules`, …) are left out, and attributes that have no effect here show the value
//! that this kernel gives a disk.
//!
//! ```text
//! ours           ─┐
//! iosched/quantum ├─▶ ./iosched/quantum:8  …  ./nr_requests:128  …  ./max_segment_size:65536  …
//! constants      ─┘
//! ```
//!
//! Source: the listing in seed 001 (22 April 2010).

use std::collections::BTreeMap;

use paternoster_core::RequestQueue;

use crate::Failure;

/// The schedulers of 2.6.34 with their attributes, in the order of their listing.
const SCHEDULERS: &[(&str, &[&str])] = &[
    ("noop", &[]),
    ("deadline", &["read_expire", "write_expire", "writes_starved", "front_merges", "fifo_batch"]),
    (
        "cfq",
        &[
            "quantum",
            "fifo_expire_sync",
            "fifo_expire_async",
            "back_seek_max",
            "back_seek_penalty",
            "slice_sync",
            "slice_async",
            "slice_async_rq",
            "slice_idle",
            "low_latency",
            "group_isolation",
        ],
    ),
];

/// Where a line's value comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// Our attribute of the same name.
    Ours,
    /// All schedulers, the current one in brackets.
    Schedulers,
    /// What the kernel shows for a disk with sectors of 512 bytes and no discard.
    Constant(&'static str),
}

/// The queue's own lines, in the order of the listing.
const QUEUE: &[(&str, Origin)] = &[
    ("nr_requests", Origin::Ours),
    ("read_ahead_kb", Origin::Ours),
    // A model has one limit, and that is max_sectors_kb. This one is the adapter's: 65535 sectors.
    ("max_hw_sectors_kb", Origin::Constant("32767")),
    ("max_sectors_kb", Origin::Ours),
    ("max_segments", Origin::Ours),
    ("max_segment_size", Origin::Constant("65536")),
    ("scheduler", Origin::Schedulers),
    ("hw_sector_size", Origin::Constant("512")),
    ("logical_block_size", Origin::Constant("512")),
    ("physical_block_size", Origin::Constant("512")),
    ("minimum_io_size", Origin::Constant("512")),
    ("optimal_io_size", Origin::Constant("0")),
    ("discard_granularity", Origin::Constant("0")),
    ("discard_max_bytes", Origin::Constant("0")),
    ("discard_zeroes_data", Origin::Constant("0")),
    ("rotational", Origin::Ours),
    ("nomerges", Origin::Ours),
    ("rq_affinity", Origin::Constant("1")),
];

/// The queue folder as 2.6.34 lists it.
///
/// # Errors
/// That kernel does not have the current scheduler.
pub fn listing(queue: &RequestQueue) -> Result<String, Failure> {
    let present = queue.elevator_name();
    let Some((_, attributes)) = SCHEDULERS.iter().find(|(name, _)| *name == present) else {
        let names: Vec<&str> = SCHEDULERS.iter().map(|(name, _)| *name).collect();
        let message = format!("2.6.34 has no scheduler {present}; it has {}", names.join(", "));
        return Err(Failure::Request(message));
    };
    let mut ours = BTreeMap::new();
    queue.for_each_attribute(|path, _, value| {
        ours.insert(path.to_owned(), value.to_owned());
    });
    let mut text = String::new();
    for path in attributes.iter().map(|name| format!("iosched/{name}")) {
        text.push_str(&line(&path, ours.get(&path)));
    }
    for (path, origin) in QUEUE {
        let value = match origin {
            Origin::Ours => ours.get(*path).cloned(),
            Origin::Schedulers => Some(choice(present)),
            Origin::Constant(value) => Some((*value).to_owned()),
        };
        text.push_str(&line(path, value.as_ref()));
    }
    Ok(text)
}

/// Nothing for what we lack: a listing has no empty lines.
fn line(path: &str, value: Option<&String>) -> String {
    value.map_or_else(String::new, |value| format!("./{path}:{value}\n"))
}

fn choice(present: &str) -> String {
    let name = |name: &str| if name == present { format!("[{name}]") } else { name.to_owned() };
    SCHEDULERS.iter().map(|entry| name(entry.0)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use paternoster_core::DeviceFacts;

    use super::*;
    use crate::choice;

    fn shown(scheduler: &str) -> Result<String, Failure> {
        listing(&choice::queue(scheduler, DeviceFacts::default(), &[]).unwrap())
    }

    /// Is what the kernel has in its order, and what it lacks left out?
    #[test]
    fn only_what_the_kernel_has() {
        let text = shown("deadline").unwrap();
        let first: Vec<&str> = text.lines().take(6).collect();
        assert_eq!(first[0], "./iosched/read_expire:500");
        assert_eq!(first[4..], ["./iosched/fifo_batch:16", "./nr_requests:128"]);
        assert!(text.contains("\n./scheduler:noop [deadline] cfq\n"), "{text}");
        for own in ["hz", "ncq", "plug", "rules", "queue_depth"] {
            assert!(!text.contains(&format!("./{own}:")), "{own} is ours alone");
        }
        // 5 of the scheduler's and 18 of the queue's.
        assert_eq!(text.lines().count(), 23);
    }

    /// Does a later kernel's scheduler get an answer that names those it has?
    #[test]
    fn later_schedulers_are_refused() {
        let Err(Failure::Request(message)) = shown("kyber") else { panic!("not refused") };
        assert_eq!(message, "2.6.34 has no scheduler kyber; it has noop, deadline, cfq");
    }
}
