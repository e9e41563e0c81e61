// SPDX-License-Identifier: MIT OR Apache-2.0
//! Are callers that are wrong, late or impatient answered properly?

use paternoster_disk::{Device, Disk, Image, Nanos, Next, Op, Refusal};

fn ssd() -> Device {
    Device::named("ssd-870evo").unwrap()
}

/// Does each refusal say what is wrong, and leave the disk as it was?
#[test]
fn refusals() {
    let mut disk = Disk::new(&ssd(), 1);
    let capacity = ssd().capacity();
    let now = Nanos::from_millis(1);
    assert_eq!(disk.next(now), Next::Idle);
    for (offset, len, refusal) in [
        (1, 512, Refusal::Unaligned),
        (0, 100, Refusal::Unaligned),
        (0, 0, Refusal::Unaligned),
        (capacity, 512, Refusal::BeyondEnd { capacity }),
        (u64::MAX - 511, 512, Refusal::BeyondEnd { capacity }),
        (0, (1 << 30) + 512, Refusal::TooLong),
    ] {
        assert_eq!(disk.submit(now, Op::Read, offset, len), Err(refusal));
    }
    assert_eq!(disk.submit(now, Op::Write, 0, 512), Err(Refusal::NoData));
    assert_eq!(disk.submit(Nanos::ZERO, Op::Read, 0, 512), Err(Refusal::Past { latest: now }));
    assert_eq!(disk.write(now, 0, &[], false), Err(Refusal::Unaligned));
    assert_eq!((disk.under_way(), disk.next(now)), (0, Next::Idle));
    assert_eq!(Refusal::Past { latest: now }.to_string(), "it was 1 ms already");
    // The first one accepted still gets number 1.
    assert_eq!(disk.submit(now, Op::Read, capacity - 512, 512).unwrap().number(), 1);
}

/// Does a queue of two take as many as the device and two more, and go on when one has ended?
#[test]
fn a_full_queue() {
    let mut disk = Disk::new(&ssd().queue(2), 1);
    let depth = u64::from(ssd().depth());
    let read = |disk: &mut Disk, place: u64| {
        disk.submit(disk.now(), Op::Read, place * 4096, 4096).map(|id| id.number())
    };
    for place in 1..=depth + 2 {
        assert_eq!(read(&mut disk, place), Ok(place));
    }
    assert_eq!(read(&mut disk, 99), Err(Refusal::Full));
    disk.wait().unwrap();
    assert_eq!(read(&mut disk, 99), Ok(depth + 3));
}

/// Is an operation longer than a device command still one operation: 3 MiB in three commands of at
/// most 1280 KiB?
#[test]
fn long_operations() {
    let mut disk = Disk::new(&ssd(), 1);
    let data: Vec<u8> =
        (0..3u32 << 20).map(|byte| u8::try_from(byte / 4096 % 251).unwrap()).collect();
    disk.write(Nanos::ZERO, 4096, &data, true).unwrap();
    let write = disk.wait().unwrap();
    assert_eq!((write.len, disk.wait()), (3 << 20, None));
    disk.submit(write.at, Op::Read, 4096, 3 << 20).unwrap();
    disk.wait().unwrap();
    assert!(disk.data() == data);
    let image = disk.crash(disk.now(), 3);
    let mut found = vec![0; 3 << 20];
    image.read(4096, &mut found);
    assert!(found == data, "it had forced unit access, and the device has none");
    // The disk itself goes on with what the crash left, and so does another one.
    for mut disk in [disk, Disk::with_image(&ssd(), 9, image)] {
        disk.submit(disk.now(), Op::Read, 4096, 3 << 20).unwrap();
        disk.wait().unwrap();
        assert!(disk.data() == data);
    }
}

/// Does a caller that comes late get the same answers as one that is always there?
#[test]
fn late_callers_are_told_the_same() {
    let ends = |ask_every: u64| {
        let mut disk = Disk::new(&ssd().without_data(), 1);
        let mut ends = Vec::new();
        for place in 0..500u64 {
            let now = Nanos(place * 7_000);
            disk.submit(now, Op::Read, place % 97 * 8192, 4096).unwrap();
            while place.is_multiple_of(ask_every)
                && let Next::Done(done) = disk.next(now)
            {
                ends.push(done);
            }
        }
        ends.extend(std::iter::from_fn(|| disk.wait()));
        ends
    };
    assert_eq!(ends(1), ends(499));
    assert_eq!(ends(1).len(), 500);
}

/// Does a disk without data give only times?
#[test]
fn without_data() {
    let mut disk = Disk::new(&ssd().without_data(), 1);
    disk.submit(Nanos::ZERO, Op::Write, 0, 4096).unwrap();
    disk.write(Nanos::ZERO, 0, &[1; 512], true).unwrap();
    disk.submit(Nanos::ZERO, Op::Read, 0, 4096).unwrap();
    while disk.wait().is_some() {
        assert!(disk.data().is_empty());
    }
    assert!(disk.crash(disk.now(), 1) == Image::new());
    let why = disk.episode("torn").unwrap_err().to_string();
    assert_eq!(why, "the rule `torn`: this disk keeps no data");
}

/// Does the error for an unknown device suggest the intended one, and that for a wrong file its
/// line?
#[test]
fn devices_are_named_or_parsed() {
    let why = Device::named("ssd-870evi").unwrap_err().to_string();
    assert!(why.contains("did you mean `ssd-870evo`?"), "{why}");
    let why = Device::parse("mine.toml", "name = 3").unwrap_err().to_string();
    assert!(why.starts_with("mine.toml:1: "), "{why}");
    for name in Device::names() {
        let device = Device::named(name).unwrap();
        let mut disk = Disk::new(&device, 1);
        disk.write(Nanos::ZERO, 0, &[7; 4096], false).unwrap();
        disk.submit(Nanos::ZERO, Op::Discard, 8192, 4096).unwrap();
        disk.submit(Nanos::ZERO, Op::Flush, 0, 0).unwrap();
        let ended = std::iter::from_fn(|| disk.wait()).count();
        assert_eq!(ended, 3, "{name}");
    }
}

/// Can a simulator move a disk from one thread to another?
#[test]
fn disks_are_sent() {
    const fn is_sent<T: Send>() {}
    is_sent::<Disk>();
    is_sent::<Image>();
}

/// Does an image hold the bytes written, anywhere, and equal another with the same bytes?
#[test]
fn images_are_bytes() {
    let mut image = Image::new();
    image.write(4000, &[5; 200]);
    let mut found = [9; 300];
    image.read(3950, &mut found);
    let expected: Vec<u8> =
        (0..300).map(|at| if (50..250).contains(&at) { 5 } else { 0 }).collect();
    assert_eq!(found.as_slice(), expected);
    let mut other = image.clone();
    other.write(1 << 40, &[0; 10]);
    other.read(u64::MAX - 9, &mut [1; 20]);
    assert!(image == other && image.digest() == other.digest(), "zeroes are what was there");
    other.write(4100, &[6]);
    assert!(image != other && image.digest() != other.digest());
    assert_eq!(image.pieces().map(|(offset, _)| offset).collect::<Vec<_>>(), [0, 4096]);
}

/// Do writes into an image that cross pages, at any offset, read back as from a plain array?
#[test]
fn an_image_is_an_array() {
    let (mut image, mut array) = (Image::new(), vec![0_u8; 1 << 15]);
    let mut chance = 1_u64;
    let mut below = |most: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(chance >> 33).unwrap() % most
    };
    for round in 0..200 {
        let from = below(array.len() - 1);
        let len = 1 + below((array.len() - from).min(10_000));
        let data: Vec<u8> = (0..len).map(|_| u8::try_from(below(256)).unwrap()).collect();
        image.write(from as u64, &data);
        array[from..from + len].copy_from_slice(&data);
        let (from, len) = (below(array.len() / 2), below(array.len() / 2));
        let mut found = vec![9; len];
        image.read(from as u64, &mut found);
        assert_eq!(found, array[from..from + len], "round {round}");
    }
}
