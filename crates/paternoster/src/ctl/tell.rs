// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: a server's answer as text for people.
//!
//! An order that was carried out prints only what it changed; a query prints tables. Devices that
//! could not answer become notes on standard error.

use paternoster_frame::Failure;
use paternoster_frame::table::{align_right, plain_table, trimmed, wrap_last};
use serde_json::Value;

use super::tree::tree;
use super::units::harmless;
use super::{CtlOrder, lines};

/// The text for standard output.
pub(super) fn answer(order: &CtlOrder, answer: &Value) -> Result<String, Failure> {
    let device: fn(&Value) -> Result<String, String> = match order {
        CtlOrder::List => |answer| Ok(lines::list(&lines::snapshot(answer)?)),
        CtlOrder::Status => |answer| Ok(lines::status(&lines::snapshot(answer)?)),
        CtlOrder::Attributes => |answer| Ok(attributes(answer)),
        CtlOrder::Explain { .. } => |answer| Ok(explain(answer)),
        CtlOrder::Get { .. } => return Ok(values(answer)),
        CtlOrder::Reload | CtlOrder::Save => return Ok(reload(answer)),
        CtlOrder::Weight { .. } => return Ok(weights(answer)),
        _ => return Ok(String::new()),
    };
    let mut text = String::new();
    for one in answered(answer) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&device(one).map_err(Failure::Job)?);
    }
    Ok(text)
}

/// Why some devices did not carry out the order, if others did.
pub(super) fn notes(answer: &Value) -> Vec<String> {
    let failed = devices(answer).iter().filter(|one| one.get("error").is_some());
    failed.map(|one| format!("{}: {}", text(one, "device"), text(one, "error"))).collect()
}

fn devices(answer: &Value) -> &[Value] {
    answer["devices"].as_array().map_or(&[], Vec::as_slice)
}

fn answered(answer: &Value) -> Vec<&Value> {
    devices(answer).iter().filter(|one| one.get("error").is_none()).collect()
}

/// A field as text; empty where there is none.
fn text(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::Null => String::new(),
        Value::String(text) => harmless(text),
        other => other.to_string(),
    }
}

/// A field as a number with this many decimals; empty where there is none.
fn number(value: &Value, name: &str, digits: usize) -> String {
    value[name].as_f64().map(|number| format!("{number:.digits$}")).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// An attribute's value, by device if there are several.
fn values(answer: &Value) -> String {
    let all = answered(answer);
    if let [one] = all[..] {
        return text(one, "value") + "\n";
    }
    let mut table = plain_table();
    for one in all {
        table.add_row([text(one, "device"), text(one, "value")]);
    }
    trimmed(&table)
}

/// A weight's old and new value, and its share of the device; empty if the server does not say.
fn weights(answer: &Value) -> String {
    let told = answered(answer).into_iter().filter(|one| one["before"].is_number());
    let line = |one: &Value| {
        format!(
            "{}: {}: weight {} -> {}, {} % of its level, {} % of the device\n",
            text(one, "device"),
            text(one, "name"),
            text(one, "before"),
            text(one, "weight"),
            number(one, "share_of_level_percent", 1),
            number(one, "share_of_device_percent", 1),
        )
    };
    told.map(line).collect()
}

/// What a reload has changed, and what only a restart will change, one per line.
fn reload(answer: &Value) -> String {
    let lines = |name| list(answer, name).iter().filter_map(Value::as_str).map(harmless);
    let later = lines("later").map(|line| format!("{line} (from the next start on)"));
    let all: Vec<String> = lines("changed").chain(later).chain(lines("notes")).collect();
    if all.is_empty() { "nothing is different\n".to_owned() } else { all.join("\n") + "\n" }
}

fn attributes(answer: &Value) -> String {
    let mut table = plain_table();
    table.set_header(["attribute", "value", "meaning"]);
    for line in list(answer, "attributes") {
        table.add_row([text(line, "name"), text(line, "value"), text(line, "meaning")]);
    }
    wrap_last(&mut table, 3, 24);
    format!("{}: {}\n\n{}", text(answer, "device"), text(answer, "elevator"), trimmed(&table))
}

fn explain(answer: &Value) -> String {
    let levels = list(answer, "levels");
    let texts: Vec<_> = levels
        .iter()
        .map(|line| (text(line, "name"), text(line, "parent"), line["kind"] == "group"))
        .collect();
    let names: Vec<(&str, &str, bool)> =
        texts.iter().map(|(name, parent, group)| (&**name, &**parent, *group)).collect();
    let mut table = plain_table();
    table.set_header(["tenant", "weight", "effective", "of level", "of device", "why"]);
    for place in tree(&names) {
        let line = &levels[place.line];
        let percent = |name: &str| match number(line, name, 1) {
            empty if empty.is_empty() => empty,
            number => number + " %",
        };
        let idle = if line["active"] == Value::Bool(false) { "asks for nothing now" } else { "" };
        let why = [idle.to_owned(), text(line, "why")];
        let why: Vec<_> = why.into_iter().filter(|part| !part.is_empty()).collect();
        let end = if names[place.line].2 { "/" } else { "" };
        table.add_row([
            format!("{}{}{end}", "  ".repeat(place.depth), names[place.line].0),
            text(line, "weight"),
            text(line, "effective"),
            percent("share_of_level_percent"),
            percent("share_of_device_percent"),
            why.join("; "),
        ]);
    }
    align_right(&mut table, 1);
    left(&mut table, 5);
    wrap_last(&mut table, 6, 24);
    let mut said = format!("{}\n\n{}", text(answer, "device"), trimmed(&table));
    let waiting = list(answer, "waiting");
    if waiting.is_empty() {
        return said + "\nNobody waits.\n";
    }
    let mut table = plain_table();
    table.set_header(["waiting", "connection", "for ms", "why"]);
    for line in waiting {
        let connection = match text(line, "connection") {
            name if line["connection"].is_number() => format!("#{name}"),
            name => name,
        };
        table.add_row([
            text(line, "tenant"),
            connection,
            number(line, "for_ms", 3),
            text(line, "why"),
        ]);
    }
    align_right(&mut table, 2);
    left(&mut table, 3);
    wrap_last(&mut table, 4, 24);
    said = said + "\n" + &trimmed(&table);
    said
}

/// Aligns texts left.
fn left(table: &mut comfy_table::Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(order: &CtlOrder, value: &Value) -> String {
        answer(order, value).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Does an explanation show the tree, the shares and what waits?
    #[test]
    fn an_explanation() {
        let level = |name: &str, parent: &str, kind: &str, of_device: f64, active: bool| {
            json!({
                "name": name, "parent": parent, "kind": kind, "weight": 100, "effective": 200,
                "why": "floor 50 %", "share_of_level_percent": 66.666,
                "share_of_device_percent": of_device, "active": active
            })
        };
        let value = json!({ "ok": true, "devices": [{
            "device": "disk0",
            "levels": [
                level("gold", "", "group", 66.666, true),
                level("web", "", "tenant", 0.0, false),
                level("db", "gold", "tenant", 44.4, true),
            ],
            "waiting": [{
                "tenant": "db", "connection": 12, "why": "its queue waits for its turn",
                "for_ms": 3.25
            }],
        }]});
        let expected = "\
disk0

 tenant  weight  effective  of level  of device  why
 gold/      100        200    66.7 %     66.7 %  floor 50 %
   db       100        200    66.7 %     44.4 %  floor 50 %
 web        100        200    66.7 %      0.0 %  asks for nothing now; floor 50 %

 waiting  connection  for ms  why
 db       #12          3.250  its queue waits for its turn
";
        assert_eq!(told(&CtlOrder::Explain { tenant: None }, &value), expected);
    }

    /// Is a value printed alone for one device, and with names for several?
    #[test]
    fn values_of_an_attribute() {
        let order = CtlOrder::Get { attribute: "hz".to_owned() };
        let one = json!({ "devices": [{ "device": "a", "name": "hz", "value": "250" }] });
        assert_eq!(told(&order, &one), "250\n");
        let two = json!({ "devices": [
            { "device": "a", "value": "250" },
            { "device": "b", "error": "there is none" },
            { "device": "c", "value": 100 },
        ] });
        assert_eq!(told(&order, &two), " a  250\n c  100\n");
        assert_eq!(notes(&two), ["b: there is none"]);
    }

    /// Is a new weight shown with the old one, and with its share?
    #[test]
    fn a_weight() {
        let order = CtlOrder::Weight { name: "db".to_owned(), weight: 300 };
        let value = json!({ "ok": true, "devices": [{
            "device": "disk0", "name": "db", "before": 100, "weight": 300,
            "share_of_level_percent": 75.0, "share_of_device_percent": 37.5
        }]});
        let expected = "disk0: db: weight 100 -> 300, 75.0 % of its level, 37.5 % of the device\n";
        assert_eq!(told(&order, &value), expected);
    }

    /// Does a reload say what it changed and what it did not?
    #[test]
    fn a_reload() {
        let value = json!({
            "ok": true, "changed": ["tenant.a.weight: 1 -> 2"],
            "later": ["device.d.depth: 8 -> 9"], "notes": []
        });
        let expected = "tenant.a.weight: 1 -> 2\ndevice.d.depth: 8 -> 9 (from the next start on)\n";
        assert_eq!(told(&CtlOrder::Reload, &value), expected);
        assert_eq!(told(&CtlOrder::Reload, &json!({ "ok": true })), "nothing is different\n");
    }

    /// Are attributes printed with their meanings, and do orders print nothing?
    #[test]
    fn attributes_and_orders() {
        let value = json!({ "devices": [{ "device": "a", "elevator": "bfq", "attributes": [
            { "name": "hz", "value": "250", "meaning": "ticks a second" }
        ] }] });
        let expected = "a: bfq\n\n attribute  value  meaning\n hz         250    ticks a second\n";
        assert_eq!(told(&CtlOrder::Attributes, &value), expected);
        assert_eq!(told(&CtlOrder::Stop, &json!({ "ok": true })), "");
    }
}
