// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the contract of the queue says apart from the numbered rules of the block core: change of
//! elevator, cancel, explain, stale handles, events. Flush and FUA are in `flush_rules/`.

use paternoster_core::{
    Action, Bio, CancelError, Class, ClientSpec, DeviceFacts, GroupSpec, Nanos, Op, Outcome,
    Priority, Stale, Status, SubmitError, Waiting,
};

use crate::common::driver::{Rig, device_plugged, disk, shape};

// ------------------------------------------------------------------------------ change of elevator

/// Does a change of elevator keep everything: requests that wait, are plugged, merged, refused, in
/// the device, and in line to flush? From every elevator to every other, each bio ends once.
#[test]
fn change_of_elevator_keeps_everything() {
    for from in paternoster_schedulers::ALL {
        for to in paternoster_schedulers::ALL {
            let facts = DeviceFacts { write_cache: true, ..disk(3) };
            let mut rig = Rig::new(facts, from.name);
            rig.set("nr_requests", "24");
            if from.name.starts_with("bfq") {
                // While a queue is raised, it lets a write through only now and then.
                rig.set("iosched/low_latency", "0");
            }
            let [a, b] = [0; 2].map(|_| rig.client());
            // Three in the device, one of them refused.
            for sector in [1000, 3000, 2000] {
                rig.read(a, sector, 8);
            }
            assert_eq!(rig.pull().len(), 3);
            rig.refuse(3000);
            // Waiting, two of them merged; plugged, two of them merged; a flush in line.
            for sector in [4000, 100, 4008, 200] {
                rig.write(a, sector, 8);
            }
            rig.plug(b);
            for sector in [5000, 5008, 300] {
                rig.read(b, sector, 8);
            }
            rig.submit(Bio::flush(a).cookie(1));
            rig.queue.change_elevator(rig.now, (to.make)());
            rig.queue.audit().unwrap();
            assert_eq!(rig.queue.elevator_name(), to.name);
            rig.at(3);
            rig.serve();
            rig.unplug(b);
            rig.serve();
            let mut ended = rig.done.clone();
            ended.sort_by_key(|&(cookie, _)| cookie);
            let all = [1, 100, 200, 300, 1000, 2000, 3000, 4000, 4008, 5000, 5008];
            let expected: Vec<_> = all.iter().map(|&cookie| (cookie, Status::Ok)).collect();
            assert_eq!(ended, expected, "{} to {}", from.name, to.name);
            assert_eq!(rig.queue.allocated(), (0, 0));
        }
    }
}

/// Is an elevator that comes back from a change empty, and usable again? A realtime read was in the
/// device when it left: when it returns, it must not wait for the end of that read.
#[test]
fn change_of_elevator_returns_an_empty_one() {
    for entry in paternoster_schedulers::ALL {
        let mut rig = Rig::new(disk(1), entry.name);
        let urgent = rig.client_with(ClientSpec::new().priority(Class::Realtime, 0));
        let client = rig.client();
        rig.read(urgent, 0, 8);
        assert_eq!(rig.pulled(), [0]);
        rig.read(client, 100, 8);
        let old =
            rig.queue.change_elevator(rig.now, paternoster_schedulers::by_name("noop").unwrap());
        assert_eq!((old.traits().name, old.waiting()), (entry.name, 0));
        rig.serve();
        rig.queue.change_elevator(rig.now, old);
        rig.read(client, 200, 8);
        assert_eq!(rig.served(), [200], "{}", entry.name);
    }
}

// ------------------------------------------------------------------------------------------ cancel

/// Can a waiting bio be withdrawn, so that no command is left of it?
#[test]
fn cancel_alone() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        for plugged in [false, true] {
            let mut rig = Rig::new(disk(1), elevator);
            let client = rig.client();
            if plugged {
                rig.plug(client);
            }
            let ticket = rig.read(client, 8, 8);
            rig.queue.cancel(rig.now, ticket).unwrap();
            rig.unplug(client);
            assert!(rig.pull().is_empty());
            assert_eq!(rig.done, [(8, Status::Cancelled)], "{elevator}, plugged: {plugged}");
            assert_eq!((rig.queue.allocated(), rig.why), ((0, 0), Waiting::Empty));
        }
    }
}

/// Can the first and the last of a merged request be withdrawn, and only they? Of [0, 8) [8, 16)
/// [16, 24) the middle stays: `Merged`; without its ends it is alone, and one command of 8 sectors.
#[test]
fn cancel_in_a_merged_request() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        for plugged in [false, true] {
            let mut rig = Rig::new(disk(1), elevator);
            let client = rig.client();
            if plugged {
                rig.plug(client);
            }
            let [first, middle, last] = [0, 8, 16].map(|sector| rig.read(client, sector, 8));
            assert_eq!(rig.queue.cancel(rig.now, middle), Err(CancelError::Merged));
            rig.queue.cancel(rig.now, first).unwrap();
            assert_eq!(rig.queue.request_with(last).unwrap().sector(), 8);
            rig.queue.cancel(rig.now, last).unwrap();
            rig.unplug(client);
            let what = format!("{elevator}, plugged: {plugged}");
            assert_eq!(shape(&rig.serve()), [(Op::Read, 8, 8)], "{what}");
            rig.done.sort_by_key(|&(cookie, _)| cookie);
            let ends = [(0, Status::Cancelled), (8, Status::Ok), (16, Status::Cancelled)];
            assert_eq!(rig.done, ends, "{what}");
        }
    }
}

/// Does the rest of a merged request keep its turn? Two reads wait since 0 ms, one more since
/// 400 ms; when the first is withdrawn at 450 ms, the second still expires at 500 ms.
#[test]
fn cancel_leaves_the_rest_its_turn() {
    for elevator in ["deadline", "mq-deadline"] {
        let mut rig = Rig::new(disk(1), elevator);
        let client = rig.client();
        let first = rig.read(client, 800, 8);
        rig.read(client, 808, 8);
        rig.at(400);
        rig.read(client, 0, 8);
        rig.at(450);
        rig.queue.cancel(rig.now, first).unwrap();
        rig.at(501);
        assert_eq!(rig.pulled(), [808], "{elevator}: the oldest has expired");
    }
}

/// Is it too late in the device, on the dispatch list and after the end; and is the ticket stale
/// after the bio was handed back?
#[test]
fn cancel_too_late() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    let ticket = rig.read(client, 0, 8);
    assert_eq!(rig.pulled(), [0]);
    assert_eq!(rig.queue.cancel(rig.now, ticket), Err(CancelError::TooLate));
    rig.refuse(0);
    assert_eq!(rig.queue.cancel(rig.now, ticket), Err(CancelError::TooLate));
    rig.at(3);
    assert_eq!(rig.pulled(), [0]);
    rig.complete_oldest();
    assert_eq!(rig.queue.cancel(rig.now, ticket), Err(CancelError::TooLate));
    rig.pull();
    assert_eq!(rig.queue.cancel(rig.now, ticket), Err(CancelError::Stale));
    assert_eq!(rig.done, [(0, Status::Ok)]);
}

/// Can a flush be withdrawn while it is in line, and not once it is in flight?
#[test]
fn cancel_a_flush() {
    let mut rig = Rig::new(DeviceFacts { write_cache: true, ..disk(4) }, "noop");
    let client = rig.client();
    let [first, second] = [1, 2].map(|cookie| rig.submit(Bio::flush(client).cookie(cookie)));
    assert_eq!(rig.pull().len(), 1);
    assert_eq!(rig.queue.cancel(rig.now, first), Err(CancelError::TooLate));
    rig.queue.cancel(rig.now, second).unwrap();
    rig.serve();
    assert_eq!(rig.done, [(2, Status::Cancelled), (1, Status::Ok)]);
    assert_eq!(rig.count(Action::Issue), 1);
}

/// May a client leave whose bio was withdrawn from a request that others joined? The request keeps
/// its name until it ends.
#[test]
fn cancel_and_leave_a_shared_request() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        let mut rig = Rig::new(disk(1), elevator);
        let [a, b] = [0; 2].map(|_| rig.client());
        let ticket = rig.read(a, 0, 8);
        rig.read(b, 8, 8);
        rig.queue.cancel(rig.now, ticket).unwrap();
        rig.pull();
        rig.queue.detach(rig.now, a).unwrap();
        assert_eq!(rig.try_submit(Bio::new(a, Op::Read, 0, 8)), Err(SubmitError::NoClient));
        // The slot of `a` must not go to another client while its request is in flight.
        let newcomer = rig.client();
        rig.serve();
        rig.queue.audit().unwrap();
        assert_eq!(rig.done, [(0, Status::Cancelled), (8, Status::Ok)], "{elevator}");
        assert_eq!(rig.queue.client(newcomer).unwrap().requests(), 0);
        assert!(rig.queue.client(a).is_none(), "gone with its last request");
    }
}

// ----------------------------------------------------------------------------------------- explain

/// Does the explanation name the place and the reason, in each place?
#[test]
fn explain_names_place_and_reason() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.plug(client);
    let [first, second] = [0, 100].map(|sector| rig.read(client, sector, 8));
    rig.at(2);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.explain(first), "it waits because its client has plugged itself 2 ms ago");
    rig.unplug(client);
    assert_eq!(rig.explain(first), "it waits for 2 ms in noop because it is the next");
    assert_eq!(rig.explain(second), "it waits for 2 ms in noop because 1 came before it");
    rig.pull();
    rig.at(3);
    assert!(rig.pull().is_empty());
    assert_eq!(rig.explain(first), "it is in the device for 1 ms");
    rig.complete_oldest();
    let ended = "it has ended and will be handed back by the next call";
    assert_eq!(rig.explain(first), ended);
    rig.pull();
    assert_eq!(rig.explain(first), "the bio has ended");
    rig.refuse(100);
    let chosen = "it was chosen; the device refused a command and will be asked again";
    assert_eq!(rig.explain(second), chosen);
}

/// Is the device's plug named as the reason, and the elevator's as what comes then?
#[test]
fn explain_names_the_device_plug() {
    let (mut rig, client) = device_plugged(disk(1));
    let ticket = rig.read(client, 0, 8);
    assert_eq!(
        rig.explain(ticket),
        "it waits for 0 s in noop because the device is plugged until 3 ms; then it is the next"
    );
}

/// Is a flush named, by itself and as the reason of others?
#[test]
fn explain_names_a_flush() {
    let mut rig =
        Rig::new(DeviceFacts { write_cache: true, flush_queueable: false, ..disk(4) }, "noop");
    let client = rig.client();
    let [first, second] = [1, 2].map(|cookie| rig.submit(Bio::flush(client).cookie(cookie)));
    rig.pull();
    let read = rig.read(client, 0, 8);
    assert_eq!(rig.explain(first), "it waits for the flush in flight");
    let next = "it came while a flush was in flight and waits for the next";
    assert_eq!(rig.explain(second), next);
    let why = "it waits for 0 s in noop because a flush is under way; then it is the next";
    assert_eq!(rig.explain(read), why);
}

/// Does deadline say how many are before it, and how close its deadline is?
#[test]
fn explain_names_the_deadline() {
    let mut rig = Rig::new(disk(1), "deadline");
    let client = rig.client();
    let [_, _, ticket] = [100, 200, 300].map(|sector| rig.read(client, sector, 8));
    assert_eq!(rig.pulled(), [100]);
    rig.at(400);
    assert!(rig.pull().is_empty());
    assert_eq!(
        rig.explain(ticket),
        "it waits for 400 ms in deadline because 1 other waits in its direction, 1 of them at \
         lower sectors; its deadline is in 100 ms"
    );
    rig.at(600);
    assert!(rig.pull().is_empty());
    assert!(
        rig.explain(ticket)
            .ends_with("its deadline passed 100 ms ago, the next batch begins with the oldest")
    );
}

// ----------------------------------------------------------------------------------- stale handles

/// Is every handle that was kept too long noticed, even when its slot has a new tenant?
#[test]
fn stale_handles_are_noticed() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.read(client, 0, 8);
    rig.pull();
    let tag = rig.complete_oldest().tag;
    assert_eq!(rig.queue.complete(rig.now, tag, Outcome::OK), Err(Stale));
    assert_eq!(rig.queue.requeue(rig.now, tag), Err(Stale));
    assert!(rig.queue.request_of(tag).is_none());
    rig.read(client, 100, 8);
    assert_eq!(rig.pull()[0].tag.index(), tag.index(), "the slot has a new tenant");
    assert_eq!(rig.queue.complete(rig.now, tag, Outcome::OK), Err(Stale));
    assert_eq!(rig.queue.cookies(tag).count(), 0);
    rig.refuse(100);
    rig.at(3);
    let again = rig.pull()[0].tag;
    rig.queue.complete(rig.now, again, Outcome::OK).unwrap();
    assert_eq!(rig.queue.requeue(rig.now, again), Err(Stale));
    rig.inside.clear();
    rig.pull();

    let group = rig.queue.add_group(Nanos::ZERO, GroupSpec::new()).unwrap();
    rig.queue.detach(rig.now, client).unwrap();
    rig.queue.remove_group(Nanos::ZERO, group).unwrap();
    assert_eq!(rig.queue.detach(rig.now, client), Err(Stale));
    assert_eq!(rig.queue.plug(rig.now, client), Err(Stale));
    assert_eq!(rig.queue.unplug(rig.now, client), Err(Stale));
    assert_eq!(rig.queue.set_priority(rig.now, client, Priority::default(), 1), Err(Stale));
    assert_eq!(rig.queue.set_group_weight(rig.now, group, 1), Err(Stale));
    assert!(rig.queue.remove_group(Nanos::ZERO, group).is_err());
    let newcomer = rig.client();
    assert_eq!(newcomer.index(), client.index());
    assert!(rig.queue.move_client(rig.now, newcomer, group).is_err());
    let bio = Bio::new(client, Op::Read, 0, 8);
    assert_eq!(rig.try_submit(bio), Err(SubmitError::NoClient));
    assert!(rig.queue.client(client).is_none());
}

// ------------------------------------------------------------------------------------------ events

/// Do the steps of a plugged, merged, refused request come in their order? Two merges in the plug,
/// the plug ends, the device refuses once.
#[test]
fn events_of_a_plugged_story() {
    let mut rig = Rig::new(disk(1), "noop");
    let client = rig.client();
    rig.plug(client);
    for sector in [8, 16, 0] {
        rig.read(client, sector, 8);
    }
    rig.unplug(client);
    rig.pull();
    rig.refuse(0);
    rig.at(3);
    rig.pull();
    rig.at(4);
    rig.complete_oldest();
    assert_eq!(rig.letters(), "QGPQMQFUIDRDC");
    let events = &rig.queue.observer().events;
    assert!(events.iter().zip(0..).all(|(event, n)| event.sequence == n));
    let ends = [events[0], events[3], events[5], events[12]];
    let sizes = ends.map(|event| (event.sector, event.sectors));
    assert_eq!(sizes, [(8, 8), (16, 8), (0, 8), (0, 24)], "bios, then the whole request");
    assert_eq!(events[7].sectors, 1, "one request was unplugged");
    assert_eq!((events[12].error, events[12].served), (0, Nanos::from_millis(1)));
}

/// And under the device's plug: plugged by the first (P), unplugged by the timer (T)?
#[test]
fn events_of_a_device_plug() {
    let (mut rig, client) = device_plugged(disk(1));
    rig.read(client, 0, 8);
    rig.read(client, 8, 8);
    rig.at(3);
    rig.pull();
    let command = rig.inside.pop_front().unwrap();
    rig.queue.complete(rig.now, command.tag, Outcome::failed(5)).unwrap();
    assert_eq!(rig.letters(), "QGPIQMTDC");
    assert_eq!(rig.queue.observer().events[8].error, 5);
}

/// Does a bio whose client slept have one Q, and an S for each sleep? nr_requests 4: the pool is
/// full, the second client sleeps and takes the request that becomes free.
#[test]
fn events_of_a_sleeper() {
    let mut rig = Rig::new(disk(1), "noop");
    rig.set("nr_requests", "4");
    let [a, b] = [0; 2].map(|_| rig.client());
    for n in 0..4 {
        rig.read(a, n * 100, 8);
    }
    rig.forget_events();
    let bio = Bio::new(b, Op::Read, 5000, 8);
    assert_eq!(rig.try_submit(bio), Err(SubmitError::Busy));
    assert_eq!(rig.try_submit(bio), Err(SubmitError::Busy));
    rig.pull();
    rig.complete_oldest();
    rig.pull();
    assert_eq!(rig.wakes, [b]);
    rig.submit(bio);
    assert_eq!(rig.letters(), "QSSDCDGI");
}
