//! Whether the API server keeps health conditions: one older than Kubernetes 1.37, or without the feature gate
//! CSIVolumeHealth, accepts them and drops them.
//!
//! One claim is tried; what happens to it decides for all others.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::model::Text;

/// How long a server that dropped them is left alone.
pub const REST: Duration = Duration::from_secs(10 * 60);

/// What earlier writes have shown of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing.
    #[default]
    Unknown,
    /// The claims of this volume are being tried.
    Tried(Text),
    /// It keeps them.
    Keeps,
    /// It drops them, and is left alone until then.
    Drops(Instant),
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    state: State,
    /// Volumes that wait for the end of the trial.
    waiting: BTreeSet<Text>,
    /// It has dropped them, and has kept none since.
    dropped: bool,
}

/// What the answer to a write shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It keeps them, and who waited may write.
    Keeps,
    /// It drops them, which was not known.
    Drops,
    /// It drops them still.
    DropsStill,
    /// Nothing new.
    None,
}

impl Field {
    /// Whether the conditions of this volume may be written to a claim that has none.
    pub fn admits(&mut self, handle: &Text, now: Instant) -> bool {
        match &self.state {
            State::Keeps => true,
            State::Tried(tried) if tried == handle => true,
            State::Tried(_) => {
                self.waiting.insert(handle.clone());
                false
            }
            State::Drops(until) if *until > now => false,
            State::Drops(_) | State::Unknown => {
                self.waiting.remove(handle);
                self.state = State::Tried(handle.clone());
                true
            }
        }
    }

    /// Conditions were written, and the answer has some, or none.
    pub fn answered(&mut self, kept: bool, now: Instant) -> News {
        self.waiting.clear();
        if kept {
            let known = std::mem::replace(&mut self.state, State::Keeps) == State::Keeps;
            self.dropped = false;
            return if known { News::None } else { News::Keeps };
        }
        self.state = State::Drops(now + REST);
        match std::mem::replace(&mut self.dropped, true) {
            false => News::Drops,
            true => News::DropsStill,
        }
    }

    /// The attempt on this volume is over. If nobody tries the server now, another one may: which.
    pub fn ended(&mut self, handle: &Text) -> Option<Text> {
        if matches!(&self.state, State::Tried(tried) if tried == handle) {
            self.state = State::Unknown;
        }
        // Who was told so and had nothing to write any more leaves it to the next.
        match self.state {
            State::Unknown => self.waiting.pop_first(),
            State::Tried(_) | State::Keeps | State::Drops(_) => None,
        }
    }

    /// There is no such volume any more.
    pub fn forget(&mut self, handle: &Text) {
        self.waiting.remove(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_41_and_42_one_claim_is_tried_for_all() {
        let start = Instant::now();
        let (a, b): (Text, Text) = ("a".into(), "b".into());
        let mut field = Field::default();
        assert!(field.admits(&a, start));
        assert!(!field.admits(&b, start), "until it is known");
        assert_eq!(field.answered(false, start), News::Drops);
        assert_eq!(field.ended(&a), None);
        let rest = start + REST;
        assert!(!field.admits(&b, rest - Duration::from_secs(1)));
        assert!(field.admits(&b, rest));
        assert!(!field.admits(&a, rest));
        assert_eq!(field.answered(false, rest), News::DropsStill, "said once");
        assert!(field.admits(&a, rest + REST));
        assert_eq!(field.answered(true, rest + REST), News::Keeps);
        assert!(field.admits(&b, rest + REST));
        assert_eq!(field.answered(true, rest), News::None);
        assert_eq!(
            field.answered(false, rest),
            News::Drops,
            "switched off again"
        );
    }

    #[test]
    fn who_failed_to_try_leaves_it_to_others() {
        let now = Instant::now();
        let (a, b): (Text, Text) = ("a".into(), "b".into());
        let mut field = Field::default();
        let c: Text = "c".into();
        assert!(field.admits(&a, now) && !field.admits(&b, now) && !field.admits(&c, now));
        assert_eq!(
            field.ended(&b),
            None,
            "it waits, though its attempt is over"
        );
        assert_eq!(field.ended(&c), None);
        assert_eq!(field.ended(&a), Some(b.clone()));
        assert_eq!(field.ended(&b), Some(c.clone()), "it had nothing to write");
        assert!(field.admits(&c, now) && !field.admits(&a, now));
        field.forget(&a);
        assert_eq!(field.ended(&c), None);
    }
}
