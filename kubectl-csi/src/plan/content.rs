//! The contents of snapshots.

use sidecar::snapshot::{
    BEING_CREATED, CONTENT_BOUND, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE,
};

use super::controller;
use super::controller::{Presence, Role};
use super::snapshot::{failed, served};
use super::verdict::Finding;
use super::walk::{Lookup, Step, Walk};
use super::words::nearest;
use crate::model::{Content, Driver, Kind, Ref, Secret, Snapshot};

/// Explains a content: as the subject, or as the cause of a snapshot's waiting.
pub(super) fn content(walk: &mut Walk<'_>, at: &Ref, depth: usize) -> Step {
    let Some(content) = served::<Content>(walk, at, depth)? else {
        return Ok(());
    };
    if depth == 0 {
        walk.since = content.metadata.creation_timestamp.0;
    }
    let driver = &*content.spec.driver;
    let status = content.status.as_ref();
    if content.metadata.is_leaving() {
        return content_leaving(walk, at, depth, content);
    }
    if status.is_some_and(|status| status.ready_to_use) {
        walk.at(depth, at, "ready");
        return Ok(());
    }
    walk.unfinished = true;
    walk.at(depth, at, format!("not ready, of {driver}"));
    nobody(walk, at, depth, driver, "takes snapshots")?;
    match content.error() {
        Some(error) => failed(walk, at, Some(driver), error),
        None => being_created(walk, at, content),
    }
}

/// C78: no csi-snapshotter works for the driver.
fn nobody(walk: &mut Walk<'_>, at: &Ref, depth: usize, driver: &str, does: &str) -> Step {
    let role = (Role::Snapshotter, driver);
    if controller::check(walk, depth + 1, role.0, driver)? != Presence::Absent {
        return Ok(());
    }
    let names = walk.all::<Driver>()?.names();
    let near = nearest(driver, names.iter().copied()).filter(|_| !names.contains(&driver));
    let mut finding = controller::nobody(walk, "C78", at, role, does)?;
    if let Some(near) = near {
        finding.text.push_str(&format!(
            " A driver {near} is installed: is the name in the VolumeSnapshotClass right?"
        ));
    }
    walk.tell(finding.admin("run csi-snapshotter beside the driver's controller; or correct the driver's name in the VolumeSnapshotClass"))
}

/// C82: CreateSnapshot has no response yet.
fn being_created(walk: &mut Walk<'_>, at: &Ref, content: &Content) -> Step {
    let handle = content
        .status
        .as_ref()
        .map(|status| &*status.snapshot_handle)
        .unwrap_or_default();
    let leaving = content.metadata.deletion_timestamp.0;
    let old = walk.is_older(leaving.or(content.metadata.creation_timestamp.0), 120);
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
    walk.tell(finding)
}

/// C84: the driver refuses to delete the snapshot.
fn refused(walk: &mut Walk<'_>, at: &Ref, content: &Content) -> Step {
    let annotations = &content.metadata.annotations;
    let secret = annotations.get(DELETION_SECRET_NAME);
    if let Some((name, namespace)) = secret.zip(annotations.get(DELETION_SECRET_NAMESPACE))
        && walk.get::<Secret>(namespace, name)?.is_missing()
    {
        let object = Ref::new(Kind::Secret, namespace, name);
        let text = format!("The {at} names the {object} for its deletion, which does not exist.");
        walk.tell(
            Finding::proved("C84", at, text)
                .admin(format!("create the {object} again, under this name")),
        )?;
    }
    let Some(error) = content.error() else {
        return Ok(());
    };
    let driver = &content.spec.driver;
    let words =
        format!("{driver} does not delete the snapshot; csi-snapshotter asks again and again.");
    walk.tell(
        Finding::said("C84", at, &error.message, words).driver(
            "the text says what is in the way: often a volume that was made from the snapshot",
        ),
    )
}

/// C82 to C84: a content whose deletion does not finish.
pub(super) fn content_leaving(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    content: &Content,
) -> Step {
    let driver = &*content.spec.driver;
    let leaving = content.metadata.deletion_timestamp.0;
    walk.since = walk.since.or(leaving);
    walk.unfinished = true;
    walk.at(
        depth,
        at,
        if leaving.is_some() {
            "is being deleted"
        } else {
            "is to be deleted"
        },
    );
    nobody(walk, at, depth, driver, "deletes snapshots")?;
    refused(walk, at, content)?;
    being_created(walk, at, content)?;
    if content.metadata.has_finalizer(CONTENT_BOUND) && content.spec.deletion_policy == "Retain" {
        return Ok(());
    }
    let of = &content.spec.volume_snapshot_ref;
    let snapshot = walk.get::<Snapshot>(&of.namespace, &of.name)?;
    if let Lookup::Found(snapshot) = snapshot
        && snapshot.metadata.deletion_timestamp.0.is_none()
        && leaving.is_some()
    {
        let object = Ref::new(Kind::Snapshot, &of.namespace, &of.name);
        let text =
            format!("The {at} is being deleted, but the {object} still needs it and is not.");
        return walk.tell(Finding::proved("C83", at, text).you(format!(
            "delete the {object}, if the data of the snapshot may go"
        )));
    }
    Ok(())
}
