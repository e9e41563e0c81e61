// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simplex: the least of a linear cost under linear equations, for a few dozen unknowns.
//!
//! ```text
//! least  c x   where   A x = b,  x >= 0,  b >= 0
//!
//!        x1  x2  s1 | b       a column enters that lowers the cost, the first one (Bland's rule:
//! row     1   2   1 | 4       no cycles); the row leaves that gets to zero first. Two phases: the
//! cost   -3  -5   0 | 0       first one finds a solution, by the sum of what the rows lack.
//! ```
//!
//! # Invariants
//! I1  Unknowns are never negative, beyond rounding.
//! I2  It ends: Bland's rule visits no basis twice.
//!
//! Source: Dantzig's simplex method, with Bland's rule (1977).

/// Less than this is zero.
const ZERO: f64 = 1e-9;

/// The least cost and its unknowns; `None` if the equations have no solution, or no least cost.
pub(super) fn least(cost: &[f64], rows: &[(Vec<f64>, f64)]) -> Option<(f64, Vec<f64>)> {
    let (unknowns, count) = (cost.len(), rows.len());
    let width = unknowns + count + 1;
    // One further unknown for each row is the amount that the row lacks.
    let mut table: Vec<Vec<f64>> = rows
        .iter()
        .enumerate()
        .map(|(nth, (factors, right))| {
            let mut row = factors.clone();
            row.resize(width, 0.0);
            (row[unknowns + nth], row[width - 1]) = (1.0, *right);
            row
        })
        .collect();
    let mut basis: Vec<usize> = (unknowns..unknowns + count).collect();
    let lacking: Vec<f64> =
        (0..width - 1).map(|column| if column < unknowns { 0.0 } else { 1.0 }).collect();
    descend(&mut table, &mut basis, &lacking, width - 1)?;
    if total(&table, &basis, &lacking) > 1e-7 {
        return None;
    }
    let mut own = cost.to_vec();
    own.resize(width - 1, 0.0);
    descend(&mut table, &mut basis, &own, unknowns)?;
    let mut found = vec![0.0; unknowns];
    for (row, &column) in table.iter().zip(&basis) {
        if column < unknowns {
            found[column] = row[width - 1];
        }
    }
    Some((total(&table, &basis, &own), found))
}

fn total(table: &[Vec<f64>], basis: &[usize], cost: &[f64]) -> f64 {
    table.iter().zip(basis).map(|(row, &column)| cost[column] * row[row.len() - 1]).sum()
}

/// Lowers the cost until no column before `columns` does; `None` if there is no end to it.
fn descend(
    table: &mut [Vec<f64>],
    basis: &mut [usize],
    cost: &[f64],
    columns: usize,
) -> Option<()> {
    loop {
        let lowers = |column: &usize| {
            let spent = table.iter().zip(&*basis).map(|(row, &own)| cost[own] * row[*column]);
            cost[*column] - spent.sum::<f64>() < -ZERO
        };
        let Some(enters) = (0..columns).find(lowers) else { return Some(()) };
        let ratio = |row: &Vec<f64>| row[row.len() - 1] / row[enters];
        let able = (0..table.len()).filter(|&nth| table[nth][enters] > ZERO);
        let leaves = able.min_by(|&a, &b| {
            let by_ratio = ratio(&table[a]).total_cmp(&ratio(&table[b]));
            by_ratio.then(basis[a].cmp(&basis[b]))
        })?;
        let pivot = table[leaves][enters];
        table[leaves].iter_mut().for_each(|factor| *factor /= pivot);
        let own = table[leaves].clone();
        for (nth, row) in table.iter_mut().enumerate() {
            let times = row[enters];
            if nth != leaves && times != 0.0 {
                row.iter_mut().zip(&own).for_each(|(factor, own)| *factor -= times * own);
            }
        }
        basis[leaves] = enters;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the corner found that a hand finds? Most of 3 x + 5 y where x <= 4, 2 y <= 12 and
    /// 3 x + 2 y <= 18: at x = 2, y = 6 it is 36.
    #[test]
    fn a_corner_is_the_least() {
        let rows = [
            (vec![1.0, 0.0, 1.0, 0.0, 0.0], 4.0),
            (vec![0.0, 2.0, 0.0, 1.0, 0.0], 12.0),
            (vec![3.0, 2.0, 0.0, 0.0, 1.0], 18.0),
        ];
        let (cost, found) = least(&[-3.0, -5.0, 0.0, 0.0, 0.0], &rows).expect("there is a least");
        assert!((cost + 36.0).abs() < 1e-9, "{cost}");
        assert!((found[0] - 2.0).abs() < 1e-9 && (found[1] - 6.0).abs() < 1e-9, "{found:?}");
    }

    /// Are equations that cannot hold, and costs without an end, told? x = 1 and x = 2; the least
    /// of -x where x - y = 0.
    #[test]
    fn what_has_no_least_has_none() {
        assert_eq!(least(&[1.0], &[(vec![1.0], 1.0), (vec![1.0], 2.0)]), None);
        assert_eq!(least(&[-1.0, 0.0], &[(vec![1.0, -1.0], 0.0)]), None);
    }
}
