//! What a controller says about an object.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::attempt_log::{Attempt, Last};
use super::object::Object;
use crate::controller::reactor::{Now, Reactor};
use crate::queue::KeyState;

/// A reactor that explains its work. All of it is computed when somebody asks, from what the reactor remembers anyway.
pub trait Explained: Reactor + Clone {
    /// What this controller knows of `object`; `None` if it never has work for objects of such a kind.
    fn explain(
        &self,
        object: &Object,
        informers: &Self::Informers,
        now: Now,
    ) -> Option<Explanation<Self::Key>>;

    /// The object that `key` is about.
    fn object(&self, key: &Self::Key, informers: &Self::Informers) -> Object;

    /// A copy of the reactor for the decision about `key`, which may lack what that decision does not look at: with
    /// 50,000 objects a whole copy takes tens of milliseconds.
    fn fork(&self, _key: &Self::Key, _informers: &Self::Informers) -> Self {
        self.clone()
    }

    /// The text of a failure.
    fn text(failure: &Self::Failure) -> String;

    /// Requests whose volume may exist without the API knowing it, if this controller keeps a journal of such.
    fn intents(&self) -> Option<Vec<OpenIntent>> {
        None
    }
}

/// What a controller knows of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation<K> {
    /// `metadata.uid`; empty if the object is not known.
    pub uid: String,
    /// The controller knows the object. Controllers keep only objects that work may be due for.
    pub is_known: bool,
    /// The rule by which the object is not this controller's; `None` if it is.
    pub not_ours: Option<String>,
    /// The work that there is, or may be.
    pub work: Vec<Work<K>>,
}

impl<K> Explanation<K> {
    /// An object that the controller does not know.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            uid: String::new(),
            is_known: false,
            not_ours: None,
            work: Vec::new(),
        }
    }

    /// A known object, with this rule if it is not the controller's.
    #[must_use]
    pub fn known(uid: &str, not_ours: Option<String>) -> Self {
        Self {
            uid: uid.to_owned(),
            is_known: true,
            not_ours,
            work: Vec::new(),
        }
    }

    /// The same with this work.
    #[must_use]
    pub fn with(mut self, work: Work<K>) -> Self {
        self.work.push(work);
        self
    }
}

/// One key's work on an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Work<K> {
    /// Index of the key's queue.
    pub queue: usize,
    /// The key.
    pub key: K,
    /// The work in one word, such as `attach`.
    pub what: &'static str,
    /// Why it is this work.
    pub because: String,
    /// Objects whose appearance or change brings it back before its back-off ends.
    pub waits_for: Vec<Object>,
    /// How long the driver's refusal still keeps it from being repeated.
    pub later: Option<Duration>,
    /// Work of this kind waits for lists to be complete; the controller's other work may have begun.
    pub awaits_lists: bool,
    /// Further facts of this controller.
    pub facts: Map<String, Value>,
}

impl<K> Work<K> {
    /// Work of which nothing else is known.
    pub fn new(queue: usize, key: K, what: &'static str, because: impl Into<String>) -> Self {
        Self {
            queue,
            key,
            what,
            because: because.into(),
            waits_for: Vec::new(),
            later: None,
            awaits_lists: false,
            facts: Map::new(),
        }
    }

    /// The same, waiting for these objects.
    #[must_use]
    pub fn waiting_for(mut self, objects: impl IntoIterator<Item = Object>) -> Self {
        self.waits_for.extend(objects);
        self
    }

    /// The same with this fact.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }
}

/// An entry of the journal that is not settled, without the request's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenIntent {
    /// The claim.
    pub claim: Object,
    /// Its UID.
    pub uid: String,
    /// `open`: the claim's request; `owed`: one of an earlier process or of an earlier form of the claim, settled beside
    /// it.
    pub state: &'static str,
    /// Name of the volume that may exist.
    pub volume: String,
    /// Since when the outcome is unknown to this process.
    pub since: Option<Instant>,
    /// Names of the Leases with the entry.
    pub leases: Vec<String>,
}

/// What an engine says about an object: an [`Explanation`] with the state of each key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineAnswer {
    /// As in [`Explanation`].
    pub uid: String,
    /// As in [`Explanation`].
    pub is_known: bool,
    /// As in [`Explanation`].
    pub not_ours: Option<String>,
    /// The engine waits for lists to be complete, so an object that it does not know may exist.
    pub awaits_lists: bool,
    /// The work, if there is any.
    pub work: Vec<WorkAnswer>,
}

/// One key's work, with all that is known of the key.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkAnswer {
    /// The object.
    pub object: Object,
    /// As in [`Work`].
    pub what: &'static str,
    /// As in [`Work`].
    pub because: String,
    /// As in [`Work`].
    pub waits_for: Vec<Object>,
    /// As in [`Work`].
    pub later: Option<Duration>,
    /// As in [`Work`].
    pub awaits_lists: bool,
    /// As in [`Work`].
    pub facts: Map<String, Value>,
    /// Name of the queue.
    pub queue: String,
    /// `None` if the queue does not know the key.
    pub key_state: Option<KeyState>,
    /// The attempt under way.
    pub running: Option<Attempt>,
    /// Time limit of the call under way.
    pub deadline: Option<Instant>,
    /// The last failure.
    pub last: Option<Last>,
    /// The first step of the next attempt; `None` if it would take none, or one is under way.
    pub next: Option<String>,
}

impl Now {
    /// The moment `at` as answers write it.
    #[must_use]
    pub fn write(self, at: Instant) -> String {
        let time = match at.checked_duration_since(self.instant) {
            Some(ahead) => self.timestamp.checked_add(ahead),
            None => self
                .timestamp
                .checked_sub(self.instant.saturating_duration_since(at)),
        };
        written(time.unwrap_or(self.timestamp))
    }
}

/// RFC 3339 with milliseconds.
pub(super) fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
