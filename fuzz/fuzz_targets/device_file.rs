// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the device-file parser: no panic; a refusal says where; an accepted file works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_core::{Device, Nanos};
use paternoster_sim::{Description, Simulated};

fuzz_target!(|text: &str| {
    match Description::parse("fuzz.toml", text) {
        Ok(device) => {
            assert!(device.facts.depth >= 1 && device.facts.depth <= 10_240);
            // An idle device only lets time pass.
            let mut simulated = Simulated::new(device.model());
            assert_eq!(simulated.wait(Some(Nanos::from_secs(1))), None);
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml:")),
    }
});
