// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: what is known of each client, its waiting requests, and which are about to ask.
//!
//! A client's requests wait in its *lane*, by sector and by age; its *access pattern* says when its
//! next request is expected (rule R1). Two lists hold clients of a kind that the choice asks for:
//!
//! ```text
//! expected      nothing waits, and a request is expected: a slot may be kept for it (R2)
//! interactive   its only request came after a pause: it needs no seat (S3), first come first
//! ```
//!
//! # Invariants
//! I1  Each expected client with nothing waiting is in the list of expected clients;
//!     `total_expected` is the number of their requests that a slot may be kept for.
//! I2  A client is in the list of interactive clients exactly while it is marked as one, and only
//!     while its request waits (see `audit.rs`): that is asked for without looking.
//!
//! Source: R1 to R3, S3, S9 of `docs/rules/adaptive.md`.

use alloc::vec::Vec;
use core::mem::{offset_of, replace};

use crate::adaptive::access_pattern::AccessPattern;
use crate::adaptive::account::{CROWD, STREAM};
use crate::adaptive::throughput_gain::Access;
use paternoster_core::list::{Links, List};
use paternoster_core::pick::lane::{Lane, LaneSpace};
use paternoster_core::time::Nanos;
use paternoster_core::{QueueView, RequestId};

/// After this time a request is its client's next one, whatever its sector; on a disk if it was
/// passed over by [`PASSED_MOST`] times as many of its client as wait, too, or at most [`FEW`]
/// wait.
const AGE_MOST: Nanos = Nanos::from_millis(500);
/// A sweep passes over a request for one lap at most, in which about twice as many go as wait, as
/// others come meanwhile. So a client of which D wait and that gets r a second has each after 2 D /
/// r, where 3 D / r are allowed (the scoreboard's law on waits); four times as many, as in a sweep
/// group, would be 4 D / r.
const PASSED_MOST: u32 = 2;
/// With at most so many there is little to order, and age decides: of two at random places the
/// second is as far from the first, whichever that is.
const FEW: u32 = 4;
/// At most this many expected clients are examined.
pub(super) const LOOKS_MOST: usize = 64;

/// The data of a client, in two cache lines: its access patterns come first, and the second line
/// has what a dispatch needs.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Client {
    pub(super) pattern: AccessPattern,
    pub(super) lane: Lane,
    owed_soon: u32,
    /// The sector after its last request.
    pub(super) head: u64,
    /// The kind as which its requests wait.
    pub(super) is_stream: bool,
    /// It is in a shared stream (see `cooperate.rs`).
    pub(super) is_together: bool,
    /// Its only request came after a pause, in which it had less than all waiting clients: it is an
    /// interactive client.
    is_interactive: bool,
    /// It is in the list of expected clients, and `owed_soon` of its requests may have a slot kept.
    is_missed: bool,
    /// How many of its requests have gone, modulo 2^16; `scratch[1]` of one that waits is how many
    /// had when it came.
    gone: u16,
}

const _: () = assert!(offset_of!(Client, lane) >= 64 && size_of::<Client>() == 128);

impl Client {
    pub(super) const fn kind(&self) -> usize {
        if self.is_stream { STREAM } else { CROWD }
    }

    pub(super) const fn access(&self) -> Access {
        match (self.is_together, self.pattern.is_stream) {
            (true, _) => Access::Together,
            (false, true) => Access::Sequential,
            (false, false) => Access::Random,
        }
    }

    /// It reads sequentially, alone or with others.
    pub(super) const fn reads_on(&self) -> bool {
        self.is_together || self.pattern.is_stream
    }

    pub(super) const fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    /// How many of its requests have gone since this one came.
    fn passed(&self, view: &QueueView, request: RequestId) -> u16 {
        let came = u16::try_from(view.request(request).scratch()[1]).unwrap_or(0);
        self.gone.wrapping_sub(came)
    }

    /// S9: its oldest request, which is late, if it goes by age: on a disk once more than twice as
    /// many have gone since it came as wait, or if few wait.
    #[cold]
    #[inline(never)]
    fn aged(&self, view: &QueueView) -> Option<RequestId> {
        let oldest = self.lane.oldest()?;
        let most = self.lane.len().saturating_mul(PASSED_MOST).min(u32::from(u16::MAX / 2));
        let by_age = !view.facts().rotational || self.lane.len() <= FEW;
        let goes = by_age || u32::from(self.passed(view, oldest)) > most;
        goes.then_some(oldest)
    }

    /// How many of its requests have gone, modulo 2^16.
    pub(super) const fn gone(&self) -> u16 {
        self.gone
    }

    /// For how many of its requests a slot may be kept.
    pub(super) const fn owed_soon(&self) -> u32 {
        self.owed_soon
    }
}

/// The clients, by number.
#[derive(Debug)]
pub(super) struct Clients {
    all: Vec<Client>,
    lanes: LaneSpace,
    /// Clients that have nothing waiting and whose next request is expected; and for how many of
    /// their requests a slot may be kept.
    expected: List,
    expected_links: Links,
    total_expected: u32,
    /// Interactive clients, in the order of their arrival.
    interactive: List,
    interactive_links: Links,
}

impl Clients {
    /// Room for this many clients and requests.
    pub(super) fn with_capacity(clients: u32, requests: u32) -> Clients {
        Clients {
            all: (0..clients).map(|_| Client::default()).collect(),
            lanes: LaneSpace::with_capacity(requests),
            expected: List::new(),
            expected_links: Links::with_capacity(clients),
            total_expected: 0,
            interactive: List::new(),
            interactive_links: Links::with_capacity(clients),
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, client: u32) -> &Client {
        &self.all[client as usize]
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, client: u32) -> &mut Client {
        &mut self.all[client as usize]
    }

    pub(super) fn all(&self) -> &[Client] {
        &self.all
    }

    /// The lanes of all clients.
    pub(super) const fn lanes(&self) -> &LaneSpace {
        &self.lanes
    }

    /// This number belongs to another client now, or to none.
    pub(super) fn reset(&mut self, client: u32) {
        self.all[client as usize] = Client::default();
    }

    /// Reads both cache lines of a client: one has its access patterns, the other its lane. The
    /// number means nothing.
    #[inline(always)]
    pub(super) fn touch(&self, client: u32) -> u64 {
        let own = self.at(client);
        let listed = self.interactive_links.contains(client);
        own.pattern.think + u64::from(own.lane.len()) + u64::from(listed)
    }

    /// A request arrives at its client's lane; `busy`: others of the client are here. Returns the
    /// client as it is then, and whether the request was expected.
    #[inline(always)]
    pub(super) fn arrive(
        &mut self,
        view: &mut QueueView,
        client: u32,
        request: RequestId,
        busy: bool,
        now: Nanos,
    ) -> (&Client, bool) {
        let own = &mut self.all[client as usize];
        let expected = own.pattern.is_expected(now);
        view.scratch_mut(request)[1] = u64::from(own.gone);
        own.pattern.arrived(now, view.request(request), busy);
        own.lane.insert(&mut self.lanes, view, request, now + AGE_MOST);
        (own, expected)
    }

    /// A request no longer waits, and if it was its client's only one, that interrupts no more; the
    /// list of expected clients is brought up to date by [`Clients::recount_expected`].
    pub(super) fn leave(&mut self, client: u32, request: RequestId) {
        self.all[client as usize].lane.remove(&mut self.lanes, request);
        self.set_interactive(client, false);
    }

    /// A waiting request goes to the device. Returns the client as it is then, and whether that was
    /// the last that waited.
    #[inline(always)]
    pub(super) fn dispatch(
        &mut self,
        client: u32,
        request: RequestId,
        end: u64,
    ) -> (&Client, bool) {
        let own = &mut self.all[client as usize];
        own.lane.remove(&mut self.lanes, request);
        own.head = end;
        own.gone = own.gone.wrapping_add(1);
        (own, own.lane.is_empty())
    }

    /// A waiting request has a new first sector.
    pub(super) fn resort(&mut self, view: &QueueView, client: u32, request: RequestId) {
        self.all[client as usize].lane.resort(&mut self.lanes, view, request);
    }

    /// A waiting request has become part of another of its client, which thus had two.
    pub(super) fn absorb(
        &mut self,
        view: &mut QueueView,
        client: u32,
        survivor: RequestId,
        gone: RequestId,
    ) {
        let own = &mut self.all[client as usize];
        if own.passed(view, gone) > own.passed(view, survivor) {
            view.scratch_mut(survivor)[1] = view.request(gone).scratch()[1];
        }
        own.lane.absorb(&mut self.lanes, view, survivor, gone);
        self.set_interactive(client, false);
    }

    /// A client's waiting requests with their sectors, in this order.
    pub(super) fn waiting_of(&self, client: u32) -> impl Iterator<Item = (RequestId, u64)> + '_ {
        let first = self.at(client).lane.from_sector(&self.lanes, 0);
        let all = core::iter::successors(first, |&request| self.lanes.latter(request));
        all.map(|request| (request, self.lanes.sector(request)))
    }

    /// The client's next request: the first from its last position on, unless one is too old (S9).
    #[inline]
    pub(super) fn next_of(&self, view: &QueueView, client: u32, now: Nanos) -> RequestId {
        self.next_from(view, client, self.at(client).head, now)
    }

    /// The client's next request from `head` on.
    #[inline]
    pub(super) fn next_from(
        &self,
        view: &QueueView,
        client: u32,
        head: u64,
        now: Nanos,
    ) -> RequestId {
        let own = self.at(client);
        if own.lane.len() == 1 {
            // Whether or not it is late, ahead or behind.
            return own.lane.first().unwrap_or(RequestId::from_index(0));
        }
        let late = own.lane.deadline(view).is_some_and(|deadline| deadline <= now);
        if late && let Some(aged) = own.aged(view) {
            return aged;
        }
        let found = own.lane.from_sector(&self.lanes, head).or_else(|| own.lane.first());
        // A client in an order has a request waiting (account I1).
        found.unwrap_or(RequestId::from_index(0))
    }

    /// R1: what the end of a request says about its client: `latency` is how long it was in the
    /// device, and the least time of its sort; the client is waited for if it thinks for no longer
    /// than `limit`. Returns until when its next request is expected; and whether it is missed from
    /// now on, if that has changed or may have: see [`Clients::miss`].
    #[inline(always)]
    pub(super) fn ended(
        &mut self,
        client: u32,
        now: Nanos,
        latency: [u64; 2],
        took: u64,
        limit: u64,
    ) -> (Nanos, Option<bool>) {
        let own = &mut self.all[client as usize];
        let [latency, least] = latency;
        own.pattern.ended(now, latency, took, limit);
        own.pattern.compare(latency, least);
        let comes = own.pattern.expected > 0;
        let until = if comes { own.pattern.window } else { Nanos::ZERO };
        let (was_missed, is_missed) = (own.is_missed, comes && own.lane.is_empty());
        (until, (was_missed || is_missed).then_some(is_missed))
    }

    /// The expectation of a client, or the number of its waiting requests, has changed.
    #[inline(never)]
    pub(super) fn recount_expected(&mut self, client: u32) {
        let own = self.at(client);
        let comes = own.pattern.expected > 0 && own.lane.is_empty();
        if comes || own.is_missed {
            self.miss(client, comes);
        }
    }

    /// A client asks, and has to sleep for a request; `busy`: others of it are in the device or
    /// wait.
    pub(super) fn falls_asleep(&mut self, client: u32, now: Nanos, busy: bool) {
        self.at_mut(client).pattern.falls_asleep(now, busy);
        self.recount_expected(client);
    }

    /// Sets whether a client has nothing waiting and is about to ask.
    #[inline(always)]
    pub(super) fn miss(&mut self, client: u32, comes: bool) {
        let own = &mut self.all[client as usize];
        let was = replace(&mut own.is_missed, comes);
        let owed = if comes { own.pattern.expected_soon() } else { 0 };
        self.total_expected = self.total_expected + owed - replace(&mut own.owed_soon, owed);
        if comes && !was {
            self.expected.push_back(&mut self.expected_links, client);
        } else if was && !comes {
            self.expected.remove(&mut self.expected_links, client);
        }
    }

    /// A client is here, and missed no more: as an interactive client, or not as one.
    #[inline(always)]
    pub(super) fn is_here(&mut self, client: u32, is_interactive: bool) {
        let own = self.at(client);
        let was_missed = own.is_missed;
        if own.is_interactive != is_interactive {
            self.add_or_remove_interactive(client, is_interactive);
        }
        if was_missed {
            self.miss(client, false);
        }
    }

    /// The window in which a client was expected is over.
    pub(super) fn expect_no_more(&mut self, client: u32) {
        self.at_mut(client).pattern.expected = 0;
        self.recount_expected(client);
    }

    /// For how many requests a slot may be kept.
    #[inline(always)]
    pub(super) const fn total_expected(&self) -> u32 {
        self.total_expected
    }

    /// Of the first [`LOOKS_MOST`] expected clients those whose windows are over are expected no
    /// more.
    #[inline(never)]
    pub(super) fn expire(&mut self, now: Nanos) {
        let mut next = self.expected.first();
        for _ in 0..LOOKS_MOST {
            let Some(client) = next else { break };
            next = self.expected_links.next(client);
            if !self.at(client).pattern.is_expected(now) {
                self.expect_no_more(client);
            }
        }
    }

    /// The client that has been expected longest.
    #[inline(always)]
    pub(super) fn first_expected(&self) -> Option<u32> {
        self.expected.first()
    }

    /// The client that has been expected longest since this one.
    #[inline(always)]
    pub(super) fn next_expected(&self, client: u32) -> Option<u32> {
        self.expected_links.next(client)
    }

    /// The expected clients, the first that was expected first.
    pub(super) fn expected(&self) -> impl Iterator<Item = u32> + '_ {
        self.expected.iter(&self.expected_links)
    }

    /// The earliest time until which a member of a shared stream is expected, and which. O(expected
    /// clients); called only when all waiting clients are held back.
    pub(super) fn hindmost_come(&self, now: Nanos) -> Option<(Nanos, u32)> {
        let together = self.expected().filter(|&client| self.at(client).is_together);
        let come = together.filter(|&client| self.at(client).pattern.is_expected(now));
        come.map(|client| (self.at(client).pattern.window, client)).min()
    }

    /// A client becomes an interactive client, or stops being one.
    #[inline]
    pub(super) fn set_interactive(&mut self, client: u32, is_interactive: bool) {
        if self.at(client).is_interactive != is_interactive {
            self.add_or_remove_interactive(client, is_interactive);
        }
    }

    #[inline(never)]
    fn add_or_remove_interactive(&mut self, client: u32, is_interactive: bool) {
        self.at_mut(client).is_interactive = is_interactive;
        if is_interactive {
            self.interactive.push_back(&mut self.interactive_links, client);
        } else {
            self.interactive.remove(&mut self.interactive_links, client);
        }
    }

    /// The interactive client that has been here longest.
    pub(super) fn first_interactive(&self) -> Option<u32> {
        self.interactive.first()
    }

    /// Verifies I1 and I2. O(n).
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let mut owed = 0;
        for (own, client) in self.all.iter().zip(0u32..) {
            let comes = own.pattern.expected > 0 && own.lane.is_empty();
            owed += if comes { own.pattern.expected_soon() } else { 0 };
            if self.expected_links.contains(client) != comes {
                return Err("clients I1: a client is expected and not listed, or the other way");
            }
            if self.interactive_links.contains(client) != own.is_interactive {
                return Err("clients I2: a client is interactive and not listed, or the other way");
            }
        }
        if owed != self.total_expected {
            return Err("clients I1: more or fewer requests are owed than are known");
        }
        self.expected.check(&self.expected_links)?;
        self.interactive.check(&self.interactive_links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that has asked four times, 20 us after each answer, and is expected again.
    fn expected(clients: &mut Clients, client: u32) -> Nanos {
        let mut now = Nanos::from_micros(1000);
        for _ in 0..5 {
            clients.at_mut(client).pattern.arrived(now, &request(), false);
            clients.is_here(client, false);
            now += Nanos::from_micros(200);
            let (_, missed) = clients.ended(client, now, [200_000, 100_000], 200_000, 0);
            missed.into_iter().for_each(|is_missed| clients.miss(client, is_missed));
            now += Nanos::from_micros(20);
        }
        now
    }

    fn request() -> paternoster_core::Request {
        use paternoster_core::{Bio, ClientId, Op, Request};
        Request::of(&Bio::new(ClientId::NOBODY, Op::Read, 800, 8), Nanos::ZERO)
    }

    /// Is a client that is about to ask listed until it is here, or until its window is over? One
    /// request of each may have a slot kept: they think for 20 us and their requests take 200.
    #[test]
    fn i1_who_is_expected_is_listed() {
        let mut clients = Clients::with_capacity(3, 4);
        let now = expected(&mut clients, 2);
        expected(&mut clients, 0);
        assert_eq!(clients.expected().collect::<Vec<u32>>(), [2, 0]);
        assert_eq!((clients.total_expected(), clients.check()), (2, Ok(())));
        clients.expire(now);
        assert_eq!((clients.first_expected(), clients.next_expected(2)), (Some(2), Some(0)));
        clients.miss(2, false);
        clients.at_mut(2).pattern.expected = 0;
        assert_eq!((clients.total_expected(), clients.check()), (1, Ok(())));
        clients.expire(now + Nanos::from_secs(1));
        assert_eq!((clients.total_expected(), clients.check()), (0, Ok(())));
    }

    /// Of the clients of shared streams, is the one found whose window ends first?
    #[test]
    fn the_hindmost_is_of_a_shared_stream() {
        let mut clients = Clients::with_capacity(2, 4);
        let now = expected(&mut clients, 0);
        expected(&mut clients, 1);
        assert_eq!(clients.hindmost_come(now), None);
        clients.at_mut(1).is_together = true;
        let until = clients.at(1).pattern.window;
        assert_eq!(clients.hindmost_come(now), Some((until, 1)));
        assert_eq!(clients.hindmost_come(until), None);
    }

    /// Do interactive clients come in the order of their arrival, each once?
    #[test]
    fn i2_interactive_clients_are_listed_once() {
        let mut clients = Clients::with_capacity(3, 4);
        for client in [1, 0, 1] {
            clients.set_interactive(client, true);
        }
        assert_eq!((clients.first_interactive(), clients.check()), (Some(1), Ok(())));
        clients.set_interactive(1, false);
        clients.set_interactive(2, false);
        assert_eq!((clients.first_interactive(), clients.check()), (Some(0), Ok(())));
    }
}
