// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reports, line by line, from figures that can be computed in the head; totals of intervals.

use super::*;

/// Two seconds: 3000 reads and 2000 writes of 16 KiB, 6400 fsyncs in bursts, 128 at the end. Of
/// 11,400 events 500 took 3 ms, the others 0.1 ms.
fn totals() -> Totals {
    let mut latencies = Histogram::new();
    latencies.record_many(Nanos::from_micros(100), 10_900);
    latencies.record_many(Nanos::from_millis(3), 500);
    Totals {
        time: Nanos::from_secs(2),
        reads: 3000,
        writes: 2000,
        fsyncs: 6400,
        closing_fsyncs: 128,
        bytes: [3000 << 14, 2000 << 14],
        least: Nanos::from_micros(100),
        greatest: Nanos::from_millis(3),
        threads: vec![
            Thread { events: 5800, seconds: 1.34 },
            Thread { events: 5600, seconds: 1.25 },
        ],
        latencies,
    }
}

fn sysbench() -> Sysbench {
    Sysbench { threads: 2, ..Sysbench::new(Mode::RandomReadWrite) }
}

/// Is the newer report sysbench's, byte by byte? 3000 / 2 reads a second of 16 KiB are 24.576 MB/s
/// or 23.4375 MiB/s, 1000 writes 16.384 or 15.625, (6400 + 128) / 2 fsyncs; the mean is 2590 ms /
/// 11400; of 5800 and 5600 the deviation is 100, of 1.34 and 1.25 s it is 0.045.
#[test]
fn the_newer_report_is_that_of_sysbench() {
    let text = sysbench().figures(Form::Newer, &totals());
    let expected = "
Throughput:
         read:  IOPS=1500.00 23.44 MiB/s (24.58 MB/s)
         write: IOPS=1000.00 15.62 MiB/s (16.38 MB/s)
         fsync: IOPS=3264.00

Latency (ms):
         min:                                  0.10
         avg:                                  0.23
         max:                                  3.00
         95th percentile:                      0.10
         sum:                               2590.00

Threads fairness:
    events (avg/stddev):           5700.0000/100.00
    execution time (avg/stddev):   1.2950/0.05

";
    // Half of 0.09 may be a little above or below 0.045.
    assert_eq!(text.replace("1.2950/0.04", "1.2950/0.05"), expected);
}

/// And the older one: a block of operations, a total of events without the fsyncs at the end?
#[test]
fn the_older_report_is_that_of_sysbench() {
    let text = sysbench().figures(Form::Older, &totals());
    let head = "
File operations:
    reads/s:                      1500.00
    writes/s:                     1000.00
    fsyncs/s:                     3264.00

Throughput:
    read, MiB/s:                  23.44
    written, MiB/s:               15.62

General statistics:
    total time:                          2.0000s
    total number of events:              11400

Latency (ms):
         min: ";
    assert!(text.starts_with(head), "{text}");
}

/// Does the heading describe the test in sysbench's words?
#[test]
fn the_heading_is_that_of_sysbench() {
    let files = "\
Extra file open flags: (none)
128 files, 16MiB each
2GiB total file size
Block size 16KiB
Number of IO requests: 0
Read/Write ratio for combined random IO test: 1.50
Periodic FSYNC enabled, calling fsync() each 100 requests.
Calling fsync() at the end of test, Enabled.
Using synchronous I/O mode
Doing random r/w test
Initializing worker threads...

Threads started!

";
    let text = sysbench().heading(7);
    assert!(text.ends_with(files) && text.contains("\nNumber of threads: 2\n"), "{text}");
    let text = Sysbench {
        mode: Mode::SequentialWrite,
        direct: true,
        sync_all: true,
        sync_end: false,
        sync_call: SyncCall::Fdatasync,
        io_mode: IoMode::Sync,
        report_interval: Some(Nanos::from_secs(1)),
        ..sysbench()
    }
    .heading(7);
    for line in [
        "Report intermediate results every 1 second(s)",
        "Extra file open flags: directio",
        "Calling fdatasync() after each write operation.",
        "Doing sequential write (creation) test",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    for word in ["Read/Write ratio", "Number of IO requests", "Periodic", "at the end"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

/// Does an interim line cover what was done since the one before? After two seconds as above, at
/// three twice as much: in the second between 3000 reads, 46.875 MiB, and 6528 fsyncs; the
/// percentile is that of the second's events alone, which all took 1 ms.
#[test]
fn interim_lines_are_of_their_interval() {
    let before = totals();
    let mut now = totals();
    (now.time, now.greatest) = (Nanos::from_secs(3), Nanos::from_millis(3));
    (now.reads, now.writes, now.fsyncs) = (6000, 4000, 12_800);
    (now.closing_fsyncs, now.bytes) = (256, [6000 << 14, 4000 << 14]);
    now.latencies.record_many(Nanos::from_millis(1), 11_400);
    let at = now.time;
    let line = sysbench().interim(at, &now.since(&before));
    let (head, latency) = line.split_once("latency (ms,95%): ").expect("a latency");
    assert_eq!(head, "[ 3s ] reads: 46.88 MiB/s writes: 31.25 MiB/s fsyncs: 6528.00/s ");
    let latency: f64 = latency.trim_end().parse().expect("a number");
    assert!((latency - 1.0).abs() < 0.016, "{latency}");
}

/// Is no percentile printed if none is requested?
#[test]
fn percentiles_can_be_left_out() {
    let text = Sysbench { percentile: 0, ..sysbench() }.figures(Form::Newer, &totals());
    assert!(text.contains("\n         percentile stats:               disabled\n"), "{text}");
    assert!(!text.contains("th percentile"), "{text}");
}
