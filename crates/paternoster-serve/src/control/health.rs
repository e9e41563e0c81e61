// SPDX-License-Identifier: MIT OR Apache-2.0
//! Health: whether each device is well, and why not, in sentences.
//!
//! | it is not well | for |
//! |---|---|
//! | its thread does not answer | as long as that is so |
//! | a flush failed | until the server is started anew |
//! | a command is in the device for 10 s or more | as long as that is so |
//! | it failed a command | 60 s |
//! | the server stops | |

use super::snapshot::Snapshot;

/// A command that takes longer hangs.
const HANGS: u64 = 10;
/// The server is unhealthy for this long after an error.
const RECENT: u64 = 60;

/// Whether all are well; and a line for each, or for each that is not.
pub(super) fn told(devices: &[(String, Result<Snapshot, String>)]) -> (bool, String) {
    let said = |(name, snapshot): &(String, Result<Snapshot, String>)| match snapshot {
        Err(why) => Err(format!("{name}: {why}\n")),
        Ok(snapshot) => match complaint(snapshot) {
            Some(why) => Err(format!("{name}: {why}\n")),
            None => Ok(format!(
                "{name}: {}, {} connections, {} of {} commands in the device\n",
                snapshot.scheduler,
                snapshot.connections.len(),
                snapshot.in_device,
                snapshot.depth
            )),
        },
    };
    let (well, ill): (Vec<_>, Vec<_>) = devices.iter().map(said).partition(Result::is_ok);
    if ill.is_empty() {
        let lines: String = well.into_iter().flatten().collect();
        return (true, format!("ok\n{lines}"));
    }
    (false, ill.into_iter().filter_map(Result::err).collect())
}

fn complaint(s: &Snapshot) -> Option<String> {
    if s.lost {
        let why = "a flush failed: data that were acknowledged may be lost, and every flush is \
                   told so until the server is started anew";
        return Some(why.to_owned());
    }
    let oldest = s.oldest_command_ns / 1_000_000_000;
    if oldest >= HANGS {
        let count = s.in_device;
        return Some(format!("it hangs: of {count} commands the oldest is in it for {oldest} s"));
    }
    if let Some(error) = &s.last_error {
        let ago = error.ago_ns / 1_000_000_000;
        if ago < RECENT {
            let count: u64 = s.errors.values().sum();
            let what = &error.what;
            return Some(format!("{count} commands have failed, the last one {ago} s ago: {what}"));
        }
    }
    s.stopping.then(|| "the server stops".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::snapshot::LastError;

    fn well() -> Snapshot {
        Snapshot { scheduler: "bfq".to_owned(), depth: 32, ..Snapshot::default() }
    }

    fn of(snapshot: Snapshot) -> (bool, String) {
        told(&[("disk0".to_owned(), Ok(snapshot))])
    }

    fn failed(seconds: u64) -> Snapshot {
        let what = "vm1: read of 4096 bytes at 0 failed: EIO".to_owned();
        let last_error = Some(LastError { ago_ns: seconds * 1_000_000_000, what });
        Snapshot { errors: [(libc::EIO, 20), (libc::ENOSPC, 7)].into(), last_error, ..well() }
    }

    /// Is a device well that has served long enough since its last error, and whose commands take
    /// less than ten seconds?
    #[test]
    fn what_is_well() {
        let told = "ok\ndisk0: bfq, 0 connections, 0 of 32 commands in the device\n";
        assert_eq!(of(well()), (true, told.to_owned()));
        assert_eq!(of(failed(60)), (true, told.to_owned()));
        let slow = Snapshot { oldest_command_ns: 9_999_999_999, ..well() };
        assert!(of(slow).0);
    }

    /// Is each fault reported, in a sentence that says why, and nothing of those devices that are?
    #[test]
    fn what_is_not_well() {
        let why = "disk0: 27 commands have failed, the last one 59 s ago: vm1: read of 4096 bytes \
                   at 0 failed: EIO\n";
        assert_eq!(of(failed(59)), (false, why.to_owned()));
        let hangs = Snapshot { oldest_command_ns: 31_000_000_000, in_device: 2, ..well() };
        let why = "disk0: it hangs: of 2 commands the oldest is in it for 31 s\n";
        assert_eq!(of(hangs), (false, why.to_owned()));
        let stops = Snapshot { stopping: true, ..well() };
        assert_eq!(of(stops), (false, "disk0: the server stops\n".to_owned()));
        let lost = Snapshot { lost: true, ..failed(1) };
        assert!(of(lost).1.starts_with("disk0: a flush failed: "));
        let all = [("a".to_owned(), Ok(well())), ("b".to_owned(), Err("no answer".to_owned()))];
        assert_eq!(told(&all), (false, "b: no answer\n".to_owned()));
    }
}
