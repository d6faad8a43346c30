//! Finds the snapshots that contents and groups name, and those that they may mean without naming them.

use std::collections::BTreeSet;

use super::named::{AuditedDriver, Cluster, WithoutHandle, at, key};
use super::seen::Record;
use super::walk::{Step, Walk};
use crate::model::{Content, GroupContent, GroupSnapshot, Meta, ObjectRef, Snapshot};

/// A snapshot whose content was deleted: its handle is unknown.
fn gone<T: Record>(cluster: &mut Cluster, snapshot: &T, content: &str) {
    let why = format!(
        "{} names the content {content}, which does not exist: this may be its snapshot",
        at(snapshot)
    );
    let without_handle = &mut cluster.snapshots.without_handle;
    without_handle.insert(key(snapshot), WithoutHandle::old(why));
}

/// The UIDs that show that a snapshot is new: those of its content and of the object that the content is for. Empty for
/// a pre-provisioned snapshot, or if that object is gone.
fn new_for(meta: &Meta, of: &ObjectRef, is_taken: bool, there: &BTreeSet<&str>) -> Vec<String> {
    let is_taken = is_taken && there.contains(&*of.uid);
    let uids = [&meta.uid, &of.uid].into_iter().filter(|_| is_taken);
    uids.map(ToString::to_string).collect()
}

pub(super) fn snapshots(
    walk: &mut Walk<'_>,
    audited: &AuditedDriver<'_>,
    cluster: &mut Cluster,
) -> Step {
    let driver = audited.driver;
    let there: BTreeSet<&str> = { walk.all::<Snapshot>()?.items.into_iter() }
        .map(|one| &*one.metadata.uid)
        .collect();
    for content in walk.all::<Content>()?.items {
        let (object, spec) = (at(content), &content.spec);
        let status = content.status.as_ref();
        let taken = status.map_or("", |status| &*status.snapshot_handle);
        for handle in [taken, &spec.source.snapshot_handle] {
            cluster
                .snapshots
                .add((&spec.driver, handle), driver, &object);
        }
        let named = &spec.source.snapshot_handle;
        if spec.driver == driver && !named.is_empty() {
            cluster.snapshots.by_hand.insert(named.to_string());
        }
        let source = spec.source.volume_handle.to_string();
        cluster.sources.insert(source, object.clone());
        if audited.is(&spec.driver) && content.handle().is_none() {
            let why = format!("{object} has no handle yet: this may be its snapshot");
            let is_taken = !spec.source.volume_handle.is_empty();
            let new_for = new_for(
                &content.metadata,
                &spec.volume_snapshot_ref,
                is_taken,
                &there,
            );
            let without_handle = &mut cluster.snapshots.without_handle;
            without_handle.insert(key(content), WithoutHandle::new(why, new_for));
        }
        cluster.uids.insert(content.metadata.uid.to_string());
        let uid = spec.volume_snapshot_ref.uid.to_string();
        cluster.names.push((uid, object.clone()));
        cluster.names.push((object.name.clone(), object));
    }
    groups(walk, audited, cluster)?;
    without_content(walk, cluster)?;
    // Contents without a source volume have an empty handle there.
    cluster.sources.remove("");
    Ok(())
}

fn groups(walk: &mut Walk<'_>, audited: &AuditedDriver<'_>, cluster: &mut Cluster) -> Step {
    let there: BTreeSet<&str> = { walk.all::<GroupSnapshot>()?.items.into_iter() }
        .map(|one| &*one.metadata.uid)
        .collect();
    for group in walk.all::<GroupContent>()?.items {
        let (object, own) = (at(group), &*group.spec.driver);
        for handle in group.snapshots() {
            cluster
                .snapshots
                .add((own, handle), audited.driver, &object);
        }
        for handle in group.volumes().chain(group.handle()) {
            cluster.sources.insert(handle.to_owned(), object.clone());
        }
        if (audited.is(own) || own.is_empty()) && group.snapshots().next().is_none() {
            let why = format!("{object} has no members yet: this may be one");
            let is_taken = group.spec.source.group_snapshot_handles.is_none();
            let of = &group.spec.volume_group_snapshot_ref;
            let new_for = new_for(&group.metadata, of, is_taken, &there);
            let without_handle = &mut cluster.snapshots.without_handle;
            without_handle.insert(key(group), WithoutHandle::new(why, new_for));
        }
        cluster.uids.insert(group.metadata.uid.to_string());
    }
    Ok(())
}

/// Adds the snapshots whose contents are gone.
fn without_content(walk: &mut Walk<'_>, cluster: &mut Cluster) -> Step {
    let snapshots = walk.all::<Snapshot>()?.items;
    let groups = walk.all::<GroupSnapshot>()?.items;
    let uids = { snapshots.iter().map(|one| &one.metadata.uid) }
        .chain(groups.iter().map(|one| &one.metadata.uid));
    cluster.uids.extend(uids.map(ToString::to_string));
    let are_whole = walk.all::<Content>()?.whole && walk.all::<GroupContent>()?.whole;
    for snapshot in snapshots.into_iter().filter(|_| are_whole) {
        let Some(content) = snapshot.content() else {
            continue;
        };
        if walk.get::<Content>("", content)?.is_missing() {
            gone(cluster, snapshot, content);
        }
    }
    for group in groups.into_iter().filter(|_| are_whole) {
        let status = group.status.as_ref();
        let content = status.map_or("", |status| {
            &*status.bound_volume_group_snapshot_content_name
        });
        if !content.is_empty() && walk.get::<GroupContent>("", content)?.is_missing() {
            gone(cluster, group, content);
        }
    }
    Ok(())
}
