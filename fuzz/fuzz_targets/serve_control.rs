// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the language of the control socket: no panic, refusals that are short and say
//! something, orders within their bounds; and every answer is one line of JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_serve::config::ServiceClass;
use paternoster_serve::control::answer::answer;
use paternoster_serve::control::order::{Answer, Order};
use paternoster_serve::control::request::{MAX_LEVEL, MAX_WEIGHT, What, parse};
use paternoster_serve::control::server::Host;
use paternoster_serve::device_loop::DeviceLoopHandle;

/// A server that does nothing.
struct Idle;

impl Host for Idle {
    fn stop(&self) {}

    fn reload(&self) -> Answer {
        Err("there is no configuration".to_owned())
    }
}

fuzz_target!(|line: &[u8]| {
    let request = match parse(line) {
        Ok(request) => request,
        Err(message) => {
            assert!(!message.is_empty() && message.len() < 2000);
            return;
        }
    };
    match &request.what {
        What::Order(Order::Weight { weight, .. }) => assert!((1..=MAX_WEIGHT).contains(weight)),
        What::Order(Order::Class { class, level, .. }) => {
            assert!(*level <= MAX_LEVEL);
            if let ServiceClass::Background { minimum } = class {
                assert!(*minimum <= 1000);
            }
        }
        What::Order(Order::Trace { prefix: Some(prefix) }) => assert!(prefix.is_absolute()),
        _ => {}
    }
    let device_loop = DeviceLoopHandle::new("disk0".to_owned(), vec!["a".to_owned()], |order| {
        Err(format!("{order:?}"))
    });
    let said = answer(&[device_loop], &Idle, &request).to_string();
    assert!(said.starts_with('{') && !said.contains('\n'));
});
