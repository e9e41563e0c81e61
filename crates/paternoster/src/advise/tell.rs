// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: an advice as a table, Markdown, JSON or CSV.
//!
//! Table and Markdown have the same cells. A figure is the median of the seeds; a goal's cell also
//! has the worst. JSON has all three of each spread, in ns, bytes and I/Os a second.

use paternoster_frame::page::{self, Watched};
use paternoster_frame::results::{self, Results};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::{terminal_width, wrapped};
use paternoster_frame::units;
use serde_json::{Value, json};

use super::goal::Metric;
use super::verdict::{Advice, Row, Spread};

/// Marks the best row.
const MARK: &str = "*";

/// A figure with the unit that suits it.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    match metric {
        _ if !value.is_finite() => units::NONE.to_owned(),
        Metric::Iops => units::rate(value),
        Metric::Bandwidth => units::bandwidth(value),
        Metric::Share => format!("{value:.2}"),
        _ => units::time(value),
    }
}

fn heads(advice: &Advice) -> Vec<String> {
    let mut all = vec!["scheduler".to_owned()];
    all.extend(advice.question.goals.iter().map(|goal| goal.text.clone()));
    all.extend(["least share", "work", "spread"].map(str::to_owned));
    for (place, name) in advice.question.jobs.iter().enumerate() {
        all.extend([format!("{name}: IOPS"), "bandwidth".to_owned(), "p99".to_owned()]);
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
    all.push(format!("{:.0} %", 100.0 * row.work.median));
    all.push(format!("{:.0} %", 100.0 * row.spread()));
    for (place, job) in row.jobs.iter().enumerate() {
        all.push(value(Metric::Iops, job.iops.median));
        all.push(value(Metric::Bandwidth, job.bandwidth.median));
        all.push(value(Metric::P99, job.p99.median));
        if syncs(advice, place) {
            let sync = job.sync_p99.map_or(f64::NAN, |spread| spread.median);
            all.push(value(Metric::SyncP99, sync));
        }
        all.push(share(job.share));
    }
    all
}

/// Explains the columns.
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
    let mut heads = heads(advice);
    heads.insert(0, String::new());
    let mut sheet = Sheet::new(2, heads);
    for &place in &advice.order {
        let row = &advice.rows[place];
        let mark = if place == advice.order[0] { MARK } else { "" };
        let mark = format!("{mark}{}", advice.alike[place].map_or(String::new(), String::from));
        let mut line = vec![mark, row.scheduler.clone()];
        line.extend(cells(advice, row));
        sheet.row(line);
    }
    let mut text = format!("device {}\n\n", advice.question.device);
    for line in sheet.text_within(terminal_width()).lines() {
        let is_best = line.trim_start().starts_with(MARK);
        let own = if bold && is_best { format!("\x1b[1m{line}\x1b[0m") } else { line.to_owned() };
        text += &(own + "\n");
    }
    text += "\n";
    text += &wrapped(&advice.why);
    let sentences = advice.changes.iter().chain(&advice.identical);
    sentences.for_each(|change| text += &wrapped(change));
    let letters = match advice.identical.is_empty() {
        true => "",
        false => " Rows with the same letter in front had the same runs.",
    };
    text + "\n" + &wrapped(&(legend(advice) + letters))
}

pub(crate) fn markdown(advice: &Advice) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = heads(advice);
    let mut text = format!("|{}\n", "---|".repeat(heads.len()));
    text.insert_str(0, &line(heads));
    for &place in &advice.order {
        let row = &advice.rows[place];
        let letter = advice.alike[place].map_or(String::new(), |letter| format!(" ({letter})"));
        let mut all = vec![format!("`{}`{letter}", row.scheduler)];
        all.extend(cells(advice, row));
        if place == advice.order[0] {
            all.iter_mut().for_each(|cell| *cell = format!("**{cell}**"));
        }
        text += &line(all);
    }
    text += &format!("\n{}", wrapped(&advice.why));
    let sentences: Vec<&String> = advice.changes.iter().chain(&advice.identical).collect();
    if !sentences.is_empty() {
        text.push('\n');
    }
    sentences.iter().for_each(|sentence| text += &wrapped(&format!("* {sentence}")));
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
    let found = json!({
        "device": question.device,
        "seeds": advice.seeds,
        "goals": goals.collect::<Vec<Value>>(),
        "best": advice.best().scheduler,
        "why": advice.why,
        "changes": advice.changes,
        "identical": advice.identical,
        "schedulers": advice.order.iter().map(row).collect::<Vec<Value>>(),
    });
    results::document("compare", found)
}

/// The advice as one page.
pub(crate) fn page(advice: &Advice, watched: &[Watched]) -> String {
    let mut sheet = Sheet::new(1, heads(advice));
    for &place in &advice.order {
        let row = &advice.rows[place];
        let letter = advice.alike[place].map_or(String::new(), |letter| format!(" ({letter})"));
        let name = format!("{}{letter}", row.scheduler);
        sheet.row([name].into_iter().chain(cells(advice, row)).collect());
    }
    let sentences = advice.changes.iter().chain(&advice.identical).cloned();
    let results = Results {
        title: format!(
            "Which scheduler on {}? {}",
            advice.question.device,
            advice.best().scheduler
        ),
        headline: vec![advice.why.clone()],
        sheets: vec![("All that were tried".to_owned(), sheet)],
        notes: sentences.chain([legend(advice)]).collect(),
        ..Results::default()
    };
    page::render(&results, watched)
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
