//! The protocol buffers' fields of `GetMetadataAllocatedResponse` and `GetMetadataDeltaResponse`,
//! which are the same on the wire.

use bytes::{BufMut as _, BytesMut};

use super::Range;

/// Tag of `block_metadata_type`.
pub(super) const KIND: u8 = 1 << 3;
/// Tag of `volume_capacity_bytes`.
pub(super) const CAPACITY: u8 = 2 << 3;
/// Number of `block_metadata`.
const RANGES: u64 = 3;

/// A field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// `block_metadata_type`
    Kind(i32),
    /// `volume_capacity_bytes`
    Capacity(i64),
    /// One of `block_metadata`.
    Range(Range),
    /// An unknown field.
    Other,
}

/// Reads a message field by field.
#[derive(Debug)]
pub(super) struct Wire<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Offset of the next field.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reads the next field: `Some(None)` at the end of the message, `None` if the rest is
    /// malformed.
    #[expect(clippy::option_option, reason = "malformed, ended, or a field")]
    pub(super) fn next(&mut self) -> Option<Option<Field>> {
        if self.at >= self.bytes.len() {
            return Some(None);
        }
        let tag = self.varint()?;
        let field = match (tag >> 3, tag & 7) {
            (1, 0) => Field::Kind(low(self.varint()?)),
            (2, 0) => Field::Capacity(self.varint()?.cast_signed()),
            (RANGES, 2) => Field::Range(range(self.bytes()?)?),
            (0, _) => return None,
            (_, kind) => {
                self.skip(kind)?;
                Field::Other
            }
        };
        Some(Some(field))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.forward(length)
    }

    fn forward(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    /// Skips the value of a field. Groups, which are deprecated, are refused.
    fn skip(&mut self, kind: u64) -> Option<()> {
        match kind {
            0 => self.varint().map(drop),
            1 => self.forward(8).map(drop),
            2 => self.bytes().map(drop),
            5 => self.forward(4).map(drop),
            _ => None,
        }
    }
}

fn range(bytes: &[u8]) -> Option<Range> {
    let (mut wire, mut offset, mut size) = (Wire::new(bytes, 0), 0, 0);
    while wire.at < bytes.len() {
        let tag = wire.varint()?;
        match (tag >> 3, tag & 7) {
            (1, 0) => offset = wire.varint()?.cast_signed(),
            (2, 0) => size = wire.varint()?.cast_signed(),
            (0, _) => return None,
            (_, kind) => wire.skip(kind)?,
        }
    }
    Some(Range { offset, size })
}

/// An enumeration's value: the lower 32 bits, as every implementation reads it.
#[expect(clippy::cast_possible_truncation, reason = "that is what is meant")]
fn low(value: u64) -> i32 {
    value as i32
}

/// Writes a varint.
pub(super) fn put(out: &mut BytesMut, value: i64) {
    let mut rest = value.cast_unsigned();
    while rest >= 0x80 {
        let [low, ..] = rest.to_le_bytes();
        out.put_u8(low | 0x80);
        rest >>= 7;
    }
    let [low, ..] = rest.to_le_bytes();
    out.put_u8(low);
}
