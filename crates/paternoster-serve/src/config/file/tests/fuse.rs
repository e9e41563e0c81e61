// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section `[server.fuse]`: what it parses to, and the messages for a wrong one.

use super::*;

/// Do files need no socket, and get the values that are set, with defaults for the rest?
#[test]
fn volumes_as_files() {
    let with = |server: &str| sound(&format!("[server]\n{server}\n[volume.a]\npath = '/f'\n"));
    let least = with("[server.fuse]\nmount = '/m'").server;
    assert_eq!((least.listen.len(), least.fuse), (0, Some(Fuse::new("/m".into()))));
    let both = with("listen = 'unix:/s'\nfuse.mount = '/m'").server;
    assert_eq!((both.listen.len(), both.fuse.is_some()), (1, true));
    let all = with(
        "listen = []
        [server.fuse]
        mount = '/m'
        cgroups = '/sys/fs/cgroup'
        realtime = ['root', 1_000, '54321', 0x10]
        allow-other = true
        processes = 0",
    );
    let expected = Fuse {
        mount: "/m".into(),
        cgroups: Some("/sys/fs/cgroup".into()),
        realtime: vec![0, 1000, 54321, 16],
        allow_other: true,
        processes: 0,
    };
    assert_eq!(all.server.fuse, Some(expected));
    let nobody = with("fuse = { mount = '/m', realtime = [] }").server.fuse.unwrap();
    assert!(nobody.realtime.is_empty());
}

/// Are mistakes about files reported with the line and what would be right?
#[test]
fn refusals_of_files() {
    for (line, expected) in [
        ("fuse = {}", "`server.fuse.mount` is missing: `mount = \"/run/paternoster/disks\"`, an"),
        ("fuse = '/m'", "`server.fuse` cannot be `'/m'`: a section, `[server.fuse]`"),
        ("fuse = { mount = '' }", "`server.fuse.mount` cannot be `''`: a path of printable"),
        (
            "fuse = { mount = '/m', proceses = 1 }",
            "`server.fuse.proceses` is not known here; did you mean `processes`? Known are mount,",
        ),
        (
            "fuse = { mount = '/m', processes = 65537 }",
            "`server.fuse.processes` cannot be `65537`: a whole number from 0 to 65536",
        ),
        (
            "fuse = { mount = '/m', allow-other = 1 }",
            "`server.fuse.allow-other` cannot be `1`: true or false",
        ),
        (
            "fuse = { mount = '/m', realtime = 'root' }",
            "`server.fuse.realtime` cannot be `'root'`: names of users or their numbers, as",
        ),
        (
            "fuse = { mount = '/m', realtime = [-1] }",
            "`server.fuse.realtime` cannot be `[-1]`: names of users or their numbers, as",
        ),
        (
            "fuse = { mount = '/m', realtime = ['root', 'no-such-user'] }",
            "`server.fuse.realtime` cannot be `['root', 'no-such-user']`: user no-such-user: there \
             is no such user; a name or a number",
        ),
        (
            "fuse = { mount = '/srv' }",
            "`server.fuse.mount` cannot be `'/srv'`: the volume `vm1` would be in it",
        ),
    ] {
        let message = refusal("connections = 16", line);
        assert!(message.starts_with(&format!("serve.toml:3: {expected}")), "{line}\n{message}");
    }
    let slash = SMALL.replace("connections = 16", "fuse.mount = '/m'");
    let slash = slash.replace("[volume.vm1]", "[volume.'a/b']");
    let message = Config::parse("serve.toml", &slash).unwrap_err().to_string();
    let expected = "serve.toml:12: `volume.a/b`: with `[server.fuse]` it is the name of a file";
    assert!(message.starts_with(expected), "{message}");
    let message = refusal("connections = 16", "user = 'root'\nsandbox = false\nfuse.mount = '/m'");
    let expected = "serve.toml:3: `server.user` cannot be `'root'`: a server that becomes another";
    assert!(message.starts_with(expected), "{message}");
    let message = refusal("\"unix:/run/nbd.sock\"", "[]");
    let expected = "serve.toml:2: `server.listen` cannot be `[]`: `\"unix:/PATH\"`, ";
    assert!(message.starts_with(expected), "{message}");
}

/// Is a missing folder refused, with how to make it?
#[test]
fn folders_of_files() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let look = |mount: &Path, cgroups: Option<&Path>| {
        let cgroups = cgroups.map(Path::to_owned);
        let fuse = Fuse { cgroups, ..Fuse::new(mount.to_owned()) };
        fuse.look().map_err(|complaint| complaint.to_string())
    };
    assert_eq!(look(here, None), Ok(()));
    assert_eq!(look(here, Some(here)), Ok(()));
    let missing = Path::new("/nowhere/at/all");
    assert_eq!(
        look(missing, None).unwrap_err(),
        "`server.fuse.mount` cannot be `/nowhere/at/all`: there is no such folder; make it first: \
         `mkdir -p /nowhere/at/all`"
    );
    assert!(look(here, Some(missing)).unwrap_err().contains("`/sys/fs/cgroup` nearly everywhere"));
    let file = here.join("Cargo.toml");
    assert!(look(&file, None).unwrap_err().ends_with("it is not a folder"));
}
