//! Group snapshots.

use super::index::label;
use super::store::{By, within};
use super::verdict::Finding;
use super::way::{Got, Step, Way, Which};
use super::words::{listed, span};
use super::{mount, snapshot};
use crate::model::{
    Claim, Crd, GroupClass, GroupContent, GroupSnapshot, Kind, Ref, Snapshot, Volume,
};

const DEFINITION: &str = "volumegroupsnapshots.groupsnapshot.storage.k8s.io";

pub(super) fn group(way: &mut Way<'_>, at: &Ref) -> Step {
    let missing = way
        .get::<GroupSnapshot>(&at.namespace, &at.name)?
        .is_missing();
    if missing && !way.is_served(Kind::GroupSnapshot, &at.namespace)? {
        return not_served(way, at);
    }
    let Some(group) = way.subject::<GroupSnapshot>(0, at)? else {
        return Ok(());
    };
    way.since = group.metadata.creation_timestamp.0;
    if group.metadata.is_leaving() {
        return leaving(way, at, group);
    }
    if group
        .status
        .as_ref()
        .is_some_and(|status| status.ready_to_use)
    {
        way.at(0, at, "ready");
        return Ok(());
    }
    way.unfinished = true;
    way.at(0, at, "not ready");
    old_definitions(way, at)?;
    members(way, at, group)?;
    snapshot::no_controller(way, at, 0, "takes up group snapshots")?;
    failed(way, at, group)
}

/// C86: the installed definitions lack the version that current snapshot programs request.
fn old_definitions(way: &mut Way<'_>, at: &Ref) -> Step {
    let Some(definition) = way.get::<Crd>("", DEFINITION)?.found() else {
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
    way.tell(
        Finding::proved("C86", at, text).admin("install the newer definitions of the snapshot API"),
    )
}

/// C86: the error in the group's or its content's status.
fn failed(way: &mut Way<'_>, at: &Ref, group: &GroupSnapshot) -> Step {
    let status = group.status.as_ref();
    let content = status
        .map(|status| &*status.bound_volume_group_snapshot_content_name)
        .filter(|name| !name.is_empty());
    let mut error = status.and_then(|status| status.error.as_ref());
    if let Some(name) = content {
        let object = Ref::new(Kind::GroupContent, "", name);
        let found = way.get::<GroupContent>("", name)?;
        way.at(
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
            .map(|time| format!(" {} ago", span(way.ago(time))))
            .unwrap_or_default();
        let text =
            format!("The group snapshot could not be taken{since}; it is tried again and again.");
        return way.tell(
            Finding::said("C86", at, &error.message, text)
                .driver("the text says what is in the way; not every driver can take groups"),
        );
    }
    let events = way.events(at)?;
    way.last_words = mount::newest(&events, &[], |_| true).map(|event| event.message.to_string());
    if status.is_none() && way.is_older(group.metadata.creation_timestamp.0, 120) {
        let text = "snapshot-controller runs and has not taken up the group snapshot: its feature gate CSIVolumeGroupSnapshot is probably off.";
        return way.tell(Finding::guessed("C86", at, text).admin("start snapshot-controller and csi-snapshotter with --feature-gates=CSIVolumeGroupSnapshot=true"));
    }
    Ok(())
}

fn not_served(way: &mut Way<'_>, at: &Ref) -> Step {
    way.unfinished = true;
    way.at(0, at, "the cluster knows no group snapshots");
    let text = "The API server has no VolumeGroupSnapshots: their definitions are not installed, or none of the versions that this program knows is served.";
    way.tell(Finding::proved("C86", at, text).admin("install the definitions of the group snapshot API, and snapshot-controller and csi-snapshotter with the feature gate CSIVolumeGroupSnapshot"))
}

/// C86: the claims that the group selects.
fn members(way: &mut Way<'_>, at: &Ref, group: &GroupSnapshot) -> Step {
    let Some(selector) = &group.spec.source.selector else {
        return Ok(());
    };
    let own = Which::of(&at.namespace);
    let claims = match selector.label() {
        Some((name, value)) => {
            let key = label(&at.namespace, name, value);
            way.by::<Claim>(&own, By::Label, &key)?
        }
        None => way.list::<Claim>(&own)?,
    };
    let chosen: Vec<_> = claims
        .items
        .iter()
        .filter(|claim| selector.selects(&claim.metadata.labels))
        .collect();
    if chosen.is_empty() && claims.whole {
        let text = format!("The selector of the {at} chooses no claim of its namespace.");
        return way.tell(
            Finding::proved("C86", at, text).you("correct the selector, or label the claims"),
        );
    }
    let mut drivers = Vec::new();
    for claim in &chosen {
        let object = Ref::new(Kind::Claim, &at.namespace, &claim.metadata.name);
        if claim.status.phase != "Bound" {
            way.at(1, &object, "has no volume");
            let text = format!("The {at} is to have the {object}, which has no volume yet.");
            return way.tell(
                Finding::proved("C80", at, text)
                    .you("see why the claim is not bound: kubectl csi why"),
            );
        }
        let volume = way.get::<Volume>("", &claim.spec.volume_name)?.found();
        drivers.extend(volume.and_then(Volume::driver));
    }
    drivers.sort_unstable();
    drivers.dedup();
    if drivers.len() > 1 {
        let text = format!(
            "The selector of the {at} chooses claims of several drivers ({}), and a group is of one.",
            listed(&drivers)
        );
        return way.tell(Finding::proved("C86", at, text).you("choose claims of one driver"));
    }
    let Some(name) = group.spec.volume_group_snapshot_class_name.as_deref() else {
        return Ok(());
    };
    let class = way.get::<GroupClass>("", name)?;
    let text = match (class, drivers.first()) {
        (Got::Missing, _) => {
            format!("The {at} names VolumeGroupSnapshotClass {name}, which does not exist.")
        }
        (Got::Found(class), Some(driver)) if class.driver != **driver => {
            format!(
                "The {at} names VolumeGroupSnapshotClass {name}, which is for driver {}, but its claims are of {driver}.",
                class.driver
            )
        }
        _ => return Ok(()),
    };
    way.tell(
        Finding::proved("C86", at, text)
            .admin("create the class for the claims' driver")
            .you("or name another class"),
    )
}

/// C83: explains why the deletion of a group does not finish.
fn leaving(way: &mut Way<'_>, at: &Ref, group: &GroupSnapshot) -> Step {
    way.since = group.metadata.deletion_timestamp.0;
    way.unfinished = true;
    way.at(0, at, "is being deleted");
    let key = within(&at.namespace, &at.name);
    let members = way.by::<Snapshot>(&Which::of(&at.namespace), By::Group, &key)?;
    let Some(member) = members.items.first() else {
        return Ok(());
    };
    let object = Ref::new(Kind::Snapshot, &at.namespace, &member.metadata.name);
    if member.metadata.is_leaving() {
        return snapshot::snapshot(way, &object, 1);
    }
    way.at(1, &object, "is still there");
    let text = format!("The {at} goes only after its members, and the {object} is still there.");
    way.tell(Finding::proved("C83", at, text).you("see what keeps that member: kubectl csi why"))
}
