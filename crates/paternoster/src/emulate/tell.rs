// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: what is emulated, and how precise it was.
//!
//! ```text
//!         commands  set p50  set p99  served p50  served p99  late p50  late p99  p50 beside
//!                        ms       ms          ms          ms        us        us           %
//! read        1000    8.127    8.127       8.131       8.213       4.2      85.9        +0.0
//! ```
//!
//! Set is the model's time, served the time when the answer had been written, late the difference
//! of each command. The percentiles are of each column by itself.

use std::fmt::Write as _;

use paternoster_core::Nanos;
use paternoster_frame::table::{align_right, plain_table, trimmed};
use paternoster_serve::emulate::{Emulated, Emulation, Precision, Spread, Urgency};
use paternoster_serve::emulate::{expected, typical_read};
use serde_json::{Value, json};

/// What is emulated, where, and how precise it will be.
pub(super) fn started(emulated: &Emulated, emulation: &Emulation) -> String {
    let Emulated { device, data, .. } = emulated;
    let mut text = String::new();
    let data = data.as_ref().map_or("memory".to_owned(), |file| file.display().to_string());
    let (name, file, size) = (&device.name, emulation.file().display(), emulation.size());
    // Writing to a String cannot fail.
    let _written = writeln!(text, "paternoster: {name} is {file}, {size} bytes, data in {data}");
    let read = typical_read(device);
    let overhead = emulation.precision().overhead;
    let hope = match expected(read) {
        Some(hope) => format!("medians {hope} are to be expected"),
        None => "below 500 us an emulation is not precise".to_owned(),
    };
    let _written = writeln!(text, "paternoster: a random read of 4 KiB takes {read}: {hope}");
    let urgency = match emulation.urgency() {
        Urgency::RealTime => "its threads run in real time",
        Urgency::Usual => "its threads are late when the machine is busy (only root may hurry)",
    };
    let _written =
        writeln!(text, "paternoster: the way there and back, {overhead}, is taken off; {urgency}");
    text
}

/// How precise it was, as a table.
pub(super) fn table(precision: &Precision) -> String {
    if precision.commands == 0 {
        return "no commands\n".to_owned();
    }
    let mut table = plain_table();
    table.set_header([
        "",
        "commands",
        "set p50\nms",
        "set p99\nms",
        "served p50\nms",
        "served p99\nms",
        "late p50\nus",
        "late p99\nus",
        "p50 beside\n%",
    ]);
    let mut row = |name: &str, commands: u64, set: Spread, served: Spread, late: Spread| {
        table.add_row([
            name.to_owned(),
            commands.to_string(),
            in_ms(set.p50),
            in_ms(set.p99),
            in_ms(served.p50),
            in_ms(served.p99),
            in_us(late.p50),
            in_us(late.p99),
            beside(set.p50, served.p50),
        ]);
    };
    for kind in &precision.kinds {
        row(kind.name, kind.commands, kind.set, kind.served, kind.late);
    }
    if precision.kinds.len() > 1 {
        row("all", precision.commands, precision.set, precision.served, precision.late);
    }
    align_right(&mut table, 1);
    trimmed(&table)
}

fn in_ms(time: Nanos) -> String {
    format!("{:.3}", time.0 as f64 / 1e6)
}

fn in_us(time: Nanos) -> String {
    format!("{:.1}", time.0 as f64 / 1e3)
}

/// The difference of the served time from the set one, in percent of the set one.
fn beside(set: Nanos, served: Nanos) -> String {
    // Relative to next to nothing everything is a multiple.
    if set < Nanos::from_micros(10) {
        return "-".to_owned();
    }
    format!("{:+.1}", (served.0 as f64 - set.0 as f64) * 100.0 / set.0 as f64)
}

/// The same as JSON, times in nanoseconds.
pub(super) fn json(emulated: &Emulated, precision: &Precision) -> String {
    let Precision { commands, set, served, late, overhead, kinds } = precision;
    let kinds: serde_json::Map<String, Value> = kinds
        .iter()
        .map(|kind| {
            (kind.name.to_owned(), figures(kind.commands, kind.set, kind.served, kind.late))
        })
        .collect();
    let told = json!({
        "device": emulated.device.name,
        "model": emulated.device.model_name(),
        "typical_read_ns": typical_read(&emulated.device).0,
        "crossing_ns": overhead.0,
        "all": figures(*commands, *set, *served, *late),
        "kinds": kinds,
    });
    format!("{told:#}\n")
}

fn figures(commands: u64, set: Spread, served: Spread, late: Spread) -> Value {
    let spread = |spread: Spread| json!({ "p50_ns": spread.p50.0, "p99_ns": spread.p99.0 });
    json!({
        "commands": commands,
        "set": spread(set),
        "served": spread(served),
        "late": spread(late),
    })
}

#[cfg(test)]
mod tests {
    use paternoster_serve::emulate::KindPrecision;

    use super::*;

    fn spread(p50: u64, p99: u64) -> Spread {
        Spread { p50: Nanos::from_micros(p50), p99: Nanos::from_micros(p99) }
    }

    fn precision() -> Precision {
        let (set, served, late) = (spread(8_000, 9_000), spread(8_400, 9_900), spread(400, 900));
        let read = KindPrecision { name: "read", commands: 3, set, served, late };
        let flush = KindPrecision { name: "flush", commands: 1, ..read };
        let overhead = Nanos::from_micros(20);
        Precision { commands: 4, set, served, late, overhead, kinds: vec![read, flush] }
    }

    /// Does the table say what was measured, a row for each kind and one for all? 8.4 ms instead of
    /// 8 are 5 % more.
    #[test]
    fn a_table_by_hand() {
        let table = table(&precision());
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let figures = ["8.000", "9.000", "8.400", "9.900", "400.0", "900.0", "+5.0"];
        for (line, name, commands) in [(2, "read", "3"), (3, "flush", "1"), (4, "all", "4")] {
            assert_eq!(lines[line], [&[name, commands], &figures[..]].concat(), "{table}");
        }
        assert_eq!(super::table(&Precision::default()), "no commands\n");
    }

    /// Does the JSON say the same?
    #[test]
    fn json_by_hand() {
        let device = paternoster_sim::catalog::by_name("null").unwrap().unwrap();
        let (mount, data, size) = ("/".into(), None, None);
        let emulated = Emulated { device, mount, data, size, allow_other: false };
        let told: Value = serde_json::from_str(&json(&emulated, &precision())).unwrap();
        assert_eq!(told["all"]["served"]["p99_ns"], 9_900_000);
        assert_eq!(told["kinds"]["flush"]["commands"], 1);
        assert_eq!((&told["device"], &told["crossing_ns"]), (&json!("null"), &json!(20_000)));
    }
}
