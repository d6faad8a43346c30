//! The driver: groups of snapshots besides single ones in storage, and its answers.
//!
//! Storage has each group as one snapshot; its members are here. The driver cuts and deletes a group
//! member by member: a call that fails may have done a part, and the next one does the rest.

mod call;
mod list;

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::{GetVolumeGroupSnapshotResponse, Snapshot, Topology, VolumeGroupSnapshot};
use serde_json::Value;
use sidecar::controller::CallError;
use sidecar::text::Text;
use sidecar_testkit::sim::storage::{self, Wish};
use tonic::Code;

use super::check::uid_of;
use super::effect::Effect;
use super::groups::members_of;
use super::kind::Kind;
use super::snapshotter::{Sort, failed};
use super::world::World;

/// A handle of no snapshot in storage.
pub(super) const ANOTHER: &str = "another";

/// A member of a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The group's handle.
    pub(super) group: Text,
    pub(super) volume: Text,
    pub(super) size: i64,
    /// Number of answers that still report it as not ready.
    pub(super) unready: usize,
    /// Number of lists that still lack it.
    hidden: usize,
}

/// The members of groups.
#[derive(Default)]
pub(super) struct Groups {
    /// Volumes of requested groups, by the group's name.
    wanted: BTreeMap<String, Vec<Text>>,
    /// Existing members, by handle.
    pub(super) members: BTreeMap<Text, Member>,
    /// All members ever, in order, by the group's handle.
    pub(super) all: BTreeMap<Text, Vec<Text>>,
    /// Groups that are deleted in part.
    pub(super) torn: BTreeSet<Text>,
}

impl Groups {
    /// Records a request for a group of this name.
    pub(super) fn want(&mut self, name: &str, volumes: Vec<Text>) {
        self.wanted.insert(name.to_owned(), volumes);
    }

    pub(super) fn is_group(&self, handle: &Text) -> bool {
        self.all.contains_key(handle)
    }

    /// Whether a member ever had this handle.
    pub(super) fn had(&self, handle: &str) -> bool {
        let mut all = self.all.values().flatten();
        all.any(|one| **one == *handle)
    }

    /// Cuts all members of the group, or a first part.
    fn cut(&mut self, group: &Text, name: &str, whole: bool, mut taken: impl FnMut() -> Taken) {
        let Some(volumes) = self.wanted.get(name).cloned() else {
            return;
        };
        let number = if whole { volumes.len() } else { 1 };
        for volume in volumes.into_iter().take(number) {
            self.add(group, &volume, taken());
        }
    }

    fn add(&mut self, group: &Text, volume: &Text, (size, unready, hidden): Taken) {
        let there = { self.members.values() }
            .any(|member| member.group == *group && member.volume == *volume);
        let all = self.all.entry(group.clone()).or_default();
        if there {
            return;
        }
        let handle = Text::from(format!("{group}.{}", all.len() + 1));
        all.push(handle.clone());
        let member = Member {
            group: group.clone(),
            volume: volume.clone(),
            size,
            unready,
            hidden,
        };
        self.members.insert(handle, member);
    }

    /// Deletes the group, or a first part of it.
    fn remove(&mut self, group: &Text, whole: bool) {
        let of = |member: &Member| member.group == *group;
        let first = self
            .members
            .iter()
            .find_map(|(handle, member)| of(member).then(|| handle.clone()));
        match first {
            _ if whole => self.members.retain(|_, member| !of(member)),
            Some(first) => {
                self.members.remove(&first);
                self.torn.insert(group.clone());
            }
            None => {}
        }
    }
}

/// Size, number of answers as not ready, number of lists without it.
type Taken = (i64, usize, usize);

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Nothing,
    /// A part of a group; nothing of a single snapshot.
    Part,
    All,
}

impl World {
    /// An existing group that neither program took.
    pub(super) fn furnish_group(&mut self) -> (Text, Vec<Text>) {
        let (size, unready) = self.taken();
        let group = self.storage.furnish(size, unready);
        for volume in ["vol-7", "vol-8"] {
            let hidden = self.dice.below(3);
            self.groups
                .add(&group, &volume.into(), (size, unready, hidden));
        }
        let members = self.groups.all[&group].clone();
        (group, members)
    }

    /// The driver loses a snapshot that it never reported as ready, and takes another one when asked again.
    pub(super) fn forget(&mut self) {
        if self.frozen.1.is_some() {
            return;
        }
        let lost = self.server.all(Kind::Content).find_map(|(name, content)| {
            let handle = content["status"]["snapshotHandle"].as_str()?;
            let snapshot = self.storage.snapshots.get(handle)?;
            let attempts = self.snapshotter.single.attempts.running.iter();
            let mut calls = self.storage.running.iter();
            let busy = { attempts }.any(|running| running.key == *name)
                || calls.any(|call| call.found.as_deref() == Some(handle));
            let early = snapshot.unready > 0 && !snapshot.name.is_empty();
            (early && !busy).then(|| (Text::from(handle), Text::from(&*snapshot.name)))
        });
        if let Some((handle, name)) = lost {
            self.storage.snapshots.remove(&handle);
            self.seen.forgotten.insert(name);
        }
    }

    /// Whether the driver lost this content's snapshot.
    pub(super) fn forgot(&self, content: &Value) -> bool {
        let name = format!("snapshot-{}", uid_of(content));
        self.seen.forgotten.contains(&*name)
    }

    /// Begins a call, or refuses it at once.
    pub(super) fn begins(&mut self, wish: Wish) -> Result<u64, Code> {
        match &wish {
            // The driver's answer for a member of a group.
            Wish::Delete(handle) if self.groups.members.contains_key(handle) => {
                Err(Code::InvalidArgument)
            }
            Wish::Delete(_) => self.storage.begin(wish),
            Wish::Create(name) => {
                let name = name.clone();
                self.seen.calls.entry(name.clone()).or_default().made += 1;
                let begun = self.storage.begin(wish);
                if begun.is_err() {
                    self.may_repeat(&name);
                }
                begun
            }
        }
    }

    /// Records a reason to request the snapshot of this name once more.
    pub(super) fn may_repeat(&mut self, name: &str) {
        let calls = self.seen.calls.entry(name.to_owned()).or_default();
        calls.repeatable += 1;
    }

    /// Ends a call.
    pub(super) fn ends(&mut self, id: u64, done: Done, taken: (i64, usize)) -> storage::Call {
        let call = { self.storage.running.iter() }.find(|call| call.id == id);
        let grouped = match call.map(|call| &call.wish) {
            Some(Wish::Create(name)) => name.starts_with("groupsnapshot-"),
            Some(Wish::Delete(handle)) => self.groups.is_group(handle),
            None => false,
        };
        let creates = matches!(call.map(|call| &call.wish), Some(Wish::Create(_)));
        // A group cut in part exists; one deleted in part is not gone.
        let effect = done == Done::All || done == Done::Part && grouped && creates;
        let call = self.storage.end(id, effect, taken);
        match &call.wish {
            Wish::Create(name) if grouped && effect => {
                if let Some(group) = self.storage.named(name).cloned() {
                    let dice = &mut self.dice;
                    let taken = || (taken.0, taken.1, dice.below(3));
                    self.groups.cut(&group, name, done == Done::All, taken);
                }
            }
            Wish::Delete(handle) if grouped && done != Done::Nothing => {
                self.groups.remove(handle, done == Done::All);
            }
            Wish::Create(_) | Wish::Delete(_) => {}
        }
        if let (Wish::Delete(handle), true) = (&call.wish, done != Done::Nothing) {
            self.hold_deleted(handle);
        }
        self.check_storage();
        call
    }

    /// Fails a call with or without effect, or lets it go on.
    pub(super) fn fail<S: Sort>(&mut self, name: &Text, id: u64) -> Code {
        let call = self.storage.running.iter().find(|call| call.id == id);
        if let Some(Wish::Create(name)) = call.map(|call| call.wish.clone()) {
            self.may_repeat(&name);
        }
        let taken = self.taken();
        match self.dice.below(6) {
            0 => {
                self.storage.abandon(id);
                Code::DeadlineExceeded
            }
            1 => {
                let call = self.ends(id, Done::All, taken);
                if matches!(call.wish, Wish::Create(_)) {
                    self.did::<S>(name, Effect::Takes);
                }
                Code::Unavailable
            }
            2 => {
                self.ends(id, Done::Nothing, taken);
                Code::ResourceExhausted
            }
            3 => {
                self.ends(id, Done::Part, taken);
                Code::DeadlineExceeded
            }
            _ => {
                let call = self.ends(id, Done::Nothing, taken);
                // A driver that has the snapshot does not deny it.
                if call.found.is_some() {
                    Code::Aborted
                } else {
                    *self.dice.of(&[Code::Internal, Code::NotFound])
                }
            }
        }
    }

    /// The driver's answer about an existing group.
    fn group(&mut self, handle: &Text) -> VolumeGroupSnapshot {
        let whole = self.storage.snapshots.get_mut(handle).unwrap();
        let mut ready = whole.unready == 0;
        whole.unready = whole.unready.saturating_sub(1);
        let mut snapshots = Vec::new();
        for name in self.groups.all[handle].clone() {
            let Some(member) = self.groups.members.get_mut(&name) else {
                continue;
            };
            ready &= member.unready == 0;
            snapshots.push(member.shown(&name));
        }
        VolumeGroupSnapshot {
            group_snapshot_id: handle.to_string(),
            snapshots,
            ready_to_use: ready,
            creation_time: None,
        }
    }

    /// Falsifies an answer, against the request or earlier answers.
    fn misreport(&mut self, content: &Text, group: &mut VolumeGroupSnapshot) {
        let content = self.server.get(Kind::GroupContent, content);
        let said = content.is_some_and(|content| !members_of(content).is_empty());
        let wrong = match (said, group.ready_to_use) {
            // A group that is not ready gets mistaken for a ready one.
            (true, false) => 3 + self.dice.below(2),
            (true, true) => self.dice.below(5),
            (false, _) => self.dice.below(3),
        };
        match (wrong, group.snapshots.last_mut()) {
            (0, Some(_)) => drop(group.snapshots.pop()),
            (1, Some(last)) => last.group_snapshot_id = ANOTHER.to_owned(),
            (2, Some(last)) => last.source_volume_id = ANOTHER.to_owned(),
            (3, Some(last)) => {
                last.snapshot_id = ANOTHER.to_owned();
                group.ready_to_use = true;
            }
            (_, _) => {
                group.group_snapshot_id = ANOTHER.to_owned();
                let members = group.snapshots.iter_mut();
                members.for_each(|one| one.group_snapshot_id.clear());
                group.ready_to_use = true;
            }
        }
    }

    /// Answers GetVolumeGroupSnapshot.
    pub(super) fn shows_group(
        &mut self,
        handle: &str,
    ) -> Result<GetVolumeGroupSnapshotResponse, CallError> {
        if !self.storage.snapshots.contains_key(handle) {
            return Err(failed(Code::NotFound));
        }
        let mut group = self.group(&handle.into());
        // Adds a wrong member beside a right one; in another spelling all of them would look wrong.
        if self.is_faulty()
            && self.dice.one_in(6)
            && let [_, .., last] = &mut *group.snapshots
        {
            last.snapshot_id = ANOTHER.to_owned();
            group.ready_to_use = true;
        }
        let group_snapshot = Some(group);
        Ok(GetVolumeGroupSnapshotResponse { group_snapshot })
    }
}

impl Member {
    /// The driver's answer about it; each answer brings it closer to readiness.
    fn shown(&mut self, handle: &Text) -> Snapshot {
        let ready = self.unready == 0;
        self.unready = self.unready.saturating_sub(1);
        Snapshot {
            source_volume_id: self.volume.to_string(),
            group_snapshot_id: self.group.to_string(),
            ..shown(handle, self.size, ready)
        }
    }
}

fn shown(handle: &Text, size: i64, ready: bool) -> Snapshot {
    Snapshot {
        snapshot_id: handle.to_string(),
        size_bytes: size,
        ready_to_use: ready,
        ..Snapshot::default()
    }
}

/// The topology of every snapshot.
fn there() -> Vec<Topology> {
    vec![Topology {
        segments: [("zone".to_owned(), "a".to_owned())].into(),
    }]
}
