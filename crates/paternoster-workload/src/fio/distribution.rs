// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distribution: the option `random_distribution`, how a job's random offsets are drawn.
//!
//! ```text
//! random                       each block alike, each once (the random map)
//! zipf:1.2[:center]            few blocks get most; see offsets/skew.rs for these three
//! pareto:0.2[:center]
//! normal:20[:center]
//! zoned:60/10:40/90            60 % of the I/Os to the first 10 % of the region, 40 % to the rest
//! zoned_abs:60/1g:40/9g        the same in bytes
//! ```
//!
//! Zones may differ for reads, writes and trims (`zoned:60/10:40/90,50/50:50/50`; the
//! manual says so, though fio 3.33 refuses the comma). A blank size or share in percent is what is
//! left, divided evenly. Shares must add up to 100 and sizes to at most 100 percent.
//!
//! Source: FIO-50, FIO-51; messages and limits of fio 3.33.

use super::offsets::skew::Skew;
use super::value::{self, Reader};

/// Zones of one direction, as in fio.
const ZONES_MAX: usize = 256;

/// One zone of a `zoned` distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessZone {
    /// Percent of the I/Os.
    pub percent: u8,
    /// Its size: percent of the region, or bytes.
    pub size: u64,
}

/// The option `random_distribution`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Distribution {
    /// Each block alike.
    #[default]
    Uniform,
    /// Zipf's, with its theta and the place of its peak.
    Zipf(f64, Option<f64>),
    /// Pareto's, with its power and the place of its peak.
    Pareto(f64, Option<f64>),
    /// A bell, with its deviation in percent and the place of its peak.
    Normal(f64, Option<f64>),
    /// Zones in percent of the region: reads, writes, trims.
    Zoned([Vec<AccessZone>; 3]),
    /// Zones in bytes: reads, writes, trims.
    ZonedBytes([Vec<AccessZone>; 3]),
}

impl Distribution {
    /// Reads the option's value.
    pub(super) fn read(text: &str, read: &mut Reader<'_>) -> Result<Distribution, String> {
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        // fio's values when none is given.
        match word {
            "random" => Ok(Distribution::Uniform),
            "zipf" => {
                let (theta, center) = skew(text, rest, 1.1)?;
                Ok(Distribution::Zipf(Skew::check_zipf(theta)?, center))
            }
            "pareto" => {
                let (power, center) = skew(text, rest, 0.2)?;
                Ok(Distribution::Pareto(Skew::check_pareto(power)?, center))
            }
            "normal" => {
                let (percent, center) = skew(text, rest, 0.0)?;
                Ok(Distribution::Normal(Skew::check_normal(percent)?, center))
            }
            "zoned" => Ok(Distribution::Zoned(zones(rest.unwrap_or(""), false, read)?)),
            "zoned_abs" => Ok(Distribution::ZonedBytes(zones(rest.unwrap_or(""), true, read)?)),
            _ => Err(format!(
                "`{word}` is no distribution: use random, zipf, pareto, normal, zoned or zoned_abs"
            )),
        }
    }

    /// Whether every block is as likely as the others, so that a random map has a meaning.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        *self == Distribution::Uniform
    }
}

/// `number[:center]`.
fn skew(text: &str, rest: Option<&str>, usual: f64) -> Result<(f64, Option<f64>), String> {
    let number = |part: &str| match part.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("`{part}` in `{text}` is no number")),
    };
    let Some(rest) = rest else { return Ok((usual, None)) };
    let Some((value, center)) = rest.split_once(':') else { return Ok((number(rest)?, None)) };
    let center = number(center)?;
    if !(0.0..=1.0).contains(&center) {
        return Err(format!("the center {center} in `{text}` must be from 0 to 1"));
    }
    Ok((number(value)?, Some(center)))
}

fn zones(
    text: &str,
    in_bytes: bool,
    read: &mut Reader<'_>,
) -> Result<[Vec<AccessZone>; 3], String> {
    let [reads, writes, trims] = value::triple(text)?;
    let list = reads.or(writes).or(trims).unwrap_or("");
    let mut list_of = |text: Option<&str>| zone_list(text.unwrap_or(list), in_bytes, read);
    Ok([list_of(reads)?, list_of(writes)?, list_of(trims)?])
}

/// `access%/size:access%/size`.
fn zone_list(text: &str, in_bytes: bool, read: &mut Reader<'_>) -> Result<Vec<AccessZone>, String> {
    let mut zones = Vec::new();
    let mut blanks = Vec::new();
    for part in text.split(':') {
        let Some((percent, size)) = part.split_once('/') else {
            return Err(format!("`{part}` is no zone: write access/size, as in zoned:60/10:40/90"));
        };
        let percent = read.small::<u8>(percent, 0, 100)?;
        let size = match size {
            "" if !in_bytes => {
                blanks.push(zones.len());
                0
            }
            size if in_bytes => read.size(size)?,
            size => read.integer(size, 0, 100)?,
        };
        zones.push(AccessZone { percent, size });
        if zones.len() > ZONES_MAX {
            return Err(format!("there are more than {ZONES_MAX} zones"));
        }
    }
    let shares: u64 = zones.iter().map(|zone| u64::from(zone.percent)).sum();
    if shares != 100 {
        return Err(format!("the shares of the zones add up to {shares} %, not to 100 %"));
    }
    if !in_bytes {
        let sizes: u64 = zones.iter().map(|zone| zone.size).sum();
        let Some(left) = 100_u64.checked_sub(sizes) else {
            return Err(format!("the sizes of the zones add up to {sizes} %, more than 100 %"));
        };
        let parts = u64::try_from(blanks.len()).unwrap_or(1).max(1);
        for place in blanks {
            zones[place].size = left / parts;
        }
    }
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Distribution, String> {
        Distribution::read(text, &mut Reader::new(1024, &mut Vec::new()))
    }

    fn zone(percent: u8, size: u64) -> AccessZone {
        AccessZone { percent, size }
    }

    /// Are all forms read, with fio's values for what is left out?
    #[test]
    fn forms_are_read() {
        assert_eq!(read("random"), Ok(Distribution::Uniform));
        assert_eq!(read("zipf"), Ok(Distribution::Zipf(1.1, None)));
        assert_eq!(read("zipf:1.2:0.25"), Ok(Distribution::Zipf(1.2, Some(0.25))));
        assert_eq!(read("normal:20"), Ok(Distribution::Normal(20.0, None)));
        // 80 % are left for the blank one.
        let list = vec![zone(50, 5), zone(30, 15), zone(20, 80)];
        assert_eq!(
            read("zoned:50/5:30/15:20/"),
            Ok(Distribution::Zoned([list.clone(), list.clone(), list]))
        );
        let (reads, writes) = (vec![zone(60, 1 << 20), zone(40, 3 << 20)], vec![zone(100, 4096)]);
        assert_eq!(
            read("zoned_abs:60/1m:40/3m,100/4k"),
            Ok(Distribution::ZonedBytes([reads, writes.clone(), writes]))
        );
    }

    /// Is what fio refuses refused, with the sum that is wrong?
    #[test]
    fn wrong_zones_are_refused() {
        assert!(read("zoned:60/10:30/20").unwrap_err().contains("90 %"));
        assert!(read("zoned:60/50:40/60").unwrap_err().contains("110 %"));
        for text in ["zoned", "zoned:60", "zoned:/10:40/90", "zipf:x", "zipf:1.2:2", "gauss:1"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("zipf:1").unwrap_err().contains("not 1"));
    }
}
