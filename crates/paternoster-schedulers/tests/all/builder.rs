// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a queue has the requested limits, or is not made.

use paternoster_core::{
    AddError, BuildError, ClientSpec, DeviceFacts, GroupSpec, Limits, Nanos, RequestQueue,
};

/// A limit: its name, what sets it, its minimum and its maximum.
type Limit = (&'static str, fn(&mut Limits, &mut DeviceFacts, u32), u32, u32);

/// All limits: `Limits::LEAST` and `Limits::MOST`, written out. A depth counts commands, each of
/// which is a request.
const LIMITS: [Limit; 6] = [
    ("requests", |limits, _, to| limits.requests = to, 12, 1 << 24),
    ("bios", |limits, _, to| limits.bios = to, 16, 1 << 24),
    ("clients", |limits, _, to| limits.clients = to, 1, 1 << 24),
    ("groups", |limits, _, to| limits.groups = to, 1, 1 << 24),
    ("notes", |limits, _, to| limits.notes = to, 0, 1 << 24),
    ("depth", |_, facts, to| facts.depth = to, 1, 1 << 24),
];

fn build(limits: Limits, facts: DeviceFacts) -> Result<RequestQueue, BuildError> {
    let bfq = paternoster_schedulers::by_name("bfq").expect("it is there");
    RequestQueue::builder(facts, bfq).limits(limits).build()
}

/// Is each limit refused below its minimum and above its maximum, with its name and what would be
/// right; and is its minimum enough?
#[test]
fn a_limit_that_cannot_work_is_refused() {
    for (what, set, least, most) in LIMITS {
        let with = |asked| {
            let (mut limits, mut facts) = (Limits::default(), DeviceFacts::default());
            set(&mut limits, &mut facts, asked);
            build(limits, facts)
        };
        assert!(with(least).is_ok(), "{what}");
        for asked in [most + 1, u32::MAX] {
            let refused = with(asked).unwrap_err();
            assert_eq!(refused, BuildError::TooMany { what, asked, most });
            let words = format!("{what} is {asked} where {most} are possible at the most");
            assert_eq!(refused.to_string(), words);
        }
        for asked in least.checked_sub(1).into_iter().chain((least > 1).then_some(0)) {
            let refused = with(asked).unwrap_err();
            assert_eq!(refused, BuildError::TooFew { what, asked, least });
            let words = format!("{what} is {asked} where {least} are needed at the least");
            assert_eq!(refused.to_string(), words);
        }
    }
}

/// Does a queue with minimal limits have exactly these: one client and one group, the root?
#[test]
fn limits_are_not_raised() {
    let mut queue = build(Limits::LEAST, DeviceFacts::default()).expect("it is enough");
    let now = Nanos::ZERO;
    queue.attach(now, ClientSpec::new()).expect("the first");
    let full = AddError::Full { capacity: 1 };
    assert_eq!(queue.attach(now, ClientSpec::new()), Err(full));
    assert_eq!(queue.add_group(now, GroupSpec::new()), Err(full));
}
