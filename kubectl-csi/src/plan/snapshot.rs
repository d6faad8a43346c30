//! Snapshots and their contents.

use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_IN_GROUP, SNAPSHOT_IN_USE};

use super::controller::{Presence, Role};
use super::delete::without_finalizer;
use super::index::about;
use super::seen::Record;
use super::store::By;
use super::verdict::Finding;
use super::walk::{Listed, Lookup, ObjectSelector, Step, Walk};
use super::words::{has, listed, nearest, span};
use super::{content, controller, journal, mount};
use crate::model::{Claim, Content, Kind, Ref, Snapshot, SnapshotClass, SnapshotError, Volume};

/// C75: the API server does not serve the snapshot kinds.
pub(super) fn not_served(walk: &mut Walk<'_>, at: &Ref, depth: usize) -> Step {
    walk.unfinished = true;
    walk.at(depth, at, "the cluster knows no snapshots");
    let text = "The API server has no VolumeSnapshots: the definitions of the snapshot API are not installed.";
    walk.tell(Finding::proved("C75", at, text).admin("install the definitions and one snapshot-controller for the cluster, and csi-snapshotter beside each driver that can take snapshots"))
}

/// A snapshot, group or content; reports a kind that the API server does not serve.
pub(super) fn served<'a, T: Record>(
    walk: &mut Walk<'a>,
    at: &Ref,
    depth: usize,
) -> Step<Option<&'a T>> {
    let missing = walk.get::<T>(&at.namespace, &at.name)?.is_missing();
    if missing && !walk.is_served(T::KIND, &at.namespace)? {
        return not_served(walk, at, depth).map(|()| None);
    }
    walk.subject::<T>(depth, at)
}

pub(super) fn snapshot(walk: &mut Walk<'_>, at: &Ref, depth: usize) -> Step {
    let Some(snapshot) = served::<Snapshot>(walk, at, depth)? else {
        return Ok(());
    };
    if depth == 0 {
        walk.since = snapshot.metadata.creation_timestamp.0;
    }
    if snapshot.metadata.is_leaving() {
        return leaving(walk, at, depth, snapshot);
    }
    if snapshot.is_ready() {
        walk.at(depth, at, "ready");
        let Some(name) = snapshot.content() else {
            return Ok(());
        };
        if walk.get::<Content>("", name)?.is_missing() {
            let text =
                format!("The {at} was ready, and its content {name} does not exist any more.");
            return walk.tell(
                Finding::proved("C76", at, text)
                    .you("take a new snapshot; this one cannot be restored"),
            );
        }
        return Ok(());
    }
    walk.unfinished = true;
    walk.at(depth, at, "not ready");
    if let Some(name) = snapshot.content() {
        let object = Ref::new(Kind::Content, "", name);
        if !walk.get::<Content>("", name)?.is_missing() {
            return content::content(walk, &object, depth + 1);
        }
        let text = format!("The {at} is to be of the content {name}, which does not exist.");
        return walk.tell(
            Finding::proved("C76", at, text)
                .admin(format!("create the VolumeSnapshotContent {name}"))
                .you("or take a new snapshot"),
        );
    }
    let driver = source(walk, at, depth + 1, snapshot)?;
    class(walk, at, snapshot, driver.as_deref())?;
    let error = snapshot
        .status
        .as_ref()
        .and_then(|status| status.error.as_ref());
    no_controller(walk, at, depth, "takes up VolumeSnapshots")?;
    if let Some(error) = error {
        return failed(walk, at, driver.as_deref(), error);
    }
    let events = walk.events(at)?;
    walk.last_words = mount::newest(&events, &[], |_| true).map(|event| event.message.to_string());
    Ok(())
}

/// C80: checks the source claim, and returns the driver of its volume.
fn source(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    snapshot: &Snapshot,
) -> Step<Option<String>> {
    let name = &*snapshot.spec.source.persistent_volume_claim_name;
    if name.is_empty() {
        return Ok(None);
    }
    let object = Ref::new(Kind::Claim, &at.namespace, name);
    let claim = walk.get::<Claim>(&at.namespace, name)?;
    let Lookup::Found(claim) = claim else {
        if claim.is_missing() {
            walk.at(depth, &object, "does not exist");
            let text = format!("The {at} is to be of the {object}, which does not exist.");
            walk.tell(
                Finding::proved("C80", at, text).you("take the snapshot of a claim that exists"),
            )?;
        }
        return Ok(None);
    };
    walk.at(depth, &object, claim.status.phase.to_lowercase());
    if claim.status.phase != "Bound" {
        let text = format!("The {at} is to be of the {object}, which has no volume yet.");
        walk.tell(
            Finding::proved("C80", at, text).you("see why the claim is not bound: kubectl csi why"),
        )?;
        return Ok(None);
    }
    let volume = walk.get::<Volume>("", &claim.spec.volume_name)?.found();
    let Some(volume) = volume else {
        return Ok(None);
    };
    let Some(driver) = volume.driver() else {
        let text =
            format!("The {at} is to be of the {object}, whose volume is not a CSI driver's.");
        walk.tell(
            Finding::proved("C80", at, text)
                .you("copy the data to a claim of a CSI driver; others have no snapshots"),
        )?;
        return Ok(None);
    };
    Ok(Some(driver.to_owned()))
}

/// C76, C79: checks the class.
fn class(walk: &mut Walk<'_>, at: &Ref, snapshot: &Snapshot, driver: Option<&str>) -> Step {
    let classes = walk.all::<SnapshotClass>()?;
    let name = snapshot.spec.volume_snapshot_class_name.as_deref();
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return match driver.filter(|_| classes.whole) {
            Some(driver) => default_class(walk, at, driver, &classes.items),
            None => Ok(()),
        };
    };
    let found = classes
        .items
        .iter()
        .find(|class| class.metadata.name == name);
    let text = match (found, driver) {
        (None, _) if classes.whole => {
            let near = nearest(name, classes.names());
            let near = near.map(|near| format!(" Did you mean {near}?"));
            format!(
                "The {at} names VolumeSnapshotClass {name}, which does not exist.{}",
                near.unwrap_or_default()
            )
        }
        (Some(class), Some(driver)) if class.driver != driver => {
            format!(
                "The {at} names VolumeSnapshotClass {name}, which is for driver {}, but the claim's volume is of {driver}.",
                class.driver
            )
        }
        _ => return Ok(()),
    };
    walk.tell(
        Finding::proved("C76", at, text)
            .you("take the snapshot again with a class of the claim's driver")
            .admin("or create the class"),
    )
}

/// C79: there is no default class, or more than one.
fn default_class(walk: &mut Walk<'_>, at: &Ref, driver: &str, classes: &[&SnapshotClass]) -> Step {
    let own = classes.iter().filter(|class| class.driver == driver);
    let name = |class: &&&SnapshotClass| class.metadata.name.to_string();
    let defaults: Vec<_> = own.clone().filter(|class| class.is_default()).collect();
    let defaults: Vec<_> = defaults.iter().map(name).collect();
    let text = match defaults.len() {
        1 => return Ok(()),
        0 => format!(
            "The {at} names no VolumeSnapshotClass, and none for driver {driver} is the default."
        ),
        _ => format!(
            "The {at} names no VolumeSnapshotClass, and there are several defaults for driver {driver}: {}.",
            listed(&defaults)
        ),
    };
    let own: Vec<_> = own.map(|class| &*class.metadata.name).collect();
    let you = match own.is_empty() {
        true => "take the snapshot again once there is a class".to_owned(),
        false => format!(
            "take the snapshot again with volumeSnapshotClassName: {}",
            own.join(" or ")
        ),
    };
    walk.tell(
        Finding::proved("C79", at, text)
            .you(you)
            .admin("mark exactly one class of the driver as the default"),
    )
}

/// C81: the driver's error, or a missing Secret.
pub(super) fn failed(
    walk: &mut Walk<'_>,
    at: &Ref,
    driver: Option<&str>,
    error: &SnapshotError,
) -> Step {
    let text = &*error.message;
    let since = error
        .time
        .0
        .map(|time| format!(" {} ago", span(walk.ago(time))))
        .unwrap_or_default();
    let who = driver.unwrap_or("the driver");
    if has(text, &["default class", "default snapshot class"]) {
        return walk.tell(
            Finding::said("C79", at, text, "No VolumeSnapshotClass could be chosen.")
                .admin("mark exactly one class of the driver as the default")
                .you("or name the class"),
        );
    }
    let words = format!("{who} could not take the snapshot{since}; it is tried again and again.");
    walk.tell(Finding::said("C81", at, text, words).driver("the text says what is in the way"))
}

/// C69, C83: a snapshot whose deletion does not finish.
fn leaving(walk: &mut Walk<'_>, at: &Ref, depth: usize, snapshot: &Snapshot) -> Step {
    walk.since = snapshot.metadata.deletion_timestamp.0;
    walk.unfinished = true;
    walk.at(depth, at, "is being deleted");
    let has_finalizer = |name: &str| snapshot.metadata.has_finalizer(name);
    let in_use = has_finalizer(SNAPSHOT_IN_USE);
    let claims = restored(walk, at, in_use)?;
    let made = claims.items.first().map(|claim| {
        let meta = &claim.metadata;
        Ref::new(Kind::Claim, &meta.namespace, &meta.name)
    });
    let restorable = in_use || snapshot.is_ready() || snapshot.is_lost();
    if let Some(object) = made.as_ref().filter(|_| restorable) {
        walk.at(depth + 1, object, "is made from it");
        let text = format!("The {at} is kept while the {object} is made from it.");
        walk.tell(
            Finding::proved("C83", at, text)
                .you("see why that claim does not get its volume (kubectl csi why), or delete it"),
        )?;
    } else if in_use {
        left_behind(walk, at, snapshot, claims.whole)?;
    }
    let group = snapshot
        .status
        .as_ref()
        .map(|status| &*status.volume_group_snapshot_name)
        .unwrap_or_default();
    if has_finalizer(SNAPSHOT_IN_GROUP) && !group.is_empty() {
        let object = Ref::new(Kind::GroupSnapshot, &at.namespace, group);
        walk.at(depth + 1, &object, "has it");
        let text = format!("The {at} is a member of the {object}, and goes only with it.");
        return walk.tell(Finding::proved("C83", at, text).you(format!(
            "delete the group snapshot {group}, if all its members may go"
        )));
    }
    if let Some(name) = snapshot.content()
        && let Lookup::Found(content) = walk.get::<Content>("", name)?
    {
        content::content_leaving(walk, &Ref::new(Kind::Content, "", name), depth + 1, content)?;
    }
    if let Some(object) = made.filter(|_| !restorable && has_finalizer(SNAPSHOT_AS_SOURCE)) {
        walk.at(depth + 1, &object, "is to be made from it");
        let text = format!(
            "The {at} was deleted before it was ready, and the {object} is to be made from it. Upstream's snapshot-controller keeps it until it is ready; that of this project lets it go."
        );
        walk.tell(Finding::guessed("C83", at, text).you(
            "delete that claim: it cannot get a volume from a snapshot that is being deleted",
        ))?;
    }
    no_controller(walk, at, depth, "takes snapshots away")
}

/// The unbound claims that have this snapshot as data source; those in other namespaces only if a provisioner's
/// finalizer protects it.
fn restored<'a>(walk: &mut Walk<'a>, at: &Ref, in_use: bool) -> Step<Listed<'a, Claim>> {
    let key = about(at.kind.name(), &at.namespace, &at.name);
    let own = ObjectSelector::of(&at.namespace);
    let selector = if in_use {
        ObjectSelector::all()
    } else {
        own.clone()
    };
    let mut claims = walk.by::<Claim>(&selector, By::Of, &key)?;
    if !claims.whole && in_use {
        // A user who may not list them all may still list those of the namespace.
        claims.items = walk.by::<Claim>(&own, By::Of, &key)?.items;
    }
    claims.items.retain(|claim| claim.status.phase != "Bound");
    Ok(claims)
}

/// C69: a provisioner's finalizer protects the snapshot, and no claim needs it. `whole`: the claims of all namespaces
/// were read.
fn left_behind(walk: &mut Walk<'_>, at: &Ref, snapshot: &Snapshot, whole: bool) -> Step {
    let (journal, all) = journal::of_source(walk, at)?;
    let sure = whole && all && journal.is_none();
    let (text, admin) = match &journal {
        Some(lease) => (
            format!(
                "The {at} is protected as the source of a claim. No claim is made from it, but {lease} has an open call for a volume of it."
            ),
            "csi-provisioner asks the driver again until the answer is final, then removes the finalizer: see its log",
        ),
        None if sure => (
            format!(
                "The {at} is protected as the source of a claim, and no claim is made from it: a restore that failed has left the finalizer behind."
            ),
            "csi-provisioner of this project removes it within an hour; upstream's does not: remove the finalizer",
        ),
        None => (
            format!(
                "The {at} is protected as the source of a claim, and none that is made from it could be seen: perhaps a restore that failed has left the finalizer behind."
            ),
            "look for claims of other namespaces that name it in dataSourceRef, and for open calls in csi-provisioner's journal, before anybody removes the finalizer",
        ),
    };
    let finding = Finding::proved_if(sure, "C69", at, text).admin(admin);
    let command = without_finalizer(at, &snapshot.metadata.finalizers, SNAPSHOT_IN_USE);
    walk.tell(match command.filter(|_| sure) {
        Some(command) => finding
            .command(command)
            .risk("a claim that is being made from it just then fails"),
        None => finding,
    })
}

/// C77: no snapshot-controller runs.
pub(super) fn no_controller(walk: &mut Walk<'_>, at: &Ref, depth: usize, does: &str) -> Step {
    let role = (Role::SnapshotController, "");
    if controller::check(walk, depth + 1, role.0, role.1)? != Presence::Absent {
        return Ok(());
    }
    let finding = controller::nobody(walk, "C77", at, role, does)?;
    walk.tell(finding.admin("install snapshot-controller once for the cluster; for group snapshots with the feature gate CSIVolumeGroupSnapshot"))
}
