// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether an elevator learns of clients and groups, and at the time of the call.

use std::sync::{Arc, Mutex};

use paternoster_core::elevator::{Elevator, Members, Pick, Position, Traits};
use paternoster_core::{
    ClientId, ClientSpec, DeviceFacts, GroupId, GroupSpec, Nanos, Priority, QueueView, RequestId,
    RequestQueue,
};

type Heard = Arc<Mutex<Vec<(u64, &'static str)>>>;

/// An elevator without requests that writes down its calls, with their times.
#[derive(Debug)]
struct Listener(Heard);

impl Listener {
    fn hears(&self, view: &QueueView, what: &'static str) {
        self.0.lock().expect("one thread").push((view.exact_now().as_millis(), what));
    }
}

impl Elevator for Listener {
    fn traits(&self) -> Traits {
        Traits::mq("listener")
    }
    fn attach(&mut self, _: &mut QueueView) {}
    fn insert(&mut self, _: &mut QueueView, _: RequestId, _: Position) {}
    fn pick(&mut self, _: &mut QueueView) -> Pick {
        Pick::Nothing
    }
    fn removed(&mut self, _: &mut QueueView, _: RequestId) {}
    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        None
    }
    fn waiting(&self) -> u32 {
        0
    }
    fn members(&mut self) -> Option<&mut dyn Members> {
        Some(self)
    }
}

impl Members for Listener {
    fn client_attached(&mut self, view: &mut QueueView, client: ClientId) {
        assert!(view.client(client).is_some() && view.clients().any(|(id, _)| id == client));
        self.hears(view, "client attached");
    }
    fn client_changed(&mut self, view: &mut QueueView, _: ClientId) {
        self.hears(view, "client changed");
    }
    fn client_detached(&mut self, view: &mut QueueView, _: ClientId) {
        self.hears(view, "client detached");
    }
    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        assert!(view.group(group).is_some() && view.groups().any(|(id, _)| id == group));
        self.hears(view, "group changed");
    }
    fn group_removed(&mut self, view: &mut QueueView, _: GroupId) {
        self.hears(view, "group removed");
    }
}

/// Does each call arrive once, at its own time, in ms? The first group is the root, which exists
/// when the elevator comes. A call with an earlier time than the one before it gets the time of
/// that one.
#[test]
fn an_elevator_hears_of_members_at_the_time_of_the_call() {
    let heard = Heard::default();
    let listener = Box::new(Listener(Arc::clone(&heard)));
    let mut queue = RequestQueue::builder(DeviceFacts::default(), listener).build().unwrap();
    let ms = Nanos::from_millis;
    let group = queue.add_group(ms(1), GroupSpec::new()).unwrap();
    let client = queue.attach(ms(2), ClientSpec::new().group(group)).unwrap();
    queue.set_priority(ms(3), client, Priority::default(), 200).unwrap();
    queue.set_group_weight(ms(4), group, 300).unwrap();
    queue.remove_group(ms(5), group).unwrap_err();
    queue.detach(ms(6), client).unwrap();
    queue.remove_group(ms(5), group).unwrap();
    let told = [
        (0, "group changed"),
        (1, "group changed"),
        (2, "client attached"),
        (3, "client changed"),
        (4, "group changed"),
        (6, "client detached"),
        (6, "group removed"),
    ];
    assert_eq!(*heard.lock().unwrap(), told);
}

/// Does an elevator that comes later learn of all that exist, groups first?
#[test]
fn one_that_comes_later_hears_of_all() {
    let noop = paternoster_schedulers::by_name("noop").unwrap();
    let mut queue = RequestQueue::builder(DeviceFacts::default(), noop).build().unwrap();
    let group = queue.add_group(Nanos::ZERO, GroupSpec::new()).unwrap();
    queue.attach(Nanos::ZERO, ClientSpec::new().group(group)).unwrap();
    let heard = Heard::default();
    queue.change_elevator(Nanos::from_millis(7), Box::new(Listener(Arc::clone(&heard))));
    let told = [(7, "group changed"), (7, "group changed"), (7, "client attached")];
    assert_eq!(*heard.lock().unwrap(), told);
}
