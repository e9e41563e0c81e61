// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does a device allocate once it is warm? A global allocator counts this thread's allocations
//! inside the calls of the device: 20,000 commands, reads, writes, discards and flushes of many
//! sizes, on the SSDs of the catalog, with faults in front.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use paternoster_core::{Bio, ClientSpec, Device, Nanos, Op, Output, RequestQueue};
use paternoster_sim::{Rule, Simulated, catalog};

const COMMANDS: u64 = 20_000;
const WARM_UP: u64 = 5_000;

thread_local! {
    /// Allocations of this thread while it counts; `None` while it does not.
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The system's allocator, counting.
struct Counting;

fn count() {
    let _counted = COUNTED.try_with(|counted| counted.set(counted.get().map(|count| count + 1)));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only an initialised
// thread-local cell, which neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the device does in this call, and how often it allocated.
fn counted<T>(call: impl FnOnce() -> T) -> (T, u64) {
    COUNTED.set(Some(0));
    let result = call();
    (result, COUNTED.replace(None).unwrap_or(0))
}

#[test]
fn a_warm_device_does_not_allocate() {
    let rules = ["delay every=7 time=300us", "stall every=1001 time=1ms", "refuse every=99"];
    let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    for name in ["ssd-870evo", "nvme-7300"] {
        let description = catalog::by_name(name).unwrap().unwrap();
        let mut device = Simulated::new(description.faulty_model(&rules, 1));
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        let mut queue =
            RequestQueue::builder(device.facts(), noop).build().expect("its limits work");
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        let (mut sent, mut ended, mut allocations) = (0u64, 0u64, 0);
        while ended < COMMANDS {
            let now = device.now();
            while sent < ended + 24 {
                sent += 1;
                let sector = sent.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36;
                let sectors = u32::try_from(1 + sector % 300).unwrap();
                let bio = match sent % 16 {
                    0 => Bio::flush(client),
                    1 => Bio::new(client, Op::Discard, sector, sectors),
                    2..7 => Bio::new(client, Op::Write, sector, sectors),
                    _ => Bio::new(client, Op::Read, sector, sectors),
                };
                queue.submit(now, bio).unwrap();
            }
            let mut here = 0;
            let until = loop {
                match queue.next(now) {
                    Output::Issue(command) => {
                        let (taken, count) = counted(|| device.submit(command));
                        here += count;
                        if taken.is_err() {
                            queue.requeue(now, command.tag).unwrap();
                        }
                    }
                    Output::Done(..) => ended += 1,
                    Output::Wait { until, .. } => break until,
                    Output::Wake(_) => {}
                }
            };
            let later = until.unwrap_or(now + Nanos::from_secs(1));
            let (completion, count) = counted(|| device.wait(Some(later)));
            here += count;
            if let Some(completion) = completion {
                queue.complete(completion.at, completion.tag, completion.outcome).unwrap();
            }
            if ended > WARM_UP {
                allocations += here;
            }
        }
        assert_eq!(allocations, 0, "{name}");
    }
}
