//! Events and failures that follow from the reply to a request.

use sidecar::controller::request::Object as _;
use sidecar::snapshot::{CONTENT, GROUP_CONTENT, GROUP_SNAPSHOT, SNAPSHOT};

use super::attempt::Subject;
use super::{About, Event, Notice};
use crate::model::{Group, Snapshot, Text};
use crate::plan::complaint::{Complaint, unwritten};
use crate::plan::operation::{Operation, Operations};
use crate::plan::request::{ApiError, Write};
use crate::plan::view::{Progress, Purpose};

impl Subject {
    pub(super) fn uid(&self) -> &Text {
        match self {
            Self::Snapshot(snapshot) => &snapshot.uid,
            Self::Content(content) => &content.uid,
            Self::Group(group) => &group.uid,
            Self::GroupContent(content) => &content.uid,
        }
    }

    fn about(&self) -> About {
        let nowhere = Text::default();
        let (kind, namespace, name, version) = match self {
            Self::Snapshot(one) => (SNAPSHOT, &one.namespace, &one.name, &one.version),
            Self::Content(one) => (CONTENT, &nowhere, &one.name, &one.version),
            Self::Group(one) => (GROUP_SNAPSHOT, &one.namespace, &one.name, &one.version),
            Self::GroupContent(one) => (GROUP_CONTENT, &nowhere, &one.name, &one.version),
        };
        About {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
            uid: self.uid().clone(),
            version: version.clone(),
        }
    }

    fn event(&self, warning: bool, reason: &'static str, message: String) -> Notice {
        Notice::Event(Box::new(Event {
            about: self.about(),
            warning,
            reason,
            message,
        }))
    }
}

/// The events that report a failure.
pub(super) fn events(subject: &Subject, complaint: &Complaint) -> Vec<Notice> {
    let also = complaint.also.clone().into_iter();
    let one = (complaint.reason, complaint.message.clone());
    also.chain([one])
        .map(|(reason, message)| subject.event(true, reason, message))
        .collect()
}

/// The events that report a success.
pub(super) fn success(subject: &Subject, purpose: &Purpose) -> Vec<Notice> {
    // The noun in events' sentences and reasons.
    let (what, whole, reasons) = match subject {
        Subject::Snapshot(one) => ("snapshot", one.key(), &SINGLE),
        Subject::Group(one) => ("group snapshot", one.key(), &GROUP),
        Subject::Content(_) | Subject::GroupContent(_) => return Vec::new(),
    };
    let capital = reasons.capital;
    let normal = |reason, message| subject.event(false, reason, message);
    match purpose {
        Purpose::Create { nowhere } => {
            let message = format!("Waiting for a {what} {whole} to be created by the CSI driver.");
            let nowhere = nowhere.then(|| {
                let message = "No node matches the volume's node affinity, so no csi-snapshotter will take this snapshot. Label the VolumeSnapshotContent with the node whose csi-snapshotter should take it";
                subject.event(true, "SnapshotNodeNotFound", message.to_owned())
            });
            let created = normal(reasons.creating, message);
            [created].into_iter().chain(nowhere).collect()
        }
        Purpose::Status(Progress { created, ready }) => {
            let created = created.then(|| {
                let message =
                    format!("{capital} {whole} was successfully created by the CSI driver.");
                normal(reasons.created, message)
            });
            let ready = ready.then(|| {
                let message = format!("{capital} {whole} is ready to use.");
                normal(reasons.ready, message)
            });
            created.into_iter().chain(ready).collect()
        }
        Purpose::Finalizers
        | Purpose::DefaultClass
        | Purpose::Protect
        | Purpose::Release
        | Purpose::Bind
        | Purpose::Announce
        | Purpose::Delete
        | Purpose::Unprotect
        | Purpose::Complain(_)
        | Purpose::Member
        | Purpose::ContentFinalizer => Vec::new(),
    }
}

/// Reasons of the events that report successes.
struct Reasons {
    capital: &'static str,
    creating: &'static str,
    created: &'static str,
    ready: &'static str,
}

const SINGLE: Reasons = Reasons {
    capital: "Snapshot",
    creating: "CreatingSnapshot",
    created: "SnapshotCreated",
    ready: "SnapshotReady",
};
const GROUP: Reasons = Reasons {
    capital: "GroupSnapshot",
    creating: "CreatingGroupSnapshot",
    created: "GroupSnapshotCreated",
    ready: "GroupSnapshotReady",
};

/// The samples of operations that a status write completes.
pub(super) fn samples(
    operations: &mut Operations,
    uid: &Text,
    progress: Progress,
    driver: Option<&Text>,
) -> Vec<Notice> {
    let ended = [
        (progress.created, Operation::Create),
        (progress.ready, Operation::CreateAndReady),
    ];
    let ended = ended.into_iter().filter(|(ended, _)| *ended);
    ended
        .filter_map(|(_, operation)| operations.end(uid, operation, "success", driver))
        .map(Notice::Sample)
        .collect()
}

/// The failure to report after a write was refused; `None` if it is for the log alone.
pub(super) fn refusal(snapshot: &Snapshot, write: &Write, error: &ApiError) -> Option<Complaint> {
    let key = snapshot.key();
    let wrapped = unwritten(&key, error);
    Some(match &write.purpose {
        Purpose::Finalizers => Complaint::event(
            "SnapshotFinalizerError",
            format!("Failed to check and update snapshot: {wrapped}"),
        ),
        Purpose::Protect => {
            let (_, name) = write.object.key().split_once('/').unwrap_or_default();
            Complaint::uncreated(unwritten(name, error))
        }
        Purpose::Release => Complaint::event(
            "ErrorPVCFinalizer",
            "Error check and remove PVC Finalizer for VolumeSnapshot",
        ),
        Purpose::Create { .. } => Complaint {
            also: Some((
                "CreateSnapshotContentFailed",
                format!(
                    "Error creating volume snapshot content object for snapshot {key}: {error}."
                ),
            )),
            ..Complaint::uncreated(wrapped)
        },
        Purpose::Bind => Complaint::unready(
            "SnapshotBindFailed",
            format!("Snapshot failed to bind VolumeSnapshotContent, {error}"),
        ),
        Purpose::Delete => Complaint::event(
            "SnapshotContentObjectDeleteError",
            "Failed to delete snapshot content API object",
        ),
        Purpose::Status(_) => Complaint::event(
            "SnapshotStatusUpdateFailed",
            format!("Snapshot status update failed, {wrapped}"),
        ),
        Purpose::DefaultClass
        | Purpose::Announce
        | Purpose::Unprotect
        | Purpose::Complain(_)
        | Purpose::Member
        | Purpose::ContentFinalizer => return None,
    })
}

/// The failure to report after a write for a group was refused; `None` if it is for the log alone.
pub(super) fn refusal_of_group(
    group: &Group,
    write: &Write,
    error: &ApiError,
) -> Option<Complaint> {
    let key = group.key();
    let wrapped = unwritten(&key, error);
    Some(match &write.purpose {
        Purpose::Finalizers => Complaint::event(
            "GroupSnapshotFinalizerError",
            format!("Failed to check and update group snapshot: {wrapped}"),
        ),
        Purpose::Create { .. } => {
            let message = format!(
                "Error creating volume group snapshot content object for group snapshot {key}: \
                 {error}."
            );
            Complaint {
                also: Some(("CreateGroupSnapshotContentFailed", message)),
                ..Complaint::ungrouped(&wrapped)
            }
        }
        Purpose::Bind => Complaint::unready(
            "GroupSnapshotBindFailed",
            format!("GroupSnapshot failed to bind VolumeGroupSnapshotContent, {error}"),
        ),
        Purpose::Delete => Complaint::event(
            "GroupSnapshotContentObjectDeleteError",
            "Failed to delete group snapshot content API object",
        ),
        Purpose::Member if group.deleting => {
            let member = write.object.key();
            let message = format!(
                "failed to delete snapshot API object {member} part of group snapshot {key}: {error}"
            );
            Complaint::event("SnapshotDeleteError", message)
        }
        Purpose::Status(_) | Purpose::Member => Complaint::event(
            "GroupSnapshotStatusUpdateFailed",
            format!("GroupSnapshot status update failed, {wrapped}"),
        ),
        Purpose::DefaultClass
        | Purpose::Protect
        | Purpose::Release
        | Purpose::Announce
        | Purpose::Unprotect
        | Purpose::Complain(_)
        | Purpose::ContentFinalizer => return None,
    })
}
