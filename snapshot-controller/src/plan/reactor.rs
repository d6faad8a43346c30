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
use super::informers::Informers;
use super::memory::{Key, Memory};
use super::operation::{Operations, Sample};
use super::step::{Answer, Object, Step};
use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text};

pub use attempt::Attempt;

/// The queue of VolumeSnapshots.
pub const SNAPSHOTS: usize = 0;
/// The queue of VolumeSnapshotContents.
pub const CONTENTS: usize = 1;
/// The queue of claims that may be let go.
pub const CLAIMS: usize = 2;
/// The queue of VolumeGroupSnapshots.
pub const GROUPS: usize = 3;
/// The queue of VolumeGroupSnapshotContents.
pub const GROUP_CONTENTS: usize = 4;

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
    /// A VolumeGroupSnapshot is new or has changed, or is gone.
    Group {
        /// What was known of it.
        old: Option<&'a Group>,
        /// What is known now.
        new: Option<&'a Group>,
        /// As above.
        own: bool,
    },
    /// A VolumeGroupSnapshotContent is new or has changed, or is gone.
    GroupContent {
        /// What was known of it.
        old: Option<&'a GroupContent>,
        /// What is known now.
        new: Option<&'a GroupContent>,
        /// As above.
        own: bool,
    },
    /// A VolumeGroupSnapshotClass of this name is new or has changed.
    GroupClass(Text),
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
    /// Its namespace, empty for contents.
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
    memory: Memory,
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
                // Its own attempt has made the write, and goes on; what a group's has written is news.
                let grouped = new.is_some_and(|new| new.group.is_some());
                if !own || grouped {
                    wake_named(old, new, informers, &mut due);
                }
            }
            Change::Claim { key, old, new } => self.claim_changed(key, old, new, &mut due),
            Change::Volume(name) => self.cure(&Cure::Object(Object::Volume(name)), &mut due),
            Change::Class(name) => {
                self.cure(&Cure::Class(name), &mut due);
                self.cure(&Cure::AnyClass, &mut due);
            }
            Change::Group { old, new, own } => {
                self.group_changed(old, new, own, informers, &mut due);
            }
            Change::GroupContent { old, new, own } => {
                self.group_content_changed(old, new, own, informers, &mut due);
            }
            Change::GroupClass(name) => {
                self.cure(&Cure::GroupClass(name), &mut due);
                self.cure(&Cure::AnyGroupClass, &mut due);
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
            self.operations.begin(snapshot.state(), driver, now.instant);
        }
        if let Key::Group(name) = key
            && let Some(group) = informers.group(name).filter(|_| informers.groups())
        {
            let driver = attempt::driver_of_group(&group, informers);
            self.operations.begin(group.state(), driver, now.instant);
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
        informers: Informed<'_>,
        now: Now,
    ) -> (Verdict<Failed>, News) {
        let mut due = News::default();
        let silent = &mut self.memory.silent;
        let (verdict, notices) = attempt.end(|snapshot| {
            let content = attempt::content(snapshot, informers)?;
            silent.look(snapshot, &content, now.timestamp)
        });
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
            // Another one of the name is news, whoever has read it; so is what a group has written.
            Some(new)
                if own
                    && old.is_some_and(|old| old.uid == new.uid)
                    && new.group().is_none()
                    && !new.is_member() => {}
            Some(_) => due.wakes.push(wake(Key::Snapshot(key))),
            None => self.memory.forget(&Key::Snapshot(key)),
        }
    }

    /// A VolumeSnapshot is gone, by whatever way: its content may be without anybody now, and so may its
    /// claim, which whoever took its finalizers by force did not think of.
    fn gone(&mut self, old: &Snapshot, due: &mut News) {
        self.ended(&old.uid, due);
        self.memory.silent.forget(&old.uid);
        let content = old.bound().cloned();
        due.wakes
            .extend(content.map(|name| wake(Key::Content(name))));
        due.wakes
            .extend(old.claim().map(|claim| wake(Key::Claim(claim))));
    }

    /// Nothing with this UID is worked on any more.
    fn ended(&mut self, uid: &Text, due: &mut News) {
        let samples = self.operations.gone(uid);
        due.notices.extend(samples.into_iter().map(Notice::Sample));
        let in_flight = self.operations.len();
        due.notices.push(Notice::InFlight(in_flight));
    }

    fn content_changed(&mut self, old: Option<&Content>, new: Option<&Content>, due: &mut News) {
        let Some(either) = new.or(old) else { return };
        let replaced = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = replaced {
            self.memory.untell(&old.uid);
        }
        self.memory.content(old, new);
        let name = either.name.clone();
        self.cure(&Cure::Object(Object::Content(name.clone())), due);
        match new {
            Some(_) => due.wakes.push(wake(Key::Content(name))),
            None => self.memory.forget(&Key::Content(name)),
        }
    }

    fn group_changed(
        &mut self,
        old: Option<&Group>,
        new: Option<&Group>,
        own: bool,
        informers: Informed<'_>,
        due: &mut News,
    ) {
        let Some(either) = new.or(old) else { return };
        let key = either.key();
        let replaced = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = replaced {
            self.ended(&old.uid, due);
            let members = self.memory.members(&old.uid).cloned();
            due.wakes
                .extend(members.map(|member| wake(Key::Snapshot(member))));
        }
        self.cure(&Cure::Object(Object::Group(key.clone())), due);
        let bound = |group: &Group| group.bound().cloned();
        if new.is_some() && new.and_then(bound) != old.and_then(bound) {
            // Those that an administrator made may join it now.
            let content = new.and_then(bound);
            let content = content.and_then(|name| informers.group_content(&name));
            let handle = content.and_then(|content| content.handle().cloned());
            handle
                .iter()
                .for_each(|handle| self.wake_grouped(handle, due));
        }
        match new {
            Some(new) if own && old.is_some_and(|old| old.uid == new.uid) => {}
            Some(_) => due.wakes.push(wake(Key::Group(key))),
            None => self.memory.forget(&Key::Group(key)),
        }
    }

    fn group_content_changed(
        &mut self,
        old: Option<&GroupContent>,
        new: Option<&GroupContent>,
        own: bool,
        informers: Informed<'_>,
        due: &mut News,
    ) {
        let Some(either) = new.or(old) else { return };
        let name = either.name.clone();
        for handle in self.memory.group_content(old, new) {
            self.wake_grouped(&handle, due);
            let unbound = self.memory.unbound(&handle).cloned();
            due.wakes
                .extend(unbound.map(|content| wake(Key::Content(content))));
        }
        self.cure(&Cure::Object(Object::GroupContent(name.clone())), due);
        match new {
            Some(_) => due.wakes.push(wake(Key::GroupContent(name))),
            None => self.memory.forget(&Key::GroupContent(name)),
        }
        if !own {
            let all = [old, new].into_iter().flatten();
            let mut keys: Vec<Text> = all.map(GroupContent::group_key).collect();
            keys.dedup();
            let known = keys
                .into_iter()
                .filter(|key| informers.group(key).is_some());
            due.wakes.extend(known.map(|key| wake(Key::Group(key))));
        }
    }

    /// VolumeSnapshots whose contents have this handle of a group.
    fn wake_grouped(&self, handle: &Text, due: &mut News) {
        let grouped = self.memory.grouped(handle).cloned();
        due.wakes
            .extend(grouped.map(|snapshot| wake(Key::Snapshot(snapshot))));
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

    #[cfg(test)]
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    #[cfg(test)]
    pub(crate) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    #[cfg(test)]
    pub(crate) fn operations(&self) -> &Operations {
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
            Key::Group(_) => GROUPS,
            Key::GroupContent(_) => GROUP_CONTENTS,
        },
        key,
        place: Place::default(),
        unless_delayed: false,
    }
}
