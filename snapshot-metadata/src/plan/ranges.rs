//! Checks that the driver's ranges are in order, and cuts the driver's messages for the client.
//!
//! A backup trusts the ranges it gets, so a stream that contradicts itself must not end as a complete
//! one. Messages stay encoded: the program only finds where each range begins and ends, and a message for
//! the client is a slice of the driver's. A whole volume costs no more memory than that.

mod wire;

use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};

use wire::{Field, Wire};

/// Longest message to a client, whose limit is usually 4 MiB.
pub const LONGEST: usize = 1 << 20;

/// A range of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte of the range.
    pub offset: i64,
    /// Length in bytes.
    pub size: i64,
}

impl Range {
    /// The first byte after the range; `None` if the numbers are not a valid range.
    fn end(self) -> Option<i64> {
        let is_one = self.offset >= 0 && self.size > 0;
        self.offset.checked_add(self.size).filter(|_| is_one)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes at {}", self.size, self.offset)
    }
}

/// The fields that all messages of a stream must agree on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// `block_metadata_type`
    pub kind: i32,
    /// `volume_capacity_bytes`
    pub capacity: i64,
}

/// Why the program stops trusting a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The driver's bytes are not a message of this type.
    Malformed,
    /// The range has a negative offset, no length, or an end that overflows.
    Impossible(Range),
    /// The second range begins before the end of the first.
    Disordered(Range, Range),
    /// Type or capacity differ from those of earlier messages.
    Changed(Shape, Shape),
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the CSI driver's stream is not usable: ")?;
        match self {
            Self::Malformed => out.write_str("a message cannot be decoded"),
            Self::Impossible(range) => write!(out, "a range of {range}"),
            Self::Disordered(before, range) => {
                write!(
                    out,
                    "{range} follow {before}, they are out of order or overlap"
                )
            }
            Self::Changed(before, now) => write!(
                out,
                "type {} and capacity {} became {} and {}",
                before.kind, before.capacity, now.kind, now.capacity
            ),
        }
    }
}

/// State of a stream: the client's wishes and the driver's ranges so far.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Drops ranges that end at or before this offset.
    from: i64,
    /// Maximum number of ranges in a message.
    most: usize,
    last: Option<Range>,
    shape: Option<Shape>,
}

/// A message of the driver, and how much of it was passed on.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Bytes,
    at: usize,
    shape: Shape,
    /// The driver's message has no ranges, and the client has not got it yet.
    is_empty: bool,
    fault: Option<Fault>,
}

/// A message for the client: `head`, then `ranges`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Type and capacity.
    pub head: Bytes,
    /// Encoded ranges.
    pub ranges: Bytes,
    /// Number of ranges.
    pub count: u64,
}

impl Piece {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.ranges.len()
    }

    /// Whether the message has no bytes: no ranges, and a volume without capacity.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Stream {
    /// A new stream for a client that asked for ranges from offset `from`, and for `most` ranges in a
    /// message; zero is no limit.
    #[must_use]
    pub fn new(from: i64, most: i32) -> Self {
        let most = usize::try_from(most).ok().filter(|most| *most > 0);
        Self {
            from,
            most: most.unwrap_or(usize::MAX),
            last: None,
            shape: None,
        }
    }

    /// Begins a message of the driver.
    ///
    /// # Errors
    /// The bytes are no message, or type or capacity differ from those of earlier messages.
    pub fn begin(&mut self, bytes: Bytes) -> Result<Message, Fault> {
        let mut shape = Shape::default();
        let mut is_empty = true;
        let mut wire = Wire::new(&bytes, 0);
        while let Some(field) = wire.next().ok_or(Fault::Malformed)? {
            match field {
                Field::Kind(kind) => shape.kind = kind,
                Field::Capacity(capacity) => shape.capacity = capacity,
                Field::Range(_) => is_empty = false,
                Field::Other => {}
            }
        }
        match self.shape {
            Some(before) if before != shape => return Err(Fault::Changed(before, shape)),
            _ => self.shape = Some(shape),
        }
        Ok(Message {
            bytes,
            at: 0,
            shape,
            is_empty,
            fault: None,
        })
    }

    /// Cuts the next message for the client; `None` once the driver's whole message was passed on.
    ///
    /// # Errors
    /// The next range contradicts the ones before. All ranges before it were passed on.
    pub fn cut(&mut self, message: &mut Message) -> Result<Option<Piece>, Fault> {
        if let Some(fault) = message.fault {
            return Err(fault);
        }
        let head = head(message.shape);
        if std::mem::take(&mut message.is_empty) {
            message.at = message.bytes.len();
            return Ok(Some(Piece {
                head,
                ranges: Bytes::new(),
                count: 0,
            }));
        }
        let room = LONGEST.saturating_sub(head.len());
        let mut wire = Wire::new(&message.bytes, message.at);
        let (mut begin, mut end, mut count) = (message.at, message.at, 0);
        loop {
            let start = wire.at();
            // `begin` has parsed the whole message before.
            let Some(field) = wire.next().ok_or(Fault::Malformed)? else {
                message.at = message.bytes.len();
                break;
            };
            let Field::Range(range) = field else {
                if count > 0 {
                    message.at = start;
                    break;
                }
                continue;
            };
            if count > 0 && (count >= self.most || wire.at() - begin > room) {
                message.at = start;
                break;
            }
            match self.take(range) {
                Ok(false) if count == 0 => continue,
                Ok(_) => {}
                Err(fault) => {
                    message.fault = Some(fault);
                    break;
                }
            }
            if count == 0 {
                begin = start;
            }
            end = wire.at();
            count += 1;
        }
        if count > 0 {
            return Ok(Some(Piece {
                head,
                ranges: message.bytes.slice(begin..end),
                count: count as u64,
            }));
        }
        message.fault.map_or(Ok(None), Err)
    }

    /// Checks the next range. Returns whether the client wants it.
    fn take(&mut self, range: Range) -> Result<bool, Fault> {
        let end = range.end().ok_or(Fault::Impossible(range))?;
        if let Some(last) = self.last
            && last.end().is_none_or(|before| range.offset < before)
        {
            return Err(Fault::Disordered(last, range));
        }
        self.last = Some(range);
        // Ranges are in order, so only the first ones can end before the offset.
        Ok(self.from <= 0 || end > self.from)
    }
}

fn head(shape: Shape) -> Bytes {
    let mut head = BytesMut::with_capacity(24);
    if shape.kind != 0 {
        head.put_u8(wire::KIND);
        wire::put(&mut head, i64::from(shape.kind));
    }
    if shape.capacity != 0 {
        head.put_u8(wire::CAPACITY);
        wire::put(&mut head, shape.capacity);
    }
    head.freeze()
}

#[cfg(test)]
mod tests;
