// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stage: a modelled device as a block device of the kernel, and the measured path to it.
//!
//! ```text
//! fio ─▶ /dev/loopN (tags, scheduler) ─▶ FUSE ─▶ the model in real time
//! ```
//!
//! The path is measured on a stage of its own, whose device takes exactly 0.9 ms for every command:
//! one reader of 4 KiB, then one of 128 KiB. The time that half of their commands take beyond 0.9
//! ms is the path's; the time between two commands beyond their latency is fio's own. The block
//! layer counts its own part of the latency; the rest, mostly fio's waking up, passes while the
//! scheduler knows of no request, so it belongs to the time between two.
//!
//! ```text
//! 4 KiB    median 962 us, mean 971 us, of it in the block layer 941; 1008 a second (992 us)
//!          71 us of the mean are beyond the device, of it 30 outside of the block layer, 42 %:
//!          of the median's 62 us 26 are fio's and 36 the way's; between two are 21 + 26 us
//! 128 KiB  median 993 us: 31 us more for 124 KiB, 0.25 a KiB
//! ```
//!
//! Medians, because a busy machine now and then delays a command by milliseconds; under a
//! millisecond fio's latencies have a resolution of 8 us.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use paternoster_core::Nanos;
use paternoster_serve::emulate::{Emulated, Emulation, Precision};
use paternoster_sim::Description;

use super::fio::{self, Got};
use super::loop_device::LoopDevice;
use super::split::Part;
use super::undo::Undo;
use super::way::Costs;

/// What every command takes on the stage for measuring the path.
const WAY_NS: f64 = 0.9e6;
/// How long each reader reads.
const MEASURE: &str = "ramp_time=200ms\nruntime=800ms";
const SMALL_KIB: u32 = 4;
const LARGE_KIB: u32 = 128;

/// A device on the stage. Fields are dropped in this order: the kernel lets go of the file first.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) loop_device: LoopDevice,
    undo: Undo,
    emulation: Emulation,
}

impl Stage {
    /// Mounts `device` on a folder `name` that is made in `folder`, and attaches a loop device.
    ///
    /// # Errors
    /// What was refused; everything done until then is undone.
    pub(super) fn open(device: &Description, folder: &Path, name: &str) -> Result<Stage, String> {
        let mount = folder.join(name);
        std::fs::create_dir(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
        let (data, size, allow_other) = (None, None, false);
        let emulated = Emulated { device: device.clone(), mount, data, size, allow_other };
        let emulation = Emulation::start(&emulated)?;
        let mut undo = Undo::new();
        let loop_device = LoopDevice::attach(emulation.file(), &mut undo)?;
        let facts = device.facts;
        loop_device.queue.shrink(facts.depth, facts.rotational, &mut undo)?;
        Ok(Stage { loop_device, undo, emulation })
    }

    /// How precise the emulation was; restores everything.
    ///
    /// # Errors
    /// What could not be restored.
    pub(super) fn close(mut self) -> Result<Precision, String> {
        let wrong = self.undo.all();
        let finished = self.emulation.finish();
        match (wrong.is_empty(), finished) {
            (true, Ok(precision)) => Ok(precision),
            (_, finished) => {
                let wrong: Vec<String> = wrong.into_iter().chain(finished.err()).collect();
                Err(format!("not put back: {}", wrong.join("; ")))
            }
        }
    }
}

/// The path's costs, measured in `folder`.
///
/// # Errors
/// What went wrong on the stage.
pub(super) fn measure(folder: &Path, stop: &AtomicBool) -> Result<Costs, String> {
    let device = Description::parse("way.toml", WAY).map_err(|error| error.to_string())?;
    let stage = Stage::open(&device, folder, "way")?;
    stage.loop_device.queue.choose("none", &[])?;
    let small = one_reader(&stage.loop_device, SMALL_KIB, folder, stop)?;
    let large = one_reader(&stage.loop_device, LARGE_KIB, folder, stop)?;
    stage.close()?;
    Ok(costs(&small, &large))
}

/// What one reader got, and what its reads took within the block layer, in ns.
#[derive(Debug, Clone)]
struct Measured {
    got: Got,
    within: f64,
}

fn one_reader(
    device: &LoopDevice,
    kib: u32,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Measured, String> {
    let text = format!(
        "[way]\nthread=1\ndirect=1\nioengine=psync\nfilename={}\nrw=randread\nbs={kib}k\nsize=64m\n\
         time_based=1\n{MEASURE}\nlat_percentiles=1\npercentile_list=50:99\n",
        device.path.display()
    );
    let part = Part { group: None, text, clones: vec![0], ends: None };
    let (ios_before, ms_before) = device.reads()?;
    let mut got = fio::run(&[(part, None)], folder, stop)?;
    let (ios, ms) = device.reads()?;
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let within = (ms - ms_before) as f64 * 1e6 / (ios - ios_before).max(1) as f64;
    Ok(Measured { got: got.remove(0), within })
}

fn costs(small: &Measured, large: &Measured) -> Costs {
    let beyond = |measured: &Measured| (measured.got.p50 - WAY_NS).max(0.0);
    let kib = (beyond(large) - beyond(small)).max(0.0) / f64::from(LARGE_KIB - SMALL_KIB);
    let Measured { got, within } = small;
    let cycle = if got.iops > 0.0 { 1e9 / got.iops } else { got.mean };
    // The block layer's share is one of the mean; delays in both cancel out.
    let mean_beyond = (got.mean - WAY_NS).max(1.0);
    let outside = beyond(small) * ((got.mean - within) / mean_beyond).clamp(0.0, 1.0);
    let command = beyond(small) - outside - kib * f64::from(SMALL_KIB);
    let submit = (cycle - got.mean).max(0.0) + outside;
    Costs { command: nanos(command), kib: nanos(kib), submit: nanos(submit) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, < 2^63")]
fn nanos(time: f64) -> Nanos {
    Nanos(time.clamp(0.0, 1e15).round() as u64)
}

/// The device for measuring the path: always 0.9 ms, for any number at a time.
const WAY: &str = r#"
name = "way"
model = "linear"
summary = "0.9 ms for every command"
valid = "measuring what lies before a device"
[facts]
capacity = { value = "64 MiB", source = "assumed: two readers need no more" }
depth = { value = 32, source = "assumed" }
[linear]
servers = { value = 32, source = "assumed: nobody waits" }
base = { value = "0.9 ms", source = "assumed: longer than a timer's error, told to 8 us" }
rate = { value = "0 ns/B", source = "assumed: data cost nothing" }
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(p50_us: f64, mean_us: f64, iops: f64, within_us: f64) -> Measured {
        let got = Got { p50: p50_us * 1e3, mean: mean_us * 1e3, iops, ..Got::default() };
        Measured { got, within: within_us * 1e3 }
    }

    /// The module's example. (993 - 962) us / 124 KiB = 250 ns; the time outside is 62 us * 30 / 71
    /// = 26.197 us; 62 us - 26.197 us - 4 * 250 ns = 34.803 us; 1 s / 1008 - 971 us = 21.063 us.
    #[test]
    fn costs_follow_from_two_readers() {
        let small = measured(962.0, 971.0, 1008.0, 941.0);
        let found = costs(&small, &measured(993.0, 1000.0, 980.0, 960.0));
        let submit = Nanos(47_261);
        assert_eq!(found, Costs { command: Nanos(34_803), kib: Nanos(250), submit });
    }

    /// Does a path that takes no time, or by chance less than none, count as none?
    #[test]
    fn nothing_is_negative() {
        let none = measured(899.0, 900.0, 1112.0, 850.0);
        assert_eq!(costs(&none, &measured(890.0, 900.0, 1112.0, 910.0)), Costs::default());
    }

    /// Is the path's device valid?
    #[test]
    fn the_way_is_a_device() {
        let device = Description::parse("way.toml", WAY).unwrap();
        assert_eq!((device.facts.depth, device.name.as_str()), (32, "way"));
    }
}
