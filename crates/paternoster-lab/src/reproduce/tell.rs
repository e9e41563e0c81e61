// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: an experiment's figures as an aligned table, and as JSON.
//!
//! ```text
//! figure            unit  published  reproduced  difference %  tolerance  verdict
//! cfq, 8 readers    kB/s     129807      128000          -1.4    ± 15 %   ok
//! ```

use paternoster_frame::results::{self, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::wrapped;
use serde_json::{Value, json};

use super::experiment::{Experiment, Judge, Reading, Results};
use super::tally::{self, Tally};
use super::verdict::{Row, rows};

/// Experiments with figures outside, for the last line.
pub(crate) fn outside(experiment: &Experiment, results: &Results) -> Vec<String> {
    let rows = rows(experiment, results);
    let outside = rows.iter().filter(|row| row.verdict.is_outside());
    outside.map(|row| format!("{}: {}", experiment.name, row.figure.label)).collect()
}

/// The experiment with its table, notes and conclusion.
pub(crate) fn text(experiment: &Experiment, results: &Results) -> String {
    let Experiment { name, summary, source, notes, .. } = experiment;
    let mut text = format!("{name}: {summary}\n{source}\n\n{}", sheet(experiment, results).text());
    if let Some(sentence) = Tally::of(&rows(experiment, results)).sentence() {
        text.push('\n');
        text.push_str(&wrapped(&sentence));
    }
    for note in *notes {
        text.push('\n');
        text.push_str(&wrapped(&format!("Note: {note}")));
    }
    for sentence in (experiment.conclude)(results) {
        text.push('\n');
        text.push_str(&wrapped(&sentence));
    }
    text
}

/// How many figures each source published, and how many are close.
pub(crate) fn tallies(told: &[(&Experiment, Results)]) -> Sheet {
    let each = told.iter().map(|(experiment, results)| {
        let rows = rows(experiment, results);
        (experiment.name, Tally::of(&rows))
    });
    tally::sheet(&each.collect::<Vec<_>>())
}

/// All of them, for the other forms.
pub(crate) fn results(told: &[(&Experiment, Results)]) -> results::Results {
    let mut csv =
        String::from("experiment,figure,unit,published,reproduced,difference_percent,verdict\n");
    for (experiment, found) in told {
        for row in rows(experiment, found) {
            let figure = row.figure;
            let reading = |reading: Option<&Reading>| match reading {
                None => String::new(),
                Some(Reading::Number(number)) => number.to_string(),
                Some(Reading::Text(text)) => text.clone(),
            };
            let readings = [figure.published.as_ref(), row.reproduced.as_ref()].map(reading);
            let off = row.difference.map_or(String::new(), |off| format!("{off:.3}"));
            let [published, reproduced] = &readings;
            let verdict = row.verdict.text();
            let fields: [&str; 7] =
                [experiment.name, &figure.label, figure.unit, published, reproduced, &off, verdict];
            csv += &(fields.map(field).join(",") + "\n");
        }
    }
    let sheets = told.iter().map(|(experiment, found)| {
        let Experiment { name, summary, source, .. } = experiment;
        (format!("{name}: {summary} ({source})"), sheet(experiment, found))
    });
    let notes = told.iter().flat_map(|(experiment, found)| {
        let notes = experiment.notes.iter().map(|note| format!("{}: {note}", experiment.name));
        notes.chain((experiment.conclude)(found))
    });
    let all: Vec<Value> = told.iter().map(|(experiment, found)| json(experiment, found)).collect();
    results::Results {
        title: "published experiments, done again".to_owned(),
        sheets: sheets.chain([("Published figures".to_owned(), tallies(told))]).collect(),
        notes: notes.collect(),
        csv,
        document: results::document("reproduce", json!({ "experiments": all })),
        ..results::Results::default()
    }
}

fn sheet(experiment: &Experiment, results: &Results) -> Sheet {
    let titles = ["figure", "unit", "published", "reproduced", "diff %", "tolerance", "verdict"];
    let mut sheet = Sheet::new(2, titles).words_again_from(5);
    for row in rows(experiment, results) {
        if row.figure.apart {
            sheet.row(vec![String::new(); titles.len()]);
        }
        let off = row.difference.map_or(String::new(), |off| format!("{off:+.1}"));
        sheet.row(vec![
            row.figure.label.clone(),
            row.figure.unit.to_owned(),
            shown(row.figure.published.as_ref()),
            row.reproduced.as_ref().map_or("missing".to_owned(), |found| shown(Some(found))),
            off,
            tolerance(row.figure.judge),
            row.verdict.text().to_owned(),
        ]);
    }
    sheet
}

fn shown(reading: Option<&Reading>) -> String {
    match reading {
        None => "-".to_owned(),
        Some(Reading::Text(text)) => text.clone(),
        Some(Reading::Number(number)) => digits(*number),
    }
}

/// About four digits, whole numbers above a thousand; what was published whole stays whole.
pub(crate) fn digits(number: f64) -> String {
    let decimals = match number.abs() {
        size if size >= 1000.0 || number.fract() == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

fn tolerance(judge: Judge) -> String {
    match judge {
        Judge::Within(per_cent) => format!("± {per_cent} %"),
        Judge::AtLeast(least) => format!(">= {}", digits(least)),
        Judge::Below(bound) => format!("< {}", digits(bound)),
        Judge::Between(least, most) => format!("{} to {}", digits(least), digits(most)),
        Judge::Same => "the same".to_owned(),
        Judge::Shown => String::new(),
    }
}

/// One experiment as JSON. Numbers are not rounded.
pub(crate) fn json(experiment: &Experiment, results: &Results) -> Value {
    let rows = rows(experiment, results);
    let runs = experiment.runs.iter().map(|run| {
        json!({
            "name": run.name,
            "command": super::command::line(run),
            "measured": results.0.get(&run.name).map(|found| &found.numbers),
            "told": results.0.get(&run.name).map(|found| &found.texts),
        })
    });
    json!({
        "name": experiment.name,
        "summary": experiment.summary,
        "source": experiment.source,
        "ok": !rows.iter().any(|row| row.verdict.is_outside()),
        "tally": Tally::of(&rows).json(),
        "figures": rows.iter().map(figure).collect::<Vec<Value>>(),
        "notes": experiment.notes,
        "conclusion": (experiment.conclude)(results),
        "runs": runs.collect::<Vec<Value>>(),
    })
}

fn figure(row: &Row<'_>) -> Value {
    let figure = row.figure;
    let value = |reading: Option<&Reading>| match reading {
        None => Value::Null,
        Some(Reading::Number(number)) => json!(number),
        Some(Reading::Text(text)) => json!(text),
    };
    json!({
        "figure": figure.label,
        "unit": figure.unit,
        "source": figure.source,
        "published": value(figure.published.as_ref()),
        "reproduced": value(row.reproduced.as_ref()),
        "difference_percent": row.difference,
        "tolerance": tolerance(figure.judge),
        "judged": figure.judge != Judge::Shown,
        "fitted": figure.fitted,
        "verdict": row.verdict.text(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::experiment::{Device, Figure, Measured, Run, Workload, of, ratio};
    use super::*;

    /// One run that measured 1471 kB/s and 12.5 ms.
    fn made_up() -> (Experiment, Results) {
        let x = || of("run", "kB/s");
        let experiment = Experiment {
            name: "made-up",
            summary: "a table for a test",
            source: "nowhere, never",
            notes: &["Nothing was measured."],
            runs: vec![Run::new("run", Workload::Listing, Device::Named("null"), "noop")],
            figures: vec![
                Figure::new("4 KiB reader", "kB/s", x())
                    .published(1485.0, "table 1")
                    .judged(Judge::Within(4.0))
                    .fitted(true),
                Figure::new("by latency", "", ratio(x(), of("run", "ms")))
                    .judged(Judge::Below(100.0)),
                Figure::new("latency", "ms", of("run", "ms")),
            ],
            conclude: |_| vec!["So it is.".to_owned()],
        };
        let numbers = [("kB/s", 1471.0), ("ms", 12.5)];
        let numbers = numbers.map(|(name, value)| (name.to_owned(), value)).into();
        let measured = Measured { numbers, ..Measured::default() };
        (experiment, Results([("run".to_owned(), measured)].into()))
    }

    /// Does the table line up, with published values, results and verdicts? 1471 / 1485 is 0.9 %
    /// less; 1471 / 12.5 is 117.7.
    #[test]
    fn the_table_lines_up() {
        let (experiment, results) = made_up();
        let expected = "\
made-up: a table for a test
nowhere, never

 figure        unit  published  reproduced  diff %  tolerance  verdict
 4 KiB reader  kB/s       1485        1471    -0.9  ± 4 %      ok, fitted
 by latency                  -       117.7          < 100      outside
 latency       ms            -       12.50                     shown

Published figures: 1; 1 judged, 1 fitted. Within 5 %: 1, 15 %: 1, 50 %: 1. Judged and not fitted: 0,
of which within 15 %: 0.

Note: Nothing was measured.

So it is.
";
        assert_eq!(text(&experiment, &results), expected);
        assert_eq!(outside(&experiment, &results), ["made-up: by latency"]);
    }

    /// Does the JSON have the figures unrounded, and one word for whether all is well?
    #[test]
    fn json_has_everything() {
        let (experiment, results) = made_up();
        let json = json(&experiment, &results);
        assert_eq!(json["ok"], false);
        let figure = &json["figures"][0];
        assert_eq!(figure["published"], 1485.0);
        assert_eq!(figure["verdict"], "ok, fitted");
        assert_eq!((&figure["judged"], &figure["fitted"]), (&json!(true), &json!(true)));
        assert_eq!(json["figures"][2]["published"], Value::Null);
        assert_eq!(json["conclusion"][0], "So it is.");
        assert_eq!(json["runs"][0]["measured"]["ms"], 12.5);
    }

    /// Are numbers rounded to what is worth reading?
    #[test]
    fn numbers_have_about_four_digits() {
        for (number, text) in
            [(12_224.4, "12224"), (267.008, "267.0"), (16.04, "16.04"), (7.478, "7.478")]
        {
            assert_eq!(digits(number), text);
        }
        assert_eq!((digits(761.0).as_str(), digits(0.0).as_str()), ("761", "0"));
    }
}
