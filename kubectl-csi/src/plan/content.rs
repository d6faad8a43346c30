//! The contents of snapshots.

use sidecar::snapshot::{
    BEING_CREATED, CONTENT_BOUND, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE,
};

use super::controller;
use super::controller::{Presence, Role};
use super::snapshot::{failed, not_served};
use super::verdict::Finding;
use super::way::{Got, Step, Way, Which};
use super::words::nearest;
use crate::model::{Content, Driver, Kind, Named, Ref, Snapshot};

/// The subject, or what a snapshot waits for.
pub(super) fn content(way: &mut Way<'_>, at: &Ref, depth: usize) -> Step {
    let content = match way.get::<Content>(Kind::Content, "", &at.name)? {
        Got::Found(content) => content,
        Got::Unseen => {
            way.at(depth, at, "may not be read");
            way.unfinished = true;
            return Ok(());
        }
        Got::Missing => {
            if !way.is_served(Kind::Content, "")? {
                return not_served(way, at, depth);
            }
            way.at(depth, at, "does not exist");
            way.absent = true;
            return Ok(());
        }
    };
    if depth == 0 {
        way.since = content.metadata.creation_timestamp.0;
    }
    let driver = &*content.spec.driver;
    let status = content.status.as_ref();
    if content.metadata.deletion_timestamp.0.is_some() {
        return content_leaving(way, at, depth, content);
    }
    if status.is_some_and(|status| status.ready_to_use) {
        way.at(depth, at, "ready");
        return Ok(());
    }
    way.unfinished = true;
    way.at(depth, at, format!("not ready, of {driver}"));
    let presence = controller::check(way, depth + 1, Role::Snapshotter, driver)?;
    if presence == Presence::Nobody {
        let drivers = way.list::<Driver>(Kind::Driver, &Which::all())?;
        let names: Vec<_> = drivers
            .items
            .iter()
            .map(|one| one.metadata.name.to_string())
            .collect();
        let near = nearest(driver, names.iter().map(String::as_str))
            .filter(|_| !names.iter().any(|name| name == driver));
        let near = near
            .map(|near| {
                format!(
                    " A driver {near} is installed: is the name in the VolumeSnapshotClass right?"
                )
            })
            .unwrap_or_default();
        let text = format!(
            "Nobody takes snapshots for driver {driver}: its csi-snapshotter holds no lease and runs in no workload that could be seen.{near}"
        );
        return way.tell(Finding::proved("C78", at, text).admin("run csi-snapshotter beside the driver's controller; or correct the driver's name in the VolumeSnapshotClass"));
    }
    if let Some(error) = status
        .and_then(|status| status.error.as_ref())
        .filter(|error| !error.message.is_empty())
    {
        return failed(way, at, Some(driver), error);
    }
    being_created(way, at, content)
}

/// C82: a call without an answer.
fn being_created(way: &mut Way<'_>, at: &Ref, content: &Content) -> Step {
    let handle = content
        .status
        .as_ref()
        .map(|status| &*status.snapshot_handle)
        .unwrap_or_default();
    let leaving = content.metadata.deletion_timestamp.0;
    let old = way.is_older(leaving.or(content.metadata.creation_timestamp.0), 120);
    if content.metadata.annotations.get(BEING_CREATED).is_none() || !handle.is_empty() || !old {
        return Ok(());
    }
    let text = format!(
        "A CreateSnapshot call of {} had no answer: a snapshot may exist in the storage. The content is kept until csi-snapshotter has asked again and got one.",
        content.spec.driver
    );
    let finding = Finding::proved("C82", at, text)
        .driver("see in its log what the call waits for")
        .admin("if csi-snapshotter is gone for good: look in the storage for the snapshot, then remove the annotation")
        .command(format!("kubectl annotate volumesnapshotcontent {} {BEING_CREATED}-", at.name))
        .risk("if a snapshot exists, nothing in the cluster names it any more");
    way.tell(finding)
}

/// C82 to C84: a content that does not go.
pub(super) fn content_leaving(
    way: &mut Way<'_>,
    at: &Ref,
    depth: usize,
    content: &Content,
) -> Step {
    let driver = &*content.spec.driver;
    let leaving = content.metadata.deletion_timestamp.0;
    way.since = way.since.or(leaving);
    way.unfinished = true;
    way.at(
        depth,
        at,
        if leaving.is_some() {
            "is being deleted"
        } else {
            "is to be deleted"
        },
    );
    if controller::check(way, depth + 1, Role::Snapshotter, driver)? == Presence::Nobody {
        let text = format!(
            "Nobody deletes snapshots of driver {driver}: its csi-snapshotter holds no lease and runs in no workload that could be seen."
        );
        return way.tell(
            Finding::proved("C78", at, text)
                .admin("run csi-snapshotter beside the driver's controller"),
        );
    }
    let annotations = &content.metadata.annotations;
    if let (Some(name), Some(namespace)) = (
        annotations.get(DELETION_SECRET_NAME),
        annotations.get(DELETION_SECRET_NAMESPACE),
    ) {
        let object = Ref::new(Kind::Secret, namespace, name);
        if way
            .get::<Named>(Kind::Secret, namespace, name)?
            .is_missing()
        {
            let text =
                format!("The {at} names the {object} for its deletion, which does not exist.");
            return way.tell(
                Finding::proved("C84", at, text)
                    .admin(format!("create the {object} again, under this name")),
            );
        }
    }
    let status = content.status.as_ref();
    if let Some(error) = status
        .and_then(|status| status.error.as_ref())
        .filter(|error| !error.message.is_empty())
    {
        let words =
            format!("{driver} does not delete the snapshot; csi-snapshotter asks again and again.");
        return way.tell(Finding::said("C84", at, &error.message, words).driver(
            "the text says what is in the way: often a volume that was made from the snapshot",
        ));
    }
    being_created(way, at, content)?;
    if content
        .metadata
        .finalizers
        .iter()
        .any(|one| *one == CONTENT_BOUND)
        && content.spec.deletion_policy == "Retain"
    {
        return Ok(());
    }
    let of = &content.spec.volume_snapshot_ref;
    let snapshot = way.get::<Snapshot>(Kind::Snapshot, &of.namespace, &of.name)?;
    if let Got::Found(snapshot) = snapshot
        && snapshot.metadata.deletion_timestamp.0.is_none()
        && leaving.is_some()
    {
        let object = Ref::new(Kind::Snapshot, &of.namespace, &of.name);
        let text =
            format!("The {at} is being deleted, but the {object} still needs it and is not.");
        return way.tell(Finding::proved("C83", at, text).you(format!(
            "delete the {object}, if the data of the snapshot may go"
        )));
    }
    Ok(())
}
