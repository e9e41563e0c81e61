// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers: the section `[ssd]` of a device file.
//!
//! ```toml
//! [ssd]
//! channels = { value = 8, source = "…" }              # flash channels
//! dies = { value = 32, source = "…" }                 # in all, dealt to the channels in turn
//! planes = { value = 1, source = "…" }                # pages that a die works on at a time
//! page = { value = "16 KiB", source = "…" }
//! read = { value = ["75 us"], source = "…" }          # tR of each kind of page, or instead:
//! read_quantiles = { value = ["50 % 75 us", "99 % 90 us"], source = "…" }    # tR, drawn
//! program = { value = "700 us", source = "…" }        # tPROG of a unit (a page on each plane)
//! program_quantiles = { value = ["50 % 700 us"], source = "…" }   # instead of `program`
//! suspend = { value = "20 us", source = "…" }         # until a program is suspended; 0: never
//! channel_rate = { value = "800 MB/s", source = "…" }
//! link_rate = { value = "560 MB/s", source = "…" }
//! link_command = { value = "3 us", source = "…" }     # of the link, for each command
//! link_duplex = { value = false, source = "…" }       # SATA: false
//! controller = { value = "29 us", source = "…" }      # latency of each read and write
//! buffer = { value = "32 MB", source = "…" }
//! amplification = { value = "7.3", source = "…" }     # programs for each unit of random writes
//! power_loss_protection = { value = true, source = "…" }
//! flush = { value = "15 us", source = "…" }           # after the programs it waits for
//! flush_read_delay = { value = "0 us", source = "…" } # added to a read during a flush
//! discard = { value = "0 us", source = "…" }          # besides link and controller
//! read_ahead = { value = "128 KiB", source = "…" }    # of a stream; 0 B: none
//! discard_queueable = { value = true, source = "…" }  # whether it is queued with others
//! ```

use std::sync::{Arc, OnceLock};

use paternoster_core::{DeviceFacts, Nanos};
use toml::Value;

use crate::chance::Chance;
use crate::model::{Blueprint, Model};
use crate::quantiles::Quantiles;
use crate::quantity;
use crate::sections::{DeviceFileError, Fields, Sections};
use crate::transfer::Transfer;

use super::Ssd;
use super::buffer::ONE_PROGRAM;
use super::collection::{Collection, CollectionNumbers};
use super::die::DieTimes;
use super::slc::SlcNumbers;
use super::wire::LinkCosts;

/// Kinds of pages: bits of a cell, with some to spare.
const KINDS_MAX: usize = 16;
/// A factor beyond this is a mistake.
const AMPLIFICATION_MAX: u64 = 1000 * ONE_PROGRAM;
/// More than any drive's buffer would hold.
const READ_AHEAD_MAX: u64 = 1 << 26;
/// The place of a drive among the users of a run's seed.
const DRAWS: u64 = 0x55d;
/// Larger pages would overflow the arithmetic of sectors, and no drive has them.
const PAGE_BYTES_MAX: u64 = 1 << 26;

/// The parts of an SSD and their times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) channels: u32,
    pub(super) dies: u32,
    pub(super) planes: u32,
    /// Size of a page in bytes.
    pub(super) page: u64,
    pub(super) times: DieTimes,
    /// The distributions of tR and tPROG, if they vary.
    pub(super) read_spread: Option<Quantiles>,
    pub(super) program_spread: Option<Quantiles>,
    pub(super) channel: Transfer,
    pub(super) link: LinkCosts,
    pub(super) controller: Nanos,
    /// Size of the write buffer in bytes.
    pub(super) buffer: u64,
    /// Writes of flash for each write of the host, in thousandths of a program.
    pub(super) amplification: u64,
    pub(super) power_loss_protection: bool,
    pub(super) flush: Nanos,
    pub(super) flush_read_delay: Nanos,
    pub(super) discard: Nanos,
    pub(super) discard_queueable: bool,
    /// How far it reads a stream ahead, in bytes; zero: not at all.
    pub(super) read_ahead: u64,
    /// Where pages lie and what collecting them costs, if the drive has no fixed amplification.
    pub(super) collection: Option<CollectionNumbers>,
    /// Cells that hold one bit for a while.
    pub(super) slc: Option<SlcNumbers>,
}

/// A drive as its file describes it; its past, if any, is computed once.
#[derive(Debug)]
struct Described {
    numbers: Numbers,
    past: OnceLock<Collection>,
}

impl Blueprint for Described {
    fn build(&self, facts: DeviceFacts) -> Box<dyn Model> {
        self.build_seeded(facts, 0)
    }

    fn build_seeded(&self, facts: DeviceFacts, seed: u64) -> Box<dyn Model> {
        let past = self.numbers.collection.as_ref().map(|numbers| {
            let past = self.past.get_or_init(|| Collection::new(numbers));
            past.clone()
        });
        let mut ssd = Ssd::new(facts, &self.numbers, past);
        ssd.chance = Chance::new(seed, DRAWS);
        Box::new(ssd)
    }
}

impl Numbers {
    fn take(fields: &mut Fields<'_>, collects: bool) -> Result<Numbers, DeviceFileError> {
        if collects && fields.has("amplification") {
            let why = "the file has a section [collection], out of which amplification comes: one \
                       of both would do";
            return Err(fields.wrong("amplification", why));
        }
        let factor = collects.then_some(ONE_PROGRAM);
        let read_spread = Quantiles::read(fields, "read_quantiles")?;
        let program_spread = Quantiles::read(fields, "program_quantiles")?;
        for (name, other) in [("read", "read_quantiles"), ("program", "program_quantiles")] {
            if fields.has(name) && fields.has(other) {
                let why = format!("`{other}` says how long that takes, too: one of both would do");
                return Err(fields.wrong(name, &why));
            }
        }
        let program = program_spread.as_ref().map(Quantiles::median);
        Ok(Numbers {
            channels: fields.number("channels", None, 1..=64)?,
            dies: fields.number("dies", None, 1..=4096)?,
            planes: fields.number("planes", Some(1), 1..=8)?,
            page: fields.read("page", page)?,
            times: DieTimes {
                reads: match &read_spread {
                    Some(spread) => vec![spread.median()],
                    None => reads(fields)?,
                },
                program: fields.time("program", program)?,
                suspend: fields.time("suspend", Some(Nanos::ZERO))?,
            },
            read_spread,
            program_spread,
            channel: fields.rate("channel_rate", None)?,
            link: LinkCosts {
                rate: fields.rate("link_rate", None)?,
                command: fields.time("link_command", Some(Nanos::ZERO))?,
                duplex: fields.switch("link_duplex", false)?,
            },
            controller: fields.time("controller", None)?,
            buffer: fields.size("buffer", None)?,
            amplification: fields.read_or("amplification", factor, amplification)?,
            power_loss_protection: fields.switch("power_loss_protection", false)?,
            flush: fields.time("flush", None)?,
            flush_read_delay: fields.time("flush_read_delay", Some(Nanos::ZERO))?,
            discard: fields.time("discard", Some(Nanos::ZERO))?,
            discard_queueable: fields.switch("discard_queueable", true)?,
            read_ahead: fields.read_or("read_ahead", Some(0), read_ahead)?,
            collection: None,
            slc: None,
        })
    }
}

impl Ssd {
    /// Reads the section `[ssd]` of a device file.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        facts: &DeviceFacts,
    ) -> Result<Arc<dyn Blueprint>, DeviceFileError> {
        let mut fields = sections.open("ssd");
        let mut numbers = Numbers::take(&mut fields, sections.has("collection"))?;
        fields.finish()?;
        numbers.collection = CollectionNumbers::read(sections, facts, numbers.dies)?;
        numbers.slc = SlcNumbers::read(sections)?;
        Ok(Arc::new(Described { numbers, past: OnceLock::new() }))
    }
}

fn page(text: &str) -> Result<u64, String> {
    match quantity::size(text)? {
        bytes if bytes > 0 && bytes.is_multiple_of(512) && bytes <= PAGE_BYTES_MAX => Ok(bytes),
        _ => Err("a page is a multiple of 512 bytes, at most 64 MiB (as `16 KiB`)".to_owned()),
    }
}

fn read_ahead(text: &str) -> Result<u64, String> {
    match quantity::size(text)? {
        bytes if bytes.is_multiple_of(512) && bytes <= READ_AHEAD_MAX => Ok(bytes),
        _ => Err("a multiple of 512 bytes, at most 64 MiB (as `128 KiB`)".to_owned()),
    }
}

fn reads(fields: &mut Fields<'_>) -> Result<Vec<Nanos>, DeviceFileError> {
    let one = |value: &Value| quantity::time(value.as_str().unwrap_or(""));
    let reads = fields.list("read", one)?.unwrap_or_default();
    if reads.is_empty() || reads.len() > KINDS_MAX {
        let why = "a list of one to 16 times, one for each kind of page, as `[\"75 us\"]`";
        return Err(fields.wrong("read", why));
    }
    Ok(reads)
}

/// `7.3` in thousandths.
fn amplification(text: &str) -> Result<u64, String> {
    let thousandths = quantity::decimal(text, ONE_PROGRAM);
    thousandths.filter(|it| (ONE_PROGRAM..=AMPLIFICATION_MAX).contains(it)).ok_or_else(|| {
        "programs for each unit of random writes: a decimal from \"1\" to \"1000\" (as \"7.3\")"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is amplification exact to a thousandth, and nonsense refused?
    #[test]
    fn amplification_is_a_decimal() {
        assert_eq!(amplification("7.3"), Ok(7300));
        assert_eq!(amplification("1"), Ok(1000));
        for text in ["", "0.9", "1000.1", "7,3", "-2", "seven"] {
            assert!(amplification(text).unwrap_err().contains("as \"7.3\""), "{text}");
        }
    }

    /// Are pages whole sectors?
    #[test]
    fn pages_are_whole_sectors() {
        assert_eq!(page("16 KiB"), Ok(16384));
        for text in ["0 B", "700 B", "1 GiB"] {
            assert!(page(text).is_err(), "{text}");
        }
    }
}
