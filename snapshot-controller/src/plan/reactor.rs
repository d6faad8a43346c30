//! The controller as one object: what it remembers, what events make due, and its attempts.
//!
//! What a failure waits for is remembered in the same turn in which the failure is decided on, so that
//! no event passes between the two. The crash simulation drives this object and no other.

mod attempt;
mod outcome;

use std::time::Duration;

use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::queue::Place;

use super::complaint::Cure;
use super::in_flight::{InFlightState, Key};
use super::informers::Informers;
use super::operation::{Operations, Sample};
use super::step::{Answer, Object, Step};
use crate::model::{Claim, Content, Snapshot, Text};

pub use attempt::Attempt;

/// The queue of VolumeSnapshots.
pub const SNAPSHOTS: usize = 0;
/// The queue of VolumeSnapshotContents.
pub const CONTENTS: usize = 1;
/// The queue of claims that may be let go.
pub const CLAIMS: usize = 2;

/// What an informer tells.
#[derive(Debug)]
pub enum Change<'a> {
    /// A VolumeSnapshot is new or has changed, or is gone.
    Snapshot {
        /// What was known of it.
        old: Option<&'a Snapshot>,
        /// What is known now.
        new: Option<&'a Snapshot>,
        /// Whether it is known from the answer to a write of this process, which the attempt that
        /// wrote it looks at.
        own: bool,
    },
    /// A VolumeSnapshotContent is new or has changed, or is gone.
    Content {
        /// What was known of it.
        old: Option<&'a Content>,
        /// What is known now.
        new: Option<&'a Content>,
        /// As above.
        own: bool,
    },
    /// A claim is new or has changed, or is gone.
    Claim {
        /// Its key.
        key: Text,
        /// What was known of it.
        old: Option<&'a Claim>,
        /// What is known now.
        new: Option<&'a Claim>,
    },
    /// A PersistentVolume of this name is new or has changed.
    Volume(Text),
    /// A VolumeSnapshotClass of this name is new or has changed.
    Class(Text),
    /// Nothing happened to what this key is about; the time for a resync has come.
    Resync(Key),
}

/// An event for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub about: About,
    /// Whether something may need attention.
    pub warning: bool,
    /// `reason`
    pub reason: &'static str,
    /// `message`
    pub message: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its kind.
    pub kind: sidecar::snapshot::Kind,
    /// Its namespace, empty for a content.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its UID.
    pub uid: Text,
    /// Its version.
    pub version: Text,
}

/// What the world is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Users are.
    Event(Box<Event>),
    /// Something that is waited for has come to its end.
    Sample(Sample),
    /// So many things are waited for.
    InFlight(usize),
}

/// Why an attempt is to be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What failed.
    pub what: &'static str,
    /// Why.
    pub error: String,
}

type Informed<'a> = &'a (dyn Informers + 'static);
type News = Due<Key, Notice>;

/// The controller.
#[derive(Debug, Default)]
pub struct Controller {
    memory: InFlightState,
    operations: Operations,
}

impl Reactor for Controller {
    type Key = Key;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    type Attempt = Attempt;
    type Step = Step;
    type Answer = Answer;
    type Notice = Notice;
    type Failure = Failed;

    fn observe(&mut self, change: Change<'_>, informers: Informed<'_>) -> News {
        let mut due = News::default();
        match change {
            Change::Snapshot { old, new, own } => self.snapshot_changed(old, new, own, &mut due),
            Change::Content { old, new, own } => {
                self.content_changed(old, new, &mut due);
                // Its own attempt has made the write, and goes on.
                if !own {
                    wake_named(old, new, informers, &mut due);
                }
            }
            Change::Claim { key, old, new } => self.claim_changed(key, old, new, &mut due),
            Change::Volume(name) => self.cure(&Cure::Object(Object::Volume(name)), &mut due),
            Change::Class(name) => {
                self.cure(&Cure::Class(name), &mut due);
                self.cure(&Cure::AnyClass, &mut due);
            }
            Change::Resync(key) => due.wakes.push(Wake {
                unless_delayed: true,
                ..wake(key)
            }),
        }
        due
    }

    fn begin(&mut self, key: &Key, informers: Informed<'_>, now: Now) -> Attempt {
        self.memory.forget(key);
        if let Key::Snapshot(name) = key
            && let Some(snapshot) = informers.snapshot(name)
        {
            let driver = attempt::driver(&snapshot, informers);
            self.operations.begin(&snapshot, driver, now.instant);
        }
        Attempt::new(key)
    }

    fn decide(&mut self, attempt: &mut Attempt, informers: Informed<'_>, now: Now) -> Option<Step> {
        self.next(attempt, informers, now.timestamp)
    }

    fn answered(
        &mut self,
        attempt: &mut Attempt,
        step: Step,
        answer: Answer,
        informers: Informed<'_>,
    ) -> News {
        let mut due = News::default();
        self.heard(attempt, &step, answer, informers, &mut due);
        due
    }

    fn end(
        &mut self,
        attempt: Attempt,
        _informers: Informed<'_>,
        _now: Now,
    ) -> (Verdict<Failed>, News) {
        let mut due = News::default();
        let (verdict, notices) = attempt.end();
        due.notices = notices;
        let in_flight = self.operations.len();
        due.notices.push(Notice::InFlight(in_flight));
        (verdict, due)
    }

    fn hangs_after(&self, _key: &Key, _informers: Informed<'_>) -> Option<Duration> {
        None
    }
}

impl Controller {
    fn snapshot_changed(
        &mut self,
        old: Option<&Snapshot>,
        new: Option<&Snapshot>,
        own: bool,
        due: &mut News,
    ) {
        let Some(either) = new.or(old) else { return };
        let key = either.key();
        let replaced = old.is_some_and(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = old.filter(|_| replaced) {
            self.gone(old, due);
        }
        let freed = self.memory.snapshot(old, new);
        due.wakes.extend(freed.map(|claim| wake(Key::Claim(claim))));
        self.cure(&Cure::Object(Object::Snapshot(key.clone())), due);
        match new {
            // Another one of the name is news, whoever has read it.
            Some(new) if own && old.is_some_and(|old| old.uid == new.uid) => {}
            Some(_) => due.wakes.push(wake(Key::Snapshot(key))),
            None => self.memory.forget(&Key::Snapshot(key)),
        }
    }

    /// A VolumeSnapshot is gone, by whatever way: its content may be without anybody now, and so may its
    /// claim, which whoever took its finalizers by force did not think of.
    fn gone(&mut self, old: &Snapshot, due: &mut News) {
        let samples = self.operations.gone(&old.uid);
        due.notices.extend(samples.into_iter().map(Notice::Sample));
        let in_flight = self.operations.len();
        due.notices.push(Notice::InFlight(in_flight));
        let content = old.bound().cloned();
        due.wakes
            .extend(content.map(|name| wake(Key::Content(name))));
        due.wakes
            .extend(old.claim().map(|claim| wake(Key::Claim(claim))));
    }

    fn content_changed(&mut self, old: Option<&Content>, new: Option<&Content>, due: &mut News) {
        let Some(either) = new.or(old) else { return };
        let replaced = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = replaced {
            self.memory.untell(&old.uid);
        }
        let name = either.name.clone();
        self.cure(&Cure::Object(Object::Content(name.clone())), due);
        match new {
            Some(_) => due.wakes.push(wake(Key::Content(name))),
            None => self.memory.forget(&Key::Content(name)),
        }
    }

    fn claim_changed(
        &mut self,
        key: Text,
        old: Option<&Claim>,
        new: Option<&Claim>,
        due: &mut News,
    ) {
        let read = self.memory.claim(&key, old, new);
        due.wakes
            .extend(read.map(|snapshot| wake(Key::Snapshot(snapshot))));
        self.cure(&Cure::Object(Object::Claim(key.clone())), due);
        match new {
            // Nobody may need it: it was protected before this process was there, or by a request of
            // another one that came late.
            Some(new) if new.protected.is_some() && old.is_none_or(is_free) => {
                due.wakes.push(wake(Key::Claim(key)));
            }
            Some(_) => {}
            None => self.memory.claims.settle(&key),
        }
    }

    fn cure(&self, cure: &Cure, due: &mut News) {
        due.wakes
            .extend(self.memory.cured(cure).into_iter().map(wake));
    }

    /// What it remembers.
    #[cfg(any(test, feature = "simulation"))]
    #[must_use]
    pub fn memory(&self) -> &InFlightState {
        &self.memory
    }

    #[cfg(test)]
    pub(crate) fn memory_mut(&mut self) -> &mut InFlightState {
        &mut self.memory
    }

    /// What it measures.
    #[cfg(any(test, feature = "simulation"))]
    #[must_use]
    pub fn operations(&self) -> &Operations {
        &self.operations
    }
}

fn is_free(claim: &Claim) -> bool {
    claim.protected.is_none()
}

/// Wakes the VolumeSnapshots that a content names, and named: that may be changed.
fn wake_named(
    old: Option<&Content>,
    new: Option<&Content>,
    informers: Informed<'_>,
    due: &mut News,
) {
    let all = [old, new].into_iter().flatten();
    let mut keys: Vec<Text> = all.map(Content::snapshot_key).collect();
    keys.dedup();
    let known = keys
        .into_iter()
        .filter(|key| informers.snapshot(key).is_some());
    due.wakes.extend(known.map(|key| wake(Key::Snapshot(key))));
}

fn wake(key: Key) -> Wake<Key> {
    Wake {
        queue: match key {
            Key::Snapshot(_) => SNAPSHOTS,
            Key::Content(_) => CONTENTS,
            Key::Claim(_) => CLAIMS,
        },
        key,
        place: Place::default(),
        unless_delayed: false,
    }
}
