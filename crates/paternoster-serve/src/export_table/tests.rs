// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the export table: does a client see, and can it open, exactly what the table says?

use proptest::prelude::*;

use super::*;
use crate::config::{Device, Server, Tls, TlsMode, Volume, Who};
use crate::device_loop::inbox::inbox;
use crate::nbd::{Handshake, Step};

const LIST: u32 = 3;
const EXPORT_NAME: u32 = 1;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED: u32 = 8;
const SET_META: u32 = 10;
const ACK: u32 = 1;
const ERR_POLICY: u32 = (1 << 31) + 2;
const ERR_UNKNOWN: u32 = (1 << 31) + 6;
const READ_ONLY: u16 = 2;

/// A client, as the test draws it.
#[derive(Debug, Clone)]
enum Drawn {
    /// User, group, other groups if known, cgroup if known.
    Unix(u32, u32, Option<Vec<u32>>, Option<&'static str>),
    /// Address, its bits, the certificate's name, whether clients must show one.
    Tcp(&'static str, Option<&'static str>, bool),
}

impl Drawn {
    fn identity(&self) -> Identity {
        match self.clone() {
            Drawn::Unix(uid, gid, groups, cgroup) => Identity {
                uid: Some(uid),
                gid: Some(gid),
                groups,
                pid: Some(1),
                cgroup: cgroup.map(str::to_owned),
                ..Identity::default()
            },
            Drawn::Tcp(address, certificate, is_asked_for_name) => Identity {
                address: Some(address.parse().unwrap()),
                certificate: certificate.map(str::to_owned),
                is_asked_for_name,
                ..Identity::default()
            },
        }
    }
}

/// Addresses as text, and an address's bits; for an IPv4 address in IPv6 form, those of IPv4.
const ADDRESSES: [&str; 5] = ["10.1.2.3", "::ffff:10.1.2.3", "192.168.0.1", "fd00::7", "::1"];

fn bits(address: &str) -> String {
    let address: std::net::IpAddr = address.trim_start_matches("::ffff:").parse().unwrap();
    match address {
        std::net::IpAddr::V4(v4) => format!("4{:032b}", u32::from(v4)),
        std::net::IpAddr::V6(v6) => format!("6{:0128b}", u128::from(v6)),
    }
}

/// The plain meaning of a pattern.
fn means(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=text.len()).any(|skip| means(rest, &text[skip..])),
        (Some((b'?', rest)), Some((_, tail))) => means(rest, tail),
        (Some((one, rest)), Some((other, tail))) => one == other && means(rest, tail),
        _ => false,
    }
}

/// Whether an entry matches, condition by condition; `None`: unknown.
fn entry_matches(entry: &Who, drawn: &Drawn) -> Vec<Option<bool>> {
    let like = |pattern: &str, text: &str| means(pattern.as_bytes(), text.as_bytes());
    let mut all = Vec::new();
    if let Some(uid) = entry.uid {
        all.push(Some(matches!(drawn, Drawn::Unix(is, ..) if *is == uid)));
    }
    if let Some(gid) = entry.gid {
        all.push(match drawn {
            Drawn::Unix(_, is, ..) if *is == gid => Some(true),
            Drawn::Unix(_, _, groups, _) => groups.as_ref().map(|all| all.contains(&gid)),
            Drawn::Tcp(..) => Some(false),
        });
    }
    if let Some(pattern) = &entry.cgroup {
        all.push(match drawn {
            Drawn::Unix(_, _, _, cgroup) => cgroup.map(|cgroup| like(pattern, cgroup)),
            Drawn::Tcp(..) => Some(false),
        });
    }
    if let Some((network, length)) = entry.address {
        all.push(Some(match drawn {
            Drawn::Tcp(address, ..) => {
                let network = bits(&network.to_string());
                bits(address).starts_with(&network[..=usize::from(length)])
            }
            Drawn::Unix(..) => false,
        }));
    }
    if let Some(pattern) = &entry.certificate {
        let named = |name: &&str| !name.is_empty() && like(pattern, name);
        all.push(Some(match drawn {
            Drawn::Tcp(_, name, _) => name.as_ref().is_some_and(named),
            Drawn::Unix(..) => false,
        }));
    }
    all
}

/// The table: what a client may do with a volume; `Some(true)`: write.
fn due(rights: &Rights, volume: &str, drawn: &Drawn) -> Option<bool> {
    let restricted = rights
        .readonly_for
        .iter()
        .any(|entry| entry_matches(entry, drawn).iter().all(|is| *is != Some(false)));
    let allowed = match (&rights.allow, drawn) {
        (Some(entries), _) => entries
            .iter()
            .any(|entry| entry_matches(entry, drawn).iter().all(|is| *is == Some(true))),
        (None, Drawn::Tcp(_, name, true)) => *name == Some(volume),
        (None, _) => true,
    };
    match (restricted, allowed) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

fn entry() -> impl Strategy<Value = Who> {
    let addresses =
        ["10.0.0.0/8", "10.1.2.3/32", "0.0.0.0/0", "::/0", "fd00::/8", "192.168.0.0/31"];
    let network = proptest::sample::select(addresses.to_vec()).prop_map(|text| {
        let (address, length) = text.split_once('/').unwrap();
        (address.parse().unwrap(), length.parse().unwrap())
    });
    let cgroup = proptest::sample::select(vec!["/a", "/a/*", "/?", "*"]);
    let name = proptest::sample::select(vec!["v0", "v?", "*", "V0", "v1"]);
    let some = |strategy| proptest::option::weighted(0.3, strategy);
    (
        some((0..3u32).boxed()),
        some((0..3u32).boxed()),
        proptest::option::weighted(0.3, cgroup),
        proptest::option::weighted(0.3, network),
        proptest::option::weighted(0.3, name),
    )
        .prop_map(|(uid, gid, cgroup, address, certificate)| Who {
            uid,
            gid,
            cgroup: cgroup.map(str::to_owned),
            address,
            certificate: certificate.map(str::to_owned),
            ..Who::default()
        })
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let cgroup = proptest::sample::select(vec!["/", "/a", "/a/b", "/b", "/ab"]);
    let groups = proptest::option::of(proptest::collection::vec(0..3u32, 0..3));
    let unix = (0..3u32, 0..3u32, groups, proptest::option::of(cgroup))
        .prop_map(|(uid, gid, groups, cgroup)| Drawn::Unix(uid, gid, groups, cgroup));
    // A name may be a pattern, another case, empty, or have a NUL in it.
    let names = vec!["v0", "v1", "V0", "*", "v?", "", "v0\0", "v0.example"];
    let name = proptest::option::of(proptest::sample::select(names));
    let tcp = (proptest::sample::select(ADDRESSES.to_vec()), name, any::<bool>())
        .prop_map(|(address, name, asked)| Drawn::Tcp(address, name, asked));
    prop_oneof![unix, tcp]
}

fn rights() -> impl Strategy<Value = Rights> {
    let list = || proptest::collection::vec(entry(), 0..3);
    (proptest::option::of(list()), list()).prop_map(|(allow, readonly_for)| Rights {
        allow,
        readonly_for,
        most_clients: None,
    })
}

/// A server with these volumes, `v0` first; every second one is read-only for all clients.
fn house(rights: &[Rights]) -> (ExportTable, Arc<Config>) {
    let mut device = Device::new("disk");
    let (slot, _inbox) = inbox().unwrap();
    let mut export_table = ExportTable::default();
    for (number, rights) in rights.iter().enumerate() {
        let name = format!("v{number}");
        device.volumes.push(Volume { rights: rights.clone(), ..Volume::new(&*name, "/d") });
        let facts = ExportFacts {
            name,
            size: 1 << 20,
            readonly: number % 2 == 1,
            most: 1 << 20,
            ..ExportFacts::default()
        };
        export_table.add(vec![facts], &slot);
    }
    let config = Config { devices: vec![device], ..Config::default() };
    (export_table, Arc::new(config))
}

fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [&b"IHAVEOPT"[..], &code.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

/// The answers that a client gets, as kinds and data, and the next step.
fn told(
    (export_table, config): &(ExportTable, Arc<Config>),
    who: &Identity,
    options: &[Vec<u8>],
) -> (Vec<(u32, Vec<u8>)>, Step) {
    let open = OnceCell::new();
    let view = View::new(export_table, config, &open, || who.clone());
    let mut handshake = Handshake::new(TlsMode::Off, false);
    let mut out = Vec::new();
    let input = [vec![0, 0, 0, 3], options.concat()].concat();
    let (_, step) = handshake.take(&input, &view, &mut out);
    let (mut answers, mut rest) = (Vec::new(), &out[..]);
    while let Some((head, behind)) = rest
        .split_at_checked(20)
        .filter(|(head, _)| head.starts_with(&0x0003_e889_0455_65a9_u64.to_be_bytes()))
    {
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let length = usize::try_from(number(16)).unwrap();
        answers.push((number(12), behind[..length].to_vec()));
        rest = &behind[length..];
    }
    (answers, step)
}

/// What the last answer says, and whether INFO reported read-only.
fn outcome(answers: &[(u32, Vec<u8>)]) -> (u32, Option<bool>) {
    let info = answers.iter().find(|(kind, data)| *kind == 3 && data[..2] == [0, 0]);
    let flags = info.map(|(_, data)| u16::from_be_bytes([data[10], data[11]]));
    (answers.last().unwrap().0, flags.map(|flags| flags & READ_ONLY != 0))
}

proptest! {
    /// Does a client see and open exactly what the table says, whichever option it uses? Names in
    /// another case, with a NUL, or empty are no way round it.
    #[test]
    fn every_option_keeps_to_the_table(
        rights in proptest::collection::vec(rights(), 1..4),
        drawn in drawn(),
    ) {
        let (house, who) = (house(&rights), drawn.identity());
        let due = |place: usize| due(rights.get(place)?, &format!("v{place}"), &drawn);
        let open: Vec<usize> = (0..rights.len()).filter(|place| due(*place).is_some()).collect();
        let hidden = open.len() < rights.len();
        let (listed, _) = told(&house, &who, &[option(LIST, &[])]);
        let names: Vec<Vec<u8>> = listed.iter().filter(|(kind, _)| *kind == 2)
            .map(|(_, data)| data[4..].to_vec()).collect();
        let expected: Vec<Vec<u8>> =
            open.iter().map(|place| format!("v{place}").into_bytes()).collect();
        prop_assert_eq!(names, expected);
        let asked = [("", Some(0)), ("v0", Some(0)), ("v1", Some(1)), ("v2", Some(2)),
            ("V0", None), ("v0 ", None), ("*", None), ("v?", None), ("w", None)];
        for (name, place) in asked {
            let writes = place.and_then(due);
            let refused = if hidden { ERR_POLICY } else { ERR_UNKNOWN };
            let is_readonly =
                writes.map(|writes| !writes || place.is_some_and(|place| place % 2 == 1));
            let last = if writes.is_some() { ACK } else { refused };
            let wish = [string(name), vec![0, 0]].concat();
            for code in [INFO, GO] {
                let (answers, step) = told(&house, &who, &[option(code, &wish)]);
                prop_assert_eq!(outcome(&answers), (last, is_readonly), "{} {}", code, name);
                let chosen = match step {
                    Step::Chosen(chosen) => Some(chosen.facts.readonly),
                    _ => None,
                };
                prop_assert_eq!(chosen, is_readonly.filter(|_| code == GO), "{}", name);
                if writes.is_none() {
                    // The answer for another client's volume is the same, word for word, as for one
                    // that does not exist.
                    let absent = [string("w"), vec![0, 0]].concat();
                    let (other, _) = told(&house, &who, &[option(code, &absent)]);
                    let text = |answer: &(u32, Vec<u8>)| String::from_utf8_lossy(&answer.1)
                        .replace(&format!("{name:?}"), "NAME").replace("\"w\"", "NAME");
                    prop_assert!(answers.len() == 1 && other.len() == 1);
                    if hidden {
                        prop_assert_eq!(text(&answers[0]), text(&other[0]));
                    }
                }
            }
            let (_, step) = told(&house, &who, &[option(EXPORT_NAME, name.as_bytes())]);
            match (step, is_readonly) {
                (Step::Chosen(chosen), Some(readonly)) => {
                    prop_assert_eq!(chosen.facts.readonly, readonly);
                }
                (Step::Closed(why), None) => prop_assert!(!why.is_empty()),
                (step, due) => prop_assert!(false, "{} {:?} {:?}", name, step, due),
            }
            let contexts = [string(name), vec![0, 0, 0, 1], string("base:allocation")].concat();
            let options = [option(STRUCTURED, &[]), option(SET_META, &contexts)];
            let (answers, _) = told(&house, &who, &options);
            prop_assert_eq!(answers.last().unwrap().0, last, "context of {}", name);
        }
    }
}

/// Does the name in a certificate by default open only the volume of that name?
#[test]
fn a_certificate_opens_the_volume_of_its_name() {
    let house = house(&[Rights::default(), Rights::default()]);
    let who = |name: Option<&str>| {
        Drawn::Tcp("10.0.0.1", None, true).identity().with_certificate(name.map(str::to_owned))
    };
    let opens = |name, volume: &str| {
        let wish = [string(volume), vec![0, 0]].concat();
        matches!(told(&house, &who(name), &[option(GO, &wish)]).1, Step::Chosen(_))
    };
    assert!(opens(Some("v1"), "v1"));
    assert!(opens(Some("v0"), "v0") && opens(Some("v0"), ""), "the default export is v0");
    for name in [Some("v0"), Some("V1"), Some("*"), Some("v1\0"), Some(""), None] {
        assert!(!opens(name, "v1"), "{name:?}");
    }
    // The default export belongs to another client; it is not replaced by the client's own.
    assert!(!opens(Some("v1"), ""));
}

/// May exactly the configured number of clients open a volume, and another one when one has gone?
#[test]
fn places_of_a_volume() {
    let rights = Rights { most_clients: Some(2), ..Rights::default() };
    let (export_table, config) = house(&[rights, Rights::default()]);
    let house = (export_table, config);
    let who = Drawn::Unix(0, 0, None, None).identity();
    let wish = |name| [string(name), vec![0, 0]].concat();
    let go = |name| outcome_of(told(&house, &who, &[option(GO, &wish(name))]));
    let first = house.0.enter("v0").unwrap().1;
    assert_eq!(go("v0"), ACK);
    let _second = house.0.enter("v0").unwrap().1;
    assert_eq!((go("v0"), go(""), go("v1")), (ERR_POLICY, ERR_POLICY, ACK));
    let (_, step) = told(&house, &who, &[option(EXPORT_NAME, b"v0")]);
    assert!(matches!(step, Step::Closed(why) if why.contains("`most-clients` is 2")));
    // A client that only asks does not count.
    let (info, _) = told(&house, &who, &[option(INFO, &wish("v0"))]);
    assert_eq!(outcome(&info).0, ACK);
    drop(first);
    assert_eq!(go("v0"), ACK);
}

fn outcome_of((answers, _): (Vec<(u32, Vec<u8>)>, Step)) -> u32 {
    outcome(&answers).0
}

/// Does a change of rights apply to a client that is in handshake at that time?
#[test]
fn rights_that_change() {
    let (export_table, config) = house(&[Rights::default()]);
    let open = OnceCell::from(export_table.open_to(&config, &Identity::default()));
    assert!(open.get().unwrap().is_by(&config));
    let closed = Rights { allow: Some(Vec::new()), ..Rights::default() };
    let (_, other) = house(&[closed]);
    assert!(!open.get().unwrap().is_by(&other), "it has to be found out again");
    assert_eq!(export_table.open_to(&other, &Identity::default()).volumes, []);
    // A volume that a configuration does not have is open to no client.
    assert_eq!(export_table.open_to(&Arc::default(), &Identity::default()).volumes, []);
}

/// Is a configuration refused that gives rights by certificate name where clients show no
/// certificate?
#[test]
fn rights_by_name_need_certificates() {
    let by_name = Who { certificate: Some("v0".into()), ..Who::default() };
    let rights = Rights { allow: Some(vec![by_name]), ..Rights::default() };
    let mut config = Config::clone(&house(&[rights]).1);
    config.server.listen = vec!["tcp:127.0.0.1:1".parse().unwrap()]
        .into_iter()
        .map(|at| crate::config::Listen::new(at, false))
        .collect();
    let tls =
        |client_authority| Tls { certificate: "/c".into(), key: "/k".into(), client_authority };
    config.server = Server { tls: Some(tls(None)), ..config.server };
    let refusal = config.clone().settle().unwrap_err().to_string();
    assert!(refusal.starts_with("`volume.v0.allow` cannot be `certificate=v0`"), "{refusal}");
    config.server.tls = Some(tls(Some("/ca".into())));
    config.settle().unwrap();
}
