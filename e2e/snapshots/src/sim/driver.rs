//! The driver: groups of snapshots beside the single ones in storage, and what it answers.
//!
//! The storage has each group as one snapshot; what belongs to it is here. A group is cut, and deleted,
//! member by member: a call that fails may have done a part of that, and the next one does the rest.

mod call;

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{
    GetVolumeGroupSnapshotResponse, ListSnapshotsResponse, Snapshot, VolumeGroupSnapshot,
};
use serde_json::Value;
use sidecar::controller::CallError;
use sidecar::text::Text;
use sidecar_testkit::sim::storage::{self, Wish, full, plain};
use tonic::Code;

use super::check::uid_of;
use super::effect::Effect;
use super::groups::members_of;
use super::kind::Kind;
use super::snapshotter::{Sort, failed};
use super::world::World;

/// A handle that nothing in storage has.
const ANOTHER: &str = "another";

/// A snapshot of a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The group's handle.
    pub(super) group: Text,
    pub(super) volume: Text,
    size: i64,
    /// How often it is still to be called unready.
    pub(super) unready: usize,
    /// How often the list still does not have it.
    hidden: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Groups {
    /// Volumes of groups, by the group's name.
    wanted: BTreeMap<String, Vec<Text>>,
    /// What is there, by handle.
    pub(super) members: BTreeMap<Text, Member>,
    /// What was ever there, by the group's handle; in order.
    pub(super) all: BTreeMap<Text, Vec<Text>>,
    /// Groups of which a part is deleted.
    pub(super) torn: BTreeSet<Text>,
}

impl Groups {
    /// A group of this name is asked for.
    pub(super) fn want(&mut self, name: &str, volumes: Vec<Text>) {
        self.wanted.insert(name.to_owned(), volumes);
    }

    pub(super) fn is_group(&self, handle: &Text) -> bool {
        self.all.contains_key(handle)
    }

    /// Cuts as many of the group as are to be.
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

    /// The group goes, or a first part of it.
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

/// Size, how often it is unready, how often it is not in the list.
type Taken = (i64, usize, usize);

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Nothing,
    /// A part of a group; of a single snapshot nothing.
    Part,
    All,
}

impl World {
    /// A group that nobody here has taken.
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

    /// The driver loses a snapshot that it never called ready, and takes another one when it is asked again.
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

    /// Whether it lost the snapshot that a content names.
    pub(super) fn forgot(&self, content: &Value) -> bool {
        let name = format!("snapshot-{}", uid_of(content));
        self.seen.forgotten.contains(&*name)
    }

    /// What the driver says at once to a call, if it does.
    pub(super) fn begins(&mut self, wish: Wish) -> Result<u64, Code> {
        match &wish {
            // That is said of members of groups.
            Wish::Delete(handle) if self.groups.members.contains_key(handle) => {
                Err(Code::InvalidArgument)
            }
            Wish::Create(_) | Wish::Delete(_) => self.storage.begin(wish),
        }
    }

    /// A call comes to its end.
    pub(super) fn ends(&mut self, id: u64, done: Done, taken: (i64, usize)) -> storage::Call {
        let call = { self.storage.running.iter() }.find(|call| call.id == id);
        let grouped = match call.map(|call| &call.wish) {
            Some(Wish::Create(name)) => name.starts_with("groupsnapshot-"),
            Some(Wish::Delete(handle)) => self.groups.is_group(handle),
            None => false,
        };
        let creates = matches!(call.map(|call| &call.wish), Some(Wish::Create(_)));
        // What is cut in part is there; what is deleted in part is not gone.
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

    /// It fails: with effect or without, or goes on.
    pub(super) fn fail<S: Sort>(&mut self, name: &Text, id: u64) -> Code {
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
                // A driver that has the snapshot does not say that there is none.
                if call.found.is_some() {
                    Code::Aborted
                } else {
                    Code::Internal
                }
            }
        }
    }

    /// What it says of a group that is there.
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

    /// The answer does not fit what was asked for, or what the driver has said before.
    fn misreport(&mut self, content: &Text, group: &mut VolumeGroupSnapshot) {
        let content = self.server.get(Kind::GroupContent, content);
        let said = content.is_some_and(|content| !members_of(content).is_empty());
        let wrong = match (said, group.ready_to_use) {
            // What is waited for is what a ready one is mistaken for.
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

    /// GetVolumeGroupSnapshot.
    pub(super) fn shows_group(
        &mut self,
        handle: &str,
    ) -> Result<GetVolumeGroupSnapshotResponse, CallError> {
        if !self.storage.snapshots.contains_key(handle) {
            return Err(failed(Code::NotFound));
        }
        let mut group = self.group(&handle.into());
        // One that is not what was asked for beside one that is; in another spelling it would be all of them.
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

    /// ListSnapshots, for one handle, which the driver may spell in another way.
    pub(super) fn lists(&mut self, handle: &str) -> ListSnapshotsResponse {
        let spelled = self.dice.one_in(4);
        let found = if let Some(member) = self.groups.members.get_mut(handle) {
            let late = member.hidden > 0;
            member.hidden = member.hidden.saturating_sub(1);
            (!late).then(|| member.shown(&handle.into()))
        } else {
            let handle = plain(handle);
            self.storage.snapshots.get_mut(handle).map(|found| {
                let mut snapshot = shown(&handle.into(), found.size, found.unready == 0);
                if spelled {
                    snapshot.snapshot_id = full(handle);
                }
                found.unready = found.unready.saturating_sub(1);
                snapshot
            })
        };
        let entry = |snapshot| Entry {
            snapshot: Some(snapshot),
        };
        ListSnapshotsResponse {
            entries: found.map(entry).into_iter().collect(),
            next_token: String::new(),
        }
    }
}

impl Member {
    /// What the driver says of it, and it comes nearer to be ready.
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
