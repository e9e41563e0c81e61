// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an elevator is told of the end of a command.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use paternoster_core::device::Outcome;
use paternoster_core::elevator::{Elevator, Pick, Place, Position, Traits};
use paternoster_core::{
    Bio, ClientSpec, DeviceFacts, Flags, Nanos, Op, Output, QueueView, RequestId, RequestQueue,
};

/// First come, first served; and of each command whether it has failed, whether the device tells
/// what its commands take, and what it took.
#[derive(Debug, Default)]
struct Listener {
    waiting: VecDeque<RequestId>,
    heard: Arc<Mutex<Vec<(bool, bool, u64)>>>,
}

impl Elevator for Listener {
    fn traits(&self) -> Traits {
        Traits::mq("listener")
    }
    fn attach(&mut self, _: &mut QueueView) {}
    fn insert(&mut self, _: &mut QueueView, request: RequestId, _: Position) {
        self.waiting.push_back(request);
    }
    fn absorbed(&mut self, _: &mut QueueView, _: RequestId, _: RequestId) {}
    fn pick(&mut self, _: &mut QueueView) -> Pick {
        self.waiting.pop_front().map_or(Pick::Nothing, |id| Pick::Dispatch(id, Place::Tail))
    }
    fn completed(&mut self, view: &mut QueueView, request: RequestId, served: Nanos) {
        let told = (view.request(request).has_failed(), view.tells_times(), served.0);
        self.heard.lock().expect("one thread").push(told);
    }
    fn removed(&mut self, _: &mut QueueView, _: RequestId) {}
    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        self.waiting.pop_front()
    }
    fn explain(&self, _: &QueueView, _: RequestId, _: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
    fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }
}

/// Is an elevator told that a command failed, and not of the next one in the same slot; and that
/// the device tells times, once it has told one?
#[test]
fn an_elevator_is_told_how_a_command_ended() {
    let elevator = Listener::default();
    let heard = Arc::clone(&elevator.heard);
    let queue = RequestQueue::builder(DeviceFacts::default(), Box::new(elevator)).build();
    let mut queue = queue.expect("its limits work");
    let client = queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there is room");
    let told = Outcome { served: Some(Nanos(3)), ..Outcome::OK };
    let mut now = 0;
    for outcome in [Outcome::OK, Outcome::failed(5), Outcome::OK, told, Outcome::OK] {
        let bio = Bio::new(client, Op::Read, 8 * now, 8).flags(Flags::NOMERGE);
        queue.submit(Nanos(now), bio).expect("there is room");
        let tag = loop {
            match queue.next(Nanos(now)) {
                Output::Issue(command) => break command.tag,
                Output::Done(..) => {}
                other => panic!("{other:?}"),
            }
        };
        now += 10;
        queue.complete(Nanos(now), tag, outcome).expect("it is in the device");
    }
    let expected = [
        (false, false, 10),
        (true, false, 10),
        (false, false, 10),
        (false, true, 3),
        (false, true, 10),
    ];
    assert_eq!(*heard.lock().expect("one thread"), expected);
}
