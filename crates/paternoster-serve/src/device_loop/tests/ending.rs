// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stop with a device that no longer ends any command.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use paternoster_core::Nanos;

use crate::control::order::{Asked, Order};
use crate::device_loop::rig::{Rig, WRITE};

/// Does the loop give up on a device that hangs once its time is over, not before, and does the
/// answer to the stop say what was under way? 2 s for clients and 3 s for the device: not at 4.9 s,
/// at 5.0.
#[test]
fn a_device_that_hangs_is_left_behind() {
    let mut rig = Rig::new("noop", |config| {
        config.server.drain_timeout = Nanos::from_secs(2);
        config.server.device_timeout = Nanos::from_secs(3);
    });
    let mut client = rig.connect("one");
    rig.holds.store(true, Ordering::SeqCst);
    client.send(WRITE, 8192, 4096, &[1; 4096]);
    rig.settle();
    let (answer, answers) = channel();
    rig.device_loop.execute(Asked { order: Order::Stop, answer });
    for _ in 0..49 {
        rig.turn(Nanos::from_millis(100));
        assert!(!rig.device_loop.is_done() && !rig.device_loop.is_stuck());
    }
    rig.turn(Nanos::from_millis(100));
    assert!(rig.device_loop.is_stuck());
    rig.device_loop.end();
    let told = answers.try_recv().expect("an answer").expect_err("it did not end well");
    assert!(told.contains("1 commands: Write of 4096 bytes at 8192"), "{told}");
}

/// Does a device that has ended everything end in good order, however late it was?
#[test]
fn a_device_that_is_late_is_waited_for() {
    let mut rig = Rig::new("noop", |config| {
        config.server.drain_timeout = Nanos::from_secs(2);
        config.server.device_timeout = Nanos::from_secs(3);
    });
    let mut client = rig.connect("one");
    rig.holds.store(true, Ordering::SeqCst);
    client.send(WRITE, 0, 4096, &[1; 4096]);
    rig.settle();
    let (answer, answers) = channel();
    rig.device_loop.execute(Asked { order: Order::Stop, answer });
    rig.turn(Nanos::from_millis(4900));
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    assert!(rig.device_loop.is_done() && !rig.device_loop.is_stuck());
    rig.device_loop.end();
    answers.try_recv().expect("an answer").expect("in good order");
}
