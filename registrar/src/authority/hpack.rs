//! Finds the values of `:authority` in an HPACK header block (RFC 7541).
//!
//! Separate from the frames because header fields do not respect frame boundaries. It reads lengths, and neither
//! decodes strings nor keeps a table; two known strings are compared in both codings.

use std::ops::Range;

/// The name in a literal that does not refer to the static table.
const NAME: &[u8] = b":authority";
const NAME_HUFFMAN: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// `:authority` without value in the static table, which encoders refer to for the name.
const NAME_INDEX: u64 = 1;

/// The authority of kubelets with a unix target (grpc-go uses Huffman wherever it is shorter).
const LOCALHOST_HUFFMAN: &[u8] = &[0xa0, 0xe4, 0x1d, 0x13, 0x9d, 0x9];

/// The string literal `x` that replaces a value. One byte, because the replaced value may be that short, and the new
/// one must not be longer.
pub(super) const REPLACEMENT: &[u8] = &[1, b'x'];

/// The block is not HPACK; the real decoder handles it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The ranges of `block` that hold a string literal, length prefix included, with an authority that
/// has to be replaced; in ascending order.
///
/// A name taken from the dynamic table (index 62 and above) is not recognised: encoders prefer the
/// static entry, which always exists, and knowing better would take a copy of the table. An empty
/// value stays as well, nothing shorter could replace it.
pub(super) fn unacceptable(block: &[u8]) -> Result<Vec<Range<usize>>, Malformed> {
    literals(block, |value| !value.is_acceptable_authority())
}

/// The same ranges for all literal values, acceptable or not.
pub(super) fn all(block: &[u8]) -> Result<Vec<Range<usize>>, Malformed> {
    literals(block, |_| true)
}

/// `text` as a string literal, not Huffman-coded.
pub(super) fn literal(text: &str) -> Vec<u8> {
    let mut rest = text.len();
    let mut encoded = Vec::with_capacity(rest + 3);
    let low = |value: usize| u8::try_from(value & 0x7f).unwrap_or_default();
    if rest < 0x7f {
        encoded.push(low(rest));
    } else {
        encoded.push(0x7f);
        rest -= 0x7f;
        while rest >= 0x80 {
            encoded.push(low(rest) | 0x80);
            rest >>= 7;
        }
        encoded.push(low(rest));
    }
    encoded.extend_from_slice(text.as_bytes());
    encoded
}

fn literals(
    block: &[u8],
    wanted: impl Fn(&Text<'_>) -> bool,
) -> Result<Vec<Range<usize>>, Malformed> {
    let mut cursor = Cursor { rest: block };
    let position = |cursor: &Cursor<'_>| block.len() - cursor.rest.len();
    let mut found = Vec::new();
    while let Some(&first) = cursor.rest.first() {
        let name_index = match first {
            // Indexed field: name and value from a table.
            0x80.. => {
                cursor.integer(7)?;
                continue;
            }
            // Literal with incremental indexing.
            0x40.. => cursor.integer(6)?,
            // Dynamic table size update.
            0x20.. => {
                cursor.integer(5)?;
                continue;
            }
            // Literal never indexed (0x1_) or without indexing (0x0_).
            _ => cursor.integer(4)?,
        };
        let is_authority = match name_index {
            0 => cursor.string()?.is(NAME, NAME_HUFFMAN),
            index => index == NAME_INDEX,
        };
        let start = position(&cursor);
        let value = cursor.string()?;
        if is_authority && wanted(&value) {
            found.push(start..position(&cursor));
        }
    }
    Ok(found)
}

/// A string literal as transmitted.
struct Text<'a> {
    huffman: bool,
    bytes: &'a [u8],
}

impl Text<'_> {
    fn is(&self, plain: &[u8], huffman: &[u8]) -> bool {
        self.bytes == if self.huffman { huffman } else { plain }
    }

    /// Known to be valid for `h2`, or empty. Replacing a valid authority does no harm, so that this only has to cover
    /// the values of well-behaved clients: their bytes then pass through unchanged.
    fn is_acceptable_authority(&self) -> bool {
        let host_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        self.bytes.is_empty()
            || if self.huffman {
                self.bytes == LOCALHOST_HUFFMAN
            } else {
                self.bytes.iter().all(host_byte)
            }
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(byte)
    }

    /// RFC 7541 section 5.1. Values above 2^28 are refused as in `h2`: no header field is that long.
    fn integer(&mut self, prefix_bits: u32) -> Result<u64, Malformed> {
        let mask = 0xff_u8 >> (8 - prefix_bits);
        let prefix = self.byte()? & mask;
        let mut value = u64::from(prefix);
        if prefix < mask {
            return Ok(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// RFC 7541 section 5.2.
    fn string(&mut self) -> Result<Text<'a>, Malformed> {
        let huffman = self.rest.first().ok_or(Malformed)? & 0x80 != 0;
        let length = usize::try_from(self.integer(7)?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(Text { huffman, bytes })
    }
}
