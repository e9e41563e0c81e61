// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces for perfetto, read back: what lies on which track, from when to when.

use super::*;
use crate::made::{clients, event};

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0..10 {
        let (first, rest) = bytes.split_first().expect("a byte");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn number(message: &[u8], wanted: u64) -> Option<u64> {
    fields(message).into_iter().find_map(|(field, value)| match value {
        Field::Number(value) if field == wanted => Some(value),
        _ => None,
    })
}

fn within(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let of = |(field, value)| match value {
        Field::Bytes(value) if field == wanted => Some(value),
        _ => None,
    };
    fields(message).into_iter().filter_map(of).collect()
}

fn text(message: &[u8], wanted: u64) -> String {
    let found = within(message, wanted);
    String::from_utf8(found.first().expect("it is there").to_vec()).expect("text")
}

/// Every slice: its track's name, from, to, its name, how deep it lies in others; counters' values.
type Slices = Vec<(String, u64, u64, String, usize)>;

/// Reads a trace back; panics if a slice does not end, or ends before one that lies in it.
fn read(trace: &[u8]) -> (Slices, Vec<u64>) {
    let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut slices, mut counted) = (Vec::new(), Vec::new());
    for packet in within(trace, 1) {
        for described in within(packet, 60) {
            tracks.insert(number(described, 1).expect("a number"), text(described, 2));
        }
        for interned in within(packet, 12) {
            for name in within(interned, 2) {
                names.insert(number(name, 1).expect("a number"), text(name, 2));
            }
        }
        for event in within(packet, 11) {
            let at = number(packet, 8).expect("a time");
            let track = number(event, 11).expect("a track");
            let before = last.insert(track, at).unwrap_or(0);
            assert!(before <= at, "{}: {at} behind {before}", tracks[&track]);
            let stack = open.entry(track).or_default();
            match number(event, 9).expect("a type") {
                1 => stack.push((at, names[&number(event, 10).expect("a name")].clone())),
                2 => {
                    let (from, name) = stack.pop().expect("one that began");
                    slices.push((tracks[&track].clone(), from, at, name, stack.len()));
                }
                4 => counted.push(number(event, 30).expect("a value")),
                _ => {}
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    (slices, counted)
}

/// Are a request's parts in it and sum to it, those of one client that overlap on two tracks, the
/// device's one after the other on one, and is the number of commands counted? By hand:
///
/// ```text
/// a   0 ├──── in the scheduler ────┤ 20 ├──── in the device ────┤ 50
/// a     5 ├─ for a request ─┤ 10 ├────── in the scheduler ─────────┤ 50 ├── in the device ──┤ 60
/// ```
#[test]
fn requests_lie_on_tracks() {
    use Action::{Complete, Get, Insert, Issue, Queue};
    let [a] = clients();
    let mut trace = Vec::new();
    let mut perfetto = Perfetto::new(&mut trace, 0, "noop", vec!["a".to_owned()]);
    for event in [
        event(0, Queue, a, 8),
        event(0, Get, a, 8),
        event(0, Insert, a, 8),
        event(5, Queue, a, 80),
        event(10, Get, a, 80),
        event(10, Insert, a, 80),
        event(20, Issue, a, 8),
        event(50, Complete, a, 8),
        event(50, Issue, a, 80),
        event(60, Complete, a, 80),
    ] {
        perfetto.event(&event);
    }
    assert_eq!(perfetto.finish().expect("memory takes it"), 0);
    let (slices, counted) = read(&trace);
    let expected = [
        ("a", 0, 20, "in the scheduler", 1),
        ("a", 20, 50, "in the device", 1),
        ("a", 0, 50, "read", 0),
        ("in the device", 20, 50, "a: read", 0),
        ("a", 5, 10, "waits for a free request", 1),
        ("a", 10, 50, "in the scheduler", 1),
        ("a", 50, 60, "in the device", 1),
        ("a", 5, 60, "read", 0),
        ("in the device", 50, 60, "a: read", 0),
    ];
    let expected = expected
        .map(|(track, from, to, name, depth)| (track.to_owned(), from, to, name.to_owned(), depth));
    assert_eq!(slices, expected);
    assert_eq!(counted, [1, 0, 1, 0]);
}

/// Is the device kept idle until the next request goes to it, or for as long as was said, and does
/// a turn end when the next one begins?
#[test]
fn turns_and_idling_lie_on_the_scheduler() {
    let [a, b] = clients();
    let mut trace = Vec::new();
    let names = ["a", "b"].map(str::to_owned).to_vec();
    let mut perfetto = Perfetto::new(&mut trace, 3, "cfq", names);
    let (slice, served) = (Nanos(100), Nanos(30));
    let notes = [
        (0, Note::SliceBegins { client: a, slice }),
        (10, Note::Idling { client: a, until: Nanos(40) }),
    ];
    notes.iter().for_each(|(at, note)| perfetto.note(Nanos(*at), 0, note));
    perfetto.event(&event(25, Action::Issue, a, 8));
    let notes = [
        (30, Note::Idling { client: a, until: Nanos(35) }),
        (50, Note::SliceBegins { client: b, slice }),
        (70, Note::SliceEnds { client: b, served }),
    ];
    notes.iter().for_each(|(at, note)| perfetto.note(Nanos(*at), 0, note));
    perfetto.finish().expect("memory takes it");
    let (slices, _) = read(&trace);
    let told: Vec<(u64, u64, &str, usize)> =
        slices.iter().map(|(_, from, to, name, deep)| (*from, *to, &**name, *deep)).collect();
    let expected = [
        (10, 25, "kept idle for a", 1),
        (30, 35, "kept idle for a", 1),
        (0, 50, "turn of a", 0),
        (50, 70, "turn of b", 0),
    ];
    assert_eq!(told, expected);
    assert!(slices.iter().all(|slice| slice.0 == "scheduler"));
}
