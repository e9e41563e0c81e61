// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fairness: how even shares are, as one number.
//!
//! ```text
//! 1.2 and 3.8      (1.2 + 3.8)^2 / (2 (1.2^2 + 3.8^2)) = 25 / 31.76 = 0.787
//! ```
//!
//! 1 is even, 1/n is all to one of n. Where nothing was shared there is no index.
//!
//! Source: R. Jain, D.-M. Chiu, W. Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984.

/// Jain's index of these shares; `None` if nothing was shared.
#[must_use]
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the index 1 for even shares, 1/n for all to one, that of the drawing in between, and none
    /// without shares, or where all are 0?
    #[test]
    fn jain_by_hand() {
        let is = |shares: &[f64], index: f64| {
            let told = jain(shares.iter().copied()).expect("something was shared");
            assert!((told - index).abs() < 5e-4, "{shares:?}: {told}");
        };
        is(&[2.0, 2.0, 2.0], 1.0);
        is(&[1.0, 0.0, 0.0, 0.0], 0.25);
        is(&[1.2, 3.8], 0.787);
        assert_eq!((jain([]), jain([0.0, 0.0])), (None, None));
    }
}
