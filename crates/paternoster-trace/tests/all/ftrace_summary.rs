// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of a running bfq (Linux 6.18) summed up: each number compared with one that was
//! counted without this crate, in the folder `bfq-decisions`, for each log, by
//!
//! ```text
//! zcat $f | awk '$7 != "m" {next} {q = $9}
//!   $10 == "add_request" {arrivals[q]++}
//!   /already in-service queue|set_in_service_queue/ {now = q}
//!   /set_in_service_queue/ {turns[q]++}
//!   /returned this queue/ {chosen = q; dispatches[q]++; if (q != now) injected[q]++}
//!   $10 == "bfqq_served" {if (chosen == q) {sectors[q] += $11; chosen = ""} else time[q] += $11}
//!   $10 == "expire" {expiries[q, substr($11, 2, 1)]++}'
//! ```

use paternoster_trace::ftrace::{Calls, Device, QueueName, QueueSummary, Reader, Summary};

use crate::common::recordings;

/// A queue's name; arrivals, dispatches, injected, sectors, time charged, turns; expiries.
type Row = (&'static str, [u64; 6], [u64; 5]);

const LOGS: [(&str, &[Row]); 7] = [
    (
        "disk_2seq_ll0",
        &[
            ("bfq3445S", [1193, 1193, 0, 305_408, 0, 17], [0, 0, 16, 0, 0]),
            ("bfq3446S", [1133, 1133, 0, 290_048, 0, 16], [0, 0, 15, 0, 0]),
        ],
    ),
    (
        "disk_coop_ll0",
        &[
            ("bfq3507S", [1, 1, 0, 128, 0, 1], [1, 0, 0, 0, 0]),
            ("bfq3508S", [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
            ("bfqSHARED-S", [344, 345, 0, 44_288, 251_260, 24], [0, 23, 0, 0, 0]),
        ],
    ),
    (
        "disk_seq_rand_ll0",
        &[
            ("bfq3460S", [336, 336, 0, 86_016, 0, 10], [0, 0, 4, 0, 5]),
            ("bfq3461S", [27, 27, 0, 216, 41_240, 9], [0, 1, 0, 3, 5]),
            ("bfqSHARED-S", [381, 381, 0, 50_168, 507_434, 26], [0, 26, 0, 0, 0]),
        ],
    ),
    (
        "disk_shallow_deep_ll0",
        &[
            ("bfq3475S", [23, 23, 0, 184, 37_167, 5], [0, 1, 0, 4, 0]),
            ("bfq3476S", [63, 63, 0, 8064, 68_887, 7], [0, 2, 0, 1, 4]),
            ("bfqSHARED-S", [391, 391, 0, 47_528, 503_359, 27], [0, 25, 1, 0, 0]),
        ],
    ),
    (
        "disk_starter_ll1",
        &[
            ("bfq3490S", [23, 23, 0, 5888, 0, 27], [0, 0, 4, 0, 23]),
            ("bfq3491S", [23, 23, 0, 5888, 0, 27], [0, 0, 4, 0, 23]),
            ("bfq3492S", [22, 22, 0, 5632, 0, 26], [0, 0, 4, 0, 22]),
            ("bfq3493S", [151, 151, 0, 4832, 0, 102], [0, 0, 3, 0, 98]),
            ("bfqSHARED-S", [450, 450, 0, 115_200, 3728, 189], [0, 0, 89, 0, 99]),
        ],
    ),
    (
        "ssd_5equal_rand_ll0",
        &[
            ("bfq3658S", [1, 1, 0, 8, 0, 1], [0, 0, 0, 0, 0]),
            ("bfqSHARED-S", [8245, 8245, 0, 65_960, 325_832, 24], [0, 24, 0, 0, 0]),
        ],
    ),
    (
        "ssd_5groups_rand_ll0",
        &[
            ("bfq3628S", [1085, 1085, 713, 8680, 85_541, 41], [0, 3, 1, 6, 31]),
            ("bfq3634S", [1109, 1109, 764, 8872, 78_172, 6], [0, 5, 0, 0, 1]),
            ("bfq3636S", [1293, 1293, 32, 10_344, 284_552, 25], [0, 18, 0, 0, 6]),
            ("bfq3643S", [791, 791, 771, 6328, 4340, 3], [0, 0, 0, 0, 2]),
            ("bfq3644S", [978, 978, 775, 7824, 47_278, 4], [0, 3, 0, 0, 0]),
        ],
    ),
];

fn row(&(name, numbers, expiries): &Row) -> ((Device, QueueName), QueueSummary) {
    let [arrivals, dispatches, injected, sectors, time_charged, turns] = numbers;
    let summary =
        QueueSummary { arrivals, dispatches, injected, sectors, time_charged, turns, expiries };
    ((Device { major: 7, minor: 0 }, QueueName::read(name).unwrap()), summary)
}

/// Are the numbers of every queue those that were counted by other means? The injections of the
/// log with groups are 3055.
#[test]
fn queues_of_the_recordings() {
    for (name, rows) in LOGS {
        let Some(text) = recordings::log(&format!("bfq-decisions/{name}.log.gz")) else { continue };
        let calls = Calls::new(Reader::new(text.as_bytes()));
        let summary: Summary = calls.collect::<Result<_, _>>().expect("a log without errors");
        println!("{name}: {summary}");
        assert!(summary.queues.iter().map(|(k, v)| (*k, *v)).eq(rows.iter().map(row)), "{name}");
        assert_eq!(summary.lines, text.lines().count() as u64);
        assert_eq!((summary.errors, summary.lost), (0, 0));
        assert_eq!(summary.others, QueueSummary::default());
    }
}
