//! Stops an attempt that makes no progress, whatever its controller decides.
//!
//! The API server may accept a write without any effect: CRDs of an older version drop unknown fields,
//! admission webhooks change whatever they like. A decision that looks at the answer finds its goal as
//! distant as before, and writes again, thousands of times a minute.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::controller::request::Ask;

/// More requests than an attempt of almost any controller needs.
pub const MOST_REQUESTS: u32 = 256;

/// Number of requests refused before the engine ends the attempt; each refusal should end it.
const UNSENT: u32 = 8;

/// The requests of one attempt so far.
#[derive(Debug)]
pub struct Bound {
    most: u32,
    sent: u32,
    unsent: u32,
    /// Hash of the write that is under way.
    write: Option<u64>,
    written: HashSet<u64>,
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circle {
    /// The attempt has sent an equal write to the same object before.
    EqualWrite,
    /// The attempt has sent this many requests.
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
    /// Bounds an attempt to `most` requests.
    pub fn new(most: u32) -> Self {
        Self {
            most,
            sent: 0,
            unsent: 0,
            write: None,
            written: HashSet::new(),
        }
    }

    /// Admits the request, or says why the attempt must not send it.
    ///
    /// # Errors
    /// The request must not be sent; answer it with [`Ask::unsent`].
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

    /// Records the reply to the request that was sent last.
    pub fn answered<Q: Ask>(&mut self, reply: &Q::Reply) {
        self.written
            .extend(self.write.take().filter(|_| Q::is_written(reply)));
    }

    /// Whether the attempt goes on although its requests were refused again and again. The engine then ends
    /// it without asking its controller.
    pub fn is_exhausted(&self) -> bool {
        self.unsent >= UNSENT
    }
}

fn hash(write: &impl Hash) -> u64 {
    // Fixed hash keys are safe: nobody gains anything from two writes whose hashes collide.
    let mut hasher = DefaultHasher::new();
    write.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
