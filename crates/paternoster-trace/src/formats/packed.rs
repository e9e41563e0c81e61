// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packed: a plain stream as it is, a gzip or zstd stream unpacked.
//!
//! ```text
//! 1f 8b …         gzip: all its members
//! 28 b5 2f fd …   zstd: all its frames, except skippable ones
//! others          as they are, unchanged
//! ```
//!
//! It is unpacked while it is read. A fault in the packed data is an error of that read, as if a
//! disk had failed. If the stream is cut off, what can be unpacked comes before the error.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Packed bytes read at a time.
const CHUNK: usize = 64 << 10;

/// The unpacked stream.
pub(super) fn unpacked<'a>(mut input: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let mut head = Vec::new();
    input.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
    let (gzip, zstd) = (head.starts_with(&GZIP), head.starts_with(&ZSTD));
    let whole = Cursor::new(head).chain(input);
    if !gzip && !zstd {
        return Ok(Box::new(whole));
    }
    let whole = BufReader::with_capacity(CHUNK, whole);
    Ok(if gzip {
        Box::new(Members(MultiGzDecoder::new(whole)))
    } else {
        Box::new(Frames { source: whole, decoder: FrameDecoder::new(), within: false, cut: false })
    })
}

/// The error for a stream that is cut off.
fn cut_off(by: &str) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, format!("the {by} stream is cut off"))
}

/// All members of a gzip stream.
struct Members<R: BufRead>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => cut_off("gzip"),
            _ => error,
        })
    }
}

/// An empty raw block that is the last of its frame, and a checksum, which is ignored. The decoder
/// holds back data that later blocks may refer to; it gives them out once the frame has ended.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// A readable error: the decoder's own print their structure, and most often the stream is just cut
/// off.
fn told(error: &FrameDecoderError) -> io::Error {
    let text = error.to_string();
    // Some of them say that only in their structure.
    if format!("{error:?}").contains("UnexpectedEof") {
        return cut_off("zstd");
    }
    io::Error::other(format!("a fault in the zstd stream: {text}"))
}

/// All frames of a zstd stream.
struct Frames<R: BufRead> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
    /// The stream is cut off: what was decoded is given, then the error.
    cut: bool,
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame; `false` at the end of the stream.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(told(&error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.cut && self.decoder.can_collect() == 0 && !buffer.is_empty() {
                return Err(cut_off("zstd"));
            }
            if !self.within && !self.begin()? {
                return Ok(0);
            }
            self.within = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let Err(error) = self.decoder.decode_blocks(&mut self.source, one) else {
                    continue;
                };
                let error = told(&error);
                let is_cut = error.kind() == ErrorKind::UnexpectedEof;
                let end = BlockDecodingStrategy::All;
                if !is_cut || self.decoder.decode_blocks(&LAST_BLOCK[..], end).is_err() {
                    return Err(error);
                }
                self.cut = true;
            }
            match self.decoder.read(buffer)? {
                0 if !buffer.is_empty() => self.within = self.cut,
                read => return Ok(read),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;
    use crate::formats::{Format, open};

    fn read(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        unpacked(Box::new(Cursor::new(bytes)))?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).expect("into memory");
        encoder.finish().expect("into memory")
    }

    fn zstd(text: &str) -> Vec<u8> {
        compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
    }

    /// Are packed streams unpacked, even if they have several parts, and others read as they are,
    /// however short?
    #[test]
    fn packed_streams_are_read() {
        let long = "0,1,512,r,0.5\n".repeat(50_000);
        for text in ["", "a", "abc", "abcd", &long] {
            assert_eq!(read(text.into()).expect("plain"), text);
            assert_eq!(read(gzip(text)).expect("gzip"), text);
            assert_eq!(read(zstd(text)).expect("zstd"), text);
        }
        assert_eq!(read([gzip("one"), gzip("two")].concat()).expect("gzip"), "onetwo");
        // A frame to be skipped: its magic number, its length of 3, and three bytes.
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
        let frames = [zstd("one"), skipped, zstd("two")].concat();
        assert_eq!(read(frames).expect("zstd"), "onetwo");
    }

    /// Is a stream that was cut an error, not a short trace, and does the message hide the
    /// decoder's structures?
    #[test]
    fn cut_streams_are_errors() {
        let text = "0,1,512,r,0.5\n".repeat(1000);
        for packed in [gzip(&text), zstd(&text)] {
            for left in [5, packed.len() / 2, packed.len() - 6] {
                let error = read(packed[..left].to_vec()).expect_err("it is cut");
                let text = error.to_string();
                let plain = !text.contains(['{', '(']);
                assert!(plain && error.kind() == ErrorKind::UnexpectedEof, "{left}: {error:?}");
                assert!(text.ends_with(" stream is cut off"), "{text}");
            }
        }
    }

    /// Does the text before a cut come out first, with both packers? A zstd block is at most 128
    /// KiB of text, and nothing of it comes out before it is complete; 3 MB are over 20 blocks.
    #[test]
    fn what_stands_before_a_cut_comes_out() {
        let lines = (0..200_000_u64).map(|n| format!("{},{n}\n", n.wrapping_mul(n) % 99_991));
        let text: String = lines.collect();
        for packed in [gzip(&text), zstd(&text)] {
            let mut got = Vec::new();
            let cut = packed[..packed.len() * 3 / 4].to_vec();
            let mut input = unpacked(Box::new(Cursor::new(cut))).expect("its head is whole");
            input.read_to_end(&mut got).expect_err("it is cut");
            assert!(text.as_bytes().starts_with(&got), "what came out was never packed");
            assert!(got.len() > text.len() / 2, "{} of {}", got.len(), text.len());
            assert!(input.read(&mut [0]).is_err(), "the cut is told again");
        }
    }

    /// Is a truncated trace read as far as it goes, and one of which nothing is left refused, with
    /// the same message for both packers?
    #[test]
    fn a_cut_trace_is_read_as_far_as_it_goes() {
        let line = "4096\n";
        let text = line.repeat(2000);
        for (by, packed) in [("gzip", gzip as fn(&str) -> Vec<u8>), ("zstd", zstd)] {
            let whole = packed(&text);
            let open = |bytes: Vec<u8>| open("t", Cursor::new(bytes), Some(Format::Blocks));
            let recognised = |bytes: Vec<u8>| crate::formats::open("t", Cursor::new(bytes), None);
            // The head of a stream and nothing else.
            let Err(refused) = recognised(whole[..6].to_vec()) else { panic!("{by}: it is cut") };
            let expected = format!(
                "t: cannot be read: the {by} stream is cut off, and nothing of it can be unpacked"
            );
            assert_eq!(refused.to_string(), expected);
            // One member or frame whole, the next one cut.
            let second = [whole.clone(), whole[..whole.len() / 2].to_vec()].concat();
            let mut source = open(second).unwrap_or_else(|error| panic!("{by}: {error}"));
            while source.next().is_some() {}
            let told = source.problems().shown().iter().map(ToString::to_string);
            let told = told.collect::<Vec<_>>().join("; ");
            assert!(told.contains(&format!("the {by} stream is cut off")), "{by}: {told}");
        }
    }
}
