// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cliff past an SLC cache: of a drive with published figures, and of drawn drives.

use paternoster_core::{ClientId, Command, Device, Flags, Nanos, Op, Tag};
use paternoster_sim::{Description, Model, Simulated};
use proptest::prelude::*;

use crate::common::closed_loop::device;
use crate::ssd_figures::near;

type Drive = Simulated<Box<dyn Model>>;

/// Writes `mb` MB in commands of 512 KiB, two at a time; how long that takes, in us.
fn write(drive: &mut Drive, from_mb: u64, mb: u64) -> f64 {
    let began = drive.now();
    let command = |nth: u64| Command {
        tag: Tag::of_slot(u32::try_from(nth % 2).unwrap()),
        op: Op::Write,
        sector: from_mb * 1_000_000 / 512 + nth * 1024,
        sectors: 1024,
        flags: Flags::NONE,
        client: ClientId::NOBODY,
    };
    let count = mb * 1_000_000 / (512 << 10);
    for nth in 0..count {
        if nth >= 2 {
            let _of_either = drive.wait(None).expect("one ends");
        }
        drive.submit(command(nth)).expect("no more than two");
    }
    while drive.wait(None).is_some() {}
    f64::from(u32::try_from((drive.now() - began).0 / 1000).unwrap())
}

/// Tells how far a figure is from a measured one that nothing here was chosen for.
fn compare(what: &str, found: f64, measured: f64) {
    let off = (found / measured - 1.0) * 100.0;
    println!("{what}: {found:.1}, measured {measured:.1}: {off:+.1} %");
}

fn figure(drive: &Drive, name: &str) -> f64 {
    let figures = drive.model().figures();
    figures.iter().find(|figure| figure.name == name).expect(name).value
}

/// Does an 870 QVO of 4 TB write as stated (kitguru.net, 2020)? *Fitted*: 530 MB/s in the cache of
/// 78 GB, 160 past it. *Short*: 486.92 and 169.45 MB/s were measured there, so the model is 8.9 %
/// above and 5.7 % below; that is printed and judges nothing. After a minute without commands it
/// folded 59 s of 160 MB/s, 9.4 GB: the next 9.4 GB are fast again, which no source says.
#[test]
fn the_cliff_of_an_870_qvo() {
    let mut drive = Simulated::new(device("ssd-870qvo").model());
    let before = 70_000.0 / write(&mut drive, 0, 70_000) * 1e6;
    near("870 QVO MB/s in the cache, stated", before, 530.0, 1.0);
    compare("870 QVO MB/s in the cache", before, 486.92);
    let _to_its_end = write(&mut drive, 70_000, 12_000);
    let behind = 5_000.0 / write(&mut drive, 82_000, 5_000) * 1e6;
    near("870 QVO MB/s behind the cache, stated", behind, 160.0, 1.0);
    compare("870 QVO MB/s behind the cache", behind, 169.45);
    near("870 QVO SLC, GB", figure(&drive, "slc_held_bytes") / 1e9, 78.0, 0.1);
    assert_eq!(drive.wait(Some(drive.now() + Nanos::from_secs(60))), None);
    let again = 9_000.0 / write(&mut drive, 90_000, 9_000) * 1e6;
    near("870 QVO MB/s after a minute", again, before, 1.0);
    near("870 QVO folded, GB", figure(&drive, "slc_folded_bytes") / 1e9, 59.0 * 0.16, 1.0);
}

/// A drive whose link is no bottleneck: 4 dies, units of 64 KiB.
fn drawn(size_mb: u64, slow_us: u64, fast_us: u64, drain: u64, rest_ms: u64) -> Description {
    let text = format!(
        r#"
        name = "drawn"
        model = "ssd"
        summary = "drawn"
        valid = "here"
        [facts]
        capacity = {{ value = "8 GB", source = "drawn" }}
        depth = {{ value = 4, source = "drawn" }}
        [ssd]
        channels = {{ value = 4, source = "drawn" }}
        dies = {{ value = 4, source = "drawn" }}
        page = {{ value = "64 KiB", source = "drawn" }}
        read = {{ value = ["50 us"], source = "drawn" }}
        program = {{ value = "{slow_us} us", source = "drawn" }}
        channel_rate = {{ value = "9 GB/s", source = "drawn" }}
        link_rate = {{ value = "9 GB/s", source = "drawn" }}
        controller = {{ value = "1 us", source = "drawn" }}
        buffer = {{ value = "2 MB", source = "drawn" }}
        amplification = {{ value = "1", source = "drawn" }}
        flush = {{ value = "1 ms", source = "drawn" }}
        [slc]
        size = {{ value = "{size_mb} MB", source = "drawn" }}
        program = {{ value = "{fast_us} us", source = "drawn" }}
        drain = {{ value = "{drain} MB/s", source = "drawn" }}
        rest = {{ value = "{rest_ms} ms", source = "drawn" }}
        "#
    );
    Description::parse("drawn.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Do drawn drives take the time of their programs before and past the cliff, within 2 % either
    /// way plus what a buffer of 2 MB holds back; and is as much fast after a quiet time as was
    /// folded? Four dies at 64 KiB each: a MB takes 1e6 / 65,536 / 4 = 3.815 programs.
    #[test]
    fn time_is_that_of_both_rates(
        size_mb in 100u64..400, fast_us in 100u64..300, times in 2u64..9, drain in 50u64..500,
        rest_ms in 0u64..900, quiet_ms in 0u64..3000
    ) {
        let description = drawn(size_mb, fast_us * times, fast_us, drain, rest_ms);
        let mut drive = Simulated::new(description.model());
        let real = |number: u64| f64::from(u32::try_from(number).unwrap());
        let programs = |mb: f64| mb * 1e6 / 65_536.0 / 4.0;
        let slow = real(fast_us * times);
        let expected = |fast_mb: f64, mb: f64| {
            programs(fast_mb) * real(fast_us) + programs(mb - fast_mb) * slow
        };
        let took = write(&mut drive, 0, 600);
        let held_back = programs(2.5) * slow;
        let whole = expected(real(size_mb), 600.0);
        prop_assert!((took - whole).abs() <= 0.02 * whole + held_back, "{took} {whole}");
        prop_assert!((figure(&drive, "slc_held_bytes") - real(size_mb) * 1e6).abs() < 70_000.0);

        assert_eq!(drive.wait(Some(drive.now() + Nanos::from_millis(quiet_ms))), None);
        let took = write(&mut drive, 1000, 600);
        let folded = (real(drain) * real(quiet_ms.saturating_sub(rest_ms)) / 1000.0)
            .min(real(size_mb));
        let whole = expected(folded, 600.0);
        prop_assert!((took - whole).abs() <= 0.02 * whole + held_back, "{took} {whole}");
        prop_assert!((figure(&drive, "slc_folded_bytes") - folded * 1e6).abs() < 70_000.0);
        let host = figure(&drive, "host_bytes");
        let amplification = 1.0 + figure(&drive, "slc_folded_bytes") / host;
        prop_assert!((figure(&drive, "write_amplification") - amplification).abs() < 1e-9);
    }
}
