//! Finds the keys that a change requeues.

use super::attempt::content_of_group;
use super::{Controller, Informed, Notice, Wakes, wake};
use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text};
use crate::plan::complaint::RequeueTrigger;
use crate::plan::in_flight::{GroupHandle, Key};
use crate::plan::request::Object;
use crate::plan::settled::{content_is_settled, is_settled};

impl Controller {
    pub(super) fn snapshot_changed(
        &mut self,
        old: Option<&Snapshot>,
        new: Option<&Snapshot>,
        own: bool,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        let key = either.key();
        let replaced = old.is_some_and(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = old.filter(|_| replaced) {
            self.gone(old, due);
        }
        let freed = self.in_flight.snapshot(old, new);
        due.wakes.extend(freed.map(|claim| wake(Key::Claim(claim))));
        self.triggered(&RequeueTrigger::Object(Object::Snapshot(key.clone())), due);
        match new {
            // Another object of the same name needs an attempt, whoever wrote it; so does a group's
            // write.
            Some(new)
                if own
                    && old.is_some_and(|old| old.uid == new.uid)
                    && new.group().is_none()
                    && !new.is_member() => {}
            Some(new) if old.is_none() && is_settled(new, informers) => {}
            Some(_) => due.wakes.push(wake(Key::Snapshot(key))),
            None => self.in_flight.forget(&Key::Snapshot(key)),
        }
    }

    /// Handles a VolumeSnapshot that is gone, however it went: if somebody removed its finalizers by
    /// force, its content may be orphaned, and its claim may still have our finalizer.
    fn gone(&mut self, old: &Snapshot, due: &mut Wakes) {
        self.ended(&old.uid, due);
        self.in_flight.unhandled.forget(&old.uid);
        let content = old.bound().cloned();
        due.wakes
            .extend(content.map(|name| wake(Key::Content(name))));
        due.wakes
            .extend(old.claim().map(|claim| wake(Key::Claim(claim))));
    }

    /// Ends the operations of the object with this UID.
    fn ended(&mut self, uid: &Text, due: &mut Wakes) {
        let samples = self.operations.gone(uid);
        due.notices.extend(samples.into_iter().map(Notice::Sample));
        let in_flight = self.operations.len();
        due.notices.push(Notice::InFlight(in_flight));
    }

    pub(super) fn content_changed(
        &mut self,
        old: Option<&Content>,
        new: Option<&Content>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        let replaced = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = replaced {
            self.in_flight.forget_orphan(&old.uid);
        }
        self.in_flight.content(old, new);
        let name = either.name.clone();
        self.triggered(&RequeueTrigger::Object(Object::Content(name.clone())), due);
        match new {
            Some(new) if old.is_none() && content_is_settled(new) => {}
            Some(_) => due.wakes.push(wake(Key::Content(name))),
            None => self.in_flight.forget(&Key::Content(name)),
        }
    }

    pub(super) fn group_changed(
        &mut self,
        old: Option<&Group>,
        new: Option<&Group>,
        own: bool,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        let key = either.key();
        let replaced = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = replaced {
            self.ended(&old.uid, due);
            self.in_flight.unhandled.forget(&old.uid);
            let members = self.in_flight.members(&old.uid).cloned();
            due.wakes
                .extend(members.map(|member| wake(Key::Snapshot(member))));
            let content = content_of_group(old, informers);
            let name = content.as_ref().map(|content| content.name.clone());
            due.wakes
                .extend(name.map(|name| wake(Key::GroupContent(name))));
            // Contents of members may have been created late.
            let handle = content.and_then(|content| content.stands_for());
            handle
                .iter()
                .for_each(|handle| self.wake_unbound(handle, due));
        }
        self.triggered(&RequeueTrigger::Object(Object::Group(key.clone())), due);
        let bound = |group: &Group| group.bound().cloned();
        if new.is_some() && new.and_then(bound) != old.and_then(bound) {
            // VolumeSnapshots of pre-provisioned contents may join the group now.
            let content = new.and_then(|new| content_of_group(new, informers));
            let handle = content.and_then(|content| content.stands_for());
            handle
                .iter()
                .for_each(|handle| self.wake_grouped(handle, due));
        }
        match new {
            Some(new) if own && old.is_some_and(|old| old.uid == new.uid) => {}
            Some(_) => due.wakes.push(wake(Key::Group(key))),
            None => self.in_flight.forget(&Key::Group(key)),
        }
    }

    pub(super) fn group_content_changed(
        &mut self,
        old: Option<&GroupContent>,
        new: Option<&GroupContent>,
        own: bool,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        let Some(either) = new.or(old) else { return };
        let name = either.name.clone();
        let replaced = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = replaced {
            self.in_flight.forget_orphan(&old.uid);
        }
        for handle in self.in_flight.group_content(old, new) {
            self.wake_grouped(&handle, due);
            self.wake_unbound(&handle, due);
        }
        self.triggered(
            &RequeueTrigger::Object(Object::GroupContent(name.clone())),
            due,
        );
        match new {
            Some(_) => due.wakes.push(wake(Key::GroupContent(name))),
            None => self.in_flight.forget(&Key::GroupContent(name)),
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

    /// Requeues the half-made contents of members of the group with this handle.
    fn wake_unbound(&self, handle: &GroupHandle, due: &mut Wakes) {
        let unbound = self.in_flight.unbound(handle).cloned();
        due.wakes
            .extend(unbound.map(|content| wake(Key::Content(content))));
    }

    /// Requeues the VolumeSnapshots whose contents have this handle of a group.
    fn wake_grouped(&self, handle: &GroupHandle, due: &mut Wakes) {
        let grouped = self.in_flight.grouped(handle).cloned();
        due.wakes
            .extend(grouped.map(|snapshot| wake(Key::Snapshot(snapshot))));
    }

    pub(super) fn claim_changed(
        &mut self,
        key: Text,
        old: Option<&Claim>,
        new: Option<&Claim>,
        due: &mut Wakes,
    ) {
        let read = self.in_flight.claim(&key, old, new);
        due.wakes
            .extend(read.map(|snapshot| wake(Key::Snapshot(snapshot))));
        self.triggered(&RequeueTrigger::Object(Object::Claim(key.clone())), due);
        match new {
            // Perhaps nobody needs the finalizer: an earlier process added it, or its request was
            // applied late.
            Some(new) if new.protected.is_some() && old.is_none_or(is_free) => {
                due.wakes.push(wake(Key::Claim(key)));
            }
            Some(_) => {}
            None => self.in_flight.claims.settle(&key),
        }
    }

    pub(super) fn triggered(&self, trigger: &RequeueTrigger, due: &mut Wakes) {
        due.wakes
            .extend(self.in_flight.triggered(trigger).into_iter().map(wake));
    }
}

fn is_free(claim: &Claim) -> bool {
    claim.protected.is_none()
}

/// Requeues the VolumeSnapshots that a content refers to, and referred to before a change.
pub(super) fn wake_named(
    old: Option<&Content>,
    new: Option<&Content>,
    informers: Informed<'_>,
    due: &mut Wakes,
) {
    let all = [old, new].into_iter().flatten();
    let mut keys: Vec<Text> = all.map(Content::snapshot_key).collect();
    keys.dedup();
    let concerned = keys.into_iter().filter(|key| {
        let snapshot = informers.snapshot(key);
        snapshot.is_some_and(|snapshot| old.is_some() || !is_settled(&snapshot, informers))
    });
    due.wakes
        .extend(concerned.map(|key| wake(Key::Snapshot(key))));
}
