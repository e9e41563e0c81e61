// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is learned of queues and of the device: depth, seeks, think time, intensity. BFQ-82 to
//! BFQ-89.

use super::*;
use paternoster_core::observe::think_time::ThinkTime;

/// A bench whose device does not say whether it queues commands.
fn probing(version: Version, facts: DeviceFacts) -> Bench {
    let mut bench = Bench::new(version, facts);
    bench.view.set_ncq(Ncq::Probe);
    bench
}

/// Whether 33 completions, with this many in the driver and waiting, decide anything.
fn decides(bench: &mut Bench, in_driver: u32, waiting: u32) -> Option<bool> {
    let before = bench.bfq.device.in_driver();
    bench.bfq.device.set_in_driver(in_driver);
    let of_served = bench.of_starved();
    for _ in 0..33 {
        bench.bfq.device.probe_depth(waiting, of_served);
    }
    bench.bfq.device.set_in_driver(before);
    bench.bfq.device.known_to_queue(&bench.view)
}

/// Does a completion count from four requests on, waiting and in the driver; and does a device
/// queue commands that has had five at a time, in 6.18 four? (That the 33rd decides:
/// `observe/queue_depth.rs`.)
#[test]
fn bfq_82_the_device_is_probed_under_load() {
    for version in [LINUX_4_19, LINUX_6_18] {
        let queues = version.name == LINUX_6_18.name;
        for (in_driver, waiting, expected) in
            [(1, 2, None), (1, 3, Some(false)), (4, 0, Some(queues)), (5, 0, Some(true))]
        {
            let mut bench = probing(version, flash(32));
            assert_eq!(decides(&mut bench, in_driver, waiting), expected, "{}", version.name);
        }
    }
}

/// In 6.18, does it not count while the queue in service thinks short and has fewer than three
/// requests, and the device has fewer than three?
#[test]
fn bfq_82_not_while_one_keeps_it_empty() {
    for (own, in_driver, expected) in
        [(2, 2, [Some(false), None]), (3, 2, [Some(false); 2]), (2, 3, [Some(false), Some(false)])]
    {
        for (version, expected) in [LINUX_4_19, LINUX_6_18].into_iter().zip(expected) {
            let mut bench = probing(version, flash(32));
            let client = bench.client();
            for place in 0..own {
                bench.read(client, FAR + 8 * place);
            }
            bench.bfq.begin_turn(&mut bench.view);
            assert_eq!(decides(&mut bench, in_driver, 8), expected, "{} {own}", version.name);
        }
    }
}

/// Is a device taken to queue commands until it is known not to, and shown as -1; and flash as
/// flash that does?
#[test]
fn bfq_83_unknown_counts_as_yes() {
    for version in [LINUX_4_19, LINUX_6_18] {
        let mut bench = probing(version, flash(32));
        let place = ATTRIBUTES.iter().position(|attribute| attribute.name == "hw_tag");
        let shown = |bench: &Bench| {
            let mut text = alloc::string::String::new();
            bench.bfq.show(&bench.view, place.expect("it is there"), &mut text).unwrap();
            text
        };
        assert!(bench.bfq.device.queues_commands(&bench.view));
        assert!(bench.bfq.device.is_queueing_flash(&bench.view));
        assert_eq!(shown(&bench), "-1");
        assert_eq!(decides(&mut bench, 1, 3), Some(false));
        assert!(!bench.bfq.device.is_queueing_flash(&bench.view));
        assert_eq!(shown(&bench), "0");
        let bench = probing(version, disk(1));
        assert!(!bench.bfq.device.is_queueing_flash(&bench.view));
    }
}

/// The marks of a queue that makes these reads: sector, sectors.
fn marks(bench: &mut Bench, reads: &[(u64, u32)]) -> u32 {
    let client = bench.client();
    for &(sector, sectors) in reads {
        bench.read_of(client, sector, sectors);
    }
    bench.queue(client).pattern.seek.marks()
}

/// Does a queue begin with one mark; is the first request no seek; and is a seek one of more than
/// 800 sectors, on flash only of requests below 64 sectors?
#[test]
fn bfq_84_what_a_jump_is() {
    for (facts, far, large) in [(disk(1), 0b101, 0b101), (flash(32), 0b101, 0b100)] {
        each(facts, |mut bench| {
            bench.set("queue_merging", 0);
            let other = bench.client();
            assert_eq!(
                bench.bfq.new_queue(&bench.view, other, true).map(|queue| {
                    let marks = bench.bfq.queues.at(queue).pattern.seek.marks();
                    bench.bfq.queues.free(queue);
                    marks
                }),
                Some(1)
            );
            assert_eq!(marks(&mut bench, &[(FAR, 8)]), 0b10);
            assert_eq!(marks(&mut bench, &[(FAR, 8), (FAR + 808, 8)]), 0b100);
            assert_eq!(marks(&mut bench, &[(FAR, 8), (FAR + 809, 63)]), far);
            assert_eq!(marks(&mut bench, &[(FAR, 8), (FAR + 809, 64)]), large);
            assert_eq!(marks(&mut bench, &[(FAR, 8), (FAR - 793, 8)]), far);
            assert_eq!(marks(&mut bench, &[(FAR, 8), (FAR - 792, 8)]), 0b100);
        });
    }
}

/// Is a queue seeky after twenty seeks of 4 KiB, and not after nineteen; and on flash never with
/// seeks of 32 KiB? The first request is not a seek.
#[test]
fn bfq_85_twenty_jumps_make_a_queue_seeky() {
    for (facts, count, sectors, seeky) in [
        (disk(1), 20, 8, true),
        (flash(32), 20, 8, true),
        (flash(32), 19, 8, false),
        (disk(1), 20, 64, true),
        (flash(32), 60, 64, false),
    ] {
        each(facts, |mut bench| {
            bench.set("queue_merging", 0);
            let client = bench.client();
            for place in 0..=count {
                bench.read_of(client, FAR + place * 10_000, sectors);
            }
            // The mark from the beginning is still there after 21 requests.
            let own = bench.queue(client).pattern.seek.marks() & 0xf_ffff;
            let marked = own.count_ones() >= 20;
            assert_eq!(marked, seeky, "{facts:?} {count}");
            assert!(!bench.queue(client).pattern.is_totally_seeky());
        });
    }
}

/// The weight of samples and the mean, in nanoseconds, after each of these gaps.
fn means<const N: usize>(gaps: [u64; N]) -> [(u64, u64); N] {
    let mut think = ThinkTime::default();
    gaps.map(|us| {
        think.sample_gap(Nanos::from_micros(us).min(ms(16)), Nanos(1));
        let (mean, weight) = think.parts();
        (weight, mean)
    })
}

/// Are the running means those of the golden vectors: computed independently, and from recorded
/// decisions?
#[test]
fn bfq_golden_think_time() {
    assert_eq!(
        means([1000, 1000, 9000, 16_000, 16_000]),
        [(32, 1_000_004), (60, 1_000_002), (84, 4_053_572), (105, 7_713_691), (123, 9_924_353)]
    );
    assert_eq!(
        means([16_000, 87, 44, 66]),
        [(32, 16_000_004), (60, 7_513_068), (84, 4_712_430), (105, 3_318_815)]
    );
}

/// Is the gap since the queue's last completion learned, cut off at two idle slices, and is the one
/// before the first request counted as two of them?
#[test]
fn bfq_86_gaps_are_learned() {
    each(disk(32), |mut bench| {
        let client = bench.client();
        let mut expected = ThinkTime::default();
        for (gap, learned) in [(0, 16), (3, 3), (40, 16)] {
            bench.later(gap);
            bench.read(client, FAR);
            bench.serve();
            bench.later(100);
            bench.queue_mut(client).pattern.last_completion = Some(bench.view.exact_now());
            expected.sample_gap(ms(learned), Nanos(1));
            assert_eq!(
                bench.queue(client).pattern.think_time.parts(),
                expected.parts(),
                "{gap} ms"
            );
        }
    });
}

/// In 6.18, is a gap learned only if the queue had come to rest?
#[test]
fn bfq_86_only_at_rest_in_6_18() {
    each(disk(32), |mut bench| {
        let [client] = bench.readers();
        bench.read(client, FAR + 8);
        let (_, samples) = bench.queue(client).pattern.think_time.parts();
        assert_eq!(samples, if bench.is(LINUX_6_18) { 32 } else { 60 });
    });
}

/// Is a queue that empties and leaves taken to think long from its third arrival at rest on, in
/// 6.18, and as short again from the fourth, however fast it asks again?
#[test]
fn bfq_86_the_third_arrival_thinks_long() {
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let [client, _] = bench.readers();
    let mut short = Vec::new();
    for _ in 0..4 {
        short.push(bench.queue(client).pattern.thinks_short);
        while bench.serve() != client {
            let other = bench.client();
            bench.read(other, 9 * FAR);
        }
        // Its turn ends; another queue is busy.
        while bench.queue(client).is_busy {
            bench.later(1);
            let _ = bench.pick();
        }
        bench.queue_mut(client).pattern.last_completion = Some(bench.view.exact_now());
        bench.later_us(70);
        bench.read(client, FAR);
    }
    assert_eq!(short, [true, true, false, true]);
}

/// Does a queue think long if its mean is over 8 ms, in 6.18 over 4 ms; and is it always short with
/// slice_idle=0?
#[test]
fn bfq_87_what_thinking_long_is() {
    for (gap, long) in [(3, [false; 2]), (6, [false, true]), (10, [true; 2])] {
        for (version, long) in [LINUX_4_19, LINUX_6_18].into_iter().zip(long) {
            for slice_idle in [8, 0] {
                let mut bench = Bench::new(version, flash(32));
                let client = bench.client();
                for _ in 0..12 {
                    bench.later(gap);
                    bench.read(client, FAR);
                    bench.picked();
                    let id = RequestId::from_index(0);
                    let last = bench.view.exact_now();
                    bench.end(id);
                    bench.go(last + Nanos(0));
                    if bench.in_service().is_some() {
                        bench.bfq.expire(&mut bench.view, 0, false, Expiry::NoMoreRequests);
                    }
                }
                bench.set("slice_idle", slice_idle);
                bench.later(gap);
                bench.read(client, FAR);
                let expected =
                    if slice_idle == 0 { bench.queue(client).pattern.thinks_short } else { !long };
                assert_eq!(
                    bench.queue(client).pattern.thinks_short,
                    expected,
                    "{} {gap}",
                    version.name
                );
            }
        }
    }
}

/// In 4.19, does a queue stop being I/O bound when it was idled for without success with at most
/// two tenths of its budget used, and only after such an end?
#[test]
fn bfq_88_idled_in_vain() {
    for (why, service, bound) in [
        (Expiry::TooIdle, 20, false),
        (Expiry::TooIdle, 21, true),
        (Expiry::NoMoreRequests, 20, true),
    ] {
        let mut bench = Bench::new(LINUX_4_19, disk(1));
        let [client] = bench.readers();
        let (_, id) = bench.picked();
        assert!(bench.queue(client).pattern.is_io_bound);
        let entity = bench.entity_mut(client);
        (entity.budget, entity.service) = (100, service);
        bench.expire(client, why);
        assert_eq!(bench.queue(client).pattern.is_io_bound, bound, "{why:?} {service}");
        bench.end(id);
    }
}

/// In 4.19, is it I/O bound again after 120 arrivals in time in a row, and does a late one start
/// the count again?
#[test]
fn bfq_88_back_in_time() {
    for (late, bound) in [(None, true), (Some(60), false)] {
        let mut bench = Bench::new(LINUX_4_19, flash(32));
        let [client] = bench.readers();
        bench.serve();
        bench.queue_mut(client).pattern.is_io_bound = false;
        for arrival in 1..=120 {
            assert!(!bench.queue(client).pattern.is_io_bound, "{arrival}");
            bench.later(if late == Some(arrival) { 30 } else { 1 });
            bench.read(client, FAR + 8 * arrival);
            bench.serve();
        }
        assert_eq!(bench.queue(client).pattern.is_io_bound, bound);
    }
}

/// In 6.18, is a queue I/O bound if it has been idle for at most a fifth of the time; and are both
/// times halved when the time exceeds 200 ms?
#[test]
fn bfq_89_idle_for_a_fifth_of_the_time() {
    for (idle, bound) in [(20, true), (21, false)] {
        let mut bench = Bench::new(LINUX_6_18, disk(32));
        let [client] = bench.readers();
        let (_, id) = bench.picked();
        bench.later(100 - idle);
        bench.end(id);
        bench.later(idle);
        bench.read(client, FAR + 8);
        assert_eq!(bench.queue(client).pattern.is_io_bound, bound, "{idle} of 100 ms");
    }
    let mut bench = Bench::new(LINUX_6_18, disk(32));
    let [client] = bench.readers();
    let (_, id) = bench.picked();
    bench.later(101);
    bench.end(id);
    bench.later(100);
    // 100 of 201: not bound; 50 of 100.5 are kept.
    bench.read(client, FAR + 8);
    assert!(!bench.queue(client).pattern.is_io_bound);
    let (_, id) = bench.picked();
    bench.later(99);
    bench.end(id);
    bench.read(client, FAR + 16);
    assert!(!bench.queue(client).pattern.is_io_bound, "50 of 199.5");
    bench.serve();
    bench.later(0);
    bench.read(client, FAR + 24);
    assert!(!bench.queue(client).pattern.is_io_bound, "50 of 200.5, then 25 of 100.25");
    let (_, id) = bench.picked();
    bench.later(30);
    bench.end(id);
    bench.read(client, FAR + 32);
    assert!(bench.queue(client).pattern.is_io_bound, "25 of 130.25");
}

/// Is a queue's first request no evidence, however long after the queue's creation it comes?
#[test]
fn bfq_89_a_new_queue_is_not_judged() {
    let mut bench = Bench::new(LINUX_6_18, disk(32));
    let [client] = bench.readers();
    assert!(bench.queue(client).pattern.is_io_bound);
}
