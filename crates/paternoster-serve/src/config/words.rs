// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words: what is written in one text, in the file and on the command line alike.
//!
//! ```text
//! unix:/run/nbd.sock   tcp:127.0.0.1:10809   tcp:localhost:10809   inherited:3     Address
//! off offered required                                                            TlsMode
//! auto io_uring threads model:hdd-7200                                            Engine
//! uid=1000 export=db* tenant=db-$uid                                              Rule
//! uid=1000 address=10.0.0.0/8                                                     Who
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use paternoster_core::{Class, Nanos, Priority};

use super::document::plain;
use super::limits::SOCKET_PATH_BYTES;
use super::{
    Address, Caps, Device, Direct, Engine, Group, Listen, Rule, ServiceClass, Tenant, TlsMode, Who,
};
use super::{near, rules};

/// Default permission bits of a unix socket.
const SOCKET_MODE: u32 = 0o600;
/// The default scheduler of a device; it takes over from others that fail.
pub(crate) const DEFAULT_SCHEDULER: &str = "bfq";
/// Inherited sockets begin here (the protocol of socket activation).
pub(crate) const FIRST_INHERITED: i32 = 3;
/// The conditions of a rule.
const CONDITIONS: [&str; 7] = ["export", "uid", "gid", "pid", "cgroup", "address", "certificate"];
/// Those of these conditions that a right may use.
const RIGHTS: [&str; 5] = ["uid", "gid", "cgroup", "address", "certificate"];
/// Every client, as a right.
const ANYONE: &str = "anyone";

impl Device {
    /// A device with all defaults and without volumes.
    #[must_use]
    pub fn new(name: &str) -> Device {
        Device {
            name: name.to_owned(),
            scheduler: DEFAULT_SCHEDULER.to_owned(),
            attributes: Vec::new(),
            depth: None,
            memory: 64 << 20,
            direct: Direct::Auto,
            engine: Engine::Auto,
            delay_bound: None::<Nanos>,
            volumes: Vec::new(),
        }
    }
}

impl Group {
    /// A group below the root, of weight 100 and without limits.
    #[must_use]
    pub fn new(name: &str) -> Group {
        let name = name.to_owned();
        Group { name, parent: None, weight: 100, caps: Caps::default(), floor: None }
    }
}

impl Tenant {
    /// A tenant below the root, of weight 100, as for clients without configuration.
    #[must_use]
    pub fn new(name: &str) -> Tenant {
        let priority = Priority::default();
        Tenant {
            name: name.to_owned(),
            group: None,
            weight: 100,
            class: ServiceClass::Kernel(priority.class),
            level: priority.level,
            caps: Caps::default(),
            floor: None,
        }
    }
}

impl Listen {
    /// A listener there. Where the server has certificates, TCP requires TLS.
    #[must_use]
    pub fn new(at: Address, certified: bool) -> Listen {
        let required = certified && matches!(at, Address::Tcp(_));
        Listen { at, tls: if required { TlsMode::Required } else { TlsMode::Off } }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text.split_once(':') {
            Some(("unix", path)) => {
                Ok(Address::Unix { path: socket_path(path)?, mode: SOCKET_MODE })
            }
            Some(("tcp", address)) => socket_address(address).map(Address::Tcp),
            Some(("inherited", number)) => inherited(number),
            None if text == "inherited" => Ok(Address::Inherited(FIRST_INHERITED)),
            _ => Err("an address: `unix:/PATH`, `tcp:ADDRESS:PORT` or `inherited:3`".to_owned()),
        }
    }
}

fn inherited(number: &str) -> Result<Address, String> {
    let number = number.parse().ok().filter(|number| (FIRST_INHERITED..1024).contains(number));
    number.map(Address::Inherited).ok_or_else(|| {
        "inherited sockets are numbered from 3 up: `inherited:3` is the first".to_owned()
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix { path, .. } => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp:{address}"),
            Address::Inherited(number) => write!(f, "inherited:{number}"),
        }
    }
}

/// A path that is not empty and has no control characters.
///
/// # Errors
/// What would be right.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains(char::is_control) {
        return Err("a path of printable characters".to_owned());
    }
    Ok(PathBuf::from(text))
}

fn socket_path(text: &str) -> Result<PathBuf, String> {
    if text.len() > SOCKET_PATH_BYTES {
        return Err(format!("{} bytes where a socket's path has {SOCKET_PATH_BYTES}", text.len()));
    }
    path(text)
}

/// Address and port. Names are not looked up, but for `localhost` and `*`.
///
/// # Errors
/// What would be right.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let named = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse::<u16>().ok()?;
        match host {
            "localhost" => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            "*" => Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
            _ => None,
        }
    });
    named.or_else(|| text.parse().ok()).ok_or_else(|| {
        "address and port, as `127.0.0.1:10809`, `[::1]:10809`, `localhost:10809` or `*:10809`"
            .to_owned()
    })
}

/// `10.0.0.0/8`, or one address.
///
/// # Errors
/// What would be right.
pub(super) fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || "an address or a network, as `10.0.0.0/8`, `192.168.1.7`, `fd00::/8`".to_owned();
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let whole = rules::bits(address);
    let length = length.map_or(Ok(whole), |length| length.parse().map_err(|_| wrong()))?;
    if length > whole {
        return Err(format!("a prefix has at most {whole} bits here"));
    }
    let first = rules::masked(address, length);
    if first != address {
        return Err(format!(
            "it has bits behind its first {length}; `{first}/{length}` or `{address}` would be \
             right"
        ));
    }
    // Peers of that kind count as IPv4.
    if let IpAddr::V6(v6) = address
        && let Some(v4) = v6.to_ipv4_mapped().filter(|_| length >= 96)
    {
        return Err(format!("it is IPv4 in IPv6's clothes; `{v4}/{}` would be right", length - 96));
    }
    Ok((address, length))
}

/// A tenant's name in a rule, with variables that are known.
///
/// # Errors
/// What would be right.
pub(super) fn template(text: &str) -> Result<String, String> {
    let text = plain(text)?;
    let unknown = rules::variables(&text).find(|name| !CONDITIONS.contains(name));
    let Some(name) = unknown else { return Ok(text) };
    Err(format!("there is no `${name}`{}", near::hint(name, CONDITIONS)))
}

/// A word of a table.
fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
    found.ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("one of {}", words.join(", "))
    })
}

const TLS_MODES: &[(&str, TlsMode)] =
    &[("off", TlsMode::Off), ("offered", TlsMode::Offered), ("required", TlsMode::Required)];

impl FromStr for TlsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsMode, String> {
        word(text, TLS_MODES)
    }
}

const DIRECT: &[(&str, Direct)] =
    &[("auto", Direct::Auto), ("yes", Direct::Yes), ("no", Direct::No)];

impl FromStr for Direct {
    type Err = String;

    fn from_str(text: &str) -> Result<Direct, String> {
        word(text, DIRECT)
    }
}

impl fmt::Display for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = DIRECT.iter().find(|(_, direct)| direct == self);
        f.write_str(named.map_or("auto", |(word, _)| word))
    }
}

const CLASSES: &[(&str, ServiceClass)] = &[
    ("best-effort", ServiceClass::Kernel(Class::BestEffort)),
    ("realtime", ServiceClass::Kernel(Class::Realtime)),
    ("idle", ServiceClass::Kernel(Class::Idle)),
    ("background", ServiceClass::Background { minimum: 0 }),
];

/// A background class has no minimum yet.
impl FromStr for ServiceClass {
    type Err = String;

    fn from_str(text: &str) -> Result<ServiceClass, String> {
        word(text, CLASSES)
    }
}

impl fmt::Display for ServiceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same = |one: &ServiceClass| std::mem::discriminant(one) == std::mem::discriminant(self);
        let named = match self {
            ServiceClass::Kernel(_) => CLASSES.iter().find(|(_, class)| class == self),
            ServiceClass::Background { .. } => CLASSES.iter().rev().find(|(_, class)| same(class)),
        };
        f.write_str(named.map_or("best-effort", |(word, _)| word))
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        match text {
            "auto" => Ok(Engine::Auto),
            "io_uring" => Ok(Engine::Uring),
            "threads" => Ok(Engine::Threads),
            _ => match text.strip_prefix("model:") {
                Some(model) if !model.is_empty() => Ok(Engine::Model(plain(model)?)),
                _ => Err("one of auto, io_uring, threads, model:NAME, model:FILE.toml".to_owned()),
            },
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Engine::Auto => f.write_str("auto"),
            Engine::Uring => f.write_str("io_uring"),
            Engine::Threads => f.write_str("threads"),
            Engine::Model(name) => write!(f, "model:{name}"),
        }
    }
}

/// A rule in one line: `uid=1000 export=db* tenant=db`.
impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let mut rule = Rule::default();
        each_pair(text, |key, value| match key {
            "tenant" => template(value).map(|tenant| rule.tenant = tenant),
            _ => condition(&mut rule.who, key, value, &CONDITIONS),
        })?;
        if rule.tenant.is_empty() {
            return Err("it has no `tenant=NAME`".to_owned());
        }
        Ok(rule)
    }
}

/// A client that has a right: `uid=1000 address=10.0.0.0/8`, or `anyone`.
impl FromStr for Who {
    type Err = String;

    fn from_str(text: &str) -> Result<Who, String> {
        let mut who = Who::default();
        if text.trim() == ANYONE {
            return Ok(who);
        }
        each_pair(text, |key, value| condition(&mut who, key, value, &RIGHTS))?;
        if who == Who::default() {
            return Err(format!("it says nothing of a client; `{ANYONE}` is every client"));
        }
        Ok(who)
    }
}

/// Gives each `KEY=VALUE` of a line to `take`.
fn each_pair(
    text: &str,
    mut take: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let mut seen = Vec::new();
    for part in text.split_whitespace() {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!("`{part}` is not KEY=VALUE, as `uid=1000`"));
        };
        if seen.contains(&key) {
            return Err(format!("`{key}` is there twice"));
        }
        seen.push(key);
        take(key, value).map_err(|why| format!("`{key}` cannot be `{value}`: {why}"))?;
    }
    Ok(())
}

fn condition(who: &mut Who, key: &str, value: &str, known: &[&str]) -> Result<(), String> {
    // The largest number is no user or group.
    let number = || match value.parse() {
        Ok(number) if number != u32::MAX => Ok(Some(number)),
        _ => Err("a whole number".to_owned()),
    };
    match key {
        _ if !known.contains(&key) => {
            let hint = near::hint(key, known.iter().copied());
            return Err(format!("there is no such condition{hint}"));
        }
        "export" => who.export = Some(plain(value)?),
        "uid" => who.uid = number()?,
        "gid" => who.gid = number()?,
        "pid" => who.pid = number()?,
        "cgroup" => who.cgroup = Some(plain(value)?),
        "address" => who.address = Some(network(value)?),
        _ => who.certificate = Some(plain(value)?),
    }
    Ok(())
}

/// The text as written in one line.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let address = self.address.map(|(address, length)| format!("{address}/{length}"));
        let all = [
            ("export", self.export.clone()),
            ("uid", number(self.uid)),
            ("gid", number(self.gid)),
            ("pid", number(self.pid)),
            ("cgroup", self.cgroup.clone()),
            ("address", address),
            ("certificate", self.certificate.clone()),
        ];
        let told: Vec<String> =
            all.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?))).collect();
        f.write_str(if told.is_empty() { ANYONE.to_owned() } else { told.join(" ") }.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are addresses read, and what is none refused with what would be right?
    #[test]
    fn addresses() {
        let unix: Address = "unix:/run/nbd.sock".parse().unwrap();
        assert_eq!(unix, Address::Unix { path: "/run/nbd.sock".into(), mode: 0o600 });
        let tcp = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(tcp("tcp:localhost:10809").unwrap(), "tcp:127.0.0.1:10809");
        assert_eq!(tcp("tcp:[::1]:1").unwrap(), "tcp:[::1]:1");
        assert_eq!(tcp("tcp:*:1").unwrap(), "tcp:0.0.0.0:1");
        assert_eq!(tcp("inherited").unwrap(), "inherited:3");
        for text in ["tcp:example.org:1", "tcp:1", "tcp:127.0.0.1", "tcp:127.0.0.1:65536"] {
            assert!(tcp(text).unwrap_err().contains("`127.0.0.1:10809`"), "{text}");
        }
        for text in ["", "/run/nbd.sock", "udp:1", "inherited3"] {
            assert!(tcp(text).unwrap_err().contains("`unix:/PATH`"), "{text}");
        }
        assert!(tcp("inherited:2").unwrap_err().contains("from 3 up"));
        let long = format!("unix:/{}", "x".repeat(107));
        assert!(tcp(&long).unwrap_err().starts_with("108 bytes where"));
    }

    /// Is a network its first address, and nothing else?
    #[test]
    fn networks() {
        assert_eq!(network("10.0.0.0/8"), Ok(("10.0.0.0".parse().unwrap(), 8)));
        assert_eq!(network("::1"), Ok(("::1".parse().unwrap(), 128)));
        assert_eq!(network("0.0.0.0/0"), Ok(("0.0.0.0".parse().unwrap(), 0)));
        let refusal = network("10.1.2.3/8").unwrap_err();
        assert!(refusal.contains("`10.0.0.0/8` or `10.1.2.3` would be right"), "{refusal}");
        assert!(network("10.0.0.0/33").unwrap_err().contains("at most 32"));
        assert!(network("10.0.0.0/").is_err() && network("host").is_err());
    }

    /// Is a rule of the command line the same as one of the file, and are its faults reported?
    #[test]
    fn rules_in_one_line() {
        let rule: Rule = "uid=1000 export=db* tenant=db-$uid".parse().unwrap();
        assert_eq!((rule.who.uid, rule.who.export.as_deref()), (Some(1000), Some("db*")));
        assert_eq!(rule.tenant, "db-$uid");
        let refusal = |text: &str| text.parse::<Rule>().unwrap_err();
        assert_eq!(refusal("uid=1000"), "it has no `tenant=NAME`");
        assert!(refusal("uid tenant=a").contains("`uid` is not KEY=VALUE"));
        assert!(refusal("uid=x tenant=a").contains("`uid` cannot be `x`: a whole number"));
        assert!(refusal("user=x tenant=a").contains("nown are export, uid"));
        assert!(refusal("uid=1 uid=2 tenant=a").contains("there twice"));
        assert!(refusal("tenant=$udi").contains("there is no `$udi`; did you mean `uid`?"));
    }

    /// Is a right's client read in one line, and a rule's words refused there?
    #[test]
    fn rights_in_one_line() {
        for text in ["anyone", "uid=7", "gid=8 cgroup=/a*", "address=10.0.0.0/8 certificate=vm?"] {
            assert_eq!(text.parse::<Who>().unwrap().to_string(), text);
        }
        let refusal = |text: &str| text.parse::<Who>().unwrap_err();
        assert!(refusal("").contains("`anyone` is every client"));
        assert!(refusal("everybody").contains("`everybody` is not KEY=VALUE"));
        assert!(refusal("uid=7 uid=8").contains("there twice"));
        for text in ["export=a", "pid=1", "tenant=a", "user=a"] {
            assert!(refusal(text).contains("nown are uid, gid, cgroup"), "{text}");
        }
        // A peer of such an address counts as IPv4, so that this would never match.
        assert!(refusal("address=::ffff:10.0.0.0/104").contains("`10.0.0.0/8` would be right"));
        assert!("address=::/0".parse::<Who>().is_ok());
    }

    /// Do words come out as they went in?
    #[test]
    fn words_come_out_as_they_went_in() {
        for text in ["auto", "io_uring", "threads", "model:hdd-7200"] {
            assert_eq!(text.parse::<Engine>().unwrap().to_string(), text);
        }
        for (text, class) in CLASSES {
            assert_eq!(class.to_string(), *text);
        }
        assert_eq!(ServiceClass::Background { minimum: 9 }.to_string(), "background");
        for (text, direct) in DIRECT {
            assert_eq!(direct.to_string(), *text);
        }
        assert_eq!("sometimes".parse::<TlsMode>(), Err("one of off, offered, required".to_owned()));
    }
}
