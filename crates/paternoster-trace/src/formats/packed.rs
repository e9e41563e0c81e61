// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packed: a stream as it is, or what gzip or zstd have packed into it.
//!
//! ```text
//! 1f 8b …         gzip: its members, one after the other
//! 28 b5 2f fd …   zstd: its frames, one after the other; those to be skipped are
//! others          as they are
//! ```
//!
//! It is unpacked while it is read. What is wrong with it is an error of that read, as if a disk
//! had failed.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes read at a time of what is packed.
const CHUNK: usize = 64 << 10;

/// The stream without its packing.
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
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(Frames { source: whole, decoder: FrameDecoder::new(), within: false })
    })
}

/// The decoder's errors print their structure; most often the stream is just cut off.
fn told(error: &FrameDecoderError) -> io::Error {
    let text = error.to_string();
    if text.contains("UnexpectedEof") {
        return io::Error::new(ErrorKind::UnexpectedEof, "incomplete zstd stream");
    }
    io::Error::other(format!("a fault in the zstd stream: {text}"))
}

/// All frames of a zstd stream.
struct Frames<R: BufRead> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
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
            if !self.within && !self.begin()? {
                return Ok(0);
            }
            self.within = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(|error| told(&error))?;
            }
            match self.decoder.read(buffer)? {
                0 if !buffer.is_empty() => self.within = false,
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

    /// Is what was packed unpacked, in several pieces too, and what was not read as it is, however
    /// short?
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

    /// Is a stream that was cut an error, not a short trace, and said without a decoder's insides?
    #[test]
    fn cut_streams_are_errors() {
        let text = "0,1,512,r,0.5\n".repeat(1000);
        for packed in [gzip(&text), zstd(&text)] {
            for left in [5, packed.len() / 2, packed.len() - 6] {
                let error = read(packed[..left].to_vec()).expect_err("it is cut");
                let text = error.to_string();
                let plain = !text.contains(['{', '(']);
                assert!(plain && error.kind() == ErrorKind::UnexpectedEof, "{left}: {error:?}");
            }
        }
    }
}
