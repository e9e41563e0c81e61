// SPDX-License-Identifier: MIT OR Apache-2.0
//! Home: the queue of an elevator to which a request belongs, and whether it is in flight.
//!
//! Stored in the scratch that a request has for its elevator: zero until it is assigned.
//!
//! ```text
//! scratch[1]   bit 32: in flight    bits 0 to 31: number of the queue, plus one
//! ```
//!
//! Source: own; Linux keeps two pointers in its request.

use crate::queue_view::QueueView;
use crate::request::RequestId;

const HOME: usize = 1;
const IN_FLIGHT: u64 = 1 << 32;

/// The queue that a request was assigned to; 0 if it was not.
#[inline]
#[must_use]
pub fn home(view: &QueueView, request: RequestId) -> u32 {
    let number = view.requests[request].scratch[HOME] & (IN_FLIGHT - 1);
    u32::try_from(number.saturating_sub(1)).unwrap_or(0)
}

/// Whether a request was assigned.
#[inline]
#[must_use]
pub fn is_settled(view: &QueueView, request: RequestId) -> bool {
    view.requests[request].scratch[HOME] != 0
}

/// Whether a request was dispatched and has not ended.
#[inline]
#[must_use]
pub fn is_in_flight(view: &QueueView, request: RequestId) -> bool {
    view.requests[request].scratch[HOME] & IN_FLIGHT != 0
}

/// Assigns a request, which is not in flight, to a queue.
#[inline]
pub fn settle(view: &mut QueueView, request: RequestId, queue: u32) {
    view.requests[request].scratch[HOME] = u64::from(queue) + 1;
}

/// A request is in flight from now on, or no longer.
#[inline]
pub fn set_in_flight(view: &mut QueueView, request: RequestId, flies: bool) {
    debug_assert!(is_in_flight(view, request) != flies, "{request:?} twice");
    view.requests[request].scratch[HOME] ^= IN_FLIGHT;
}
