// SPDX-License-Identifier: MIT OR Apache-2.0
//! CostModel: what requests cost a device, as an administrator states it, in numbers.
//!
//! ```text
//! rbps=  wbps=           bytes a second of large requests: each byte costs 1 / bps
//! rseqiops=  wseqiops=   requests of 4 KiB a second, each where the one before it ended
//! rrandiops= wrandiops=  the same, each somewhere else
//! rrandbps=  wrandbps=   bytes a second of requests of 1 MiB, each somewhere else; may be left out
//! rendbps=   wendbps=    as bps, which is then of the middle of the device, of its end; may be
//!                        left out
//! rneariops= wneariops=  as randiops, which is then of a tenth of the device, of a hundredth;
//!                        may be left out
//!
//! a request costs        what 4 KiB cost, 1 / iops, and the bytes beyond them, each 1 / bps;
//!                        where randbps is told, random ones what lies between 4 KiB and 1 MiB
//! ```
//!
//! The first six are the keys of `io.cost.model` in a cgroup of Linux, so that a line that was
//! measured for that can be used here; `ctrl=` and `model=linear` of such a line are ignored. The
//! others are ours. A flash drive that writes 559 MB/s in sequence may write 49 MB/s at random, in
//! pieces of any size up to a megabyte. And a disk that reads 225 times a second within a tenth of
//! itself reads 426 times within a gigabyte, and 155 MB/s in its middle and 97 at its end. Six
//! numbers do not say so.
//!
//! # Invariants
//! I1  No number is 0, and each is given once; the six are all given.
//! I2  What is shown is read as the same model.
//!
//! Source: the keys: `Documentation/admin-guide/cgroup-v2.rst` of Linux, IO interface files.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// What a device does of one direction when it is full of it, a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Bytes of large sequential requests.
    pub bps: u64,
    /// Sequential requests of 4 KiB.
    pub seqiops: u64,
    /// Random requests of 4 KiB.
    pub randiops: u64,
    /// Bytes of random requests of 1 MiB; without it a byte costs as much as in sequence.
    pub randbps: Option<u64>,
    /// Random requests of 4 KiB within a hundredth of the device, where `randiops` are within a
    /// tenth of it; without it a request costs as much, however far it goes.
    pub neariops: Option<u64>,
    /// Bytes of large sequential requests at the end of the device, where `bps` are those of its
    /// middle; without it a byte costs as much wherever it lies.
    pub endbps: Option<u64>,
}

/// What requests cost a device: the numbers of both directions, by the keys of a cgroup's
/// `io.cost.model` (Linux), and `rrandbps=`, `rneariops=`, `rendbps=` and those of writes, which
/// may be left out.
///
/// ```
/// use paternoster_schedulers::CostModel;
/// let line = "rbps=530000000 rseqiops=97000 rrandiops=96000 \
///             wbps=490000000 wseqiops=85000 wrandiops=84000";
/// let model: CostModel = line.parse().unwrap();
/// assert_eq!((model.read.randiops, model.to_string().as_str()), (96000, line));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostModel {
    /// Of reads.
    pub read: Rates,
    /// Of writes.
    pub write: Rates,
}

/// The keys, in the order in which they are shown, and whether each may be left out.
const KEYS: [(&str, bool); 12] = [
    ("rbps", false),
    ("rseqiops", false),
    ("rrandiops", false),
    ("rrandbps", true),
    ("rneariops", true),
    ("rendbps", true),
    ("wbps", false),
    ("wseqiops", false),
    ("wrandiops", false),
    ("wrandbps", true),
    ("wneariops", true),
    ("wendbps", true),
];
/// A number for each of them.
type Numbers = [Option<u64>; KEYS.len()];
/// Keys of `io.cost.model` that say nothing here, and the one value that they may have, if only one
/// is understood.
const IGNORED: [(&str, Option<&str>); 2] = [("ctrl", None), ("model", Some("linear"))];

/// What a text has to be.
pub(crate) const FORM: &str = "none, or whole numbers from 1 up: rbps= rseqiops= rrandiops= \
                               wbps= wseqiops= wrandiops=, and if you like rrandbps= wrandbps= \
                               rneariops= wneariops= rendbps= wendbps=";

impl CostModel {
    /// The keys that are told, each with its number, in the order in which they are shown.
    pub fn told(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let told = KEYS.iter().zip(self.numbers());
        told.filter_map(|((key, _), number)| Some((*key, number?)))
    }

    fn numbers(&self) -> Numbers {
        let mut numbers = [None; KEYS.len()];
        let (read, write) = numbers.split_at_mut(KEYS.len() / 2);
        for (own, rates) in [(read, self.read), (write, self.write)] {
            let [bps, seqiops, randiops] = [rates.bps, rates.seqiops, rates.randiops].map(Some);
            own.copy_from_slice(&[
                bps,
                seqiops,
                randiops,
                rates.randbps,
                rates.neariops,
                rates.endbps,
            ]);
        }
        numbers
    }
}

impl fmt::Display for CostModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (key, number) in self.told() {
            write!(f, "{between}{key}={number}")?;
            between = " ";
        }
        Ok(())
    }
}

impl FromStr for CostModel {
    type Err = String;

    fn from_str(text: &str) -> Result<CostModel, String> {
        let mut numbers: Numbers = [None; KEYS.len()];
        for part in text.split_ascii_whitespace() {
            read(part, &mut numbers)?;
        }
        let mut all = KEYS.iter().zip(&numbers);
        if let Some(((key, _), _)) = all.find(|((_, spare), number)| !spare && number.is_none()) {
            return Err(format!("`{text}` lacks `{key}=`; it takes {FORM}"));
        }
        let rates = |own: &[Option<u64>]| {
            let known = |place: usize| own[place].unwrap_or(1);
            let [bps, seqiops, randiops] = [0, 1, 2].map(known);
            Rates { bps, seqiops, randiops, randbps: own[3], neariops: own[4], endbps: own[5] }
        };
        let (read, write) = numbers.split_at(KEYS.len() / 2);
        Ok(CostModel { read: rates(read), write: rates(write) })
    }
}

/// Reads one `key=number` into its place.
fn read(part: &str, numbers: &mut Numbers) -> Result<(), String> {
    let Some((key, value)) = part.split_once('=') else {
        return Err(format!("`{part}` is not KEY=NUMBER; it takes {FORM}"));
    };
    if let Some((_, only)) = IGNORED.iter().find(|(ignored, _)| *ignored == key) {
        return match only {
            Some(only) if *only != value => {
                Err(format!("`{part}` cannot be used; `{key}={only}` is the only model"))
            }
            _ => Ok(()),
        };
    }
    let Some(place) = KEYS.iter().position(|(known, _)| *known == key) else {
        return Err(format!("there is no `{key}=`; it takes {FORM}"));
    };
    match value.parse() {
        Ok(number) if number > 0 => {
            if numbers[place].replace(number).is_some() {
                return Err(format!("`{key}=` is given twice"));
            }
            Ok(())
        }
        _ => Err(format!("`{part}`: `{value}` is not a whole number from 1 up")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const LINE: &str = "rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6";

    /// I2: is a line shown as it is read, in any order and with what `io.cost.model` adds?
    #[test]
    fn i2_a_model_is_shown_as_it_is_read() {
        let mixed = "ctrl=user model=linear wrandiops=6 wseqiops=5 rbps=1\trrandiops=3 rseqiops=2 \
                     wbps=4\n";
        let shown = |text: &str| text.parse::<CostModel>().map(|model| model.to_string());
        for text in [LINE, mixed] {
            assert_eq!(shown(text), Ok(LINE.into()));
        }
        let more = "rbps=1 rseqiops=2 rrandiops=3 rrandbps=7 wbps=4 wseqiops=5 wrandiops=6";
        assert_eq!(shown(more), Ok(more.into()));
        assert_eq!(
            shown(&more.replace("rrand", "wrand").replacen("wrandiops", "rrandiops", 1)),
            Ok(alloc::format!("{LINE} wrandbps=7"))
        );
        let near = "rbps=1 rseqiops=2 rrandiops=3 rneariops=8 rendbps=10 wbps=4 wseqiops=5 \
                    wrandiops=6 wrandbps=7 wneariops=9";
        assert_eq!(shown(near), Ok(near.into()));
    }

    /// I1: does a refusal name the part, and what would be right?
    #[test]
    fn i1_what_is_wrong_is_named() {
        let with = |from, to| LINE.replace(from, to);
        for (text, why) in [
            (with("rbps=1", "rbps=0"), "`rbps=0`: `0` is not a whole number from 1 up"),
            (with("rbps=1", "rbps=1M"), "`rbps=1M`: `1M` is not a whole number from 1 up"),
            (with("rbps=1", "rbps"), "`rbps` is not KEY=NUMBER; it takes none, or whole"),
            (with("rbps=1", "rbsp=1"), "there is no `rbsp=`; it takes none, or whole"),
            (with("wbps=4", "rbps=4"), "`rbps=` is given twice"),
            (with("rbps=1", "model=table"), "`model=table` cannot be used; `model=linear` is"),
            ("rbps=1".into(), "`rbps=1` lacks `rseqiops=`; it takes none, or whole numbers"),
        ] {
            let told = text.parse::<CostModel>().unwrap_err();
            assert!(told.starts_with(why), "{told}");
        }
    }
}
