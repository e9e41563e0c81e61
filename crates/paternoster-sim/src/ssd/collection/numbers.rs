// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers: the section `[collection]` of a device file. A drive without it has a fixed factor,
//! `amplification` of `[ssd]`.
//!
//! ```toml
//! [collection]
//! over_provisioning = { value = "7.4 %", source = "…" } # flash beyond the capacity
//! block = { value = "12 MiB", source = "…" }            # what a die erases at a time
//! erase = { value = "3.5 ms", source = "…" }            # of such a block
//! map = { value = "4 KiB", source = "…" }               # a page of the mapping table
//! reserve = { value = 2, source = "…" }                 # erased rows of blocks, never touched
//! filled = { value = "100 %", source = "…" }            # written before the run
//! overwritten = { value = "3", source = "…" }           # times, at random, before the run
//! ```
//!
//! A row of blocks, one on each die, is erased together.

use paternoster_core::{DeviceFacts, Nanos};

use crate::quantity;
use crate::sections::{DeviceFileError, Fields, Sections};

use super::blocks::Shape;

/// Larger drives are mapped by a sample of their pages (see `collection`).
const PAGES_MAX: u64 = 1 << 18;
/// Blocks of a sample have at least this many pages: fewer would change what collection costs.
const BLOCK_PAGES_MIN: u64 = 64;
/// A whole, in thousandths of a per cent.
const WHOLE: u64 = 100_000;
/// More flash than three times the capacity is a mistake, and so is more overwriting than this.
const OVER_PROVISIONING_MAX: u64 = 200_000;
const OVERWRITTEN_MAX: u64 = 20_000;
/// A larger reserve is a mistake.
const RESERVE_MAX: u64 = 64;

/// The numbers of a drive's collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ssd) struct CollectionNumbers {
    pub(super) shape: Shape,
    /// Sectors of a page of the map.
    pub(super) page_sectors: u32,
    /// One page in this many is mapped.
    pub(super) sample: u32,
    /// Bytes erased together.
    pub(super) row_bytes: u64,
    /// Bytes of a block of one die.
    pub(super) block_bytes: u64,
    pub(in crate::ssd) erase: Nanos,
    /// Pages of the sample that were written before the run ...
    pub(super) filled: u32,
    /// ... and how often a page was overwritten then, in thousandths of them.
    pub(super) overwritten: u64,
}

impl CollectionNumbers {
    /// Reads the section `[collection]`, if there is one.
    pub(in crate::ssd) fn read(
        sections: &mut Sections<'_>,
        facts: &DeviceFacts,
        dies: u32,
    ) -> Result<Option<CollectionNumbers>, DeviceFileError> {
        let has = sections.has("collection");
        let mut fields = sections.open("collection");
        if !has {
            return Ok(None);
        }
        let numbers = CollectionNumbers::take(&mut fields, facts, dies)?;
        fields.finish()?;
        Ok(Some(numbers))
    }

    fn take(
        fields: &mut Fields<'_>,
        facts: &DeviceFacts,
        dies: u32,
    ) -> Result<CollectionNumbers, DeviceFileError> {
        let over = fields.read("over_provisioning", |text| parts(text, OVER_PROVISIONING_MAX))?;
        let block_bytes = fields.read("block", |text| multiple(text, 4096, 1 << 32))?;
        let map = fields.read_or("map", Some(4096), |text| multiple(text, 512, 1 << 20))?;
        let reserve = fields.number("reserve", Some(2), 0..=RESERVE_MAX)?;
        let filled = fields.read("filled", |text| parts(text, WHOLE))?;
        let overwritten = fields.read_or("overwritten", Some(0), times)?;
        let erase = fields.time("erase", None)?;
        let pages = (facts.capacity * 512).div_ceil(map);
        let sample = pages.div_ceil(PAGES_MAX).max(1);
        // Both are below 2^18 and 2^32: pages, and blocks of the sample.
        let logical = u32::try_from(pages.div_ceil(sample)).unwrap_or(u32::MAX);
        let row_bytes = block_bytes.saturating_mul(u64::from(dies));
        let row_pages = row_bytes / map;
        let block_pages = (row_pages / sample).max(BLOCK_PAGES_MIN.min(row_pages)).max(1);
        let block_pages = u32::try_from(block_pages).unwrap_or(u32::MAX);
        let physical = u64::from(logical) * (WHOLE + over) / WHOLE;
        let blocks = physical / u64::from(block_pages);
        let fewest = Shape::fewest(logical, block_pages, reserve);
        if blocks < fewest {
            let why = format!(
                "it leaves {blocks} rows of blocks, and {fewest} are the fewest with which a full \
                 drive can collect: more flash, smaller blocks or a smaller reserve would do"
            );
            return Err(fields.wrong("over_provisioning", &why));
        }
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let filled = u64::from(logical) * filled / WHOLE;
        Ok(CollectionNumbers {
            shape: Shape { logical, pages: block_pages, blocks, reserve },
            page_sectors: u32::try_from(map / 512).unwrap_or(8),
            sample: u32::try_from(sample).unwrap_or(u32::MAX),
            row_bytes: u64::from(block_pages) * sample * map,
            block_bytes,
            erase,
            filled: u32::try_from(filled).unwrap_or(logical),
            overwritten,
        })
    }
}

/// `7.4 %` in thousandths of a per cent.
fn parts(text: &str, most: u64) -> Result<u64, String> {
    let number = text.trim().strip_suffix('%').and_then(|text| quantity::decimal(text, 1000));
    number.filter(|parts| *parts <= most).ok_or_else(|| {
        format!("a part in per cent from \"0 %\" to \"{} %\" (as \"7.4 %\")", most / 1000)
    })
}

/// `3` in thousandths.
fn times(text: &str) -> Result<u64, String> {
    quantity::decimal(text, 1000)
        .filter(|thousandths| *thousandths <= OVERWRITTEN_MAX)
        .ok_or_else(|| "how often: a decimal from \"0\" to \"20\" (as \"3\")".to_owned())
}

/// A size of whole sectors.
fn multiple(text: &str, of: u64, most: u64) -> Result<u64, String> {
    match quantity::size(text)? {
        bytes if bytes > 0 && bytes.is_multiple_of(of) && bytes <= most => Ok(bytes),
        _ => Err(format!("it is a multiple of {of} bytes, at most {most}")),
    }
}
