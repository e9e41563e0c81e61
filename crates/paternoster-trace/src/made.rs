// SPDX-License-Identifier: MIT OR Apache-2.0
//! What unit tests share: clients and their events.

use paternoster_core::event::{Action, Event};
use paternoster_core::{ClientId, ClientSpec, DeviceFacts, Flags, Nanos, Op, RequestQueue};

/// This many clients of a queue.
pub(crate) fn clients<const N: usize>() -> [ClientId; N] {
    let elevator = paternoster_schedulers::by_name("noop").expect("it is there");
    let queue = RequestQueue::builder(DeviceFacts::default(), elevator).build();
    let mut queue = queue.expect("its limits work");
    core::array::from_fn(|_| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there is room"))
}

/// What happens to a read of 4 KiB.
pub(crate) fn event(at: u64, action: Action, client: ClientId, sector: u64) -> Event {
    let (op, flags, served) = (Op::Read, Flags::default(), Nanos::ZERO);
    let (at, sequence, sectors, error) = (Nanos(at), 0, 8, 0);
    Event { at, sequence, action, client, op, flags, sector, sectors, error, served }
}
