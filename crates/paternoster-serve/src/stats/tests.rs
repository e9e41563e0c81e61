// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the statistics: figures, and traces that its own tools and Linux' read.

use std::fs;
use std::path::PathBuf;
use std::process::Command as Program;

use paternoster_core::{Bio, ClientSpec, DeviceFacts, Outcome, Output, RequestQueue, Tag};
use paternoster_trace::blktrace::{Code, Reader};

use super::*;

const LIMITS: Limits = Limits { requests: 64, bios: 64, clients: 4, groups: 4, notes: 64 };
const DEVICE: DeviceNumber = DeviceNumber::new(8, 16);

/// A folder of its own, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("paternoster-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_over = fs::remove_dir_all(&self.0);
    }
}

/// A queue and two clients of it, with processes 4711 and an unknown one.
struct QueueView {
    queue: RequestQueue<Stats>,
    clients: [ClientId; 2],
}

impl QueueView {
    fn new(stats: Stats) -> QueueView {
        let facts = DeviceFacts { capacity: 1 << 20, depth: 2, ..DeviceFacts::default() };
        let elevator = paternoster_schedulers::by_name("bfq").unwrap();
        let mut queue = RequestQueue::builder(facts, elevator)
            .limits(LIMITS)
            .observer(stats)
            .build()
            .expect("its limits work");
        let clients = [(); 2].map(|()| queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap());
        queue.observer_mut().name(0, 4711, "qemu-a");
        queue.observer_mut().name(1, 0, "10.0.0.3:4000");
        QueueView { queue, clients }
    }

    /// A read of 8 sectors, to its end `takes` ns later.
    fn read(&mut self, which: usize, sector: u64, at: Nanos, takes: u64) {
        self.queue.submit(at, Bio::new(self.clients[which], Op::Read, sector, 8)).unwrap();
        let tag = self.issue(at);
        self.queue.complete(at + Nanos(takes), tag, Outcome::OK).unwrap();
        while !matches!(self.queue.next(at + Nanos(takes)), Output::Wait { .. }) {}
    }

    fn issue(&mut self, at: Nanos) -> Tag {
        let mut at = at;
        for _ in 0..100 {
            match self.queue.next(at) {
                Output::Issue(command) => return command.tag,
                Output::Wait { until: Some(until), .. } => at = until,
                _ => {}
            }
        }
        panic!("nothing is issued");
    }

    fn stats(&mut self) -> &mut Stats {
        self.queue.observer_mut()
    }

    /// Starts a trace at 1 s, when it is 2026-01-01 00:00:00.25.
    fn start(&mut self, prefix: &Path) -> io::Result<()> {
        let clock = (1_767_225_600, 250_000_000);
        self.stats().start_trace(prefix, Nanos::from_secs(1), clock, DEVICE, "bfq", &[])
    }
}

/// Which client gets device time, commands and sectors? Is the device busy while it has a command?
#[test]
fn device_time_is_counted() {
    let mut view = QueueView::new(Stats::new(&LIMITS));
    // Two commands from 0: one to 1000, one to 3000. Shared 1000 / 2 each, then 2000 alone.
    for which in 0..2 {
        let client = view.clients[which];
        let bio = Bio::new(client, Op::Read, 4096 * which as u64, 8);
        view.queue.submit(Nanos::ZERO, bio).unwrap();
    }
    view.queue.set_attribute(Nanos::ZERO, "slice_idle", "0").unwrap();
    let tags = [view.issue(Nanos::ZERO), view.issue(Nanos::ZERO)];
    assert_eq!(view.stats().in_device(), 2);
    let allocated = view.queue.allocated();
    assert_eq!(view.stats().waiting(allocated), 0);
    view.queue.complete(Nanos(1000), tags[0], Outcome::OK).unwrap();
    assert_eq!(view.stats().busy(Nanos(2500)), Nanos(2500));
    view.queue.complete(Nanos(3000), tags[1], Outcome::OK).unwrap();
    let mut served = [view.stats().served(0), view.stats().served(1)];
    served.sort();
    assert_eq!(served, [Nanos(500), Nanos(2500)]);
    assert_eq!(view.stats().busy(Nanos(9000)), Nanos(3000));
    let in_all = Tally { served: Nanos(3000), commands: 2, sectors: 16 };
    assert_eq!(view.stats().in_all(), in_all);
    let given = view.stats().forget(0);
    assert_eq!((given.commands, given.sectors), (1, 8));
    assert_eq!(view.stats().tally(0), Tally::default());
    assert_eq!(view.stats().tally(99), Tally::default());
}

/// Has the file the clock, the names under their processes' numbers, and every step?
#[test]
fn a_trace_has_clock_names_and_steps() {
    let folder = Folder::new("steps");
    let mut view = QueueView::new(Stats::new(&LIMITS));
    let prefix = folder.0.join("sda");
    view.read(0, 0, Nanos::from_millis(500), 1000);
    view.start(&prefix).unwrap();
    assert!(view.start(&prefix).unwrap_err().to_string().contains("already"));
    view.read(0, 64, Nanos::from_millis(3000), 1000);
    view.read(1, 800, Nanos::from_millis(4000), 1000);
    // Another client gets the index.
    view.stats().name(0, 4712, "qemu-b");
    view.read(0, 128, Nanos::from_millis(5000), 1000);
    let summary = view.stats().stop_trace().unwrap();
    assert!(!view.stats().is_tracing());
    assert_eq!(view.stats().stop_trace().unwrap_err().kind(), io::ErrorKind::NotFound);
    let bytes = fs::read(trace_file(&prefix)).unwrap();
    assert_eq!((bytes.len() as u64, summary.dropped, summary.full), (summary.bytes, 0, false));
    let mut reader = Reader::new("sda", &bytes[..]);
    let (mut names, mut reads, mut clock, mut events) = (Vec::new(), Vec::new(), None, 0);
    while let Some(entry) = reader.read() {
        let record = entry.record;
        events += u64::from(!record.is_note() || record.code.0 == 2);
        if record.is_note_of(Code::NOTE_PROCESS) {
            let name = String::from_utf8_lossy(entry.payload);
            names.push((record.pid, name.trim_end_matches('\0').to_owned()));
        } else if record.is_note_of(Code::NOTE_TIMESTAMP) {
            clock = Some(entry.payload.to_vec());
        } else if record.code == Code::COMPLETE && !record.is_note() {
            reads.push((record.pid, record.sector, record.bytes));
            assert_eq!(record.device, DEVICE);
        }
    }
    assert_eq!(events, summary.events);
    // Started at 1 s; the first event is at 3 s: two seconds after the quarter.
    let [seconds, nanos] = [1_767_225_602_u32, 250_000_000].map(u32::to_le_bytes);
    assert_eq!(clock.unwrap(), [seconds, nanos].concat());
    let nameless = (1 << 22) + 1;
    let named = [(4711, "qemu-a"), (nameless, "10.0.0.3:4000"), (4712, "qemu-b")];
    assert_eq!(names, named.map(|(pid, name)| (pid, name.to_owned())));
    assert_eq!(reads, [(4711, 64, 4096), (nameless, 800, 4096), (4712, 128, 4096)]);
}

/// Does a trace end by itself before its file is too large, and is that reported afterwards?
#[test]
fn a_full_trace_ends_by_itself() {
    let folder = Folder::new("full");
    let mut view = QueueView::new(Stats::new(&LIMITS).trace_bytes_max(4000));
    view.start(&folder.0.join("full")).unwrap();
    for k in 0..200 {
        view.read(0, 8 * k % 4096, Nanos::from_millis(2000 + 10 * k), 1000);
    }
    assert!(!view.stats().is_tracing());
    let summary = view.stats().stop_trace().unwrap();
    assert!(summary.full && summary.bytes <= 4000 && summary.events > 40, "{summary:?}");
    let bytes = fs::read(folder.0.join("full.blktrace.0")).unwrap();
    assert_eq!(bytes.len() as u64, summary.bytes);
    // And another one can follow.
    view.start(&folder.0.join("full")).unwrap();
}

/// Is a link not followed, is another trace's further file not mixed in, is a folder reported?
#[test]
fn files_of_others_are_left_alone() {
    let folder = Folder::new("others");
    let mut view = QueueView::new(Stats::new(&LIMITS));
    let told = |view: &mut QueueView, name: &str| {
        view.start(&folder.0.join(name)).unwrap_err().to_string()
    };
    fs::write(folder.0.join("precious"), "keep").unwrap();
    std::os::unix::fs::symlink(folder.0.join("precious"), folder.0.join("a.blktrace.0")).unwrap();
    assert!(told(&mut view, "a").contains("a.blktrace.0"));
    assert_eq!(fs::read(folder.0.join("precious")).unwrap(), b"keep");
    fs::write(folder.0.join("b.blktrace.1"), "").unwrap();
    assert!(told(&mut view, "b").contains("b.blktrace.1: it belongs to another trace"));
    assert!(told(&mut view, "none/c").contains("none/c.blktrace.0"));
    assert!(!view.stats().is_tracing());
}

/// Do Linux' own tools read it? Without them this says so and passes.
#[test]
fn blkparse_and_btt_read_it() {
    if Program::new("blkparse").arg("-V").output().is_err() {
        eprintln!("skipped: blkparse_and_btt_read_it: blkparse is not installed");
        return;
    }
    let folder = Folder::new("tools");
    let mut view = QueueView::new(Stats::new(&LIMITS));
    view.start(&folder.0.join("live")).unwrap();
    for k in 0..50 {
        let at = Nanos::from_millis(2000 + 10 * k);
        view.read(usize::from(k % 5 == 0), 8 * (k * 37 % 4096), at, 200_000);
    }
    let summary = view.stats().stop_trace().unwrap();
    assert_eq!(summary.dropped, 0);
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Program::new(program);
        let output = command.args(arguments).current_dir(&folder.0).env("TZ", "UTC").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = run("blkparse", &["-i", "live", "-d", "merged"]);
    assert_eq!(text.lines().filter(|line| line.contains("  C   R ")).count(), 50, "{text}");
    assert!(text.contains("[qemu-a]") && text.contains(" 4711 "), "{text}");
    assert!(text.contains("Skips: 0 forward"), "{text}");
    // Started at 1 s, a quarter past midnight; the first event is at 2 s.
    let text = run("blkparse", &["-i", "live", "-f", "%z %a\n"]);
    assert!(text.contains("00:00:01.250000 Q\n"), "{text}");
    if Program::new("btt").arg("-V").output().is_ok() {
        let text = run("btt", &["-i", "merged"]);
        // From Q to C: 200 us each.
        assert!(
            text.contains("Q2C               0.000200000   0.000200000   0.000200000"),
            "{text}"
        );
    } else {
        eprintln!("skipped: blkparse_and_btt_read_it: btt is not installed");
    }
}
