// SPDX-License-Identifier: MIT OR Apache-2.0
//! The alerts and the board of `packaging/monitoring`: does each metric that they name exist?

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use paternoster_serve::control::metrics::{Dialect, exposition};
use paternoster_serve::control::snapshot::{Figures, Snapshot, TenantLine, VolumeLine};
use serde_json::Value;

use crate::common::skipped;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).expect("it is there")
}

/// The names of all samples that a server exports.
fn told() -> BTreeSet<String> {
    let figures = Figures { latency_log2_us: vec![0, 1], ..Figures::default() };
    let line = |name: &str, is_group| TenantLine {
        name: name.to_owned(),
        is_group,
        figures: figures.clone(),
        ..TenantLine::default()
    };
    let snapshot = Snapshot {
        volumes: vec![VolumeLine::default()],
        tenants: vec![line("group", true), line("tenant", false)],
        errors: [(5, 1)].into(),
        ..Snapshot::default()
    };
    let text = exposition(&[("disk0".to_owned(), Some(snapshot))], Dialect::Prometheus);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| Some(line.split_once('{')?.0.to_owned())).collect()
}

/// Our metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter: char| !is_of_name(letter));
    words.filter(|word| word.starts_with("paternoster_")).map(str::to_owned).collect()
}

/// Does the server export every metric that an alert or a panel uses?
#[test]
fn every_metric_is_told() {
    let told = told();
    for (name, least) in [("paternoster.rules.yaml", 8), ("paternoster.grafana.json", 14)] {
        let named = named(&text(name));
        assert!(named.len() >= least, "{name}: {named:?}");
        let unknown: Vec<_> = named.difference(&told).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

/// Does every alert have what an operator needs, and is it explained in the documents?
#[test]
fn every_alert_is_whole() {
    let (rules, page) =
        (text("paternoster.rules.yaml"), include_str!("../../../../docs/serve/operation.md"));
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert_eq!(alerts.len(), 9);
    for alert in alerts {
        let name = alert.lines().next().unwrap_or_default();
        for key in ["expr: ", "severity: ", "summary: ", "description: "] {
            assert_eq!(alert.matches(key).count(), 1, "{key} of {name}");
        }
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in operation.md");
    }
}

/// Does promtool accept the rules; and does each alert fire when it should, and not before, in a
/// case of its own?
#[test]
fn every_alert_fires_in_time() {
    let cases = text("paternoster.rules.test.yaml");
    for alert in text("paternoster.rules.yaml").split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap_or_default();
        let expected: Vec<&str> = cases.split(&format!("- alertname: {name}\n")).skip(1).collect();
        let quiet = |case: &&&str| case.lines().nth(1) == Some("        exp_alerts: []");
        assert!(expected.iter().any(|case| quiet(&case)), "{name} is never quiet");
        assert!(!expected.iter().all(|case| quiet(&case)), "{name} never fires");
    }
    for (what, name) in
        [("check", "paternoster.rules.yaml"), ("test", "paternoster.rules.test.yaml")]
    {
        match Command::new("promtool").args([what, "rules"]).arg(file(name)).output() {
            Err(_) => skipped("promtool is not installed (Debian package prometheus)"),
            Ok(output) => assert!(output.status.success(), "{name}: {output:?}"),
        }
    }
}

/// Does Grafana accept the board: panels with unique ids that do not overlap, each with a query, a
/// data source that can be chosen, and existing variables?
#[test]
fn the_board_is_sound() {
    let text = text("paternoster.grafana.json");
    let board: Value = serde_json::from_str(&text).expect("JSON");
    assert!(board["title"].is_string() && board["uid"].is_string());
    assert!(board["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let variables: BTreeSet<String> = list(&board["templating"]["list"])
        .iter()
        .filter_map(|one| one["name"].as_str().map(str::to_owned))
        .collect();
    let panels = list(&board["panels"]);
    assert!(panels.len() >= 10);
    let (mut numbers, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in &panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(numbers.insert(panel["id"].as_u64()), "{title}");
        let at = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{title} is wider than the board");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title} lies upon another");
            }
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let targets = list(&panel["targets"]);
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let query = target["expr"].as_str().expect("a query");
            let count = |letter| query.matches(letter).count();
            assert_eq!(count('('), count(')'), "{query}");
            assert_eq!(count('{'), count('}'), "{query}");
            let used = query.split('$').skip(1).map(|rest| {
                rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()
            });
            for variable in used.flatten().filter(|name| !name.starts_with("__")) {
                assert!(variables.contains(variable), "${variable} of {title}");
            }
        }
    }
}
