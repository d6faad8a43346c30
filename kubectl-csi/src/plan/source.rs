//! A claim with a data source: a snapshot, another claim, or something else.

use sidecar::quantity::Quantity;
use sidecar::snapshot::ALLOW_MODE_CHANGE;

use super::snapshot;
use super::verdict::Finding;
use super::walk::{Lookup, Step, Walk};
use crate::model::{Claim, Class, Content, Kind, Populator, Ref, Snapshot};

pub(super) fn claim(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    class: &Class,
) -> Step {
    let Some(source) = claim.source() else {
        return Ok(());
    };
    let namespace = if source.namespace.is_empty() {
        &at.namespace
    } else {
        &*source.namespace
    };
    match (&*source.api_group, &*source.kind) {
        ("snapshot.storage.k8s.io", "VolumeSnapshot") => {
            let object = Ref::new(Kind::Snapshot, namespace, &source.name);
            of_snapshot(walk, at, depth, claim, class, &object)
        }
        ("", "PersistentVolumeClaim") => {
            let object = Ref::new(Kind::Claim, namespace, &source.name);
            of_claim(walk, at, depth, claim, &object)
        }
        (group, kind) => {
            let populators = walk.all::<Populator>()?;
            let known = populators
                .items
                .iter()
                .any(|one| one.source_kind.kind == kind && one.source_kind.group == group);
            if known || !populators.whole {
                return Ok(());
            }
            let text = format!(
                "The claim is to be filled from a {kind} ({group}), and no VolumePopulator in this cluster does that. Nobody says so in an event."
            );
            walk.tell(
                Finding::proved("C21", at, text)
                    .admin(format!("install the populator for {kind}"))
                    .you("or create the claim again without dataSourceRef"),
            )
        }
    }
}

/// Whether `size` is less than `least`; false if one is no quantity.
pub(super) fn is_less(size: &str, least: &str) -> bool {
    match (size.parse::<Quantity>(), least.parse::<Quantity>()) {
        (Ok(size), Ok(least)) => size.value() < least.value(),
        _ => false,
    }
}

/// C20: the snapshot cannot be used; C85: it does not fit the claim.
fn of_snapshot(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    class: &Class,
    object: &Ref,
) -> Step {
    let snapshot = match walk.get::<Snapshot>(&object.namespace, &object.name)? {
        Lookup::Found(snapshot) => snapshot,
        Lookup::Unseen => return Ok(()),
        Lookup::Missing => {
            if !walk.is_served(Kind::Snapshot, &object.namespace)? {
                return snapshot::not_served(walk, at, depth);
            }
            walk.at(depth, object, "does not exist");
            let text =
                format!("The claim is to be filled from the {object}, which does not exist.");
            return walk.tell(
                Finding::proved("C20", at, text)
                    .you("create the claim again from a snapshot that exists"),
            );
        }
    };
    if snapshot.metadata.is_leaving() && !snapshot.is_ready() {
        walk.at(depth, object, "is being deleted");
        let text = format!("The claim is to be filled from the {object}, which is being deleted.");
        return walk.tell(
            Finding::proved("C20", at, text).you("create the claim again from another snapshot"),
        );
    }
    if !snapshot.is_ready() {
        // The cause is whatever keeps the snapshot from being ready.
        let before = walk.causes.len();
        snapshot::snapshot(walk, object, depth)?;
        if walk.causes.len() == before {
            let text =
                format!("The claim is to be filled from the {object}, which is not ready yet.");
            walk.tell(
                Finding::proved("C20", at, text)
                    .you("nothing: the volume is created once the snapshot is ready"),
            )?;
        }
        return Ok(());
    }
    walk.at(depth, object, "is ready");
    fits(walk, at, claim, class, object, snapshot)
}

/// C85: the snapshot is ready, but does not fit the claim.
fn fits(
    walk: &mut Walk<'_>,
    at: &Ref,
    claim: &Claim,
    class: &Class,
    object: &Ref,
    snapshot: &Snapshot,
) -> Step {
    let restore = snapshot
        .status
        .as_ref()
        .map(|status| &*status.restore_size)
        .unwrap_or_default();
    let wanted = &*claim.spec.resources.requests.storage;
    if is_less(wanted, restore) {
        let text = format!("The claim asks for {wanted}, and the {object} needs {restore}.");
        return walk.tell(
            Finding::proved("C85", at, text)
                .you(format!("create the claim again with at least {restore}")),
        );
    }
    let Some(name) = snapshot.content() else {
        return Ok(());
    };
    let Lookup::Found(content) = walk.get::<Content>("", name)? else {
        return Ok(());
    };
    if content.spec.driver != *class.provisioner {
        let text = format!(
            "The {object} was taken by driver {}, and the claim's class makes volumes of {}.",
            content.spec.driver, class.provisioner
        );
        return walk.tell(Finding::proved("C85", at, text).you(format!(
            "create the claim again with a class of {}",
            content.spec.driver
        )));
    }
    let mode = |mode: &str| {
        if mode.is_empty() {
            "Filesystem".to_owned()
        } else {
            mode.to_owned()
        }
    };
    let (had, wants) = (
        mode(&content.spec.source_volume_mode),
        mode(&claim.spec.volume_mode),
    );
    let allowed = content.metadata.annotations.get(ALLOW_MODE_CHANGE) == Some("true");
    if had != wants && !content.spec.source_volume_mode.is_empty() && !allowed {
        let text = format!(
            "The {object} is of a volume in mode {had}, the claim asks for {wants}, and nobody has allowed the change."
        );
        let finding = Finding::proved("C85", at, text)
            .you(format!("create the claim again with volumeMode: {had}"))
            .admin("or allow the change")
            .command(format!(
                "kubectl annotate volumesnapshotcontent {name} {ALLOW_MODE_CHANGE}=true"
            ))
            .risk("whoever may create claims there can then read or write the volume's raw blocks");
        return walk.tell(finding);
    }
    Ok(())
}

/// C20: the source claim cannot be cloned.
fn of_claim(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim, object: &Ref) -> Step {
    let source = match walk.get::<Claim>(&object.namespace, &object.name)? {
        Lookup::Found(source) => source,
        Lookup::Unseen => return Ok(()),
        Lookup::Missing => {
            walk.at(depth, object, "does not exist");
            let text = format!("The claim is to be a copy of the {object}, which does not exist.");
            return walk.tell(
                Finding::proved("C20", at, text).you("create the claim again from one that exists"),
            );
        }
    };
    walk.at(depth, object, source.status.phase.to_lowercase());
    let (wanted, has) = (
        &*claim.spec.resources.requests.storage,
        &*source.status.capacity.storage,
    );
    let text = match () {
        () if source.status.phase != "Bound" => {
            format!("The claim is to be a copy of the {object}, which has no volume itself.")
        }
        () if is_less(wanted, has) => format!(
            "The claim asks for {wanted}, and the {object}, which it is to be a copy of, has {has}."
        ),
        () => return Ok(()),
    };
    walk.tell(
        Finding::proved("C20", at, text)
            .you("see why that claim has no volume, or ask for at least as much as it has"),
    )
}
