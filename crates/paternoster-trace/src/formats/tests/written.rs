// SPDX-License-Identifier: MIT OR Apache-2.0
//! Written traces are read again, and match other projects' tools.

use super::*;

/// Is a trace that is written and read again the same, except for what the form cannot hold?
#[test]
fn what_is_written_is_read_again() {
    let text = "128166372003061629,hm,0,Read,9748688896,4096,46528\n\
                128166372003061639,hm,1,Write,8192,512,100\n\
                128166372003061700,hm,0,Write,4096,512,7\n";
    let mut out = Vec::new();
    let written = write_msr(&mut *open("t", text.as_bytes(), None).unwrap(), &mut out).unwrap();
    assert_eq!(written, Written { ios: 3, left_out: 0 });
    // From 1970 on: 116444736000000000, and 10 and 71 hundreds of nanoseconds later.
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "116444736000000000,hm,0,Read,9748688896,4096,46528\n\
         116444736000000010,hm,1,Write,8192,512,100\n\
         116444736000000071,hm,0,Write,4096,512,7\n"
    );
    let again = read_as(None, &out);
    assert_eq!(again.records, read(text).records);

    let mut out = Vec::new();
    let written = write_iolog(&mut *open("t", text.as_bytes(), None).unwrap(), &mut out).unwrap();
    assert_eq!(written, Written { ios: 3, left_out: 0 });
    // 1000 ns and 7100 ns are 1 and 7 us.
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "fio version 3 iolog\n0 hm_0 add\n0 hm_0 open\n0 hm_0 read 9748688896 4096\n\
         1 hm_1 add\n1 hm_1 open\n1 hm_1 write 8192 512\n7 hm_0 write 4096 512\n\
         7 hm_0 close\n7 hm_1 close\n"
    );
    let log = read_as(None, &out);
    let arrivals = |records: &[Record]| -> Vec<(u64, u32)> {
        let queued = records.iter().filter(|record| record.code == Code::QUEUE);
        queued.map(|record| (record.sector, record.bytes)).collect()
    };
    assert_eq!(arrivals(&log.records), arrivals(&again.records));
}

/// Are flushes, trims and devices without names written as fio has them, and merged bios ended?
#[test]
fn kernels_traces_are_written() {
    let io =
        |code, at, kind, extent| Record { sequence: 1, ..record(code, at, kind, extent, (8, 16)) };
    let records = [
        io(Code::QUEUE, 0, C::READ, (8, 512)),
        io(Code::QUEUE, 1000, C::READ, (9, 512)),
        io(Code::BACK_MERGE, 1000, C::READ, (9, 512)),
        io(Code::QUEUE, 2000, C::FLUSH, (0, 0)),
        io(Code::QUEUE, 3000, C::FLUSH | C::WRITE, (64, 4096)),
        io(Code::QUEUE, 4000, C::DISCARD | C::WRITE, (128, 4096)),
        io(Code::QUEUE, 5000, C::PASSTHROUGH, (0, 96)),
        io(Code::ISSUE, 6000, C::READ, (8, 1024)),
        io(Code::COMPLETE, 9000, C::READ, (8, 1024)),
    ];
    let bytes: Vec<u8> = records.iter().flat_map(|record| record.encode(0)).collect();
    let mut out = Vec::new();
    let written = write_iolog(&mut *open("t", &bytes[..], None).unwrap(), &mut out).unwrap();
    assert_eq!(written, Written { ios: 5, left_out: 1 });
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "fio version 3 iolog\n0 device-8-16 add\n0 device-8-16 open\n\
         0 device-8-16 read 4096 512\n1 device-8-16 read 4608 512\n2 device-8-16 sync 0 0\n\
         3 device-8-16 sync 0 0\n3 device-8-16 write 32768 4096\n\
         4 device-8-16 trim 65536 4096\n4 device-8-16 close\n"
    );
    let mut out = Vec::new();
    let written = write_msr(&mut *open("t", &bytes[..], None).unwrap(), &mut out).unwrap();
    // No flush, no discard, no command. The write never completes; the reads do at 9 us.
    assert_eq!(written, Written { ios: 3, left_out: 3 });
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "116444736000000000,dev8,16,Read,4096,512,90\n\
         116444736000000010,dev8,16,Read,4608,512,80\n\
         116444736000000030,dev8,16,Write,32768,4096,0\n"
    );
}
