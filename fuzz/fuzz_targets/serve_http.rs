// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the HTTP head: no panic; an answer is one head with the right length, and too long a
//! head is answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_serve::control::http::reply;
use paternoster_serve::device_loop::DeviceLoopHandle;

fuzz_target!(|bytes: &[u8]| {
    let device_loop = DeviceLoopHandle::new("disk0".to_owned(), vec!["a".to_owned()], |order| {
        Err(format!("{order:?}"))
    });
    let Some(reply) = reply(bytes, &[device_loop]) else {
        assert!(bytes.len() < 8 << 10);
        return;
    };
    let reply = String::from_utf8(reply).expect("text");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 ") && head.is_ascii());
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
    assert!(body.len() == length || (body.is_empty() && bytes.starts_with(b"HEAD ")));
});
