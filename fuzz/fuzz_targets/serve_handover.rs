// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of the messages to a process that takes over: no panic, no memory beyond the input's
//! size, and a refusal that says something. (Descriptors do not come by bytes: `handover/tests.rs`
//! draws them.)
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;
use paternoster_serve::handover::Takeover;

fuzz_target!(|bytes: &[u8]| {
    let Ok((mut one, other)) = UnixStream::pair() else { return };
    // As much as the socket takes, without waiting.
    let _full = one.set_nonblocking(true);
    let _taken = one.write(bytes);
    let _closed = one.shutdown(Shutdown::Write);
    if let Err(why) = Takeover::only_hear(other) {
        assert!(!why.is_empty() && why.len() < 2000);
    }
});
