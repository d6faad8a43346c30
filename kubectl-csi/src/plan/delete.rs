//! What does not go away: claims and volumes.

use sidecar::names;
use sidecar::snapshot::CLAIM_AS_SOURCE as SNAPSHOT_SOURCE;

use super::claim::of_claim;
use super::controller::{Presence, Role};
use super::schedule::{called, users};
use super::verdict::Finding;
use super::way::{Got, Step, Way, Which};
use super::words::{has, listed};
use super::{attach, controller, mount};
use crate::model::{Claim, Driver, Kind, Node, Ref, Snapshot, Text, Volume};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const CLONE_SOURCE: &str = "provisioner.storage.kubernetes.io/cloning-protection";
const PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// A command that removes the finalizer `name` and no other: the API server refuses it if another one has taken its place meanwhile.
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

/// The volume that goes with a claim, data and all, and how sure that is.
pub(super) fn doomed(way: &mut Way<'_>, claim: &Claim) -> Step<Option<Doomed>> {
    let name = &*claim.spec.volume_name;
    if name.is_empty() {
        return Ok(None);
    }
    let at = Ref::new(Kind::Volume, "", name);
    let risk = match way.get::<Volume>(Kind::Volume, "", name)? {
        Got::Missing => return Ok(None),
        Got::Found(volume) if volume.spec.persistent_volume_reclaim_policy == "Retain" => {
            return Ok(None);
        }
        Got::Found(_) => format!(
            "the claim is deleted then, and with it the {at} and its data (reclaim policy Delete)"
        ),
        Got::Unseen => format!(
            "the claim is deleted then, and with it the {at} and its data, unless its reclaim policy is Retain"
        ),
    };
    Ok(Some(Doomed { at, risk }))
}

/// A volume that goes with its claim.
#[derive(Debug)]
pub(super) struct Doomed {
    at: Ref,
    pub(super) risk: String,
}

impl Doomed {
    /// How to keep it, which has to be done first.
    pub(super) fn kept(&self, finding: Finding) -> Finding {
        finding
            .admin("to keep the data, do this first")
            .command(format!(
                "kubectl patch pv {} --type=merge -p '{{\"spec\":{{\"persistentVolumeReclaimPolicy\":\"Retain\"}}}}'",
                self.at.name
            ))
    }
}

/// C61 to C63.
pub(super) fn claim(way: &mut Way<'_>, at: &Ref, depth: usize, claim: &Claim) -> Step {
    way.since = claim.metadata.deletion_timestamp.0;
    way.unfinished = true;
    way.at(depth, at, "is being deleted");
    let finalizers = &claim.metadata.finalizers;
    let has_finalizer = |name: &str| finalizers.iter().any(|one| *one == name);
    let mut blind = false;
    if has_finalizer(CLAIM_PROTECTION) {
        let (mut pods, whole) = users(way, at)?;
        // Kubernetes protects a claim from its end for pods on nodes alone: no other can start any more.
        pods.retain(|pod| !pod.spec.node_name.is_empty());
        blind = !whole;
        if let Some(first) = pods.first() {
            let names: Vec<_> = pods.iter().map(|pod| called(way, pod)).collect();
            way.at(depth + 1, &super::pod::of(first), "names it");
            let text = format!(
                "The {at} is deleted once no pod names it any more, pods that have ended included. Named by {}.",
                listed(&names)
            );
            let pod = super::pod::of(first);
            let doomed = doomed(way, claim)?;
            let finding = Finding::proved("C61", at, text);
            let finding = match &doomed {
                Some(doomed) => doomed.kept(finding),
                None => finding,
            };
            let finding = finding.you("delete that pod").command(format!(
                "kubectl -n {} delete pod {}",
                pod.namespace, pod.name
            ));
            let running = (!first.is_over()).then(|| "it is running; what it does ends".to_owned());
            let risks: Vec<_> = running
                .into_iter()
                .chain(doomed.map(|one| one.risk))
                .collect();
            let finding = match risks.is_empty() {
                true => finding,
                false => finding.risk(risks.join("; ")),
            };
            way.tell(finding)?;
        } else if blind {
            way.at(depth + 1, at, "whether a pod uses it could not be seen");
        }
    }
    if has_finalizer(SNAPSHOT_SOURCE) || has_finalizer(CLONE_SOURCE) {
        let snapshots = way.list::<Snapshot>(Kind::Snapshot, &Which::of(&at.namespace))?;
        let claims = way.list::<Claim>(Kind::Claim, &Which::of(&at.namespace))?;
        let taken = snapshots.items.iter().filter(|one| {
            *one.spec.source.persistent_volume_claim_name == *at.name && !one.is_ready()
        });
        let mut waits: Vec<_> = taken
            .map(|one| Ref::new(Kind::Snapshot, &at.namespace, &one.metadata.name))
            .collect();
        let copied = claims.items.iter().filter(|one| {
            one.status.phase != "Bound"
                && one.source().is_some_and(|source| {
                    source.kind == "PersistentVolumeClaim" && source.name == *at.name
                })
        });
        waits.extend(copied.map(|one| Ref::new(Kind::Claim, &at.namespace, &one.metadata.name)));
        let names: Vec<_> = waits.iter().map(ToString::to_string).collect();
        if let Some(first) = waits.first() {
            way.at(depth + 1, first, "is made from it and not finished");
        }
        let text = match names.is_empty() {
            true => format!(
                "The {at} is protected as the source of a snapshot or copy, and what is made from it could not be found."
            ),
            false => format!(
                "The {at} is the source of {}, which is not finished.",
                listed(&names)
            ),
        };
        let finding = if names.is_empty() {
            Finding::guessed("C62", at, text)
        } else {
            Finding::proved("C62", at, text)
        };
        way.tell(finding.you("see why that does not finish (kubectl csi why), or delete it"))?;
    }
    let known = [CLAIM_PROTECTION, SNAPSHOT_SOURCE, CLONE_SOURCE];
    foreign(way, at, finalizers, &known, blind)
}

/// C63: somebody else's finalizer. `blind`: whether a pod uses the object could not be seen.
fn foreign(way: &mut Way<'_>, at: &Ref, finalizers: &[Text], known: &[&str], blind: bool) -> Step {
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
    way.tell(finding.risk("what that program was to clean up stays behind"))
}

/// A volume that is being deleted: C47, C64, C68.
pub(super) fn volume(way: &mut Way<'_>, at: &Ref, depth: usize, volume: &Volume) -> Step {
    way.since = volume.metadata.deletion_timestamp.0;
    way.unfinished = true;
    way.at(depth, at, "is being deleted");
    let finalizers = &volume.metadata.finalizers;
    let has_finalizer = |name: &str| finalizers.iter().any(|one| *one == name);
    if volume.status.phase == "Bound" && has_finalizer(VOLUME_PROTECTION) {
        let claim = volume
            .spec
            .claim_ref
            .as_ref()
            .map(of_claim)
            .unwrap_or_default();
        way.at(depth + 1, at, format!("still bound to {claim}"));
        let text = format!("The {at} is still bound to the {claim}, and goes only after it.");
        return way.tell(
            Finding::proved("C64", at, text)
                .you("delete the claim, if the data may go")
                .risk("with reclaim policy Delete the data is gone then"),
        );
    }
    let driver = volume.driver().unwrap_or_default();
    let own = names::finalizer(driver);
    let places = attach::places(way, at)?;
    if !places.is_empty() {
        way.at(depth + 1, at, format!("attached to {}", listed(&places)));
        attach::leaving(way, at, depth + 1)?;
        let text = format!(
            "The {at} is still attached to {}, and goes only after that.",
            listed(&places)
        );
        return way.tell(
            Finding::proved("C64", at, text)
                .you("end the pods that use it there")
                .admin("if no pod does: ask kubectl csi why about the attachment"),
        );
    }
    if has_finalizer(&own) {
        let known = way.get::<Driver>(Kind::Driver, "", driver)?;
        if controller::check(way, depth + 1, Role::Attacher, driver)? == Presence::Nobody {
            return left_behind(way, at, finalizers, driver, known.is_missing());
        }
    }
    if has_finalizer(PROVISIONER) {
        let events = way.events(at)?;
        if let Some(event) = mount::newest(&events, &["VolumeFailedDelete"], |_| true) {
            return refused(way, at, driver, &event.message);
        }
        controller::check(way, depth + 1, Role::Provisioner, driver)?;
        if way.is_older(volume.metadata.deletion_timestamp.0, 120) {
            let text = format!(
                "Only csi-provisioner's finalizer keeps the {at}, and no event says that the driver refuses. Older csi-provisioners lose a race for the finalizer and leave such volumes behind though the storage's part is gone."
            );
            return way.tell(Finding::guessed("C68", at, text).admin("newer sidecars").driver("see whether the volume still exists in the storage; if not, the finalizer can go"));
        }
    }
    foreign(
        way,
        at,
        finalizers,
        &[VOLUME_PROTECTION, PROVISIONER],
        false,
    )
}

/// C47: the attacher's finalizer, and no attacher.
pub(super) fn left_behind(
    way: &mut Way<'_>,
    at: &Ref,
    finalizers: &[Text],
    driver: &str,
    no_driver: bool,
) -> Step {
    way.unfinished = true;
    let gone = if no_driver {
        format!("driver {driver} is not in this cluster any more")
    } else {
        format!("nobody attaches and detaches for {driver} any more")
    };
    let own = names::finalizer(driver);
    let text = format!(
        "The {at} is kept by the finalizer {own}, and {gone}: nobody is left to remove it."
    );
    let finding = Finding::proved("C47", at, text)
        .admin("install the driver once more, let it clean up, then remove it again")
        .admin("if the volume is certainly not attached in the storage: remove the finalizer");
    let finding = match without_finalizer(at, finalizers, &own) {
        Some(command) => finding.command(command),
        None => finding,
    };
    let finding =
        finding.risk("if it is still attached there, a node can write to it that nobody watches");
    way.tell(finding)
}

/// A volume whose claim is gone: C65 to C67.
pub(super) fn released(way: &mut Way<'_>, at: &Ref, depth: usize, volume: &Volume) -> Step {
    let claim = volume
        .spec
        .claim_ref
        .as_ref()
        .map(of_claim)
        .unwrap_or_default();
    way.at(
        depth,
        at,
        format!("{}, was of {claim}", volume.status.phase.to_lowercase()),
    );
    if volume.spec.persistent_volume_reclaim_policy == "Retain" {
        let text = format!(
            "The {claim} is gone, and the {at} is kept, since its reclaim policy is Retain. Nobody will touch it."
        );
        let finding = Finding::proved("C67", at, text).waits()
            .admin("to use it again: remove its claimRef, then name it in a new claim")
            .command(format!("kubectl patch pv {} --type=json -p '[{{\"op\":\"remove\",\"path\":\"/spec/claimRef\"}}]'", at.name))
            .risk("any claim that fits may then get it, with the old data on it")
            .admin("to be rid of it: delete it, and the volume in the storage, which Kubernetes leaves alone");
        return way.tell(finding);
    }
    way.unfinished = true;
    let driver = volume.driver().unwrap_or_default();
    let places = attach::places(way, at)?;
    if let Some(place) = places.first() {
        way.at(
            depth + 1,
            &Ref::new(Kind::Node, "", place),
            "has it attached",
        );
        attach::leaving(way, at, depth + 1)?;
        let gone = way.get::<Node>(Kind::Node, "", place)?.is_missing();
        let text = format!(
            "The {at} is deleted once it is detached from {place}{}.",
            if gone {
                ", which does not exist any more"
            } else {
                ""
            }
        );
        let finding = Finding::proved("C65", at, text);
        let fresh = !way.is_older(volume.status.last_phase_transition_time.0, 120);
        let finding = if fresh {
            finding.waits().you("nothing for a minute")
        } else {
            finding.admin(format!("if a pod on {place} still uses it, end the pod; else ask kubectl csi why about the attachment"))
        };
        return way.tell(finding);
    }
    let provisioner = match volume.driver() {
        Some(driver) => driver,
        None => return Ok(()),
    };
    let presence = controller::check(way, depth + 1, Role::Provisioner, provisioner)?;
    let events = way.events(at)?;
    let failed = mount::newest(&events, &["VolumeFailedDelete"], |text| {
        !has(text, &["still attached"])
    });
    if presence == Presence::Nobody {
        let known = way.get::<Driver>(Kind::Driver, "", driver)?;
        let text = format!(
            "Nobody deletes volumes of {driver}: {}.",
            if known.is_missing() {
                "the driver is not in this cluster any more"
            } else {
                "its csi-provisioner holds no lease and runs in no workload that could be seen"
            }
        );
        return way.tell(
            Finding::proved("C66", at, text)
                .admin("install the driver once more, until its volumes are gone"),
        );
    }
    match failed {
        Some(event) => refused(way, at, driver, &event.message),
        None => Ok(()),
    }
}

/// C66: the driver refuses.
fn refused(way: &mut Way<'_>, at: &Ref, driver: &str, text: &str) -> Step {
    let words =
        format!("{driver} does not delete the volume; csi-provisioner asks again and again.");
    let finding = Finding::said("C66", at, text, words).driver("the text says what is in the way: often a snapshot or copy in the storage that depends on the volume");
    way.tell(finding)
}
