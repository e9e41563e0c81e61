// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device: an imaginary disk, SSD or card, within the range of real drives.
//!
//! The numbers of a drawn device come from the ranges that the data sheets of the catalog's devices
//! and their classes span; each is drawn independently, so that a slow arm on a fast platter, or
//! many dies behind a narrow link, occur too. The file is kept, so that a failure can be printed
//! with its device.
//!
//! ```text
//! seed 7 ──▶ model = "ssd", depth = 32, dies = 4, read = ["70 us"], program = "900 us" …
//! ```
//!
//! Source: `docs/rules/devices.md` for the ranges of classes; no drawn device exists.

use std::fmt::Write;

use paternoster_sim::Description;

use crate::draw::Draw;
use crate::load::Device;

/// A device file in the making.
struct File(String);

impl File {
    fn section(&mut self, name: &str) {
        let _ = writeln!(self.0, "\n[{name}]");
    }

    /// A number with a unit.
    fn text(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.0, "{name} = {{ value = \"{value}\", source = \"drawn\" }}");
    }

    /// A number without a unit.
    fn plain(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} = {{ value = {value}, source = \"drawn\" }}");
    }
}

/// The device of a seed.
pub(super) fn draw(seed: u64, draw: &mut Draw) -> Device {
    let model = draw.of(&["hdd", "hdd", "ssd", "linear", "linear"]);
    let name = format!("drawn-{model}-{seed}");
    let mut file = File(format!(
        "name = \"{name}\"\nmodel = \"{model}\"\nsummary = \"drawn\"\nvalid = \"torture\"\n"
    ));
    file.section("facts");
    let flush = draw.one_in(3);
    file.plain("write_cache", model != "linear");
    file.plain("flush_queueable", flush);
    file.plain("fua", draw.one_in(3));
    match model {
        "hdd" => disk(&mut file, draw),
        "ssd" => ssd(&mut file, draw),
        _ => servers(&mut file, draw),
    }
    file.section("host");
    file.text("submit_cost", &format!("{} us", draw.of(&[3, 20, 60])));
    let description = Description::parse(&name, &file.0);
    let description = description.unwrap_or_else(|error| panic!("{error}\n{}", file.0));
    Device { description, file: Some(file.0) }
}

fn disk(file: &mut File, draw: &mut Draw) {
    file.text("capacity", &format!("{} GB", draw.of(&[300, 1000, 4000])));
    let depth = draw.of(&[1, 4, 32]);
    file.plain("depth", depth);
    file.plain("rotational", true);
    file.section("hdd");
    let outer = draw.between(60, 250);
    let track = draw.between(6, 20);
    file.plain("rpm", draw.of(&[5400, 7200, 10_000, 15_000]));
    file.plain("heads", draw.between(1, 8));
    file.plain("zones", draw.between(8, 24));
    file.text("rate_outer", &format!("{outer} MB/s"));
    file.text("rate_inner", &format!("{} MB/s", outer * draw.between(45, 60) / 100));
    file.text("track_to_track", &format!("{track}00 us"));
    file.text("average_seek", &format!("{}00 us", track + draw.between(25, 110)));
    file.text("head_switch", &format!("{track}00 us"));
    file.text("write_settle", &format!("{}00 us", draw.between(2, 12)));
    file.text("overhead", &format!("{} us", draw.between(50, 300)));
    file.text("hit_overhead", &format!("{} us", draw.between(10, 100)));
    file.text("link", &format!("{} MB/s", draw.of(&[300, 560, 1200])));
    let segment_kib = draw.of(&[512, 1024, 2048]);
    file.plain("segments", draw.of(&[4, 8, 16]));
    file.text("segment_size", &format!("{segment_kib} KiB"));
    file.text("read_ahead", &format!("{} KiB", segment_kib * draw.of(&[25, 50, 87]) / 100));
    file.plain("queue_window", draw.of(&[1, 4, 6, 16]).min(depth));
    file.text("age_limit", &format!("{} ms", draw.of(&[200, 500, 1000])));
    file.text("write_buffer", &format!("{} MiB", draw.of(&[2, 8, 32])));
    file.plain("write_extents", draw.of(&[100, 400, 1400]));
    file.plain("drain_window", draw.of(&[2, 4, 8]));
    file.text("drain_delay", &format!("{} ms", draw.of(&[5, 50])));
    file.text("flush_base", &format!("{} ms", draw.of(&[5, 28])));
}

fn ssd(file: &mut File, draw: &mut Draw) {
    file.text("capacity", "500 GB");
    file.plain("depth", draw.of(&[8, 32, 64]));
    file.plain("rotational", false);
    file.section("ssd");
    file.plain("channels", draw.of(&[1, 2, 4, 8]));
    file.plain("dies", draw.of(&[8, 16, 32]));
    file.text("page", &format!("{} KiB", draw.of(&[4, 8, 16])));
    let _ = writeln!(
        file.0,
        "read = {{ value = [\"{} us\"], source = \"drawn\" }}",
        draw.between(300, 900)
    );
    file.text("program", &format!("{} us", draw.between(1500, 4000)));
    file.text("channel_rate", &format!("{} MB/s", draw.of(&[200, 400, 800])));
    file.text("link_rate", &format!("{} MB/s", draw.of(&[150, 300, 560])));
    file.text("link_command", &format!("{} us", draw.between(2, 20)));
    file.plain("link_duplex", draw.one_in(3));
    file.text("controller", &format!("{} us", draw.between(10, 80)));
    file.text("buffer", &format!("{} MB", draw.of(&[1, 8, 32])));
    file.text("amplification", &format!("{}.5", draw.between(1, 12)));
    file.plain("power_loss_protection", draw.one_in(4));
    file.text("flush", &format!("{} ms", draw.between(1, 8)));
}

fn servers(file: &mut File, draw: &mut Draw) {
    let depth = draw.of(&[1, 4, 8, 32]);
    file.text("capacity", "16 GiB");
    file.plain("depth", depth);
    file.plain("rotational", draw.one_in(3));
    file.section("linear");
    file.plain("servers", depth);
    file.text("base", &format!("{} us", draw.of(&[300, 1000, 2000, 8000])));
    file.text("rate", &format!("{} ns/B", draw.of(&[0, 5, 20, 50])));
}
