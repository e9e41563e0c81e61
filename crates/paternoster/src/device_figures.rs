// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device figures: what a model counted that no request shows, in a sentence below the results.
//!
//! ```text
//! noop on ssd-870evo-aged: occupied 100.0 %, write amplification 5.83, host 1.2 GB, moved 5.8 GB,
//! blocks erased 301.
//! ```
//!
//! Documents have the same figures as `device_figures`. A name says what its number is: bytes, a
//! part of a whole, or a number.

use paternoster_frame::units;

/// The sentence, if the device told anything.
pub(crate) fn sentence(run: &str, figures: &[(&'static str, f64)]) -> Option<String> {
    let each: Vec<String> = figures.iter().map(|&(name, value)| told(name, value)).collect();
    (!each.is_empty()).then(|| format!("{run}: {}.", each.join(", ")))
}

fn told(name: &str, value: f64) -> String {
    let (words, value) = match name.rsplit_once('_') {
        Some((words, "bytes")) => (words, units::size(value)),
        Some((words, "part")) => (words, units::percent(value)),
        _ if value.fract() == 0.0 => (name, format!("{value:.0}")),
        _ => (name, format!("{value:.2}")),
    };
    format!("{} {value}", words.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the sentence give each figure in its unit, and leave out what there is not?
    #[test]
    fn figures_are_told_in_their_units() {
        let figures = [
            ("occupied_part", 1.0),
            ("write_amplification", 5.834),
            ("host_bytes", 1.2e9),
            ("blocks_erased", 301.0),
        ];
        let told = sentence("noop on x", &figures).unwrap();
        let expected = "noop on x: occupied 100.0 %, write amplification 5.83, host 1.2 GB, \
                        blocks erased 301.";
        assert_eq!(told, expected);
        assert_eq!(sentence("noop on x", &[]), None);
    }
}
