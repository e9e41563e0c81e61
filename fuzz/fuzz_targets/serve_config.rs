// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the server's configuration: no panic; a refusal says where; an accepted one is sound,
//! and stays sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_serve::config::rules::tenant_of;
use paternoster_serve::config::{Config, Identity};

fuzz_target!(|text: &str| {
    match Config::parse("fuzz.toml", text) {
        Ok(config) => {
            assert!(config.devices.iter().all(|device| !device.volumes.is_empty()));
            for (place, group) in config.groups.iter().enumerate() {
                let above =
                    |parent: &String| config.groups[..place].iter().any(|g| g.name == *parent);
                assert!(group.parent.as_ref().is_none_or(above));
            }
            let who = Identity { export: "a".to_owned(), uid: Some(0), ..Identity::default() };
            assert!(tenant_of(&config.rules, &who).len() <= 255);
            assert_eq!(config.clone().settle(), Ok(config));
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml")),
    }
});
