//! What steps that have come to their end tell users.

use sidecar::snapshot::{CONTENT, SNAPSHOT};

use super::attempt::Subject;
use super::{About, Event, Notice};
use crate::model::{Snapshot, Text};
use crate::plan::complaint::Complaint;
use crate::plan::operation::{Operation, Operations};
use crate::plan::step::ApiError;
use crate::plan::view::{Progress, Purpose};

impl Subject {
    pub(super) fn uid(&self) -> &Text {
        match self {
            Self::Snapshot(snapshot) => &snapshot.uid,
            Self::Content(content) => &content.uid,
        }
    }

    fn about(&self) -> About {
        match self {
            Self::Snapshot(snapshot) => About {
                kind: SNAPSHOT,
                namespace: snapshot.namespace.clone(),
                name: snapshot.name.clone(),
                uid: snapshot.uid.clone(),
                version: snapshot.version.clone(),
            },
            Self::Content(content) => About {
                kind: CONTENT,
                namespace: Text::default(),
                name: content.name.clone(),
                uid: content.uid.clone(),
                version: content.version.clone(),
            },
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

/// The events of a failure.
pub(super) fn events(subject: &Subject, complaint: &Complaint) -> Vec<Notice> {
    let also = complaint.also.clone().into_iter();
    let one = (complaint.reason, complaint.message.clone());
    also.chain([one])
        .map(|(reason, message)| subject.event(true, reason, message))
        .collect()
}

/// The events of a success.
pub(super) fn success(subject: &Subject, purpose: &Purpose) -> Vec<Notice> {
    let Subject::Snapshot(snapshot) = subject else {
        return Vec::new();
    };
    let whole = format!("{}/{}", snapshot.namespace, snapshot.name);
    let normal = |reason, message| subject.event(false, reason, message);
    match purpose {
        Purpose::Create { nowhere } => {
            let message =
                format!("Waiting for a snapshot {whole} to be created by the CSI driver.");
            let nowhere = nowhere.then(|| {
                let message = "No node fits the affinity of the volume, so that no csi-snapshotter \
                               takes the snapshot: label the VolumeSnapshotContent with the node \
                               that is to";
                subject.event(true, "SnapshotNodeNotFound", message.to_owned())
            });
            let created = normal("CreatingSnapshot", message);
            [created].into_iter().chain(nowhere).collect()
        }
        Purpose::Status(Progress { created, ready }) => {
            let created = created.then(|| {
                let message =
                    format!("Snapshot {whole} was successfully created by the CSI driver.");
                normal("SnapshotCreated", message)
            });
            let ready = ready.then(|| {
                let message = format!("Snapshot {whole} is ready to use.");
                normal("SnapshotReady", message)
            });
            created.into_iter().chain(ready).collect()
        }
        Purpose::Read(_)
        | Purpose::Finalizers
        | Purpose::DefaultClass
        | Purpose::Protect(_)
        | Purpose::Release(_)
        | Purpose::Bind
        | Purpose::Announce
        | Purpose::Delete
        | Purpose::Unprotect
        | Purpose::Complain(_)
        | Purpose::ContentFinalizer => Vec::new(),
    }
}

/// How long it took.
pub(super) fn samples(
    operations: &mut Operations,
    snapshot: &Snapshot,
    progress: Progress,
    driver: Option<&Text>,
) -> Vec<Notice> {
    let ended = [
        (progress.created, Operation::Create),
        (progress.ready, Operation::CreateAndReady),
    ];
    let ended = ended.into_iter().filter(|(ended, _)| *ended);
    ended
        .filter_map(|(_, operation)| operations.end(&snapshot.uid, operation, "success", driver))
        .map(Notice::Sample)
        .collect()
}

/// What users are told if a request failed for good; `None` where that is for the log alone.
pub(super) fn refusal(
    snapshot: &Snapshot,
    purpose: &Purpose,
    error: &ApiError,
) -> Option<Complaint> {
    let (namespace, name) = (&snapshot.namespace, &snapshot.name);
    Some(match purpose {
        Purpose::Finalizers => Complaint::event(
            "SnapshotFinalizerError",
            format!("Failed to check and update snapshot: {error}"),
        ),
        Purpose::Protect(_) => Complaint::uncreated(format_args!(
            "snapshot controller failed to update {name} on API server: {error}"
        )),
        Purpose::Release(_) => Complaint::event(
            "ErrorPVCFinalizer",
            "Error check and remove PVC Finalizer for VolumeSnapshot",
        ),
        Purpose::Create { .. } => Complaint {
            also: Some((
                "CreateSnapshotContentFailed",
                format!(
                    "Error creating volume snapshot content object for snapshot \
                     {namespace}/{name}: {error}."
                ),
            )),
            ..Complaint::uncreated(error)
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
            format!("Snapshot status update failed, {error}"),
        ),
        Purpose::DefaultClass
        | Purpose::Announce
        | Purpose::Unprotect
        | Purpose::Read(_)
        | Purpose::Complain(_)
        | Purpose::ContentFinalizer => return None,
    })
}
