//! A header encoder for tests that can use every form of RFC 7541; real encoders do not.

/// RFC 7541 appendix B for the characters from space to `~`: code and its bits.
const HUFFMAN: [(u32, u32); 95] = [
    (0x14, 6),
    (0x3f8, 10),
    (0x3f9, 10),
    (0xffa, 12),
    (0x1ff9, 13),
    (0x15, 6),
    (0xf8, 8),
    (0x7fa, 11),
    (0x3fa, 10),
    (0x3fb, 10),
    (0xf9, 8),
    (0x7fb, 11),
    (0xfa, 8),
    (0x16, 6),
    (0x17, 6),
    (0x18, 6),
    (0x0, 5),
    (0x1, 5),
    (0x2, 5),
    (0x19, 6),
    (0x1a, 6),
    (0x1b, 6),
    (0x1c, 6),
    (0x1d, 6),
    (0x1e, 6),
    (0x1f, 6),
    (0x5c, 7),
    (0xfb, 8),
    (0x7ffc, 15),
    (0x20, 6),
    (0xffb, 12),
    (0x3fc, 10),
    (0x1ffa, 13),
    (0x21, 6),
    (0x5d, 7),
    (0x5e, 7),
    (0x5f, 7),
    (0x60, 7),
    (0x61, 7),
    (0x62, 7),
    (0x63, 7),
    (0x64, 7),
    (0x65, 7),
    (0x66, 7),
    (0x67, 7),
    (0x68, 7),
    (0x69, 7),
    (0x6a, 7),
    (0x6b, 7),
    (0x6c, 7),
    (0x6d, 7),
    (0x6e, 7),
    (0x6f, 7),
    (0x70, 7),
    (0x71, 7),
    (0x72, 7),
    (0xfc, 8),
    (0x73, 7),
    (0xfd, 8),
    (0x1ffb, 13),
    (0x7fff0, 19),
    (0x1ffc, 13),
    (0x3ffc, 14),
    (0x22, 6),
    (0x7ffd, 15),
    (0x3, 5),
    (0x23, 6),
    (0x4, 5),
    (0x24, 6),
    (0x5, 5),
    (0x25, 6),
    (0x26, 6),
    (0x27, 6),
    (0x6, 5),
    (0x74, 7),
    (0x75, 7),
    (0x28, 6),
    (0x29, 6),
    (0x2a, 6),
    (0x7, 5),
    (0x2b, 6),
    (0x76, 7),
    (0x2c, 6),
    (0x8, 5),
    (0x9, 5),
    (0x2d, 6),
    (0x77, 7),
    (0x78, 7),
    (0x79, 7),
    (0x7a, 7),
    (0x7b, 7),
    (0x7ffe, 15),
    (0x7fc, 11),
    (0x3ffd, 14),
    (0x1ffd, 13),
];

/// Whether a literal enters the dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Incremental,
    Without,
    Never,
}

impl Kind {
    fn pattern(self) -> (u8, u32) {
        match self {
            Self::Incremental => (0x40, 6),
            Self::Without => (0x00, 4),
            Self::Never => (0x10, 4),
        }
    }
}

/// The coding of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Huffman,
    /// Plain, with a length in more bytes than necessary where the number is large enough for that.
    Padded,
}

/// The name of a literal.
#[derive(Debug, Clone)]
pub(super) enum Name {
    Index(u64),
    Text(Coding, String),
}

pub(super) fn huffman(text: &str) -> Vec<u8> {
    let mut bits = String::new();
    for byte in text.bytes() {
        let (code, length) = HUFFMAN[usize::from(byte) - 32];
        let all = format!("{code:032b}");
        bits.push_str(&all[32 - length as usize..]);
    }
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    (0..bits.len() / 8)
        .map(|at| u8::from_str_radix(&bits[at * 8..][..8], 2).unwrap())
        .collect()
}

pub(super) fn integer(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: u64) {
    let mask = (1_u64 << prefix) - 1;
    if value < mask {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn string(out: &mut Vec<u8>, coding: Coding, text: &str) {
    match coding {
        Coding::Plain => {
            integer(out, 0, 7, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        Coding::Huffman => {
            let coded = huffman(text);
            integer(out, 0x80, 7, coded.len() as u64);
            out.extend_from_slice(&coded);
        }
        Coding::Padded => {
            let at = out.len();
            integer(out, 0, 7, text.len() as u64);
            if out.len() > at + 1 {
                *out.last_mut().unwrap() |= 0x80;
                out.push(0);
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
}

pub(super) fn literal(out: &mut Vec<u8>, kind: Kind, name: &Name, coding: Coding, value: &str) {
    let (pattern, prefix) = kind.pattern();
    match name {
        Name::Index(index) => integer(out, pattern, prefix, *index),
        Name::Text(coding, text) => {
            out.push(pattern);
            string(out, *coding, text);
        }
    }
    string(out, coding, value);
}

/// A reference to a whole field.
pub(super) fn indexed(out: &mut Vec<u8>, index: u64) {
    integer(out, 0x80, 7, index);
}

pub(super) fn size_update(out: &mut Vec<u8>, size: u64) {
    integer(out, 0x20, 5, size);
}

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY: u8 = 0x20;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// The distribution of a header block over frames.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) padding: Option<u8>,
    pub(super) priority: bool,
    /// Lengths of all fragments but the last, as far as the block reaches.
    pub(super) fragments: Vec<usize>,
}

impl Layout {
    pub(super) fn plain() -> Self {
        Self {
            padding: None,
            priority: false,
            fragments: Vec::new(),
        }
    }

    pub(super) fn frames(&self, stream: u32, mut block: &[u8]) -> Vec<u8> {
        let mut pieces = Vec::new();
        for length in &self.fragments {
            let (piece, rest) = block.split_at((*length).min(block.len()));
            pieces.push(piece);
            block = rest;
        }
        pieces.push(block);
        let last = pieces.len() - 1;
        let mut out = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let mut flags = if number == last { END_HEADERS } else { 0 };
            let mut payload = Vec::new();
            if number == 0 {
                flags |= END_STREAM;
                if let Some(padding) = self.padding {
                    flags |= PADDED;
                    payload.push(padding);
                }
                if self.priority {
                    flags |= PRIORITY;
                    payload.extend_from_slice(&[0, 0, 0, 0, 15]);
                }
            }
            payload.extend_from_slice(piece);
            if number == 0 {
                payload.resize(payload.len() + usize::from(self.padding.unwrap_or(0)), 0);
            }
            out.extend(frame(
                if number == 0 { 1 } else { 9 },
                flags,
                stream,
                &payload,
            ));
        }
        out
    }
}
