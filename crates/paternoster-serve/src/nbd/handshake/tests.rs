// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the handshake: every path of the negotiation byte by byte, however the bytes are cut.

use proptest::prelude::*;

use super::*;
use crate::nbd::export::{Absent, ExportFacts};

/// Two exports; `disk` is the default one.
struct House;

impl Exports for House {
    fn list(&self) -> Vec<(String, String)> {
        vec![("disk".to_owned(), String::new()), ("tape".to_owned(), "old".to_owned())]
    }

    fn find(&self, name: &str) -> Result<ExportFacts, Absent> {
        let facts = ExportFacts {
            name: "disk".to_owned(),
            size: 1 << 20,
            block: 512,
            preferred: 4096,
            most: 32 << 20,
            flush: true,
            ..ExportFacts::default()
        };
        match name {
            "" | "disk" => Ok(facts),
            "tape" => Ok(ExportFacts {
                name: "tape".to_owned(),
                description: "old".to_owned(),
                size: 4096,
                readonly: true,
                ..facts
            }),
            _ => Err(Absent::Unknown),
        }
    }
}

/// FIXED_NEWSTYLE and NO_ZEROES, as every client of today.
const FLAGS: [u8; 4] = [0, 0, 0, 3];

fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [&b"IHAVEOPT"[..], &code.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

/// Data of INFO and GO.
fn wish(name: &str, kinds: &[u16]) -> Vec<u8> {
    let length = u32::try_from(name.len()).unwrap().to_be_bytes();
    let count = u16::try_from(kinds.len()).unwrap().to_be_bytes();
    let kinds: Vec<u8> = kinds.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    [&length[..], name.as_bytes(), &count, &kinds].concat()
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
fn query(name: &str, queries: &[&str]) -> Vec<u8> {
    let string = |text: &str| {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&length[..], text.as_bytes()].concat()
    };
    let count = u32::try_from(queries.len()).unwrap().to_be_bytes();
    let queries: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
    [string(name), count.to_vec(), queries].concat()
}

/// An answer, as the bytes of its type and its data.
fn answer(code: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let numbers = [code, kind, length].map(u32::to_be_bytes);
    [&MAGIC_ANSWER_BYTES[..], numbers.as_flattened(), data].concat()
}

/// The kinds of the answers in `out`, which must be nothing but answers, each with the option.
fn kinds(mut out: &[u8]) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    while !out.is_empty() {
        assert_eq!(out[..8], MAGIC_ANSWER_BYTES);
        found.push((number(&out[8..12]), number(&out[12..16])));
        out = &out[20 + usize::try_from(number(&out[16..20])).unwrap()..];
    }
    found
}

const MAGIC_ANSWER_BYTES: [u8; 8] = [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9];

/// A handshake of which the client's flags are in.
fn begun(tls: TlsMode) -> Handshake {
    let mut handshake = Handshake::new(tls, false);
    let step = handshake.take(&FLAGS, &House, &mut Vec::new());
    assert_eq!(step, (4, Step::More));
    handshake
}

/// What a handshake without TLS says to these options, and where they lead.
fn say(options: &[Vec<u8>]) -> (Vec<u8>, Step) {
    let (mut handshake, mut out) = (begun(TlsMode::Off), Vec::new());
    let (_, step) = handshake.take(&options.concat(), &House, &mut out);
    (out, step)
}

fn chosen(step: Step) -> Negotiated {
    match step {
        Step::Chosen(negotiated) => negotiated,
        other => panic!("{other:?}"),
    }
}

fn why(step: Step) -> String {
    match step {
        Step::Closed(why) => why,
        other => panic!("{other:?}"),
    }
}

/// What does the server say first?
#[test]
fn greeting() {
    let mut out = Vec::new();
    Handshake::new(TlsMode::Off, false).greet(&mut out);
    // Two magics; FIXED_NEWSTYLE and NO_ZEROES.
    assert_eq!(out, b"NBDMAGICIHAVEOPT\0\x03");
}

/// Do client flags that were not offered end the handshake?
#[test]
fn client_flags_must_be_known() {
    for flags in [4_u32, 1 << 31] {
        let mut handshake = Handshake::new(TlsMode::Off, false);
        let (_, step) = handshake.take(&flags.to_be_bytes(), &House, &mut Vec::new());
        assert!(why(step).starts_with("client flags 0x"));
    }
}

/// Does the old way to choose have its zeroes, unless both sides leave them out?
#[test]
fn export_name() {
    for (flags, zeroes) in [(0, 124), (1, 124), (2, 0), (3, 0)] {
        let input = [vec![0, 0, 0, flags], option(1, b"disk")].concat();
        let (mut handshake, mut out) = (Handshake::new(TlsMode::Off, false), Vec::new());
        let (taken, step) = handshake.take(&input, &House, &mut out);
        assert_eq!(taken, input.len());
        let negotiated = chosen(step);
        assert_eq!(negotiated.export, "disk");
        assert!(!negotiated.structured && !negotiated.block_sizes_known);
        // 1 MiB; HAS_FLAGS and SEND_FLUSH.
        assert_eq!(out[..10], [0, 0, 0, 0, 0, 0x10, 0, 0, 0, 5]);
        assert_eq!(out[10..], vec![0; zeroes]);
    }
}

/// Is the end the answer to a name that is not there, or is none?
#[test]
fn export_name_that_fails_ends() {
    for (name, expected) in [
        (&b"none"[..], "there is no export \"none\"; nbdinfo --list shows all"),
        (b"\xff", "export name \"\u{fffd}\" is not UTF-8"),
        (&[b'x'; 4097], "export name has 4097 bytes; 4096 is the most"),
        (&[b'x'; OPTION_MOST + 1], "option 1 has 16385 bytes; 16384 is the most"),
    ] {
        let (out, step) = say(&[option(1, name)]);
        assert_eq!((out, why(step).as_str()), (vec![], expected));
    }
}

/// Does GO return the requested information, and the export's always?
#[test]
fn go() {
    let (out, step) = say(&[option(7, &wish("tape", &[1, 2, 3, 3, 99]))]);
    let expected = [
        // EXPORT: 4096 bytes; HAS_FLAGS, READ_ONLY, SEND_FLUSH
        answer(7, 3, &[0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 7]),
        answer(7, 3, b"\0\x01tape"), // NAME
        answer(7, 3, b"\0\x02old"),  // DESCRIPTION
        // BLOCK_SIZE, once: 512, 4096, 32 MiB
        answer(7, 3, &[0, 3, 0, 0, 2, 0, 0, 0, 0x10, 0, 2, 0, 0, 0]),
        answer(7, 1, &[]), // ACK
    ];
    assert_eq!(out, expected.concat());
    let negotiated = chosen(step);
    assert_eq!(negotiated.export, "tape");
    assert!(negotiated.block_sizes_known && !negotiated.allocation);
}

/// Is the default export told under its own name, and are block sizes unknown to a client that has
/// not requested them, even if INFO returned them before?
#[test]
fn default_export() {
    let info = option(6, &wish("", &[1, 3]));
    let (out, step) = say(&[info, option(7, &wish("", &[]))]);
    assert_eq!(kinds(&out), [(6, 3), (6, 3), (6, 3), (6, 1), (7, 3), (7, 1)]);
    let negotiated = chosen(step);
    assert_eq!(negotiated.export, "disk");
    assert!(!negotiated.block_sizes_known);
}

/// Are requests that follow GO at once left for transmission, untouched?
#[test]
fn requests_behind_go_are_left() {
    let go = option(7, &wish("disk", &[]));
    let input = [&go[..], &[0x25, 0x60, 0x95, 0x13]].concat();
    let (taken, step) = begun(TlsMode::Off).take(&input, &House, &mut Vec::new());
    assert_eq!(taken, go.len());
    chosen(step);
}

/// Can a client that asked wrongly ask again?
#[test]
fn errors_are_told_and_the_client_goes_on() {
    let unknown = [&option(7, &wish("none", &[])), &option(6, &wish("none", &[]))];
    let malformed = [
        option(6, &[]),
        option(7, &[0, 0, 0, 9, b'x', 0, 0]), // a name of 9 bytes: 1
        option(7, &[0, 0, 0, 0, 0, 1]),       // one kind: none
        option(3, b"data"),                   // LIST has none
        option(8, b"data"),                   // nor has STRUCTURED_REPLY
        option(10, &query("disk", &["base:allocation"])), // without structured replies
    ];
    let mut options: Vec<Vec<u8>> = malformed.to_vec();
    options.extend(unknown.map(Clone::clone));
    options.push(option(7, &wish(&"x".repeat(4097), &[])));
    let (out, step) = say(&options);
    assert_eq!(step, Step::More);
    // INVALID six times, UNKNOWN twice, TOO_BIG.
    let [invalid, unknown, long] = [3, 6, 9].map(|number| (1 << 31) + number);
    let expected = [
        (6, invalid),
        (7, invalid),
        (7, invalid),
        (3, invalid),
        (8, invalid),
        (10, invalid),
        (7, unknown),
        (6, unknown),
        (7, long),
    ];
    assert_eq!(kinds(&out), expected);
    assert!(String::from_utf8_lossy(&out).contains("there is no export \"none\""));
}

/// Are unknown options refused with UNSUP: PEEK_EXPORT (4), EXTENDED_HEADERS (11)?
#[test]
fn unknown_options() {
    let (out, step) = say(&[option(4, b"x"), option(11, b""), option(12, &[7; 20_000])]);
    assert_eq!(step, Step::More);
    let unsup = (1 << 31) + 1;
    assert_eq!(kinds(&out), [(4, unsup), (11, unsup), (12, unsup)]);
    assert_eq!(out[20..][..27], *b"option 4 is not known here\0"); // NUL: the next answer's magic
}

/// Is a known option that is too long skipped, and one beyond measure the end?
#[test]
fn too_long() {
    let long = option(6, &vec![0; OPTION_MOST + 1]);
    let (out, step) = say(&[long, option(3, b"")]);
    assert_eq!(step, Step::More);
    assert_eq!(kinds(&out), [(6, (1 << 31) + 9), (3, 2), (3, 2), (3, 1)]);
    let endless = [&b"IHAVEOPT"[..], &6_u32.to_be_bytes(), &[0xff; 4]].concat();
    let (out, step) = say(&[endless]);
    assert!(out.is_empty());
    assert_eq!(why(step), "option 6 has 4294967295 bytes; 16384 is the most");
}

/// Are all exports listed, with their descriptions?
#[test]
fn list() {
    let (out, _) = say(&[option(3, b"")]);
    let expected =
        [answer(3, 2, b"\0\0\0\x04disk"), answer(3, 2, b"\0\0\0\x04tapeold"), answer(3, 1, b"")];
    assert_eq!(out, expected.concat());
}

/// Does leaving get its ACK, and is it no error?
#[test]
fn abort() {
    let (out, step) = say(&[option(2, b"")]);
    assert_eq!(out, answer(2, 1, b""));
    assert_eq!(step, Step::Closed(String::new()));
}

/// Do structured replies show in what is agreed, and in the flag DF?
#[test]
fn structured_replies() {
    let (out, step) = say(&[option(8, b""), option(7, &wish("disk", &[]))]);
    assert!(chosen(step).structured);
    let expected = [
        answer(8, 1, b""),
        // 1 MiB; HAS_FLAGS, SEND_FLUSH and SEND_DF: 1 + 4 + 128
        answer(7, 3, &[0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 133]),
        answer(7, 1, b""),
    ];
    assert_eq!(out, expected.concat());
}

/// Which queries find `base:allocation`, and under which number?
#[test]
fn meta_contexts() {
    let told = |code: u32, queries: &[&str]| {
        let (out, _) = say(&[option(8, b""), option(code, &query("disk", queries))]);
        out[20..].to_vec() // behind the ACK of option 8
    };
    let listed = [answer(9, 4, b"\0\0\0\0base:allocation"), answer(9, 1, b"")].concat();
    for queries in [&[][..], &["base:"], &["x-y:z", "base:allocation"]] {
        assert_eq!(told(9, queries), listed, "{queries:?}");
    }
    assert_eq!(told(9, &["x-y:z"]), answer(9, 1, b""));
    // Number 1, and once, however often it is requested.
    let set = [answer(10, 4, b"\0\0\0\x01base:allocation"), answer(10, 1, b"")].concat();
    assert_eq!(told(10, &["base:allocation", "base:allocation"]), set);
    for queries in [&[][..], &["base:"], &["qemu:dirty-bitmap:b"]] {
        assert_eq!(told(10, queries), answer(10, 1, b""), "{queries:?}");
    }
    assert_eq!(kinds(&told(10, &["nonsense"])), [(10, (1 << 31) + 3)]);
}

/// Does a context count for the export for which it was chosen, until it is chosen anew?
#[test]
fn meta_contexts_belong_to_an_export() {
    let allocation = |options: &[Vec<u8>]| {
        let structured = [option(8, b"")];
        let (_, step) = say(&[&structured, options].concat());
        chosen(step).allocation
    };
    let set = |name: &str| option(10, &query(name, &["base:allocation"]));
    let go = |name: &str| option(7, &wish(name, &[]));
    assert!(allocation(&[set("disk"), go("disk")]));
    // The default export is the disk.
    assert!(allocation(&[set(""), go("disk")]));
    assert!(allocation(&[set("disk"), option(1, b"disk")]));
    assert!(!allocation(&[set("tape"), go("disk")]));
    assert!(!allocation(&[set("disk"), option(10, &query("disk", &[])), go("disk")]));
    // A try that fails forgets what there was, whatever it fails for.
    assert!(!allocation(&[set("disk"), set("none"), go("disk")]));
    assert!(!allocation(&[set("disk"), option(10, &[0; 20_000]), go("disk")]));
    // A listing changes nothing.
    assert!(allocation(&[set("disk"), option(9, &query("tape", &[])), go("disk")]));
}

/// May a client that understands no answers use only the one option that needs none?
#[test]
fn without_fixed_newstyle() {
    let input = [vec![0, 0, 0, 0], option(3, b"")].concat();
    let (mut handshake, mut out) = (Handshake::new(TlsMode::Off, false), Vec::new());
    let (_, step) = handshake.take(&input, &House, &mut out);
    assert!(out.is_empty());
    assert_eq!(why(step), "option 3 of a client without fixed newstyle");
}

/// Is everything but TLS and leaving refused where TLS is required?
#[test]
fn required_tls_comes_first() {
    let (mut handshake, mut out) = (begun(TlsMode::Required), Vec::new());
    let options: Vec<Vec<u8>> = [3, 6, 7, 8, 9, 10, 11, 99].map(|code| option(code, b"")).into();
    let (_, step) = handshake.take(&options.concat(), &House, &mut out);
    assert_eq!(step, Step::More);
    assert!(kinds(&out).iter().all(|(_, kind)| *kind == (1 << 31) + 5), "TLS_REQD");
    assert_eq!(kinds(&out).len(), 8);
    let mut leaver = handshake.clone();
    let (_, step) = leaver.take(&option(2, b""), &House, &mut out);
    assert_eq!(step, Step::Closed(String::new()));
    // The one option that knows no error.
    let (_, step) = handshake.take(&option(1, b"disk"), &House, &mut out);
    assert_eq!(why(step), "option 1 needs TLS here: send STARTTLS first");
}

/// Is TLS started on request, and is what was agreed before forgotten then?
#[test]
fn tls_begins_anew() {
    for mode in [TlsMode::Offered, TlsMode::Required] {
        let (mut handshake, mut out) = (begun(mode), Vec::new());
        let set = option(10, &query("disk", &["base:allocation"]));
        let before = [option(8, b""), set.clone(), option(5, b"")].concat();
        let (taken, step) = handshake.take(&before, &House, &mut out);
        assert_eq!((taken, step), (before.len(), Step::StartTls));
        assert!(out.ends_with(&answer(5, 1, b"")));
        handshake.secured();
        out.clear();
        // Without structured replies, which are forgotten: INVALID. TLS twice: INVALID.
        let (_, step) = handshake.take(&[set, option(5, b"")].concat(), &House, &mut out);
        assert_eq!(step, Step::More);
        assert_eq!(kinds(&out), [(10, (1 << 31) + 3), (5, (1 << 31) + 3)]);
        let (_, step) = handshake.take(&option(7, &wish("disk", &[])), &House, &mut out);
        let negotiated = chosen(step);
        assert!(!negotiated.structured && !negotiated.allocation);
    }
}

/// May a client choose an export without TLS where TLS is offered but not required?
#[test]
fn offered_tls_can_be_left() {
    let mut handshake = begun(TlsMode::Offered);
    let (_, step) = handshake.take(&option(1, b"disk"), &House, &mut Vec::new());
    chosen(step);
}

/// Is TLS refused if there is none, and does the client stay connected?
#[test]
fn no_tls_is_policy() {
    let (out, step) = say(&[option(5, b"")]);
    assert_eq!(step, Step::More);
    assert_eq!(kinds(&out), [(5, (1 << 31) + 2)]);
    // If TLS is offered, the option is malformed when it has data.
    let (mut handshake, mut out) = (begun(TlsMode::Offered), Vec::new());
    handshake.take(&option(5, b"x"), &House, &mut out);
    assert_eq!(kinds(&out), [(5, (1 << 31) + 3)]);
}

/// Can an attacker in between put plain text in front of the session under TLS?
#[test]
fn plain_text_behind_starttls_is_the_end() {
    let injected = option(7, &wish("disk", &[]));
    let mut together = begun(TlsMode::Required);
    let input = [option(5, b""), injected.clone()].concat();
    let (_, step) = together.take(&input, &House, &mut Vec::new());
    assert_eq!(why(step), "plain text behind STARTTLS, before its answer");
    let mut apart = begun(TlsMode::Required);
    let (_, step) = apart.take(&option(5, b""), &House, &mut Vec::new());
    assert_eq!(step, Step::StartTls);
    let (_, step) = apart.take(&injected, &House, &mut Vec::new());
    assert_eq!(why(step), "plain text where TLS should begin");
}

/// Do clients learn that the server is stopping, and can they still leave?
#[test]
fn stopping() {
    let (mut handshake, mut out) = (begun(TlsMode::Off), Vec::new());
    handshake.stop();
    let options = [option(3, b""), option(7, &wish("disk", &[])), option(2, b"")];
    let (_, step) = handshake.take(&options.concat(), &House, &mut out);
    assert_eq!(step, Step::Closed(String::new()));
    assert_eq!(kinds(&out), [(3, (1 << 31) + 7), (7, (1 << 31) + 7), (2, 1)]);
}

/// Is a client cut off that speaks something else, or goes on for ever?
#[test]
fn strangers_and_bores() {
    let (_, step) = say(&[b"GET / HTTP/1.1\r\n".to_vec()]);
    assert_eq!(why(step), "0x474554202f204854 where an option should begin: 0x49484156454f5054");
    let mut handshake = begun(TlsMode::Off);
    for _ in 0..OPTIONS_MOST {
        let (_, step) = handshake.take(&option(8, b""), &House, &mut Vec::new());
        assert_eq!(step, Step::More);
    }
    let (_, step) = handshake.take(&option(2, b""), &House, &mut Vec::new());
    assert_eq!(why(step), "more than 1000 options");
}

/// Does a client that does not read its answers wait, and go on where it was?
#[test]
fn answers_must_be_read() {
    let (mut handshake, mut out) = (begun(TlsMode::Off), vec![0; ANSWERS_MOST]);
    let options = option(8, b"").repeat(500);
    assert_eq!(handshake.take(&options, &House, &mut out), (0, Step::More));
    out.truncate(ANSWERS_MOST - 1);
    // The output is full after one answer of 20 bytes.
    assert_eq!(handshake.take(&options, &House, &mut out), (16, Step::More));
    out.clear();
    let (taken, step) = handshake.take(&options[16..], &House, &mut out);
    assert_eq!((taken, step), (499 * 16, Step::More));
}

/// All that the server sends for an input that comes in these pieces, and how the handshake ends.
/// TLS, when it is begun, stands at once.
fn spoken(tls: TlsMode, input: &[u8], cuts: &[usize]) -> (Vec<u8>, Step, usize) {
    let mut handshake = Handshake::new(tls, false);
    let (mut said, mut from, mut most) = (Vec::new(), 0, 0);
    for to in cuts.iter().copied().chain([input.len()]) {
        loop {
            let mut out = Vec::new();
            let (taken, step) = handshake.take(&input[from..to.max(from)], &House, &mut out);
            said.extend_from_slice(&out);
            most = most.max(out.len());
            from += taken;
            match step {
                Step::More if taken == 0 || from >= to => break,
                Step::More => {}
                Step::StartTls => handshake.secured(),
                ended => return (said, ended, most),
            }
        }
    }
    (said, Step::More, most)
}

/// An option that is well or badly made.
fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec!["", "disk", "tape", "none", "ä"]);
    let queries = prop::collection::vec(
        prop::sample::select(vec!["base:", "base:allocation", "x-a:b", "none"]),
        0..3,
    );
    prop_oneof![
        1 => name.clone().prop_map(|name| option(1, name.as_bytes())),
        1 => Just(option(2, b"")),
        4 => prop::sample::select(vec![3, 8]).prop_map(|code| option(code, b"")),
        8 => (6u32..8, name.clone(), prop::collection::vec(0u16..5, 0..5))
            .prop_map(|(code, name, kinds)| option(code, &wish(name, &kinds))),
        8 => (9u32..11, name, queries)
            .prop_map(|(code, name, queries)| option(code, &query(name, &queries))),
        4 => (0u32..13, prop::collection::vec(any::<u8>(), 0..40))
            .prop_filter("TLS is another test", |(code, _)| *code != 5)
            .prop_map(|(code, data)| option(code, &data)),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (6u32..13).prop_map(|code| option(code, &[0; OPTION_MOST + 9])),
    ]
}

proptest! {
    /// However the input is cut: is the same said, and is the end the same?
    #[test]
    fn cuts_change_nothing(
        flags in 0u8..5,
        options in prop::collection::vec(any_option(), 0..8),
        mut cuts in prop::collection::vec(0usize..400, 0..20),
        required in prop::bool::weighted(0.1),
    ) {
        let tls = if required { TlsMode::Required } else { TlsMode::Off };
        let input = [vec![0, 0, 0, flags], options.concat()].concat();
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(input.len()));
        cuts.sort_unstable();
        let whole = spoken(tls, &input, &[]);
        let parts = spoken(tls, &input, &cuts);
        prop_assert_eq!((whole.0, whole.1), (parts.0, parts.1));
        let all: Vec<usize> = (0..input.len().min(300)).collect();
        let bytes = spoken(tls, &input, &all);
        prop_assert_eq!(bytes.0, spoken(tls, &input, &[]).0);
    }

    /// Whatever input comes, is there no panic, and is no more written at a time than there is room
    /// for?
    #[test]
    fn garbage_is_bounded(
        junk in prop::collection::vec(any::<u8>(), 0..200),
        options in prop::collection::vec(any_option(), 0..20),
        times in 1usize..200,
    ) {
        let input = [&FLAGS[..], &options.concat().repeat(times), &junk].concat();
        for tls in [TlsMode::Off, TlsMode::Offered, TlsMode::Required] {
            let (_, _, most) = spoken(tls, &input, &[]);
            // One answer beyond the limit; here no option has answers of more than 1 KiB.
            prop_assert!(most < ANSWERS_MOST + 1024);
        }
    }
}
