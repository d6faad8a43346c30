//! Claims and volumes whose deletion does not finish.

use sidecar::names;
use sidecar::snapshot::CLAIM_AS_SOURCE as SNAPSHOT_SOURCE;

use super::claim::of_claim;
use super::controller::{Presence, Role};
use super::index::about;
use super::schedule::{called, users};
use super::store::{By, within};
use super::verdict::Finding;
use super::walk::{Lookup, ObjectSelector, Step, Walk};
use super::words::{has, listed};
use super::{attach, controller, mount};
use crate::model::{Claim, Kind, Meta, Node, Ref, Snapshot, Text, Volume};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const CLONE_SOURCE: &str = "provisioner.storage.kubernetes.io/cloning-protection";
const PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// A command that removes the finalizer `name` alone: the API server refuses it if another finalizer has moved to that
/// index.
pub(super) fn without_finalizer(at: &Ref, finalizers: &[Text], name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
    let place = finalizers.iter().position(|one| *one == name)?;
    if !name.chars().all(plain) {
        return None;
    }
    let namespace = match &*at.namespace {
        "" => String::new(),
        namespace => format!("-n {namespace} "),
    };
    let path = format!("\"path\":\"/metadata/finalizers/{place}\"");
    Some(format!(
        "kubectl {namespace}patch {} {} --type=json -p '[{{\"op\":\"test\",{path},\"value\":\"{name}\"}},{{\"op\":\"remove\",{path}}}]'",
        at.kind.plural(),
        at.name
    ))
}

/// The volume that is deleted together with a claim, and how certain that is.
pub(super) fn deleted_with(
    walk: &mut Walk<'_>,
    claim: &Claim,
) -> Step<Option<VolumeDeletedWithClaim>> {
    let name = &*claim.spec.volume_name;
    if name.is_empty() {
        return Ok(None);
    }
    let at = Ref::new(Kind::Volume, "", name);
    let risk = match walk.get::<Volume>("", name)? {
        Lookup::Missing => return Ok(None),
        Lookup::Found(volume) if volume.spec.persistent_volume_reclaim_policy == "Retain" => {
            return Ok(None);
        }
        Lookup::Found(_) => format!(
            "the claim is deleted then, and with it the {at} and its data (reclaim policy Delete)"
        ),
        Lookup::Unseen => format!(
            "the claim is deleted then, and with it the {at} and its data, unless its reclaim policy is Retain"
        ),
    };
    Ok(Some(VolumeDeletedWithClaim { at, risk }))
}

/// A volume that is deleted together with its claim.
#[derive(Debug)]
pub(super) struct VolumeDeletedWithClaim {
    at: Ref,
    pub(super) risk: String,
}

impl VolumeDeletedWithClaim {
    /// Adds the commands that keep the volume, which have to be run first.
    pub(super) fn kept(&self, finding: Finding) -> Finding {
        finding
            .admin("to keep the data, do this first")
            .command(format!(
                "kubectl patch pv {} --type=merge -p '{{\"spec\":{{\"persistentVolumeReclaimPolicy\":\"Retain\"}}}}'",
                self.at.name
            ))
    }
}

/// C61 to C63: a claim that is being deleted.
pub(super) fn claim(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    walk.since = claim.metadata.deletion_timestamp.0;
    walk.unfinished = true;
    walk.at(depth, at, "is being deleted");
    let meta = &claim.metadata;
    let blind = meta.has_finalizer(CLAIM_PROTECTION) && !in_use(walk, at, depth, claim)?;
    if meta.has_finalizer(SNAPSHOT_SOURCE) || meta.has_finalizer(CLONE_SOURCE) {
        source(walk, at, depth)?;
    }
    let known = [CLAIM_PROTECTION, SNAPSHOT_SOURCE, CLONE_SOURCE];
    foreign(walk, at, &meta.finalizers, &known, blind)
}

/// C61: pods use the claim. Returns whether all pods could be read.
fn in_use(walk: &mut Walk<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step<bool> {
    let (mut pods, whole) = users(walk, at)?;
    // Kubernetes protects the claim only for pods that are bound to a node: no other pod can start with it any more.
    pods.retain(|pod| !pod.spec.node_name.is_empty());
    let Some(first) = pods.first() else {
        if !whole {
            walk.at(depth + 1, at, "whether a pod uses it could not be seen");
        }
        return Ok(whole);
    };
    let pod = super::pod::of(first);
    let names: Vec<_> = pods.iter().map(|pod| called(walk, pod)).collect();
    walk.at(depth + 1, &pod, "names it");
    let text = format!(
        "The {at} is deleted once no pod names it any more, pods that have ended included. Named by {}.",
        listed(&names)
    );
    let deleted_with = deleted_with(walk, claim)?;
    let finding = Finding::proved("C61", at, text);
    let finding = match &deleted_with {
        Some(deleted_with) => deleted_with.kept(finding),
        None => finding,
    };
    let finding = finding.you("delete that pod").command(format!(
        "kubectl -n {} delete pod {}",
        pod.namespace, pod.name
    ));
    let running = (!first.is_over()).then(|| "it is running; what it does ends".to_owned());
    let risks: Vec<_> = running
        .into_iter()
        .chain(deleted_with.map(|one| one.risk))
        .collect();
    let finding = match risks.is_empty() {
        true => finding,
        false => finding.risk(risks.join("; ")),
    };
    walk.tell(finding)?;
    Ok(whole)
}

/// C62: a snapshot or a clone is being created from the claim.
fn source(walk: &mut Walk<'_>, at: &Ref, depth: usize) -> Step {
    let own = ObjectSelector::of(&at.namespace);
    let snapshots = walk.by::<Snapshot>(&own, By::Of, &within(&at.namespace, &at.name))?;
    let key = about(at.kind.name(), &at.namespace, &at.name);
    let claims = walk.by::<Claim>(&own, By::Of, &key)?;
    let taken = snapshots.items.iter().filter(|one| !one.is_ready());
    let taken = taken.map(|one| (Kind::Snapshot, &one.metadata));
    let copied = claims.items.iter();
    let copied = copied.filter(|one| one.status.phase != "Bound");
    let copied = copied.map(|one| (Kind::Claim, &one.metadata));
    let waits: Vec<_> = { taken.chain(copied) }
        .map(|(kind, meta)| Ref::new(kind, &at.namespace, &meta.name))
        .collect();
    let text = match waits.first() {
        None => format!(
            "The {at} is protected as the source of a snapshot or copy, and what is made from it could not be found."
        ),
        Some(first) => {
            walk.at(depth + 1, first, "is made from it and not finished");
            let names: Vec<_> = waits.iter().map(ToString::to_string).collect();
            format!(
                "The {at} is the source of {}, which is not finished.",
                listed(&names)
            )
        }
    };
    let finding = Finding::proved_if(!waits.is_empty(), "C62", at, text);
    walk.tell(finding.you("see why that does not finish (kubectl csi why), or delete it"))
}

/// C63: a finalizer of another program. `blind`: the pods could not be read, so one may use the object.
fn foreign(
    walk: &mut Walk<'_>,
    at: &Ref,
    finalizers: &[Text],
    known: &[&str],
    blind: bool,
) -> Step {
    let Some(other) = finalizers
        .iter()
        .find(|one| !known.contains(&&***one) && !one.starts_with("external-attacher/"))
    else {
        return Ok(());
    };
    let mut text = format!(
        "The {at} is kept by the finalizer {other}, which is not Kubernetes' own: the program that put it there has to remove it."
    );
    if blind {
        text.push_str(" Whether a pod uses it, too, could not be seen.");
    }
    let finding = Finding::proved("C63", at, text)
        .admin("see whether that program runs, and what its log says")
        .admin("if it is gone for good: remove the finalizer");
    let finding = match without_finalizer(at, finalizers, other).filter(|_| !blind) {
        Some(command) => finding.command(command),
        None => finding,
    };
    walk.tell(finding.risk("what that program was to clean up stays behind"))
}

/// C47, C64, C68: a volume that is being deleted.
pub(super) fn volume(walk: &mut Walk<'_>, at: &Ref, depth: usize, volume: &Volume) -> Step {
    walk.since = volume.metadata.deletion_timestamp.0;
    walk.unfinished = true;
    walk.at(depth, at, "is being deleted");
    let finalizers = &volume.metadata.finalizers;
    let has_finalizer = |name: &str| volume.metadata.has_finalizer(name);
    if volume.status.phase == "Bound" && has_finalizer(VOLUME_PROTECTION) {
        let claim = volume
            .spec
            .claim_ref
            .as_ref()
            .map(of_claim)
            .unwrap_or_default();
        walk.at(depth + 1, at, format!("still bound to {claim}"));
        let text = format!("The {at} is still bound to the {claim}, and goes only after it.");
        return walk.tell(
            Finding::proved("C64", at, text)
                .you("delete the claim, if the data may go")
                .risk("with reclaim policy Delete the data is gone then"),
        );
    }
    let driver = volume.driver().unwrap_or_default();
    let own = names::finalizer(driver);
    let places = attach::places(walk, at)?;
    if !places.is_empty() {
        walk.at(depth + 1, at, format!("attached to {}", listed(&places)));
        attach::leaving(walk, at, depth + 1)?;
        let text = format!(
            "The {at} is still attached to {}, and goes only after that.",
            listed(&places)
        );
        return walk.tell(
            Finding::proved("C64", at, text)
                .you("end the pods that use it there")
                .admin("if no pod does: ask kubectl csi why about the attachment"),
        );
    }
    if has_finalizer(&own)
        && is_unattended(walk, &volume.metadata)
        && controller::check(walk, depth + 1, Role::Attacher, driver)? == Presence::Absent
    {
        return left_behind(walk, at, finalizers, driver);
    }
    if has_finalizer(PROVISIONER) {
        let events = walk.events(at)?;
        if let Some(event) = mount::newest(&events, &["VolumeFailedDelete"], |_| true) {
            return refused(walk, at, driver, &event.message);
        }
        controller::check(walk, depth + 1, Role::Provisioner, driver)?;
        if walk.is_older(volume.metadata.deletion_timestamp.0, 120) {
            let text = format!(
                "Only csi-provisioner's finalizer keeps the {at}, and no event says that the driver refuses. Older csi-provisioners can lose a race about this finalizer: they delete the volume in the storage and leave the PersistentVolume behind."
            );
            return walk.tell(Finding::guessed("C68", at, text).admin("newer sidecars").driver("see whether the volume still exists in the storage; if not, the finalizer can go"));
        }
    }
    foreign(
        walk,
        at,
        finalizers,
        &[VOLUME_PROTECTION, PROVISIONER],
        false,
    )
}

/// Whether a deletion has waited longer than a sidecar's replacement takes.
pub(super) fn is_unattended(walk: &Walk<'_>, meta: &Meta) -> bool {
    walk.is_older(meta.deletion_timestamp.0, 120)
}

/// C47: the attacher's finalizer is left, and no attacher runs.
pub(super) fn left_behind(
    walk: &mut Walk<'_>,
    at: &Ref,
    finalizers: &[Text],
    driver: &str,
) -> Step {
    walk.unfinished = true;
    let gone = controller::is_gone(walk, driver)?;
    let who = match gone {
        true => {
            format!("driver {driver} is not in this cluster any more: nobody is left to remove it")
        }
        false => format!("no csi-attacher of {driver} could be seen that would remove it"),
    };
    let own = names::finalizer(driver);
    let text = format!("The {at} is kept by the finalizer {own}, and {who}.");
    let finding = Finding::proved_if(gone, "C47", at, text)
        .admin("install the driver once more, let it clean up, then remove it again")
        .admin("if the volume is certainly not attached in the storage: remove the finalizer");
    let finding = match without_finalizer(at, finalizers, &own) {
        Some(command) => finding.command(command),
        None => finding,
    };
    let finding =
        finding.risk("if it is still attached there, a node can write to it that nobody watches");
    walk.tell(finding)
}

/// C65 to C67: a volume whose claim is gone.
pub(super) fn released(walk: &mut Walk<'_>, at: &Ref, depth: usize, volume: &Volume) -> Step {
    let claim = volume.spec.claim_ref.as_ref().map(of_claim);
    let claim = claim.unwrap_or_default();
    let phase = volume.status.phase.to_lowercase();
    walk.at(depth, at, format!("{phase}, was of {claim}"));
    if volume.spec.persistent_volume_reclaim_policy == "Retain" {
        return kept(walk, at, &claim);
    }
    walk.unfinished = true;
    if let Some(place) = attach::places(walk, at)?.first() {
        return attached(walk, at, depth, volume, place);
    }
    let Some(driver) = volume.driver() else {
        return Ok(());
    };
    let role = (Role::Provisioner, driver);
    if controller::check(walk, depth + 1, role.0, driver)? == Presence::Absent {
        let finding = controller::nobody(walk, "C66", at, role, "deletes volumes")?;
        return walk.tell(finding.admin(
            "run csi-provisioner beside the driver's controller, or install the driver once more, until its volumes are gone",
        ));
    }
    let events = walk.events(at)?;
    let failed = mount::newest(&events, &["VolumeFailedDelete"], |text| {
        !has(text, &["still attached"])
    });
    match failed {
        Some(event) => refused(walk, at, driver, &event.message),
        None => Ok(()),
    }
}

/// C67: the reclaim policy retains the volume.
fn kept(walk: &mut Walk<'_>, at: &Ref, claim: &str) -> Step {
    let text = format!(
        "The {claim} is gone, and the {at} is kept, since its reclaim policy is Retain. Nobody will touch it."
    );
    let finding = Finding::proved("C67", at, text).waits()
        .admin("to use it again: remove its claimRef, then name it in a new claim")
        .command(format!("kubectl patch pv {} --type=json -p '[{{\"op\":\"remove\",\"path\":\"/spec/claimRef\"}}]'", at.name))
        .risk("any claim that fits may then get it, with the old data on it")
        .admin("to be rid of it: delete it, and the volume in the storage, which Kubernetes leaves alone");
    walk.tell(finding)
}

/// C65: a volume is deleted only after it is detached.
fn attached(walk: &mut Walk<'_>, at: &Ref, depth: usize, volume: &Volume, place: &str) -> Step {
    walk.at(
        depth + 1,
        &Ref::new(Kind::Node, "", place),
        "has it attached",
    );
    attach::leaving(walk, at, depth + 1)?;
    let gone = match walk.get::<Node>("", place)?.is_missing() {
        true => ", which does not exist any more",
        false => "",
    };
    let text = format!("The {at} is deleted once it is detached from {place}{gone}.");
    let finding = Finding::proved("C65", at, text);
    let fresh = !walk.is_older(volume.status.last_phase_transition_time.0, 120);
    let finding = if fresh {
        finding.waits().you("nothing for a minute")
    } else {
        finding.admin(format!("if a pod on {place} still uses it, end the pod; else ask kubectl csi why about the attachment"))
    };
    walk.tell(finding)
}

/// C66: the driver refuses to delete the volume.
fn refused(walk: &mut Walk<'_>, at: &Ref, driver: &str, text: &str) -> Step {
    let words =
        format!("{driver} does not delete the volume; csi-provisioner asks again and again.");
    let finding = Finding::said("C66", at, text, words).driver("the text says what is in the way: often a snapshot or copy in the storage that depends on the volume");
    walk.tell(finding)
}
