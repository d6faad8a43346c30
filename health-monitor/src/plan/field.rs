//! Whether the API server stores health conditions: one older than Kubernetes 1.37, or without the feature gate
//! CSIVolumeHealth, accepts and drops them.
//!
//! The health monitor tries one volume's claims first; the result decides for all others.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::model::Text;

/// How long to wait before trying again on a server that dropped health conditions.
pub const REST: Duration = Duration::from_secs(10 * 60);

/// The server's behaviour, as far as earlier writes have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// No write has been answered yet.
    #[default]
    Unknown,
    /// A trial on the claims of this volume is running.
    Tried(Text),
    /// The server stores health conditions.
    Keeps,
    /// The server drops health conditions; the next trial starts at this time.
    Drops(Instant),
}

/// The server's behaviour and the running trial; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    state: State,
    /// Volumes that wait for the result of the trial.
    waiting: BTreeSet<Text>,
    /// The server has dropped health conditions and stored none since.
    dropped: bool,
}

/// What the answer to a write shows about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The server stores health conditions, so the waiting volumes may write.
    Keeps,
    /// The server drops health conditions; this was not known.
    Drops,
    /// The server still drops health conditions.
    DropsStill,
    /// Nothing new.
    None,
}

impl Field {
    /// The same, without those that wait: no decision about a volume looks at others.
    #[must_use]
    pub fn without_waiting(&self) -> Self {
        Self {
            state: self.state.clone(),
            waiting: BTreeSet::new(),
            dropped: self.dropped,
        }
    }

    /// Whether the conditions of this volume may be written to a claim that has none. Starts a trial if none is
    /// running.
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

    /// Conditions were written; `kept` says whether the answer contains any.
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

    /// The attempt on this volume ended. Returns the volume that should try next, if no trial is running.
    pub fn ended(&mut self, handle: &Text) -> Option<Text> {
        if matches!(&self.state, State::Tried(tried) if tried == handle) {
            self.state = State::Unknown;
        }
        // A waiting volume that had nothing left to write passes the trial on to the next one.
        match self.state {
            State::Unknown => self.waiting.pop_first(),
            State::Tried(_) | State::Keeps | State::Drops(_) => None,
        }
    }

    /// No volume has this handle any more.
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
