// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that are not numbers, as C prints them.

use core::fmt;

/// A number with the requested width and digits; 0 / 0 is `-nan`, as on x86.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number(pub(super) f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, digits) = (f.width().unwrap_or(0), f.precision().unwrap_or(6));
        match self.0 {
            value if value.is_nan() => write!(f, "{:>width$}", "-nan"),
            value => write!(f, "{value:width$.digits$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are infinite and undefined numbers printed as C does?
    #[test]
    fn numbers_that_are_none_are_printed_as_in_c() {
        let shown = [1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let shown = shown.map(|value| format!("{:6.2}", Number(value)));
        assert_eq!(shown, ["  1.50", "   inf", "  -inf", "  -nan"]);
    }
}
