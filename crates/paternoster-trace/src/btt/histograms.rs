// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms: sizes of bios and requests, requests per unplug, times from Q to D.
//!
//! Source: BTT-25, BTT-26, BTT-33.

/// Sectors with a bucket of their own.
const SIZES: usize = 1024;
/// Upper ends of the buckets of times from Q to D, in ms; the last bucket has none.
const Q2D_MS: [u64; 9] = [5, 10, 25, 50, 75, 100, 250, 500, 1000];

/// How many I/Os there were of each size.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    buckets: Box<[u64]>,
}

impl Sizes {
    pub(super) fn new() -> Sizes {
        Sizes { buckets: vec![0; SIZES + 1].into() }
    }

    /// Counts a request of this many sectors.
    pub(super) fn add(&mut self, sectors: u64) {
        let bucket = usize::try_from(sectors.saturating_sub(1)).unwrap_or(SIZES).min(SIZES);
        self.buckets[bucket] += 1;
    }

    /// The file of bios (`Q`) or requests (`D`); only the former has a heading.
    pub(super) fn render(&self, what: char) -> String {
        let heading = if what == 'Q' { "# BTT histogram data\n" } else { "" };
        let mut text = format!("{heading}# {what} buckets\n");
        for (sectors, count) in (1..).zip(&self.buckets[..SIZES]) {
            text += &format!("{sectors:4} {count}\n");
        }
        let larger = self.buckets[SIZES];
        text + &format!("\n# {what} bucket for > {SIZES}\n{SIZES:4} {larger}\n")
    }
}

/// How many requests unplugs let go, in fives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unplugs([u64; 21]);

impl Unplugs {
    pub(super) fn add(&mut self, requests: u64) {
        self.0[usize::try_from(requests / 5).unwrap_or(20).min(20)] += 1;
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.into_iter().enumerate()
    }
}

/// How many bios took how long from Q to D.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueTimes([u64; Q2D_MS.len() + 1]);

impl QueueTimes {
    pub(super) fn add(&mut self, ns: u64) {
        let ms = ns / 1_000_000;
        self.0[Q2D_MS.iter().position(|end| ms < *end).unwrap_or(Q2D_MS.len())] += 1;
    }

    pub(super) fn extend(&mut self, other: &QueueTimes) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }

    /// The share of each bucket in percent; `None` if there are no values.
    #[expect(clippy::cast_precision_loss, reason = "shares, as btt has them")]
    pub(super) fn percent(&self) -> Option<[f64; Q2D_MS.len() + 1]> {
        let total: u64 = self.0.iter().sum();
        (total > 0).then(|| self.0.map(|count| 100.0 * count as f64 / total as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are sizes beyond the last bucket printed with the last number?
    #[test]
    fn sizes_beyond_have_the_last_number() {
        let mut sizes = Sizes::new();
        [1, 8, 8, 1024, 1025, u64::MAX].into_iter().for_each(|size| sizes.add(size));
        let text = sizes.render('D');
        assert!(text.starts_with("# D buckets\n   1 1\n   2 0\n"), "{text}");
        assert!(text.contains("\n   8 2\n"));
        assert!(text.ends_with("\n1024 1\n\n# D bucket for > 1024\n1024 2\n"), "{text}");
    }

    /// Are the bounds of the times' buckets excluded?
    #[test]
    fn times_fall_in_their_bucket() {
        let mut times = QueueTimes::default();
        [4_999_999, 5_000_000, 1_000_000_000, 999_999_999].into_iter().for_each(|t| times.add(t));
        let quarter = 25.0;
        let expected = [quarter, quarter, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, quarter, quarter];
        assert_eq!(times.percent(), Some(expected));
        assert_eq!(QueueTimes::default().percent(), None);
    }

    /// Are unplugs counted in fives, up to a hundred?
    #[test]
    fn unplugs_are_counted_in_fives() {
        let mut unplugs = Unplugs::default();
        [0, 4, 5, 100, u64::MAX].into_iter().for_each(|requests| unplugs.add(requests));
        let filled: Vec<(usize, u64)> = unplugs.lines().filter(|line| line.1 > 0).collect();
        assert_eq!(filled, [(0, 2), (1, 1), (20, 2)]);
    }
}
