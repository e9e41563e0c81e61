// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is what a live server decided decided again, identically, from its record?

use paternoster_serve::control::order::Order;
use paternoster_serve::decisions;
use paternoster_serve::host::activation::Inherited;
use paternoster_serve::host::listen;
use paternoster_serve::server::{Options, Server};

use crate::common::client::{FLUSH, READ, WRITE};
use crate::common::{Client, Folder, config, device, tenant};

#[test]
fn a_record_of_a_live_server_replays_to_the_same_order() {
    let folder = Folder::in_memory("recorded");
    let file = folder.file("disk", 4 << 20);
    let mut config = config(&folder, device("bfq", &[("disk", &file)]));
    config.tenants = vec![tenant("disk", 100)];
    let sockets = listen::open(&config.server, &mut Inherited::default(), None).unwrap();
    let prefix = folder.path("run");
    let options = Options { decisions: Some(prefix), ..Options::default() };
    let server = Server::start(config, options, sockets).unwrap();
    let socket = folder.path("nbd.sock");
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            let socket = &socket;
            scope.spawn(move || {
                let mut client = Client::connect(socket, "disk").unwrap();
                for round in 0..40u64 {
                    let at = (round * 65_536 + number * 4096) % (3 << 20);
                    client.send(READ, 0, at, 16_384, &[]).unwrap();
                    client.send(WRITE, 0, at, 4096, &[7; 4096]).unwrap();
                    if round % 10 == 0 {
                        client.send(FLUSH, 0, 0, 0, &[]).unwrap();
                        client.told().unwrap();
                    }
                    client.told().unwrap();
                    client.told().unwrap();
                }
            });
        }
        for weight in [50, 500] {
            server.device_loops()[0].ask(Order::Weight { name: "disk".into(), weight }).unwrap();
        }
        server.device_loops()[0].ask(Order::Scheduler { name: "mq-deadline".into() }).unwrap();
    });
    server.stop();
    server.wait().unwrap();
    let record = std::fs::File::open(folder.path("run.dev.decisions")).unwrap();
    let replayed = decisions::replay(record).expect("identical, call for call");
    // 120 reads and 120 writes, some merged; not fewer than half of them.
    assert!(replayed.commands >= 120, "{replayed:?}");
}
