// SPDX-License-Identifier: MIT OR Apache-2.0
//! nbdkit in front of a slow remote disk, with the filter and without it. The remote disk is
//! nbdkit's own `memory` behind `delay`, which works on four requests at a time, 2 ms each:
//!
//! ```text
//! fio: greedy a, 16 at a time ─┐
//! fio: greedy b, 4 x 16 ───────┼─▶ nbdkit [fair] nbd ─▶ nbdkit --threads=4 delay memory
//! fio: paced, 20 a second ─────┘
//! ```

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{NBDKIT, has_all, nbdkit_filter};

/// A server, stopped with its test at the latest.
struct Server(Child);

impl Server {
    fn start(socket: &Path, arguments: &[&str]) -> Server {
        let _old = std::fs::remove_file(socket);
        let mut command = Command::new("nbdkit");
        command.arg("-f").arg("-U").arg(socket).args(arguments);
        let server = Server(command.spawn().expect("nbdkit starts"));
        let limit = Instant::now() + Duration::from_secs(20);
        while !socket.exists() {
            assert!(Instant::now() < limit, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Reads a second, and the median and 99th percentile in us.
#[derive(Debug, Clone, Copy)]
struct Figures {
    rate: u64,
    median: u64,
    p99: u64,
}

/// fio's figures for each job, in the order of the file.
fn measure(folder: &Path, jobs: &str) -> Vec<Figures> {
    let file = folder.join("nbdkit.fio");
    std::fs::write(&file, jobs).expect("a file");
    let output = Command::new("fio")
        .args(["--output-format=terse", "--terse-version=3"])
        .arg(&file)
        .current_dir(folder)
        .output()
        .expect("fio starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with("3;"));
    let figures = lines.map(|line| {
        let fields: Vec<&str> = line.split(';').collect();
        // The percentiles are NAME=VALUE.
        let percentile = |name: &str| {
            let own = fields[17..37].iter().find_map(|field| field.strip_prefix(name));
            own.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let rate = fields[7].parse().unwrap_or(0);
        Figures { rate, median: percentile("50.000000%="), p99: percentile("99.000000%=") }
    });
    let figures: Vec<Figures> = figures.collect();
    assert!(!figures.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    figures
}

fn job(name: &str, more: &str) -> String {
    format!("[{name}]\nuri=nbd+unix:///{name}?socket=near\nnew_group\n{more}\n")
}

/// Two greedy clients, one with four connections, and one that reads 20 times a second: does each
/// greedy one get half, or four fifths by weight, and how long does the third wait?
#[test]
fn greedy_clients_and_a_paced_one() {
    if !has_all("greedy_clients_and_a_paced_one", &[&NBDKIT[..], &["gcc", "fio"]].concat()) {
        return;
    }
    let filter = nbdkit_filter("gcc", "real-time");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (far, near) = (folder.join("far"), folder.join("near"));
    let global = "[global]\nioengine=nbd\nsize=64M\nrw=randread\nbs=4k\nthread\ntime_based\n\
                  runtime=8\nramp_time=3\ngroup_reporting\n";
    let paced = job("paced", "rate_iops=20");
    let greedy = job("a", "iodepth=16") + &job("b", "iodepth=16\nnumjobs=4");
    let socket = format!("socket={}", far.display());
    let behind = |with: Option<&[&str]>, jobs: &str| {
        let memory = ["--threads=4", "--filter=delay", "memory", "64M", "rdelay=2ms"];
        let _far = Server::start(&far, &memory);
        let filter = format!("--filter={}", filter.display());
        let mut arguments = vec!["nbd", &socket, "shared=true"];
        if let Some(weights) = with {
            arguments.insert(0, &filter);
            arguments.push("fair-by=export");
            arguments.extend(weights);
        }
        let _near = Server::start(&near, &arguments);
        measure(&folder, &format!("{global}{jobs}"))
    };
    let alone = behind(None, &paced)[0];
    let all = greedy + &paced;
    let without = behind(None, &all);
    let fair = behind(Some(&[]), &all);
    let weighed = behind(Some(&["fair-weight=a:400"]), &all);
    println!("alone {alone:?}\nwithout {without:?}\nfair {fair:?}\nweighed {weighed:?}");
    let total = |rows: &[Figures]| rows.iter().map(|row| row.rate).sum::<u64>();
    let share = |rows: &[Figures]| rows[0].rate * 100 / (rows[0].rate + rows[1].rate);
    // Four of five connections are b's: a gets 20 of 100 without the filter; half is due, or 80 of
    // 100.
    assert!(share(&without) <= 30 && (45..=55).contains(&share(&fair)));
    assert!((74..=86).contains(&share(&weighed)));
    for rows in [&fair, &weighed] {
        assert!(total(rows) * 100 >= total(&without) * 90);
        // 80 requests ahead of it are 40 ms; with the filter only four are in the disk.
        assert!(rows[2].median * 3 <= without[2].median && rows[2].p99 * 2 <= without[2].p99);
    }
}
