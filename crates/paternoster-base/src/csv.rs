// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV: a field, quoted where it must be (RFC 4180).

/// A field of CSV, quoted as RFC 4180 has it where it must be.
#[must_use]
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are only the fields quoted that need it?
    #[test]
    fn fields_are_quoted_when_needed() {
        assert_eq!(field("bfq"), "bfq");
        assert_eq!(field("disk, \"old\""), "\"disk, \"\"old\"\"\"");
    }
}
