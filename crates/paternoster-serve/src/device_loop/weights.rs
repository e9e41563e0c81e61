// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effective weights: floors, put into terms that every fair scheduler understands.
//!
//! A floor is a least part of what the siblings share, whatever their weights. It is enforced by
//! raising the weight of each sibling that would fall below: the elevator stays work-conserving,
//! and need not know about floors.
//!
//! ```text
//! weights 100, 100, 1 (floor 10 %)    shares 49.8, 49.8, 0.5 %: the third is below its floor
//! the third gets 10 %, the others share 90 %: weights 100, 100, 22.2; shares 45, 45, 10 %
//! all times ten, to keep the fraction: 1000, 1000, 222
//! ```
//!
//! Invariants: I1 siblings above their floors keep the ratios of their weights; I2 shares reach the
//! floors but for rounding, if these add up to at most 900 thousandths.

/// The largest weight that an elevator takes.
const MOST: u64 = 10_000;
/// Weights that were changed are scaled up to about this, so that rounding is below a thousandth.
const FINE: u64 = 1000;

/// A node among its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sibling {
    /// The weight, as configured or ordered.
    pub weight: u32,
    /// Least part, in thousandths; 0: none.
    pub floor: u16,
}

/// The weights that give each sibling at least its floor, in the order of `siblings`.
pub(super) fn effective(siblings: &[Sibling]) -> Vec<u32> {
    let mut raised = vec![false; siblings.len()];
    loop {
        let (total, floors) = totals(siblings, &raised);
        // Siblings that are not raised share what the raised leave: weight / total of (1000 -
        // floors).
        let below = siblings.iter().zip(&raised).position(|(sibling, &is_raised)| {
            let share = u64::from(sibling.weight) * (1000 - floors);
            !is_raised && share < u64::from(sibling.floor) * total
        });
        match below {
            Some(place) => raised[place] = true,
            None => break,
        }
    }
    if raised.iter().all(|&is_raised| !is_raised) {
        return siblings.iter().map(|sibling| sibling.weight).collect();
    }
    scaled(siblings, &raised)
}

/// Weights of the siblings that are not raised to a floor, and the floors of those that are.
fn totals(siblings: &[Sibling], raised: &[bool]) -> (u64, u64) {
    let (mut total, mut floors) = (0, 0);
    for (sibling, &is_raised) in siblings.iter().zip(raised) {
        if is_raised {
            floors += u64::from(sibling.floor);
        } else {
            total += u64::from(sibling.weight);
        }
    }
    (total, floors.min(999))
}

fn scaled(siblings: &[Sibling], raised: &[bool]) -> Vec<u32> {
    let (total, floors) = totals(siblings, raised);
    // In units of 1/(1000 - floors): each weight as an integer.
    let unit = 1000 - floors;
    let exact: Vec<u64> = siblings
        .iter()
        .zip(raised)
        .map(|(sibling, &is_raised)| {
            if is_raised {
                u64::from(sibling.floor) * total.max(1)
            } else {
                u64::from(sibling.weight) * unit
            }
        })
        .collect();
    let largest = exact.iter().copied().max().unwrap_or(1).max(1);
    let most = (largest / unit).clamp(FINE, MOST);
    exact
        .iter()
        .map(|&weight| {
            let weight = (weight * most + largest / 2) / largest;
            u32::try_from(weight.clamp(1, MOST)).unwrap_or(1)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn siblings(given: &[(u32, u16)]) -> Vec<Sibling> {
        given.iter().map(|&(weight, floor)| Sibling { weight, floor }).collect()
    }

    /// Does the example of the essay hold? 22.2 of 222.2 are 10 %.
    #[test]
    fn who_falls_below_its_floor_is_raised() {
        assert_eq!(effective(&siblings(&[(100, 0), (100, 0), (1, 100)])), [1000, 1000, 222]);
    }

    /// Do weights stay as they are where every floor is reached anyway?
    #[test]
    fn floors_that_are_reached_change_nothing() {
        assert_eq!(effective(&siblings(&[(100, 250), (300, 0)])), [100, 300]);
    }

    /// A single sibling with a floor has a weight.
    #[test]
    fn alone_is_alone() {
        assert_eq!(effective(&siblings(&[(1, 100)])), [1]);
    }

    proptest! {
        /// Does each sibling reach its floor, to two thousandths of all?
        #[test]
        fn everybody_reaches_its_floor(
            given in prop::collection::vec((1u32..1000, 0u16..100), 1..9)
        ) {
            let weights = effective(&siblings(&given));
            let total: u32 = weights.iter().sum();
            for (&(_, floor), &weight) in given.iter().zip(&weights) {
                let share = u64::from(weight) * 1000 / u64::from(total);
                prop_assert!(share + 2 >= u64::from(floor), "{weights:?}");
            }
        }
    }
}
