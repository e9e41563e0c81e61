// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wire: the bytes of protocol buffers, as far as a trace needs them: numbers, texts, messages.
//!
//! ```text
//! field 8, number 300        40        ac 02       8 << 3 | 0, then 7 bits a byte, low ones first
//! field 2, text "bfq"        12 03     62 66 71    2 << 3 | 2, the length, the bytes
//! ```
//!
//! Source: the encoding of protocol buffers, protobuf.dev/programming-guides/encoding.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A field that is a number.
    pub(super) fn number(&mut self, field: u64, value: u64) -> &mut Message {
        self.varint(field << 3);
        self.varint(value)
    }

    /// A field that is a text.
    pub(super) fn text(&mut self, field: u64, value: &str) -> &mut Message {
        self.bytes(field, value.as_bytes())
    }

    /// A field that is a message.
    pub(super) fn message(&mut self, field: u64, value: &Message) -> &mut Message {
        self.bytes(field, &value.0)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Message {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn varint(&mut self, mut value: u64) -> &mut Message {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return self;
            }
            self.0.push(low | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are fields the bytes in the module docs, and is the largest number ten bytes?
    #[test]
    fn fields_are_encoded() {
        let mut inner = Message::default();
        inner.number(8, 300);
        assert_eq!(inner.as_bytes(), [0x40, 0xac, 0x02]);
        let mut outer = Message::default();
        outer.text(2, "bfq").message(60, &inner);
        assert_eq!(outer.as_bytes(), b"\x12\x03bfq\xe2\x03\x03\x40\xac\x02");
        let mut most = Message::default();
        most.number(1, u64::MAX);
        assert_eq!(most.as_bytes(), [&[0x08][..], &[0xff; 9], &[0x01]].concat());
    }
}
