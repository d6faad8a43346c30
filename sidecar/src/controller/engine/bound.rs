//! An attempt that makes no headway is stopped, whatever its controller thinks.
//!
//! The API server may take a write and show nothing of it: definitions of an older version drop fields
//! that they do not know, admission webhooks change what they like. A decision that looks at the answer
//! finds its goal as far away as before, and writes again, thousands of times a minute.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::controller::request::Ask;

/// More requests than an attempt of almost any controller needs.
pub const MOST_REQUESTS: u32 = 256;

/// A controller is told of so many requests that they were not sent, each of which should end its attempt.
const UNSENT: u32 = 8;

/// What one attempt has done so far.
#[derive(Debug)]
pub struct Bound {
    most: u32,
    sent: u32,
    unsent: u32,
    /// The write that the attempt waits for.
    write: Option<u64>,
    written: HashSet<u64>,
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circle {
    /// The attempt has written the same to the same object before.
    EqualWrite,
    /// The attempt has made this many requests.
    Requests(u32),
}

impl fmt::Display for Circle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EqualWrite => out.write_str(
                "not written again: the API server has accepted this very write, and the object does not \
                 show it; an older CustomResourceDefinition or an admission webhook may drop what is written",
            ),
            Self::Requests(sent) => write!(out, "given up for now after {sent} steps"),
        }
    }
}

impl Bound {
    /// For an attempt of `most` requests.
    pub fn new(most: u32) -> Self {
        Self {
            most,
            sent: 0,
            unsent: 0,
            write: None,
            written: HashSet::new(),
        }
    }

    /// Whether the attempt may make this request.
    ///
    /// # Errors
    /// It may not: the request is to be answered with [`Ask::unsent`].
    pub fn admit(&mut self, request: &impl Ask) -> Result<(), Circle> {
        self.write = request.write().map(|write| hash(&write));
        let circle = if self.sent >= self.most {
            Some(Circle::Requests(self.sent))
        } else if self
            .write
            .is_some_and(|write| self.written.contains(&write))
        {
            Some(Circle::EqualWrite)
        } else {
            self.sent += 1;
            None
        };
        self.unsent += u32::from(circle.is_some());
        circle.map_or(Ok(()), Err)
    }

    /// The last request was sent, and had this reply.
    pub fn answered<Q: Ask>(&mut self, reply: &Q::Reply) {
        self.written
            .extend(self.write.take().filter(|_| Q::is_written(reply)));
    }

    /// Whether the attempt goes on although it was told again and again that its requests are not sent. It is
    /// ended without being asked.
    pub fn is_exhausted(&self) -> bool {
        self.unsent >= UNSENT
    }
}

fn hash(write: &impl Hash) -> u64 {
    // With the same keys in every process: nobody gains by two writes that are taken for equal.
    let mut hasher = DefaultHasher::new();
    write.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
