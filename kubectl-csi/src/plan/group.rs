//! Group snapshots.

use super::index::label;
use super::store::{By, within};
use super::verdict::Finding;
use super::walk::{Lookup, ObjectSelector, Step, Walk};
use super::words::{listed, span};
use super::{mount, snapshot};
use crate::model::{
    Claim, Crd, GroupClass, GroupContent, GroupSnapshot, Kind, Ref, Snapshot, Volume,
};

const DEFINITION: &str = "volumegroupsnapshots.groupsnapshot.storage.k8s.io";

pub(super) fn group(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let missing = walk
        .get::<GroupSnapshot>(&at.namespace, &at.name)?
        .is_missing();
    if missing && !walk.is_served(Kind::GroupSnapshot, &at.namespace)? {
        return not_served(walk, at);
    }
    let Some(group) = walk.subject::<GroupSnapshot>(0, at)? else {
        return Ok(());
    };
    walk.since = group.metadata.creation_timestamp.0;
    if group.metadata.is_leaving() {
        return leaving(walk, at, group);
    }
    if group
        .status
        .as_ref()
        .is_some_and(|status| status.ready_to_use)
    {
        walk.at(0, at, "ready");
        return Ok(());
    }
    walk.unfinished = true;
    walk.at(0, at, "not ready");
    old_definitions(walk, at)?;
    members(walk, at, group)?;
    snapshot::no_controller(walk, at, 0, "takes up group snapshots")?;
    failed(walk, at, group)
}

/// C86: the installed definitions lack the version that current snapshot programs request.
fn old_definitions(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let Some(definition) = walk.get::<Crd>("", DEFINITION)?.found() else {
        return Ok(());
    };
    let served: Vec<_> = { definition.spec.versions.iter() }
        .filter(|one| one.served)
        .map(|one| &*one.name)
        .collect();
    if served.contains(&"v1") {
        return Ok(());
    }
    let text = format!(
        "The group snapshot API is served only in {}: its definitions are older than what today's snapshot programs ask for.",
        listed(&served)
    );
    walk.tell(
        Finding::proved("C86", at, text).admin("install the newer definitions of the snapshot API"),
    )
}

/// C86: the error in the group's or its content's status.
fn failed(walk: &mut Walk<'_>, at: &Ref, group: &GroupSnapshot) -> Step {
    let status = group.status.as_ref();
    let content = status
        .map(|status| &*status.bound_volume_group_snapshot_content_name)
        .filter(|name| !name.is_empty());
    let mut error = status.and_then(|status| status.error.as_ref());
    if let Some(name) = content {
        let object = Ref::new(Kind::GroupContent, "", name);
        let found = walk.get::<GroupContent>("", name)?;
        walk.at(
            1,
            &object,
            if found.is_missing() {
                "does not exist"
            } else {
                "not ready"
            },
        );
        error = error.or(found
            .found()
            .and_then(|one| one.status.as_ref())
            .and_then(|status| status.error.as_ref()));
    }
    if let Some(error) = error.filter(|error| !error.message.is_empty()) {
        let since = error
            .time
            .0
            .map(|time| format!(" {} ago", span(walk.ago(time))))
            .unwrap_or_default();
        let text =
            format!("The group snapshot could not be taken{since}; it is tried again and again.");
        return walk.tell(
            Finding::said("C86", at, &error.message, text)
                .driver("the text says what is in the way; not every driver can take groups"),
        );
    }
    let events = walk.events(at)?;
    walk.last_words = mount::newest(&events, &[], |_| true).map(|event| event.message.to_string());
    if status.is_none() && walk.is_older(group.metadata.creation_timestamp.0, 120) {
        let text = "snapshot-controller runs and has not taken up the group snapshot: its feature gate CSIVolumeGroupSnapshot is probably off.";
        return walk.tell(Finding::guessed("C86", at, text).admin("start snapshot-controller and csi-snapshotter with --feature-gates=CSIVolumeGroupSnapshot=true"));
    }
    Ok(())
}

fn not_served(walk: &mut Walk<'_>, at: &Ref) -> Step {
    walk.unfinished = true;
    walk.at(0, at, "the cluster knows no group snapshots");
    let text = "The API server has no VolumeGroupSnapshots: their definitions are not installed, or none of the versions that this program knows is served.";
    walk.tell(Finding::proved("C86", at, text).admin("install the definitions of the group snapshot API, and snapshot-controller and csi-snapshotter with the feature gate CSIVolumeGroupSnapshot"))
}

/// C86: the claims that the group selects.
fn members(walk: &mut Walk<'_>, at: &Ref, group: &GroupSnapshot) -> Step {
    let Some(selector) = &group.spec.source.selector else {
        return Ok(());
    };
    let own = ObjectSelector::of(&at.namespace);
    let claims = match selector.label() {
        Some((name, value)) => {
            let key = label(&at.namespace, name, value);
            walk.by::<Claim>(&own, By::Label, &key)?
        }
        None => walk.list::<Claim>(&own)?,
    };
    let chosen: Vec<_> = claims
        .items
        .iter()
        .filter(|claim| selector.selects(&claim.metadata.labels))
        .collect();
    if chosen.is_empty() && claims.whole {
        let text = format!("The selector of the {at} chooses no claim of its namespace.");
        return walk.tell(
            Finding::proved("C86", at, text).you("correct the selector, or label the claims"),
        );
    }
    let mut drivers = Vec::new();
    for claim in &chosen {
        let object = Ref::new(Kind::Claim, &at.namespace, &claim.metadata.name);
        if claim.status.phase != "Bound" {
            walk.at(1, &object, "has no volume");
            let text = format!("The {at} is to have the {object}, which has no volume yet.");
            return walk.tell(
                Finding::proved("C80", at, text)
                    .you("see why the claim is not bound: kubectl csi why"),
            );
        }
        let volume = walk.get::<Volume>("", &claim.spec.volume_name)?.found();
        drivers.extend(volume.and_then(Volume::driver));
    }
    drivers.sort_unstable();
    drivers.dedup();
    if drivers.len() > 1 {
        let text = format!(
            "The selector of the {at} chooses claims of several drivers ({}), and a group is of one.",
            listed(&drivers)
        );
        return walk.tell(Finding::proved("C86", at, text).you("choose claims of one driver"));
    }
    let Some(name) = group.spec.volume_group_snapshot_class_name.as_deref() else {
        return Ok(());
    };
    let class = walk.get::<GroupClass>("", name)?;
    let text = match (class, drivers.first()) {
        (Lookup::Missing, _) => {
            format!("The {at} names VolumeGroupSnapshotClass {name}, which does not exist.")
        }
        (Lookup::Found(class), Some(driver)) if class.driver != **driver => {
            format!(
                "The {at} names VolumeGroupSnapshotClass {name}, which is for driver {}, but its claims are of {driver}.",
                class.driver
            )
        }
        _ => return Ok(()),
    };
    walk.tell(
        Finding::proved("C86", at, text)
            .admin("create the class for the claims' driver")
            .you("or name another class"),
    )
}

/// C83: explains why the deletion of a group does not finish.
fn leaving(walk: &mut Walk<'_>, at: &Ref, group: &GroupSnapshot) -> Step {
    walk.since = group.metadata.deletion_timestamp.0;
    walk.unfinished = true;
    walk.at(0, at, "is being deleted");
    let key = within(&at.namespace, &at.name);
    let members = walk.by::<Snapshot>(&ObjectSelector::of(&at.namespace), By::Group, &key)?;
    let Some(member) = members.items.first() else {
        return Ok(());
    };
    let object = Ref::new(Kind::Snapshot, &at.namespace, &member.metadata.name);
    if member.metadata.is_leaving() {
        return snapshot::snapshot(walk, &object, 1);
    }
    walk.at(1, &object, "is still there");
    let text = format!("The {at} goes only after its members, and the {object} is still there.");
    walk.tell(Finding::proved("C83", at, text).you("see what keeps that member: kubectl csi why"))
}
