// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the model respond as seven real disks did?
//!
//! DiskSim's authors measured some 10 000 requests on each of these disks, one at a time, and
//! published how long each took, together with the disks' geometry, seek curves and controller
//! times. Here each becomes a [`Drive`] that gets the same requests, and the two distributions are
//! compared by the *demerit figure*: the root mean square of the differences of the sorted response
//! times, in ms (Ruemmler and Wilkes 1994). DiskSim's own figure is given for comparison
//! (`runvalid` in that folder).
//!
//! The last number of a trace line is the time from the *end* of a request to the issue of the
//! next: with that reading DiskSim's own output for the atlas10k has exactly the figure that its
//! authors state ([`disksims_own_figure`]). So each request here is issued that long after the
//! end of its predecessor in the simulation.
//!
//! Every number comes from DiskSim's files, and none is ours: where each sector lies, controller
//! times, the kind of read-ahead, which segments a write takes, the settling that may be negative,
//! the steps on the bus, how long an arm rests before a write. Nothing is fitted to the times that
//! are compared. Where the files and the manual leave a rule open, DiskSim's own run of the
//! atlas10k decides ([`as_disksim_ran`]), which the authors publish; what we are compared with are
//! the measurements.
//!
//! Without the folder of measurements the test prints a message and passes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use paternoster_core::{Nanos, Op};
use paternoster_sim::hdd::{Drive, DriveParameters, Task};

use crate::common::disksim::{self, Measured};

/// One of the seven disks.
struct Disk {
    name: &'static str,
    model: &'static str,
    specs: &'static str,
    /// The demerit figure that DiskSim reaches, if its authors state it.
    disksim: Option<f64>,
    /// Ours, to the third digit.
    ours: f64,
}

/// Newest first.
#[expect(clippy::approx_constant, reason = "0.318 is a measured figure, not 1/pi")]
const DISKS: [Disk; 7] = [
    disk("atlas10k", "atlas10k", "atlas10k", Some(0.268), 0.106),
    disk("cheetah9LP", "cheetah9LP", "cheetah9LP", Some(0.107), 0.107),
    disk("cheetah4LP", "cheetah4LP", "cheetah4LP", Some(0.318), 0.318),
    disk("barracuda", "barracuda", "barracuda", Some(0.349), 0.348),
    disk("hp_c3323a", "hp_c3323a_validate", "hp_c3323a_validate", Some(0.306), 0.295),
    disk("hp_c2247a", "hp_c2247a_validate", "hp_c2247a", Some(0.090), 0.121),
    disk("st41601n", "st41601n_validate", "st41601n", None, 0.082),
];

const fn disk(
    name: &'static str,
    model: &'static str,
    specs: &'static str,
    disksim: Option<f64>,
    ours: f64,
) -> Disk {
    Disk { name, model, specs, disksim, ours }
}

/// Sends the requests to a drive, each its gap after the end of the last; returns response times in
/// ms.
fn replay(parameters: DriveParameters, requests: &[Measured]) -> Vec<f64> {
    let write_back = parameters.room.sectors > 0;
    let mut drive = Drive::new(Arc::new(parameters));
    let mut now = Nanos::ZERO;
    let mut responses = Vec::with_capacity(requests.len());
    for (place, request) in requests.iter().enumerate() {
        // Lets acknowledged writes drain, until now.
        assert_eq!(drive.advance(now), None, "nothing else is under way");
        let end = serve(&mut drive, now, place, request, write_back);
        responses.push(disksim::in_ms(end - now));
        now = end + disksim::ms(request.gap_us / 1000.0);
    }
    responses
}

/// Sends a request to a drive that has no other; returns when it ends.
fn serve(
    drive: &mut Drive<usize>,
    now: Nanos,
    place: usize,
    request: &Measured,
    write_back: bool,
) -> Nanos {
    let op = if request.write { Op::Write } else { Op::Read };
    let fua = request.write && !write_back;
    let task = Task { op, sector: request.sector, sectors: request.sectors, fua };
    drive.submit(now, place, task).expect("one at a time");
    loop {
        let event = drive.next_event().expect("it is under way");
        if let Some(ended) = drive.advance(event) {
            assert_eq!(ended.id, place);
            return ended.at;
        }
    }
}

/// The demerit figure of two distributions of equal size.
fn demerit(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let sorted = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times
    };
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    let squares = ours.iter().zip(&theirs).map(|(a, b)| (a - b).powi(2));
    (squares.clone().sum::<f64>() / f64::from(u32::try_from(ours.len()).unwrap())).sqrt()
}

fn measured(requests: &[Measured]) -> Vec<f64> {
    requests.iter().map(|request| request.response_us / 1000.0).collect()
}

/// How far are we from the measurements, and how far is DiskSim? And does our figure stay the same,
/// to the third digit in both directions? We are as close or closer on five of six.
#[test]
fn seven_real_disks() {
    let Some(folder) = disksim::folder() else { return };
    println!("{:12} {:>8} {:>8}   demerit, ms", "disk", "ours", "DiskSim");
    let mut nearer = 0;
    for disk in &DISKS {
        let requests = disksim::trace(&folder.join(format!("{}.trace", disk.name)));
        let parameters = disksim::disk(&folder, disk.name, disk.model, disk.specs, None);
        let ours = demerit(&replay(parameters, &requests), &measured(&requests));
        let theirs = disk.disksim.map_or("-".to_owned(), |figure| format!("{figure:.3}"));
        println!("{:12} {ours:8.3} {theirs:>8}", disk.name);
        assert!((ours - disk.ours).abs() < 0.001, "{}: {ours:.3}, {} stated", disk.name, disk.ours);
        nearer += u32::from(disk.disksim.is_some_and(|theirs| ours <= theirs));
    }
    assert_eq!(nearer, 5);
}

/// Do we read the traces as their authors do? The set has the times when DiskSim issued each of the
/// atlas10k's requests. If the last number of a line is the gap from end to issue, then DiskSim's
/// response times are the differences minus the gaps, and their demerit is the 0.268 ms that
/// `runvalid` states.
#[test]
fn disksims_own_figure() {
    let Some(folder) = disksim::folder() else { return };
    let requests = disksim::trace(&folder.join("atlas10k.trace"));
    let issued = disksims_issues(&folder);
    let theirs: Vec<f64> = issued
        .windows(2)
        .zip(&requests)
        .map(|(issues, request)| issues[1] - issues[0] - request.gap_us / 1000.0)
        .collect();
    let figure = demerit(&theirs, &measured(&requests[..theirs.len()]));
    assert!((figure - 0.268).abs() < 0.0005, "{figure}");
}

/// Does the model do what DiskSim did? Its published run of the atlas10k, request by request, each
/// issued when DiskSim issued it: how many of 9,999 end within 0.05 ms of when they ended there?
///
/// Sectors pass 62.65 us later each 100 s there than 10,025 rpm have it, so a revolution took not
/// 5.985037 but 5.985041 ms. DiskSim does not keep sectors that pass before those asked for, though
/// the files say that the drive does. Of the 45 others 37 follow a read over the end of a track: it
/// holds nothing of that, and the drive did.
#[test]
fn as_disksim_ran() {
    let Some(folder) = disksim::folder() else { return };
    let requests = disksim::trace(&folder.join("atlas10k.trace"));
    let issued = disksims_issues(&folder);
    let turn = Some(Nanos(5_985_041));
    let mut parameters = disksim::disk(&folder, "atlas10k", "atlas10k", "atlas10k", turn);
    parameters.segments.keep_before = false;
    let mut drive = Drive::new(Arc::new(parameters));
    let mut near = 0;
    for (place, times) in issued.windows(2).enumerate() {
        let (now, request) = (disksim::ms(times[0]), &requests[place]);
        assert_eq!(drive.advance(now), None, "nothing else is under way");
        let ours = disksim::in_ms(serve(&mut drive, now, place, request, true) - now);
        let theirs = times[1] - times[0] - request.gap_us / 1000.0;
        near += u32::from((ours - theirs).abs() < 0.05);
    }
    println!("as DiskSim ran: {near} of {}", issued.len() - 1);
    assert_eq!(near, 9_954);
}

/// When DiskSim issued each request of the atlas10k, in ms.
fn disksims_issues(folder: &Path) -> Vec<f64> {
    let text = fs::read_to_string(folder.join("atlas10k.outtrace")).expect("DiskSim's own trace");
    text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

/// Is the demerit right? Sorted, [1, 2, 4] and [1, 3, 6] differ by 0, 1, 2: the root of 5/3.
#[test]
fn demerit_by_hand() {
    let figure = demerit(&[4.0, 1.0, 2.0], &[3.0, 6.0, 1.0]);
    assert!((figure - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
}
