// SPDX-License-Identifier: MIT OR Apache-2.0
//! I/O logs: reading and writing, and errors in invalid logs.

use proptest::prelude::*;

use super::*;

fn read(text: &str, rule: WaitRule) -> Result<Vec<LogEntry>, Problem> {
    LogReader::new("t.log", text.as_bytes(), rule).collect()
}

fn entry(at_us: u64, file: usize, action: LogAction, offset: u64, bytes: u64) -> LogEntry {
    LogEntry { at: Nanos::from_micros(at_us), file, action, offset, bytes }
}

/// Are both versions in the module docs read, with times from waits and from stamps?
#[test]
fn both_versions_are_read() {
    let two = "fio version 2 iolog\nf.dat add\nf.dat open\nf.dat read 0 4096\n\
        f.dat wait 300000 0\nf.dat wait 50 0\nf.dat write 8192 4096\nf.dat sync 0 0\nf.dat close\n";
    let manual = [
        entry(0, 0, LogAction::Read, 0, 4096),
        entry(300_000, 0, LogAction::Write, 8192, 4096),
        entry(300_000, 0, LogAction::Sync, 0, 0),
    ];
    assert_eq!(read(two, WaitRule::Manual), Ok(manual.to_vec()));
    // 300000 ms after the start; the second wait, of 50 ms, is over by then.
    assert_eq!(read(two, WaitRule::Fio).unwrap()[1].at, Nanos::from_secs(300));
    let three = "fio version 3 iolog\r\n17 f.dat add\n20 g.dat add\n147 f.dat open\n\
        147 g.dat open\n149 f.dat write 0 65536\n3476 g.dat trim 65536 65536\n\
        3000 g.dat read 0 1\n";
    assert_eq!(
        read(three, WaitRule::Manual).unwrap(),
        [
            entry(149, 0, LogAction::Write, 0, 65_536),
            entry(3476, 1, LogAction::Trim, 65_536, 65_536),
            // The stamp before the last one counts as that.
            entry(3476, 1, LogAction::Read, 0, 1),
        ]
    );
}

/// Does each mistake give file, line, text and what would be right?
#[test]
fn mistakes_are_named() {
    let head = "fio version 2 iolog\nf add\nf open\n";
    let message = |text: &str| read(text, WaitRule::Manual).unwrap_err().to_string();
    assert_eq!(
        message(&format!("{head}f read 0\n")),
        "t.log:4: this is neither `file action` nor `file action offset length`, \
         behind a time in version 3: `f read 0`"
    );
    assert_eq!(
        message(&format!("{head}g read 0 1\n")),
        "t.log:4: `g add` is missing before this line: `g read 0 1`"
    );
    assert_eq!(
        message(&format!("{head}f read 0 x\n")),
        "t.log:4: `x` is not a length in bytes: `f read 0 x`"
    );
    for (lines, words) in [
        ("", "the log is empty"),
        ("f read 0 1\n", "no log of fio"),
        ("fio version 2 iolog\nf add\nf read 0 1\n", "`f open` is missing"),
        ("fio version 2 iolog\nf add\nf add\n", "added before"),
        ("fio version 2 iolog\nf add\nf rename\n", "`add`, `open`, `close`"),
        ("fio version 3 iolog\nx f add\n", "a time in microseconds"),
        ("fio version 3 iolog\n0 f add\n0 f open\n0 f wait 5 0\n", "none of read"),
        ("fio version 3 iolog\n0 f add\n0 f open\n0 f read 0 0\n", "1 to"),
        ("fio version 3 iolog\n0 f add\n0 f open\n0 f read 18446744073709551615 9\n", "2^64"),
    ] {
        assert!(message(lines).contains(words), "{lines}: {}", message(lines));
    }
    let long = format!("fio version 2 iolog\n{}\n", "x".repeat(20_000));
    assert!(message(&long).contains("more than 16384 bytes"));
    // Nothing is read after a mistake.
    let mut reader = LogReader::new("t", "no\nfio version 2 iolog\n".as_bytes(), WaitRule::Manual);
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

/// Is what is written read back as it was, with the files in their order?
#[test]
fn what_is_written_is_read_back() {
    let files = ["/dev/sda".to_owned(), "b.dat".to_owned()];
    let entries = [
        entry(10, 1, LogAction::Write, 4096, 512),
        entry(20, 0, LogAction::Datasync, 0, 0),
        entry(20, 0, LogAction::Trim, 1 << 40, 1 << 20),
    ];
    let mut writer = LogWriter::new(Vec::new(), &files).unwrap();
    for entry in &entries {
        writer.entry(entry).unwrap();
    }
    let bytes = writer.finish(Nanos::from_millis(1)).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.starts_with("fio version 3 iolog\n0 /dev/sda add\n0 b.dat add\n0 /dev/sda open\n")
    );
    assert!(text.ends_with(
        "20 /dev/sda trim 1099511627776 1048576\n1000 /dev/sda close\n1000 b.dat close\n"
    ));
    let mut reader = LogReader::new("t", text.as_bytes(), WaitRule::Manual);
    let read: Vec<LogEntry> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(read, entries);
    assert_eq!(reader.files(), files);
    assert!(LogWriter::new(Vec::new(), &["a b".to_owned()]).is_err());
}

proptest! {
    /// Does any text give entries or one error, in bounded memory and without a panic?
    #[test]
    fn arbitrary_text_never_panics(pieces in prop::collection::vec(prop::sample::select(&[
        "fio version 2 iolog\n", "fio version 3 iolog\n", "f add\n", "0 f add\n", "f open\n",
        "5 f open\n", "f read 0 4096\n", "7 f write 8 4096\n", "f wait 900 0\n", "f close\n", " ",
        "\n", "é", "99999999999999999999", "f sync 0 0\n", "3 f trim 0 1\n",
    ][..]), 0..40)) {
        let text = pieces.concat();
        let mut last = Nanos::ZERO;
        for result in LogReader::new("t", text.as_bytes(), WaitRule::Manual) {
            match result {
                Ok(entry) => {
                    prop_assert!(entry.at >= last);
                    last = entry.at;
                }
                Err(problem) => prop_assert!(problem.line > 0 && !problem.message.is_empty()),
            }
        }
    }
}
