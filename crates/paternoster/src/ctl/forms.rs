// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forms: a server's answers in the formats that all commands have.
//!
//! ```text
//! {"devices": [{"device": "disk0", "depth": 8, "tenants": [{"name": "db", …}, …], …}, …]}
//!                                              └─ a table, a line for each, with its device
//! ```
//!
//! The figures are the server's, with its names and units; `table` has them as people read them,
//! `json` as they came. CSV is one table: that of the kind of thing that was asked about.

use paternoster_frame::results::{Results, field};
use paternoster_frame::sheet::Sheet;
use serde_json::Value;

use super::CtlOrder;
use super::units::harmless;

/// The answers to one order, but for its tables and its JSON.
pub(super) fn results(order: &CtlOrder, answers: &[Value]) -> Results {
    let (heading, list) = asked(order);
    let mut lines: Vec<Vec<(String, String)>> = Vec::new();
    let mut notes = Vec::new();
    for answer in answers {
        for device in devices(answer) {
            if let Some(why) = device.get("error") {
                notes.push(format!("{}: {}", cell(&device["device"]), cell(why)));
                continue;
            }
            let of = ("device".to_owned(), cell(&device["device"]));
            match list.map(|name| &device[name]) {
                Some(Value::Array(all)) => {
                    let each = all.iter().map(|line| [vec![of.clone()], cells(line)].concat());
                    lines.extend(each);
                }
                _ => lines.push(cells(device)),
            }
        }
        // Of the server itself: what a reload changed, that it stops.
        if answer.get("devices").is_none() {
            lines.push(cells(answer));
        }
    }
    let mut heads: Vec<&str> = Vec::new();
    for (name, _) in lines.iter().flatten() {
        if !heads.contains(&&**name) {
            heads.push(name);
        }
    }
    let mut sheet = Sheet::new(heads.len(), heads.iter().map(|head| (*head).to_owned()));
    let mut csv = heads.iter().map(|head| field(head)).collect::<Vec<_>>().join(",") + "\n";
    for line in &lines {
        let of = |head: &&str| line.iter().find(|(name, _)| name == head);
        let own: Vec<&str> =
            heads.iter().map(|head| of(head).map_or("", |(_, cell)| cell.as_str())).collect();
        csv += &(own.iter().map(|cell| field(cell)).collect::<Vec<_>>().join(",") + "\n");
        sheet.row(own.into_iter().map(str::to_owned).collect());
    }
    let sheets = vec![(heading.to_owned(), sheet)];
    Results { title: format!("server: {heading}"), sheets, notes, csv, ..Results::default() }
}

/// The kind of thing that was asked about, and its place in a device's answer.
fn asked(order: &CtlOrder) -> (&'static str, Option<&'static str>) {
    match order {
        CtlOrder::List | CtlOrder::Status => ("tenants", Some("tenants")),
        CtlOrder::Attributes => ("attributes", Some("attributes")),
        CtlOrder::Explain { .. } => ("levels", Some("levels")),
        _ => ("answer", None),
    }
}

fn devices(answer: &Value) -> &[Value] {
    answer["devices"].as_array().map_or(&[], Vec::as_slice)
}

/// The fields that are no lists of objects, in their order; the fields of an object after its name
/// and a dot.
fn cells(line: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, value) in line.as_object().into_iter().flatten() {
        let name = harmless(name);
        if value.is_object() {
            let within = cells(value).into_iter();
            all.extend(within.map(|(inner, text)| (format!("{name}.{inner}"), text)));
        } else if !value.as_array().is_some_and(|list| list.iter().any(Value::is_object)) {
            all.push((name, cell(value)));
        }
    }
    all
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => harmless(text),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Has each tenant a line with its device, whatever fields others have, a comma in a name no
    /// column, and a device that could not answer a note?
    #[test]
    fn tenants_are_lines() {
        let answer = json!({ "devices": [
            { "device": "a", "tenants": [{ "name": "x,y", "weight": 3 }, { "name": "z" }] },
            { "device": "b", "error": "it is gone" },
            { "device": "c", "tenants": [{ "name": "w", "weight": 1, "caps": [1, 2] }] },
            { "device": "d", "tenants": [{ "name": "v", "figures": { "read": { "ios": 7 } } }] },
        ]});
        let told = results(&CtlOrder::Status, &[answer]);
        let lines: Vec<&str> = told.csv.lines().collect();
        assert_eq!(lines.len(), 5, "{}", told.csv);
        assert!(lines.iter().any(|line| line.contains("\"x,y\"")), "{}", told.csv);
        assert_eq!(told.notes, ["b: it is gone"]);
        let widths = lines.iter().filter(|line| !line.contains('"')).map(|l| l.split(',').count());
        assert_eq!(widths.collect::<Vec<_>>(), [5; 4]);
        assert!(
            lines[0].ends_with(",figures.read.ios") && told.csv.ends_with(",7\n"),
            "{}",
            told.csv
        );
    }

    /// Is an order's answer a line, with what a reload changed in a cell?
    #[test]
    fn orders_are_lines() {
        let answer = json!({ "ok": true, "changed": ["a", "b"] });
        let told = results(&CtlOrder::Reload, &[answer]);
        assert_eq!(told.csv.lines().count(), 2);
        assert!(told.csv.contains("a; b"), "{}", told.csv);
    }
}
