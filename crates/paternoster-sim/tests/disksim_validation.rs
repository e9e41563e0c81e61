// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the model answer as seven real disks did?
#[path = "common/disksim.rs"]
mod disksim;

use std::sync::Arc;

use disksim::{Fit, Measured};
use paternoster::{Nanos, Op};
use paternoster_sim::hdd::{Drive, DriveParameters, Task};

fn replay(parameters: DriveParameters, trace: &[Measured]) -> Vec<f64> {
    let mut drive = Drive::new(Arc::new(parameters));
    let mut now = 0.0;
    let mut out = Vec::new();
    for (i, m) in trace.iter().enumerate() {
        let at = Nanos(now as u64);
        while drive.advance(at).is_some() {}
        let op = if m.write { Op::Write } else { Op::Read };
        let fua = m.write && !WB.with(|w| w.get());
        drive.submit(at, i, Task { op, sector: m.sector, sectors: m.sectors, fua }).unwrap();
        let end = loop {
            let ev = drive.next_event().unwrap();
            if let Some(e) = drive.advance(ev) {
                break e.at;
            }
        };
        out.push((end.0 - at.0) as f64 / 1e6);
        now = end.0 as f64 + m.gap_us * 1e3;
    }
    out
}
thread_local! { static WB: std::cell::Cell<bool> = const { std::cell::Cell::new(true) }; }

fn rms(a: &[f64], b: &[f64]) -> f64 {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let s: f64 = a.iter().zip(&b).map(|(x, y)| (x - y) * (x - y)).sum();
    (s / a.len() as f64).sqrt()
}

#[test]
fn look() {
    let Some(folder) = disksim::folder() else { return };
    for (name, model, specs, theirs) in [
        ("atlas10k", "atlas10k", "atlas10k", 0.268),
        ("barracuda", "barracuda", "barracuda", 0.349),
        ("cheetah4LP", "cheetah4LP", "cheetah4LP", 0.318),
        ("cheetah9LP", "cheetah9LP", "cheetah9LP", 0.107),
        ("hp_c2247a", "hp_c2247a_validate", "hp_c2247a", 0.090),
        ("hp_c3323a", "hp_c3323a_validate", "hp_c3323a_validate", 0.306),
        ("st41601n", "st41601n_validate", "st41601n", 9.9),
    ] {
        let trace = disksim::trace(&folder.join(format!("{name}.trace")));
        let p = disksim::disk(&folder, name, model, specs, Fit::default());
        WB.with(|w| w.set(p.room.sectors > 0));
        let ours = replay(p, &trace);
        if let Ok(dir) = std::env::var("DUMP") {
            let text: String = trace
                .iter()
                .zip(&ours)
                .map(|(m, o)| {
                    format!(
                        "{} {} {} {} {} {}\n",
                        if m.write { "W" } else { "R" },
                        m.sector,
                        m.sectors,
                        m.response_us / 1e3,
                        o,
                        m.gap_us / 1e3
                    )
                })
                .collect();
            std::fs::write(format!("{dir}/{name}.out"), text).unwrap();
        }
        let m: Vec<f64> = trace.iter().map(|m| m.response_us / 1e3).collect();
        let part = |w: bool| {
            let a: Vec<f64> =
                trace.iter().zip(&ours).filter(|(m, _)| m.write == w).map(|(_, o)| *o).collect();
            let b: Vec<f64> =
                trace.iter().filter(|m| m.write == w).map(|m| m.response_us / 1e3).collect();
            (
                rms(&a, &b),
                a.iter().sum::<f64>() / a.len() as f64,
                b.iter().sum::<f64>() / b.len() as f64,
            )
        };
        println!(
            "{name:12} rms {:.3} disksim {theirs} reads {:.3?} writes {:.3?}",
            rms(&ours, &m),
            part(false),
            part(true)
        );
    }
}
