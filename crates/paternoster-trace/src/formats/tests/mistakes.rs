// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every mistake is named: file, line, the offending text and what would be valid.

use super::*;

/// Does each mistake give file, line, the offending text and what would be valid?
#[test]
fn mistakes_are_named() {
    let told = |format, text: &str| {
        let found = read_as(Some(format), text.as_bytes());
        assert_eq!(found.problems.count(), 1, "{text}");
        found.problems.shown()[0].to_string()
    };
    assert_eq!(
        told(Format::Msr, "1,hm,0,Read,0,512,1\n2,hm,0,Raed,0,512,1\n3,hm,0,Read,0,512,1\n"),
        "t:2: `Raed` is not `Read` or `Write`, in `2,hm,0,Raed,0,512,1`; a line is \
         `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`"
    );
    assert_eq!(
        told(Format::Spc, "0,8,512,r"),
        "t:1: a time in seconds is missing, in `0,8,512,r`; a line is \
         `ASU,LBA,Size,Opcode,Timestamp`"
    );
    assert_eq!(
        told(Format::Iolog, "8,0 Q\n"),
        "t:1: `8,0 Q` is not `fio version 2 iolog` or `fio version 3 iolog`; a line is \
         `[TIME_US] FILE ACTION [OFFSET LENGTH]`"
    );
    for (format, line, words) in [
        (Format::Msr, "1,hm,0,Read,0,512,1,1", "`1` is not the end of the line"),
        (Format::Msr, "999999999999999999,hm,0,Read,0,512,1", "below 2^64 ns"),
        (Format::Msr, "1,hm,0,Read,-1,512,1", "`-1` is not an offset in bytes"),
        (Format::Alibaba, "1,R,0,4294967296,1", "less than 4 GiB"),
        (Format::Alibaba, "1,T,0,1,1", "`T` is not `R` or `W`"),
        (Format::Tencent, "18446744073,1,1,0,1", "a time in whole seconds"),
        (Format::Tencent, "1,1,1,2,1", "`2` is not 0 (read) or 1 (write)"),
        (Format::Tencent, "1,1,8388608,1,1", "a length in sectors"),
        (Format::Systor, "1.5,x,R,0,0,512", "a response time in seconds"),
        (Format::K5, "1,2,R,0", "a length in bytes is missing"),
        (Format::CloudPhysics, "3,1,2a,512,1", "a version, 1 or 2"),
        (Format::CloudPhysics, "1,1,2aa,512,1", "a SCSI command"),
        (Format::Mqsim, "1 2 3 4 2", "0 (write) or 1 (read)"),
        (Format::Mqsim, "1 2 3 4 1 x", "the end of the line"),
        (Format::Disksim, "1.0 0 8 8 g", "flags, hexadecimal"),
        (Format::Validation, "R 5 8 8 1 1", "what the cache did"),
        (Format::Fiu, "1 2 p 3 4 R 4096 0", "below 2^12"),
        (Format::Fiu, "1 2 p 3 4 R 8 0 zzzzzzzzz", "a hash"),
        (Format::Startup, "xterm 0 8 1 Seq 0 0 R 1.0 C", "`xterm` is not a process"),
        (Format::Startup, "x-1 0 8 1 Sec 0 0 R 1.0 C", "`Seq` or `Rand`"),
        (Format::Biosnoop, "0.1 c 1 sda Q 8 512 0.1", "what blkparse calls an I/O"),
        (Format::Biosnoop, "0.1 sda W 8 512", "`W` is not a sector"),
        (Format::Blocks, "18014398509481984", "a sector, below 2^54"),
        (Format::Blkreplay, "0.5;8;8;X;0.0;0.0", "`X` is not what blkparse calls an I/O"),
        (Format::Blkreplay, "0.5;8;8;W;0.0", "a duration in seconds is missing"),
        (Format::Blkreplay, "0.5;8;8;W;0.0;0.0;1", "the end of the line"),
    ] {
        let message = told(format, line);
        assert!(message.contains(words), "{message}");
        assert!(message.starts_with("t:1: "), "{message}");
    }
    let three = "fio version 3 iolog\n0 f rename\n0 f wait 5 0\nx f read 0 1\n0 f read 0\n0 f\n";
    let found = read_as(None, three.as_bytes());
    assert_eq!((found.records.len(), found.problems.count()), (0, 5));
    let long = format!("{}\n0,8,512,r,0\n", "9".repeat(5000));
    let message = told(Format::Spc, &long);
    assert!(message.contains("more than 4096 bytes") && message.len() < 200, "{message}");
}
