// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the audit runs by itself: in debug builds with the feature `audit`, and not in those of a
//! program that embeds the library.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use paternoster_core::elevator::{Elevator, Fault, Pick, Position, Traits};
use paternoster_core::{ClientSpec, DeviceFacts, Nanos, QueueView, RequestId, RequestQueue};

/// An elevator whose invariants never hold.
#[derive(Debug)]
struct Broken;

impl Elevator for Broken {
    fn traits(&self) -> Traits {
        Traits::legacy("broken")
    }
    fn attach(&mut self, _: &mut QueueView) {}
    fn insert(&mut self, _: &mut QueueView, _: RequestId, _: Position) {}
    fn absorbed(&mut self, _: &mut QueueView, _: RequestId, _: RequestId) {}
    fn pick(&mut self, _: &mut QueueView) -> Pick {
        Pick::Nothing
    }
    fn removed(&mut self, _: &mut QueueView, _: RequestId) {}
    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        None
    }
    fn explain(&self, _: &QueueView, _: RequestId, _: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
    fn waiting(&self) -> u32 {
        0
    }
    fn audit(&self, _: &QueueView) -> Result<(), Fault> {
        Err("it is broken".into())
    }
}

/// Does the first call of a queue find it, with the feature and debug assertions, and no call
/// without; and does a caller that runs the audit find it in any build?
#[test]
fn a_broken_invariant_is_found_in_passing() {
    let queue = RequestQueue::builder(DeviceFacts::default(), Box::new(Broken)).build();
    let mut queue = queue.expect("its limits work");
    assert_eq!(queue.audit(), Err("it is broken".into()));
    let attached = catch_unwind(AssertUnwindSafe(|| queue.attach(Nanos::ZERO, ClientSpec::new())));
    assert_eq!(attached.is_err(), cfg!(all(debug_assertions, feature = "audit")));
}
