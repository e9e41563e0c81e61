// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bypass: requests that go before all others.
//!
//! A request that the device refused, or that was inserted at the head, waits in no queue: it goes
//! with the next call, the last inserted first. A request that was dispatched before the call asked
//! for one goes after them.
//!
//! Source: BFQ-30, BFQ-190.

use paternoster_core::RequestId;
use paternoster_core::list::{Links, List};

/// Refused by the device, or due before all others.
#[derive(Debug)]
pub(crate) struct Bypass {
    list: List,
    links: Links,
}

impl Bypass {
    pub(crate) fn with_capacity(requests: u32) -> Bypass {
        Bypass { list: List::new(), links: Links::with_capacity(requests) }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.list.len()
    }

    pub(crate) fn contains(&self, request: RequestId) -> bool {
        self.links.contains(request.index())
    }

    /// The next one from now on.
    pub(crate) fn push(&mut self, request: RequestId) {
        self.list.push_front(&mut self.links, request.index());
    }

    /// The last one from now on.
    pub(crate) fn push_last(&mut self, request: RequestId) {
        self.list.push_back(&mut self.links, request.index());
    }

    /// The next one, if any.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<RequestId> {
        self.list.pop_front(&mut self.links).map(RequestId::from_index)
    }

    /// Takes it out. Returns whether it was there.
    pub(crate) fn remove(&mut self, request: RequestId) -> bool {
        let is_there = self.contains(request);
        if is_there {
            self.list.remove(&mut self.links, request.index());
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the last inserted request go first, no removed one at all, and one put at the tail
    /// after the others?
    #[test]
    fn the_last_inserted_goes_first() {
        let requests = [0, 1, 2, 3].map(RequestId::from_index);
        let mut bypass = Bypass::with_capacity(4);
        bypass.push_last(requests[3]);
        requests[..3].iter().for_each(|&request| bypass.push(request));
        assert!(bypass.remove(requests[1]) && !bypass.remove(requests[1]));
        assert_eq!((bypass.len(), bypass.contains(requests[1])), (3, false));
        let order = [2, 0, 3].map(|place: usize| Some(requests[place]));
        assert_eq!([(); 3].map(|()| bypass.pop()), order);
        assert_eq!(bypass.pop(), None);
    }
}
