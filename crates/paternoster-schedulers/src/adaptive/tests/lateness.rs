// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lateness: which of a client's own requests goes next, by sector or by age (S9).

use super::*;
use crate::adaptive::clients::Clients;
use paternoster_core::{Limits, QueueView};

/// A client with an old request behind its position and always so many ahead of it: how many of the
/// latter go, 600 ms after the old one came, before that goes?
fn passed_over(rotational: bool, ahead: u64) -> u64 {
    let facts = DeviceFacts { rotational, ..DeviceFacts::default() };
    let mut view = QueueView::alone(facts, Limits::default());
    let client = view.add_client(ClientSpec::new());
    let mut clients = Clients::with_capacity(client.index() + 1, 64);
    let arrive = |clients: &mut Clients, view: &mut QueueView, sector, at| {
        let request = view.add_request(&Bio::new(client, Op::Read, sector, 8), at);
        clients.arrive(view, client.index(), request, true, at);
        request
    };
    let old = arrive(&mut clients, &mut view, 8, ms(0));
    clients.at_mut(client.index()).head = 1000;
    for sector in (0..ahead - 1).map(|nth| 1000 + 16 * nth) {
        arrive(&mut clients, &mut view, sector, ms(600));
    }
    for passed in 0..32 {
        arrive(&mut clients, &mut view, 1000 + 16 * (ahead - 1 + passed), ms(600));
        let next = clients.next_of(&view, client.index(), ms(600));
        if next == old {
            return passed;
        }
        let end = view.request(next).sector() + 8;
        clients.dispatch(client.index(), next, end);
    }
    panic!("it was passed over by 32");
}

/// S9: six wait. On a disk more than 2 * 6 have to go first; where there are no seeks none does,
/// nor where four wait, of which the order saves little. Of five it is more than 10.
#[test]
fn s9_a_late_request_goes_once_a_sweep_would_have_come_to_it() {
    assert_eq!([3, 4, 5].map(|ahead| passed_over(true, ahead)), [0, 11, 13]);
    assert_eq!([3, 4, 5].map(|ahead| passed_over(false, ahead)), [0; 3]);
}
