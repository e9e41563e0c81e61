// SPDX-License-Identifier: MIT OR Apache-2.0
//! libnbd under Python: requests that no tool sends, above all illegal ones.
//!
//! Requests and expectations are in the scripts next to this file; here are the servers that they
//! speak to, and what must be in the files afterwards.

use paternoster_serve::config::Config;

use super::tools::{script, succeeds, tool, uri};
use crate::common::{Folder, config, device, end, start};

const SIZE: u64 = 4 << 20;

/// A volume that may be written and one that may not.
fn two_volumes(folder: &Folder, scheduler: &str) -> Config {
    let (disk, fixed) = (folder.file("disk", SIZE), folder.file("fixed", 1 << 20));
    let mut device = device(scheduler, &[("disk", &disk), ("fixed", &fixed)]);
    device.volumes[0].description = "to write on".into();
    device.volumes[1].readonly = true;
    config(folder, device)
}

fn script_speaks_to(name: &str, scheduler: &str) {
    let Some(mut script) = script(name) else { return };
    let folder = Folder::in_memory(name);
    let server = start(two_volumes(&folder, scheduler));
    let socket = folder.path("nbd.sock");
    succeeds(script.arg(&socket).arg(folder.path("disk")));
    end(&server);
    assert!(std::fs::read(folder.path("fixed")).unwrap().iter().all(|byte| *byte == 0));
}

/// Is every illegal request refused with the error that the protocol names, in chunks and without,
/// and does the connection go on, and another client not notice?
#[test]
fn illegal_requests_are_refused() {
    script_speaks_to("illegal.py", "bfq");
}

/// Does every command with every flag do what it should, in chunks and without?
#[test]
fn commands_and_flags() {
    script_speaks_to("commands.py", "mq-deadline");
}

/// Options in any order, names that are not there, handshakes without the newer flags, ABORT?
#[test]
fn options_in_any_order() {
    script_speaks_to("options.py", "noop");
}

/// Does a flush on one connection cover what was written on all, and do hundreds of requests on
/// several connections at a time each get their own answer?
#[test]
fn several_connections() {
    script_speaks_to("several.py", "bfq");
}

/// Does the shell of libnbd itself get in?
#[test]
fn nbdsh_gets_in() {
    let Some(mut nbdsh) = tool("nbdsh", "python3-libnbd") else { return };
    if script("commands.py").is_none() {
        return;
    }
    let folder = Folder::in_memory("nbdsh");
    let server = start(two_volumes(&folder, "kyber"));
    // Debian's shell takes whichever python3 comes first: Debian's has the module.
    nbdsh.env("PATH", "/usr/bin:/bin");
    let uri = uri("disk", &folder.path("nbd.sock"));
    let told = succeeds(nbdsh.args(["-u", &uri, "-c", "print(h.get_size())"]));
    assert_eq!(told.trim(), SIZE.to_string());
    end(&server);
}
