// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variables: `${NAME}` of the environment, and `$ncpus`, `$pagesize`, `$mb_memory` in sums.
//!
//! ```text
//! directory=${DIR}/x      an unset variable is empty
//! iodepth=2*$ncpus        a sum may come before the keyword, which comes last
//! size=8*$mb_memorym      a unit may follow the keyword: this is 8 times the memory
//! ```
//!
//! The machine is a simulated one, so that the same job file gives the same run everywhere: it has
//! pages of 4096 bytes, 4 processors and 4096 MiB.
//!
//! Source: FIO-7, FIO-8.

/// The simulated machine.
const KEYWORDS: [(&str, u64); 3] = [("$pagesize", 4096), ("$mb_memory", 4096), ("$ncpus", 4)];

/// The longest value after replacement; a value that is longer is a mistake or an attack.
const VALUE_MAX: usize = 64 << 10;

/// `text` with its variables replaced.
///
/// # Errors
/// A message when a `${` is not closed, a sum is none, or the result grows too long.
pub(super) fn replace(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut result = from_environment(text, environment)?;
    for (keyword, value) in KEYWORDS {
        while let Some(at) = result.find(keyword) {
            result = calculate(&result, at, keyword, value)?;
        }
    }
    if result.len() > VALUE_MAX {
        return Err(too_long());
    }
    Ok(result)
}

fn too_long() -> String {
    format!("the value is longer than {VALUE_MAX} bytes once its variables are replaced")
}

fn from_environment(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let (mut result, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, tail)) = after.split_once('}') else {
            return Err("`${` is not closed by `}`".to_owned());
        };
        result.push_str(before);
        result.push_str(&environment(name).unwrap_or_default());
        if result.len() > VALUE_MAX {
            return Err(too_long());
        }
        rest = tail;
    }
    result.push_str(rest);
    Ok(result)
}

/// Replaces the keyword at `at` and the sum before it by their value.
fn calculate(text: &str, at: usize, keyword: &str, value: u64) -> Result<String, String> {
    let (before, after) = (&text[..at], &text[at + keyword.len()..]);
    if after.starts_with(['*', '+', '-', '/']) {
        return Err(format!("`{keyword}` must come last in a sum: write `4*{keyword}`"));
    }
    let is_sum = |c: char| c.is_ascii_digit() || "*+-/".contains(c);
    let start = before
        .rfind(|c| !is_sum(c))
        .map_or(0, |last| last + before[last..].chars().next().map_or(0, char::len_utf8));
    let (prefix, sum) = before.split_at(start);
    // Digits without an operator belong to a name, as in `file1$ncpus`.
    if !sum.ends_with(['*', '+', '-', '/']) {
        return Ok(format!("{before}{value}{after}"));
    }
    let result = evaluate(&format!("{sum}{value}"))
        .ok_or_else(|| format!("`{sum}{keyword}` is no sum of whole numbers, or is too large"))?;
    Ok(format!("{prefix}{result}{after}"))
}

/// A sum of products of whole numbers: `2+3*4` is 14.
fn evaluate(sum: &str) -> Option<u64> {
    let (mut total, mut adding) = (0_u64, true);
    let mut rest = sum;
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let term = product(&rest[..end])?;
        total = if adding { total.checked_add(term)? } else { total.checked_sub(term)? };
        if end == rest.len() {
            return Some(total);
        }
        adding = rest.as_bytes()[end] == b'+';
        rest = &rest[end + 1..];
    }
}

fn product(term: &str) -> Option<u64> {
    let (mut total, mut multiplying) = (1_u64, true);
    let mut rest = term;
    loop {
        let end = rest.find(['*', '/']).unwrap_or(rest.len());
        let factor: u64 = rest[..end].parse().ok()?;
        total = if multiplying { total.checked_mul(factor)? } else { total.checked_div(factor)? };
        if end == rest.len() {
            return Some(total);
        }
        multiplying = rest.as_bytes()[end] == b'*';
        rest = &rest[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str) -> Result<String, String> {
        replace(text, &|name| (name == "DIR").then(|| "/data".to_owned()))
    }

    /// Is the environment used, and is an unset variable empty?
    #[test]
    fn environment() {
        assert_eq!(replaced("${DIR}/x"), Ok("/data/x".to_owned()));
        assert_eq!(replaced("a${NONE}b"), Ok("ab".to_owned()));
        assert!(replaced("${DIR").is_err());
    }

    /// Do sums work with the keyword last only? 8 * 4096 = 32768.
    #[test]
    fn keywords() {
        assert_eq!(replaced("8*$mb_memory"), Ok("32768".to_owned()));
        assert_eq!(replaced("8*$mb_memorym"), Ok("32768m".to_owned()));
        assert_eq!(replaced("1+2*$ncpus"), Ok("9".to_owned()));
        assert_eq!(replaced("file1$ncpus"), Ok("file14".to_owned()));
        assert_eq!(
            replaced("$pagesize*4"),
            Err("`$pagesize` must come last in a sum: write `4*$pagesize`".to_owned())
        );
        assert!(replaced("*$ncpus").is_err());
        assert!(replaced("é-$ncpus").is_err());
        assert!(replaced("0-$ncpus").is_err());
        assert!(replaced("99999999999999999*$mb_memory").is_err());
        assert_eq!(replaced("$jobname.$filenum"), Ok("$jobname.$filenum".to_owned()));
        assert_eq!(replaced("2*4k"), Ok("2*4k".to_owned()));
    }
}
