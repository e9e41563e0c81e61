// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames to the letter.

use paternoster_serve::control::snapshot::{
    ConnectionLine, Figures, Snapshot, TenantLine, VolumeLine,
};

use super::*;

fn figures(reads: u64, served_ns: u64, bucket: usize) -> Figures {
    let mut latency_log2_us = vec![0; 16];
    latency_log2_us[bucket] = reads;
    Figures {
        reads,
        read_bytes: reads * 4000,
        writes: reads / 2,
        write_bytes: 0,
        served_ns,
        latency_ns: reads * 1_000_000,
        latency_log2_us,
        ..Figures::default()
    }
}

fn tenant(name: &str, parent: &str, figures: Figures) -> TenantLine {
    TenantLine {
        name: name.to_owned(),
        parent: parent.to_owned(),
        figures,
        ..TenantLine::default()
    }
}

/// A device after this many seconds: db has three quarters of it, web a quarter; backup nothing.
fn snapshot(seconds: u64) -> Snapshot {
    let connection = |id, tenant: &str, under_way, figures| ConnectionLine {
        id,
        tenant: tenant.to_owned(),
        volume: "vm".to_owned(),
        peer: "unix uid 0".to_owned(),
        under_way,
        figures,
    };
    let db = figures(3000 * seconds, 600_000_000 * seconds, 11);
    let web = figures(1000 * seconds, 200_000_000 * seconds, 15);
    Snapshot {
        device: "disk0".to_owned(),
        backend: "io_uring".to_owned(),
        scheduler: "bfq".to_owned(),
        scheduler_failed: String::new(),
        scheduler_failures: 0,
        depth: 32,
        now_ns: 1_000_000_000 * seconds,
        busy_ns: 875_000_000 * seconds,
        in_device: 4,
        waiting: 61,
        memory: 64 << 20,
        memory_used: 3 << 20,
        tracing: true,
        volumes: vec![VolumeLine {
            name: "old".to_owned(),
            drained: true,
            ..VolumeLine::default()
        }],
        tenants: vec![
            tenant("backup", "", Figures::default()),
            TenantLine { effective_weight: 100, ..tenant("web", "gold", web.clone()) },
            TenantLine { name: "gold".to_owned(), is_group: true, ..TenantLine::default() },
            TenantLine { effective_weight: 400, ..tenant("db", "gold", db.clone()) },
        ],
        connections: vec![
            connection(1, "web", 1, web),
            connection(2, "db", 32, Figures::default()),
            connection(3, "db", 28, db),
        ],
        ..Snapshot::default()
    }
}

fn text(before: u64, after: u64, view: &View) -> String {
    let lines = frame(&[snapshot(before)], &[snapshot(after)], view);
    lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

/// Is a frame right, to the letter? In the two seconds between the snapshots db read 6000 times
/// 4000 bytes: 12 MB/s. Its latencies are below 2^11 us; web's in the last bucket, which begins at
/// 2^14 us. Both have requests open: with their weights of 400 and 100 they are entitled to four
/// fifths and one.
#[test]
fn to_the_letter() {
    let expected = "\
disk0: bfq on io_uring, tracing, drained: old
busy 87.5 %, 4 of 32 in device, 61 waiting, 6000 IOPS, 16.0 MB/s, memory 3.0 MiB of 64.0 MiB

tenant     ↓share                     entitled     MB/s  reads/s  writes/s  mean ms   p99 ms   open
gold/db    75.0 % ##############-----   80.0 %     12.0     3000      1500     1.00    <2.05     60
gold/web   25.0 % #####--------------   20.0 %      4.0     1000       500     1.00    ≥16.4      1
backup      0.0 % -------------------    0.0 %      0.0        0         0        -        -      0
";
    assert_eq!(text(3, 5, &View { width: 99, ..View::default() }), expected);
}

/// Are connections below their tenants, sorted the same way?
#[test]
fn connections_below() {
    let view = View { connections: true, sort: Column::Open, width: 80, ..View::default() };
    let expected = "\
disk0: bfq on io_uring, tracing, drained: old
busy 87.5 %, 4 of 32 in device, 61 waiting, 6000 IOPS, 16.0 MB/s, memory 3.0 Mi…

tenant                share entitled     MB/s  reads/s  writes/s   p99 ms  ↓open
gold/db              75.0 %   80.0 %     12.0     3000      1500    <2.05     60
  #2 vm unix uid 0    0.0 %        -      0.0        0         0        -     32
  #3 vm unix uid 0   75.0 %        -     12.0     3000      1500    <2.05     28
gold/web             25.0 %   20.0 %      4.0     1000       500    ≥16.4      1
  #1 vm unix uid 0   25.0 %        -      4.0     1000       500    ≥16.4      1
backup                0.0 %    0.0 %      0.0        0         0        -      0
";
    assert_eq!(text(3, 5, &view), expected);
}

/// Are columns left out where there is no room for all, and none cut off? Of 50 columns 9 are for
/// names, 9 for the share, 25 for the three most important: with a fourth they would be 52.
#[test]
fn columns_that_fit() {
    let expected = "\
tenant     ↓share    entitled     MB/s   p99 ms
gold/db    75.0 %      80.0 %     12.0    <2.05
gold/web   25.0 %      20.0 %      4.0    ≥16.4
backup      0.0 %       0.0 %      0.0        -
";
    let told = text(3, 5, &View { width: 50, ..View::default() });
    let squeezed = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.replace(['#', '-'], " "));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(squeezed(&told)[3..], squeezed(expected), "{told}");
    assert!(!told.lines().skip(3).any(|line| line.contains('…')), "{told}");
}

/// Does a frame keep within its terminal, whatever its size?
#[test]
fn within_the_terminal() {
    for (width, height) in [(1, 1), (20, 3), (80, 8), (200, 50), (65535, 65535)] {
        for scroll in [0, 5, usize::MAX] {
            let view =
                View { width, height, scroll, connections: true, live: true, ..View::default() };
            let lines = frame(&[snapshot(3)], &[snapshot(5)], &view);
            assert!(lines.len() <= usize::from(height), "{width}x{height}");
            let widest = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width), "{width}x{height}: {widest}");
        }
    }
    // Ten lines, with room for four besides the two of the keys.
    let view = View { height: 6, connections: true, live: true, ..View::default() };
    let lines = frame(&[snapshot(3)], &[snapshot(5)], &view);
    assert_eq!(lines[3].text, "… 7 more lines");
    assert_eq!(lines[5].text, "q ends  c connections  left right sort  up down scroll");
}

/// What is shown without anything to compare with: at the beginning, after a restart?
#[test]
fn without_a_past() {
    let view = View::default();
    let since_start = frame(&[], &[snapshot(5)], &view);
    // All figures are proportional to time: any interval has the same rates.
    assert_eq!(since_start, frame(&[snapshot(3)], &[snapshot(5)], &view));
    assert_eq!(since_start, frame(&[snapshot(9)], &[snapshot(5)], &view));
    assert!(text(5, 5, &view).contains("busy 0.0 %"));
    assert_eq!(frame(&[], &[], &view)[0].text, "no device answers");
}

/// Do keys do what the last line says?
#[test]
fn keys() {
    let mut view = View::default();
    view.turn(Key::Right);
    view.turn(Key::Right);
    assert_eq!(view.sort, Column::Bytes);
    for _ in 0..4 {
        view.turn(Key::Left);
    }
    assert_eq!(view.sort, Column::Open, "around the edge");
    view.turn(Key::Connections);
    view.turn(Key::Down);
    assert!(view.connections && view.scroll == 1);
    view.turn(Key::Up);
    view.turn(Key::Up);
    assert_eq!(view.scroll, 0);
    (view.sort, view.connections) = (Column::Name, false);
    let names: String = text(3, 5, &view).lines().skip(4).map(|line| &line[..8]).collect();
    assert_eq!(names, "backup  gold/db gold/web");
}

/// Does a process without a tenant have its own row, next to the tenants, and its part of the
/// whole?
#[test]
fn processes_of_nobody() {
    let snapshot = |seconds: u64| {
        let line = |id, peer: &str, share: u64| ConnectionLine {
            id,
            peer: peer.to_owned(),
            figures: figures(1000 * seconds, share * 10_000_000 * seconds, 11),
            ..ConnectionLine::default()
        };
        let connections = vec![line(1, "fio[7]", 60), line(2, "dd[8]", 20)];
        Snapshot { now_ns: 1_000_000_000 * seconds, connections, ..Snapshot::default() }
    };
    let lines = frame(&[snapshot(1)], &[snapshot(2)], &View::default());
    let text: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    // 60 and 20 of 80.
    assert!(text.iter().any(|line| line.starts_with("fio[7]") && line.contains("75.0 %")));
    assert!(text.iter().any(|line| line.starts_with("dd[8]") && line.contains("25.0 %")));
    assert!(text[1].contains(" 3000 IOPS"), "1000 reads and 500 writes of each: {}", text[1]);
    let nothing = frame(&[], &[Snapshot::default()], &View::default());
    assert!(nothing[1].text.contains(" 0 IOPS"), "{}", nothing[1].text);
}
