// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdict: a figure compared with its published value, and whether it is as it should be.
//!
//! | verdict | judged | fitted | meaning |
//! |---|---|---|---|
//! | ok | yes | no | within its tolerance |
//! | outside | yes | no | not; the command fails |
//! | ok, fitted; outside, fitted | yes | yes | the device was fitted to it, judged all the same |
//! | fitted | no | yes | the device was fitted to it |
//! | shown | no | no | whatever it is |
//!
//! A figure that no run has measured is a fault of the experiment: `outside`, if it is judged.

use super::experiment::{Experiment, Figure, Judge, Reading, Results, difference};

/// A row of the table, filled in.
#[derive(Debug, Clone)]
pub(crate) struct Row<'a> {
    pub(crate) figure: &'a Figure,
    /// `None` if nothing has measured it.
    pub(crate) reproduced: Option<Reading>,
    /// For numbers: by how many per cent it is above what was published.
    pub(crate) difference: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// The verdict on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok { fitted: bool },
    Outside { fitted: bool },
    Fitted,
    Shown,
}

impl Verdict {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Verdict::Ok { fitted: false } => "ok",
            Verdict::Ok { fitted: true } => "ok, fitted",
            Verdict::Outside { fitted: false } => "outside",
            Verdict::Outside { fitted: true } => "outside, fitted",
            Verdict::Fitted => "fitted",
            Verdict::Shown => "shown",
        }
    }

    pub(crate) const fn is_outside(self) -> bool {
        matches!(self, Verdict::Outside { .. })
    }
}

/// Every figure of an experiment, in its order.
pub(crate) fn rows<'a>(experiment: &'a Experiment, results: &Results) -> Vec<Row<'a>> {
    experiment.figures.iter().map(|figure| row(figure, results)).collect()
}

pub(super) fn row<'a>(figure: &'a Figure, results: &Results) -> Row<'a> {
    let reproduced = results.reading(&figure.quantity);
    let difference = match (&reproduced, &figure.published) {
        (Some(Reading::Number(found)), Some(Reading::Number(published))) if *published != 0.0 => {
            Some(difference(*found, *published))
        }
        _ => None,
    };
    let fitted = figure.fitted;
    let verdict = match (figure.judge, meets(figure, reproduced.as_ref(), difference)) {
        (Judge::Shown, _) if fitted => Verdict::Fitted,
        (Judge::Shown, _) => Verdict::Shown,
        (_, true) => Verdict::Ok { fitted },
        (_, false) => Verdict::Outside { fitted },
    };
    Row { figure, reproduced, difference, verdict }
}

/// Whether a figure meets its criterion. NaN (0 divided by 0) never does.
fn meets(figure: &Figure, found: Option<&Reading>, difference: Option<f64>) -> bool {
    match (figure.judge, found) {
        (Judge::Shown, _) => true,
        (Judge::Same, Some(found)) => figure.published.as_ref() == Some(found),
        (Judge::Within(most), Some(_)) => difference.is_some_and(|off| off.abs() <= most),
        (Judge::AtLeast(least), Some(Reading::Number(found))) => *found >= least,
        (Judge::Below(bound), Some(Reading::Number(found))) => *found < bound,
        (Judge::Between(least, most), Some(Reading::Number(found))) => {
            (least..=most).contains(found)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::experiment::{Measured, of};
    use super::*;

    fn verdict_of(found: f64, figure: impl Fn(Figure) -> Figure) -> &'static str {
        let mut measured = Measured::default();
        measured.numbers.insert("x".to_owned(), found);
        let results = Results([("run".to_owned(), measured)].into());
        row(&figure(Figure::new("a figure", "kB/s", of("run", "x"))), &results).verdict.text()
    }

    /// Is a figure judged by its tolerance, its bound included?
    #[test]
    fn judges_judge() {
        let within = |figure: Figure| figure.published(100.0, "table 1").judged(Judge::Within(4.0));
        assert_eq!(verdict_of(104.0, within), "ok");
        assert_eq!(verdict_of(95.9, within), "outside");
        for (judge, right, wrong) in [
            (Judge::AtLeast(0.9), 0.9, 0.89),
            (Judge::Below(0.6), 0.59, 0.6),
            (Judge::Between(0.0, 1.0), 0.0, 1.01),
            (Judge::AtLeast(0.0), 0.0, f64::NAN),
        ] {
            assert_eq!(verdict_of(right, |figure| figure.judged(judge)), "ok", "{judge:?}");
            assert_eq!(verdict_of(wrong, |figure| figure.judged(judge)), "outside", "{judge:?}");
        }
    }

    /// Is a published figure judged within 15 % if nothing else is said, and a longest call within
    /// a factor of 2?
    #[test]
    fn published_figures_are_judged() {
        let published = |figure: Figure| figure.published(100.0, "table 1");
        assert_eq!(verdict_of(115.0, published), "ok");
        assert_eq!(verdict_of(116.0, published), "outside");
        let narrower = |figure: Figure| published(figure.judged(Judge::Within(4.0)));
        assert_eq!(verdict_of(105.0, narrower), "outside");
        let longest = |figure: Figure| figure.longest(100.0, "table 1");
        assert_eq!([50.0, 200.0].map(|found| verdict_of(found, longest)), ["ok"; 2]);
        assert_eq!([49.0, 201.0].map(|found| verdict_of(found, longest)), ["outside"; 2]);
    }

    /// Does a fitted figure say so, judged or not?
    #[test]
    fn fitted_figures_say_so() {
        let published = |figure: Figure| figure.published(100.0, "table 1").judged(Judge::Shown);
        assert_eq!(verdict_of(120.0, published), "shown");
        assert_eq!(verdict_of(120.0, |figure| published(figure).fitted(true)), "fitted");
        let both = |figure| published(figure).fitted(true).judged(Judge::Within(15.0));
        assert_eq!(verdict_of(110.0, both), "ok, fitted");
        assert_eq!(verdict_of(120.0, both), "outside, fitted");
    }

    /// Is an unmeasured figure that is judged outside, and is a line judged by its letters?
    #[test]
    fn missing_figures_and_texts() {
        let missing = Figure::new("a figure", "", of("run", "y")).judged(Judge::AtLeast(0.0));
        assert!(row(&missing, &Results::default()).verdict.is_outside());
        let mut measured = Measured::default();
        measured.texts.insert("1".to_owned(), "./quantum:8".to_owned());
        let results = Results([("run".to_owned(), measured)].into());
        for (line, expected) in [("./quantum:8", "ok"), ("./quantum:4", "outside")] {
            let figure = Figure::new("line 1", "", of("run", "1")).line(line, "listing");
            assert_eq!(row(&figure, &results).verdict.text(), expected);
        }
    }
}
