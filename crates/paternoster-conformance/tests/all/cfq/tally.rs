// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often we decided as the kernel did, by class of decision, and why not.

use std::collections::BTreeMap;

/// At most this many differences of one cause are shown.
const EXAMPLES: usize = 3;

/// One class of decisions.
#[derive(Debug, Clone, Default)]
pub(super) struct Count {
    pub(super) decided: u64,
    pub(super) same: u64,
    /// For each cause: how many, and the first of them.
    pub(super) causes: BTreeMap<&'static str, (u64, Vec<String>)>,
}

/// All classes.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(pub(super) BTreeMap<&'static str, Count>);

impl Tally {
    pub(super) fn same(&mut self, class: &'static str) {
        let count = self.0.entry(class).or_default();
        count.decided += 1;
        count.same += 1;
    }

    pub(super) fn different(&mut self, class: &'static str, cause: &'static str, example: String) {
        let count = self.0.entry(class).or_default();
        count.decided += 1;
        let (times, examples) = count.causes.entry(cause).or_default();
        *times += 1;
        if examples.len() < EXAMPLES {
            examples.push(example);
        }
    }

    pub(super) fn add(&mut self, other: &Tally) {
        for (class, more) in &other.0 {
            let count = self.0.entry(class).or_default();
            count.decided += more.decided;
            count.same += more.same;
            for (cause, (times, examples)) in &more.causes {
                let sum = count.causes.entry(cause).or_default();
                sum.0 += times;
                sum.1.extend(examples.iter().cloned());
                sum.1.truncate(EXAMPLES);
            }
        }
    }

    /// Decisions of all classes.
    pub(super) fn decided(&self) -> u64 {
        self.0.values().map(|count| count.decided).sum()
    }

    /// Percentage of a class's decisions that are the same.
    pub(super) fn percent(&self, class: &str) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        self.0.get(class).map_or(100.0, |count| 100.0 * count.same as f64 / count.decided as f64)
    }

    /// As text, a class a line, its causes below it.
    pub(super) fn report(&self) -> String {
        let mut text = String::new();
        for (class, count) in &self.0 {
            let percent = self.percent(class);
            text += &format!("{class:32} {:7} {:7} {percent:8.3} %\n", count.decided, count.same);
            for (cause, (times, examples)) in &count.causes {
                text += &format!("    {times:6} {cause}\n");
                for example in examples {
                    text += &format!("           {example}\n");
                }
            }
        }
        text
    }
}
