// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the NBD handshake: no panic, bounded answers, and the same answers however the input
//! is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paternoster_serve::config::TlsMode;
use paternoster_serve::nbd::handshake::ANSWERS_MOST;
use paternoster_serve::nbd::{Absent, ExportFacts, Exports, Handshake, Step};

struct House;

impl Exports for House {
    fn list(&self) -> Vec<(String, String)> {
        vec![("a".to_owned(), "text".to_owned()), ("b".to_owned(), String::new())]
    }

    fn find(&self, name: &str) -> Result<ExportFacts, Absent> {
        let name = match name {
            "" | "a" => "a",
            "b" => "b",
            "c" => return Err(Absent::Closed),
            _ => return Err(Absent::Unknown),
        };
        let description = "text".to_owned();
        let (size, block, most) = (1 << 20, 512, 32 << 20);
        let name = name.to_owned();
        let preferred = 4096;
        Ok(ExportFacts { name, description, size, block, preferred, most, ..Default::default() })
    }
}

/// The answers to the input if at most `piece` new bytes come at a time, and how it ends.
fn spoken(tls: TlsMode, input: &[u8], piece: usize) -> (Vec<u8>, Step) {
    let mut handshake = Handshake::new(tls, false);
    let (mut said, mut from, mut to) = (Vec::new(), 0, 0);
    loop {
        let mut out = Vec::new();
        let (taken, step) = handshake.take(&input[from..to], &House, &mut out);
        assert!(out.len() < ANSWERS_MOST + 4096);
        said.extend_from_slice(&out);
        from += taken;
        match step {
            Step::More if taken > 0 => {}
            Step::More if to == input.len() => return (said, Step::More),
            Step::More => to = input.len().min(to + piece),
            // After STARTTLS, the cut changes the words of the refusal.
            Step::StartTls if from < input.len() => return (said, Step::StartTls),
            Step::StartTls => handshake.secured(),
            Step::Closed(why) if why.starts_with("plain text") => return (said, Step::StartTls),
            ended => return (said, ended),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, input)) = data.split_first() else { return };
    let tls = [TlsMode::Off, TlsMode::Offered, TlsMode::Required][usize::from(first % 3)];
    let whole = spoken(tls, input, usize::MAX >> 1);
    let parts = spoken(tls, input, usize::from(first / 3) + 1);
    assert_eq!(whole, parts);
});
