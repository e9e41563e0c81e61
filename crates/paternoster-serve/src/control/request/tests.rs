// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which requests are understood, and the messages for those that are not.

use proptest::prelude::*;

use super::*;

fn order(line: &str) -> Order {
    match parse(line.as_bytes()) {
        Ok(Request { device: None, what: What::Order(order) }) => order,
        other => panic!("{line}: {other:?}"),
    }
}

fn name(text: &str) -> String {
    text.to_owned()
}

/// Does every sentence mean what the documentation says?
#[test]
fn sentences() {
    let kernel = ServiceClass::Kernel;
    for (line, expected) in [
        (r#"{"do":"snapshot"}"#, Order::Snapshot),
        (
            r#" {"do" : "weight", "name":"db","weight":300} "#,
            Order::Weight { name: name("db"), weight: 300 },
        ),
        (
            r#"{"do":"class","name":"db","class":"background","minimum":"5%","level":0}"#,
            Order::Class {
                name: name("db"),
                class: ServiceClass::Background { minimum: 50 },
                level: 0,
            },
        ),
        (
            r#"{"do":"class","name":"db","class":"realtime"}"#,
            Order::Class { name: name("db"), class: kernel(Class::Realtime), level: 4 },
        ),
        (
            r#"{"do":"class","level":7,"class":"idle","name":"db"}"#,
            Order::Class { name: name("db"), class: kernel(Class::Idle), level: 7 },
        ),
        (
            r#"{"do":"class","class":"best-effort","name":"db"}"#,
            Order::Class { name: name("db"), class: kernel(Class::BestEffort), level: 4 },
        ),
        (r#"{"do":"scheduler","name":"bfq"}"#, Order::Scheduler { name: name("bfq") }),
        (r#"{"do":"attributes"}"#, Order::Attributes),
        (
            r#"{"do":"get","attribute":"slice_idle"}"#,
            Order::Attribute { name: name("slice_idle"), value: None },
        ),
        (
            r#"{"do":"set","attribute":"slice_idle","value":"0"}"#,
            Order::Attribute { name: name("slice_idle"), value: Some(name("0")) },
        ),
        (
            r#"{"do":"set","attribute":"slice_idle","value":8}"#,
            Order::Attribute { name: name("slice_idle"), value: Some(name("8")) },
        ),
        (r#"{"do":"drain","volume":"disk0"}"#, Order::Drain { volume: name("disk0") }),
        (r#"{"do":"resume","volume":"disk0"}"#, Order::Resume { volume: name("disk0") }),
        (r#"{"do":"explain"}"#, Order::Explain { tenant: None }),
        (r#"{"do":"explain","tenant":"db"}"#, Order::Explain { tenant: Some(name("db")) }),
        (r#"{"do":"trace","prefix":"/tmp/x"}"#, Order::Trace { prefix: Some("/tmp/x".into()) }),
        (r#"{"do":"trace","stop":true}"#, Order::Trace { prefix: None }),
    ] {
        assert_eq!(order(line), expected, "{line}");
    }
    let of_server = |line: &str| parse(line.as_bytes()).map(|request| request.what);
    assert_eq!(of_server(r#"{"do":"help"}"#), Ok(What::Help));
    assert_eq!(of_server(r#"{"do":"list"}"#), Ok(What::List));
    assert_eq!(of_server(r#"{"do":"stop"}"#), Ok(What::Stop));
}

/// Is the device taken where a form has one?
#[test]
fn a_device() {
    let request = parse(br#"{"do":"scheduler","device":"disk0","name":"bfq"}"#).expect("right");
    assert_eq!(request.device.as_deref(), Some("disk0"));
}

/// Does every refusal name the field, its value and what would be right?
#[test]
fn refusals() {
    for (line, message) in [
        (
            "",
            "EOF while parsing a value at column 0; a line is one JSON object, as \
             {\"do\":\"help\"}",
        ),
        ("hello", "expected value at column 1; a line is one JSON object, as {\"do\":\"help\"}"),
        (
            "[1]",
            "invalid type: sequence, expected a JSON object at column 0; a line is one JSON \
             object, as {\"do\":\"help\"}",
        ),
        (
            r#"{"do":"list"} x"#,
            "trailing characters at column 15; a line is one JSON object, as {\"do\":\"help\"}",
        ),
        (
            r#"{"name":"db"}"#,
            "there is no field \"do\": it says what to do, one of help, list, snapshot, weight, \
             class, scheduler, attributes, get, set, drain, resume, explain, trace, reload, save, \
             handover, stop",
        ),
        (r#"{"do":7}"#, "field \"do\" is 7: it takes a text"),
        (
            r#"{"do":"weight","name":"db","weight":0}"#,
            "field \"weight\" is 0: it takes a whole number from 1 to 10000",
        ),
        (
            r#"{"do":"weight","name":"db","weight":10001}"#,
            "field \"weight\" is 10001: it takes a whole number from 1 to 10000",
        ),
        (
            r#"{"do":"weight","name":"db","weight":-1}"#,
            "field \"weight\" is -1: it takes a whole number from 1 to 10000",
        ),
        (
            r#"{"do":"weight","name":"db","weight":"300"}"#,
            "field \"weight\" is \"300\": it takes a whole number from 1 to 10000",
        ),
        (
            r#"{"do":"weight","name":"db"}"#,
            "\"weight\" wants the field \"weight\": a whole number from 1 to 10000",
        ),
        (
            r#"{"do":"weight","weight":5}"#,
            "\"weight\" wants the field \"name\": a tenant or a group",
        ),
        (
            r#"{"do":"weight","name":null,"weight":5}"#,
            "field \"name\" is null: it takes a tenant or a group",
        ),
        (
            r#"{"do":"weight","nmae":"db","weight":5}"#,
            "there is no field \"nmae\" in \"weight\": it takes name, weight, device",
        ),
        (
            r#"{"do":"stop","device":"a"}"#,
            "there is no field \"device\" in \"stop\": it takes no fields",
        ),
        (
            r#"{"do":"class","name":"db","class":"best"}"#,
            "field \"class\" is \"best\": it takes best-effort, realtime, idle or background",
        ),
        (
            r#"{"do":"class","name":"db","class":"idle","minimum":"5%"}"#,
            "field \"minimum\" is for class background, not for idle",
        ),
        (
            r#"{"do":"class","name":"db","class":"background","minimum":"5"}"#,
            "field \"minimum\" is \"5\": it takes a percentage like 5%, for background",
        ),
        (
            r#"{"do":"class","name":"db","class":"idle","level":8}"#,
            "field \"level\" is 8: it takes a whole number from 0 to 7",
        ),
        (
            r#"{"do":"trace","prefix":"x"}"#,
            "field \"prefix\" is \"x\": it takes an absolute path: begins PREFIX.blktrace.0",
        ),
        (r#"{"do":"trace"}"#, "\"trace\" wants either \"prefix\", to begin, or \"stop\": true"),
        (r#"{"do":"trace","stop":1}"#, "field \"stop\" is 1: it takes true or false"),
        (
            r#"{"do":"list","do":"list"}"#,
            "field \"do\" stands twice at column 17; a line is one JSON object, as \
             {\"do\":\"help\"}",
        ),
        (
            r#"{"do":{"do":{}}}"#,
            "field \"do\": invalid type: map, expected a text, a number, true or false at column \
             7; a line is one JSON object, as {\"do\":\"help\"}",
        ),
    ] {
        let Err(said) = parse(line.as_bytes()) else { panic!("{line} is understood") };
        assert_eq!(said, message, "{line}");
    }
}

/// Is what is long, deep or wide refused with a short message?
#[test]
fn bounds() {
    let long = format!(r#"{{"do":"{}"}}"#, "x".repeat(LINE_LIMIT));
    assert_eq!(parse(long.as_bytes()), Err("the line is longer than 65536 bytes".to_owned()));
    let wide: Vec<String> = (0..17).map(|i| format!("\"{i}\":0")).collect();
    let wide = parse(format!("{{{}}}", wide.join(",")).as_bytes()).expect_err("too many");
    assert!(wide.starts_with("more than 16 fields"), "{wide}");
    let deep = format!(r#"{{"do":{}"#, "[".repeat(60_000));
    let deep = parse(deep.as_bytes()).expect_err("a list");
    assert!(deep.starts_with("field \"do\": invalid type: sequence"), "{deep}");
    let text =
        parse(format!(r#"{{"do":"{}"}}"#, "é".repeat(1000)).as_bytes()).expect_err("unknown");
    assert!(text.len() < 400, "{text}");
}

/// What do percentages mean?
#[test]
fn percentages() {
    // 5 % are 50 thousandths, 2.5 % are 25.
    for (text, expected) in [
        ("5%", Some(50)),
        ("2.5%", Some(25)),
        ("0%", Some(0)),
        ("100%", Some(1000)),
        ("100.1%", None),
        ("101%", None),
        ("2.55%", None),
        ("5", None),
        ("%", None),
        (".5%", None),
        ("+5%", None),
        ("99999999999%", None),
    ] {
        assert_eq!(thousandths(text), expected, "{text}");
    }
}

proptest! {
    /// Does any text, and anything near to a sentence, get an answer within bounds?
    #[test]
    fn anything_gets_an_answer(garbage in ".{0,200}", cut in 0_usize..90, at in any::<u8>()) {
        let _ = parse(garbage.as_bytes());
        let right = br#"{"do":"class","name":"db","class":"background","minimum":"5%","level":4}"#;
        let mut near = right.to_vec();
        let place = cut % near.len();
        near[place] = at;
        if let Err(message) = parse(&near) {
            prop_assert!(!message.is_empty() && message.len() < 1000);
        }
        let _ = parse(&right[..place]);
    }
}
