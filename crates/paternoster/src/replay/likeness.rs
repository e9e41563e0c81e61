// SPDX-License-Identifier: MIT OR Apache-2.0
//! Likeness: how close a replay comes to the recording, so that no one trusts a what-if on a model
//! that does not fit.
//!
//! A recording was made under *one* scheduler on *one* device. Only the replay under that scheduler
//! can show whether the model is like the device, and the trace does not name it. So every replay
//! shows its differences from the recording, and the nearest is named:
//!
//! ```text
//!                       as recorded     none  bfq:low_latency=0
//! likeness  IOPS                   -85.6 %           +7.7 %
//!           mean                    +540 %            -11 %
//!           p99                     +310 %           +3.1 %
//! ```
//!
//! A replay's distance from the recording is its worst figure, as a factor: +540 % is 6.4 times,
//! and -50 % is 2 times. At recorded times (`timed`) the rate says nothing of the device, and only
//! latencies count.

use paternoster_frame::table::wrapped;
use paternoster_workload::replay::{Account, Figures, Manner};

/// A replay whose worst figure is further off than this factor does not fit.
const FITS: f64 = 1.25;

/// The figures that are compared.
const FIGURES: [&str; 3] = ["IOPS", "mean", "p99"];

/// The index of p99 among the percentiles of an account.
const P99: usize = 2;

/// By how many per cent the figures of a replay are above those recorded; `None` where the trace
/// does not have them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Likeness([Option<f64>; 3]);

impl Likeness {
    /// The likeness of a replay to its recording.
    pub(crate) fn of(recorded: &Account, replayed: &Account) -> Likeness {
        let (recorded, replayed) = (figures(&recorded.all), figures(&replayed.all));
        Likeness(std::array::from_fn(|nth| match (recorded[nth], replayed[nth]) {
            (Some(before), Some(now)) if before > 0.0 => Some((now / before - 1.0) * 100.0),
            _ => None,
        }))
    }

    /// Each figure's name with its difference.
    pub(crate) fn differences(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        FIGURES.into_iter().zip(self.0)
    }

    /// Its worst distance from the recording, as a factor of at least 1; `None` if the trace has no
    /// figure that counts.
    pub(crate) fn distance(&self, manner: Manner) -> Option<f64> {
        let counts = if manner == Manner::Timed { &self.0[1..] } else { &self.0[..] };
        let factors = counts.iter().flatten().map(|per_cent| {
            let factor = 1.0 + per_cent / 100.0;
            if factor >= 1.0 { factor } else { factor.recip() }
        });
        factors.reduce(f64::max)
    }

    /// Every figure that is known: `IOPS +7.7 %, mean -11.2 %`.
    fn told(&self) -> String {
        let known = self.differences().filter_map(|(name, off)| Some((name, off?)));
        let each: Vec<String> = known.map(|(name, off)| format!("{name} {off:+.1} %")).collect();
        each.join(", ")
    }
}

/// The sentence about all replays: which is nearest to the recording, and whether it is near
/// enough.
pub(crate) fn sentence(likenesses: &[(String, Likeness)], manner: Manner) -> Option<String> {
    let far = likenesses.iter().filter_map(|(label, of)| Some((label, of, of.distance(manner)?)));
    let (label, of, distance) = far.min_by(|one, other| one.2.total_cmp(&other.2))?;
    let verdict = if distance <= FITS {
        "If the recording was made under that scheduler, this model is like the device."
    } else {
        "No replay here is within 25 % of the recording: unless it was made under a scheduler that \
         is not among these, or with weights of cgroups, which no trace has, what they say is true \
         of the model and not of the device."
    };
    let text = format!("Likeness: nearest to the recording is {label} ({}). {verdict}", of.told());
    Some(wrapped(&text).trim_end().to_owned())
}

fn figures(of: &Figures) -> [Option<f64>; 3] {
    let timed = of.timed > 0;
    let p99 = super::tell::as_f64(of.percentiles[P99].0);
    [of.ios_per_second(), timed.then_some(of.mean), timed.then_some(p99)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which replay is nearest, and does it fit? `none` is off by 6.4 times in its mean, `bfq` by 1
    /// / 0.89 = 1.12 times, which fits; without `bfq` nothing does.
    #[test]
    fn the_nearest_is_named() {
        let none = ("none".to_owned(), Likeness([Some(-85.6), Some(540.0), Some(310.0)]));
        let bfq = ("bfq".to_owned(), Likeness([Some(7.7), Some(-11.0), Some(3.1)]));
        let both = sentence(&[none.clone(), bfq], Manner::Think).unwrap().replace('\n', " ");
        let start = "Likeness: nearest to the recording is bfq (IOPS +7.7 %, mean -11.0 %, p99 ";
        assert!(both.starts_with(start), "{both}");
        assert!(both.ends_with("this model is like the device."), "{both}");
        let one = sentence(&[none], Manner::Think).unwrap().replace('\n', " ");
        assert!(one.contains("nearest to the recording is none"), "{one}");
        assert!(one.contains("No replay here is within 25 %"), "{one}");
    }

    /// Does a rate given by the recording's times not count, and is nothing said where the trace
    /// has no figures? -85.6 % is 1 / 0.144 = 6.94 times; the mean alone is 1.1.
    #[test]
    fn only_what_tells_something_counts() {
        let of = Likeness([Some(-85.6), Some(10.0), None]);
        assert!((of.distance(Manner::Think).unwrap() - 1.0 / 0.144).abs() < 1e-9);
        assert!((of.distance(Manner::Timed).unwrap() - 1.1).abs() < 1e-9);
        let silent = Likeness([Some(0.0), None, None]);
        assert_eq!(silent.distance(Manner::Timed), None);
        assert_eq!(sentence(&[("x".to_owned(), silent)], Manner::Timed), None);
    }
}
