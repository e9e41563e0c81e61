// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a bio becomes: FLUSH-1 to FLUSH-3, and the path of each step under both block layers.

use super::*;
use paternoster_core::{Action, Nanos, Outcome, Output, Status, Waiting};

/// From the table of 11.1: what, the flags of its write of 8 sectors (none for an empty flush), and
/// what the device sees without a cache, with one, and with one and FUA.
type Row = (&'static str, Option<Flags>, [&'static str; 3]);

fn table() -> [Row; 4] {
    let both = Flags::PREFLUSH | Flags::FUA;
    [
        ("flush", None, ["", "F", "F"]),
        ("preflush", Some(Flags::PREFLUSH), ["W8", "F W8", "F W8"]),
        ("fua", Some(Flags::FUA), ["W8", "W8 F", "W8!"]),
        ("both", Some(both), ["W8", "F W8 F", "F W8!"]),
    ]
}

/// For each cell of the table, does the device see exactly those commands in that order, and the
/// submitter one completion? A device that claims FUA and has no cache counts as one without FUA.
#[test]
fn flush_1_each_cell_of_the_table() {
    for elevator in BOTH_LAYERS {
        for (what, flags, [none, cache, forced]) in table() {
            for (write_cache, fua, expected) in [
                (false, false, none),
                (false, true, none),
                (true, false, cache),
                (true, true, forced),
            ] {
                let mut rig = commanded(DeviceFacts { write_cache, fua, ..disk(4) }, elevator);
                let client = rig.client();
                match flags {
                    Some(flags) => rig.ordered(client, 8, flags),
                    None => rig.flush(client, 8),
                };
                let commands = rig.serve();
                let preflush = |command: &Command| command.flags.contains(Flags::PREFLUSH);
                assert!(!commands.iter().any(preflush), "the device never sees PREFLUSH");
                let case = format!("{elevator}, {what}, cache {write_cache}, FUA {fua}");
                assert_eq!(words(&commands), expected, "{case}");
                assert_eq!(rig.done, [(8, Status::Ok)], "{case}");
            }
        }
    }
}

/// Do the steps follow each other, each alone in the device, and does a write that loses its flags
/// stay sync?
#[test]
fn flush_1_steps_follow_each_other() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.ordered(client, 8, Flags::PREFLUSH | Flags::FUA);
        for step in ["F", "W8", "F"] {
            assert!(rig.done.is_empty());
            let commands = rig.pull();
            assert_eq!(words(&commands), step, "{elevator}");
            assert!(step == "F" || commands[0].flags.contains(Flags::SYNC));
            assert!(rig.pull().is_empty());
            rig.complete_oldest();
        }
        rig.pull();
        assert_eq!(rig.done, [(8, Status::Ok)]);
        assert_eq!(rig.letters(), "QGIDCDCDC");
    }
}

/// Do bios that order the cache stay out of merges, whatever adjoins them?
#[test]
fn flush_1_nothing_merges_with_a_sequence() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.write(client, 0, 8);
        rig.ordered(client, 8, Flags::FUA);
        rig.ordered(client, 16, Flags::PREFLUSH);
        rig.write(client, 24, 8);
        let commands = rig.serve();
        assert!(commands.iter().all(|command| command.op == Op::Flush || command.sectors == 8));
        assert_eq!(rig.count(Action::BackMerge) + rig.count(Action::FrontMerge), 0, "{elevator}");
    }
}

/// Do flush bios bypass their client's plug? Its plain write stays there.
#[test]
fn flush_1_passes_by_the_plug() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.plug(client);
        rig.write(client, 100, 8);
        rig.flush(client, 1);
        rig.ordered(client, 8, Flags::PREFLUSH);
        assert_eq!(rig.served_words(), "F F W8", "{elevator}");
        rig.unplug(client);
        assert_eq!(rig.served_words(), "W100");
    }
}

/// Where does the data of a sequence go when two others wait? To the head of the dispatch list
/// under legacy rules, where no elevator sees it; under mq rules to the head of the elevator after
/// a preflush, and among the others without one.
#[test]
fn flush_1_place_of_the_data() {
    let expected = [
        // W8 waits for the flush; the elevator's two are gone by then, or held on SATA.
        ("deadline", Flags::PREFLUSH, "F W8 W900 W910"),
        ("deadline", Flags::FUA, "W8 W900 W910 F"),
        ("mq-deadline", Flags::PREFLUSH, "F W8 W900 W910"),
        ("mq-deadline", Flags::FUA, "W900 W910 W8 F"),
    ];
    for (elevator, flags, order) in expected {
        let mut rig = commanded(DeviceFacts { flush_queueable: false, ..cached() }, elevator);
        let client = rig.client();
        // Deadline goes up from where it was: 900 and 910 come before 8, unless that is first.
        rig.write(client, 800, 8);
        rig.pull();
        rig.complete_oldest();
        rig.write(client, 900, 8);
        rig.write(client, 910, 8);
        rig.ordered(client, 8, flags);
        assert_eq!(rig.served_words(), order, "{elevator} {flags:?}");
    }
}

/// Does a FUA write that the device can do itself bypass the elevator under legacy rules, to the
/// tail of the dispatch list, and go through it under mq rules?
#[test]
fn flush_1_forced_data_are_no_sequence() {
    for (elevator, order) in [("deadline", "W8! W900"), ("mq-deadline", "W900 W8!")] {
        let mut rig = commanded(DeviceFacts { fua: true, ..cached() }, elevator);
        let client = rig.client();
        rig.write(client, 800, 8);
        rig.pull();
        rig.complete_oldest();
        rig.write(client, 900, 8);
        rig.ordered(client, 8, Flags::FUA);
        assert_eq!(rig.served_words(), order, "{elevator}");
    }
}

/// Does an empty flush of a device without a cache end with no command, at the next call?
#[test]
fn flush_2_nothing_to_flush() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(disk(4), elevator);
        let client = rig.client();
        rig.flush(client, 7);
        assert_eq!(rig.queue.next(rig.now), Output::Done(7, Outcome::OK));
        assert_eq!(rig.queue.next(rig.now), Output::Wait { until: None, why: Waiting::Empty });
        assert_eq!(rig.letters(), "Q");
    }
}

/// With a cache but no FUA, does the data command of a FUA write lack the FUA bit, and does one
/// flush follow, which begins after the data's end?
#[test]
fn flush_3_fua_becomes_a_flush() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.ordered(client, 8, Flags::FUA);
        assert_eq!(rig.pulled_words(), "W8", "{elevator}: without `!`");
        rig.now = Nanos::from_millis(4);
        assert_eq!(rig.pulled_words(), "", "not beside the data");
        rig.complete_oldest();
        assert_eq!(rig.pulled_words(), "F");
        assert_eq!(rig.done, []);
        rig.complete_oldest();
        assert_eq!(rig.served_words(), "");
        assert_eq!(rig.ended(), [8]);
    }
}
