// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stage: a modelled device as a block device of the kernel, and the way to it measured.
//!
//! ```text
//! fio ─▶ /dev/loopN (tags, scheduler) ─▶ FUSE ─▶ the model in real time
//! ```
//!
//! The way is measured on a stage of its own, whose device takes exactly 2 ms for every command: one
//! reader of 4 KiB, then one of 128 KiB. What they take beyond 2 ms is the way; what passes
//! between two reads beyond that is the time that fio itself needs.
//!
//! ```text
//! 4 KiB    mean latency 2.062 ms, 480 a second (2.083 ms)    62 us the way, 21 us between
//! 128 KiB  mean latency 2.093 ms                             31 us more for 124 KiB: 0.25 us a KiB
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use paternoster::Nanos;
use paternoster_serve::emulate::{Emulated, Emulation, Precision};
use paternoster_sim::Description;

use super::fio::{self, Got};
use super::loop_device::LoopDevice;
use super::split::Part;
use super::undo::Undo;
use super::way::Costs;

/// What every command on the stage of the way takes.
const WAY_NS: f64 = 2e6;
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
    /// What was refused; what was done until then is undone.
    pub(super) fn open(
        device: &Description,
        folder: &Path,
        name: &str,
    ) -> Result<Stage, String> {
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

    /// How precise the emulation was; everything put back.
    ///
    /// # Errors
    /// What could not be put back.
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

/// The way's costs, measured in `folder`.
///
/// # Errors
/// What went wrong on the stage.
pub(super) fn measure(folder: &Path, stop: &AtomicBool) -> Result<Costs, String> {
    let device = Description::parse("way.toml", WAY).map_err(|error| error.to_string())?;
    let stage = Stage::open(&device, folder, "way")?;
    stage.loop_device.queue.choose("none", &[])?;
    let small = one_reader(&stage.loop_device.path, SMALL_KIB, folder, stop)?;
    let large = one_reader(&stage.loop_device.path, LARGE_KIB, folder, stop)?;
    stage.close()?;
    Ok(costs(&small, &large))
}

fn one_reader(
    device: &Path,
    kib: u32,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Got, String> {
    let text = format!(
        "[way]\nthread=1\ndirect=1\nioengine=psync\nfilename={}\nrw=randread\nbs={kib}k\nsize=64m\n\
         time_based=1\n{MEASURE}\nlat_percentiles=1\npercentile_list=50:99\n",
        device.display()
    );
    let part = Part { group: None, text, clones: vec![0] };
    let none: Option<PathBuf> = None;
    let mut got = fio::run(&[(part, none)], folder, stop)?;
    Ok(got.remove(0))
}

fn costs(small: &Got, large: &Got) -> Costs {
    let beyond = |got: &Got| (got.mean - WAY_NS).max(0.0);
    let kib = (beyond(large) - beyond(small)).max(0.0) / f64::from(LARGE_KIB - SMALL_KIB);
    let command = beyond(small) - kib * f64::from(SMALL_KIB);
    let cycle = if small.iops > 0.0 { 1e9 / small.iops } else { small.mean };
    Costs { command: nanos(command), kib: nanos(kib), submit: nanos(cycle - small.mean) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, < 2^63")]
fn nanos(time: f64) -> Nanos {
    Nanos(time.clamp(0.0, 1e15).round() as u64)
}

/// The device of the way: always 2 ms, as many at a time as there are.
const WAY: &str = r#"
name = "way"
model = "linear"
summary = "2 ms for every command"
valid = "measuring what lies before a device"
[facts]
capacity = { value = "64 MiB", source = "assumed: two readers need no more" }
depth = { value = 32, source = "assumed" }
[linear]
servers = { value = 32, source = "assumed: nobody waits" }
base = { value = "2 ms", source = "assumed: longer than a timer's error" }
rate = { value = "0 ns/B", source = "assumed: data cost nothing" }
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn got(mean_us: f64, iops: f64) -> Got {
        Got { mean: mean_us * 1e3, iops, ..Got::default() }
    }

    /// The essay's example: 2062 us and 480 a second, 2093 us. (2093 - 2062) us / 124 KiB = 250 ns;
    /// 62 us - 4 * 250 ns = 61 us; 1 s / 480 - 2062 us = 21.333 us.
    #[test]
    fn costs_follow_from_two_readers() {
        let found = costs(&got(2062.0, 480.0), &got(2093.0, 470.0));
        let submit = Nanos(21_333);
        assert_eq!(found, Costs { command: Nanos(61_000), kib: Nanos(250), submit });
    }

    /// Is a way that takes no time, or less than none by chance, none?
    #[test]
    fn nothing_is_negative() {
        let found = costs(&got(1999.0, 501.0), &got(1990.0, 500.0));
        assert_eq!(found, Costs::default());
    }

    /// Is the device of the way one?
    #[test]
    fn the_way_is_a_device() {
        let device = Description::parse("way.toml", WAY).unwrap();
        assert_eq!((device.facts.depth, device.name.as_str()), (32, "way"));
    }
}
