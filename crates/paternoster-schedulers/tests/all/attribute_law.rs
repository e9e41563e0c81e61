// SPDX-License-Identifier: MIT OR Apache-2.0
//! A law for every attribute of every scheduler: any number written to it is refused, brought into
//! the stated range, or harmless. Harmless means that a load still comes to its end: no client
//! waits for ever because of a number.
//!
//! The numbers are 0, the ends of the range, the values just outside it, and 2^64 - 1.

use std::collections::VecDeque;

use paternoster_core::attribute::Values;
use paternoster_core::{Bio, ClientId, ClientSpec, DeviceFacts, Flags, Limits, Nanos, Op, Output};
use paternoster_core::{RequestQueue, SubmitError};

/// A command's time in the device, one after the other.
const SERVICE: Nanos = Nanos::from_millis(1);
/// Requests of each client.
const EACH: u32 = 24;
/// Longest time for all of them. 3 * 24 of a millisecond are 72 ms; the rest is idling, at most 10
/// s (the greatest `slice_idle`) for each time that one of the two sync clients leaves the device.
const ENOUGH: Nanos = Nanos::from_secs(60);

fn queue(elevator: &str) -> (RequestQueue, Vec<ClientId>) {
    let facts = DeviceFacts {
        capacity: 1 << 24,
        depth: 4,
        rotational: true,
        write_cache: true,
        ..DeviceFacts::default()
    };
    let limits = Limits { requests: 64, bios: 128, ..Limits::default() };
    let elevator = paternoster_schedulers::by_name(elevator).expect("a scheduler");
    let mut queue =
        RequestQueue::builder(facts, elevator).limits(limits).build().expect("its limits work");
    let clients =
        (0..3).map(|_| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("a client")).collect();
    (queue, clients)
}

/// Clients that ask again a tenth of a millisecond after each completion: one reads sequentially,
/// one makes scattered writes and waits for them, one writes without waiting. Returns when all have
/// ended, or which has not.
fn finite_load(queue: &mut RequestQueue, clients: &[ClientId]) -> Result<Nanos, String> {
    let bio = |number: usize, left: u32| {
        let (place, client) = (u64::from(left), clients[number]);
        let bio = match number {
            0 => Bio::new(client, Op::Read, (1 << 20) - place * 8, 8),
            1 => Bio::new(client, Op::Write, (place * 7919) % 4096 * 1024, 8).flags(Flags::SYNC),
            _ => Bio::new(client, Op::Write, (8 << 20) + place * 64, 8),
        };
        bio.cookie(number as u64)
    };
    let (mut now, mut left, mut done) = (Nanos::ZERO, vec![EACH; 3], 0);
    let mut due: VecDeque<(Nanos, usize)> = (0..3).map(|number| (now, number)).collect();
    let mut inside = VecDeque::new();
    while done < 3 * EACH {
        for _ in 0..due.len() {
            let (at, number) = due.pop_front().expect("counted");
            match (at <= now).then(|| queue.submit(now, bio(number, left[number]))) {
                Some(Ok(_)) => {}
                Some(Err(SubmitError::Busy)) | None => due.push_back((at, number)),
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
        let until = loop {
            match queue.next(now) {
                Output::Issue(command) => {
                    let free = inside.back().map_or(now, |&(end, _)| now.max(end));
                    inside.push_back((free + SERVICE, command.tag));
                }
                Output::Done(cookie, _) => {
                    let number = usize::try_from(cookie).expect("a client's number");
                    (left[number], done) = (left[number] - 1, done + 1);
                    if left[number] > 0 {
                        due.push_back((now + Nanos::from_micros(100), number));
                    }
                }
                Output::Wait { until, .. } => break until,
                _ => {}
            }
        };
        if done == 3 * EACH {
            break;
        }
        let later = due.iter().map(|&(at, _)| at).filter(|&at| at > now).min();
        let times = [inside.front().map(|&(end, _)| end), later, until];
        let next = times.into_iter().flatten().min();
        let next = next.ok_or_else(|| format!("nothing happens any more; left {left:?}"))?;
        now = now.max(next);
        if now > ENOUGH {
            return Err(format!("after {} s there are left {left:?}", now.0 / 1_000_000_000));
        }
        while inside.front().is_some_and(|&(end, _)| end <= now) {
            let (_, tag) = inside.pop_front().expect("looked at");
            queue
                .complete(now, tag, paternoster_core::Outcome::OK)
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(now)
}

/// Everything that can be set, with its values: path, range.
fn settable(queue: &RequestQueue) -> Vec<(String, Values)> {
    let mut all = Vec::new();
    queue.for_each_attribute(|path, attribute, _| {
        if attribute.values != Values::ReadOnly {
            all.push((path.to_owned(), attribute.values));
        }
    });
    all
}

fn numbers(values: Values) -> Vec<String> {
    let (min, max) = match values {
        Values::Number { min, max } => (min, max),
        Values::Choice(words) => return words.iter().map(|&word| word.to_owned()).collect(),
        Values::Text(_) => return texts(),
        Values::ReadOnly => return Vec::new(),
    };
    let all = [0, min.saturating_sub(1), min, max, max.saturating_add(1), u64::MAX];
    all.iter().map(u64::to_string).chain(["-1".to_owned()]).collect()
}

/// Texts of several parts: what a cost model may say at its ends, and what is none.
fn texts() -> Vec<String> {
    let keys = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
    let all = |number: u64| keys.map(|key| format!("{key}={number}")).join(" ");
    vec!["".to_owned(), "none".to_owned(), "x=".to_owned(), all(0), all(1), all(u64::MAX)]
}

/// Is every number refused, or brought into its range, and does a load come to its end with it?
#[test]
fn no_number_stops_a_queue() {
    let mut longest = (Nanos::ZERO, String::new());
    for entry in paternoster_schedulers::ALL {
        let (queue_for_names, _) = queue(entry.name);
        for (path, values) in settable(&queue_for_names) {
            for number in numbers(values) {
                let (mut queue, clients) = queue(entry.name);
                let what = format!("{} {path}={number}", entry.name);
                let shown = |queue: &RequestQueue| {
                    let mut shown = String::new();
                    queue.show_attribute(&path, &mut shown).expect("it is there");
                    shown
                };
                let before = shown(&queue);
                if queue.set_attribute(Nanos::ZERO, &path, &number).is_err() {
                    assert_eq!(shown(&queue), before, "{what}: refused, and nothing has changed");
                    continue;
                }
                if let Values::Number { min, max } = values {
                    let now: u64 = shown(&queue).parse().expect("a number");
                    assert!((min..=max).contains(&now), "{what} is {now}");
                }
                let took = finite_load(&mut queue, &clients);
                let took = took.unwrap_or_else(|fault| panic!("{what}: {fault}"));
                if took > longest.0 {
                    longest = (took, what);
                }
            }
        }
    }
    println!("longest: {} ms with {}", longest.0.0 / 1_000_000, longest.1);
}

/// If a caller checks a value first, is every number outside the range reported, and none inside,
/// with the range; and does the check change nothing?
#[test]
fn who_asks_first_hears_of_what_is_outside() {
    for entry in paternoster_schedulers::ALL {
        let (queue, _) = queue(entry.name);
        for (path, values) in settable(&queue) {
            let refused =
                |text: &str| queue.check_attribute(&path, text).map_err(|it| it.to_string());
            match values {
                Values::Number { min, max } => {
                    assert_eq!(refused(&min.to_string()), Ok(()), "{path}");
                    assert_eq!(refused(&max.to_string()), Ok(()), "{path}");
                    let below = min.checked_sub(1).map_or("-1".to_owned(), |it| it.to_string());
                    let above = (u128::from(max) + 1).to_string();
                    for outside in [below, above, "18446744073709551616".to_owned(), "x".to_owned()]
                    {
                        let told = refused(&outside).expect_err(&outside);
                        assert!(told.contains(&format!("it takes {values}")), "{told}");
                    }
                }
                _ => assert!(refused("no such word").is_err(), "{path}"),
            }
        }
        assert!(queue.check_attribute("hw_tag", "1").is_err(), "read-only, or not there");
        assert!(queue.check_attribute("nothing", "1").is_err());
    }
}
