// SPDX-License-Identifier: MIT OR Apache-2.0
//! Home: which queue of an elevator a request belongs to, and whether it is under way.
//!
//! Kept in the scratch that a request has for its elevator: zero until it is settled.
//!
//! ```text
//! scratch[1]   bit 32: in flight    bits 0 to 31: number of the queue, plus one
//! ```
//!
//! Source: ours; Linux keeps two pointers in its request.

use crate::queue_view::QueueView;
use crate::request::RequestId;

const HOME: usize = 1;
const IN_FLIGHT: u64 = 1 << 32;

/// The queue that a request was settled in; 0 if it was not.
#[must_use]
pub fn home(view: &QueueView, request: RequestId) -> u32 {
    let number = view.requests[request].scratch[HOME] & (IN_FLIGHT - 1);
    u32::try_from(number.saturating_sub(1)).unwrap_or(0)
}

/// Whether a request was settled.
#[must_use]
pub fn is_settled(view: &QueueView, request: RequestId) -> bool {
    view.requests[request].scratch[HOME] != 0
}

/// Whether a request was dispatched and has not ended.
#[must_use]
pub fn is_in_flight(view: &QueueView, request: RequestId) -> bool {
    view.requests[request].scratch[HOME] & IN_FLIGHT != 0
}

/// Settles a request, which is not in flight, in a queue.
pub fn settle(view: &mut QueueView, request: RequestId, queue: u32) {
    view.requests[request].scratch[HOME] = u64::from(queue) + 1;
}

/// A request is in flight from now on, or no longer.
pub fn set_in_flight(view: &mut QueueView, request: RequestId, flies: bool) {
    debug_assert!(is_in_flight(view, request) != flies, "{request:?} twice");
    view.requests[request].scratch[HOME] ^= IN_FLIGHT;
}
