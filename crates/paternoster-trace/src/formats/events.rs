// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: accesses as blktrace's records, in order of time.
//!
//! ```text
//! access          0 ── 5 ────── 20        arrival, begin, end
//! access             3 ─ 3 ─ 9
//! records         Q0 Q3 D3 D5 C9 C20      future events wait in a heap
//! ```
//!
//! An arrival gives `Q`; a service also `D` where it begins and `C` where it ends. At one time
//! completions come before arrivals. Times count from the first arrival. A process's name comes as
//! a note before its first event, and again when it has changed.
//!
//! An access later than one that was passed on already is reported and gets that one's time. Where
//! more than [`PENDING_MAX`] events wait, a further access gets neither `D` nor `C`, and that is
//! reported.
//!
//! Invariants: I1 times do not go back; I2 `C` comes after its `D`, and that after its `Q`; I3 at
//! most [`PENDING_MAX`] events wait.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use paternoster_core::Nanos;

use super::access::{Access, Accesses};
use super::names::{COMM, Names};
use super::window::Window;
use crate::blktrace::{Categories, Code, DeviceNumber, Record};
use crate::source::{Entry, Problems, Source};

/// Events that wait for their time.
pub const PENDING_MAX: usize = 1 << 16;

/// An event that waits: its time, then the order in which they were made, then itself.
#[derive(Debug, Clone, Copy)]
struct Pending {
    key: (u64, u64),
    record: Record,
}

impl PartialEq for Pending {
    fn eq(&self, other: &Pending) -> bool {
        self.key == other.key
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Pending) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Pending) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Accesses as events.
#[derive(Debug)]
pub(super) struct Events<A> {
    input: Window<A>,
    names: Names,
    problems: Problems,
    /// The arrival that comes next, once it was read.
    arrival: Option<Access>,
    ended: bool,
    /// The `D` of a `Q` that was passed on, at the same time.
    begun: Option<Record>,
    pending: BinaryHeap<Reverse<Pending>>,
    /// Counts what was put into `pending`.
    made: u64,
    /// Time of the first arrival, and of the last event, both as the trace counts.
    genesis: Option<u64>,
    last: u64,
    sequence: u32,
    /// Number of a process's last written name; the latest process's is kept separately.
    told: HashMap<u32, u32>,
    last_told: (u32, u32),
    payload: [u8; COMM],
}

impl<A: Accesses> Events<A> {
    pub(super) fn new(input: A) -> Events<A> {
        Events {
            input: Window::new(input),
            names: Names::default(),
            problems: Problems::default(),
            arrival: None,
            ended: false,
            begun: None,
            pending: BinaryHeap::new(),
            made: 0,
            genesis: None,
            last: 0,
            sequence: 0,
            told: HashMap::new(),
            last_told: (0, 0),
            payload: [0; COMM],
        }
    }

    /// Reads the next arrival, if there is none; one that is late gets the last event's time.
    #[inline]
    fn read_arrival(&mut self) {
        if self.arrival.is_some() || self.ended {
            return;
        }
        let Some(mut access) = self.input.next(&mut self.names, &mut self.problems) else {
            self.ended = true;
            return;
        };
        let genesis = *self.genesis.get_or_insert(access.arrival);
        self.last = self.last.max(genesis);
        if access.arrival < self.last {
            let late = self.last - access.arrival;
            self.problems.add(self.input.file(), access.place, || {
                format!("an I/O (sector {}) comes {late} ns behind its time", access.sector)
            });
            access.arrival = self.last;
        }
        self.arrival = Some(access);
    }

    /// The note that must come before this arrival, if its process's name is not written yet.
    #[inline]
    fn note(&mut self, access: &Access) -> Option<Record> {
        let name = (access.pid, access.process);
        if access.process == 0 || name == self.last_told {
            return None;
        }
        self.last_told = name;
        if self.told.insert(name.0, name.1) == Some(name.1) {
            return None;
        }
        self.payload = self.names.of_process(name.1)?;
        Some(Record {
            at: Nanos(access.arrival - self.genesis?),
            code: Code::NOTE_PROCESS,
            categories: Categories::NOTIFY,
            pid: access.pid,
            ..Record::default()
        })
    }

    /// An event of an access.
    const fn record(access: &Access, code: Code, category: Categories) -> Record {
        Record {
            at: Nanos::ZERO,
            sector: access.sector,
            bytes: access.bytes,
            code,
            categories: Categories(access.kind.0 | category.0 | Categories::FS.0),
            pid: access.pid,
            device: access.device,
            cpu: 0,
            sequence: 0,
            error: 0,
        }
    }

    /// Puts begin and end of a service where they wait for their time.
    #[inline]
    fn plan(&mut self, access: &Access) {
        let Some((begin, end)) = access.served else { return };
        if self.pending.len() + 2 > PENDING_MAX {
            self.problems.add(self.input.file(), access.place, || {
                format!(
                    "more than {PENDING_MAX} events wait for their time; of the I/O of sector \
                     {} only the arrival is kept",
                    access.sector
                )
            });
            return;
        }
        let begin = begin.max(access.arrival);
        let issue = Self::record(access, Code::ISSUE, Categories::ISSUE);
        if begin == access.arrival {
            self.begun = Some(issue);
        } else {
            self.wait(begin, issue);
        }
        let complete = Self::record(access, Code::COMPLETE, Categories::COMPLETE);
        self.wait(end.max(begin), complete);
    }

    #[inline]
    fn wait(&mut self, at: u64, record: Record) {
        self.made += 1;
        self.pending.push(Reverse(Pending { key: (at, self.made), record }));
    }

    /// The next record, and whether it is a note.
    #[inline]
    fn advance(&mut self) -> Option<(Record, bool)> {
        if let Some(record) = self.begun.take() {
            return Some((record, false));
        }
        self.read_arrival();
        let next_arrival = self.arrival.map(|access| access.arrival);
        if let Some(Reverse(first)) = self.pending.peek()
            && next_arrival.is_none_or(|at| first.key.0 <= at)
        {
            let Reverse(first) = self.pending.pop()?;
            self.last = self.last.max(first.key.0);
            return Some((first.record, false));
        }
        let access = self.arrival?;
        if let Some(note) = self.note(&access) {
            return Some((note, true));
        }
        self.arrival = None;
        self.last = access.arrival;
        self.plan(&access);
        Some((Self::record(&access, Code::QUEUE, Categories::QUEUE), false))
    }
}

impl<A: Accesses> Source for Events<A> {
    fn next(&mut self) -> Option<Entry<'_>> {
        let (mut record, is_note) = self.advance()?;
        if is_note {
            return Some(Entry { record, payload: &self.payload });
        }
        self.sequence = self.sequence.wrapping_add(1);
        record.sequence = self.sequence;
        record.at = Nanos(self.last - self.genesis.unwrap_or(0));
        Some(Entry { record, payload: &[] })
    }

    fn problems(&self) -> &Problems {
        &self.problems
    }

    fn device_name(&self, device: DeviceNumber) -> Option<&str> {
        self.names.of_device(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Place;

    /// Accesses that are there already; the process is named `p` and its number.
    struct Ready(std::vec::IntoIter<Access>);

    impl Accesses for Ready {
        fn next(&mut self, names: &mut Names, _: &mut Problems) -> Option<Access> {
            let mut access = self.0.next()?;
            if access.pid > 0 {
                access.process =
                    names.process(access.pid, format!("p{}", access.process).as_bytes());
            }
            Some(access)
        }

        fn file(&self) -> &str {
            "ready"
        }
    }

    fn access(sector: u64, arrival: u64, served: Option<(u64, u64)>) -> Access {
        let mut access =
            Access::new(arrival, Categories::READ, sector, 512, DeviceNumber::new(8, 0));
        access.served = served;
        access.place = Place::Line(sector);
        access
    }

    /// Code, sector and time of each event, names unchanged.
    fn told(accesses: Vec<Access>) -> (Vec<String>, Problems) {
        let mut events = Events::new(Ready(accesses.into_iter()));
        let mut found = Vec::new();
        while let Some(Entry { record, payload }) = events.next() {
            let letter = match record.code {
                Code::QUEUE => "Q",
                Code::ISSUE => "D",
                Code::COMPLETE => "C",
                _ => {
                    let name = String::from_utf8_lossy(payload).trim_end_matches('\0').to_owned();
                    found.push(format!("{}={name}", record.pid));
                    continue;
                }
            };
            found.push(format!("{letter}{}@{}", record.sector, record.at.0));
        }
        (found, events.problems)
    }

    /// Do events come in order of time, counted from the first arrival, ends before arrivals?
    #[test]
    fn events_come_in_order_of_time() {
        let accesses = vec![
            access(1, 100, Some((105, 120))),
            access(2, 103, Some((103, 109))),
            access(3, 109, Some((109, 109))),
            access(4, 130, None),
        ];
        let (found, problems) = told(accesses);
        let expected =
            ["Q1@0", "Q2@3", "D2@3", "D1@5", "C2@9", "Q3@9", "D3@9", "C3@9", "C1@20", "Q4@30"];
        assert_eq!(found, expected);
        assert_eq!(problems.count(), 0);
    }

    /// Is a process named before its first event, once, and again under another name?
    #[test]
    fn processes_are_told_before_their_first_event() {
        let of = |sector, pid, name| access(sector, sector, None).of_process(pid, name);
        let accesses =
            vec![of(1, 5, 1), of(2, 6, 1), of(3, 5, 1), of(4, 5, 2), of(5, 5, 1), of(6, 0, 0)];
        let expected =
            ["5=p1", "Q1@0", "6=p1", "Q2@1", "Q3@2", "5=p2", "Q4@3", "5=p1", "Q5@4", "Q6@5"];
        assert_eq!(told(accesses).0, expected);
    }

    /// Is the number of waiting events limited, and is it reported?
    #[test]
    fn there_is_an_end_to_what_waits() {
        // Half as many as may wait, each with D and C still to come; one more.
        let half = PENDING_MAX as u64 / 2;
        let accesses = (0..=half).map(|sector| access(sector, sector, Some((1 << 40, 1 << 41))));
        let (found, problems) = told(accesses.collect());
        assert_eq!(found.len() as u64, 3 * half + 1);
        assert_eq!(
            problems.shown()[0].to_string(),
            "ready:32768: more than 65536 events wait for their time; of the I/O of sector 32768 \
             only the arrival is kept"
        );
    }

    /// Is an access later than a window reported, with the time of the event before it?
    #[test]
    fn one_that_is_too_late_is_told() {
        let many = 3 * super::super::window::WINDOW as u64;
        let mut accesses: Vec<Access> =
            (0..many).map(|time| access(time, time + 10, None)).collect();
        accesses.push(access(many, 4, None));
        let (found, problems) = told(accesses);
        assert_eq!(found.len() as u64, many + 1);
        assert_eq!(problems.count(), 1);
        let message = problems.shown()[0].to_string();
        assert!(message.contains("comes") && message.contains("ns behind its time"), "{message}");
        let times: Vec<u64> =
            found.iter().map(|event| event.split('@').nth(1).unwrap().parse().unwrap()).collect();
        assert!(times.is_sorted());
    }
}
