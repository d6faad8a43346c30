//! Finds the keys that a change requeues.

use super::{Controller, Informed, Notice, Update, Wakes, push};
use crate::model::{Claim, Content, ContentHead, Group, GroupContent, Snapshot, Text};
use crate::plan::complaint::RequeueTrigger;
use crate::plan::in_flight::{GroupHandle, Key};
use crate::plan::request::Object;
use crate::plan::settled::{content_is_settled, is_settled};

impl Controller {
    pub(super) fn snapshot_changed(
        &mut self,
        Update { old, new, own }: Update<'_, Snapshot>,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.uid != old.uid)) {
            // However it went: if somebody removed its finalizers by force, its content may be orphaned, and its claim
            // may still have our finalizer.
            self.ended(&old.uid, due);
            push(due, old.bound().cloned().map(Key::Content));
            push(due, old.claim().map(Key::Claim));
        }
        let freed = self.in_flight.snapshot(old, new);
        push(due, freed.map(Key::Claim));
        let rests = new.is_some_and(|new| match old {
            // Another object of the same name needs an attempt, whoever wrote it; so does a group's
            // write.
            Some(old) => own && old.uid == new.uid && new.group().is_none() && !new.is_member(),
            None => is_settled(new, informers),
        });
        self.changed(Key::Snapshot(either.key()), new.is_some(), rests, due);
    }

    /// Requeues what waits for this object, and the object unless it is gone or rests.
    fn changed(&mut self, key: Key, exists: bool, rests: bool, due: &mut Wakes) {
        self.triggered(&RequeueTrigger::Object(key.object()), due);
        if !exists {
            self.in_flight.forget(&key);
        } else if !rests {
            push(due, [key]);
        }
    }

    /// Ends the operations of the object with this UID, which is gone.
    fn ended(&mut self, uid: &Text, due: &mut Wakes) {
        let samples = self.operations.gone(uid);
        due.notices.extend(samples.into_iter().map(Notice::Sample));
        let in_flight = self.operations.len();
        due.notices.push(Notice::InFlight(in_flight));
        self.in_flight.unhandled.forget(uid);
    }

    pub(super) fn content_changed(
        &mut self,
        Update { old, new, own }: Update<'_, Content>,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.uid != old.uid)) {
            self.in_flight.orphans.remove(&old.uid);
        }
        self.in_flight.content(old, new);
        let rests = old.is_none() && new.is_some_and(content_is_settled);
        let key = Key::Content(either.name.clone());
        self.changed(key, new.is_some(), rests, due);
        // The attempt that made the write goes on with it; a write of a group's attempt
        // requeues the object.
        if !own || new.is_some_and(|new| new.group.is_some()) {
            let keys = named(old.map(Content::head), new.map(Content::head));
            let concerned = keys.filter(|key| {
                let snapshot = informers.snapshot(key);
                snapshot.is_some_and(|it| old.is_some() || !is_settled(&it, informers))
            });
            push(due, concerned.map(Key::Snapshot));
        }
    }

    pub(super) fn group_changed(
        &mut self,
        Update { old, new, own }: Update<'_, Group>,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        let content = |of: &Group| informers.group_content(&of.content_name()?);
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.uid != old.uid)) {
            self.ended(&old.uid, due);
            let members = self.in_flight.members.of(&old.uid).cloned();
            push(due, members.map(Key::Snapshot));
            if let Some(content) = content(old) {
                push(due, [Key::GroupContent(content.name.clone())]);
                // Contents of members may have been created late.
                self.wake_unbound(content.stands_for().as_ref(), due);
            }
        }
        let bound = |group: &Group| group.bound().cloned();
        if new.is_some() && new.and_then(bound) != old.and_then(bound) {
            // VolumeSnapshots of pre-provisioned contents may join the group now.
            let handle = new.and_then(content).and_then(|it| it.stands_for());
            self.wake_grouped(handle.as_ref(), due);
        }
        let rests = own && old.map(|old| &old.uid) == new.map(|new| &new.uid);
        self.changed(Key::Group(either.key()), new.is_some(), rests, due);
    }

    pub(super) fn group_content_changed(
        &mut self,
        Update { old, new, own }: Update<'_, GroupContent>,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.uid != old.uid)) {
            self.in_flight.orphans.remove(&old.uid);
        }
        for handle in self.in_flight.group_content(old, new) {
            self.wake_grouped(Some(&handle), due);
            self.wake_unbound(Some(&handle), due);
        }
        let key = Key::GroupContent(either.name.clone());
        self.changed(key, new.is_some(), false, due);
        if !own {
            let keys = named(old.map(GroupContent::head), new.map(GroupContent::head));
            let known = keys.filter(|key| informers.group(key).is_some());
            push(due, known.map(Key::Group));
        }
    }

    /// Requeues the half-made contents of members of the group with this handle.
    fn wake_unbound(&self, handle: Option<&GroupHandle>, due: &mut Wakes) {
        let unbound = handle.into_iter();
        let unbound = unbound.flat_map(|handle| self.in_flight.unbound.of(handle));
        push(due, unbound.cloned().map(Key::Content));
    }

    /// Requeues the VolumeSnapshots whose contents have this handle of a group.
    fn wake_grouped(&self, handle: Option<&GroupHandle>, due: &mut Wakes) {
        let grouped = handle.into_iter();
        let grouped = grouped.flat_map(|handle| self.in_flight.grouped.of(handle));
        push(due, grouped.cloned().map(Key::Snapshot));
    }

    pub(super) fn claim_changed(&mut self, key: Text, update: Update<'_, Claim>, due: &mut Wakes) {
        let Update { old, new, .. } = update;
        let is_free = |old: &Claim| old.protected.is_none();
        let read = self.in_flight.claim(&key, old, new);
        push(due, read.map(Key::Snapshot));
        self.triggered(&RequeueTrigger::Object(Object::Claim(key.clone())), due);
        match new {
            // Perhaps nobody needs the finalizer: an earlier process added it, or its request was
            // applied late.
            Some(new) if new.protected.is_some() && old.is_none_or(is_free) => {
                push(due, [Key::Claim(key)]);
            }
            Some(_) => {}
            None => self.in_flight.claims.settle(&key),
        }
    }

    pub(super) fn triggered(&self, trigger: &RequeueTrigger, due: &mut Wakes) {
        push(due, self.in_flight.triggered(trigger));
    }
}

/// Keys of the objects that a content refers to, and referred to before a change.
fn named(
    old: Option<ContentHead<'_>>,
    new: Option<ContentHead<'_>>,
) -> impl Iterator<Item = Text> + use<> {
    let all = [old, new].into_iter().flatten();
    let mut keys: Vec<Text> = all.map(|content| content.of_key()).collect();
    keys.dedup();
    keys.into_iter()
}
