// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of a small snapshot, to the letter; and whether every line is what a parser takes.

use super::*;
use crate::control::snapshot::{ConnectionLine, EarlierLine, VolumeLine};

fn small() -> Vec<(String, Option<Snapshot>)> {
    let figures = Figures {
        reads: 5,
        read_bytes: 20_480,
        writes: 1,
        write_bytes: 4096,
        flushes: 1,
        errors: 2,
        served_ns: 1_500_000_000,
        latency_ns: 2_000_000,
        latency_log2_us: vec![0, 4, 2, 1],
    };
    let group = TenantLine {
        name: "gold".to_owned(),
        is_group: true,
        weight: 200,
        effective_weight: 200,
        ..TenantLine::default()
    };
    let tenant = TenantLine {
        name: "d\"b\\\n".to_owned(),
        parent: "gold".to_owned(),
        weight: 300,
        effective_weight: 250,
        connections: 1,
        figures,
        ..TenantLine::default()
    };
    let snapshot = Snapshot {
        device: "disk0".to_owned(),
        backend: "io_uring".to_owned(),
        scheduler: "bfq".to_owned(),
        scheduler_failed: "lottery panicked: unlucky".to_owned(),
        scheduler_failures: 1,
        depth: 32,
        now_ns: 10_000_000_001,
        busy_ns: 8_000_000_000,
        in_device: 4,
        waiting: 60,
        memory: 67_108_864,
        memory_used: 4096,
        tracing: true,
        volumes: vec![VolumeLine { name: "a".to_owned(), size: 512, ..VolumeLine::default() }],
        tenants: vec![group, tenant],
        connections: vec![ConnectionLine::default()],
        departed: vec![TenantLine {
            name: "gone".to_owned(),
            figures: Figures { errors: 3, ..Figures::default() },
            ..TenantLine::default()
        }],
        earlier: vec![EarlierLine {
            volume: "a".to_owned(),
            tenants: 2,
            figures: Figures { errors: 4, ..Figures::default() },
        }],
        errors: [(5, 1), (28, 2)].into(),
        oldest_command_ns: 1_500_000_000,
        ..Snapshot::default()
    };
    vec![("disk0".to_owned(), Some(snapshot)), ("disk1".to_owned(), None)]
}

const OPEN: &str = r#"# HELP paternoster_up Whether the device's thread answers.
# TYPE paternoster_up gauge
paternoster_up{device="disk0"} 1
paternoster_up{device="disk1"} 0
# HELP paternoster_build The program.
# TYPE paternoster_build info
paternoster_build_info{version="VERSION"} 1
# HELP paternoster_device What the device is.
# TYPE paternoster_device info
paternoster_device_info{device="disk0",scheduler="bfq",backend="io_uring"} 1
# HELP paternoster_device_uptime_seconds Since it was opened.
# TYPE paternoster_device_uptime_seconds gauge
# UNIT paternoster_device_uptime_seconds seconds
paternoster_device_uptime_seconds{device="disk0"} 10.000000001
# HELP paternoster_device_busy_seconds Time during which at least one command was in the device.
# TYPE paternoster_device_busy_seconds counter
# UNIT paternoster_device_busy_seconds seconds
paternoster_device_busy_seconds_total{device="disk0"} 8
# HELP paternoster_device_depth Commands that the device takes at a time.
# TYPE paternoster_device_depth gauge
paternoster_device_depth{device="disk0"} 32
# HELP paternoster_device_commands Commands in the device.
# TYPE paternoster_device_commands gauge
paternoster_device_commands{device="disk0"} 4
# HELP paternoster_device_waiting Requests that wait in the queue.
# TYPE paternoster_device_waiting gauge
paternoster_device_waiting{device="disk0"} 60
# HELP paternoster_device_memory_bytes Memory for data under way.
# TYPE paternoster_device_memory_bytes gauge
# UNIT paternoster_device_memory_bytes bytes
paternoster_device_memory_bytes{device="disk0"} 67108864
# HELP paternoster_device_memory_used_bytes Memory in use for data under way.
# TYPE paternoster_device_memory_used_bytes gauge
# UNIT paternoster_device_memory_used_bytes bytes
paternoster_device_memory_used_bytes{device="disk0"} 4096
# HELP paternoster_device_connections Present connections.
# TYPE paternoster_device_connections gauge
paternoster_device_connections{device="disk0"} 1
# HELP paternoster_device_scheduler_failures Schedulers that broke a law and were replaced.
# TYPE paternoster_device_scheduler_failures counter
paternoster_device_scheduler_failures_total{device="disk0"} 1
# HELP paternoster_device_tracing Whether a trace is being written.
# TYPE paternoster_device_tracing gauge
paternoster_device_tracing{device="disk0"} 1
# HELP paternoster_device_oldest_command_seconds How long the oldest command is in the device.
# TYPE paternoster_device_oldest_command_seconds gauge
# UNIT paternoster_device_oldest_command_seconds seconds
paternoster_device_oldest_command_seconds{device="disk0"} 1.5
# HELP paternoster_device_data_lost Whether a flush failed: data that were acknowledged may be lost.
# TYPE paternoster_device_data_lost gauge
paternoster_device_data_lost{device="disk0"} 0
# HELP paternoster_device_stopping Whether the server stops.
# TYPE paternoster_device_stopping gauge
paternoster_device_stopping{device="disk0"} 0
# HELP paternoster_device_errors Commands that the device failed.
# TYPE paternoster_device_errors counter
paternoster_device_errors_total{device="disk0",errno="5"} 1
paternoster_device_errors_total{device="disk0",errno="28"} 2
# HELP paternoster_volume_size_bytes Size of the volume.
# TYPE paternoster_volume_size_bytes gauge
# UNIT paternoster_volume_size_bytes bytes
paternoster_volume_size_bytes{device="disk0",volume="a"} 512
# HELP paternoster_volume_drained Whether it takes no requests now.
# TYPE paternoster_volume_drained gauge
paternoster_volume_drained{device="disk0",volume="a"} 0
# HELP paternoster_group_weight Weight as configured or ordered.
# TYPE paternoster_group_weight gauge
paternoster_group_weight{device="disk0",group="gold"} 200
# HELP paternoster_group_effective_weight Weight that the scheduler goes by.
# TYPE paternoster_group_effective_weight gauge
paternoster_group_effective_weight{device="disk0",group="gold"} 200
# HELP paternoster_tenant_weight Weight as configured or ordered.
# TYPE paternoster_tenant_weight gauge
paternoster_tenant_weight{device="disk0",tenant="d\"b\\\n"} 300
# HELP paternoster_tenant_effective_weight Weight that the scheduler goes by.
# TYPE paternoster_tenant_effective_weight gauge
paternoster_tenant_effective_weight{device="disk0",tenant="d\"b\\\n"} 250
# HELP paternoster_tenant_connections Present connections.
# TYPE paternoster_tenant_connections gauge
paternoster_tenant_connections{device="disk0",tenant="d\"b\\\n"} 1
# HELP paternoster_requests Requests answered.
# TYPE paternoster_requests counter
paternoster_requests_total{device="disk0",tenant="d\"b\\\n",op="read"} 5
paternoster_requests_total{device="disk0",tenant="d\"b\\\n",op="write"} 1
paternoster_requests_total{device="disk0",tenant="d\"b\\\n",op="flush"} 1
paternoster_requests_total{device="disk0",tenant="gone",op="read"} 0
paternoster_requests_total{device="disk0",tenant="gone",op="write"} 0
paternoster_requests_total{device="disk0",tenant="gone",op="flush"} 0
paternoster_requests_total{device="disk0",volume="a",op="read"} 0
paternoster_requests_total{device="disk0",volume="a",op="write"} 0
paternoster_requests_total{device="disk0",volume="a",op="flush"} 0
# HELP paternoster_transferred_bytes Bytes of requests answered.
# TYPE paternoster_transferred_bytes counter
# UNIT paternoster_transferred_bytes bytes
paternoster_transferred_bytes_total{device="disk0",tenant="d\"b\\\n",op="read"} 20480
paternoster_transferred_bytes_total{device="disk0",tenant="d\"b\\\n",op="write"} 4096
paternoster_transferred_bytes_total{device="disk0",tenant="gone",op="read"} 0
paternoster_transferred_bytes_total{device="disk0",tenant="gone",op="write"} 0
paternoster_transferred_bytes_total{device="disk0",volume="a",op="read"} 0
paternoster_transferred_bytes_total{device="disk0",volume="a",op="write"} 0
# HELP paternoster_errors Requests answered with an error.
# TYPE paternoster_errors counter
paternoster_errors_total{device="disk0",tenant="d\"b\\\n"} 2
paternoster_errors_total{device="disk0",tenant="gone"} 3
paternoster_errors_total{device="disk0",volume="a"} 4
# HELP paternoster_device_time_seconds Device time that it was given.
# TYPE paternoster_device_time_seconds counter
# UNIT paternoster_device_time_seconds seconds
paternoster_device_time_seconds_total{device="disk0",tenant="d\"b\\\n"} 1.5
paternoster_device_time_seconds_total{device="disk0",tenant="gone"} 0
paternoster_device_time_seconds_total{device="disk0",volume="a"} 0
# HELP paternoster_latency_seconds From a request's arrival to its answer.
# TYPE paternoster_latency_seconds histogram
# UNIT paternoster_latency_seconds seconds
paternoster_latency_seconds_bucket{device="disk0",tenant="d\"b\\\n",le="0.000001"} 0
paternoster_latency_seconds_bucket{device="disk0",tenant="d\"b\\\n",le="0.000002"} 4
paternoster_latency_seconds_bucket{device="disk0",tenant="d\"b\\\n",le="0.000004"} 6
paternoster_latency_seconds_bucket{device="disk0",tenant="d\"b\\\n",le="+Inf"} 7
paternoster_latency_seconds_sum{device="disk0",tenant="d\"b\\\n"} 0.002
paternoster_latency_seconds_count{device="disk0",tenant="d\"b\\\n"} 7
paternoster_latency_seconds_bucket{device="disk0",tenant="gone",le="+Inf"} 0
paternoster_latency_seconds_sum{device="disk0",tenant="gone"} 0
paternoster_latency_seconds_count{device="disk0",tenant="gone"} 0
paternoster_latency_seconds_bucket{device="disk0",volume="a",le="+Inf"} 0
paternoster_latency_seconds_sum{device="disk0",volume="a"} 0
paternoster_latency_seconds_count{device="disk0",volume="a"} 0
# EOF
"#;

fn open() -> String {
    OPEN.replace("VERSION", env!("CARGO_PKG_VERSION"))
}

/// Is the text what OpenMetrics wants, to the letter?
#[test]
fn open_metrics_to_the_letter() {
    let text = exposition(&small(), Dialect::OpenMetrics);
    for (said, expected) in text.lines().zip(open().lines()) {
        assert_eq!(said, expected);
    }
    assert_eq!(text, open());
}

/// Does the older dialect differ in names of families, units and the end, and in nothing else?
#[test]
fn the_older_dialect() {
    let text = exposition(&small(), Dialect::Prometheus);
    let samples = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(samples(&text), samples(&open()));
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    assert!(text.contains("# TYPE paternoster_requests_total counter\n"), "{text}");
    assert!(text.contains("# TYPE paternoster_device_info gauge\n"), "{text}");
}

/// A line's name, labels and value, as a monitor reads them.
fn read(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (name, rest) = line.split_once('{').expect("labels");
    assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
    let (mut labels, mut rest) = (Vec::new(), rest);
    loop {
        let (label, value) = rest.split_once("=\"").expect("a label");
        let (mut text, mut letters) = (String::new(), value.char_indices());
        let end = loop {
            match letters.next().expect("a quote at the end") {
                (at, '"') => break at,
                (_, '\\') => match letters.next().expect("an escape").1 {
                    'n' => text.push('\n'),
                    other => text.push(other),
                },
                (_, other) => text.push(other),
            }
        };
        labels.push((label.to_owned(), text));
        rest = &value[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    let value = rest.strip_prefix("} ").expect("an end of labels").parse().expect("a number");
    (name.to_owned(), labels, value)
}

/// Does every sample belong to the family announced before it, and is every line read as meant?
#[test]
fn every_line_is_read() {
    for dialect in [Dialect::Prometheus, Dialect::OpenMetrics] {
        let (mut family, mut families) = (String::new(), Vec::new());
        for line in exposition(&small(), dialect).lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                family = typed.split(' ').next().expect("a name").to_owned();
                assert!(!families.contains(&family), "{family} twice");
                families.push(family.clone());
            } else if !line.starts_with('#') {
                let (name, labels, value) = read(line);
                assert!(name.starts_with(&family), "{name} in {family}");
                let tenant = labels.iter().find(|(label, _)| label == "tenant");
                assert!(tenant.is_none_or(|(_, text)| ["d\"b\\\n", "gone"].contains(&&**text)));
                assert!(value >= 0.0);
            }
        }
        // Two for all, 15 of devices, two of volumes, two of groups, eight of tenants.
        assert_eq!(families.len(), 29);
    }
}

/// Are times exact, and a histogram without buckets a histogram?
#[test]
fn edges() {
    assert_eq!(seconds(0), "0");
    assert_eq!(seconds(1), "0.000000001");
    assert_eq!(seconds(10_000_000_000), "10");
    // 2^64 - 1 ns
    assert_eq!(seconds(u64::MAX), "18446744073.709551615");
    let mut page =
        Page { text: String::new(), dialect: Dialect::Prometheus, sample: "x".to_owned() };
    let labels = [("a", "b"), ("c", "d")];
    page.histogram(&labels, &Figures::default());
    let empty = "x_bucket{a=\"b\",c=\"d\",le=\"+Inf\"} 0\nx_sum{a=\"b\",c=\"d\"} 0\n\
                 x_count{a=\"b\",c=\"d\"} 0\n";
    assert_eq!(page.text, empty);
    // A snapshot with more buckets than there are microseconds does no harm.
    let many = Figures { latency_log2_us: vec![1; 100], ..Figures::default() };
    page.histogram(&labels, &many);
    assert!(page.text.ends_with("x_count{a=\"b\",c=\"d\"} 100\n"));
}
