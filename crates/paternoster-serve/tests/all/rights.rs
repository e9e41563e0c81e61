// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights over real sockets: by user, for reading only, and so many clients at a time.

use paternoster_serve::config::{Config, Who};

use crate::common::client::{Client, FLUSH, READ, TRIM, WRITE, ZEROES};
use crate::common::disk::setting;
use crate::common::watch::until_quiet;
use crate::common::{Folder, end, start, volume};

const EPERM: u32 = 1;

fn ours() -> Who {
    Who { uid: Some(rustix::process::getuid().as_raw()), ..Who::default() }
}

/// `disk`, and `other` beside it that the change is about.
fn two(name: &str) -> (Folder, Config) {
    let (folder, mut config) = setting(name);
    let path = folder.file("other.img", 1 << 20);
    config.devices[0].volumes.push(volume("other", &path));
    (folder, config)
}

/// Does a volume of another user not exist for us, while ours does?
#[test]
fn a_volume_of_another_user() {
    let (folder, mut config) = two("rights-uid");
    config.devices[0].volumes[0].rights.allow = Some(vec![ours()]);
    let other = Who { uid: Some(ours().uid.unwrap() + 1), ..Who::default() };
    config.devices[0].volumes[1].rights.allow = Some(vec![other]);
    let server = start(config);
    let socket = folder.path("nbd.sock");
    Client::connect(&socket, "disk").unwrap();
    let refusal = |name| Client::negotiate(&socket, name, false).unwrap_err().to_string();
    // 2^31 + 2: NBD_REP_ERR_POLICY.
    let expected = "refused with 0x80000002: no export \"other\" is open to you; nbdinfo --list \
                    shows those";
    assert_eq!(refusal("other"), expected);
    assert_eq!(refusal("nothing"), expected.replace("other", "nothing"));
    end(&server);
}

/// Are a client's writes refused that may only read, and is it told so?
#[test]
fn reading_only() {
    let (folder, mut config) = two("rights-readonly");
    config.devices[0].volumes[1].rights.readonly_for = vec![ours()];
    let server = start(config);
    let mut client = Client::connect(&folder.path("nbd.sock"), "other").unwrap();
    // Flag 1 of the export's flags is READ_ONLY.
    assert_eq!(client.flags & 2, 2);
    for kind in [WRITE, ZEROES, TRIM] {
        let payload: &[u8] = if kind == WRITE { &[1; 512] } else { &[] };
        client.send(kind, 0, 0, 512, payload).unwrap();
        assert_eq!(client.told().unwrap().errno, EPERM, "{kind}");
    }
    for (kind, length) in [(READ, 512), (FLUSH, 0)] {
        client.send(kind, 0, 0, length, &[]).unwrap();
        assert_eq!(client.told().unwrap().errno, 0, "{kind}");
    }
    let writer = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    assert_eq!(writer.flags & 2, 0);
    end(&server);
}

/// May a client come when another has gone, where only one may have a volume open?
#[test]
fn one_at_a_time() {
    let (folder, mut config) = two("rights-most");
    config.devices[0].volumes[1].rights.most_clients = Some(1);
    let server = start(config);
    let socket = folder.path("nbd.sock");
    let first = Client::connect(&socket, "other").unwrap();
    let refusal = Client::connect(&socket, "other").unwrap_err().to_string();
    assert!(refusal.contains("`most-clients` is 1"), "{refusal}");
    Client::connect(&socket, "disk").unwrap();
    drop(first);
    // It counts until the loop has seen it off.
    until_quiet(&server, 0);
    Client::connect(&socket, "other").unwrap();
    end(&server);
}
