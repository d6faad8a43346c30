//! Follows the frames of an HTTP/2 connection (RFC 9113) from the client's first byte on, and rewrites its header
//! blocks.
//!
//! A pure machine without input or output of its own, so that every way of cutting the stream into reads can be tested
//! and fuzzed. It holds back one header block at most, and copies everything else.

use std::ops::Range;

use bytes::{BufMut, BytesMut};

use super::hpack;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Longest header block that is rewritten, frame heads included; a longer one is passed on unchanged. kubelet sends
/// some 200 bytes; hyper and h2 have their own, smaller limits.
const MAX_HELD: usize = 64 * 1024;

/// The machine: bytes of the client in, bytes for the server out.
#[derive(Debug, Default)]
pub struct Rewriter {
    state: State,
    /// Received frames that are not passed on yet: the head of one, or a header block so far.
    held: Vec<u8>,
    /// The whole frames in `held`, all of the same header block.
    block: Vec<Piece>,
    rule: Rule,
}

/// Rule that selects the values of `:authority` to replace, and their replacement.
#[derive(Debug, Default)]
enum Rule {
    /// Replaces values that a server would reject with one that it accepts.
    #[default]
    Unacceptable,
    /// Replaces all values with this string literal.
    All(Vec<u8>),
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// This many bytes of the connection preface were read.
    Preface(usize),
    /// Collecting the frame head that starts at this offset of `held`.
    Head(usize),
    /// Collecting the rest of a frame of a header block.
    Body { start: usize, end: usize },
    /// Copying this many more bytes of a frame that is not rewritten.
    Copy(usize),
    /// The bytes are not, or no longer, understood: copies everything.
    Opaque,
}

impl Default for State {
    fn default() -> Self {
        Self::Preface(0)
    }
}

/// A frame of a header block, as ranges of `Rewriter::held`.
#[derive(Debug)]
struct Piece {
    frame: Range<usize>,
    fragment: Range<usize>,
}

struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: [u8; 4],
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[a, b, c, kind, flags, s0, s1, s2, s3], _) = bytes.split_first_chunk::<HEAD>()?;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        // The highest bit of the stream is reserved, and receivers ignore it.
        Some(Self {
            length,
            kind,
            flags,
            stream: [s0 & 0x7f, s1, s2, s3],
        })
    }
}

impl Rewriter {
    /// A machine for the client's own side of a connection that replaces every value by `authority`. The client must
    /// use a value of the same length, or its table and the server's would evict at different times.
    pub fn to(authority: &str) -> Self {
        Self {
            rule: Rule::All(hpack::literal(authority)),
            ..Self::default()
        }
    }

    /// Takes the next bytes of the client, cut anywhere, and appends those that the server may get now.
    pub fn feed(&mut self, mut input: &[u8], out: &mut BytesMut) {
        while !input.is_empty() {
            match self.state {
                State::Preface(seen) => self.preface(seen, &mut input, out),
                State::Head(start) => {
                    if self.hold(start + HEAD, &mut input) {
                        self.head(start, out);
                    }
                }
                State::Body { start, end } => {
                    if self.hold(end, &mut input) {
                        self.body(start, out);
                    }
                }
                State::Copy(left) => {
                    let bytes = take(&mut input, left);
                    out.put_slice(bytes);
                    self.copy(left - bytes.len());
                }
                State::Opaque => out.put_slice(take(&mut input, usize::MAX)),
            }
        }
    }

    /// The client has closed its side: appends the bytes that were held back.
    pub fn finish(&mut self, out: &mut BytesMut) {
        self.give_up(out);
    }

    fn preface(&mut self, seen: usize, input: &mut &[u8], out: &mut BytesMut) {
        let expected = PREFACE.get(seen..).unwrap_or_default();
        let bytes = take(input, expected.len());
        out.put_slice(bytes);
        self.state = match seen + bytes.len() {
            _ if !expected.starts_with(bytes) => State::Opaque,
            all if all == PREFACE.len() => State::Head(0),
            some => State::Preface(some),
        };
    }

    /// Adds input to `held` up to the length `target`; returns whether that is reached.
    fn hold(&mut self, target: usize, input: &mut &[u8]) -> bool {
        self.held
            .extend_from_slice(take(input, target - self.held.len()));
        self.held.len() == target
    }

    fn copy(&mut self, left: usize) {
        self.state = if left == 0 {
            State::Head(0)
        } else {
            State::Copy(left)
        };
    }

    /// The head of the frame at `start` is complete.
    fn head(&mut self, start: usize, out: &mut BytesMut) {
        let Some(head) = self.head_at(start) else {
            return self.give_up(out);
        };
        let continued = self
            .block
            .first()
            .and_then(|first| self.head_at(first.frame.start));
        let expected = match continued {
            None => head.kind == HEADERS,
            // Nothing may come between the frames of a header block.
            Some(first) if head.kind != CONTINUATION || head.stream != first.stream => {
                return self.give_up(out);
            }
            Some(_) => true,
        };
        if !expected {
            self.release(out);
            return self.copy(head.length);
        }
        let end = start + HEAD + head.length;
        if end > MAX_HELD {
            return self.give_up(out);
        }
        self.state = State::Body { start, end };
        if head.length == 0 {
            self.body(start, out);
        }
    }

    /// The frame at `start`, part of a header block, is complete and the last thing in `held`.
    fn body(&mut self, start: usize, out: &mut BytesMut) {
        let frame = start..self.held.len();
        let Some((head, fragment)) = self.fragment(frame.clone()) else {
            return self.give_up(out);
        };
        self.block.push(Piece { frame, fragment });
        if head.flags & END_HEADERS == 0 {
            self.state = State::Head(self.held.len());
            return;
        }
        match self.rewrite(out) {
            Ok(()) => {
                self.held.clear();
                self.block.clear();
                self.state = State::Head(0);
            }
            Err(hpack::Malformed) => self.give_up(out),
        }
    }

    /// Writes the complete header block: unchanged, or with the same frames, some of them shorter.
    fn rewrite(&self, out: &mut BytesMut) -> Result<(), hpack::Malformed> {
        let block: Vec<u8> = self
            .block
            .iter()
            .flat_map(|piece| self.bytes(&piece.fragment))
            .copied()
            .collect();
        let (replaced, replacement) = match &self.rule {
            Rule::Unacceptable => (hpack::unacceptable(&block)?, hpack::REPLACEMENT),
            Rule::All(literal) => (hpack::all(&block)?, literal.as_slice()),
        };
        if replaced.is_empty() {
            out.put_slice(&self.held);
            return Ok(());
        }
        let mut new = Vec::with_capacity(block.len());
        let mut copied = 0;
        for range in replaced {
            new.extend_from_slice(block.get(copied..range.start).unwrap_or_default());
            new.extend_from_slice(replacement);
            copied = range.end;
        }
        new.extend_from_slice(block.get(copied..).unwrap_or_default());

        let mut rest = new.as_slice();
        for (index, Piece { frame, fragment }) in self.block.iter().enumerate() {
            let is_last = index + 1 == self.block.len();
            let length = if is_last { rest.len() } else { fragment.len() };
            let fragment_bytes = take(&mut rest, length);
            let before = self.bytes(&(frame.start + HEAD..fragment.start));
            let padding = self.bytes(&(fragment.end..frame.end));
            let length = before.len() + fragment_bytes.len() + padding.len();
            out.put_uint(u64::try_from(length).unwrap_or_default(), 3);
            out.put_slice(self.bytes(&(frame.start + 3..frame.start + HEAD)));
            out.put_slice(before);
            out.put_slice(fragment_bytes);
            out.put_slice(padding);
        }
        Ok(())
    }

    /// The range of the frame's part of the header block; `None` if the frame is invalid.
    fn fragment(&self, frame: Range<usize>) -> Option<(Head, Range<usize>)> {
        let head = self.head_at(frame.start)?;
        let mut fragment = frame.start + HEAD..frame.end;
        if head.kind == HEADERS && head.flags & PADDED != 0 {
            let padding = usize::from(*self.held.get(fragment.start)?);
            fragment = fragment.start + 1..fragment.end.checked_sub(padding)?;
        }
        if head.kind == HEADERS && head.flags & PRIORITY != 0 {
            fragment.start += 5;
        }
        (fragment.start <= fragment.end).then_some((head, fragment))
    }

    fn head_at(&self, start: usize) -> Option<Head> {
        Head::parse(self.held.get(start..)?)
    }

    fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.held.get(range.clone()).unwrap_or_default()
    }

    fn release(&mut self, out: &mut BytesMut) {
        out.put_slice(&self.held);
        self.held.clear();
        self.block.clear();
    }

    fn give_up(&mut self, out: &mut BytesMut) {
        self.release(out);
        self.held = Vec::new();
        self.state = State::Opaque;
    }
}

/// Splits up to `count` bytes off the front.
fn take<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    taken
}
