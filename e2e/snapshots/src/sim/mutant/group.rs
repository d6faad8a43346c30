//! Faulty programs that only groups can reveal.

use std::sync::Arc;

use csi_proto::csi::{Snapshot, VolumeGroupSnapshot};
use sidecar::controller::request::{Body, Part, Patch};
use sidecar::snapshot::GROUP_SNAPSHOT_BOUND;
use sidecar::text::Text;
use snapshot_controller::model as controller;
use snapshot_controller::plan::request as asked;
use snapshotter::model::{Content, Kind, Policy, Source, Status};
use snapshotter::plan::request::{Call, Called, Purpose, Request, StatusWrite};

use super::super::world::Faults;
use super::{Caught, Mutant};

impl Mutant {
    /// All mutants that need groups.
    pub(in super::super) const CAUGHT_WITH_GROUPS: [Caught; 25] = [
        (Self::LeavesGroupsBare, Faults::None, "is not protected", 1),
        (Self::IgnoresGroupPolicy, Faults::None, "was to be kept", 2),
        (
            Self::ForgetsToAnnounceGroups,
            Faults::None,
            "Terminating",
            1,
        ),
        (Self::DeletesForLivingGroups, Faults::None, "owner lives", 1),
        (Self::FreesMembers, Faults::None, "its group lives", 12),
        (Self::ResetsMembers, Faults::None, "is reset", 1),
        (Self::BindsWrongly, Faults::None, "wrong VolumeSnapshot", 2),
        (Self::MixesMembersUp, Faults::None, "another's snapshot", 2),
        (Self::OverhearsRestores, Faults::None, "being restored", 57),
        (Self::TrustsTheCacheOfGroups, Faults::All, "goes before", 73),
        (
            Self::ControllerOverhearsGroupContents,
            Faults::None,
            "never ready",
            2,
        ),
        (Self::OverhearsOwners, Faults::None, "leaves a member", 11),
        (Self::AdoptsWhatIsLoose, Faults::None, "is owned again", 1),
        (Self::TakesMembers, Faults::None, "for a member", 12),
        (Self::DeletesMembers, Faults::None, "is deleted alone", 1),
        (Self::NamesNoMembers, Faults::None, "without its members", 1),
        (Self::ForgetsMembers, Faults::None, "without its members", 1),
        (Self::ChangesMembers, Faults::None, "other members", 1),
        (Self::DeletesGroupsInDoubt, Faults::All, "is nobody's", 31),
        (Self::DeletesRetainedGroups, Faults::None, "retained", 30),
        (Self::UnmarksGroupsFirst, Faults::None, "is nobody's", 1),
        (Self::NamesGroupsAnew, Faults::None, "another name", 1),
        (
            Self::CompletesAnswers,
            Faults::All,
            "without its members",
            0,
        ),
        (Self::BelievesOtherGroups, Faults::All, "ready too early", 6),
        (Self::ReordersMembers, Faults::None, "other members", 2),
    ];

    pub(in super::super) fn sees_group(
        self,
        group: &Arc<controller::Group>,
    ) -> Arc<controller::Group> {
        let mut seen = Arc::clone(group);
        match self {
            Self::LeavesGroupsBare if !seen.is_protected() => {
                let held = seen.finalizers.iter().cloned();
                let held = held.chain([GROUP_SNAPSHOT_BOUND.into()]).collect();
                Arc::make_mut(&mut seen).finalizers = held;
            }
            Self::DeletesForLivingGroups if seen.is_ready() => {
                Arc::make_mut(&mut seen).deleting = true;
            }
            _ => {}
        }
        seen
    }

    pub(in super::super) fn sees_group_content(
        self,
        content: &Arc<controller::GroupContent>,
    ) -> Arc<controller::GroupContent> {
        let mut seen = Arc::clone(content);
        match self {
            Self::IgnoresGroupPolicy => {
                Arc::make_mut(&mut seen).policy = Policy::Delete;
            }
            Self::ForgetsToAnnounceGroups => Arc::make_mut(&mut seen).being_deleted = true,
            _ => {}
        }
        seen
    }

    /// The claim's record as a faulty controller notices it.
    pub(in super::super) fn hears_claim(
        self,
        claim: Option<&controller::Claim>,
    ) -> Option<controller::Claim> {
        let mut heard = claim.cloned();
        let deaf = matches!(self, Self::OverhearsRestores | Self::IgnoresRestores);
        if let Some(claim) = heard.as_mut().filter(|_| deaf) {
            claim.restores = None;
        }
        heard
    }

    /// Changes a write as a faulty controller would decide. `other` is the UID of another VolumeSnapshot.
    pub(super) fn wants_of_member(self, write: &mut asked::Write, other: Option<Text>) {
        let Body::Patch(part, Patch::Merge(body)) = &mut write.body else {
            return;
        };
        match (self, &write.object, part) {
            (Self::BindsWrongly, asked::Object::Content(_), Part::Main) => {
                if let (Some(uid), Some(other)) =
                    (body["spec"]["volumeSnapshotRef"].get_mut("uid"), other)
                {
                    *uid = (&*other).into();
                }
            }
            (Self::MixesMembersUp, _, Part::Status) => {
                let handle = &mut body["status"]["snapshotHandle"];
                if let Some(group) = handle.as_str().and_then(|one| one.strip_suffix(".2")) {
                    *handle = format!("{group}.1").into();
                }
            }
            _ => {}
        }
    }

    /// The content of a group as a faulty snapshotter sees it.
    pub(super) fn sees_of_group(self, seen: &mut Arc<Content>) {
        let grouped = seen.kind() == Kind::Group;
        match self {
            Self::TakesMembers if seen.member && matches!(seen.source, Some(Source::Volume(_))) => {
                let seen = Arc::make_mut(seen);
                seen.member = false;
                seen.class = Some("c1".into());
            }
            Self::DeletesMembers if seen.deleting => {
                let seen = Arc::make_mut(seen);
                seen.member = false;
                if let Some(status) = &mut seen.status {
                    status.group = None;
                }
            }
            Self::DeletesGroupsInDoubt if grouped && seen.deleting => {
                Arc::make_mut(seen).being_created = false;
            }
            Self::DeletesRetainedGroups if grouped => {
                Arc::make_mut(seen).policy = Policy::Delete;
            }
            _ => {}
        }
    }

    /// Changes a request about a group as a faulty snapshotter would decide.
    pub(super) fn wants_of_group(self, request: Request, content: &Content) -> Request {
        match (self, request) {
            (Self::NamesGroupsAnew, Request::Call(Call::CreateGroup(mut call))) => {
                call.name = format!("{}-{}", call.name, content.version);
                Request::Call(Call::CreateGroup(call))
            }
            (Self::NamesNoMembers, Request::Call(Call::DeleteGroup(mut call))) => {
                call.snapshot_ids.clear();
                Request::Call(Call::DeleteGroup(call))
            }
            (_, Request::Write(mut write)) => {
                if let (Purpose::Status(what), Body::Patch(_, Patch::Merge(body))) =
                    (&write.purpose, &mut write.body)
                {
                    match self {
                        Self::ForgetsMembers => {
                            if let Some(status) = body["status"].as_object_mut() {
                                status.remove("volumeSnapshotInfoList");
                            }
                        }
                        Self::ChangesMembers if *what == StatusWrite::Clear => {
                            body["status"]["volumeSnapshotInfoList"] = serde_json::json!([]);
                        }
                        Self::ReordersMembers if content.handle().is_some() => {
                            let list = body["status"].get_mut("volumeSnapshotInfoList");
                            if let Some(list) = list.and_then(serde_json::Value::as_array_mut) {
                                list.reverse();
                            }
                        }
                        _ => {}
                    }
                }
                Request::Write(write)
            }
            (_, request) => request,
        }
    }

    pub(super) fn hears_of_group(self, called: Called, content: Option<&Content>) -> Called {
        match (self, called) {
            (Self::CompletesAnswers, Called::CreateGroup(call, Ok(mut response))) => {
                if let Some(group) = &mut response.group_snapshot {
                    complete(group, &call.source_volume_ids);
                }
                Called::CreateGroup(call, Ok(response))
            }
            (Self::BelievesOtherGroups, Called::CreateGroup(call, Ok(mut response))) => {
                let known = content.and_then(|content| content.status.as_ref());
                if let (Some(known), Some(group)) = (known, &mut response.group_snapshot) {
                    rename(group, known);
                }
                Called::CreateGroup(call, Ok(response))
            }
            (_, called) => called,
        }
    }
}

/// Adds a snapshot for each missing volume to the group.
fn complete(group: &mut VolumeGroupSnapshot, volumes: &[String]) {
    for volume in volumes {
        let there = |one: &Snapshot| one.source_volume_id == *volume;
        if !group.snapshots.iter().any(there) {
            group.snapshots.push(Snapshot {
                snapshot_id: format!("made up of {volume}"),
                source_volume_id: volume.clone(),
                ..Snapshot::default()
            });
        }
    }
}

/// Gives the group and its snapshots the recorded handles.
fn rename(group: &mut VolumeGroupSnapshot, known: &Status) {
    if let Some(handle) = &known.handle {
        group.group_snapshot_id = handle.to_string();
    }
    for member in known.members.iter() {
        let volume = |one: &&mut Snapshot| one.source_volume_id == *member.volume;
        if let Some(one) = group.snapshots.iter_mut().find(volume) {
            one.snapshot_id = member.handle.to_string();
            one.group_snapshot_id.clear();
        }
    }
}
