// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tally: of the figures that a source published, how many are judged here and how many are close.
//!
//! An experiment whose few judged figures are `ok` may still differ from most of what was
//! published. So every experiment says how many figures it has, and how many lie within 5, 15 and
//! 50 %, judged or not; and a last row has the sum of all:
//! ```text
//!                 published  judged  fitted  within 5 %  15 %  50 %
//! flash-fairness         12      12       4          11    12    12
//! array-btt              36       2       0           3     4    13
//! ```
//!
//! # Invariants
//! I1  A figure within 5 % is within 15 and 50 too; none of the counts exceeds what was published.
//!
//! For a published 0 or text there are no percentages: it is within all, or within none.

use paternoster_frame::sheet::Sheet;
use serde_json::{Value, json};

use super::experiment::Reading;
use super::verdict::{Row, Verdict};

/// The distances in the output, in per cent.
const WITHIN: [f64; 3] = [5.0, 15.0, 50.0];

/// Counts of published figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    published: usize,
    judged: usize,
    fitted: usize,
    /// Within 5, 15 and 50 %.
    within: [usize; 3],
    /// Of those that are judged and were not fitted: how many there are, and how many are within 15
    /// %.
    predicted: [usize; 2],
}

impl Tally {
    pub(crate) fn of(rows: &[Row<'_>]) -> Tally {
        let mut tally = Tally::default();
        for row in rows {
            tally.count(row);
        }
        tally
    }

    fn count(&mut self, row: &Row<'_>) {
        let Some(published) = &row.figure.published else { return };
        let off = match (row.difference, &row.reproduced, published) {
            (Some(off), ..) => off.abs(),
            (None, Some(found), published) if found == published => 0.0,
            (None, Some(Reading::Number(found)), Reading::Number(0.0)) if *found == 0.0 => 0.0,
            _ => f64::INFINITY,
        };
        let judged = matches!(row.verdict, Verdict::Ok { .. } | Verdict::Outside { .. });
        self.published += 1;
        self.judged += usize::from(judged);
        self.fitted += usize::from(row.figure.fitted);
        for (count, within) in self.within.iter_mut().zip(WITHIN) {
            *count += usize::from(off <= within);
        }
        if judged && !row.figure.fitted {
            self.predicted[0] += 1;
            self.predicted[1] += usize::from(off <= 15.0);
        }
    }

    /// The sum of both.
    pub(crate) fn and(self, other: Tally) -> Tally {
        let Tally { published, judged, fitted, within, predicted } = other;
        Tally {
            published: self.published + published,
            judged: self.judged + judged,
            fitted: self.fitted + fitted,
            within: std::array::from_fn(|nth| self.within[nth] + within[nth]),
            predicted: std::array::from_fn(|nth| self.predicted[nth] + predicted[nth]),
        }
    }

    /// One experiment's, as a sentence; `None` if nothing was published.
    pub(crate) fn sentence(&self) -> Option<String> {
        let Tally { published, judged, fitted, within: [near, close, far], predicted } = self;
        (*published > 0).then(|| {
            format!(
                "Published figures: {published}; {judged} judged, {fitted} fitted. Within 5 %: \
                 {near}, 15 %: {close}, 50 %: {far}. Judged and not fitted: {}, of which within \
                 15 %: {}.",
                predicted[0], predicted[1]
            )
        })
    }

    pub(crate) fn json(&self) -> Value {
        let Tally { published, judged, fitted, within, predicted } = self;
        json!({
            "published": published,
            "judged": judged,
            "fitted": fitted,
            "within_5_percent": within[0],
            "within_15_percent": within[1],
            "within_50_percent": within[2],
            "judged_not_fitted": predicted[0],
            "judged_not_fitted_within_15_percent": predicted[1],
        })
    }
}

/// A row for each experiment with published figures, and one for all.
pub(crate) fn sheet(tallies: &[(&str, Tally)]) -> Sheet {
    let titles =
        ["experiment", "published", "judged", "fitted", "within 5 %", "15 %", "50 %", "predicted"];
    let mut sheet = Sheet::new(1, titles);
    let told = |name: &str, of: &Tally| {
        let counts = [of.published, of.judged, of.fitted, of.within[0], of.within[1], of.within[2]];
        let predicted = format!("{} of {}", of.predicted[1], of.predicted[0]);
        let counts = counts.iter().map(usize::to_string);
        std::iter::once(name.to_owned()).chain(counts).chain([predicted]).collect::<Vec<String>>()
    };
    let published = tallies.iter().filter(|(_, tally)| tally.published > 0);
    published.for_each(|(name, tally)| sheet.row(told(name, tally)));
    let all = tallies.iter().fold(Tally::default(), |sum, (_, tally)| sum.and(*tally));
    sheet.row(told("all", &all));
    sheet
}

#[cfg(test)]
mod tests {
    use super::super::experiment::{Figure, Judge, Measured, Results, of};
    use super::super::verdict::row;
    use super::*;

    type Case = (f64, Option<f64>, fn(Figure) -> Figure);

    /// Are figures counted by what they are and where they lie? For a published 100, is 103 within
    /// 5 %, are 112 and 88 within 15 %, 140 within 50 %, and is 200 in none? Is 0 for 0 within all
    /// and 1 for 0 in none, and do figures without a published one not count?
    #[test]
    fn figures_are_counted_by_their_distance() {
        let published = |value: f64, figure: Figure| figure.published(value, "table 1");
        let judged = |figure: Figure| figure.judged(Judge::Within(15.0));
        let plain = |figure: Figure| figure.judged(Judge::Shown);
        let cases: [Case; 8] = [
            (103.0, Some(100.0), judged),
            (112.0, Some(100.0), |figure| figure.judged(Judge::Within(15.0)).fitted(true)),
            (88.0, Some(100.0), judged),
            (140.0, Some(100.0), judged),
            (200.0, Some(100.0), plain),
            (0.0, Some(0.0), plain),
            (1.0, Some(0.0), plain),
            (7.0, None, |figure| figure.judged(Judge::AtLeast(1.0))),
        ];
        let mut sum = Tally::default();
        for (found, value, more) in cases {
            let mut measured = Measured::default();
            measured.numbers.insert("x".to_owned(), found);
            let results = Results([("run".to_owned(), measured)].into());
            let figure = Figure::new("a figure", "", of("run", "x"));
            let figure = more(value.map_or(figure.clone(), |value| published(value, figure)));
            sum = sum.and(Tally::of(&[row(&figure, &results)]));
        }
        let expected =
            Tally { published: 7, judged: 4, fitted: 1, within: [2, 4, 5], predicted: [3, 2] };
        assert_eq!(sum, expected);
        let sentence = sum.sentence().expect("some were published");
        assert!(sentence.starts_with("Published figures: 7; 4 judged, 1 fitted."), "{sentence}");
        assert_eq!(Tally::default().sentence(), None);
    }
}
