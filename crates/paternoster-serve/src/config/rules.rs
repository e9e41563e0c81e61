// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules: which tenant a client belongs to.
//!
//! ```text
//! rules, in order      export "db*", uid 1000   ──▶ tenant "db"
//!                      address 10.0.0.0/8       ──▶ tenant "rack-$address"
//! none matches         certificate "alice"      ──▶ "alice"
//!                      unix peer                ──▶ "disk0@uid1000"
//!                      TCP peer                 ──▶ "disk0@10.0.0.3"
//! ```
//!
//! The first rule that matches wins. A condition that asks for something the client does not have
//! (a uid of a TCP peer) does not match, and neither does a rule whose tenant is made from such a
//! thing. Without a rule all connections of one customer still share one weight: a customer is the
//! name in the certificate, else a user or an address for each export.
//!
//! What is made from a client's own words stays bounded: a name of more than 255 bytes is cut and
//! ends with a digest of all of it, so that different clients stay different.

use std::net::IpAddr;

use super::limits::TEXT_BYTES;
use super::{Identity, Rule, Who};

/// Bytes kept of a name that is too long; `~` and 16 digits follow.
const KEPT_BYTES: usize = TEXT_BYTES - 17;

/// The tenant of a client.
#[must_use]
pub fn tenant_of(rules: &[Rule], who: &Identity) -> String {
    ruled(rules, who).unwrap_or_else(|| bounded(natural(who)))
}

/// The tenant that a rule gives a client, if one matches.
#[must_use]
pub fn ruled(rules: &[Rule], who: &Identity) -> Option<String> {
    let matching = rules.iter().filter(|rule| matches(&rule.who, who, false));
    matching.map(|rule| fill(&rule.tenant, who)).find_map(|filled| filled).map(bounded)
}

impl Identity {
    /// This client with the certificate that it has shown.
    #[must_use]
    pub(crate) fn with_certificate(&self, certificate: Option<String>) -> Identity {
        Identity { certificate, ..self.clone() }
    }
}

/// Whether all conditions hold. A peer of a unix socket has groups and a cgroup; if they could not
/// be found out, the result for them is `unknown`.
pub(super) fn matches(asked: &Who, who: &Identity, unknown: bool) -> bool {
    let is_of = |gid| match &who.groups {
        _ if who.gid == Some(gid) => true,
        Some(groups) => groups.contains(&gid),
        None => unknown && who.uid.is_some(),
    };
    let is_below = |pattern: &String| match &who.cgroup {
        Some(cgroup) => like(pattern, cgroup),
        None => unknown && who.uid.is_some(),
    };
    let text = |pattern: &Option<String>, text: Option<&str>| match pattern {
        None => true,
        Some(pattern) => text.is_some_and(|text| like(pattern, text)),
    };
    text(&asked.export, Some(&who.export))
        && asked.uid.is_none_or(|uid| who.uid == Some(uid))
        && asked.gid.is_none_or(is_of)
        && asked.pid.is_none_or(|pid| who.pid == Some(pid))
        && asked.cgroup.as_ref().is_none_or(is_below)
        && asked.address.is_none_or(|network| who.address.is_some_and(|at| within(network, at)))
        && text(&asked.certificate, certificate(who))
}

/// A certificate without a name matches no name.
pub(super) fn certificate(who: &Identity) -> Option<&str> {
    who.certificate.as_deref().filter(|name| !name.is_empty())
}

/// Whether the text matches the pattern: `*` is any letters, `?` is one.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut place) = (0, 0);
    // Where to go on when letters do not fit: after the last star, one letter further.
    let mut again: Option<(usize, usize)> = None;
    while place < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                again = Some((at + 1, place));
                at += 1;
            }
            Some(b'?') => (at, place) = (at + 1, next_letter(text, place)),
            Some(letter) if *letter == text[place] => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((behind, from)) = again else { return false };
                let from = next_letter(text, from);
                (at, place, again) = (behind, from, Some((behind, from)));
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

/// The place after the letter that begins there: UTF-8's further bytes are `10xxxxxx`.
fn next_letter(text: &[u8], place: usize) -> usize {
    let further = text[place + 1..].iter().take_while(|byte| **byte & 0xc0 == 0x80);
    place + 1 + further.count()
}

/// Bits of such an address.
pub(super) fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all but its first `length` bits zero.
pub(super) fn masked(address: IpAddr, length: u8) -> IpAddr {
    let behind = u32::from(bits(address).saturating_sub(length));
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

/// Whether the address is in the network. One socket may have peers of both kinds: an IPv4 peer of
/// an IPv6 socket counts as IPv4.
fn within((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    let address = address.to_canonical();
    network.is_ipv4() == address.is_ipv4() && masked(address, length) == network
}

/// The names of variables in a template: letters after a `$`.
pub(super) fn variables(template: &str) -> impl Iterator<Item = &str> {
    template.split('$').skip(1).map(|rest| &rest[..word_end(rest)])
}

fn word_end(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(text.len())
}

/// The template with what the client has; `None` if it lacks something.
fn fill(template: &str, who: &Identity) -> Option<String> {
    let mut parts = template.split('$');
    let mut filled = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let (name, rest) = part.split_at(word_end(part));
        filled.push_str(&variable(name, who)?);
        filled.push_str(rest);
    }
    Some(filled)
}

fn variable(name: &str, who: &Identity) -> Option<String> {
    match name {
        "export" => Some(who.export.clone()),
        "uid" => who.uid.map(|uid| uid.to_string()),
        "gid" => who.gid.map(|gid| gid.to_string()),
        "pid" => who.pid.map(|pid| pid.to_string()),
        "cgroup" => who.cgroup.clone(),
        "address" => who.address.map(|address| address.to_canonical().to_string()),
        "certificate" => certificate(who).map(str::to_owned),
        // The configuration is refused if it has another.
        _ => None,
    }
}

/// The tenant of a client to which no rule applies.
fn natural(who: &Identity) -> String {
    let export = &who.export;
    match (certificate(who), who.uid, who.address) {
        (Some(name), _, _) => name.to_owned(),
        (None, Some(uid), _) => format!("{export}@uid{uid}"),
        (None, None, Some(address)) => format!("{export}@{}", address.to_canonical()),
        (None, None, None) => export.clone(),
    }
}

/// The name, printable and not too long.
fn bounded(name: String) -> String {
    let name = name.replace(char::is_control, "?");
    if name.len() <= TEXT_BYTES {
        return name;
    }
    let kept = (0..=KEPT_BYTES).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}~{:016x}", &name[..kept], digest(&name))
}

/// FNV-1a, 64 bits.
fn digest(text: &str) -> u64 {
    let step = |digest: u64, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(lines: &[&str]) -> Vec<Rule> {
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    fn unix() -> Identity {
        Identity {
            export: "disk0".to_owned(),
            uid: Some(1000),
            gid: Some(100),
            groups: Some(vec![101]),
            pid: Some(4711),
            cgroup: Some("/system.slice/db.service".to_owned()),
            ..Identity::default()
        }
    }

    fn tcp() -> Identity {
        let address = Some("10.1.2.3".parse().unwrap());
        Identity { export: "disk0".to_owned(), address, ..Identity::default() }
    }

    /// Which tenant does a client belong to if no rule says it?
    #[test]
    fn natural_keys() {
        assert_eq!(tenant_of(&[], &unix()), "disk0@uid1000");
        assert_eq!(tenant_of(&[], &tcp()), "disk0@10.1.2.3");
        let mapped = Some("::ffff:10.1.2.3".parse().unwrap());
        assert_eq!(tenant_of(&[], &Identity { address: mapped, ..tcp() }), "disk0@10.1.2.3");
        let certified = Identity { certificate: Some("alice".to_owned()), ..tcp() };
        assert_eq!(tenant_of(&[], &certified), "alice");
        let unnamed = Identity { certificate: Some(String::new()), ..tcp() };
        assert_eq!(tenant_of(&[], &unnamed), "disk0@10.1.2.3");
    }

    /// Does the first rule win of those that match, and each condition count?
    #[test]
    fn the_first_match_wins() {
        let all = rules(&[
            "uid=1 tenant=wrong",
            "export=disk? uid=1000 tenant=first",
            "uid=1000 tenant=second",
            "address=10.0.0.0/8 tenant=rack",
            "tenant=rest",
        ]);
        assert_eq!(tenant_of(&all, &unix()), "first");
        assert_eq!(tenant_of(&all, &Identity { export: "x".to_owned(), ..unix() }), "second");
        assert_eq!(tenant_of(&all, &tcp()), "rack");
        let far = Some("11.0.0.1".parse().unwrap());
        assert_eq!(tenant_of(&all, &Identity { address: far, ..tcp() }), "rest");
    }

    /// Is each condition tested on the client's values, and does a value that it lacks match
    /// nothing?
    #[test]
    fn conditions() {
        let is = |line: &str, who: &Identity| tenant_of(&rules(&[line]), who) == "t";
        for line in ["export=disk0", "uid=1000", "gid=100", "gid=101", "pid=4711"] {
            assert!(is(&format!("{line} tenant=t"), &unix()), "{line}");
        }
        for line in ["cgroup=/system.slice/*", "gid=101 cgroup=*"] {
            assert!(is(&format!("{line} tenant=t"), &unix()), "{line}");
        }
        for line in
            ["export=disk", "uid=0", "gid=0", "pid=1", "cgroup=/user.slice/*", "address=0.0.0.0/0"]
        {
            assert!(!is(&format!("{line} tenant=t"), &unix()), "{line}");
        }
        for line in ["address=10.1.2.3", "address=0.0.0.0/0", "address=10.1.2.0/23"] {
            assert!(is(&format!("{line} tenant=t"), &tcp()), "{line}");
        }
        for line in ["uid=1000", "gid=0", "cgroup=*", "certificate=*", "address=::/0"] {
            assert!(!is(&format!("{line} tenant=t"), &tcp()), "{line}");
        }
        assert!(!is("address=10.1.3.0/24 tenant=t", &tcp()));
        let certified = Identity { certificate: Some("vm1.example".to_owned()), ..tcp() };
        assert!(is("certificate=*.example tenant=t", &certified));
        assert!(!is("certificate=*.example.org tenant=t", &certified));
    }

    /// Are templates filled, and rules passed over whose template asks for what is not there?
    #[test]
    fn templates() {
        let of = |line: &str, who: &Identity| tenant_of(&rules(&[line]), who);
        assert_eq!(of("tenant=$export-u$uid-p$pid", &unix()), "disk0-u1000-p4711");
        assert_eq!(of("tenant=g$gid", &unix()), "g100");
        assert_eq!(of("tenant=$cgroup", &unix()), "/system.slice/db.service");
        assert_eq!(of("tenant=at-$address.", &tcp()), "at-10.1.2.3.");
        assert_eq!(of("tenant=$uid", &tcp()), "disk0@10.1.2.3");
        let next = rules(&["tenant=$certificate", "tenant=anyone"]);
        assert_eq!(tenant_of(&next, &tcp()), "anyone");
    }

    /// Do long and unprintable names of clients stay bounded, and different ones different?
    #[test]
    fn names_are_bounded() {
        let long = |end: &str| Identity {
            certificate: Some("é".repeat(1000) + end),
            ..Identity::default()
        };
        let (one, other) = (tenant_of(&[], &long("1")), tenant_of(&[], &long("2")));
        // 238 bytes of `é` (two bytes each), `~`, 16 digits.
        assert_eq!((one.len(), one == other), (255, false));
        let evil = Identity { certificate: Some("a\nb\0".to_owned()), ..Identity::default() };
        assert_eq!(tenant_of(&[], &evil), "a?b?");
    }

    /// Do patterns mean what they say?
    #[test]
    fn patterns() {
        for (pattern, text) in
            [("*", ""), ("a*", "a"), ("a*c", "abc"), ("*b*", "abc"), ("?", "é"), ("*?c", "abcc")]
        {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", ""), ("?", ""), ("a*c", "abcd"), ("A", "a")] {
            assert!(!like(pattern, text), "{pattern} {text}");
        }
        // Were it to try all ways, this would not end today.
        assert!(!like(&("a*".repeat(100) + "c"), &"a".repeat(4000)));
    }

    /// The plain recursive meaning of a pattern.
    fn means(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) => (0..=text.len()).any(|skip| means(rest, &text[skip..])),
            (Some(('?', rest)), Some((_, tail))) => means(rest, tail),
            (Some((one, rest)), Some((other, tail))) => one == other && means(rest, tail),
            _ => false,
        }
    }

    proptest! {
        /// Does matching agree with the plain meaning of patterns?
        #[test]
        fn matching_is_what_patterns_mean(pattern in "[ab*?é]{0,7}", text in "[abé]{0,9}") {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(like(&pattern, &text), means(&letters(&pattern), &letters(&text)));
        }
    }
}
