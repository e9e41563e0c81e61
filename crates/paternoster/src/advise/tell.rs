// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tell: an advice as a table, Markdown, JSON or CSV.
//!
//! Table and Markdown have the same cells. A figure is the median of the seeds; a goal's cell has
//! the worst, too. JSON has all three of each spread, in ns, bytes and I/Os a second.

use comfy_table::ContentArrangement;
use serde_json::{Value, json};

use super::goal::Metric;
use super::verdict::{Advice, Row, Spread};
use crate::table::{align_right, plain_table, trimmed, wrapped};

/// The version of the document's schema: raised when a key goes or changes its meaning.
pub(crate) const SCHEMA: u32 = 1;
/// What marks the best row.
const MARK: &str = "*";

/// A figure with the unit that suits it.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    match metric {
        _ if !value.is_finite() => "-".to_owned(),
        Metric::Iops => scaled(value, &[(1e6, "M"), (1e3, "k"), (1.0, "")]),
        Metric::Bandwidth => {
            scaled(value, &[(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")])
        }
        Metric::Share => format!("{value:.2}"),
        _ => scaled(value, &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")]),
    }
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let last = units.len() - 1;
    let fits = |&(size, _): &(f64, &str)| value >= size * 0.9995;
    let (size, unit) = units[units.iter().position(fits).unwrap_or(last)];
    let figure = value / size;
    if figure >= 99.95 || (size <= 1.0 && figure.fract() == 0.0) {
        format!("{figure:.0}{unit}")
    } else {
        format!("{figure:.1}{unit}")
    }
}

fn heads(advice: &Advice) -> Vec<String> {
    let mut all = vec!["scheduler".to_owned()];
    all.extend(advice.question.goals.iter().map(|goal| goal.text.clone()));
    all.extend(["least share", "work %", "spread %"].map(str::to_owned));
    for (place, name) in advice.question.jobs.iter().enumerate() {
        all.extend([format!("{name}: IOPS"), "MB/s".to_owned(), "p99".to_owned()]);
        if syncs(advice, place) {
            all.push("sync p99".to_owned());
        }
        all.push("share".to_owned());
    }
    all
}

fn syncs(advice: &Advice, job: usize) -> bool {
    advice.rows.iter().any(|row| row.jobs[job].sync_p99.is_some())
}

fn cells(advice: &Advice, row: &Row) -> Vec<String> {
    let mut all = Vec::new();
    for (goal, kept) in advice.question.goals.iter().zip(&row.goals) {
        let verdict = if kept.miss <= 1.0 { "yes" } else { "no" };
        let [median, worst] = [kept.median, kept.worst].map(|one| value(goal.metric, one));
        all.push(format!("{verdict}: {median}, worst {worst}"));
    }
    let share = |spread: Option<Spread>| {
        value(Metric::Share, spread.map_or(f64::NAN, |spread| spread.median))
    };
    all.push(share(Some(row.share)));
    all.push(format!("{:.0}", 100.0 * row.work.median));
    all.push(format!("{:.0}", 100.0 * row.spread()));
    for (place, job) in row.jobs.iter().enumerate() {
        all.push(value(Metric::Iops, job.iops.median));
        all.push(format!("{:.1}", job.bandwidth.median / 1e6));
        all.push(value(Metric::P99, job.p99.median));
        if syncs(advice, place) {
            let sync = job.sync_p99.map_or(f64::NAN, |spread| spread.median);
            all.push(value(Metric::SyncP99, sync));
        }
        all.push(share(job.share));
    }
    all
}

/// What the columns are.
fn legend(advice: &Advice) -> String {
    format!(
        "Medians of {} seeds. share: what a client got divided by what it is entitled to, by \
         weight and demand; 1 is all of it; a job's is its least clone's. work: each client's rate \
         divided by what the device does of its kind of request when full, summed. spread: (most - \
         least) / median over the seeds, of the job's rate for which it is greatest.",
        advice.seeds
    )
}

pub(crate) fn text(advice: &Advice, bold: bool) -> String {
    let mut table = plain_table();
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut heads = heads(advice);
    heads.insert(0, String::new());
    table.set_header(&heads);
    align_right(&mut table, 2);
    for &place in &advice.order {
        let row = &advice.rows[place];
        let mark = if place == advice.order[0] { MARK } else { "" };
        let mut line = vec![mark.to_owned(), row.scheduler.clone()];
        line.extend(cells(advice, row));
        table.add_row(line);
    }
    let mut text = format!("device {}\n\n", advice.question.device);
    for (place, line) in trimmed(&table).lines().enumerate() {
        // The head is the first line, the best row the second.
        let own =
            if bold && place == 1 { format!("\x1b[1m{line}\x1b[0m") } else { line.to_owned() };
        text += &(own + "\n");
    }
    text += "\n";
    text += &wrapped(&advice.why);
    advice.changes.iter().for_each(|change| text += &wrapped(change));
    text + "\n" + &wrapped(&legend(advice))
}

pub(crate) fn markdown(advice: &Advice) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = heads(advice);
    let mut text = format!("|{}\n", "---|".repeat(heads.len()));
    text.insert_str(0, &line(heads));
    for &place in &advice.order {
        let row = &advice.rows[place];
        let mut all = vec![format!("`{}`", row.scheduler)];
        all.extend(cells(advice, row));
        if place == advice.order[0] {
            all.iter_mut().for_each(|cell| *cell = format!("**{cell}**"));
        }
        text += &line(all);
    }
    text += &format!("\n{}", wrapped(&advice.why));
    if !advice.changes.is_empty() {
        text.push('\n');
    }
    advice.changes.iter().for_each(|change| text += &wrapped(&format!("* {change}")));
    text
}

fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn spread(of: Spread) -> Value {
    let [least, median, most] = [of.least, of.median, of.most].map(number);
    json!({ "least": least, "median": median, "most": most })
}

/// The advice as one document.
pub(crate) fn document(advice: &Advice) -> Value {
    let question = &advice.question;
    let goals = question.goals.iter().map(|goal| {
        json!({ "goal": goal.text, "job": goal.job, "at_most": goal.at_most, "limit": goal.limit })
    });
    let row = |&place: &usize| {
        let row = &advice.rows[place];
        let jobs = question.jobs.iter().zip(&row.jobs).map(|(name, job)| {
            json!({
                "job": name,
                "iops": spread(job.iops),
                "bytes_per_second": spread(job.bandwidth),
                "p50_ns": spread(job.p50),
                "p99_ns": spread(job.p99),
                "p99.9_ns": spread(job.p999),
                "max_ns": spread(job.max),
                "sync_p99_ns": job.sync_p99.map(spread),
                "share": job.share.map(spread),
            })
        });
        let goals = question.goals.iter().zip(&row.goals).map(|(goal, kept)| {
            json!({
                "goal": goal.text,
                "met": kept.miss <= 1.0,
                "median": number(kept.median),
                "worst": number(kept.worst),
                "miss": number(kept.miss),
            })
        });
        json!({
            "scheduler": row.scheduler,
            "meets_goals": row.meets(),
            "least_share": spread(row.share),
            "work": spread(row.work),
            "spread": row.spread(),
            "goals": goals.collect::<Vec<Value>>(),
            "jobs": jobs.collect::<Vec<Value>>(),
        })
    };
    json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "device": question.device,
        "seeds": advice.seeds,
        "goals": goals.collect::<Vec<Value>>(),
        "best": advice.best().scheduler,
        "why": advice.why,
        "changes": advice.changes,
        "schedulers": advice.order.iter().map(row).collect::<Vec<Value>>(),
    })
}

/// A line for each scheduler, the best first, and job.
pub(crate) fn csv(advice: &Advice) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let figure = |value: f64| number(value).map_or(String::new(), |value| format!("{value:.3}"));
    let mut text = "rank,scheduler,meets_goals,least_share,work,job,iops,bytes_per_second,p50_ns,\
                    p99_ns,p99.9_ns,max_ns,sync_p99_ns,share\n"
        .to_owned();
    for (rank, &place) in advice.order.iter().enumerate() {
        let row = &advice.rows[place];
        for (name, job) in advice.question.jobs.iter().zip(&row.jobs) {
            let head = [
                (rank + 1).to_string(),
                quoted(&row.scheduler),
                row.meets().to_string(),
                figure(row.share.median),
                figure(row.work.median),
                quoted(name),
            ];
            let known = |spread: Option<Spread>| spread.map_or(f64::NAN, |spread| spread.median);
            let figures = [
                job.iops.median,
                job.bandwidth.median,
                job.p50.median,
                job.p99.median,
                job.p999.median,
                job.max.median,
                known(job.sync_p99),
                known(job.share),
            ];
            let line: Vec<String> = head.into_iter().chain(figures.map(figure)).collect();
            text += &(line.join(",") + "\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has each figure the unit that suits it?
    #[test]
    fn units_adapt() {
        assert_eq!(value(Metric::P99, 4.61e6), "4.6 ms");
        assert_eq!(value(Metric::P99, 999_900.0), "1.0 ms");
        assert_eq!(value(Metric::Max, 250_000.0), "250 us");
        assert_eq!(value(Metric::Iops, 12_700.0), "12.7k");
        assert_eq!(value(Metric::Bandwidth, 2e8), "200 MB/s");
        assert_eq!(value(Metric::Share, 0.954), "0.95");
        assert_eq!(value(Metric::P99, f64::NAN), "-");
    }
}
