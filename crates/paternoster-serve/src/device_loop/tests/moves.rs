// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that belong to another tenant after a reload.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use crate::config::{Config, Identity, Rule, Who};
use crate::device_loop::reload::{Reload, Step};
use crate::device_loop::rig::{READ, Rig};

/// Reads the same configuration again, with a rule that puts all clients into this tenant.
fn reload(rig: &mut Rig, config: &Config, tenant: &str) {
    let rules = vec![Rule { who: Who::default(), tenant: tenant.to_owned() }];
    let config = Arc::new(Config { rules, ..config.clone() });
    let (answer, answers) = channel();
    let step = Step::Take(Box::default(), answer);
    rig.device_loop.reload(Reload { config, device: 0, step });
    let taken = answers.recv().expect("an answer").expect("it is taken over");
    assert_eq!(taken.later, Vec::<String>::new());
}

/// Does a client that is to move to another tenant stay with its old one until its requests have
/// ended, is nothing read from it meanwhile, and does the old tenant keep nothing of it? Three
/// reads are in the device, a fourth comes after the reload.
#[test]
fn a_client_moves_between_requests() {
    let mut config = Config::default();
    let mut rig = Rig::new("bfq", |made| config = made.clone());
    let mut client = rig.connect("old");
    rig.settle();
    let (index, _) = rig.device_loop.connections.iter().next().expect("a connection");
    let identity = Identity { export: "disk".to_owned(), ..Identity::default() };
    rig.device_loop.connections.at_mut(index).identity = Some(identity);
    let old = rig.device_loop.connections.at(index).tenant;
    rig.holds.store(true, Ordering::SeqCst);
    // Apart, so that they are not merged.
    for place in 0..3 {
        client.send(READ, place << 20, 4096, &[]);
    }
    rig.settle();
    assert_eq!(rig.commands.load(Ordering::SeqCst), 3);
    reload(&mut rig, &config, "new");
    client.send(READ, 3 << 20, 4096, &[]);
    rig.settle();
    assert_eq!(rig.device_loop.connections.at(index).tenant, old, "its reads are under way");
    assert_eq!(rig.commands.load(Ordering::SeqCst), 3, "it is not read from");
    rig.holds.store(false, Ordering::SeqCst);
    rig.settle();
    let answers: Vec<(u64, u32)> = client.answers();
    assert_eq!(answers.iter().filter(|(_, errno)| *errno == 0).count(), 4, "{answers:?}");
    let tenant = rig.device_loop.connections.at(index).tenant;
    assert_eq!(rig.device_loop.tenants.at(tenant).name, "new");
    assert!(rig.device_loop.tenants.find("old").is_none(), "nobody is there any more");
    assert_eq!(rig.device_loop.shared.held(old), [0; 3]);
}
