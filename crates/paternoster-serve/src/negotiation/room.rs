// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room: which client in handshake must go when all places, or all seats, are taken and another
//! client comes.
//!
//! The user or address that has most clients in handshake makes room: its oldest goes, a silent one
//! first. For a new client of its own, one goes only if it had a second to speak. So a crowd keeps
//! others out for no longer than a call takes, and a client that speaks is not displaced by the
//! next one that does not.

use std::collections::HashMap;

use paternoster_core::Nanos;

use crate::host::peer::Origin;

/// How long a client in handshake is safe from new clients of its own user or address.
const AGE: Nanos = Nanos::from_secs(1);

/// A client in handshake: what is needed to choose which one goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stands {
    pub(super) place: u32,
    pub(super) origin: Origin,
    pub(super) is_silent: bool,
    pub(super) came: Nanos,
}

/// Which client in handshake goes for one of origin `newcomer`: of the origin with most clients,
/// the oldest silent one, or else the oldest. One of the newcomer's own origin goes only if it has
/// had [`AGE`] to speak.
pub(super) fn to_go(in_handshake: &[Stands], newcomer: Origin, now: Nanos) -> Option<u32> {
    let mut counts: HashMap<Origin, u32> = HashMap::new();
    for in_handshake in in_handshake {
        *counts.entry(in_handshake.origin).or_default() += 1;
    }
    // Among origins with equally many, the newcomer's own comes last; the others by their order,
    // not in hash order.
    let greediest = counts
        .iter()
        .max_by_key(|&(&origin, &count)| (count, origin != newcomer, std::cmp::Reverse(origin)));
    let greediest = *greediest?.0;
    in_handshake
        .iter()
        .filter(|in_handshake| in_handshake.origin == greediest)
        .filter(|in_handshake| greediest != newcomer || in_handshake.came + AGE <= now)
        .min_by_key(|in_handshake| (!in_handshake.is_silent, in_handshake.came))
        .map(|in_handshake| in_handshake.place)
}

/// Which client in handshake gives its seat to one of origin `newcomer` when all are taken: the one
/// that would go, if its origin has at least two clients more than the newcomer's, or if it was
/// silent for its time.
pub(super) fn for_seat(in_handshake: &[Stands], newcomer: Origin, now: Nanos) -> Option<u32> {
    let goes = to_go(in_handshake, newcomer, now)?;
    let gone = in_handshake.iter().find(|in_handshake| in_handshake.place == goes)?;
    let of =
        |origin| in_handshake.iter().filter(|in_handshake| in_handshake.origin == origin).count();
    let has_most = of(gone.origin) > of(newcomer) + 1;
    (has_most || gone.is_silent && gone.came + AGE <= now).then_some(goes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u32, origin: Origin, is_silent: bool, ms: u64) -> Stands {
        Stands { place, origin, is_silent, came: Nanos::from_millis(ms) }
    }

    /// Which user makes room? One with 3 of 4 clients, one of which has spoken. For another user
    /// its oldest silent client goes, however new it is; for its own, only a client that is a
    /// second old.
    #[test]
    fn the_greediest_makes_room() {
        let (crowd, other, third) = (Origin::User(1), Origin::User(2), Origin::User(3));
        let in_handshake = [
            at(0, crowd, false, 0),
            at(1, crowd, true, 200),
            at(2, crowd, true, 100),
            at(3, other, true, 0),
        ];
        let goes = |newcomer, ms| to_go(&in_handshake, newcomer, Nanos::from_millis(ms));
        assert_eq!(goes(third, 300), Some(2));
        assert_eq!(goes(other, 300), Some(2));
        assert_eq!(goes(crowd, 300), None);
        assert_eq!(goes(crowd, 1000), Some(0), "it has spoken, and is the only one of that age");
        assert_eq!(goes(crowd, 1100), Some(2));
        // If two users have equally many, the other user's client goes.
        let two = [at(0, crowd, true, 0), at(1, other, true, 0)];
        assert_eq!(to_go(&two, crowd, Nanos::ZERO), Some(1));
    }

    /// Which client has to give up its seat? One of a crowd, at once; the only client of another
    /// user only after a second of silence: otherwise a crowd that has all seats would drive away
    /// each one that comes.
    #[test]
    fn a_single_one_keeps_its_seat() {
        let (crowd, other) = (Origin::User(1), Origin::User(2));
        let gives = |in_handshake: &[Stands], newcomer, ms| {
            for_seat(in_handshake, newcomer, Nanos::from_millis(ms))
        };
        let two = [at(0, crowd, true, 0), at(1, crowd, true, 1)];
        assert_eq!(gives(&two, other, 2), Some(0));
        let one = [at(7, other, true, 0)];
        assert_eq!(gives(&one, crowd, 999), None);
        assert_eq!(gives(&one, crowd, 1000), Some(7));
        assert_eq!(gives(&[at(7, other, false, 0)], crowd, 5000), None, "it has spoken");
    }

    /// Does a newcomer always find a place in another user's crowd, and keep it once it has spoken,
    /// as long as others of the crowd are silent? 1024 places, 10,000 newcomers of the crowd.
    #[test]
    fn a_crowd_locks_no_one_out() {
        let (crowd, other) = (Origin::Address([10, 0, 0, 1].into()), Origin::User(2));
        let mut in_handshake: Vec<Stands> = (0..1024).map(|n| at(n, crowd, true, 0)).collect();
        let mut come = |origin, ms| {
            let now = Nanos::from_millis(ms);
            let goes = to_go(&in_handshake, origin, now)?;
            in_handshake[goes as usize] = at(goes, origin, origin != other, ms);
            Some(goes)
        };
        let place = come(other, 1).expect("it finds a place at once");
        for ms in 2..10_000 {
            assert_ne!(come(crowd, ms), Some(place), "after {ms} ms");
        }
    }
}
