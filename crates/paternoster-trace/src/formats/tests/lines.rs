// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of each format: every field where it belongs.

use super::*;

/// MSR: are arrival, response, host and disk where they belong?
#[test]
fn msr_lines_are_read() {
    let found = read(
        "128166372003061629,hm,0,Read,9748688896,4096,46528\n\
         128166372013061629,hm,1,Write,8192,512,100\n",
    );
    // 9748688896 / 512 = 19040408; 46528 * 100 ns = 4.6528 ms; 10_000_000 * 100 ns later: 1 s.
    let (read, write) = ((19_040_408, 4096), (16, 512));
    let second = 1_000_000_000;
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, read, (240, 0)),
            record(Code::ISSUE, 0, C::READ, read, (240, 0)),
            record(Code::COMPLETE, 4_652_800, C::READ, read, (240, 0)),
            record(Code::QUEUE, second, C::WRITE, write, (240, 1)),
            record(Code::ISSUE, second, C::WRITE, write, (240, 1)),
            record(Code::COMPLETE, second + 10_000, C::WRITE, write, (240, 1)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("hm_0"));
    assert_eq!(found.devices[5].as_deref(), Some("hm_1"));
}

/// SPC: are blanks and further fields no matter, and lines put in order?
#[test]
fn spc_lines_are_read() {
    let found =
        read("0,303567,3584,w,0.000000\n2, 20941264 ,8192,R , 0.551706, x\n1,8,512,r,0.026214\n");
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (303_567, 3584), (240, 0)),
            record(Code::QUEUE, 26_214_000, C::READ, (8, 512), (240, 2)),
            record(Code::QUEUE, 551_706_000, C::READ, (20_941_264, 8192), (240, 1)),
        ],
    );
    let names: Vec<&str> = found.devices.iter().flatten().map(String::as_str).collect();
    assert_eq!(names, ["asu0", "asu1", "asu2"]);
}

/// Alibaba: microseconds, bytes?
#[test]
fn alibaba_lines_are_read() {
    let found = read("419,W,8792731648,16384,1577808144360767\n725,R,4096,4096,1577808144360867\n");
    // 8792731648 / 512 = 17173304; 100 us later.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (17_173_304, 16_384), (240, 0)),
            record(Code::QUEUE, 100_000, C::READ, (8, 4096), (240, 1)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("device419"));
}

/// Tencent: sectors, and the lines of one second spread?
#[test]
fn tencent_lines_are_read() {
    let found = read(
        "1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n\
         1538323201,1904106400,384,1,1360\n",
    );
    // 128 * 512 = 65536; two in a second: half a second each; 384 * 512 = 196608.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, (12_910_952, 65_536), (240, 0)),
            record(Code::QUEUE, 500_000_000, C::WRITE, (6_338_688, 4096), (240, 1)),
            record(Code::QUEUE, 1_000_000_000, C::WRITE, (1_904_106_400, 196_608), (240, 2)),
        ],
    );
    assert_eq!(found.devices[2].as_deref(), Some("volume1360"));
}

/// SYSTOR: is a line without a type passed over, one without a response only an arrival?
#[test]
fn systor_lines_are_read() {
    let found = read(
        "Timestamp,Response,IOType,LUN,Offset,Size\n\
         1455592200.008817000,0.000364,R,2,1025007616,4096\n\
         1455592200.008818,0.000001,,2,0,0\n\
         1455592200.009817,,W,0,512,512\n",
    );
    // 1025007616 / 512 = 2001968.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, (2_001_968, 4096), (240, 0)),
            record(Code::ISSUE, 0, C::READ, (2_001_968, 4096), (240, 0)),
            record(Code::COMPLETE, 364_000, C::READ, (2_001_968, 4096), (240, 0)),
            record(Code::QUEUE, 1_000_000, C::WRITE, (1, 512), (240, 1)),
        ],
    );
    assert_eq!(found.devices[3].as_deref(), Some("lun0"));
}

/// K5: seconds, bytes?
#[test]
fn k5_lines_are_read() {
    let found = read("1157,3.828359000,W,7155568640,4096\n1157,3.828360000,R,1024,512\n");
    // 7155568640 / 512 = 13975720.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (13_975_720, 4096), (240, 0)),
            record(Code::QUEUE, 1000, C::READ, (2, 512), (240, 0)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("volume1157"));
}

/// blkreplay: is a line without `;` a comment, wherever it is, and is a replay put in order, with
/// its times in the device?
#[test]
fn blkreplays_lines_are_read() {
    let found = read(
        "Copyright 2012, 2 lines\n\nstart ; sector; length ; op ;  replay_delay ; replay_duration\n\
         1.5 ; 37766853 ; 64 ; W ; 0.0 ; 0.0\nINFO: a worker waits\n\
         1.75 ; 8 ; 1 ; RA ; 0.000000250 ; 0.001\n1.6 ; 16 ; 8 ; R ; 0.0 ; 0.002\n",
    );
    let ms = 1_000_000;
    let (second, third) = ((16, 4096), (8, 512));
    let ahead = C::READ | C::AHEAD;
    // 64 * 512 = 32768; 1.6 and 1.75 s are 100 and 250 ms after the first one.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (37_766_853, 32_768), (240, 0)),
            record(Code::QUEUE, 100 * ms, C::READ, second, (240, 0)),
            record(Code::ISSUE, 100 * ms, C::READ, second, (240, 0)),
            record(Code::COMPLETE, 102 * ms, C::READ, second, (240, 0)),
            record(Code::QUEUE, 250 * ms, ahead, third, (240, 0)),
            record(Code::ISSUE, 250 * ms + 250, ahead, third, (240, 0)),
            record(Code::COMPLETE, 251 * ms + 250, ahead, third, (240, 0)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("disk"));
}

/// blkreplay: is the heading found after a licence of more lines than are read as each format?
#[test]
fn blkreplays_heading_may_stand_far_down() {
    let licence = "copying is permitted\n".repeat(100);
    let text =
        format!("{licence}start ; sector; length ; op ; a ; b\n0.1 ; 1 ; 1 ; R ; 0.0 ; 0.0\n");
    assert_eq!(recognise(text.as_bytes()), Some(Format::Blkreplay));
    assert_eq!(read(&text).records.len(), 1);
}

/// iolog: do both versions give the same, with waits, syncs and trims?
#[test]
fn iologs_are_read() {
    let two = "fio version 2 iolog\nf.dat add\nf.dat open\nf.dat read 0 4096\n\
               f.dat wait 300000 0\nf.dat wait 99 0\nf.dat write 8192 4096\nf.dat sync 0 0\n\
               g.dat trim 65536 65536\nf.dat close\n";
    let three = "fio version 3 iolog\n17 f.dat add\n147 f.dat open\n149 f.dat read 0 4096\n\
                 300149 f.dat write 8192 4096\n300149 f.dat datasync 0 0\n\
                 300149 g.dat trim 65536 65536\n400000 f.dat close\n";
    // 300000 us later; a wait of 99 us is none. 8192 / 512 = 16, 65536 / 512 = 128.
    let later = 300_000_000;
    let expected = [
        record(Code::QUEUE, 0, C::READ, (0, 4096), (240, 0)),
        record(Code::QUEUE, later, C::WRITE, (16, 4096), (240, 0)),
        record(Code::QUEUE, later, C::FLUSH, (0, 0), (240, 0)),
        record(Code::QUEUE, later, C::DISCARD | C::WRITE, (128, 65_536), (240, 1)),
    ];
    for text in [two, three] {
        let found = read(text);
        assert_records(&found, &expected);
        assert_eq!(found.devices[3].as_deref(), Some("g.dat"));
    }
}

/// vscsi: do both versions give what the text does, and the second one responses?
#[test]
fn vscsi_records_are_read() {
    let mut one = Vec::new();
    let mut two = Vec::new();
    for (serial, (command, lbn, us)) in
        (1_u32..).zip([(0x2a_u16, 42_932_745_u64, 10_u64), (0x12, 0, 11), (0x28, 8, 20)])
    {
        let fields = [&serial.to_le_bytes()[..], &512_u32.to_le_bytes(), &1_u32.to_le_bytes()];
        one.extend(fields.concat());
        one.extend([command.to_le_bytes(), 0x100_u16.to_le_bytes()].concat());
        one.extend([lbn.to_le_bytes(), us.to_le_bytes()].concat());
        two.extend([command.to_le_bytes(), 0x200_u16.to_le_bytes()].concat());
        two.extend(fields.concat());
        two.extend([lbn.to_le_bytes(), us.to_le_bytes(), 5_u64.to_le_bytes()].concat());
    }
    let (write, read) = ((42_932_745, 512), (8, 512));
    let queued = [
        record(Code::QUEUE, 0, C::WRITE, write, (240, 0)),
        record(Code::QUEUE, 10_000, C::READ, read, (240, 0)),
    ];
    assert_eq!((one.len(), two.len()), (96, 120));
    assert_eq!(recognise(&one), Some(Format::Vscsi));
    assert_records(&read_as(None, &one), &queued);
    let answered = [
        queued[0],
        record(Code::ISSUE, 0, C::WRITE, write, (240, 0)),
        record(Code::COMPLETE, 5000, C::WRITE, write, (240, 0)),
        queued[1],
        record(Code::ISSUE, 10_000, C::READ, read, (240, 0)),
        record(Code::COMPLETE, 15_000, C::READ, read, (240, 0)),
    ];
    assert_eq!(recognise(&two), Some(Format::Vscsi));
    assert_records(&read_as(None, &two), &answered);
    // A record of another version is skipped, and the end of a cut one reported.
    one[32 + 15] = 9;
    one.pop();
    let found = read_as(Some(Format::Vscsi), &one);
    assert_eq!(found.records.len(), 1);
    let told: Vec<String> = found.problems.shown().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "t:byte 32: this is no record of version 1, as the first one is",
            "t:byte 64: the trace ends within a record, of which there are 31 bytes"
        ]
    );
}

/// CloudPhysics as text: seconds spread, commands by their number; sectors alone without times?
#[test]
fn cloudphysics_texts_are_read() {
    let found = read(
        "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633898,12,36,0\n\
         1,5633898,28,6656,40409911\n1,5633899,35,0,0\n",
    );
    // The command in between is none of these; two in second 0, one in second 1.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (42_932_745, 512), (240, 0)),
            record(Code::QUEUE, 500_000_000, C::READ, (40_409_911, 6656), (240, 0)),
            record(Code::QUEUE, 1_000_000_000, C::FLUSH, (0, 0), (240, 0)),
        ],
    );
    let blocks = read("42932745\n7\n");
    assert_records(
        &blocks,
        &[
            record(Code::QUEUE, 0, C::READ, (42_932_745, 512), (240, 0)),
            record(Code::QUEUE, 0, C::READ, (7, 512), (240, 0)),
        ],
    );
}

/// DiskSim: milliseconds and flags; for real drives each request after the end of the last?
#[test]
fn disksim_lines_are_read() {
    let found = read("0.000000\t0\t4583176\t4\t0\n46.004000 1 3962268 12 3\n");
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::QUEUE, 46_004_000, C::READ, (3_962_268, 6144), (240, 1)),
        ],
    );
    let drive = read("W Hit    4583176   4    663.00000  45422.00000\nR Miss 8 1 607.5 34200\n");
    // 663 + 45422 us after the first one came the second.
    let second = 46_085_000;
    assert_records(
        &drive,
        &[
            record(Code::QUEUE, 0, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::ISSUE, 0, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::COMPLETE, 663_000, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::QUEUE, second, C::READ, (8, 512), (240, 0)),
            record(Code::ISSUE, second, C::READ, (8, 512), (240, 0)),
            record(Code::COMPLETE, second + 607_500, C::READ, (8, 512), (240, 0)),
        ],
    );
}

/// MQSim: nanoseconds, and 1 is a read?
#[test]
fn mqsim_lines_are_read() {
    let found = read("938513000 4 264719034 16 0\n938828000 3 197570570 32 1\n");
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (264_719_034, 8192), (240, 0)),
            record(Code::QUEUE, 315_000, C::READ, (197_570_570, 16_384), (240, 1)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("device4"));
}

/// FIU: are device numbers kept, and are lines read if a process name has blanks or the hash is
/// missing?
#[test]
fn fiu_lines_are_read() {
    let found = read(
        "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n\
         89968195792562 9 two words 8 1 W 253 17\n\
         89968195792662 20782 gzip 283193192 8 W 6 0 56f11b711d91a065a2b6458eca924523\n",
    );
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, (283_193_184, 4096), (6, 0)),
            record(Code::QUEUE, 100, C::WRITE, (8, 512), (253, 17)),
            record(Code::QUEUE, 200, C::WRITE, (283_193_192, 4096), (6, 0)),
        ],
    );
    assert_eq!(found.devices, [None, None, None]);
    let told = [(20_782, "gzip".to_owned()), (9, "two words".to_owned())];
    assert_eq!(found.processes, told);
    assert_eq!(found.records[2].pid, 20_782);
}

/// Start-ups: process and number apart, flags kept?
#[test]
fn startup_lines_are_read() {
    let found = read(
        "jbd2/sdb1-8-268 \t 0   8   113314048  Rand  -427336  0    WS   4.666589 START\n\
         xterm-31657  .015820     16   113248520  Seq     -65536      0        RA   4.682409   C\n",
    );
    // 4.682409 - 4.666589 = 0.015820 s.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE | C::SYNC, (113_314_048, 4096), (240, 0)),
            record(Code::QUEUE, 15_820_000, C::READ | C::AHEAD, (113_248_520, 8192), (240, 0)),
        ],
    );
    assert_eq!(found.processes, [(268, "jbd2/sdb1-8".to_owned()), (31_657, "xterm".to_owned())]);
}

/// biosnoop: does each line give its three events, by latency and time in the queue?
#[test]
fn biosnoop_lines_are_read() {
    let found = read(
        "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
         0.000004    supervise      1950    xvda1     W 13092560   4096      0.25    0.75\n\
         0.000104    Web Content    77      xvdb      R 8          512       0.00    0.35\n\
         0.001000                   0       xvda1     F -1         0         0.00    0.10\n",
    );
    // W: ended at 4 us, issued 750 us and queued 1000 us before: the trace begins at -996 us.
    // R: ended at 104 us = 1100 us, issued at 750 us. The flush: 1996 us, 1896 us.
    let (write, small) = ((13_092_560, 4096), (8, 512));
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, write, (240, 0)),
            record(Code::ISSUE, 250_000, C::WRITE, write, (240, 0)),
            record(Code::QUEUE, 750_000, C::READ, small, (240, 1)),
            record(Code::ISSUE, 750_000, C::READ, small, (240, 1)),
            record(Code::COMPLETE, 1_000_000, C::WRITE, write, (240, 0)),
            record(Code::COMPLETE, 1_100_000, C::READ, small, (240, 1)),
            record(Code::QUEUE, 1_896_000, C::FLUSH, (0, 0), (240, 0)),
            record(Code::ISSUE, 1_896_000, C::FLUSH, (0, 0), (240, 0)),
            record(Code::COMPLETE, 1_996_000, C::FLUSH, (0, 0), (240, 0)),
        ],
    );
    let told = [(1950, "supervise".to_owned()), (77, "Web Content".to_owned())];
    assert_eq!(found.processes, told);
    assert_eq!(found.devices[2].as_deref(), Some("xvdb"));
    // Without -Q, with the column of -P, and with a letter more.
    for line in [
        "0.000004  supervise  1950  xvda1  WS 13092560  4096  0.75",
        "0.000004  supervise  1950  xvda1  WS 13092560  4096  ?  0.75",
        "0.000004  supervise  1950  xvda1  WS 13092560  4096  0.00  R  0.75",
    ] {
        let found = read(line);
        let kind = C::WRITE | C::SYNC;
        let ended = record(Code::COMPLETE, 750_000, kind, write, (240, 0));
        assert_eq!(found.records.len(), 3);
        assert_eq!(Record { sequence: 0, pid: 0, ..found.records[2] }, ended);
    }
}
