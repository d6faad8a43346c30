//! An attempt that makes no headway is stopped, whatever its controller thinks.
//!
//! The API server may take a write and show nothing of it: definitions of an older version drop fields
//! that they do not know, admission webhooks change what they like. A decision that looks at the answer
//! finds its goal as far away as before, and writes again, thousands of times a minute.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::controller::reactor::Reactor;

/// More steps than an attempt of almost any controller needs.
pub const MOST_STEPS: u32 = 256;

/// A controller is told of so many steps that they were not taken, each of which should end its attempt.
const UNSENT: u32 = 8;

/// What one attempt has done so far.
#[derive(Debug)]
pub struct Bound {
    most: u32,
    taken: u32,
    unsent: u32,
    written: HashSet<u64>,
}

/// Why a step is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circle {
    /// The attempt has written the same to the same object before.
    EqualWrite,
    /// The attempt has taken this many steps.
    Steps(u32),
}

impl fmt::Display for Circle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EqualWrite => out.write_str(
                "not written again: the API server has accepted this very write, and the object does not \
                 show it; an older CustomResourceDefinition or an admission webhook may drop what is written",
            ),
            Self::Steps(steps) => write!(out, "given up for now after {steps} steps"),
        }
    }
}

impl Bound {
    /// For an attempt of `most` steps.
    pub fn new(most: u32) -> Self {
        Self {
            most,
            taken: 0,
            unsent: 0,
            written: HashSet::new(),
        }
    }

    /// Whether the attempt may take this step.
    ///
    /// # Errors
    /// It may not: the step is to be answered with [`Reactor::unsent`].
    pub fn admit<R: Reactor>(&mut self, step: &R::Step) -> Result<(), Circle> {
        let circle = if self.taken >= self.most {
            Some(Circle::Steps(self.taken))
        } else if R::write(step).is_some_and(|write| self.written.contains(&hash(&write))) {
            Some(Circle::EqualWrite)
        } else {
            self.taken += 1;
            None
        };
        self.unsent += u32::from(circle.is_some());
        circle.map_or(Ok(()), Err)
    }

    /// A step that was taken had this answer.
    pub fn answered<R: Reactor>(&mut self, step: &R::Step, answer: &R::Answer) {
        if let Some(write) = R::write(step).filter(|_| R::is_written(answer)) {
            self.written.insert(hash(&write));
        }
    }

    /// Whether the attempt goes on although it was told again and again that its steps are not taken. It is
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
