//! Events and failures that follow from the reply to a request.

use sidecar::controller::request::Object as _;

use super::complaint::{Complaint, unwritten};
use super::reactor::{Event, Notice};
use super::request::{ApiError, Purpose, Write};
use super::subject::Subject;
use crate::model::{Head, Kind};

fn event(of: &Subject, warning: bool, reason: &'static str, message: String) -> Notice {
    Notice::Event(Box::new(Event {
        about: of.about(),
        warning,
        reason,
        message,
    }))
}

/// The events that report a failure.
pub(super) fn events(of: &Subject, complaint: &Complaint) -> impl Iterator<Item = Notice> {
    let one = (complaint.reason, complaint.message.clone());
    let all = complaint.also.clone().into_iter().chain([one]);
    all.map(move |(reason, message)| event(of, true, reason, message))
}

/// The events that report a success.
pub(super) fn success(of: &Subject, purpose: &Purpose) -> Vec<Notice> {
    let Some(head) = of.head() else {
        return Vec::new();
    };
    let (kind, key) = (head.kind, head.key());
    let (noun, capital) = (kind.noun(), kind.capital());
    let mut events = Vec::new();
    let mut add = |warning, reason, message| events.push(event(of, warning, reason, message));
    if let Purpose::Create { nowhere } = purpose {
        let message = format!("Waiting for a {noun} {key} to be created by the CSI driver.");
        let reason = kind.say("CreatingSnapshot", "CreatingGroupSnapshot");
        add(false, reason, message);
        if *nowhere {
            let message = "No node matches the volume's node affinity, so no csi-snapshotter will take this snapshot. Label the VolumeSnapshotContent with the node whose csi-snapshotter should take it";
            add(true, "SnapshotNodeNotFound", message.to_owned());
        }
    }
    if let Purpose::Status(progress) = purpose {
        if progress.created {
            let message = format!("{capital} {key} was successfully created by the CSI driver.");
            add(
                false,
                kind.say("SnapshotCreated", "GroupSnapshotCreated"),
                message,
            );
        }
        if progress.ready {
            let message = format!("{capital} {key} is ready to use.");
            add(
                false,
                kind.say("SnapshotReady", "GroupSnapshotReady"),
                message,
            );
        }
    }
    events
}

/// The failure to report after a write was refused; `None` if it is for the log alone.
pub(super) fn refusal(of: &Head<'_>, write: &Write, error: &ApiError) -> Option<Complaint> {
    let (kind, key) = (of.kind, of.key());
    let (noun, capital, content) = (kind.noun(), kind.capital(), kind.content().kind);
    let wrapped = unwritten(&key, error);
    Some(match &write.purpose {
        Purpose::Finalizers => Complaint::event(
            kind.say("SnapshotFinalizerError", "GroupSnapshotFinalizerError"),
            format!("Failed to check and update {noun}: {wrapped}"),
        ),
        Purpose::Protect => {
            let (_, name) = write.object.key().split_once('/').unwrap_or_default();
            Complaint::uncreated(kind, &unwritten(name, error))
        }
        Purpose::Release => Complaint::event(
            "ErrorPVCFinalizer",
            "Error check and remove PVC Finalizer for VolumeSnapshot",
        ),
        Purpose::Create { .. } => {
            let reason = kind.say(
                "CreateSnapshotContentFailed",
                "CreateGroupSnapshotContentFailed",
            );
            let message =
                format!("Error creating volume {noun} content object for {noun} {key}: {error}.");
            Complaint {
                also: Some((reason, message)),
                ..Complaint::uncreated(kind, &wrapped)
            }
        }
        Purpose::Bind => Complaint::unready(
            kind.say("SnapshotBindFailed", "GroupSnapshotBindFailed"),
            format!("{capital} failed to bind {content}, {error}"),
        ),
        Purpose::Delete => Complaint::event(
            kind.say(
                "SnapshotContentObjectDeleteError",
                "GroupSnapshotContentObjectDeleteError",
            ),
            format!("Failed to delete {noun} content API object"),
        ),
        Purpose::Member if kind == Kind::Group && of.deleting => {
            let member = write.object.key();
            let message = format!(
                "failed to delete snapshot API object {member} part of group snapshot {key}: {error}"
            );
            Complaint::event("SnapshotDeleteError", message)
        }
        Purpose::Member if kind == Kind::Single => return None,
        Purpose::Status(_) | Purpose::Member => Complaint::event(
            kind.say(
                "SnapshotStatusUpdateFailed",
                "GroupSnapshotStatusUpdateFailed",
            ),
            format!("{capital} status update failed, {wrapped}"),
        ),
        Purpose::DefaultClass
        | Purpose::Announce
        | Purpose::Unprotect
        | Purpose::Complain(_)
        | Purpose::ContentFinalizer => return None,
    })
}
