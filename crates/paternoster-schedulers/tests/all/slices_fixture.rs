// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the elevator interface carry what cfq and bfq need? Slices, idling, weights, joined queues,
//! classes, on the fixture that was made from outside (`common/slices/mod.rs`).

use paternoster_core::{
    Bio, Class, ClientId, ClientSpec, Command, DeviceFacts, Event, Flags, GroupSpec, Limits, Nanos,
    Note, Observer, Op, Outcome, Output, RequestQueue, Waiting,
};

use crate::common::slices::Slices;

/// Keeps the notes.
#[derive(Debug, Default)]
struct Notebook(Vec<(Nanos, Note)>);

impl Observer for Notebook {
    fn event(&mut self, _: &Event) {}

    fn note(&mut self, at: Nanos, _: u64, note: &Note) {
        self.0.push((at, *note));
    }
}

type Queue = RequestQueue<Notebook>;

fn queue(depth: u32) -> Queue {
    let facts = DeviceFacts { depth, rotational: true, write_cache: true, ..Default::default() };
    let limits = Limits { clients: 8, groups: 4, ..Limits::default() };
    RequestQueue::builder(facts, Box::new(Slices::new()))
        .limits(limits)
        .observer(Notebook::default())
        .build()
        .expect("its limits work")
}

fn client(queue: &mut Queue) -> ClientId {
    queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there is a place")
}

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn read(queue: &mut Queue, now: Nanos, client: ClientId, sector: u64) {
    let bio = Bio::new(client, Op::Read, sector, 8).cookie(sector);
    queue.submit(now, bio).expect("there are requests enough");
}

/// The next command; bios that ended are of no interest here.
fn issue(queue: &mut Queue, now: Nanos) -> Result<Command, (Option<Nanos>, Waiting)> {
    loop {
        match queue.next(now) {
            Output::Issue(command) => return Ok(command),
            Output::Wait { until, why } => return Err((until, why)),
            Output::Done(..) | Output::Wake(_) => {}
        }
    }
}

fn finish(queue: &mut Queue, now: Nanos, command: Command) {
    queue.complete(now, command.tag, Outcome::OK).expect("it is in the device");
}

/// Serves `commands` requests of 1 ms, one at a time; each client in `backlogged` always has two
/// waiting. Returns their clients.
fn serve(queue: &mut Queue, backlogged: &[ClientId], commands: usize) -> Vec<ClientId> {
    let (mut now, mut served) = (Nanos::ZERO, Vec::new());
    // A thousand tracks between any two requests: nothing merges, nothing adjoins.
    let mut sector = 0;
    let mut more = |queue: &mut Queue, now, client| {
        sector += 1000;
        read(queue, now, client, sector);
    };
    for &client in backlogged {
        more(queue, now, client);
        more(queue, now, client);
    }
    while served.len() < commands {
        let command = issue(queue, now).expect("everybody has requests waiting");
        served.push(command.client);
        more(queue, now, command.client);
        now += ms(1);
        finish(queue, now, command);
    }
    served
}

fn count(served: &[ClientId], client: ClientId) -> usize {
    served.iter().filter(|&&other| other == client).count()
}

/// Does the device idle for a reader that thinks for a moment, and serve it before those that wait?
#[test]
fn the_idler_goes_first() {
    let mut queue = queue(1);
    let (a, b) = (client(&mut queue), client(&mut queue));
    read(&mut queue, ms(0), a, 0);
    read(&mut queue, ms(0), b, 100_000);
    let command = issue(&mut queue, ms(0)).expect("two wait");
    assert_eq!(command.client, a);
    finish(&mut queue, ms(1), command);
    // idle_ms is 8: until 1 + 8.
    assert_eq!(issue(&mut queue, ms(1)), Err((Some(ms(9)), Waiting::Idling)));
    read(&mut queue, ms(3), a, 500_000);
    let command = issue(&mut queue, ms(3)).expect("the idler has come back");
    assert_eq!(command.client, a);
    assert_eq!(queue.observer().0[1], (ms(1), Note::Idling { client: a, until: ms(9) }));
    // Now it stays away: at 12 its time has run out.
    finish(&mut queue, ms(4), command);
    assert_eq!(issue(&mut queue, ms(11)), Err((Some(ms(12)), Waiting::Idling)));
    assert_eq!(issue(&mut queue, ms(12)).map(|command| command.client), Ok(b));
    queue.audit().unwrap();
}

/// Do two busy readers take turns by time slices? A slice of 10 ms starts at the first
/// completion, so that eleven requests of 1 ms are served: completions at 1 (it starts), 2, ...
/// 11 (it is over).
#[test]
fn slices_alternate() {
    let mut queue = queue(1);
    queue.set_attribute(ms(0), "slice_ms", "10").unwrap();
    let (a, b) = (client(&mut queue), client(&mut queue));
    let served = serve(&mut queue, &[a, b], 44);
    for (slice, requests) in served.chunks(11).enumerate() {
        let whose = [a, b][slice % 2];
        assert!(requests.iter().all(|&client| client == whose), "slice {slice}: {requests:?}");
    }
    let ended = Note::SliceEnds { client: a, served: ms(11) };
    assert!(queue.observer().0.contains(&(ms(11), ended)), "{:?}", queue.observer().0);
}

/// Is device time split 2:1 between groups of weights 200 and 100, though the lighter has two
/// clients? 3000 ms in slices of 10: 2000 and 1000, within 5 %.
#[test]
fn groups_share_by_weight() {
    let mut queue = queue(1);
    queue.set_attribute(ms(0), "slice_ms", "10").unwrap();
    let heavy = queue.add_group(Nanos::ZERO, GroupSpec::new().weight(200)).unwrap();
    let light = queue.add_group(Nanos::ZERO, GroupSpec::new().weight(100)).unwrap();
    let a = queue.attach(Nanos::ZERO, ClientSpec::new().group(heavy)).unwrap();
    let b = queue.attach(Nanos::ZERO, ClientSpec::new().group(light)).unwrap();
    let c = queue.attach(Nanos::ZERO, ClientSpec::new().group(light)).unwrap();
    let served = serve(&mut queue, &[a, b, c], 3000);
    let (of_a, of_b, of_c) = (count(&served, a), count(&served, b), count(&served, c));
    assert!(of_a.abs_diff(2000) <= 100, "{of_a}, {of_b}, {of_c}");
    assert!(of_b.abs_diff(500) <= 25 && of_c.abs_diff(500) <= 25, "{of_a}, {of_b}, {of_c}");
}

/// Do two clients that read one stream in turns share a queue, so that their bios become one
/// command?
#[test]
fn neighbours_share_a_queue() {
    let mut queue = queue(1);
    let (a, b) = (client(&mut queue), client(&mut queue));
    let other = client(&mut queue);
    // Something else is in the device, so that the readers' requests have to wait.
    read(&mut queue, ms(0), other, 900_000);
    let busy = issue(&mut queue, ms(0)).expect("one waits");
    read(&mut queue, ms(0), a, 0);
    // B goes on where A ended: not merged, because it is still B's own; but it is bound to A's
    // queue.
    read(&mut queue, ms(0), b, 8);
    let joined = Note::QueuesMerged { client: b, into: a };
    assert!(queue.observer().0.contains(&(ms(0), joined)), "{:?}", queue.observer().0);
    // From now on the bios of both may merge.
    read(&mut queue, ms(0), a, 16);
    read(&mut queue, ms(0), b, 24);
    finish(&mut queue, ms(1), busy);
    // `other` has slice left and the device idles for it; its time runs out at 9.
    assert_eq!(issue(&mut queue, ms(1)), Err((Some(ms(9)), Waiting::Idling)));
    let mut commands = Vec::new();
    let mut now = ms(9);
    while commands.iter().map(|command: &Command| command.sectors).sum::<u32>() < 32 {
        let command = issue(&mut queue, now).expect("A's queue has the device, nobody idles");
        let cookies: Vec<u64> = queue.cookies(command.tag).collect();
        assert_eq!(cookies.len() as u64 * 8, u64::from(command.sectors));
        now += ms(1);
        finish(&mut queue, now, command);
        commands.push(command);
    }
    // One queue: no idling for A between its request and B's; and those of both were merged.
    assert!(now < ms(13), "{commands:?}");
    assert!(commands.iter().any(|command| command.sectors >= 16), "{commands:?}");
    queue.audit().unwrap();
}

/// If two do not share a queue, are their adjacent writes kept apart, as cfq requires (CFQ-13)?
#[test]
fn strangers_do_not_merge() {
    let mut queue = queue(1);
    let (a, b) = (client(&mut queue), client(&mut queue));
    for (client, sector) in [(a, 0), (b, 8)] {
        let bio = Bio::new(client, Op::Write, sector, 8).flags(Flags::SYNC);
        queue.submit(ms(0), bio).unwrap();
    }
    assert_eq!(issue(&mut queue, ms(0)).map(|command| command.sectors), Ok(8));
    // Asynchronous writes have one queue for all, and merge.
    for (client, sector) in [(a, 10_000), (b, 10_008)] {
        queue.submit(ms(0), Bio::new(client, Op::Write, sector, 8)).unwrap();
    }
    assert_eq!(queue.allocated().0, 1);
}

/// Does the timer ring on time although the device is full? A flush is in it, alone, when the
/// idling for A ends.
#[test]
fn the_timer_rings_while_the_device_is_full() {
    let mut queue = queue(1);
    let (a, b) = (client(&mut queue), client(&mut queue));
    read(&mut queue, ms(0), a, 0);
    let command = issue(&mut queue, ms(0)).expect("one waits");
    read(&mut queue, ms(0), b, 100_000);
    finish(&mut queue, ms(1), command);
    assert_eq!(issue(&mut queue, ms(1)), Err((Some(ms(9)), Waiting::Idling)));
    queue.submit(ms(2), Bio::flush(b)).unwrap();
    let flush = issue(&mut queue, ms(2)).expect("the device is empty, the flush may go");
    assert_eq!(flush.op, Op::Flush);
    assert_eq!(issue(&mut queue, ms(2)), Err((Some(ms(9)), Waiting::DeviceFull)));
    assert_eq!(issue(&mut queue, ms(9)), Err((None, Waiting::DeviceFull)));
    let ended = Note::SliceEnds { client: a, served: ms(1) };
    assert_eq!(queue.observer().0.last(), Some(&(ms(9), ended)));
    finish(&mut queue, ms(12), flush);
    assert_eq!(issue(&mut queue, ms(12)).map(|command| command.client), Ok(b));
}

/// Does RT go before BE before IDLE, also in the middle of a slice?
#[test]
fn classes_go_in_order() {
    let mut queue = queue(1);
    let classes = [Class::Idle, Class::BestEffort, Class::Realtime];
    let clients = classes
        .map(|class| queue.attach(Nanos::ZERO, ClientSpec::new().priority(class, 4)).unwrap());
    for (client, sector) in clients.into_iter().zip([1000, 2000, 3000]) {
        read(&mut queue, ms(0), client, sector);
        read(&mut queue, ms(0), client, sector + 100);
    }
    let mut order = Vec::new();
    let mut now = ms(0);
    while order.len() < 6 {
        match issue(&mut queue, now) {
            Ok(command) => {
                order.push(command.client);
                now += ms(1);
                finish(&mut queue, now, command);
            }
            Err((until, why)) => {
                assert_eq!(why, Waiting::Idling);
                now = until.expect("idling ends");
            }
        }
        if order.len() == 3 && queue.client(clients[2]).unwrap().requests() == 0 {
            // BE has the device. RT comes back, and does not wait for the end of the slice.
            read(&mut queue, now, clients[2], 9000);
        }
    }
    let [idle, best, real] = clients;
    assert_eq!(order, [real, real, best, real, best, idle]);
}

/// When a client leaves whose queue holds another's requests, do those go on?
#[test]
fn requests_outlive_the_queue_they_wait_in() {
    let mut queue = queue(1);
    let (a, b) = (client(&mut queue), client(&mut queue));
    read(&mut queue, ms(0), a, 0);
    let command = issue(&mut queue, ms(0)).expect("one waits");
    // B goes on where A ended, is bound to A's queue and waits there.
    read(&mut queue, ms(0), b, 8);
    read(&mut queue, ms(0), b, 1000);
    finish(&mut queue, ms(1), command);
    queue.detach(ms(1), a).unwrap();
    let mut served = Vec::new();
    for now in [1, 2] {
        let command = issue(&mut queue, ms(now)).expect("B's requests wait");
        served.push((command.client, command.sector));
        finish(&mut queue, ms(now + 1), command);
    }
    assert!(queue.client(a).is_none());
    assert_eq!(served, [(b, 8), (b, 1000)]);
    queue.audit().unwrap();
}
