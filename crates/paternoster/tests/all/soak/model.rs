// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each byte of a region may be, given what was acknowledged.
//!
//! ```text
//! acknowledged write of v          {v}
//! a write that failed, or was cut  what it may have been, and v
//! a read that brings x             x must be among them; then {x}
//! ```
//!
//! Invariant: no byte is in doubt while a request on it is in flight; callers ensure it.

/// What may be at each byte of a region: a bit for each value.
pub(crate) struct Model(Vec<[u64; 4]>);

fn place(value: u8) -> (usize, u64) {
    (usize::from(value / 64), 1 << (value % 64))
}

fn only(value: u8) -> [u64; 4] {
    let (word, bit) = place(value);
    let mut values = [0; 4];
    values[word] = bit;
    values
}

impl Model {
    /// A region of zeroes.
    pub(crate) fn new(length: usize) -> Model {
        Model(vec![only(0); length])
    }

    /// These bytes were acknowledged and must be there.
    pub(crate) fn must(&mut self, at: usize, bytes: &[u8]) {
        for (values, byte) in self.0[at..].iter_mut().zip(bytes) {
            *values = only(*byte);
        }
    }

    /// These bytes may be there, or not.
    pub(crate) fn may(&mut self, at: usize, bytes: &[u8]) {
        for (values, byte) in self.0[at..].iter_mut().zip(bytes) {
            let (word, bit) = place(*byte);
            values[word] |= bit;
        }
    }

    /// Judges what was read.
    pub(crate) fn saw(&mut self, at: usize, bytes: &[u8]) -> Result<(), String> {
        for (offset, (values, byte)) in self.0[at..].iter_mut().zip(bytes).enumerate() {
            let (word, bit) = place(*byte);
            if values[word] & bit == 0 {
                return Err(format!("byte {} is {byte}, which nothing wrote last", at + offset));
            }
            *values = only(*byte);
        }
        Ok(())
    }
}

/// Is a wrong byte found after an acknowledged write, and are both accepted after a failed one
/// until one has been read?
#[test]
fn a_model_tells_what_may_be() {
    let mut model = Model::new(8);
    model.must(2, &[7, 8]);
    assert!(model.saw(0, &[0, 0, 7, 8, 0, 0, 0, 0]).is_ok());
    assert!(model.saw(2, &[7, 0]).is_err());
    for seen in [7, 200] {
        let mut model = Model::new(8);
        model.must(2, &[7]);
        model.may(2, &[200]);
        assert!(model.saw(2, &[seen]).is_ok());
        assert!(model.saw(2, &[207 - seen]).is_err());
    }
}
